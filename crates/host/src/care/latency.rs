// SPDX-License-Identifier: Apache-2.0
//! Devices that answer late or not at all: what is told of them. When a group that stopped because
//! of one is opened again is for [`super::outs`] to say.

use crate::storage::Storage;
use base::Map;
use diskgroup::{ClassLatency, DeviceHealth, DeviceLatency, DeviceRole, DeviceStatus};
use env::Env;
use operator::{ClassReport, LatencyReport};
use std::time::Duration;
use tracing::{info, warn};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Names of volumes that are spelled out.
const NAMES_MAX: usize = 3;

/// Runs for ever.
pub(crate) async fn run(env: Env, storage: Storage) {
    let mut known: Map<String, DeviceHealth> = Map::new();
    loop {
        env.sleep(LOOK_EVERY).await;
        note_changes(&storage, &mut known);
    }
}

fn note_changes(storage: &Storage, known: &mut Map<String, DeviceHealth>) {
    let devices = storage.groups().into_iter().flat_map(|group| group.devices());
    for DeviceStatus { path, latency, .. } in devices {
        let health = latency.health;
        let before = known.insert(path.clone(), health).unwrap_or_default();
        let (device, slowest) = (path, slowest(&latency).map(|(what, class)| figures(what, class)));
        match (before, health) {
            _ if before == health => {}
            (_, DeviceHealth::Ok) => info!(device, "a device answers as it should again"),
            (_, DeviceHealth::Slow) => warn!(device, slowest, "a device answers late"),
            (_, DeviceHealth::Stuck) => warn!(device, "a device does not answer"),
        }
    }
}

/// The class in which a device is slow, the slowest if several.
fn slowest(latency: &DeviceLatency) -> Option<(&'static str, &ClassLatency)> {
    let DeviceLatency { reads, writes, durable, .. } = latency;
    let classes = [("reads", reads), ("writes", writes), ("durable writes and flushes", durable)];
    classes.into_iter().filter(|(_, class)| class.is_slow).max_by_key(|(_, class)| class.median)
}

fn figures(what: &str, class: &ClassLatency) -> String {
    let usual = class.usual.map_or_else(String::new, |usual| format!(", usually {}", time(usual)));
    format!("{what} take {} (longest {}){usual}", time(class.median), time(class.max))
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() * 1e3 {
        millis if millis < 10.0 => format!("{millis:.1} ms"),
        millis if millis < 10_000.0 => format!("{millis:.0} ms"),
        millis => format!("{:.0} s", millis / 1e3),
    }
}

/// What a person should know of a slow device, and what to do. `volumes` have a copy in its group.
pub(crate) fn attention(device: &DeviceStatus, volumes: &[String]) -> Option<String> {
    let (what, class) = slowest(&device.latency)?;
    let role = match device.role {
        DeviceRole::Cache { .. } => "cache",
        DeviceRole::Capacity(_) => "capacity",
    };
    let names = match volumes.len() {
        0 => "no volume".to_owned(),
        1..=NAMES_MAX => volumes.join(", "),
        all => format!("{} and {} more", volumes[..NAMES_MAX].join(", "), all - NAMES_MAX),
    };
    let path = &device.path;
    Some(format!(
        "{role} device {path} answers late: {}; of {names}, reads go to another copy where there \
         is one, and writes wait for this one; next: look at the device (kernel log, smartctl, \
         iostat), then 'gabion disk replace {path}'",
        figures(what, class)
    ))
}

/// For the command line.
pub(crate) fn report(latency: &DeviceLatency) -> LatencyReport {
    let class = |class: &ClassLatency| {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        ClassReport {
            operations: class.operations,
            median_us: micros(class.median),
            max_us: micros(class.max),
            usual_us: class.usual.map(micros),
            is_slow: class.is_slow,
        }
    };
    LatencyReport {
        health: latency.health.name().to_owned(),
        in_flight: latency.in_flight,
        oldest_seconds: latency.oldest.map(|waited| waited.as_secs()),
        reads: class(&latency.reads),
        writes: class(&latency.writes),
        durable: class(&latency.durable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(millis: u64, is_slow: bool) -> ClassLatency {
        let median = Duration::from_millis(millis);
        let usual = Some(Duration::from_micros(400));
        ClassLatency { operations: 9, median, max: median * 20, usual, is_slow }
    }

    fn device(latency: DeviceLatency) -> DeviceStatus {
        let (path, role) = ("/dev/sdx".to_owned(), DeviceRole::Cache { used_bytes: 0 });
        let (size_bytes, is_file, written_bytes) = (1, false, 0);
        DeviceStatus { path, size_bytes, is_file, written_bytes, out: None, role, latency }
    }

    #[test]
    fn a_slow_device_is_told_of_with_figures_effect_and_next_step() {
        let volumes: Vec<_> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(attention(&device(DeviceLatency::default()), &volumes), None);
        let latency = DeviceLatency {
            health: DeviceHealth::Slow,
            reads: class(90, true),
            writes: class(7000, false),
            durable: class(1200, true),
            ..DeviceLatency::default()
        };
        let line = attention(&device(latency), &volumes).expect("it is slow");
        for part in [
            "cache device /dev/sdx",
            "durable writes and flushes take 1200 ms (longest 24 s), usually 0.4 ms",
            "of a, b, c and 2 more",
            "next: ",
            "'gabion disk replace /dev/sdx'",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains('\n'), "{line}");
        let report = report(&latency);
        assert_eq!((report.health.as_str(), report.reads.median_us), ("slow", 90_000));
        assert_eq!(report.durable.usual_us, Some(400));
    }
}
