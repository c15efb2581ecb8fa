// SPDX-License-Identifier: Apache-2.0
//! Three hosts with one component each and a directory, in the simulated world: what clients were
//! told stays true whatever fails.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod cluster;
mod full;
mod group;
mod halfway;
mod history;
mod joiner;
mod late;
mod oracle;
mod replace;
mod resent;
mod scenarios;
mod scrub;
mod stray;
mod unused;
mod writers;
