// SPDX-License-Identifier: Apache-2.0
//! Creates a cluster of several machines, or joins one. Both only write this host's configuration;
//! the daemon (`systemctl start gabion`) does the rest.
//!
//! A host gets a shard for each of its disk groups, if not told otherwise: one thread each.

use crate::Fail;
use crate::args::{Cli, CreateArgs, HostArgs, JoinArgs, Output};
use crate::config::{CONFIG_DEFAULT, HostFiles, ShardFile, write_host};
use crate::devices::{check_devices, format_groups};
use crate::output::say;
use anyhow::{Context, Result};
use api::Invitation;
use control::{ControlError, Endpoints, Keeping, MemberFile};
use diskgroup::CreateSizes;
use env::{Address, Env, Fifo};
use host::{
    ClusterKind, HostConfig, MemoryConfig, NewCluster, NewMember, RegisterError, SocketConfig,
    Tuning,
};
use keys::{Authority, KeyError};
use operator::GroupConfig;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Shards of a host, at most.
const SHARDS_MAX: usize = 8;
/// How long a directory that does not answer is asked: members that lost their leader elect
/// another one in two seconds, in a few on a machine that is busy.
const DIRECTORY_MAX: Duration = Duration::from_secs(15);

/// `gabion cluster create`.
pub fn create(cli: &Cli, create: &CreateArgs) -> Result<()> {
    let host = &create.host;
    let (path, new) = (new_config(cli)?, Some(create.kind));
    if !host.etcd.is_empty() {
        return enrol(cli, host, &path, new, Keeping::Given(host.etcd.clone()));
    }
    let keys = folder(&path)?;
    let had_keys = Authority::open(keys).is_ok();
    Authority::create(keys)?;
    let (file, process) = control::begin_directory(&own_part(host)?.encrypted(keys))?;
    let made = enrol(cli, host, &path, new, Keeping::Own(file));
    drop(process);
    if made.is_err() {
        // Nobody knows of it yet: the next attempt begins again.
        let _ = std::fs::remove_dir_all(&host.directory_dir);
        if !had_keys {
            Authority::remove(keys);
        }
    }
    made
}

/// `gabion host join`.
pub fn join(cli: &Cli, join: &JoinArgs) -> Result<()> {
    let host = &join.host;
    let path = new_config(cli)?;
    if !host.etcd.is_empty() {
        return enrol(cli, host, &path, None, Keeping::Given(host.etcd.clone()));
    }
    let file = own_part(host)?;
    let directory = match &join.invitation {
        Some(invitation) => accept(invitation, host, &path)?,
        None => join.directory.clone(),
    };
    let joined = join_at(cli, host, &path, file, &directory);
    joined.map_err(|error| match join.invitation {
        Some(_) => error.context(format!(
            "the invitation is used up and has done its part: to go on, give '{}' in its place",
            as_flags(&directory)
        )),
        None => error,
    })
}

/// What says on the command line that the directory answers at these URLs.
fn as_flags(directory: &[String]) -> String {
    let flag = |url: &String| format!("--directory {}", url.trim_start_matches("https://"));
    directory.iter().map(flag).collect::<Vec<_>>().join(" ")
}

/// Makes this machine a host of the cluster whose directory answers at the URLs `directory`.
fn join_at(
    cli: &Cli,
    host: &HostArgs,
    path: &Path,
    file: MemberFile,
    directory: &[String],
) -> Result<()> {
    let keys = folder(path)?;
    let endpoints = Endpoints { urls: directory.to_vec(), file: None, keys: Some(keys.to_owned()) };
    let members = control::members(&endpoints, DIRECTORY_MAX).map_err(|error| match error {
        ControlError::Keys(_) => Fail::failed(format!(
            "{error}, or join with an invitation ('gabion host invite' on a host of the cluster)"
        )),
        error => Fail::failed(format!(
            "{error}: name a host that has the directory ('gabion directory members' on any host \
             of the cluster shows them, those of an older cluster with http://), and see that its \
             daemon runs"
        )),
    })?;
    let urls = members.into_iter().map(|it| it.url).filter(|url| !url.is_empty());
    enrol(cli, host, path, None, Keeping::Own(file.joining(urls.collect(), keys)))
}

/// Uses an invitation up, once what can be checked without it is right. Returns where the directory
/// answers.
fn accept(invitation: &Invitation, host: &HostArgs, path: &Path) -> Result<Vec<String>> {
    groups(host)?;
    let directory =
        invitation.accept(folder(path)?).map_err(|error| Fail::failed(error.to_string()))?;
    tracing::info!("the invitation is used up, and the files of the CA are here");
    Ok(directory)
}

/// The folder of this machine's configuration, made where it is missing. The cluster's CA is there.
fn folder(config: &Path) -> Result<&Path> {
    let folder = config.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
    Ok(folder)
}

/// Where the configuration of this machine goes, which must not be a host yet.
fn new_config(cli: &Cli) -> Result<PathBuf> {
    let path = cli.config.clone().unwrap_or_else(|| PathBuf::from(CONFIG_DEFAULT));
    if path.exists() {
        return Err(Fail::failed(format!(
            "'{}' exists: this machine is a host already; for another one use --config",
            path.display()
        ))
        .into());
    }
    Ok(path)
}

