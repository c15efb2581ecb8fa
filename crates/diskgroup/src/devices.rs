// SPDX-License-Identifier: Apache-2.0
//! The devices of a group: superblocks and formatting, devices that are late, stuck, away, out of
//! the group or replaced.

pub(crate) mod guard;
mod health;
pub(crate) mod out;
pub(crate) mod readback;
pub(crate) mod replace;
pub(crate) mod runs;
pub(crate) mod superblock;
mod watch;

pub(crate) use watch::watch;
