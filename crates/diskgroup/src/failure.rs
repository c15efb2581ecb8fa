// SPDX-License-Identifier: Apache-2.0
//! Which device of a group failed, and how.

/// Which device of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevicePlace {
    /// The cache device.
    Cache,
    /// The capacity device with this number, from 0.
    Capacity(usize),
}

/// Why a group takes no more writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFailure {
    /// The device that failed.
    pub device: DevicePlace,
    /// It went away without an error: if it is back, opening it is enough.
    pub is_away: bool,
    /// Path and cause, for people.
    pub text: String,
}
