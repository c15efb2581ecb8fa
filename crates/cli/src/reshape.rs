// SPDX-License-Identifier: Apache-2.0
//! `gabion group create|add-disk|close|open|remove`: disk groups that change while their host runs.
//!
//! The host makes the change and tells what its groups then are. Its API writes its configuration
//! file after that (`group_files`).

use crate::Fail;
use crate::args::{AddDiskArgs, Cli, GroupCreateArgs};
use crate::client::{self, ApiDoor};
use crate::config::{ShardFile, control_socket, read_config};
use crate::output::{self, say};
use crate::target::{TargetHost, gather};
use anyhow::{Context, Result};
use host::{ClusterKind, HostConfig};
use operator::{Command, GroupConfig, GroupReport, HostState, Role};
use std::path::PathBuf;

/// A shard of this machine: its configuration, the file of that, and its control socket.
pub struct Place {
    /// Its configuration file.
    pub path: PathBuf,
    /// The content of that file.
    pub config: HostConfig,
    /// Its control socket. It answers there if it runs.
    pub socket: PathBuf,
}

/// All shards of this machine.
pub fn places(target: &TargetHost) -> Result<Vec<Place>> {
    let place = |shard: ShardFile| {
        let ShardFile { path, config } = shard;
        let socket = control_socket(&config);
        Place { path, config, socket }
    };
    let read = |path: PathBuf| Ok(ShardFile { config: read_config(&path)?, path });
    let shards: Result<Vec<ShardFile>> = match target {
        TargetHost::Local(layout, cluster) => {
            cluster.host_names().iter().map(|name| read(layout.host_config(name))).collect()
        }
        TargetHost::Host(files) => Ok(files.shards.clone()),
    };
    Ok(shards?.into_iter().map(place).collect())
}

/// Whether two paths are the same place, absolute or not.
pub fn is_same(configured: &str, given: &str) -> bool {
    let absolute = |path: &str| std::path::absolute(path).ok();
    configured == given || absolute(configured) == absolute(given)
}

/// The absolute path, because the host may run in another folder.
pub fn absolute(path: &str) -> Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("'{path}' is no path"))?;
    let text = path.to_str().context("the path is not text")?;
    Ok(text.to_owned())
}

/// `gabion group create`.
pub fn create(cli: &Cli, args: &GroupCreateArgs) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let mut names: Vec<String> = match &args.host {
        Some(host) => target.shards_of(host).into_iter().map(|(name, _)| name).collect(),
        None => target.shards().into_iter().map(|(name, _)| name).collect(),
    };
    let name = match (names.len(), &args.host) {
        (1, _) => names.remove(0),
        (0, Some(name)) => {
            return Err(Fail::failed(format!(
                "there is no host '{name}' here: see 'gabion host list'"
            ))
            .into());
        }
        _ => {
            let names = names.join(", ");
            return Err(Fail::usage(format!("say which one, with --host: {names}")).into());
        }
    };
    let capacity: Result<Vec<String>> = args.capacity.iter().map(|path| absolute(path)).collect();
    let command = Command::GroupCreate {
        cache: absolute(&args.cache)?,
        capacity: capacity?,
        kind: args.kind,
        create_bytes: args.new.create_files,
        wipe: args.new.wipe,
        ignore_device_kind: args.new.ignore_device_kind,
    };
    let made = ask(&target.door(), &name, &command)?;
    output::print(cli.output, &made, |made| {
        let kind = made.kind.map_or("new", ClusterKind::name);
        say!("{name} has a new disk group of {}, {kind}", made.cache);
        say!("next: gabion group list; new volumes may use it now");
    })
}

/// `gabion group add-disk`.
pub fn add_disk(cli: &Cli, args: &AddDiskArgs) -> Result<()> {
    let device = absolute(&args.device)?;
    let extended = asked(cli, &args.group, |group| Command::GroupExtend {
        group,
        device,
        create_bytes: args.new.create_files,
        wipe: args.new.wipe,
        ignore_device_kind: args.new.ignore_device_kind,
    })?;
    output::print(cli.output, &extended.group, |group| {
        let count = group.capacity.len();
        say!("the disk group of {} has {count} capacity devices now", group.cache);
        say!("next: gabion group show {}", group.cache);
    })
}

