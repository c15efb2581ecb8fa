// SPDX-License-Identifier: Apache-2.0
//! The one host that orders all I/O of an object (docs/protocol.md#rules).
//!
//! An [`Owner`] lives for one term. It is born by a take-over ([`crate::takeover`]) and ends with
//! [`Owner::step_down`]; nothing of it outlives the term. All of its state is volatile.

mod change;
mod choice;
mod chunk_locks;
mod fence;
mod groups;
mod joining;
mod keeper;
mod leg;
mod read;
mod repair;
mod state;
mod window;
mod write;

pub(crate) use change::{Cas, ChangeError, compare_and_swap};
pub(crate) use fence::{Fence, FenceAnswer};
pub use leg::FREE_CHUNKS_RESERVE;
pub(crate) use leg::{FRAME_BYTES, FencedAt, Flow, Leg, Link, Role};
pub(crate) use read::{ReadSource, SourceAnswer};
pub(crate) use state::{Owner, Phase, Resync, Ticket};
pub(crate) use write::WriteContent;
