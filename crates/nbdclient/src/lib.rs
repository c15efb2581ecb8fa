// SPDX-License-Identifier: Apache-2.0
//! The NBD client of our tests: it sends exactly what it is told, under cookies that the test
//! chooses, and hands over exactly what comes back. It never sends again, caches or changes the
//! order, so a test knows which requests were answered before a connection ended.
//!
//! Two transports share one set of [`frames`]:
//! - [`LinkClient`] goes over a link of a shard, Unix or TCP, simulated or real. It knows
//!   structured replies and block status. It can misbehave: it sends any bytes, in pieces, and
//!   stops at will.
//! - [`socket`] goes over a Unix socket of the operating system, for programs with threads of
//!   their own. Block status too.
//!
//! The numbers are those of the server ([`nbd::numbers`]). Tests here pin the bytes that they make,
//! and clients of other projects are run against the server as well.
#![forbid(unsafe_code)]

pub mod frames;
mod link;
pub mod socket;

pub use link::LinkClient;
