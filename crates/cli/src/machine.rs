// SPDX-License-Identifier: Apache-2.0
//! Creates a cluster of several machines, or joins one. Both only write this host's configuration;
//! the daemon (`systemctl start gabion`) does the rest.
//!
//! A host gets a shard for each of its disk groups, if not told otherwise: one thread each.

use crate::Fail;
use crate::args::{Cli, CreateArgs, JoinArgs, Output};
use crate::config::{CONFIG_DEFAULT, HostFiles, ShardFile, write_host};
use crate::devices::{check_devices, format_groups};
use crate::output::say;
use anyhow::{Context, Result};
use diskgroup::CreateSizes;
use env::{Address, Env, Fifo};
use host::{ClusterKind, HostConfig, MemoryConfig, NewMember, RegisterError, SocketConfig, Tuning};
use operator::GroupConfig;
use std::path::{Path, PathBuf};

/// Shards of a host, at most.
const SHARDS_MAX: usize = 8;

/// `gabion cluster create`.
pub fn create(cli: &Cli, create: &CreateArgs) -> Result<()> {
    enrol(cli, &create.join, Some(create.kind))
}

/// `gabion host join`.
pub fn join(cli: &Cli, join: &JoinArgs) -> Result<()> {
    enrol(cli, join, None)
}

