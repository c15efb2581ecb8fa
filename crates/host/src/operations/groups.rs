// SPDX-License-Identifier: Apache-2.0
//! What a host tells of its disk groups and their devices.

mod attention;
mod change;

use super::{Operations, Outcome, failed};
use crate::care::latency;
use crate::care::scrub::Scrubber;
use crate::config::Tuning;
use crate::storage::hardware::LOOK_MAX;
use crate::storage::{Closed, GroupSlot, Serving, SlotState, StorageError};
use attention::{filling_up, limited_by, rotten_log, stuck, without};
use base::{CHUNK_SIZE, ComponentId, Map, ObjectId, SECTOR_SIZE};
use diskgroup::{
    ComponentInfo, DeviceHealth, DeviceRequests, DeviceRole, DeviceStatus, DiskGroup, GroupKind,
    GroupSpec, GroupStatus, Space,
};
use env::Hardware;
use operator::{
    DeviceMedium, DeviceReport, GroupDetail, GroupReport, Health, HeldReport, ReadCacheReport,
    RequestsReport, Role, SpaceReport,
};

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
    pub(crate) async fn group_show(&self, id: &str) -> Outcome<GroupDetail> {
        self.look_at_devices().await;
        let slot = self.storage.find(id).map_err(failed)?;
        let SlotState::Open(serving) = &slot.state else {
            return Err(failed(StorageError::IsClosed { cache: slot.spec.cache }));
        };
        let group = &serving.group;
        let mut volumes: Map<ObjectId, String> = Map::new();
        for volume in self.view.volumes() {
            for object in &volume.objects {
                volumes.insert(*object, volume.title());
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
        let (host, id) = (self.view.shard_name(self.me), group.id());
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
                && let Some(what) = filling_up(&self.tuning, &space).filter(|_| !is_fenced)
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
            unaligned_writes: status.unaligned_writes,
            direct_bytes: status.direct_bytes,
            mapped_bytes: status.mapped_bytes,
            read_cache: read_cache(&status),
            limited_by: limited_by(&status),
            writes_waiting: pressure.waiting,
            oldest_entry_seconds: pressure.oldest.map(|age| age.as_secs_f64()),
            rotten_log_blocks: status.rotten_log_blocks,
            requests: requests(&status.requests),
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
        volumes.filter(|v| v.objects.iter().any(is_here)).map(|v| v.title()).collect()
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
            host: self.view.shard_name(self.me),
            id: slot.id.map(|id| id.to_string()).unwrap_or_default(),
            is_open: false,
            health: Health::Yellow,
            buffer_fill: 0.0,
            buffer_bytes: 0,
            appended_bytes: 0,
            unaligned_writes: 0,
            direct_bytes: 0,
            mapped_bytes: 0,
            read_cache: None,
            limited_by: String::new(),
            writes_waiting: 0,
            oldest_entry_seconds: None,
            rotten_log_blocks: 0,
            requests: RequestsReport::default(),
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
        space: space.map(space_report),
        latency: Some(latency::report(&device.latency)),
    }
}

fn kind(hardware: &Hardware, is_file: bool) -> DeviceMedium {
    match (hardware.is_rotational, is_file) {
        (Some(true), _) => DeviceMedium::Hdd,
        (Some(false), _) => DeviceMedium::Ssd,
        (None, true) => DeviceMedium::File,
        (None, false) => DeviceMedium::Unknown,
    }
}

fn read_cache(status: &GroupStatus) -> Option<ReadCacheReport> {
    let cache = &status.read_cache;
    (status.kind != GroupKind::AllFlash).then_some(ReadCacheReport {
        size_bytes: cache.bytes,
        used_bytes: cache.used_bytes,
        asked_bytes: cache.asked_bytes,
        kept_bytes: cache.kept_bytes,
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

fn requests(of: &DeviceRequests) -> RequestsReport {
    RequestsReport {
        commits: of.commits,
        log_read: of.log_read,
        blocks: of.blocks,
        direct: of.direct,
        merged: of.merged,
        records: of.records,
        heads: of.heads,
        pages_read: of.pages_read,
        pages_written: of.pages_written,
        map_pages: of.map_pages,
        rows: of.rows,
        read_back: of.read_back,
        flushes: of.flushes,
    }
}

fn space_report(space: Space) -> SpaceReport {
    SpaceReport {
        metadata_bytes: space.metadata_bytes,
        allocated_bytes: space.allocated_bytes,
        reserved_bytes: space.reserved_bytes,
        promised_bytes: space.promised_bytes,
        freeing_bytes: space.freeing_bytes,
        free_bytes: space.free_bytes,
        unusable_bytes: space.unusable_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskgroup::DeviceLatency;

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
        (report.state, filling_up(&tuning, &space))
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
