// SPDX-License-Identifier: Apache-2.0
//! How fast devices answer, for tables.

use crate::output::{self, say};
use operator::{ClassReport, DeviceReport, GroupReport, LatencyReport};

/// The classes of operations that were measured, slowest first.
fn measured(latency: &LatencyReport) -> Vec<(&'static str, &ClassReport)> {
    let LatencyReport { reads, writes, durable, .. } = latency;
    let all = [("reads", reads), ("writes", writes), ("durable writes, flushes", durable)];
    let mut some: Vec<_> = all.into_iter().filter(|(_, class)| class.operations > 0).collect();
    some.sort_by_key(|(_, class)| std::cmp::Reverse(class.median_us));
    some
}

fn millis(micros: u64) -> String {
    let millis = micros as f64 / 1e3;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.0} ms") }
}

/// One number for a list: the median of the class of operations that takes longest.
pub fn median(device: &DeviceReport) -> String {
    let latency = device.latency.as_ref();
    let slowest = latency.and_then(|latency| measured(latency).first().map(|(_, c)| c.median_us));
    slowest.map_or_else(|| "-".to_owned(), millis)
}

/// All that was measured of a group's devices.
pub fn table(group: &GroupReport) {
    let of = |device: &DeviceReport| {
        let latency = device.latency.as_ref();
        let measured = latency.map(measured).unwrap_or_default().into_iter();
        let row = |(what, class): (&str, &ClassReport)| {
            vec![
                device.path.clone(),
                what.to_owned(),
                millis(class.median_us),
                millis(class.max_us),
                class.usual_us.map_or_else(|| "-".to_owned(), millis),
                class.operations.to_string(),
                if class.is_slow { "slow".to_owned() } else { String::new() },
            ]
        };
        measured.map(row).collect::<Vec<_>>()
    };
    let rows: Vec<_> = group.devices.iter().flat_map(of).collect();
    if !rows.is_empty() {
        say!("");
        let heading = ["device", "latency of", "median", "longest", "usual", "i/os", ""];
        output::table(&heading, rows);
    }
    let waiting = |device: &&DeviceReport| {
        let oldest = device.latency.as_ref().and_then(|latency| latency.oldest_seconds);
        oldest.is_some_and(|seconds| seconds > 1)
    };
    for device in group.devices.iter().filter(waiting) {
        if let Some(LatencyReport { in_flight, oldest_seconds: Some(seconds), .. }) = device.latency
        {
            say!("{}: {in_flight} I/Os unanswered, the oldest for {seconds} s", device.path);
        }
    }
}
