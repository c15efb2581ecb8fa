// SPDX-License-Identifier: Apache-2.0
//! Health checks: what the reports of the shards come to, for somebody who has to decide.
//!
//! A check looks at what is there (never at what somebody wished), says what it saw, what that
//! means for the data, and which command mends it. All of this is pure: facts go in, with the time,
//! and states come out.
//!
//! | module | what it is |
//! |---|---|
//! | `table` | all checks |
//! | `hosts`, `devices`, `volumes`, `cluster`, `notifications` | what each looks at |
//! | `check` | what a check is, and what it finds |
//! | `facts` | what checks look at |
//! | `book` | states over time: since when, what flaps, what is silenced |

mod book;
mod check;
mod cluster;
mod devices;
mod facts;
mod hosts;
mod notifications;
mod table;
#[cfg(test)]
mod tests;
mod volumes;

pub use book::{HealthBook, HealthSilence, StateChange};
pub use check::{Found, HealthCheck};
pub use facts::{DeviceWear, HealthFacts, ShardCounts, WINDOW_SECONDS};
pub use table::{check_of, checks};
