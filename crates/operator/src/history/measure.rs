// SPDX-License-Identifier: Apache-2.0
//! What can be counted. Each number has a slot: slots are a part of the file's format, so one never
//! gets another meaning.

use crate::report::OperationKind;
use volume::LATENCY_BOUNDS_US;

/// Classes of latency; the last one has what took longer than any bound.
pub(super) const CLASSES: u16 = 18;
const _: () = assert!(LATENCY_BOUNDS_US.len() + 1 == 18);
/// Slots that each kind of request has.
const OPERATION_SLOTS: u16 = 32;
const BYTES: u16 = 24;
const FAILED: u16 = 25;
const TOOK_US: u16 = 26;

/// What something is counted of, as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryKind {
    /// A volume, through all shards of this machine.
    Volume,
    /// A shard: all its volumes, its links, what it copies.
    Shard,
    /// A disk group, by its id.
    Group,
    /// A device of one, by its path.
    Device,
}

impl HistoryKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Volume, Self::Shard, Self::Group, Self::Device];

    /// The number that it has in files.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Volume => 1,
            Self::Shard => 2,
            Self::Group => 3,
            Self::Device => 4,
        }
    }

    /// The kind of a number; none: there is no such kind.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// A kind of request that is counted with its latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryOperation(u16);

impl From<OperationKind> for HistoryOperation {
    fn from(kind: OperationKind) -> Self {
        Self(match kind {
            OperationKind::Read => 0,
            OperationKind::Write => 1,
            OperationKind::Zero => 2,
            OperationKind::Discard => 3,
            OperationKind::Flush => 4,
        })
    }
}

impl HistoryOperation {
    /// The slot of a class of latency, from 0 on.
    pub(super) fn class(self, class: u16) -> u16 {
        assert!(class < CLASSES, "a class of latency");
        self.0 * OPERATION_SLOTS + class
    }

    /// The slot of its bytes.
    pub(super) fn bytes(self) -> u16 {
        self.0 * OPERATION_SLOTS + BYTES
    }

    /// The slot of those that failed.
    pub(super) fn failed(self) -> u16 {
        self.0 * OPERATION_SLOTS + FAILED
    }

    /// The slot of what they took together, microseconds.
    pub(super) fn took_us(self) -> u16 {
        self.0 * OPERATION_SLOTS + TOOK_US
    }
}

/// A number that is no request's. Those "times how long" are states: value times milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryMeasure {
    /// Milliseconds that a shard was seen for.
    CoveredMs,
    /// Writes that are not durable yet, times how long.
    Waiting,
    /// KiB of the write buffer in use, times how long.
    BufferUsed,
    /// KiB of the write buffer, times how long.
    BufferSize,
    /// Reads that the read cache served.
    CacheHits,
    /// Reads that it did not.
    CacheMisses,
    /// Bytes that components were given to write.
    Appended,
    /// Bytes of them that went round the write buffer.
    Direct,
    /// Bytes written to capacity devices: by destage, and what went round the write buffer.
    Destaged,
    /// Bytes copied to copies that were behind.
    Resynced,
    /// KiB that are still to be copied, times how long.
    ResyncLeft,
    /// Messages sent over links.
    Sent,
    /// Messages received.
    Received,
    /// Bytes received.
    ReceivedBytes,
    /// KiB of requests that wait for room on links, times how long.
    LinkWaiting,
    /// Operations that a device has not answered, times how long.
    InFlight,
    /// Microseconds that the shard's thread ran.
    CpuUs,
    /// Clients, times how long.
    Clients,
    /// Requests that waited for limits.
    Limited,
    /// Milliseconds that they waited together.
    LimitedMs,
    /// Bytes written to a device.
    Written,
}

impl HistoryMeasure {
    /// Its slot.
    #[must_use]
    pub fn slot(self) -> u16 {
        match self {
            Self::CoveredMs => 160,
            Self::Waiting => 161,
            Self::BufferUsed => 162,
            Self::BufferSize => 163,
            Self::CacheHits => 164,
            Self::CacheMisses => 165,
            Self::Appended => 166,
            Self::Direct => 167,
            Self::Destaged => 168,
            Self::Resynced => 170,
            Self::ResyncLeft => 171,
            Self::Sent => 172,
            Self::Received => 173,
            Self::ReceivedBytes => 174,
            Self::LinkWaiting => 175,
            Self::InFlight => 176,
            Self::CpuUs => 177,
            Self::Clients => 178,
            Self::Limited => 179,
            Self::LimitedMs => 180,
            Self::Written => 181,
        }
    }
}