/// `gabion group close`.
pub fn close(cli: &Cli, group: &str, stop_volumes: bool) -> Result<()> {
    let closed = asked(cli, group, |group| Command::GroupClose { group, stop_volumes })?;
    output::print(cli.output, &closed.group, |group| {
        say!("the disk group of {} is out of service until it is opened", group.cache);
        say!("next: gabion group open {}", group.cache);
    })
}

/// `gabion group open`.
pub fn open(cli: &Cli, group: &str) -> Result<()> {
    let opened = asked(cli, group, |group| Command::GroupOpen { group, devices: None })?;
    output::print(cli.output, &opened.group, |group| {
        say!("the disk group of {} is open; its copies come back by themselves", group.cache);
        say!("next: gabion volume list");
    })
}

/// `gabion group remove`.
pub fn remove(cli: &Cli, group: &str) -> Result<()> {
    let removed = asked(cli, group, |group| Command::GroupRemove { group })?;
    output::print(cli.output, &removed.group, |group| {
        let devices: Vec<_> = group.devices().map(String::as_str).collect();
        say!("{} uses {} no more", removed.shard, devices.join(", "));
    })
}

/// A disk group after a command, and whose it is.
struct Changed {
    shard: String,
    group: GroupConfig,
}

/// Asks the shard that has a group for a change of it.
fn asked(cli: &Cli, wanted: &str, command: impl FnOnce(String) -> Command) -> Result<Changed> {
    let target = TargetHost::find(cli)?;
    let (shard, cache) = find(&target, wanted)?;
    let group = ask(&target.door(), &shard, &command(cache))?;
    Ok(Changed { shard, group })
}

/// The shard that has a group, and the group's cache device.
fn find(target: &TargetHost, wanted: &str) -> Result<(String, String)> {
    let report = gather(target)?;
    let is_device =
        |group: &GroupReport| group.devices.iter().any(|device| is_same(&device.path, wanted));
    let is_meant = |group: &&GroupReport| {
        !wanted.is_empty() && group.id.starts_with(wanted) || is_device(group)
    };
    let found: Vec<&GroupReport> = report.groups.iter().filter(is_meant).collect();
    let cache = |group: &GroupReport| {
        let mut devices = group.devices.iter().filter(|device| device.role == Role::Cache);
        devices.next().map(|device| (group.host.clone(), device.path.clone()))
    };
    match found.as_slice() {
        [group] => cache(group).ok_or_else(|| {
            Fail::failed(format!("{} does not say which devices '{wanted}' has", group.host)).into()
        }),
        [] => {
            let asked = target.shards().into_iter().map(|(name, _)| name);
            let is_up = |name: &String| {
                let mut hosts = report.hosts.iter();
                hosts.any(|host| host.name == *name && host.state == HostState::Up)
            };
            let silent: Vec<String> = asked.filter(|name| !is_up(name)).collect();
            let silent = match silent.is_empty() {
                true => String::new(),
                false => format!("; {} does not answer", silent.join(", ")),
            };
            Err(Fail::failed(format!(
                "no running host here has a disk group '{}'{silent}: see 'gabion group list'",
                wanted.escape_debug()
            ))
            .into())
        }
        _ => {
            Err(Fail::usage(format!("several disk groups begin with '{wanted}': give more digits"))
                .into())
        }
    }
}

fn ask(door: &ApiDoor, shard: &str, command: &Command) -> Result<GroupConfig> {
    client::ask(&door.clone().of(shard), command).map_err(|error| {
        if error.is::<Fail>() {
            return error;
        }
        Fail::failed(format!(
            "{shard} does not answer ({error:#}): is it running? see 'gabion host list'"
        ))
        .into()
    })
}
