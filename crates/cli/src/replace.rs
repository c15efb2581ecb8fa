// SPDX-License-Identifier: Apache-2.0
//! `gabion disk replace`: a new device in a disk group of a host that is stopped.
//!
//! A new cache device costs what was in the write buffer alone, a new capacity device the
//! components on it; with `--whole-group` all of the group is made anew. What the host lacks then
//! it says when it starts, and the owners copy it from elsewhere. So nothing may have its only
//! whole copy there; the directory knows.

use crate::Fail;
use crate::args::{Cli, ReplaceArgs};
use crate::create::write_config;
use crate::disk::fail;
use crate::output::say;
use crate::target::{CONFIG_DEFAULT, Target, read_config};
use anyhow::{Context, Result};
use base::{GroupId, HostId};
use diskgroup::{CreateSizes, DiskGroup, GroupError, GroupKind, GroupSpec};
use env::{Address, Env, Fifo};
use host::{HostConfig, parse_address};
use std::path::{Path, PathBuf};

/// `gabion disk replace`.
pub fn replace(cli: &Cli, args: &ReplaceArgs) -> Result<()> {
    let target = Target::find(cli)?;
    let (path, mut config, at) = find(cli, &target, &args.device)?;
    if let Some(with) = args.with.as_ref().filter(|with| !args.wipe && Path::new(with).exists()) {
        return Err(Fail::failed(format!(
            "'{with}' exists and may hold data: look at it, and add --wipe if that may be lost"
        ))
        .into());
    }
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    if !args.lose_data {
        refuse_loss(&env, &config)?;
    }
    let group = &mut config.groups[at];
    let mut what = What::Group;
    let places = std::iter::once(What::Cache).chain((0..).map(What::Capacity));
    let devices = std::iter::once(&mut group.cache).chain(&mut group.capacity);
    for (place, device) in places.zip(devices) {
        if is_same(device, &args.device) {
            what = place;
            if let Some(with) = &args.with {
                device.clone_from(with);
            }
        }
    }
    if args.whole_group || args.lose_data {
        what = What::Group;
    }
    let spec = GroupSpec { cache: group.cache.clone(), capacity: group.capacity.clone() };
    let sizes = match (args.create_files, &target) {
        (Some(size), _) => Some(CreateSizes { cache: size, capacity: size }),
        (None, Target::Local(_, cluster)) => {
            Some(CreateSizes { cache: cluster.cache_size, capacity: cluster.capacity_size })
        }
        (None, Target::Host(_)) => None,
    };
    let (inner, id) = (env.clone(), GroupId(env.random()));
    let said = env.run(async move { make(&inner, &spec, sizes, what, id).await });
    let said = said.map_err(|error| match what {
        What::Group => fail(error),
        What::Cache | What::Capacity(_) => Fail::failed(format!(
            "{}; with --whole-group all devices of the group are made anew",
            fail(error)
        )),
    })?;
    if args.with.is_some() {
        config.check()?;
        write_config(&path, &config)?;
    }
    let start = match target {
        Target::Local(..) => format!("gabion host start {}", config.name),
        Target::Host(_) => "systemctl start gabion".to_owned(),
    };
    say!("the disk group of {} on {} {said}", config.groups[at].cache, config.name);
    say!("next: {start}; its copies come back by themselves: gabion volume list");
    Ok(())
}

/// Which devices are new.
#[derive(Clone, Copy)]
enum What {
    Group,
    Cache,
    Capacity(usize),
}

/// Makes what is new: what the group is then.
async fn make(
    env: &Env,
    spec: &GroupSpec,
    sizes: Option<CreateSizes>,
    what: What,
    id: GroupId,
) -> Result<String, GroupError> {
    match what {
        What::Group => {
            DiskGroup::format(env, spec, sizes, true, id).await?;
            Ok("is empty now".to_owned())
        }
        What::Cache => {
            let replaced =
                DiskGroup::replace_cache(env, spec, sizes, true, GroupKind::AllFlash).await?;
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
fn find(cli: &Cli, target: &Target, device: &str) -> Result<(PathBuf, HostConfig, usize)> {
    let paths = match target {
        Target::Local(layout, cluster) => {
            cluster.host_names().iter().map(|name| layout.host_config(name)).collect()
        }
        Target::Host(_) => {
            vec![cli.config.clone().unwrap_or_else(|| PathBuf::from(CONFIG_DEFAULT))]
        }
    };
    for path in paths {
        let config = read_config(&path)?;
        let has = |group: &host::GroupConfig| {
            std::iter::once(&group.cache).chain(&group.capacity).any(|d| is_same(d, device))
        };
        if let Some(at) = config.groups.iter().position(has) {
            return Ok((path, config, at));
        }
    }
    Err(Fail::failed(format!("no host here has the device '{device}': see its host.toml")).into())
}

/// Paths of one place, absolute or not.
fn is_same(configured: &str, given: &str) -> bool {
    let absolute = |path: &str| std::path::absolute(path).ok();
    configured == given || absolute(configured) == absolute(given)
}

/// Refuses where a volume would be lost with this host's disks.
fn refuse_loss(env: &Env, config: &HostConfig) -> Result<()> {
    // Where etcd is used, the gateway to it ran in the host's own process.
    let (gateway, address) = if config.etcd.is_empty() {
        (None, parse_address(&config.directory)?)
    } else {
        let socket = std::env::temp_dir().join(format!("gabion-{}.sock", std::process::id()));
        let gateway = control::start_etcd_gateway(config.etcd.clone(), &socket)?;
        (Some(gateway), Address::Unix(socket.display().to_string()))
    };
    let (inner, host) = (env.clone(), HostId(config.id));
    let alone = env.run(async move { host::only_copies(&inner, address, host).await });
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
