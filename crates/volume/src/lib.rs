// SPDX-License-Identifier: Apache-2.0
//! Volumes: what a client sees as one disk, cut into mirrored objects.
//!
//! [`Device`] is the face that protocols serve. This crate knows no protocol.
#![forbid(unsafe_code)]

mod device;
mod error;
mod lock;
mod openings;
mod parallel;
mod split;
mod volume;

pub use device::{Device, EXTENTS_SPAN_MAX, Extent, Pieces};
pub use error::VolumeError;
pub use lock::{Locked, Mode, RangeLock};
pub use volume::{Volume, VolumeOptions};
