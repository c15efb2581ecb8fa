// SPDX-License-Identifier: Apache-2.0
//! Links between hosts: requests and answers over streams that break and come back.
//!
//! ```text
//!   host A                                   host B
//!   call() -> queue -> writer ===link 1===> reader -> Handler::handle
//!   Call   <- slab  <- reader <===link 1=== writer <- queue <- Reply::send
//! ```
//! A asks B on the link that A dialled, B asks A on the one that B dialled. Each link has one task
//! that reads and one that writes; whatever is queued while a send is under way goes out with the
//! next one. Each class of requests has a share of its link (see `lanes.rs`); what is beyond the
//! share waits, bounded in bytes.
//!
//! Guarantees:
//! - Requests of one [`Sequence`] are handled in the order of their calls. So are requests of one
//!   [`Class`] outside of sequences. Grants and K are an exception: they never wait for a share, so
//!   they overtake requests that do.
//! - Each request is handled at most once. When a link broke, none of its requests is handled
//!   after one of the next link.
//! - Every call ends: with the answer, or with an error when its link ends. Only [`Peers::stop`]
//!   leaves calls without an end.
//! - A host that is silent for 2 s on a link in use is taken for gone; on one that nobody uses, a
//!   little later in a large cluster (see `pings.rs`).
//! - Links to an earlier run of a host end when a later run shows itself.
//! - All frames of a link are of one version, the newest that both hosts speak (see `versions.rs`).
//! - Where links are encrypted ([`Peers::encrypt`]), each end has proved which shard it is, and
//!   nobody else reads or changes what passes (see the crate `tls`).
//!
//! Non-guarantees: whether a request without an answer was handled; the order of answers.
#![forbid(unsafe_code)]

mod answers;
mod calls;
mod lanes;
mod link;
mod peers;
mod pings;
mod port;
mod reply;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod versions;

pub use answers::AnswerQueue;
pub use calls::Call;
pub use lanes::Class;
pub use peers::{PeerOptions, Peers, Sequence};
pub use reply::{Handler, NotReady, Reply};
pub use stats::PeerStats;
pub use stream::LinkSecurity;

use base::{Incarnation, ShardId};
use thiserror::Error;

/// One run of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId {
    /// The host.
    pub shard: ShardId,
    /// Its run.
    pub incarnation: Incarnation,
}

/// Why a call brought no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// no link to the host: the request was surely not delivered
    #[error("host not reachable")]
    Unreachable,
    /// the link broke: the request may have been handled
    #[error("link broke before the answer")]
    Reset,
    /// too many calls under way: the request was surely not delivered
    #[error("too many calls under way")]
    Overloaded,
    /// its sequence was closed before it was sent: the request was surely not delivered
    #[error("taken back before it was sent")]
    Withdrawn,
}
