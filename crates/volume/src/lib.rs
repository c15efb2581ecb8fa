// SPDX-License-Identifier: Apache-2.0
//! Volumes: what a client sees as one disk, cut into mirrored objects.
//!
//! [`Device`] is what protocol servers serve. This crate knows no protocol.
#![forbid(unsafe_code)]

mod client;
mod creation;
mod device;
mod error;
mod extents;
mod gate;
mod limits;
mod openings;
mod split;
mod traffic;
mod volume;

pub use client::VolumeClient;
pub use creation::{CreationOptions, TRANSACTION_OBJECTS_MAX};
pub use device::{Device, EXTENTS_SPAN_MAX, Extent, Pieces};
pub use error::VolumeError;
pub use limits::Limited;
pub use traffic::{
    LATENCY_BOUNDS_US, OPERATIONS, Operation, OperationCount, Traffic, TrafficCount,
};
pub use volume::{Volume, VolumeOptions};
