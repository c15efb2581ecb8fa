// SPDX-License-Identifier: Apache-2.0
//! Creates a cluster of several machines, or joins one. Both only write this host's configuration;
//! the daemon (`systemctl start gabion`) does the rest.

use crate::Fail;
use crate::args::{Cli, CreateArgs, JoinArgs, Output};
use crate::config::{CONFIG_DEFAULT, write_config};
use crate::devices::{check_devices, format_groups};
use crate::output::say;
use anyhow::{Context, Result};
use diskgroup::CreateSizes;
use env::{Address, Env, Fifo};
use host::{ClusterKind, HostConfig, MemoryConfig, RegisterError, SocketConfig, Tuning};
use operator::GroupConfig;
use std::path::PathBuf;

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
    placement::check_name(&join.name).map_err(|_| {
        Fail::usage(format!("'{}' is not a host name: use a-z, 0-9, '.' and '-'", join.name))
    })?;
    let groups = groups(join)?;
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
    let peer = format!("tcp:{}", std::net::SocketAddr::new(join.address, join.port));
    let (cluster, id) = register(&env, join, directory, &peer, new)?;
    drop(gateway);
    let socket = |leaf: &str| format!("unix:{}", join.run_dir.join(leaf).display());
    let config = HostConfig {
        name: join.name.clone(),
        id,
        cluster,
        peer,
        nbd: vec![socket("nbd.sock")],
        nbd_socket: join.socket.over(&SocketConfig::default()),
        control: socket("control.sock"),
        directory: socket("directory.sock"),
        etcd: join.etcd.clone(),
        kind,
        groups,
        memory: MemoryConfig::default(),
        tuning,
    };
    write_config(&path, &config)?;
    if cli.output == Output::Json {
        say!("{}", serde_json::json!({"name": config.name, "id": id, "config": path}));
        return Ok(());
    }
    say!("{} is host {id} of the cluster; its configuration is {}", join.name, path.display());
    say!("next: systemctl enable --now gabion (or: gabion daemon --config {})", path.display());
    Ok(())
}

/// The disk groups that the flags describe: one cache device and its capacity devices.
fn groups(join: &JoinArgs) -> Result<Vec<GroupConfig>> {
    match (join.cache.as_slice(), join.capacity.len()) {
        ([], 0) => Ok(Vec::new()),
        ([cache], 1..=7) => {
            Ok(vec![GroupConfig { cache: cache.clone(), capacity: join.capacity.clone() }])
        }
        _ => Err(Fail::usage(
            "a disk group is one --cache and one to seven --capacity devices (or neither, for a \
             host without disks)",
        )
        .into()),
    }
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

/// Registers this host in the directory. Returns the cluster's id and the host's number.
fn register(
    env: &Env,
    join: &JoinArgs,
    directory: Address,
    peer: &str,
    new: Option<ClusterKind>,
) -> Result<(u64, u32)> {
    let (inner, name, peer) = (env.clone(), join.name.clone(), peer.to_owned());
    let registered =
        env.run(async move { host::register(&inner, directory, &name, &peer, new).await });
    Ok(registered.map_err(|failure| Fail::failed(failure.to_string()))?)
}