/// What this host's part in the directory is to be.
fn own_part(host: &HostArgs) -> Result<MemberFile> {
    let last = host.port.saturating_add(u16::try_from(SHARDS_MAX).unwrap_or(u16::MAX) - 1);
    let peers = host.port..=last;
    if peers.contains(&host.directory_port) || peers.contains(&(host.directory_port + 1)) {
        return Err(Fail::usage(format!(
            "--directory-port {} and the port that follows are among those for the other hosts \
             ({} to {last}): choose another one",
            host.directory_port, host.port
        ))
        .into());
    }
    let (port, dir) = (host.directory_port, &host.directory_dir);
    Ok(MemberFile::new(&host.name, host.address, port, dir))
}

fn enrol(
    cli: &Cli,
    host: &HostArgs,
    path: &Path,
    new: Option<ClusterKind>,
    keeping: Keeping,
) -> Result<()> {
    let groups = groups(host)?;
    let shards = shards(host, &groups)?;
    let members = members(host, shards.len());
    for member in &members {
        placement::check_name(&member.name).map_err(|_| {
            let why = "use 1 to 63 of a-z, 0-9, '.' and '-'";
            Fail::usage(format!("'{}' is not a host name: {why}", member.name))
        })?;
    }
    folder(path)?;
    std::fs::create_dir_all(&host.run_dir)
        .with_context(|| format!("cannot make the folder '{}'", host.run_dir.display()))?;
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let sizes = host.new.create_files.map(|size| CreateSizes { cache: size, capacity: size });
    let tuning = Tuning { read_cache_percent: host.read_cache_percent, ..Tuning::default() };
    let socket = host.run_dir.join("join.sock");
    let endpoints = keeping.endpoints();
    let etcd = endpoints.urls.clone();
    let gateway = control::start_etcd_gateway(endpoints, &socket)?;
    let directory = Address::Unix(socket.display().to_string());
    let kind = kind(&env, &directory, new)?;
    for group in groups.iter().filter(|_| !host.new.ignore_device_kind) {
        check_devices(kind, group, &[])?;
    }
    format_groups(&env, &groups, tuning.group_kind(kind), sizes, host.new.wipe)?;
    // A cluster of several machines has a CA of its own from the start.
    let made = new.map(|kind| NewCluster { kind, encrypt_links: true });
    let (cluster, first) = register(&env, &directory, &members, made)?;
    drop(gateway);
    let count = u32::try_from(shards.len()).unwrap_or(u32::MAX);
    let of_all = OfAll { shards: count, cluster, kind, tuning, etcd };
    let files = host_files(host, path, (first..).zip(members).zip(shards), &of_all);
    if let Keeping::Own(file) = &keeping {
        file.write(&MemberFile::beside(path, &host.name))?;
    }
    if new.is_some() {
        Authority::create(&files.keys())?;
    }
    write_host(path, &host.name, &files)?;
    say_joined(cli, host, &files, path);
    if cli.output != Output::Table {
        return Ok(());
    }
    if new.is_some() && matches!(keeping, Keeping::Own(_)) {
        say!("others then: 'gabion host invite' here, and there what it says");
    }
    if let Err(KeyError::NoAuthority(folder)) = Authority::open(&files.keys()) {
        say!(
            "before its daemon starts it needs the CA's files in {}, or no other host",
            folder.display()
        );
        say!(
            "takes a link from it where links are encrypted, and its API is on this machine alone:"
        );
        say!(
            "copy ca.pem and ca-key.pem from the host that created the cluster; who joins with an"
        );
        say!("invitation ('gabion host invite') gets them");
    }
    Ok(())
}

/// What all shards of a host have in common.
struct OfAll {
    /// How many there are.
    shards: u32,
    cluster: u64,
    kind: ClusterKind,
    tuning: Tuning,
    etcd: Vec<String>,
}

/// The configuration of the host, of whose shards each has a number and disk groups.
fn host_files(
    host: &HostArgs,
    path: &Path,
    shards: impl Iterator<Item = ((u32, NewMember), Vec<GroupConfig>)>,
    of_all: &OfAll,
) -> HostFiles {
    let config = |((id, member), groups): ((u32, NewMember), Vec<GroupConfig>)| {
        let run_dir = match &member.machine {
            Some(_) => host.run_dir.join(&member.name),
            None => host.run_dir.clone(),
        };
        let socket = |leaf: &str| format!("unix:{}", run_dir.join(leaf).display());
        HostConfig {
            name: member.name,
            id,
            machine: member.machine,
            cluster: of_all.cluster,
            peer: member.peer_address,
            nbd: vec![socket("nbd.sock")],
            nbd_socket: host.socket.over(&SocketConfig::default()),
            control: socket("control.sock"),
            api: Some(SocketAddr::new(host.address, host.api_port)),
            directory: socket("directory.sock"),
            etcd: of_all.etcd.clone(),
            kind: of_all.kind,
            groups,
            memory: MemoryConfig::for_one_of(of_all.shards),
            tuning: of_all.tuning.clone(),
        }
    };
    let shard = |config: HostConfig| {
        let is_one_of_several = config.machine.is_some();
        let beside = || path.with_file_name(format!("{}.toml", config.name));
        ShardFile { path: if is_one_of_several { beside() } else { path.to_owned() }, config }
    };
    HostFiles {
        leash: (of_all.shards > 1).then(|| host.run_dir.join("leash.sock")),
        shards: shards.map(config).map(shard).collect(),
    }
}

