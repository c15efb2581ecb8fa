// SPDX-License-Identifier: Apache-2.0
//! The directory of a cluster that runs etcd by itself: on which hosts, and everything that keeps
//! it there.
//!
//! Each host's daemon has a [`keep_member`] thread. It runs the host's member of etcd where it has
//! one, gives a sign of life, and keeps in a [`MemberFile`](crate::MemberFile) where the directory
//! answers. Where the host's member leads, the thread also changes who the members are, one step
//! after the other: [`plan`] says which.
//!
//! Guarantees: a member that was taken out does not come back with what it had. Nothing that a list
//! of members says ends a running member.

mod data;
mod keep;
mod look;
mod picture;
mod plan;
mod proof;

pub use data::{begin_directory, go_on_alone, has_any};
pub use keep::keep_member;
pub use look::{ELECTION_MAX, MemberReport, MemberRole, alarms, members};
