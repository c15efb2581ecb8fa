// SPDX-License-Identifier: Apache-2.0
//! What a shard counts and measures, in a form that thousands of volumes do not make large: of the
//! volumes of others it says how many there are.

use super::{Health, ScrubReport, StatusReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one shard counts and measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsReport {
    /// What it says of itself and of the cluster; without volumes, deleted ones, and copies that
    /// are made.
    pub status: StatusReport,
    /// All volumes of the cluster, counted.
    pub volumes: VolumeTally,
    /// The volumes whose first part this shard owns, by name: each volume is told of by one shard
    /// at most.
    pub owned: Vec<OwnedVolume>,
    /// What clients had volumes do through this shard, by name. Those that were not used for long
    /// may be missing.
    pub traffic: Vec<TrafficReport>,
    /// The same of all volumes together, since the shard's start.
    pub all_traffic: Vec<OperationReport>,
    /// Volumes that the two lists of volumes would have beside those that they have.
    pub left_out: u64,
    /// Where the time of writes goes, since the shard's start.
    pub stages: Vec<StageTotal>,
    /// What it copies to copies that are behind.
    pub resync: ResyncTotals,
    /// Its links to other shards.
    pub links: LinksReport,
    /// Scrub of its capacity devices.
    pub scrubs: Vec<ScrubReport>,
    /// The host that could not be made again on the others, and what is missing; none where any one
    /// host may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_rebuilt: Option<String>,
}

/// The volumes of the cluster, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeTally {
    /// As redundant as asked for.
    pub green: u64,
    /// Less so.
    pub yellow: u64,
    /// They cannot serve I/O.
    pub red: u64,
    /// Deleted ones that can be brought back.
    pub deleted: u64,
}

impl VolumeTally {
    /// One more of this health.
    pub fn count(&mut self, health: Health) {
        match health {
            Health::Green => self.green += 1,
            Health::Yellow => self.yellow += 1,
            Health::Red => self.red += 1,
        }
    }
}

/// A volume, as the shard says it that owns its first part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnedVolume {
    /// Its name.
    pub volume: String,
    /// Its state.
    pub health: Health,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes that are still to be copied to copies of what this shard owns of it.
    pub resync_bytes_left: u64,
}

/// What clients had one volume do through one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrafficReport {
    /// Its name.
    pub volume: String,
    /// Clients that are connected now.
    pub clients: u64,
    /// Requests that waited for its limits, since its first client came.
    pub limited_requests: u64,
    /// How long they waited, added up.
    pub limited_ms: u64,
    /// What it did, by what was asked for; without what is rare and never was.
    pub operations: Vec<OperationReport>,
}

/// What was asked of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Data.
    Read,
    /// To keep data.
    Write,
    /// Zeros that take space.
    Zero,
    /// To give space back.
    Discard,
    /// To make durable what is so already.
    Flush,
}

impl OperationKind {
    /// As JSON says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Zero => "zero",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }
}

/// What was counted of one kind of request. What several shards counted is added up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationReport {
    /// Which kind.
    pub operation: OperationKind,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// How long all of them took, added up, microseconds.
    pub took_us: u64,
    /// How many took at most 64 us, 128 us, and so on to 4.2 s; the last number is of those that
    /// took longer. Together all that were answered.
    pub latencies: Vec<u64>,
}

impl OperationReport {
    /// Of what was counted.
    #[must_use]
    pub fn all(traffic: &volume::TrafficCount) -> Vec<Self> {
        volume::OPERATIONS.map(|operation| Self::new(operation, traffic.of(operation))).into()
    }

    /// The same without what is rare and never was asked for. Reads and writes are there from the
    /// beginning: of a series that begins with its first request nobody sees that it rose.
    #[must_use]
    pub fn used(traffic: &volume::TrafficCount) -> Vec<Self> {
        let is_usual = |one: &Self| {
            matches!(one.operation, OperationKind::Read | OperationKind::Write)
                || one.latencies.iter().any(|count| *count > 0)
        };
        Self::all(traffic).into_iter().filter(is_usual).collect()
    }

    fn new(operation: volume::Operation, count: &volume::OperationCount) -> Self {
        Self {
            operation: match operation {
                volume::Operation::Read => OperationKind::Read,
                volume::Operation::Write => OperationKind::Write,
                volume::Operation::Zero => OperationKind::Zero,
                volume::Operation::Discard => OperationKind::Discard,
                volume::Operation::Flush => OperationKind::Flush,
            },
            failed: count.failed,
            bytes: count.bytes,
            took_us: u64::try_from(count.took.as_micros()).unwrap_or(u64::MAX),
            latencies: count.latencies.into(),
        }
    }
}

/// One stage of a write's way. One pass in a hundred is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StageTotal {
    /// Its name, as [`super::StageReport`] has it.
    pub stage: String,
    /// How often it was gone through.
    pub passed: u64,
    /// How many of these were measured.
    pub measured: u64,
    /// How long the measured ones took together, microseconds.
    pub took_us: u64,
}

impl StageTotal {
    /// All stages of a shard, whose `env` it is.
    #[must_use]
    pub fn all(env: &env::Env) -> Vec<Self> {
        let of = |stage| {
            let times = env.stage_times(stage);
            Self {
                stage: super::writes::name_of(stage).to_owned(),
                passed: times.passed,
                measured: times.latencies.count().into(),
                took_us: u64::try_from(times.total.as_micros()).unwrap_or(u64::MAX),
            }
        };
        env::WRITE_STAGES.map(of).into()
    }
}

/// What a shard copies to copies that are behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResyncTotals {
    /// Copies that are being filled.
    pub copying: u64,
    /// Copies that wait for that.
    pub waiting: u64,
    /// Bytes that are still to be copied, as far as that is known.
    pub bytes_left: u64,
    /// Bytes that were copied since the shard's start.
    pub copied_bytes: u64,
}

/// The links of a shard to all others, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinksReport {
    /// Links that were made; two to each other shard are usual, each further one is a reconnect.
    pub made: u64,
    /// Links that were dropped because nothing was heard any more.
    pub silent: u64,
    /// Links that were dropped or refused for any other reason.
    pub refused: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes of requests that wait for room now.
    pub waiting_bytes: u64,
}
