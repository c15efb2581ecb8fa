// SPDX-License-Identifier: Apache-2.0
//! Sizes, identities, checksums, time and randomness: the basic types of every other crate.
//!
//! Nothing here touches the operating system.
#![forbid(unsafe_code)]

mod crc;
mod id;
mod late;
mod map;
mod meter;
mod mutations;
mod named;
mod probe;
mod quirk;
mod request;
mod rng;
mod sector;
mod size;
mod time;

pub use crc::{crc32c, crc32c_append};
pub use id::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, Seat, Session, ShardId, Term, Version,
    VolumeId, WriterEpoch,
};
pub use late::LateFrame;
pub use map::{FixedMap, Map, Set};
pub use meter::{RateMeter, time_of};
pub use probe::{Probe, counts as probe_counts, hit, hit_if};
pub use quirk::Quirk;
pub use request::{CLIENT_SLOTS, CLIENT_TABLE_MAX, ClientTable, MARKS_MAX, Mark, RequestId};
pub use rng::Rng;
pub use sector::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, SECTOR_SIZE, SectorRange,
};
pub use size::{ParseSizeError, format_size, parse_size, percent_of};
pub use time::{Instant, WallTime};
