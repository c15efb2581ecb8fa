// SPDX-License-Identifier: Apache-2.0
//! Performance, as the API answers it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What performance is kept of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PerformanceKind {
    /// All shards of the machine that is asked.
    Cluster,
    /// All shards of a host.
    Host,
    /// One shard.
    Shard,
    /// A volume, by its name.
    Volume,
    /// A disk group, by its id.
    Group,
    /// A device of a disk group, by its path.
    Device,
}

impl PerformanceKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Cluster, Self::Host, Self::Shard, Self::Volume, Self::Group, Self::Device];

    /// As JSON says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Host => "host",
            Self::Shard => "shard",
            Self::Volume => "volume",
            Self::Group => "group",
            Self::Device => "device",
        }
    }
}

/// What was done of one kind of request. Percentiles are taken from the classes in `latencies`,
/// each of which ends at twice the time of the one before: they are in the class of the true value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationPoint {
    /// Requests that were answered, in a second.
    pub per_second: f64,
    /// Bytes of those that did not fail, in a second.
    pub bytes_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// How long all of them took, added up, microseconds.
    pub took_us: u64,
    /// What they took on average, microseconds; none where there were none.
    pub mean_us: Option<f64>,
    /// What half of them took at most, microseconds.
    pub p50_us: Option<f64>,
    /// What 95 of 100 took at most.
    pub p95_us: Option<f64>,
    /// What 99 of 100 took at most.
    pub p99_us: Option<f64>,
    /// What 999 of 1000 took at most.
    pub p999_us: Option<f64>,
    /// How many took at most 64 us, 128 us, and so on to 4.2 s; the last number is of those that
    /// took longer. What several machines say is added up.
    pub latencies: Vec<u64>,
}

/// What an object did in a span of time. What its kind does not have is not there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PerformancePoint {
    /// When the span begins: seconds since 1970, UTC.
    pub at: u64,
    /// Milliseconds of it that were seen; 0: nobody looked, and nothing is known.
    pub covered_ms: u64,
    /// Reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<OperationPoint>,
    /// Writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<OperationPoint>,
    /// Zeros, discards and flushes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<OperationPoint>,
    /// Clients that were connected, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<f64>,
    /// Requests in a second that waited for the volume's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_per_second: Option<f64>,
    /// Requests that were under way, on average: what all took together, for each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<f64>,
    /// Writes that were not durable yet, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_waiting: Option<f64>,
    /// Fill of the write buffer, 0 to 1, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_fill: Option<f64>,
    /// Bytes in a second that components were given to write, copies of a resync included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appended_bytes_per_second: Option<f64>,
    /// Bytes in a second that were written to capacity devices: by destage, and large writes that
    /// go round the write buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destaged_bytes_per_second: Option<f64>,
    /// The part of reads that the read cache served, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<f64>,
    /// Bytes in a second that were written to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes_per_second: Option<f64>,
    /// Operations that the device had not answered, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<f64>,
    /// Bytes in a second that were copied to copies that were behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_bytes_per_second: Option<f64>,
    /// Bytes that were still to be copied, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_left_bytes: Option<f64>,
    /// Messages in a second, sent to and received of other shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_messages_per_second: Option<f64>,
    /// Bytes in a second that were received of other shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bytes_per_second: Option<f64>,
    /// Bytes of requests that waited for room on links, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_waiting_bytes: Option<f64>,
    /// Processors that the threads of the shards kept busy, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Microseconds of a processor for each request of clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_request: Option<f64>,
}

/// What an object did over a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PerformanceReport {
    /// What it is.
    pub kind: PerformanceKind,
    /// Its name.
    pub name: String,
    /// When the first point begins: seconds since 1970, UTC.
    pub from: u64,
    /// When the last one ends.
    pub to: u64,
    /// How fine it is kept that far back, seconds: 5, 60 or 300.
    pub resolution_seconds: u64,
    /// Seconds of each point: a multiple of that.
    pub every_seconds: u64,
    /// The points, the oldest first.
    pub points: Vec<PerformancePoint>,
    /// All of them together.
    pub all: PerformancePoint,
}

/// One object beside others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PerformanceRow {
    /// Its name.
    pub name: String,
    /// What it did.
    pub point: PerformancePoint,
}

/// What all objects of a kind did lately, those with most requests first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PerformanceTop {
    /// What they are.
    pub kind: PerformanceKind,
    /// When the time that it is of begins: seconds since 1970, UTC.
    pub from: u64,
    /// When it ends.
    pub to: u64,
    /// Those that did something.
    pub items: Vec<PerformanceRow>,
    /// How many there are, also where fewer are asked for.
    pub total: usize,
    /// Records that were not kept in this time, for there were too many volumes; each volume
    /// counts once for each look.
    pub left_out: u64,
}
