// SPDX-License-Identifier: Apache-2.0
//! The kinds of devices, and one device of any kind.

use crate::late::Late;
use crate::magnetic::Magnetic;
use crate::op::DeviceOp;
use base::Instant;
use std::time::Duration;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceModel {
    /// A magnetic disk of 7200 rpm: 8 ms to reach a random place, 150 MB/s, 32 requests to choose
    /// from, no volatile cache.
    Magnetic,
    /// A device that is slow by two figures: bytes pass one after the other, and each request ends
    /// so long after its last byte has passed.
    Late {
        /// What each request takes beside its bytes, however many are under way.
        latency: Duration,
        /// What passes in a second.
        bytes_per_second: u64,
    },
}

impl DeviceModel {
    /// A device of this kind and of so many bytes, at rest.
    #[must_use]
    pub fn start(self, size: u64) -> RunningModel {
        RunningModel(match self {
            Self::Magnetic => Running::Magnetic(Magnetic::new(size)),
            Self::Late { latency, bytes_per_second } => {
                Running::Late(Late::new(latency, bytes_per_second))
            }
        })
    }
}

/// One device and what is under way on it. Time is what its callers say, and never goes back.
pub struct RunningModel(Running);

enum Running {
    Magnetic(Magnetic),
    Late(Late),
}

impl RunningModel {
    /// Takes an operation in. Its name is the caller's, unique among those under way.
    pub fn submit(&mut self, now: Instant, name: u64, op: DeviceOp) {
        match &mut self.0 {
            Running::Magnetic(model) => model.submit(now, name, op),
            Running::Late(model) => model.submit(now, name, op),
        }
    }

    /// The next operation that has ended by `now`, and when; to be called until there is none.
    ///
    /// A magnetic disk chooses what it serves next in here. It chooses from what was submitted up
    /// to the moment at which its head got free.
    pub fn end(&mut self, now: Instant) -> Option<(u64, Instant)> {
        match &mut self.0 {
            Running::Magnetic(model) => model.end(now),
            Running::Late(model) => model.end(now),
        }
    }

    /// When the next operation ends; exact after [`RunningModel::end`] found none.
    #[must_use]
    pub fn next_end(&self) -> Option<Instant> {
        match &self.0 {
            Running::Magnetic(model) => model.next_end(),
            Running::Late(model) => model.next_end(),
        }
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        match &self.0 {
            Running::Magnetic(model) => model.is_idle(),
            Running::Late(model) => model.is_idle(),
        }
    }
}
