// SPDX-License-Identifier: Apache-2.0
//! What a host tells of its disk groups and their devices.

use super::command::Command;
use super::{Operations, Outcome, failed, usage};
use crate::care::latency;
use crate::care::scrub::Scrubber;
use crate::config::{GroupConfig, Tuning};
use crate::report::{
    DeviceKind, DeviceReport, GroupDetail, GroupReport, Health, HeldReport, ReadCacheReport, Role,
    SpaceReport,
};
use crate::storage::devices::check_devices;
use crate::storage::hardware::{LOOK_MAX, NEED_MAX};
use crate::storage::{Closed, GroupSlot, Serving, SlotState, StorageError, is_away};
use base::{CHUNK_SIZE, ComponentId, GroupId, Map, ObjectId, SECTOR_SIZE, format_size};
use directory::ComponentState;
use diskgroup::{
    ComponentInfo, CreateSizes, DeviceHealth, DeviceRole, DeviceStatus, DiskGroup, GroupKind,
    GroupSpec, GroupStatus, Limit, Space,
};
use env::Hardware;
use std::time::Duration;

/// Destage that has work and gets nothing done for so long is told of: the slowest device that
/// works destages a segment in less.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// States of a device that does all of its work.
const OK: &str = "ok";
const FILLING_UP: &str = "filling up";

impl Operations {
    /// Asks what the devices of all groups are, for what is about to be shown.
    pub(crate) async fn look_at_devices(&self) {
        let slots = self.storage.slots();
        let paths = |slot: &GroupSlot| {
            let GroupSpec { cache, capacity } = &slot.spec;
            std::iter::once(cache).chain(capacity).cloned().collect::<Vec<_>>()
        };
        let paths: Vec<String> = slots.iter().flat_map(paths).collect();
        drop(slots);
        self.hardware.wait_for(paths.iter(), LOOK_MAX).await;
    }

    /// All groups of this host, those that did not open too.
    pub(crate) fn group_reports(&self) -> Vec<GroupReport> {
        let report = |slot: &GroupSlot| match &slot.state {
            SlotState::Open(serving) => self.group_report(serving),
            SlotState::Closed(why) => self.closed_report(slot, why),
        };
        self.storage.slots().iter().map(report).collect()
    }

    /// One group with its components.
    pub(crate) fn group_show(&self, id: &str) -> Outcome<GroupDetail> {
        let slot = self.storage.find(id).map_err(failed)?;
        let SlotState::Open(serving) = &slot.state else {
            return Err(failed(StorageError::IsClosed { cache: slot.spec.cache }));
        };
        let group = &serving.group;
        let mut volumes: Map<ObjectId, String> = Map::new();
        for volume in self.view.volumes() {
            for object in &volume.objects {
                volumes.insert(*object, volume.name.clone());
            }
        }
        let held = |id: ComponentId| {
            let info = group.component(id)?;
            let held = held_report(id, &info, volumes.get(&info.object).cloned());
            Some(HeldReport { device: device_of(group, id).unwrap_or_default(), ..held })
        };
        let components = group.components().into_iter().filter_map(held).collect();
        Ok(GroupDetail { group: self.group_report(serving), components })
    }

