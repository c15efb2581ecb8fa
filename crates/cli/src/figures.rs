// SPDX-License-Identifier: Apache-2.0
//! Performance, as it is written: numbers, columns of each kind of object, and small curves.

use operator::history::{OperationPoint, PerformanceKind, PerformancePoint};

/// A column: its heading, what stands in it, and what it is sorted by. Nothing where nothing is
/// known.
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    value: fn(&PerformancePoint) -> Option<f64>,
    write: fn(f64) -> String,
}

impl Column {
    /// What stands in it.
    pub fn text(&self, point: &PerformancePoint) -> String {
        (self.value)(point).map_or_else(|| "-".to_owned(), self.write)
    }

    /// What it is sorted by: what is not known comes last.
    pub fn key(&self, point: &PerformancePoint) -> f64 {
        (self.value)(point).unwrap_or(-1.0)
    }
}

const fn column(
    heading: &'static str,
    value: fn(&PerformancePoint) -> Option<f64>,
    write: fn(f64) -> String,
) -> Column {
    Column { heading, value, write }
}

fn reads(point: &PerformancePoint) -> Option<&OperationPoint> {
    point.reads.as_ref()
}

fn writes(point: &PerformancePoint) -> Option<&OperationPoint> {
    point.writes.as_ref()
}

/// Requests of all kinds in a second.
pub fn requests(point: &PerformancePoint) -> Option<f64> {
    let all = [&point.reads, &point.writes, &point.others];
    point.reads.as_ref()?;
    Some(all.into_iter().flatten().map(|one| one.per_second).sum())
}

const REQUESTS: [Column; 11] = [
    column("requests/s", requests, rate),
    column("reads/s", |it| Some(reads(it)?.per_second), rate),
    column("writes/s", |it| Some(writes(it)?.per_second), rate),
    column("read", |it| Some(reads(it)?.bytes_per_second), bandwidth),
    column("written", |it| Some(writes(it)?.bytes_per_second), bandwidth),
    column("read p50", |it| reads(it)?.p50_us, micros),
    column("p99", |it| reads(it)?.p99_us, micros),
    column("write p50", |it| writes(it)?.p50_us, micros),
    column("p99 ", |it| writes(it)?.p99_us, micros),
    column("p99.9", |it| writes(it)?.p999_us, micros),
    column("under way", |it| it.queue_depth, small),
];
const SHARD: [Column; 4] = [
    column("cpus", |it| it.cpus, small),
    column("us/request", |it| it.cpu_us_per_request, small),
    column("links", |it| it.link_bytes_per_second, bandwidth),
    column("resync", |it| it.resync_bytes_per_second, bandwidth),
];
const GROUP: [Column; 5] = [
    column("appended", |it| it.appended_bytes_per_second, bandwidth),
    column("destaged", |it| it.destaged_bytes_per_second, bandwidth),
    column("buffer", |it| it.buffer_fill, percent),
    column("waiting", |it| it.writes_waiting, small),
    column("cache hits", |it| it.cache_hits, percent),
];
const DEVICE: [Column; 2] = [
    column("written", |it| it.written_bytes_per_second, bandwidth),
    column("in flight", |it| it.in_flight, small),
];

/// The columns of a kind.
pub fn columns(kind: PerformanceKind) -> Vec<&'static Column> {
    match kind {
        PerformanceKind::Volume => REQUESTS.iter().collect(),
        PerformanceKind::Cluster | PerformanceKind::Host | PerformanceKind::Shard => {
            REQUESTS.iter().chain(&SHARD).collect()
        }
        PerformanceKind::Group => GROUP.iter().collect(),
        PerformanceKind::Device => DEVICE.iter().collect(),
    }
}

/// What is done in a second.
pub fn rate(value: f64) -> String {
    if value > 0.0 && value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn small(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Bytes in a second.
fn bandwidth(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}/s", UNITS[unit])
}

/// A latency in microseconds.
pub fn micros(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A curve in one line: a character for each value, from nothing to the largest. A blank where
/// nothing is known.
pub fn curve(values: &[Option<f64>]) -> String {
    const BLOCKS: [char; 8] = [
        '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let block = |value: f64| {
        // The highest block whose lower end it reaches.
        let reached = BLOCKS
            .iter()
            .zip(0_u32..)
            .filter(|(_, at)| most > 0.0 && value >= most * f64::from(*at) / 8.0 && value > 0.0);
        reached.last().map_or(BLOCKS[0], |(block, _)| *block)
    };
    values.iter().map(|value| value.map_or(' ', block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.25, 9.96, 1234.5].map(rate), ["0", "0.2", "10.0", "1234"]);
        assert_eq!([0.0, 1023.0, 1536.0].map(bandwidth), ["0 B/s", "1023 B/s", "1.5 KiB/s"]);
        assert_eq!(bandwidth(250.0 * 1024.0 * 1024.0), "250 MiB/s");
        assert_eq!(
            [99.6, 4321.0, 81_234.0, 2.5e6].map(micros),
            ["100 us", "4.32 ms", "81 ms", "2.50 s"]
        );
    }

    #[test]
    fn a_curve_goes_from_nothing_to_the_most() {
        let values = [Some(0.0), Some(1.0), None, Some(4.0), Some(8.0)];
        assert_eq!(curve(&values), "\u{2581}\u{2582} \u{2585}\u{2588}");
        assert_eq!(curve(&[Some(0.0)]), "\u{2581}");
        assert_eq!(curve(&[]), "");
    }

    #[test]
    fn each_kind_has_columns_of_different_names() {
        for kind in PerformanceKind::ALL {
            let mut headings: Vec<_> = columns(kind).iter().map(|one| one.heading).collect();
            let count = headings.len();
            headings.sort_unstable();
            headings.dedup();
            assert!(count >= 2 && headings.len() == count, "{kind:?}");
        }
    }
}
