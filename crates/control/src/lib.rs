// SPDX-License-Identifier: Apache-2.0
//! The directory in production: the embedded one, and the gateway to etcd. Both run in threads
//! beside the shards.
//!
//! [`start_embedded`] is a directory in this process, durable in one file, for one-machine
//! clusters. [`start_etcd_gateway`] stands between one shard and an etcd cluster. Both listen on a
//! Unix socket and speak the directory protocol; a shard cannot tell them apart. [`start_etcd`]
//! runs an installed etcd for one machine, [`keep_member`] a host's member of one that the hosts of
//! a cluster run together.
//!
//! Nothing here is on the data path. Non-guarantee: nothing here runs in the simulation.
#![forbid(unsafe_code)]

mod client;
mod embedded;
mod error;
mod etcd;
mod keeper;
mod member_file;
mod members;
mod supervise;
mod thread;

pub use client::Endpoints;
pub use embedded::start_embedded;
pub use error::{ControlError, DatabaseError};
pub use etcd::start_etcd_gateway;
pub use keeper::{Home, Keeper};
pub use member_file::{Keeping, MemberFile, MemberState, PORT_DEFAULT, write_toml};
pub use members::{
    ELECTION_MAX, MemberReport, MemberRole, alarms, begin_directory, go_on_alone, has_any,
    keep_member, members,
};
pub use supervise::{EtcdProcess, start_etcd};
pub use thread::DirectoryThread;