    fn group_report(&self, serving: &Serving) -> GroupReport {
        let group = &serving.group;
        let scrubber = self.scrubbers.of(group);
        let status = group.status();
        let is_fenced = status.fenced.is_some();
        let (host, id) = (self.view.host_name(self.me), group.id());
        let pressure = status.pressure;
        let (scrub_progress, oldest_unverified_seconds) =
            scrubber.as_ref().map(Scrubber::progress).unwrap_or_default();
        let mut lines: Vec<String> = stuck(id, &status).into_iter().collect();
        let mut is_well = lines.is_empty()
            && !scrubber.as_ref().is_some_and(Scrubber::has_lost)
            && !group.is_any_out();
        lines.extend(rotten_log(group.cache_path(), &status));
        lines.extend(scrubber.iter().flat_map(Scrubber::attention));
        let mut devices = Vec::new();
        for device in group.devices() {
            if let DeviceRole::Capacity(space) = device.role
                && let Some(what) = attention(&self.tuning, &space).filter(|_| !is_fenced)
            {
                lines.push(format!(
                    "capacity device {} {what} ('gabion group show {id}')",
                    device.path
                ));
            }
            if device.latency.health == DeviceHealth::Slow && !is_fenced {
                lines.extend(latency::attention(&device, &self.volumes_of(group)));
            }
            let hardware = self.hardware.of(&device.path);
            let report = device_report(device, hardware, is_fenced, &self.tuning);
            is_well &= matches!(report.state.as_str(), OK | FILLING_UP);
            devices.push(report);
        }
        GroupReport {
            host,
            id: id.to_string(),
            is_open: true,
            health: if is_well { Health::Green } else { Health::Yellow },
            buffer_fill: status.buffer_fill,
            buffer_bytes: status.buffer_bytes,
            appended_bytes: status.appended_bytes,
            read_cache: read_cache(&status),
            limited_by: limited_by(&status),
            writes_waiting: pressure.waiting,
            oldest_entry_seconds: pressure.oldest.map(|age| age.as_secs_f64()),
            rotten_log_blocks: status.rotten_log_blocks,
            used_bytes: status.used_bytes,
            capacity_bytes: status.capacity_bytes,
            state: status.fenced.map_or_else(
                || without(group).unwrap_or_else(|| "ok".to_owned()),
                |why| {
                    format!(
                        "the group takes no writes: {why}; its volumes are served by their other \
                         copies; next: look at the device, then 'gabion group open {id}'"
                    )
                },
            ),
            recovery_ms: group.recovery().duration.as_secs_f64() * 1e3,
            scrub_progress,
            oldest_unverified_seconds,
            attention: lines,
            devices,
        }
    }

    /// Names of the volumes with a copy on a group.
    fn volumes_of(&self, group: &DiskGroup) -> Vec<String> {
        let components = group.components().into_iter().filter_map(|id| group.component(id));
        let objects: base::Set<ObjectId> = components.map(|info| info.object).collect();
        let volumes = self.view.volumes().into_iter();
        let is_here = |id: &ObjectId| objects.contains(id);
        volumes.filter(|v| v.objects.iter().any(is_here)).map(|v| v.name).collect()
    }

    fn closed_report(&self, slot: &GroupSlot, why: &Closed) -> GroupReport {
        let GroupSpec { cache, capacity } = &slot.spec;
        let next = match why {
            Closed::Asked | Closed::Changing => format!("'gabion group open {cache}'"),
            Closed::Failed(error) if error.is_rotten_log() => format!(
                "wait: it opens without what its write buffer held once others are known to have \
                 that ('gabion volume list'); where they do not, look with 'gabion disk inspect', \
                 or give it a new device with 'gabion disk replace {cache}'"
            ),
            Closed::Failed(_) => format!(
                "look with 'gabion disk inspect', then 'gabion group open {cache}', or give it a \
                 new device with 'gabion disk replace'"
            ),
        };
        let paths = std::iter::once((cache, Role::Cache));
        let paths = paths.chain(capacity.iter().map(|path| (path, Role::Capacity)));
        let device = |(path, role): (&String, Role)| {
            let hardware = self.hardware.of(path);
            DeviceReport {
                path: path.clone(),
                role,
                kind: kind(&hardware, false),
                model: hardware.model,
                size_bytes: 0,
                used_bytes: 0,
                written_bytes: 0,
                state: "out of service".to_owned(),
                space: None,
                latency: None,
            }
        };
        GroupReport {
            host: self.view.host_name(self.me),
            id: slot.id.map(|id| id.to_string()).unwrap_or_default(),
            is_open: false,
            health: Health::Yellow,
            buffer_fill: 0.0,
            buffer_bytes: 0,
            appended_bytes: 0,
            read_cache: None,
            limited_by: String::new(),
            writes_waiting: 0,
            oldest_entry_seconds: None,
            rotten_log_blocks: 0,
            used_bytes: 0,
            capacity_bytes: 0,
            state: format!(
                "the group of {cache} is out of service: {why}; its volumes are served by their \
                 other copies; next: {next}"
            ),
            recovery_ms: 0.0,
            scrub_progress: None,
            oldest_unverified_seconds: None,
            attention: Vec::new(),
            devices: paths.map(device).collect(),
        }
    }
}

