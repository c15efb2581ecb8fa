// SPDX-License-Identifier: Apache-2.0
//! The directory in production: the embedded one, and the gateway to etcd. Both run in threads
//! beside the shards.
//!
//! [`start_embedded`] is a directory in this process, durable in one file, for one-machine
//! clusters. [`start_etcd_gateway`] stands between one shard and an etcd cluster. Both listen on a
//! Unix socket and speak the directory protocol; a shard cannot tell them apart. [`start_etcd`]
//! runs an installed etcd.
//!
//! Nothing here is on the data path. Non-guarantee: nothing here runs in the simulation.
#![forbid(unsafe_code)]

mod embedded;
mod error;
mod etcd;
mod supervise;
mod thread;

pub use embedded::start_embedded;
pub use error::{ControlError, DatabaseError};
pub use etcd::start_etcd_gateway;
pub use supervise::{EtcdProcess, start_etcd};
pub use thread::DirectoryThread;
