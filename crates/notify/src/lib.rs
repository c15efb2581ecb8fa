// SPDX-License-Identifier: Apache-2.0
//! Tells people and programs what health checks find: by webhook, mail and syslog.
//!
//! Nothing is queued: what a receiver was told last is compared with what is, and the difference is
//! told, until it has arrived. So nothing grows while a receiver is away, and a host that takes
//! over from another one goes on where that one stopped.
//!
//! Guarantees: what lasts is told, by at least one of the hosts that live. Non-guarantees: that it
//! is told once. Where hosts do not see each other it may be told twice, with the same id.
//!
//! | module | what it is |
//! |---|---|
//! | `due` | what is to be told now; pure |
//! | `notice` | a message: its id, its JSON, its text; pure |
//! | `notifier` | the thread that tells |
//! | `deliver` | one message on its way, whichever it is, within bounds |
//! | `webhook`, `mail`, `syslog` | the ways |
//! | `reach` | hosts and ports, and why a message does not arrive |
//! | `trust` | which certificates are believed |
#![forbid(unsafe_code)]

mod deliver;
mod due;
mod mail;
mod notice;
mod notifier;
mod reach;
mod syslog;
mod trust;
mod webhook;

pub use due::{DueNotice, NoticeKind, ReceiverBook};
pub use notice::{ClusterName, Notice};
pub use notifier::{Notifier, NotifySource, ReceiverCounts, Sight};
pub use reach::DeliveryError;
pub use webhook::sign;
