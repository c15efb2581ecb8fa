// SPDX-License-Identifier: Apache-2.0
//! Taking a host out of the cluster that is not coming back.
//!
//! Its record gives way to one that says so for ever. From then on nobody waits for it: it counts
//! neither among the hosts nor among the missing ones, its copies are made again without a delay,
//! and its daemon does not start again. The records of objects are not touched here: their owners
//! take its components out one by one (rules 38-40).

use super::volumes::{DECIDE_MAX, Undecided, decide, directory_away};
use super::{Operations, Outcome, failed, missing, usage};
use crate::cluster::seen::Answers;
use base::{ObjectId, Set, ShardId};
use directory::{
    ComponentState, Entry, Expect, ORPHAN_PREFIX, ObjectRecord, OrphanRecord, RemovedShardRecord,
    ShardRecord, Transaction, VolumeRecord,
};
use operator::RemovalReport;
use tracing::warn;

/// Volumes that are named in a refusal.
const NAMED_MAX: usize = 8;

/// What hosts have in the directory's records.
#[derive(Default)]
struct Holding {
    /// Copies.
    copies: u64,
    /// Objects of which they have one.
    some: Set<ObjectId>,
    /// Objects of which no other member has a whole one.
    only: Set<ObjectId>,
}

/// The names of volumes, the first few spelled out.
pub(super) fn named(mut names: Vec<String>) -> String {
    names.sort_unstable();
    let (count, more) = (names.len(), names.len().saturating_sub(NAMED_MAX));
    names.truncate(NAMED_MAX);
    let named = names.join(", ");
    match (count, more) {
        (0, _) => "a volume that is being made or deleted".to_owned(),
        (1, _) => format!("volume {named}"),
        (_, 0) => format!("volumes {named}"),
        (_, more) => format!("volumes {named} and {more} more"),
    }
}

impl Operations {
    /// Takes a host that is down out of the cluster, with all its shards; one that has copies only
    /// where `is_lost` says that they are gone for good.
    pub(super) async fn remove_host(&self, name: &str, is_lost: bool) -> Outcome<RemovalReport> {
        let members = self.members(name)?;
        let ids: Vec<ShardId> = members.iter().map(|shard| shard.id).collect();
        let is_there =
            |id: ShardId| self.seen.host(id) == Answers::Yes || self.view.alive(id).is_some();
        if ids.iter().any(|id| is_there(*id)) {
            return Err(failed(format!(
                "{name} is up: end its daemon first (systemctl disable --now gabion on that \
                 machine), and try again some seconds later"
            )));
        }
        let holding = self.holding(&ids).await?;
        if !holding.only.is_empty() {
            return Err(failed(format!(
                "{name} has the only whole copy of {}, which would be lost: start it again, and \
                 wait until 'gabion volume list' shows these as green; or go on from older copies \
                 ('gabion volume recover'), or delete them ('gabion volume delete')",
                self.volumes_with(&holding.only).await?
            )));
        }
        if !holding.some.is_empty() && !is_lost {
            return Err(failed(format!(
                "{name} has copies of {}: move them while it is up ('gabion volume move NAME \
                 --from {name}'), or, if it is gone for good, say --lost: they are made again \
                 from the other ones",
                self.volumes_with(&holding.some).await?
            )));
        }
        for shard in &members {
            self.put_removed(shard.id, &shard.name).await?;
            self.forget_orphans(shard.id).await;
        }
        Ok(RemovalReport { host: name.to_owned(), copies: holding.copies })
    }

    /// What these hosts have together.
    async fn holding(&self, shards: &[ShardId]) -> Outcome<Holding> {
        let members: Set<ShardId> = self.view.shards().into_iter().map(|shard| shard.id).collect();
        let mut holding = Holding::default();
        for record in self.all_objects().await? {
            let here = record.components.iter().filter(|one| shards.contains(&one.shard));
            let copies: u64 = here.map(|_| 1).sum();
            if copies == 0 {
                continue;
            }
            holding.copies += copies;
            holding.some.insert(record.id);
            let is_whole = |state| state == ComponentState::Active;
            let is_elsewhere = record
                .components
                .iter()
                .filter(|one| !shards.contains(&one.shard) && members.contains(&one.shard))
                .any(|one| is_whole(one.state));
            if !is_elsewhere {
                holding.only.insert(record.id);
            }
        }
        Ok(holding)
    }

