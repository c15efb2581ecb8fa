// SPDX-License-Identifier: Apache-2.0
//! `gabion disk replace`: puts a new device into a disk group. A running host closes the group
//! meanwhile.
//!
//! With a new cache device, what only the write buffer held is lost; with a new capacity device,
//! the components on it. With `--whole-group` all of the group is formatted anew. When the host
//! starts it tells what it lacks, and the owners copy that from other hosts. So no volume may have
//! its only whole copy there, which the directory knows.

use crate::Fail;
use crate::args::{Cli, ReplaceArgs};
use crate::client::{self, ApiDoor};
use crate::config::{endpoints, reach, write_config};
use crate::devices::{check_devices, unusable};
use crate::output::say;
use crate::reshape::{Place, absolute, is_same, places};
use crate::target::TargetHost;
use anyhow::{Context, Result};
use base::{GroupId, ShardId};
use diskgroup::{CreateSizes, DiskGroup, GroupError, GroupKind, GroupSpec};
use env::{Env, Fifo};
use host::{HostConfig, parse_address};
use operator::{Command, GroupConfig};
use std::path::Path;

/// `gabion disk replace`.
pub fn replace(cli: &Cli, args: &ReplaceArgs) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let (place, at) = find(&target, &args.device)?;
    let Place { path, mut config, socket } = place;
    if let Some(with) = args.with.as_ref().filter(|with| !args.wipe && Path::new(with).exists()) {
        return Err(Fail::failed(format!(
            "'{with}' exists and may hold data: look at it, and add --wipe if that may be lost"
        ))
        .into());
    }
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    if !args.lose_data {
        refuse_loss(&env, &path, &config)?;
    }
    let is_running = client::shard_status(&socket).is_some();
    let old = config.groups[at].clone();
    let group = &mut config.groups[at];
    let mut what = What::Group;
    let places = std::iter::once(What::Cache).chain((0..).map(What::Capacity));
    let devices = std::iter::once(&mut group.cache).chain(&mut group.capacity);
    for (place, device) in places.zip(devices) {
        if is_same(device, &args.device) {
            what = place;
            if let Some(with) = &args.with {
                let with = absolute(with)?;
                // Only a file can go on behaving as a magnetic disk.
                let is_block = ring::block_device(Path::new(&with)).is_some();
                config.tuning.magnetic.retain(|path| path != device || !is_block);
                let magnetic = config.tuning.magnetic.iter_mut();
                magnetic.filter(|path| *path == device).for_each(|path| path.clone_from(&with));
                *device = with;
            }
        }
    }
    if !args.ignore_device_kind {
        let kind = config.kind_of(&config.groups[at]);
        check_devices(kind, &config.groups[at], &config.tuning.magnetic)?;
    }
    if args.whole_group || args.lose_data {
        what = What::Group;
    }
    let door = target.door().of(&config.name);
    let said = with_group_closed(is_running.then_some(&door), &old, || {
        if is_running && !args.lose_data {
            // Checked again: the group is closed now, so nothing more is written to it.
            refuse_loss(&env, &path, &config)?;
        }
        let sizes = sizes(args, &target);
        let kind = config.group_kind(&config.groups[at]);
        let said = run_make(&env, &config.groups[at], kind, sizes, what)?;
        if args.with.is_some() {
            config.check()?;
            write_config(&path, &config)?;
        }
        Ok((said, config.groups[at].clone()))
    })?;
    say!("the disk group of {} on {} {said}", config.groups[at].cache, config.name);
    let start = match target {
        _ if is_running => {
            say!("its copies come back by themselves: gabion volume list");
            return Ok(());
        }
        TargetHost::Local(..) => format!("gabion host start {}", config.name),
        TargetHost::Host(_) => "systemctl start gabion".to_owned(),
    };
    say!("next: {start}; its copies come back by themselves: gabion volume list");
    Ok(())
}

