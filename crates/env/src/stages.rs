// SPDX-License-Identifier: Apache-2.0
//! Where the time of a write goes: one in [`SAMPLED`] of each stage is measured.
//!
//! The stages lie within each other: a request waits for its range, then for its copies, and a copy
//! waits for the append on its host, which waits for a commit. What one takes more than those
//! within it is the way between them: links, queues of tasks, and the host's thread doing something
//! else. Hosts have different clocks, so each host measures what it sees itself.

use crate::meter::Latencies;
use std::cell::RefCell;
use std::time::Duration;

/// One in so many is measured: the first, and then each hundredth of its stage.
pub const SAMPLED: u64 = 100;

/// A part of a write's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStage {
    /// At the door: from the request's arrival to its answer, on the host of the client.
    Request,
    /// At the owner: the wait for memory, for the range, and for a turn.
    Turn,
    /// At the owner: from sending to the answer of the copy on this host.
    CopyHere,
    /// At the owner: from sending to the answer of a copy on another host.
    CopyThere,
    /// At a copy: from the frame's arrival until it is durable there.
    Append,
    /// At a copy: the device write of a commit, which carries many appends.
    Commit,
}

/// All stages, in the order of a write's way.
pub const WRITE_STAGES: [WriteStage; 6] = [
    WriteStage::Request,
    WriteStage::Turn,
    WriteStage::CopyHere,
    WriteStage::CopyThere,
    WriteStage::Append,
    WriteStage::Commit,
];

/// What is known of one stage since the shard began.
#[derive(Clone, Debug, Default)]
pub struct StageTimes {
    /// How often it was gone through.
    pub passed: u64,
    /// How long the measured ones took together.
    pub total: Duration,
    /// How long each measured one took.
    pub latencies: Latencies,
}

impl StageTimes {
    /// How long a measured one took on average; zero if there are none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        self.total.checked_div(self.latencies.count()).unwrap_or_default()
    }
}

/// The stages of one shard.
#[derive(Default)]
pub(crate) struct Stages(RefCell<[StageTimes; WRITE_STAGES.len()]>);

impl Stages {
    pub(crate) fn passed(&self, stage: WriteStage, took: Duration) {
        let mut stages = self.0.borrow_mut();
        let times = &mut stages[stage.index()];
        times.passed += 1;
        if times.passed % SAMPLED == 1 {
            times.total += took;
            times.latencies.add(took);
        }
    }

    pub(crate) fn times(&self, stage: WriteStage) -> StageTimes {
        self.0.borrow()[stage.index()].clone()
    }
}

impl WriteStage {
    fn index(self) -> usize {
        WRITE_STAGES.iter().position(|stage| *stage == self).unwrap_or(0)
    }
}