impl Operations {
    /// Carries out a command that changes a group: its devices then, as the configuration names
    /// them.
    pub(crate) async fn change_group(&self, command: Command) -> Outcome<GroupConfig> {
        let sizes = |bytes: u64| CreateSizes { cache: bytes, capacity: bytes };
        let spec = match command {
            Command::GroupCreate { cache, capacity, create_bytes, wipe, ignore_device_kind } => {
                let group = GroupConfig { cache, capacity };
                group.check().map_err(usage)?;
                self.check_devices(&group, ignore_device_kind).await?;
                let spec = GroupSpec::from(group);
                let made = self.storage.create(&spec, create_bytes.map(sizes), wipe).await;
                made.map_err(failed)?;
                spec
            }
            Command::GroupExtend {
                group: wanted,
                device,
                create_bytes,
                wipe,
                ignore_device_kind,
            } => {
                let cache = self.storage.find(&wanted).map_err(failed)?.spec.cache;
                let capacity = vec![device.clone()];
                let group = GroupConfig { cache, capacity };
                self.check_devices(&group, ignore_device_kind).await?;
                let extended = self.storage.extend(&wanted, &device, create_bytes, wipe).await;
                extended.map_err(failed)?
            }
            Command::GroupClose { group, stop_volumes } => {
                let spec = {
                    let slot = self.storage.find(&group).map_err(failed)?;
                    if !stop_volumes {
                        self.check_other_copies(&slot)?;
                    }
                    slot.spec
                };
                self.storage.close(&spec.cache).await.map_err(failed)?;
                spec
            }
            Command::GroupOpen { group, devices } => {
                let spec = devices.map(GroupSpec::from);
                self.storage.open(&group, spec).await.map_err(failed)?
            }
            Command::GroupRemove { group } => self.storage.remove(&group).await.map_err(failed)?,
            _ => return Err(failed("not a command about disk groups")),
        };
        Ok(GroupConfig { cache: spec.cache, capacity: spec.capacity })
    }

    async fn check_devices(&self, group: &GroupConfig, is_ignored: bool) -> Outcome<()> {
        if is_ignored {
            return Ok(());
        }
        self.hardware.wait_for(group.devices(), NEED_MAX).await;
        check_devices(self.kind, group, |path| self.hardware.of(path)).map_err(failed)
    }

    /// Refuses where a volume would stop with a group: the only copy of a part that is whole and
    /// can be reached is there.
    fn check_other_copies(&self, slot: &GroupSlot) -> Outcome<()> {
        let SlotState::Open(serving) = &slot.state else { return Ok(()) };
        let here = serving.group.components();
        let mut alone = Vec::new();
        for volume in self.view.volumes() {
            let objects = volume.objects.iter().filter_map(|id| self.view.object(*id));
            let is_alone = |object: &directory::ObjectRecord| {
                let is_here = object.components.iter().any(|c| here.contains(&c.id));
                let is_elsewhere = object.components.iter().any(|c| {
                    c.state == ComponentState::Active
                        && !here.contains(&c.id)
                        && self.view.alive(c.host).is_some()
                });
                is_here && !is_elsewhere
            };
            if objects.into_iter().any(|object| is_alone(&object)) {
                alone.push(volume.name);
            }
        }
        if alone.is_empty() {
            return Ok(());
        }
        Err(failed(format!(
            "the only copy of {} that is whole and can be reached is on the disk group of {}: wait \
             for the others ('gabion volume list'), or say --stop-volumes",
            alone.join(", "),
            slot.spec.cache
        )))
    }
}

