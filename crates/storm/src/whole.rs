// SPDX-License-Identifier: Apache-2.0
//! Whether hosts say that everything is whole.

use crate::campaign::SeedRun;
use operator::{
    BLOCKS_LOST, Command, CommandReply, DESTAGE_STOOD_STILL, DeviceReport, GroupReport, Health,
    HostState, StatusReport,
};

impl SeedRun {
    /// Whether every host says that all volumes are whole. One host is not enough: it may have been
    /// cut off a moment ago and not know better. A device may still be called slow, because nobody
    /// uses it now, and a full one stays full.
    pub(crate) fn is_whole(&mut self) -> bool {
        (0..self.cluster.machines.len()).all(|index| {
            let Some(CommandReply::Ok(value)) = self.ask(index, Command::Status) else {
                return false;
            };
            let status = serde_json::from_value::<StatusReport>(value);
            status.is_ok_and(|status| {
                let (health, alarms) = (status.health, &status.alarms);
                let groups = status.groups.iter();
                let unwell: Vec<_> = groups.filter(|group| !is_well(group)).collect();
                let hosts = status.hosts.iter().filter(|host| host.state != HostState::Up);
                let away: Vec<_> = hosts.map(|host| &host.name).collect();
                let volumes = status.volumes.iter().filter(|one| !self.is_never_whole(one));
                let reduced = volumes.filter(|one| one.health != Health::Green);
                let reduced: Vec<_> = reduced.map(|one| (&one.name, &one.components)).collect();
                let host = index + 1;
                tracing::debug!(host, ?health, ?alarms, ?unwell, ?away, ?reduced, "asked");
                health != Health::Red
                    && unwell.is_empty()
                    && reduced.is_empty()
                    && status.hosts.iter().all(|host| host.state == HostState::Up)
            })
        })
    }
}

/// Whether a disk group does all of its work. Devices that are slow or full turn it yellow too, so
/// its health alone says too little: everything else that turns it yellow is looked at here.
fn is_well(group: &GroupReport) -> bool {
    if group.health == Health::Green {
        return true;
    }
    let is_tolerated = |device: &DeviceReport| matches!(device.state.as_str(), "slow" | "full");
    let does_its_work = |device: &DeviceReport| {
        is_tolerated(device) || matches!(device.state.as_str(), "ok" | "filling up")
    };
    group.is_open
        && group.state == "ok"
        && group.devices.iter().any(is_tolerated)
        && group.devices.iter().all(does_its_work)
        && !group
            .attention
            .iter()
            .any(|line| line.starts_with(DESTAGE_STOOD_STILL) || line.starts_with(BLOCKS_LOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn device(state: &str) -> Value {
        json!({
            "path": state, "role": "capacity", "kind": "ssd", "size_bytes": 1, "used_bytes": 0,
            "written_bytes": 0, "state": state,
        })
    }

    fn group(change: impl FnOnce(&mut Value)) -> GroupReport {
        let mut group = json!({
            "host": "host1", "id": "1", "is_open": true, "health": "yellow", "buffer_fill": 0.0,
            "used_bytes": 0, "capacity_bytes": 1, "state": "ok", "recovery_ms": 0.0,
            "attention": ["a device is slow"],
            "devices": [device("ok"), device("slow"), device("full"), device("filling up")],
        });
        change(&mut group);
        serde_json::from_value(group).expect("a report")
    }

    #[test]
    fn a_slow_or_full_device_is_no_excuse_for_anything_else() {
        assert!(is_well(&group(|_| {})));
        assert!(is_well(&group(|group| {
            (group["health"], group["devices"]) = (json!("green"), json!([]));
        })));
        let wrong: [(&str, Value); 6] = [
            ("devices", json!([])),
            ("is_open", json!(false)),
            ("state", json!("the group takes no writes: a flush failed")),
            ("devices", json!([device("slow"), device("stuck")])),
            ("attention", json!([format!("{DESTAGE_STOOD_STILL} of disk group 1 for 40 s")])),
            ("attention", json!([format!("{BLOCKS_LOST} 3 block(s)")])),
        ];
        for (field, value) in wrong {
            let said = value.to_string();
            assert!(!is_well(&group(|group| group[field] = value)), "{field}: {said}");
        }
    }
}
