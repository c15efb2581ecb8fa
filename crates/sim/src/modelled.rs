// SPDX-License-Identifier: Apache-2.0
//! A device whose times a [`DeviceModel`] decides: exactly, and without a random draw.

use base::Instant;
use devicemodel::{DeviceModel, DeviceOp, RunningModel};

/// The model of one device. What is under way on it goes by its slot in the world's table.
pub(crate) struct Modelled {
    model: DeviceModel,
    size: u64,
    running: RunningModel,
    /// When the world looks at it next.
    look_at: Option<u64>,
}

impl Modelled {
    pub(crate) fn new(model: DeviceModel, size: u64) -> Self {
        Self { model, size, running: model.start(size), look_at: None }
    }

    pub(crate) fn submit(&mut self, now: u64, slot: u32, op: DeviceOp) {
        self.running.submit(Instant(now), u64::from(slot), op);
    }

    /// Whether a look at this time needs an event: there is none that early yet.
    pub(crate) fn plan_look(&mut self, at: u64) -> bool {
        let is_first = self.look_at.is_none_or(|planned| at < planned);
        if is_first {
            self.look_at = Some(at);
        }
        is_first
    }

    /// What has ended by now, in order, and when the next operation ends.
    pub(crate) fn look(&mut self, now: u64) -> (Vec<u32>, Option<u64>) {
        self.look_at.take_if(|planned| *planned <= now);
        let ended = std::iter::from_fn(|| self.running.end(Instant(now)));
        let ended = ended.filter_map(|(name, _)| u32::try_from(name).ok()).collect();
        (ended, self.running.next_end().map(|next| next.0))
    }

    /// Forgets what is under way.
    pub(crate) fn stop(&mut self) {
        *self = Self::new(self.model, self.size);
    }
}
