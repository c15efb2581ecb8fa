// SPDX-License-Identifier: Apache-2.0
//! What one host is told at start: the content of its `host.toml`.

use serde::{Deserialize, Serialize};

/// A host's configuration file. Addresses are `unix:/path` or `tcp:ip:port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The host's name, unique in the cluster.
    pub name: String,
    /// The host's number, given at join, never reused; 1 and up.
    pub id: u32,
    /// The cluster's id: a host of another cluster is refused.
    pub cluster: u64,
    /// Where other hosts reach this one.
    pub peer: String,
    /// Where NBD clients connect; the first one is shown to operators.
    pub nbd: Vec<String>,
    /// Where this host's operator commands connect; a Unix socket.
    pub control: String,
    /// Where the directory gateway of this process listens; a Unix socket.
    pub directory: String,
    /// etcd endpoints (`http://ip:port`) that the gateway uses; empty for the embedded directory.
    #[serde(default)]
    pub etcd: Vec<String>,
    /// Its disk groups; may be empty (a host that only serves volumes).
    #[serde(default)]
    pub groups: Vec<GroupConfig>,
    /// Settings that have good defaults.
    #[serde(default)]
    pub tuning: Tuning,
}

/// One disk group: device paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The cache device.
    pub cache: String,
    /// One to seven capacity devices.
    pub capacity: Vec<String>,
}

/// Settings with defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tuning {
    /// Seconds that a volume's I/O waits for its components before it fails with EIO.
    pub io_timeout_seconds: u64,
    /// Milliseconds that a silent replica may hold up writes before it is marked absent.
    pub stall_ms: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { io_timeout_seconds: 60, stall_ms: 2000 }
    }
}
