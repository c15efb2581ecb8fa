// SPDX-License-Identifier: Apache-2.0
//! `gabion directory`, `gabion cluster recover`: the cluster's records as a whole. These work
//! beside the hosts, also where none can start because the directory is lost.

use crate::Fail;
use crate::args::{Cli, DirectoryCommand};
use crate::layout::Mode;
use crate::output;
use crate::output::say;
use crate::target::Target;
use anyhow::{Context, Result};
use env::{Address, Env, Fifo};
use host::{ClusterKind, RestoreError};
use std::io::Write;
use std::path::Path;

/// What a directory is reached by; the gateway to etcd ends with it.
struct Door {
    env: Env,
    address: Address,
    cluster: u64,
    kind: ClusterKind,
    _gateway: Option<control::DirectoryThread>,
}

fn open(cli: &Cli) -> Result<Door> {
    let (cluster, kind, endpoints, socket) = match Target::find(cli)? {
        Target::Local(layout, cluster) => {
            let endpoints = match cluster.mode {
                Mode::Threads => Vec::new(),
                Mode::Processes => vec![format!("http://127.0.0.1:{}", cluster.etcd_ports.0)],
            };
            (cluster.id, cluster.kind, endpoints, layout.directory_socket())
        }
        Target::Host(config) => {
            let socket = config.directory.trim_start_matches("unix:").into();
            (config.cluster, config.kind, config.etcd, socket)
        }
    };
    let (gateway, socket) = match endpoints.is_empty() {
        true => (None, socket),
        false => {
            let name = format!("gabion-directory-{}.sock", std::process::id());
            let socket = std::env::temp_dir().join(name);
            (Some(control::start_etcd_gateway(endpoints, &socket)?), socket)
        }
    };
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let address = Address::Unix(socket.display().to_string());
    Ok(Door { env, address, cluster, kind, _gateway: gateway })
}

fn told(error: RestoreError) -> anyhow::Error {
    Fail::failed(error.to_string()).into()
}

/// `gabion directory ...`.
pub fn directory(cli: &Cli, command: &DirectoryCommand) -> Result<()> {
    match command {
        DirectoryCommand::Backup { file } => backup(cli, file),
        DirectoryCommand::Restore { file, replace } => restore(cli, file, *replace),
    }
}

fn backup(cli: &Cli, path: &Path) -> Result<()> {
    let door = open(cli)?;
    let (env, address, cluster) = (door.env.clone(), door.address.clone(), door.cluster);
    let bytes = door.env.run(async move { host::backup(&env, address, cluster).await });
    let bytes = bytes.map_err(told)?;
    write_new(path, &bytes)?;
    let report = serde_json::json!({"file": path, "bytes": bytes.len()});
    output::print(cli.output, &report, |_| {
        say!("{} bytes written to '{}'", bytes.len(), path.display());
    })
}

/// Whole and durable under its name, or not there.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.exists() {
        return Err(
            Fail::failed(format!("'{}' exists: choose another name", path.display())).into()
        );
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let context = || format!("cannot write '{}'", path.display());
    let mut file = std::fs::File::create(&part).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    file.sync_all().with_context(context)?;
    std::fs::rename(&part, path).with_context(context)?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = std::fs::File::open(folder.unwrap_or(Path::new("."))).with_context(context)?;
    folder.sync_all().with_context(context)
}

fn restore(cli: &Cli, path: &Path, replace: bool) -> Result<()> {
    let file = std::fs::read(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    let door = open(cli)?;
    let (env, address, cluster) = (door.env.clone(), door.address.clone(), door.cluster);
    let restored = door
        .env
        .run(async move { host::restore(&env, address, cluster, &file, replace).await })
        .map_err(told)?;
    let report = serde_json::json!({
        "taken": restored.taken, "records": restored.records, "volumes": restored.volumes,
    });
    output::print(cli.output, &report, |_| {
        say!("{} records restored, {} volume(s)", restored.records, restored.volumes);
        say!("what it changed is not served until its copies were asked: start all hosts, then in");
        say!(
            "two minutes 'gabion orphan adopt --all', also for what is younger; see 'gabion status'"
        );
    })
}

/// `gabion cluster recover`.
pub fn recover(cli: &Cli) -> Result<()> {
    let door = open(cli)?;
    let (env, address) = (door.env.clone(), door.address.clone());
    let (cluster, kind) = (door.cluster, door.kind);
    let made = door.env.run(async move { host::recover(&env, address, cluster, kind).await });
    let made = made.map_err(told)?;
    output::print(cli.output, &serde_json::json!({"made": made}), |_| match made {
        true => {
            say!("the directory is the cluster's again, and empty; its hosts start with it now");
            say!("in two minutes, with all hosts up: 'gabion orphan adopt --all'");
        }
        false => say!("the directory is this cluster's: nothing to do; see 'gabion status'"),
    })
}