/// Does something with the devices of a group. A running host, behind `door`, closes the group
/// before, and opens it afterwards with the devices that it then has.
fn with_group_closed(
    door: Option<&ApiDoor>,
    old: &GroupConfig,
    act: impl FnOnce() -> Result<(String, GroupConfig)>,
) -> Result<String> {
    let open = |devices| Command::GroupOpen { group: old.cache.clone(), devices };
    if let Some(door) = door {
        // Volumes that this stops were checked: none has its only whole copy on this host.
        let close = Command::GroupClose { group: old.cache.clone(), stop_volumes: true };
        client::ask::<GroupConfig>(door, &close)?;
    }
    let done = act();
    if let Some(door) = door {
        let devices = done.as_ref().ok().map(|(_, group)| group.clone());
        let opened = client::ask::<GroupConfig>(door, &open(devices));
        // If nothing was done the group is as before. If it does not open then, the host reports
        // that.
        if done.is_ok() {
            opened?;
        }
    }
    Ok(done?.0)
}

/// Sizes of device files to create where there are none.
fn sizes(args: &ReplaceArgs, target: &TargetHost) -> Option<CreateSizes> {
    match (args.create_files, target) {
        (Some(size), _) => Some(CreateSizes { cache: size, capacity: size }),
        (None, TargetHost::Local(_, cluster)) => Some(cluster.device_sizes()),
        (None, TargetHost::Host(_)) => None,
    }
}

fn run_make(
    env: &Env,
    group: &GroupConfig,
    kind: GroupKind,
    sizes: Option<CreateSizes>,
    what: What,
) -> Result<String> {
    let (inner, id, spec) = (env.clone(), GroupId(env.random()), host::group_spec(group));
    let said = env.run(async move { make(&inner, &spec, kind, sizes, what, id).await });
    let failed = |error| match what {
        What::Group => unusable(error),
        What::Cache | What::Capacity(_) => Fail::failed(format!(
            "{}; with --whole-group all devices of the group are made anew",
            unusable(error)
        )),
    };
    Ok(said.map_err(failed)?)
}

/// Which devices are new.
#[derive(Clone, Copy)]
enum What {
    Group,
    Cache,
    Capacity(usize),
}

/// Formats what is new. Returns a text about the group as it is then.
async fn make(
    env: &Env,
    spec: &GroupSpec,
    kind: GroupKind,
    sizes: Option<CreateSizes>,
    what: What,
    id: GroupId,
) -> Result<String, GroupError> {
    match what {
        What::Group => {
            DiskGroup::format_with(env, spec, sizes, true, id, kind).await?;
            Ok("is empty now".to_owned())
        }
        What::Cache => {
            let replaced = DiskGroup::replace_cache(env, spec, sizes, true, kind).await?;
            Ok(format!(
                "keeps its {} components; only what was in the lost write buffer is copied again",
                replaced.kept
            ))
        }
        What::Capacity(at) => {
            DiskGroup::replace_capacity(env, spec, at, sizes, true).await?;
            Ok("has a new, empty capacity device; its other components stay".to_owned())
        }
    }
}

/// The host whose configuration names the device, and the group that has it.
fn find(target: &TargetHost, device: &str) -> Result<(Place, usize)> {
    for place in places(target)? {
        let has = |group: &GroupConfig| group.devices().any(|d| is_same(d, device));
        if let Some(at) = place.config.groups.iter().position(has) {
            return Ok((place, at));
        }
    }
    Err(Fail::failed(format!("no host here has the device '{device}': see its host.toml")).into())
}

/// Refuses if a volume would be lost with this host's disks.
fn refuse_loss(env: &Env, path: &Path, config: &HostConfig) -> Result<()> {
    // With etcd, the gateway to it runs in the host's own process. So one is started here.
    let own = parse_address(&config.directory)?;
    let (gateway, address) = reach(endpoints(path, config)?, own)?;
    let (inner, shard) = (env.clone(), ShardId(config.id));
    let alone = env.run(async move { host::only_copies(&inner, address, shard).await });
    drop(gateway);
    let alone = alone.map_err(|error| {
        Fail::failed(format!(
            "what would be lost is not known: {error}; start the other hosts, or say --lose-data"
        ))
    })?;
    if alone.is_empty() {
        return Ok(());
    }
    Err(Fail::failed(format!(
        "{} has the only whole copy of {} that is known: start it and wait for the others ('gabion \
         volume list'), or say --lose-data",
        config.name,
        alone.join(", ")
    ))
    .into())
}