fn enrol(cli: &Cli, join: &JoinArgs, new: Option<ClusterKind>) -> Result<()> {
    let path = cli.config.clone().unwrap_or_else(|| PathBuf::from(CONFIG_DEFAULT));
    if path.exists() {
        return Err(Fail::failed(format!(
            "'{}' exists: this machine is a host already; for another one use --config",
            path.display()
        ))
        .into());
    }
    let groups = groups(join)?;
    let shards = shards(join, &groups)?;
    let members = members(join, shards.len());
    for member in &members {
        placement::check_name(&member.name).map_err(|_| {
            let why = "use 1 to 63 of a-z, 0-9, '.' and '-'";
            Fail::usage(format!("'{}' is not a host name: {why}", member.name))
        })?;
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    for dir in folder.into_iter().chain([join.run_dir.as_path()]) {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the folder '{}'", dir.display()))?;
    }
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let sizes = join.new.create_files.map(|size| CreateSizes { cache: size, capacity: size });
    let tuning = Tuning { read_cache_percent: join.read_cache_percent, ..Tuning::default() };
    let socket = join.run_dir.join("join.sock");
    let gateway = control::start_etcd_gateway(join.etcd.clone(), &socket)?;
    let directory = Address::Unix(socket.display().to_string());
    let kind = kind(&env, directory.clone(), new)?;
    for group in groups.iter().filter(|_| !join.new.ignore_device_kind) {
        check_devices(kind, group, &[])?;
    }
    format_groups(&env, &groups, tuning.group_kind(kind), sizes, join.new.wipe)?;
    let (cluster, first) = register(&env, directory, &members, new)?;
    drop(gateway);
    let count = u32::try_from(shards.len()).unwrap_or(u32::MAX);
    let of_all = OfAll { shards: count, cluster, kind, tuning };
    let files = host_files(join, &path, (first..).zip(members).zip(shards), &of_all);
    write_host(&path, &join.name, &files)?;
    say_joined(cli, join, &files, &path);
    Ok(())
}

/// What all shards of a host have in common.
struct OfAll {
    /// How many there are.
    shards: u32,
    cluster: u64,
    kind: ClusterKind,
    tuning: Tuning,
}

/// The configuration of the host, of whose shards each has a number and disk groups.
fn host_files(
    join: &JoinArgs,
    path: &Path,
    shards: impl Iterator<Item = ((u32, NewMember), Vec<GroupConfig>)>,
    of_all: &OfAll,
) -> HostFiles {
    let config = |((id, member), groups): ((u32, NewMember), Vec<GroupConfig>)| {
        let run_dir = match &member.machine {
            Some(_) => join.run_dir.join(&member.name),
            None => join.run_dir.clone(),
        };
        let socket = |leaf: &str| format!("unix:{}", run_dir.join(leaf).display());
        HostConfig {
            name: member.name,
            id,
            machine: member.machine,
            cluster: of_all.cluster,
            peer: member.peer_address,
            nbd: vec![socket("nbd.sock")],
            nbd_socket: join.socket.over(&SocketConfig::default()),
            control: socket("control.sock"),
            directory: socket("directory.sock"),
            etcd: join.etcd.clone(),
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
        leash: (of_all.shards > 1).then(|| join.run_dir.join("leash.sock")),
        shards: shards.map(config).map(shard).collect(),
    }
}

fn say_joined(cli: &Cli, join: &JoinArgs, files: &HostFiles, path: &Path) {
    let shards = files.shards.iter().map(|shard| &shard.config);
    if cli.output == Output::Json {
        let shard = |config: &HostConfig| serde_json::json!({"name": config.name, "id": config.id});
        let all: Vec<_> = shards.map(shard).collect();
        let name = &join.name;
        say!(
            "{}",
            serde_json::json!({
                "name": name, "id": files.first().id, "config": path, "shards": all,
            })
        );
        return;
    }
    match files.shards.len() {
        1 => say!("{} is host {} of the cluster", join.name, files.first().id),
        many => {
            let names: Vec<&str> = shards.map(|config| config.name.as_str()).collect();
            say!(
                "{} is a host of the cluster, with {many} shards: {}",
                join.name,
                names.join(", ")
            );
        }
    }
    say!("its configuration is {}", path.display());
    say!("next: systemctl enable --now gabion (or: gabion daemon --config {})", path.display());
}

/// What enters the cluster: the host itself, or each of its shards.
fn members(join: &JoinArgs, count: usize) -> Vec<NewMember> {
    let peer = |port: u16| format!("tcp:{}", std::net::SocketAddr::new(join.address, port));
    if count == 1 {
        let (name, peer_address) = (join.name.clone(), peer(join.port));
        return vec![NewMember { name, machine: None, peer_address }];
    }
    let ports = (join.port..=u16::MAX).take(count);
    let member = |(number, port)| NewMember {
        name: format!("{}.{number}", join.name),
        machine: Some(join.name.clone()),
        peer_address: peer(port),
    };
    (1..).zip(ports).map(member).collect()
}

/// The disk groups of each shard.
fn shards(join: &JoinArgs, groups: &[GroupConfig]) -> Result<Vec<Vec<GroupConfig>>> {
    let usual = groups.len().clamp(1, SHARDS_MAX);
    let count = join.shards.map_or(usual, usize::from);
    let last_port = usize::from(join.port) + count - 1;
    if last_port > usize::from(u16::MAX) {
        let why = format!("--port {} leaves no port for each of {count} shards", join.port);
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
fn groups(join: &JoinArgs) -> Result<Vec<GroupConfig>> {
    let (caches, devices) = (join.cache.len(), join.capacity.len());
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
    let capacity = join.capacity.chunks(each).map(<[String]>::to_vec);
    let group = |(cache, capacity): (&String, _)| GroupConfig { cache: cache.clone(), capacity };
    Ok(join.cache.iter().zip(capacity).map(group).collect())
}

/// The kind of the cluster: that of the new one, else the one in the directory.
fn kind(env: &Env, directory: Address, new: Option<ClusterKind>) -> Result<ClusterKind> {
    if let Some(kind) = new {
        return Ok(kind);
    }
    let inner = env.clone();
    let found = env.run(async move { host::cluster_kind(&inner, directory).await });
    let failed = |failure: RegisterError| Fail::failed(failure.to_string());
    Ok(found.and_then(|kind| kind.ok_or(RegisterError::NoCluster)).map_err(failed)?)
}

/// Registers the shards of this host in the directory. Returns the cluster's id and the number of
/// the first one.
fn register(
    env: &Env,
    directory: Address,
    members: &[NewMember],
    new: Option<ClusterKind>,
) -> Result<(u64, u32)> {
    let (inner, members) = (env.clone(), members.to_vec());
    let registered = env.run(async move { host::register(&inner, directory, &members, new).await });
    Ok(registered.map_err(|failure| Fail::failed(failure.to_string()))?)
}
