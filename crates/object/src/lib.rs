// SPDX-License-Identifier: Apache-2.0
//! One mirrored object: owner, replicas, fencing, take-over, return (docs/protocol.md).
//!
//! Guarantees: promises 1 to 3 of docs/contract.md (completed writes, reads, ownership), by the
//! numbered rules of the protocol, which the code cites. Non-guarantees:
//! docs/protocol.md#not-guaranteed.
#![forbid(unsafe_code)]

mod away;
mod context;
mod copy_limit;
mod dirty;
mod disks;
mod grants;
mod handover;
mod held;
mod history;
mod mutations;
mod objects;
mod options;
mod owner;
mod rate;
mod record;
mod replica;
mod requests;
mod resync;
mod status;
mod takeover;

pub use away::Away;
pub use disks::Disks;
pub use history::{ADOPTION_LEAP, Known};
pub use mutations::Mutations;
pub use objects::{Objects, reserve_chunks};
pub use options::{ObjectLimits, ObjectOptions, ReadFrom};
pub use owner::FREE_CHUNKS_RESERVE;
pub use requests::WriteRequest;
pub use status::{
    ComponentStatus, CopyProgress, ObjectError, ObjectStatus, ReadData, ReplaceError, Returning,
    Vouched,
};
pub use wire::MemberChange;
