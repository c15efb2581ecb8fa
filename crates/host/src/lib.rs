// SPDX-License-Identifier: Apache-2.0
//! The composition root of one host: opens its disk groups, joins the cluster, serves volumes and
//! answers the operator. It wires the other crates together and decides nothing about data.
#![forbid(unsafe_code)]

mod address;
mod alive;
mod backup;
mod backups;
mod cleanup;
mod config;
mod control;
mod copies;
mod deletions;
mod describe;
mod devices;
mod exports;
mod groups;
mod hardware;
mod latency;
mod membership;
mod node;
mod operations;
mod orphan;
mod orphans;
mod outs;
mod register;
mod relief;
mod report;
mod reserves;
mod scrub;
mod seen;
#[cfg(test)]
mod simulated;
mod start_error;
mod storage;
mod tombstones;
mod view;
mod volumes;

pub use address::{AddressError, format_address, parse_address};
pub use backup::{RestoreError, Restored, backup, recover, restore};
pub use config::{ConfigError, GroupConfig, HostConfig, SocketConfig, Tuning};
pub use control::{Command, CommandFailure, ErrorKind, Reply, call};
pub use copies::only_copies;
pub use devices::{DeviceRefused, check_devices};
pub use directory::{ClusterKind, Connections};
pub use exports::{Attached, Exports};
pub use hardware::hardware_by_tuning;
pub use membership::incarnation_key;
pub use node::{Node, NodeOptions};
pub use register::{RegisterError, cluster_kind, found, register};
pub use report::{
    BackupReport, ClassReport, ComponentReport, DeviceKind, DeviceReport, GroupDetail, GroupReport,
    Health, HeldReport, HostReport, HostState, LatencyReport, OrphanReport, ReadCacheReport,
    RestoreReport, Role, ScrubReport, SpaceReport, StatusReport, TurnsReport, VolumeReport,
};
pub use scrub::ScrubOptions;
pub use start_error::StartError;
pub use storage::{Closed, StorageError};

/// Whether this build keeps every rule: the switches of tests and campaigns, which remove rules on
/// purpose, are not compiled in (`base::mutations!`).
pub const KEEPS_ALL_RULES: bool =
    size_of::<diskgroup::Mutations>() == 0 && size_of::<object::Mutations>() == 0;
