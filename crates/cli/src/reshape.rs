// SPDX-License-Identifier: Apache-2.0
//! `gabion group create|add-disk|close|open|remove`: disk groups that change while their host runs.
//!
//! The host makes the change and tells what its groups then are. After that its configuration file
//! is written, so that its next start finds them.

use crate::Fail;
use crate::args::{AddDiskArgs, Cli, GroupCreateArgs};
use crate::client;
use crate::config::{ShardFile, control_socket, read_config, write_config};
use crate::output::{self, say};
use crate::target::TargetHost;
use anyhow::{Context, Result};
use host::{ClusterKind, HostConfig};
use operator::{Command, GroupConfig};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for devices to be formatted: a new file is written completely.
const FORMAT_MAX: Duration = Duration::from_secs(1800);

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
    let mut places = places(&TargetHost::find(cli)?)?;
    if let Some(name) = &args.host {
        places.retain(|place| place.config.goes_by(name));
    }
    let mut place = match (places.len(), &args.host) {
        (1, _) => places.remove(0),
        (0, Some(name)) => {
            return Err(Fail::failed(format!(
                "there is no host '{name}' here: see 'gabion host list'"
            ))
            .into());
        }
        _ => {
            let names: Vec<&str> = places.iter().map(|place| place.config.name.as_str()).collect();
            let names = names.join(", ");
            return Err(Fail::usage(format!("say which one, with --host: {names}")).into());
        }
    };
    let capacity: Result<Vec<String>> = args.capacity.iter().map(|path| absolute(path)).collect();
    let group = GroupConfig { cache: absolute(&args.cache)?, capacity: capacity?, kind: None };
    place.config.groups.push(group.clone());
    place.config.check()?;
    let command = Command::GroupCreate {
        cache: group.cache,
        capacity: group.capacity,
        kind: args.kind,
        create_bytes: args.new.create_files,
        wipe: args.new.wipe,
        ignore_device_kind: args.new.ignore_device_kind,
    };
    let made = ask(&place, &command)?;
    let usual = place.config.kind;
    if let Some(group) = place.config.groups.last_mut() {
        group.kind = made.kind.filter(|kind| *kind != usual);
    }
    keep(&place)?;
    output::print(cli.output, &made, |made| {
        let kind = made.kind.map_or("new", ClusterKind::name);
        say!("{} has a new disk group of {}, {kind}", place.config.name, made.cache);
        say!("next: gabion group list; new volumes may use it now");
    })
}

/// `gabion group add-disk`.
pub fn add_disk(cli: &Cli, args: &AddDiskArgs) -> Result<()> {
    let (mut place, at, group) = find(cli, &args.group)?;
    let device = absolute(&args.device)?;
    place.config.groups[at].capacity.push(device.clone());
    place.config.check()?;
    let command = Command::GroupExtend {
        group,
        device,
        create_bytes: args.new.create_files,
        wipe: args.new.wipe,
        ignore_device_kind: args.new.ignore_device_kind,
    };
    let extended = ask(&place, &command)?;
    keep(&place)?;
    output::print(cli.output, &extended, |group| {
        let count = group.capacity.len();
        say!("the disk group of {} has {count} capacity devices now", group.cache);
        say!("next: gabion group show {}", group.cache);
    })
}

/// `gabion group close`.
pub fn close(cli: &Cli, group: &str, stop_volumes: bool) -> Result<()> {
    let (place, _, group) = find(cli, group)?;
    let closed = ask(&place, &Command::GroupClose { group, stop_volumes })?;
    output::print(cli.output, &closed, |group| {
        say!("the disk group of {} is out of service until it is opened", group.cache);
        say!("next: gabion group open {}", group.cache);
    })
}

/// `gabion group open`.
pub fn open(cli: &Cli, group: &str) -> Result<()> {
    let (place, _, group) = find(cli, group)?;
    let opened = ask(&place, &Command::GroupOpen { group, devices: None })?;
    output::print(cli.output, &opened, |group| {
        say!("the disk group of {} is open; its copies come back by themselves", group.cache);
        say!("next: gabion volume list");
    })
}

/// `gabion group remove`.
pub fn remove(cli: &Cli, group: &str) -> Result<()> {
    let (mut place, at, group) = find(cli, group)?;
    let removed = ask(&place, &Command::GroupRemove { group })?;
    let gone = place.config.groups.remove(at);
    // What is said of devices that it does not use any more would be a mistake.
    let is_gone = |device: &String| gone.devices().any(|other| other == device);
    place.config.tuning.magnetic.retain(|device| !is_gone(device));
    keep(&place)?;
    output::print(cli.output, &removed, |group| {
        let devices: Vec<_> = group.devices().map(String::as_str).collect();
        say!("{} uses {} no more", place.config.name, devices.join(", "));
    })
}

/// The host that has a group, the group's index in its configuration, and the name of the group for
/// that host.
fn find(cli: &Cli, wanted: &str) -> Result<(Place, usize, String)> {
    let mut found: Option<(Place, usize, String)> = None;
    let mut silent = Vec::new();
    for place in places(&TargetHost::find(cli)?)? {
        let Some(report) = client::status(&place.socket) else {
            silent.push(place.config.name);
            continue;
        };
        let has = |group: &GroupConfig| {
            let reported = report
                .groups
                .iter()
                .find(|reported| reported.devices.iter().any(|device| device.path == group.cache));
            let is_id =
                reported.is_some_and(|group| !wanted.is_empty() && group.id.starts_with(wanted));
            is_id || group.devices().any(|device| is_same(device, wanted))
        };
        let matching: Vec<usize> =
            (0..place.config.groups.len()).filter(|at| has(&place.config.groups[*at])).collect();
        match (&found, matching.as_slice()) {
            (_, []) => {}
            (None, [at]) => {
                let cache = place.config.groups[*at].cache.clone();
                found = Some((place, *at, cache));
            }
            _ => {
                return Err(Fail::usage(format!(
                    "several disk groups begin with '{wanted}': give more digits"
                ))
                .into());
            }
        }
    }
    found.ok_or_else(|| {
        let silent = match silent.is_empty() {
            true => String::new(),
            false => format!("; {} does not answer", silent.join(", ")),
        };
        Fail::failed(format!(
            "no running host here has a disk group '{}'{silent}: see 'gabion group list'",
            wanted.escape_debug()
        ))
        .into()
    })
}

fn ask(place: &Place, command: &Command) -> Result<GroupConfig> {
    client::ask_within(&place.socket, command, FORMAT_MAX).map_err(|error| {
        if error.is::<Fail>() {
            return error;
        }
        Fail::failed(format!(
            "{} does not answer ({error:#}): is it running? see 'gabion host list'",
            place.config.name
        ))
        .into()
    })
}

/// Writes the configuration after the host has made the change.
fn keep(place: &Place) -> Result<()> {
    write_config(&place.path, &place.config).with_context(|| {
        format!(
            "{} has done it, but its next start will not know: put its groups into '{}' by hand",
            place.config.name,
            place.path.display()
        )
    })
}