/// What a person should know of a group that lacks capacity devices.
fn without(group: &DiskGroup) -> Option<String> {
    let outs = group.out_devices();
    let first = outs.first()?;
    let causes: Vec<String> = outs.iter().map(|out| out.cause.to_string()).collect();
    let id = group.id();
    let next = match outs.iter().all(|out| is_away(&out.cause)) {
        true => format!(
            "put it back, and it serves some seconds later, or give the group a new one with \
             'gabion disk replace {}'",
            first.path
        ),
        false => format!(
            "look at the device, then 'gabion group open {id}' to try it again, or 'gabion disk \
             replace {}'",
            first.path
        ),
    };
    let held = match group.holds_for_out() {
        true => "; its write buffer keeps what only this device has until the other copies have it",
        false => "",
    };
    Some(format!(
        "capacity device {} is out of the disk group of {}: {}; the group's other devices serve, \
         what is on this one is served by its other copies, and this host makes no new copies\
         {held}; next: {next}",
        first.path,
        group.cache_path(),
        causes.join("; ")
    ))
}

/// Path of the capacity device that holds a component.
pub(crate) fn device_of(group: &DiskGroup, id: ComponentId) -> Option<String> {
    let at = group.device_of(id)?;
    group.capacity().into_iter().nth(at).map(|device| device.path)
}

fn held_report(id: ComponentId, info: &ComponentInfo, volume: Option<String>) -> HeldReport {
    HeldReport {
        component: id.to_string(),
        object: info.object.to_string(),
        volume,
        size_bytes: info.sectors * SECTOR_SIZE,
        used_bytes: u64::from(info.held) * CHUNK_SIZE,
        reserve_bytes: u64::from(info.reserve) * CHUNK_SIZE,
        device: String::new(),
    }
}

fn device_report(
    device: DeviceStatus,
    hardware: Hardware,
    is_fenced: bool,
    tuning: &Tuning,
) -> DeviceReport {
    let (role, used_bytes, space) = match device.role {
        DeviceRole::Cache { used_bytes } => (Role::Cache, used_bytes, None),
        DeviceRole::Capacity(space) => {
            let used_bytes = space.allocated_bytes + space.reserved_bytes;
            (Role::Capacity, used_bytes, Some(space).filter(|_| device.out.is_none()))
        }
    };
    let percent = space.map_or(0, |space| space.taken_percent());
    let state = match device.latency.health {
        _ if device.out.is_some() => "out",
        DeviceHealth::Stuck => "stuck",
        _ if is_fenced => "takes no writes",
        DeviceHealth::Slow => "slow",
        DeviceHealth::Ok if percent >= u64::from(tuning.space_full_percent) => "full",
        DeviceHealth::Ok if percent >= u64::from(tuning.space_warn_percent) => FILLING_UP,
        DeviceHealth::Ok => OK,
    };
    DeviceReport {
        path: device.path,
        role,
        kind: kind(&hardware, device.is_file),
        model: hardware.model,
        size_bytes: device.size_bytes,
        used_bytes,
        written_bytes: device.written_bytes,
        state: state.to_owned(),
        space: space.map(SpaceReport::from),
        latency: Some(latency::report(&device.latency)),
    }
}

fn kind(hardware: &Hardware, is_file: bool) -> DeviceKind {
    match (hardware.is_rotational, is_file) {
        (Some(true), _) => DeviceKind::Hdd,
        (Some(false), _) => DeviceKind::Ssd,
        (None, true) => DeviceKind::File,
        (None, false) => DeviceKind::Unknown,
    }
}

