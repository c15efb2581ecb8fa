// SPDX-License-Identifier: Apache-2.0
//! A disk group: a log on a fast cache device in front of capacity devices.
//!
//! ```text
//!  append --> log on the cache device --(durable)--> index --> acknowledged
//!                 |  oldest closed segment
//!                 v
//!            destage: data --> journal --> index entries removed --> segment free
//! ```
//!
//! Guarantees: an append that resolved is read back until something newer of its component covers
//! it, through any crash that does not destroy the devices; what a read returns has the checksums
//! that were given at the append; nothing above K reaches capacity. Not guaranteed: order between
//! components; that an append that failed or never resolved is not there.
//!
//! The rules of docs/store.md are cited as "store rule N".
#![forbid(unsafe_code)]

mod audit;
mod build;
mod capacity;
mod changed;
mod checkpoint;
mod chunks;
mod components;
mod delete;
mod describe;
mod destage;
mod devices;
mod durable;
mod group;
mod history;
mod index;
mod inspect;
mod kept;
mod latency;
mod log;
mod lowest;
mod mutations;
mod opening;
mod out;
mod pace;
mod pressure;
mod read;
mod readback;
mod readcache;
mod reclaim;
mod recovery;
mod replace;
mod replay;
mod salvage;
mod settle;
mod space;
mod state;
#[cfg(test)]
mod tests;
mod types;
mod verify;
mod watch;

pub use audit::{Audit, Inconsistency, LogSegment};
pub use format::{Description, Sibling, Worth};
pub use group::DiskGroup;
pub use inspect::{
    CacheContent, CapacityContent, ComponentContent, Content, Finding, Inspection,
    ReadCacheContent, SegmentContent, Severity, inspect,
};
pub use kept::{KEPT_BYTES_MAX, KEPT_MAX, Kept, KeptError};
pub use latency::{ClassLatency, DeviceHealth, DeviceLatency};
pub use mutations::Mutations;
pub use out::{DevicePlace, GroupFailure, OutDevice, Tolerance};
pub use pressure::{Limit, Pressure};
pub use readcache::LineAudit;
pub use replace::Replaced;
pub use space::{DeviceRole, DeviceStatus, Reserve, Space};
pub use types::{
    Append, AppendKind, BadCause, BadRange, CapacityStatus, Changed, ComponentInfo, ComponentMeta,
    CreateSizes, GroupError, GroupKind, GroupOptions, GroupShape, GroupSpec, GroupStatus,
    ReadCacheStatus, ReadData, RecoveryReport, Structure, Verified,
};
