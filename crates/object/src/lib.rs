// SPDX-License-Identifier: Apache-2.0
//! One mirrored object: owner, replicas, fencing, take-over, return (PROTOCOL.md).
#![forbid(unsafe_code)]

mod dirty;
mod options;
mod owner;
mod record;

pub use options::{Mutations, ObjectOptions};