/// What limits the writes of a group, in a word or two.
fn read_cache(status: &GroupStatus) -> Option<ReadCacheReport> {
    let cache = &status.read_cache;
    (status.kind != GroupKind::AllFlash).then_some(ReadCacheReport {
        size_bytes: cache.bytes,
        used_bytes: cache.used_bytes,
        memory_bytes: cache.memory_bytes,
        hits: cache.hits,
        misses: cache.misses,
        bypassed_bytes: cache.bypassed_bytes,
        rotten_blocks: cache.rotten_blocks,
        capacity_bytes: cache.capacity_bytes,
        filled_bytes: cache.filled_bytes,
        updated_bytes: cache.updated_bytes,
        header_bytes: cache.header_bytes,
        written_per_read: cache.written_per_read(),
    })
}

fn limited_by(status: &GroupStatus) -> String {
    match status.pressure.limit {
        Limit::Nothing => "nothing".to_owned(),
        Limit::Destage => format!("destage (buffer {:.0} % full)", status.buffer_fill * 100.0),
        Limit::CacheDevice => "cache device".to_owned(),
    }
}

/// A cache device that does not keep what its log holds.
fn rotten_log(cache: &str, status: &GroupStatus) -> Option<String> {
    let (count, are) = match status.rotten_log_blocks {
        0 => return None,
        1 => ("1 block".to_owned(), "was"),
        count => (format!("{count} blocks"), "were"),
    };
    Some(format!(
        "{count} of the write buffer's log on {cache} {are} rotten or unreadable; what it held was \
         known or comes from other copies, and nothing is to be done for it; next: look at the \
         device (the kernel's log, smartctl -a), and if this comes again, 'gabion disk replace \
         {cache}'"
    ))
}

/// What a person should know of a destage that stands still, and what to do.
fn stuck(id: GroupId, status: &GroupStatus) -> Option<String> {
    let pressure = status.pressure;
    let since = pressure.stuck.filter(|since| *since >= STUCK_AFTER)?;
    let (cause, next) = match pressure.waits_for_copies {
        true => (
            "it waits until the other copies of a volume have what is in it",
            "see 'gabion volume list' for copies that do not come back",
        ),
        false => (
            "a capacity device does not answer",
            "look at the group's devices (kernel log, iostat), and replace the one that hangs \
             with 'gabion disk replace'",
        ),
    };
    Some(format!(
        "nothing was destaged from the write buffer of disk group {id} for {} s: it is {:.0} % \
         full, its oldest entry {} s old; {cause}, and writes stop when it is full; next: {next} \
         ('gabion group show {id}')",
        since.as_secs(),
        status.buffer_fill * 100.0,
        pressure.oldest.unwrap_or_default().as_secs()
    ))
}

/// What a person should know of a device that fills up, and what to do.
fn attention(tuning: &Tuning, space: &Space) -> Option<String> {
    let percent = space.taken_percent();
    if percent < u64::from(tuning.space_warn_percent) {
        return None;
    }
    let (taken, all) = (format_size(space.taken_bytes()), format_size(space.chunk_bytes()));
    let kept = match space.promised_bytes {
        0 => String::new(),
        promised => format!(", {} of it kept for volumes with a reserve", format_size(promised)),
    };
    let full = tuning.space_full_percent;
    let effect = match percent >= u64::from(full) {
        true => "it takes no new volumes",
        false => "from there on it takes no new volumes",
    };
    let limit =
        if percent >= u64::from(full) { String::new() } else { format!(", the limit is {full} %") };
    Some(format!(
        "is {percent} % taken ({taken} of {all}{kept}){limit}: {effect}; next: delete volumes or \
         discard what they do not need (fstrim), or add a host; see what takes the space"
    ))
}

