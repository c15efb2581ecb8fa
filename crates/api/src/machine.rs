// SPDX-License-Identifier: Apache-2.0
//! What no shard says: of the members of the directory, and of the wear of devices.

use std::time::Duration;

/// Who can tell.
pub trait MachineLook: Send + Sync {
    /// What is wrong with the members of the directory. `None`: the hosts do not keep it by
    /// themselves, or none of its members answers. May take seconds.
    fn member_alarms(&self) -> Option<Vec<String>>;

    /// Percent of its rated writes that a device has used up; `None`: nothing tells. May take
    /// seconds.
    fn wear(&self, device: &str) -> Option<u8>;

    /// How long the thread of a shard has run on a processor since it began; `None`: nothing
    /// tells. It is asked every few seconds, and answers at once.
    fn cpu_time(&self, _shard: &str) -> Option<Duration> {
        None
    }
}

/// For machines of which nothing is known, as in tests.
#[derive(Clone, Copy, Debug)]
pub struct NoLook;

impl MachineLook for NoLook {
    fn member_alarms(&self) -> Option<Vec<String>> {
        None
    }

    fn wear(&self, _device: &str) -> Option<u8> {
        None
    }
}
