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
//!
//! Rooms, from below; each uses those above it in this list only, and methods of the state that all
//! of them share.
//!
//! | room | what it is |
//! |---|---|
//! | `types`, `failure`, `pressure`, `mutations` | what callers see; the switches of tests |
//! | `keys` | the numbers by which chunks and blocks are found |
//! | `log` | as data: queue, the commit under composition, the ring of segments, the index |
//! | `store` | as data: chunk map, checksum pages in memory, components, space, what changed last |
//! | `readcache` | as data: which piece is in which slot, whose it is, which goes next, streams |
//! | `pace`, `standing`, `latency` | how fast destage may be; its waits; how devices answer |
//! | `state` | all of the above in one cell, and what wakes each task |
//! | `devices` | superblocks; devices late, stuck, away, out, replaced; writes are read back |
//! | `journal` | changes of the chunk map made durable; checkpoints; rows of the component table |
//! | `caching` | what goes into the read cache and when it leaves |
//! | `read` | log, read cache, capacity, every byte checked; what changed since an lsn |
//! | `commit` | an append's way into the log, and what a durable commit changes |
//! | `verify` | scrub, and the audit of tests and storms |
//! | `space` | who may take some; chunks on their way back |
//! | `destage` | the oldest segment goes to capacity and becomes free |
//! | `recovery` | opening: chunk map, journal, log, what is in doubt |
//! | `group` | the handle that callers have; opening starts the tasks |
//! | `inspect` | devices looked at offline, by their formats alone |
#![forbid(unsafe_code)]

mod caching;
mod commit;
mod destage;
mod devices;
mod failure;
mod group;
mod inspect;
mod journal;
mod keys;
mod latency;
mod limits;
mod log;
mod memory;
mod mutations;
mod pace;
mod pressure;
mod read;
mod readcache;
mod recovery;
mod space;
mod standing;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod types;
mod verify;

pub use commit::append::Appending;
pub use devices::out::{OutDevice, Tolerance};
pub use devices::replace::Replaced;
pub use failure::{DevicePlace, GroupFailure};
pub use format::{Description, Sibling, Worth};
pub use group::cached::CacheShare;
pub use group::kept::{KEPT_BYTES_MAX, KEPT_MAX, Kept, KeptError};
pub use inspect::{
    CacheContent, CapacityContent, ComponentContent, Content, Finding, Inspection,
    ReadCacheContent, SegmentContent, Severity, inspect,
};
pub use latency::{ClassLatency, DeviceHealth, DeviceLatency};
pub use limits::GroupLimits;
pub use memory::{CHECKSUM_BYTES_MIN, CHECKSUM_DEVICES_MAX, MemoryParts, StoreMemory};
pub use mutations::Mutations;
pub use pressure::{Limit, Pressure};
pub use readcache::CACHE_KEPT_MAX_PERCENT;
pub use space::{DeviceRole, DeviceStatus, Reserve};
pub use state::DiskGroup;
pub use store::space::Space;
pub use types::{
    Append, AppendKind, BadCause, BadRange, CapacityStatus, Changed, ComponentInfo, ComponentMeta,
    CreateSizes, DeviceRequests, GroupError, GroupKind, GroupOptions, GroupShape, GroupSpec,
    GroupStatus, ReadCacheStatus, ReadData, RecoveryReport, Structure, Verified,
};
pub use verify::audit::{Audit, Inconsistency, LogSegment};
pub use verify::lines::LineAudit;