fn say_joined(cli: &Cli, host: &HostArgs, files: &HostFiles, path: &Path) {
    let shards = files.shards.iter().map(|shard| &shard.config);
    if cli.output == Output::Json {
        let shard = |config: &HostConfig| serde_json::json!({"name": config.name, "id": config.id});
        let all: Vec<_> = shards.map(shard).collect();
        let name = &host.name;
        say!(
            "{}",
            serde_json::json!({
                "name": name, "id": files.first().id, "config": path, "shards": all,
            })
        );
        return;
    }
    match files.shards.len() {
        1 => say!("{} is host {} of the cluster", host.name, files.first().id),
        many => {
            let names: Vec<&str> = shards.map(|config| config.name.as_str()).collect();
            say!(
                "{} is a host of the cluster, with {many} shards: {}",
                host.name,
                names.join(", ")
            );
        }
    }
    say!("its configuration is {}", path.display());
    say!("next: systemctl enable --now gabion (or: gabion daemon --config {})", path.display());
}

/// What enters the cluster: the host itself, or each of its shards.
fn members(host: &HostArgs, count: usize) -> Vec<NewMember> {
    let peer = |port: u16| format!("tcp:{}", SocketAddr::new(host.address, port));
    if count == 1 {
        let (name, peer_address) = (host.name.clone(), peer(host.port));
        return vec![NewMember { name, machine: None, peer_address }];
    }
    let ports = (host.port..=u16::MAX).take(count);
    let member = |(number, port)| NewMember {
        name: format!("{}.{number}", host.name),
        machine: Some(host.name.clone()),
        peer_address: peer(port),
    };
    (1..).zip(ports).map(member).collect()
}

/// The disk groups of each shard.
fn shards(host: &HostArgs, groups: &[GroupConfig]) -> Result<Vec<Vec<GroupConfig>>> {
    let usual = groups.len().clamp(1, SHARDS_MAX);
    let count = host.shards.map_or(usual, usize::from);
    let last_port = usize::from(host.port) + count - 1;
    if last_port > usize::from(u16::MAX) {
        let why = format!("--port {} leaves no port for each of {count} shards", host.port);
        return Err(Fail::usage(why).into());
    }
    let mut shards = vec![Vec::new(); count];
    for (at, group) in groups.iter().enumerate() {
        shards[at % count].push(group.clone());
    }
    Ok(shards)
}

/// The disk groups that the flags describe: one for each cache device, with the same number of
/// capacity devices each, in their order.
fn groups(host: &HostArgs) -> Result<Vec<GroupConfig>> {
    let (caches, devices) = (host.cache.len(), host.capacity.len());
    if (caches, devices) == (0, 0) {
        return Ok(Vec::new());
    }
    let each = devices.checked_div(caches).unwrap_or(0);
    if each * caches != devices || !(1..=7).contains(&each) {
        return Err(Fail::usage(
            "a disk group is one --cache and one to seven --capacity devices, as many for each \
             --cache (or neither, for a host without disks)",
        )
        .into());
    }
    let capacity = host.capacity.chunks(each).map(<[String]>::to_vec);
    let group = |(cache, capacity): (&String, _)| GroupConfig {
        cache: cache.clone(),
        capacity,
        kind: None,
    };
    Ok(host.cache.iter().zip(capacity).map(group).collect())
}

/// The kind of the cluster: that of the new one, else the one in the directory.
fn kind(env: &Env, directory: &Address, new: Option<ClusterKind>) -> Result<ClusterKind> {
    if let Some(kind) = new {
        return Ok(kind);
    }
    let found = patiently(env, || {
        let (env, directory) = (env.clone(), directory.clone());
        async move { host::cluster_kind(&env, directory).await }
    })?;
    found.ok_or_else(|| Fail::failed(RegisterError::NoCluster.to_string()).into())
}

/// Registers the shards of this host in the directory. Returns the cluster's id and the number of
/// the first one.
fn register(
    env: &Env,
    directory: &Address,
    members: &[NewMember],
    new: Option<NewCluster>,
) -> Result<(u64, u32)> {
    patiently(env, || {
        let (env, directory, members) = (env.clone(), directory.clone(), members.to_vec());
        async move { host::register(&env, directory, &members, new).await }
    })
}

/// Asks the directory, again where it does not answer: it may be about to elect a leader.
fn patiently<T: 'static, F>(env: &Env, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T, RegisterError>> + 'static,
{
    let begun = Instant::now();
    loop {
        match env.run(ask()) {
            Err(error) if error.is_silence() && begun.elapsed() < DIRECTORY_MAX => {}
            done => return done.map_err(|error| Fail::failed(error.to_string()).into()),
        }
    }
}
