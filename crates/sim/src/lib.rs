// SPDX-License-Identifier: Apache-2.0
//! The simulated world: one thread for a whole cluster, virtual time, modelled disks and links, and
//! one seed that decides everything.
//!
//! Guarantees: equal seeds and equal calls give equal runs ([`World::digest`]); what a flush or a
//! durable write completed survives [`World::crash`]; streams stay in order; every operation of a
//! live process completes exactly once. Not guaranteed: anything that a real machine does not
//! promise either. Computing takes no virtual time.
#![forbid(unsafe_code)]

mod calls;
mod core;
mod dial;
mod disk;
mod diskops;
mod driver;
mod ends;
mod faults;
mod host;
mod net;
mod options;
mod store;
#[cfg(test)]
mod tests;
mod under_way;
mod world;

pub use driver::SimDriver;
pub use faults::DiskFault;
pub use host::HostKey;
pub use options::{CrashModel, DiskModel, Latency, NetModel, QuirkModel, WorldOptions, WorldStats};
pub use under_way::Call;
pub use world::World;
