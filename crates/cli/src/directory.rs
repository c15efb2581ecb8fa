// SPDX-License-Identifier: Apache-2.0
//! `gabion directory`, `gabion cluster recover`: the cluster's records as a whole. They ask the
//! directory itself, so they work even where no host can start because the directory is lost.

mod members;

pub use members::alarms;

use crate::Fail;
use crate::args::{Cli, DirectoryCommand};
use crate::config::reach;
use crate::output::say;
use crate::target::{TargetHost, no_host};
use crate::{client, output};
use anyhow::{Context, Result};
use control::Endpoints;
use env::{Address, Env, Fifo};
use host::{ClusterKind, RestoreError};
use operator::{BackupReport, Command, RestoreReport};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// How a directory is reached. The gateway to etcd, if there is one, ends when this is dropped.
struct Door {
    env: Env,
    address: Address,
    cluster: u64,
    kind: ClusterKind,
    _gateway: Option<control::DirectoryThread>,
}

fn open(cli: &Cli) -> Result<Door> {
    let (cluster, kind, endpoints, socket) = match TargetHost::find(cli)? {
        TargetHost::Local(layout, cluster) => {
            let etcd = Some(cluster.etcd()).filter(|urls| !urls.is_empty());
            (cluster.id, cluster.kind, etcd.map(Endpoints::from), layout.directory_socket())
        }
        TargetHost::Host(files) => {
            let (config, endpoints) = (files.first(), files.shards[0].endpoints()?);
            let socket = PathBuf::from(config.directory.trim_start_matches("unix:"));
            (config.cluster, config.kind, endpoints, socket)
        }
    };
    let (gateway, address) = reach(endpoints, Address::Unix(socket.display().to_string()))?;
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    Ok(Door { env, address, cluster, kind, _gateway: gateway })
}

fn told(error: RestoreError) -> anyhow::Error {
    Fail::failed(error.to_string()).into()
}

/// `gabion directory ...`.
pub fn directory(cli: &Cli, command: &DirectoryCommand) -> Result<()> {
    match command {
        DirectoryCommand::Backup { file } => backup(cli, file),
        DirectoryCommand::Backups => backups(cli),
        DirectoryCommand::Restore { from_host: Some(host), backup, replace, .. } => {
            restore_kept(cli, host, *backup, *replace)
        }
        DirectoryCommand::Restore { file, replace, .. } => {
            let file = file.as_deref().ok_or_else(|| Fail::usage("name a file, or --from-host"))?;
            restore(cli, file, *replace)
        }
        DirectoryCommand::Members => members::show(cli),
        DirectoryCommand::GoOnAlone { empty, yes } => members::go_on_alone(cli, *empty, *yes),
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

/// As for any file that a user makes: less what the user's mask takes away.
const FILE_MODE: u32 = 0o666;

/// Writes a new file that is whole and durable, or not there at all.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.exists() {
        return Err(
            Fail::failed(format!("'{}' exists: choose another name", path.display())).into()
        );
    }
    let context = || format!("cannot write '{}'", path.display());
    keys::write_durably(path, bytes, FILE_MODE).with_context(context)
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
    output::print(cli.output, &report, |_| done(restored.records, restored.volumes))
}

fn done(records: usize, volumes: usize) {
    say!("{records} records restored, {volumes} volume(s)");
    say!("what it changed is not served until its copies were asked: start all hosts, then in two");
    say!("minutes 'gabion orphan adopt --all', also for what is younger; see 'gabion status'");
}

/// `gabion directory backups`: what each host says of its own disk groups.
fn backups(cli: &Cli) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let (mut all, mut is_any) = (Vec::new(), false);
    for (_, door) in target.shards() {
        // A host that does not answer is left out, as in lists of devices.
        let said = client::ask::<Vec<BackupReport>>(&door, &Command::DirectoryBackups);
        is_any |= said.is_ok();
        all.extend(said.unwrap_or_default());
    }
    if !is_any {
        return Err(no_host(&target));
    }
    output::print(cli.output, &all, |all| match all.is_empty() {
        true => say!("none yet: hosts take one some minutes after volumes came or went"),
        false => table(all),
    })
}

fn table(all: &[BackupReport]) {
    let rows = all.iter().map(|backup| {
        vec![
            backup.host.clone(),
            backup.number.to_string(),
            age(backup.taken),
            backup.volumes.map_or_else(|| "-".to_owned(), |volumes| volumes.to_string()),
            base::format_size(backup.bytes),
            backup.group.clone(),
            backup.damage.clone().unwrap_or_default(),
        ]
    });
    output::table(&["host", "number", "taken", "volumes", "size", "group", ""], rows.collect());
}

fn age(taken: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match now.saturating_sub(taken) {
        seconds @ 0..7200 => format!("{} min ago", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// `gabion directory restore --from-host`: the host restores a backup from its own disk groups.
fn restore_kept(cli: &Cli, name: &str, number: Option<u64>, replace: bool) -> Result<()> {
    let hosts = TargetHost::find(cli)?.shards();
    let Some((_, door)) = hosts.iter().find(|(host, _)| host == name) else {
        let names: Vec<&str> = hosts.iter().map(|(host, _)| host.as_str()).collect();
        return Err(Fail::failed(format!(
            "host '{name}' cannot be asked from here, only {}: run the command on {name} itself",
            names.join(", ")
        ))
        .into());
    };
    let restore = Command::DirectoryRestore { number, replace };
    let report: RestoreReport = client::ask(door, &restore)?;
    output::print(cli.output, &report, |report| {
        say!("number {} of {}, taken {}", report.number, report.host, age(report.taken));
        done(report.records, report.volumes);
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
            say!(
                "then see 'gabion directory backups' for what the hosts keep to be restored, or in"
            );
            say!("two minutes, with all hosts up: 'gabion orphan adopt --all'");
        }
        false => say!("the directory is this cluster's: nothing to do; see 'gabion status'"),
    })
}
