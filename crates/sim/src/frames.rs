// SPDX-License-Identifier: Apache-2.0
//! Frames that are late by their kind. The links below them are not slower for that: who sends or
//! takes in such a frame asks how long to hold it back.

use crate::core::Core;
use crate::host::HostKey;
use crate::options::nanos;
use crate::under_way::LateKind;
use crate::world::World;
use base::LateFrame;
use std::time::Duration;

impl Core {
    /// Draws how long a frame is held back. Nothing is drawn where no kind is late.
    pub(crate) fn delay_of(&mut self, host: u32, frame: LateFrame) -> Duration {
        let mut late = self.late_frames.iter();
        let Some(kind) = late.find(|kind| (kind.host, kind.frame) == (host, frame)) else {
            return Duration::ZERO;
        };
        Duration::from_nanos(self.rng.frame.below(kind.most + 1))
    }
}

impl World {
    /// From now on `host` holds each frame of this kind back for a time of its own, `most` at most.
    /// Zero ends this. What was held back already stays so.
    pub fn late_frames(&self, host: HostKey, frame: LateFrame, most: Duration) {
        let mut core = self.0.core.borrow_mut();
        core.late_frames.retain(|kind| (kind.host, kind.frame) != (host.0, frame));
        if !most.is_zero() {
            let kind = LateKind { host: host.0, frame, most: nanos(most) };
            core.late_frames.push(kind);
        }
    }
}
