// SPDX-License-Identifier: Apache-2.0
//! Draws the picture that a plan is made from: hosts and fault domains as the directory has them,
//! hosts that gave a sign of life and stay, members and how each is.

use super::look::Listed;
use super::plan::{Host, Member, Picture};
use base::ShardId;
use directory::{DomainsRecord, MaintenanceRecord, ShardRecord, domains_key, maintenance_key};
use etcd_client::{Client, GetOptions};
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys of signs of life: a host's name behind it, where its member would answer others in it. They
/// are bound to a lease of the host's.
const SIGN_PREFIX: &str = "/gabion-members/";
/// Records of one kind that are read. There are not so many.
const RECORDS_MAX: i64 = 4096;
/// Bytes of the longest URL.
const URL_BYTES_MAX: usize = 128;

/// The key of a host's sign of life.
pub fn sign_key(host: &str) -> String {
    format!("{SIGN_PREFIX}{host}")
}

/// A picture, and where the members of ready hosts would be.
pub struct Drawn {
    /// What the plan is made from.
    pub picture: Picture,
    /// Host to URL.
    pub urls: BTreeMap<String, String>,
}

/// Draws it. `None` where anything that it needs is missing or cannot be read: no plan is better
/// than one that believes hosts to be gone.
pub async fn draw(
    client: &Client,
    listed: &[Listed],
    leader: u64,
    silent: impl Fn(u64) -> Option<Duration>,
    patience: Duration,
) -> Option<Drawn> {
    let signs = read(client, SIGN_PREFIX).await?;
    let url = |(key, value): (String, Vec<u8>)| {
        let url = String::from_utf8(value).ok().filter(|url| is_url(url))?;
        Some((key.strip_prefix(SIGN_PREFIX)?.to_owned(), url))
    };
    let urls: BTreeMap<String, String> = signs.into_iter().filter_map(url).collect();
    let domains = read(client, &domains_key()).await?;
    let domains = match domains.first() {
        Some((_, value)) => DomainsRecord::decode(value).ok()?,
        None => DomainsRecord::default(),
    };
    let stopping = read(client, &maintenance_key()).await?;
    let stopping = match stopping.first() {
        Some((_, value)) => MaintenanceRecord::decode(value).ok()?,
        None => MaintenanceRecord::default(),
    };
    let shards = read(client, directory::HOST_PREFIX).await?;
    let shards = shards.iter().map(|(_, value)| ShardRecord::decode(value).ok());
    let shards = shards.collect::<Option<Vec<_>>>()?;
    // A host that is about to be stopped gets nothing new.
    let is_ready = |name: &String, shard| urls.contains_key(name) && stopping.mode(shard).is_none();
    let hosts = hosts(shards, &domains, is_ready);
    if hosts.is_empty() {
        return None; // no cluster, or one that was lost
    }
    let host_of = |member: &Listed| match member.name.is_empty() {
        false => Some(member.name.clone()),
        // It was never started.
        true => urls.iter().find(|(_, url)| **url == member.member_url).map(|it| it.0.clone()),
    };
    let member = |it: &Listed| Member {
        id: it.id,
        host: host_of(it),
        is_voter: !it.is_learner,
        is_leader: it.id == leader,
        silent: silent(it.id),
    };
    let members = listed.iter().map(member).collect();
    Some(Drawn { picture: Picture { hosts, members, patience }, urls })
}

fn is_url(text: &str) -> bool {
    let is_of_ours = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    text.len() <= URL_BYTES_MAX && is_of_ours
}

/// The hosts whose shards these are.
fn hosts(
    shards: Vec<ShardRecord>,
    domains: &DomainsRecord,
    is_ready: impl Fn(&String, ShardId) -> bool,
) -> Vec<Host> {
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    for shard in shards {
        let name = shard.machine.unwrap_or(shard.name);
        let (domains, is_ready) = (domains.path(shard.id), is_ready(&name, shard.id));
        let host = Host { name: name.clone(), rank: shard.id.0, domains, is_ready };
        let known = hosts.entry(name).or_insert_with(|| host.clone());
        if host.rank < known.rank {
            *known = host;
        }
    }
    hosts.into_values().collect()
}

/// All keys with this prefix, and their values. `None`: not all could be read.
async fn read(client: &Client, prefix: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let options = GetOptions::new().with_prefix().with_limit(RECORDS_MAX);
    let answer = client.kv_client().get(prefix, Some(options)).await.ok()?;
    if answer.more() {
        return None;
    }
    let pair = |pair: &etcd_client::KeyValue| {
        Some((String::from_utf8(pair.key().to_vec()).ok()?, pair.value().to_vec()))
    };
    answer.kvs().iter().map(pair).collect()
}