impl From<Space> for SpaceReport {
    fn from(space: Space) -> Self {
        Self {
            metadata_bytes: space.metadata_bytes,
            allocated_bytes: space.allocated_bytes,
            reserved_bytes: space.reserved_bytes,
            promised_bytes: space.promised_bytes,
            freeing_bytes: space.freeing_bytes,
            free_bytes: space.free_bytes,
            unusable_bytes: space.unusable_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskgroup::{DeviceLatency, Pressure};

    /// A device of 100 chunks of which so many are taken.
    fn taken(chunks: u64) -> Space {
        let allocated_bytes = chunks * CHUNK_SIZE;
        Space { allocated_bytes, free_bytes: (100 - chunks) * CHUNK_SIZE, ..Space::default() }
    }

    fn of(space: Space) -> (String, Option<String>) {
        let tuning = Tuning::default();
        let status = DeviceStatus {
            path: "/dev/x".to_owned(),
            size_bytes: space.total_bytes(),
            is_file: true,
            written_bytes: 0,
            out: None,
            role: DeviceRole::Capacity(space),
            latency: DeviceLatency::default(),
        };
        let report = device_report(status, Hardware::default(), false, &tuning);
        (report.state, attention(&tuning, &space))
    }

    #[test]
    fn a_device_that_fills_up_is_told_of_before_it_is_full() {
        assert_eq!(of(taken(79)), ("ok".to_owned(), None));
        let (state, attention) = of(taken(80));
        let attention = attention.expect("at 80 %");
        assert_eq!(state, "filling up");
        assert!(attention.contains("80 %") && attention.contains("the limit is 90 %"));
        let (state, attention) = of(taken(90));
        let attention = attention.expect("at 90 %");
        assert_eq!(state, "full");
        assert!(attention.contains("it takes no new volumes") && !attention.contains('\n'));
    }

    fn pressed(pressure: Pressure) -> GroupStatus {
        GroupStatus { buffer_fill: 0.97, pressure, ..GroupStatus::default() }
    }

    #[test]
    fn a_destage_that_stands_still_is_told_of_after_half_a_minute() {
        let seconds = |n| Some(Duration::from_secs(n));
        let of = |since, waits_for_copies| {
            let pressure =
                Pressure { stuck: since, waits_for_copies, oldest: seconds(75), ..<_>::default() };
            stuck(GroupId(0xABC), &pressed(pressure))
        };
        assert_eq!(of(None, false), None);
        assert_eq!(of(seconds(29), false), None);
        let line = of(seconds(30), false).expect("at 30 s");
        let id = GroupId(0xABC).to_string();
        for part in
            [id.as_str(), "30 s", "97 %", "75 s", "does not answer", "next: ", "disk replace"]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains('\n'), "{line}");
        assert!(of(seconds(99), true).expect("at 99 s").contains("other copies"));
    }

    #[test]
    fn rotten_blocks_of_the_log_are_told_of() {
        let of = |rotten_log_blocks| {
            rotten_log("/dev/x", &GroupStatus { rotten_log_blocks, ..GroupStatus::default() })
        };
        assert_eq!(of(0), None);
        for (count, begin) in [(1, "1 block of"), (3, "3 blocks of")] {
            let line = of(count).expect("above zero");
            assert!(line.starts_with(begin) && line.contains("next: look at"), "{line}");
            assert!(
                line.contains("'gabion disk replace /dev/x'") && !line.contains('\n'),
                "{line}"
            );
        }
    }

    #[test]
    fn what_limits_writes_has_a_name() {
        let of = |limit| limited_by(&pressed(Pressure { limit, ..Pressure::default() }));
        assert_eq!(of(Limit::Nothing), "nothing");
        assert_eq!(of(Limit::Destage), "destage (buffer 97 % full)");
        assert_eq!(of(Limit::CacheDevice), "cache device");
    }

    #[test]
    fn what_is_promised_and_what_the_log_holds_count_as_taken() {
        let mut space = taken(50);
        space.free_bytes -= 30 * CHUNK_SIZE;
        space.promised_bytes = 20 * CHUNK_SIZE;
        space.reserved_bytes = 10 * CHUNK_SIZE;
        let (state, attention) = of(space);
        assert_eq!(state, "filling up");
        assert!(attention.expect("at 80 %").contains("20MiB of it kept"));
    }
}
