// SPDX-License-Identifier: Apache-2.0
//! One mirrored object: owner, replicas, fencing, take-over, return (PROTOCOL.md).
//!
//! Guarantees: what DESIGN.md section 2 promises of completed writes, of reads and of ownership,
//! by the numbered rules of PROTOCOL.md, which the code cites. Non-guarantees: PROTOCOL.md
//! section 7.
#![forbid(unsafe_code)]

mod dirty;
mod disks;
mod grants;
mod handover;
mod held;
mod history;
mod objects;
mod options;
mod owner;
mod record;
mod replica;
mod requests;
mod resync;
mod takeover;

pub use disks::Disks;
pub use history::{ADOPTION_LEAP, Known};
pub use objects::{ComponentStatus, ObjectError, ObjectStatus, Objects, ReadData, reserve_chunks};
pub use options::{Mutations, ObjectOptions, ReadFrom};
pub use requests::WriteRequest;
pub use resync::Away;
