// SPDX-License-Identifier: Apache-2.0
//! The one host that orders all I/O of an object (docs/protocol.md#rules).
//!
//! An [`Owner`] lives for one term. It is born by a take-over ([`crate::takeover`]) and ends with
//! [`Owner::step_down`]; nothing of it outlives the term. All of its state is volatile.
//!
//! Its rooms, from below:
//! - `leg`, `window`, `chunk_locks`: data. What each component has not answered, what each write
//!   still needs, who holds which range.
//! - `road`: the way of frames to a component, on this host or on another one.
//! - `state`: all that an owner knows, in one cell, and its way through life.
//! - `change`, `groups`: changes of the object's record.
//! - `session`: the conversation with each component: Fence, session, K, grants, its end.
//! - `mirror`: the layout. Which component gets what, which are waited for, which one is read.
//! - `replace`: a component on another host takes the place of one.
//! - `write`, `read`, `repair`: requests of clients, from the lock to the answer.
//! - `epoch`: whose writes are admitted, where one host writes at a time.

mod change;
mod chunk_locks;
mod epoch;
mod groups;
mod leg;
mod mirror;
mod read;
mod repair;
mod replace;
mod road;
mod session;
mod state;
mod window;
mod write;

pub(crate) use change::{Cas, ChangeError, compare_and_swap};
pub use leg::FREE_CHUNKS_RESERVE;
pub(crate) use leg::{FRAME_BYTES, FencedAt, Flow, Leg, LegRole, LegState};
pub(crate) use mirror::ReadSource;
pub(crate) use read::SourceAnswer;
pub(crate) use session::{Fence, FenceAnswer};
pub(crate) use state::{Owner, Phase, Resync, Ticket};
pub(crate) use write::WriteContent;
