// SPDX-License-Identifier: Apache-2.0
//! One host put together: it opens its disk groups, joins the cluster, serves volumes and answers
//! the operator. It wires the other crates together and decides nothing about data.
//!
//! Rooms, from below; each uses those above it in this list only.
//!
//! | room | what it is |
//! |---|---|
//! | `config`, `start_error` | what a host is told at start, and why it could not start |
//! | `cluster` | entering the cluster and staying in it; what is known of the other hosts |
//! | `storage` | the disk groups: opened, closed, changed; which devices there are |
//! | `care` | what a host does by itself: scrub, devices that fail, what no record accounts for |
//! | `exports` | the volumes, as the NBD door serves them |
//! | `operations` | what an operator asks, and the answers |
//! | `node` | the root: starts all of this in order, and ends it |
#![forbid(unsafe_code)]

mod care;
mod cluster;
mod config;
mod exports;
mod mutations;
mod node;
mod operations;
#[cfg(test)]
mod simulated;
mod start_error;
mod storage;

pub use care::balance::BalanceOptions;
pub use care::scrub::ScrubOptions;
pub use cluster::backup::{RestoreError, Restored, backup, recover, restore};
pub use cluster::copies::only_copies;
pub use cluster::membership::incarnation_key;
pub use cluster::register::{NewCluster, NewMember, RegisterError, cluster_kind, found, register};
pub use config::address::{AddressError, format_address, parse_address};
pub use config::{ConfigError, HostConfig, MemoryConfig, SocketConfig, Tuning, group_spec};
pub use directory::{
    Affinity, ClusterKind, Connections, DEFAULT_POLICY, IoLimits, LabelError, Labels,
    MaintenanceMode, REPAIR_DELAY_MAX, RepairDelay, Writers, check_label_key, check_label_value,
    check_labels,
};
pub use exports::{Attached, HostExports};
pub use mutations::Mutations;
pub use node::{MachineMemory, Node, NodeOptions};
pub use operations::control::call;
pub use start_error::StartError;
pub use storage::devices::{DeviceRefused, check_devices};
pub use storage::hardware::hardware_by_tuning;
pub use storage::{Closed, StorageError};

/// Whether this build keeps every rule: the switches of tests and campaigns, which remove rules on
/// purpose, are not compiled in (`base::mutations!`).
pub const KEEPS_ALL_RULES: bool = size_of::<diskgroup::Mutations>() == 0
    && size_of::<object::Mutations>() == 0
    && size_of::<Mutations>() == 0;
