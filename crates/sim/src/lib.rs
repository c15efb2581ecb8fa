// SPDX-License-Identifier: Apache-2.0
//! The simulated world: a whole cluster in one thread, with virtual time and models of disks and
//! links. One seed decides everything that is left to chance.
//!
//! Guarantees, unless a [`DiskFault`] breaks them:
//! - Equal seeds and equal calls give equal runs ([`World::digest`]).
//! - What a flush or a durable write has made durable survives [`World::crash`].
//! - Streams keep their order.
//! - Every operation of a live process completes exactly once.
//! - Computing takes no virtual time.
//!
//! Nothing else is guaranteed that a real machine does not promise either.
#![forbid(unsafe_code)]

mod around;
mod calls;
mod calm;
mod core;
mod dial;
mod disk;
mod diskops;
mod driver;
mod ends;
mod faults;
mod frames;
mod host;
mod loose;
mod modelled;
mod net;
mod options;
mod page;
mod parts;
mod store;
#[cfg(test)]
mod tests;
mod under_way;
mod world;

pub use around::Around;
pub use calm::{HostCondition, PathCondition};
pub use core::time_of_log;
pub use driver::SimDriver;
pub use faults::DiskFault;
pub use host::HostKey;
pub use options::{
    CrashModel, DiskFreedom, DiskModel, Latency, NetModel, QuirkModel, WorldOptions, WorldStats,
};
pub use under_way::DeviceCall;
pub use world::World;