    /// What a name is of: one shard of a host, or all of a host, by number. There is one at least.
    pub(crate) fn members(&self, name: &str) -> Outcome<Vec<ShardRecord>> {
        placement::check_name(name)
            .map_err(|_| usage(format!("'{name}' is not a host's name: see 'gabion host list'")))?;
        let all = self.view.shards();
        if let Some(one) = all.into_iter().find(|shard| shard.name == name) {
            return Ok(vec![one]);
        }
        match self.view.hosts_of(name) {
            members if !members.is_empty() => Ok(members),
            _ if self.view.is_removed(name) => {
                Err(failed(format!("{name} was taken out of the cluster already")))
            }
            _ => Err(missing(format!("there is no host '{name}': see 'gabion host list'"))),
        }
    }

    /// The records of all objects, as the directory has them now.
    pub(super) async fn all_objects(&self) -> Outcome<Vec<ObjectRecord>> {
        let listed = self.directory.list(directory::OBJECT_PREFIX).await.map_err(directory_away)?;
        let decoded = listed.entries.into_iter().map(|(key, entry)| {
            ObjectRecord::decode(&entry.value).map_err(|error| {
                failed(format!("the record at {key} cannot be read ({error}): nothing was changed"))
            })
        });
        decoded.collect()
    }

    /// The names of the volumes with one of these objects, the first few spelled out.
    async fn volumes_with(&self, objects: &Set<ObjectId>) -> Outcome<String> {
        let listed = self.directory.list(directory::VOLUME_PREFIX).await.map_err(directory_away)?;
        let volumes = listed.entries.into_iter();
        let volumes = volumes.filter_map(|(_, entry)| VolumeRecord::decode(&entry.value).ok());
        let has_one = |volume: &VolumeRecord| volume.objects.iter().any(|id| objects.contains(id));
        Ok(named(volumes.filter(has_one).map(|volume| volume.title()).collect()))
    }

    async fn put_removed(&self, id: ShardId, name: &str) -> Outcome<()> {
        let (host, removed) = (directory::host_key(id), directory::removed_key(id));
        let record = RemovedShardRecord { id, name: name.to_owned() };
        // A host that starts meanwhile has written one of both.
        let entry = self.directory.get(&host).await.map_err(directory_away)?;
        let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        let transaction = Transaction::new()
            .expect(host.clone(), expect)
            .expect(directory::alive_key(id), Expect::Absent)
            .put(removed.clone(), record.encode())
            .delete(host);
        let until = self.env.now() + DECIDE_MAX;
        let landed = |entry: Option<&Entry>| entry.is_some();
        match decide(&self.env, &self.directory, &transaction, &removed, landed, until).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(failed(format!("{name} has just come up: it was not removed"))),
            Err(Undecided::Away(error)) => Err(directory_away(error)),
            Err(Undecided::Unknown) => Err(failed(format!(
                "the directory does not answer: it is unknown whether {name} was removed, and it \
                 may still happen; see 'gabion host list' when the directory is reachable again"
            ))),
        }
    }

    /// What the host said that it holds and no record accounts for: it can never be adopted.
    async fn forget_orphans(&self, shard: ShardId) {
        let Ok(listed) = self.directory.list(ORPHAN_PREFIX).await else { return };
        for (key, entry) in listed.entries {
            let is_its = OrphanRecord::decode(&entry.value).is_ok_and(|it| it.shard == shard);
            if !is_its {
                continue;
            }
            if let Err(error) = self.directory.transact(Transaction::new().delete(&key)).await {
                warn!(key, %error, "what a removed host held is still listed");
            }
        }
    }
}
