// SPDX-License-Identifier: Apache-2.0
//! Maintenance of a host.

use directory::MaintenanceMode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What maintenance of a host comes to, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MaintenanceReport {
    /// Name of the host.
    pub host: String,
    /// What becomes of its copies.
    pub mode: MaintenanceMode,
    /// Whether it is in maintenance. Else this is what it would come to.
    pub entered: bool,
    /// Whether it may be stopped: what was to leave it has left, and no volume needs it.
    pub ready: bool,
    /// Copies on it, one for each part of a volume.
    pub copies: u64,
    /// Those that are to leave it.
    pub to_move: u64,
    /// Those of these that are being made on another host.
    pub under_way: u64,
    /// Those that left it and are not deleted there yet.
    pub to_delete: u64,
    /// Those without which a part of a volume could not be used: no other one is whole.
    pub only: u64,
    /// Those that no other host could take.
    pub without_place: u64,
    /// Bytes that its disk groups hold; none while it is down.
    pub used_bytes: Option<u64>,
    /// Bytes that are copied to other hosts, at most.
    pub move_bytes: u64,
    /// Bytes that are free on the hosts that may take them.
    pub free_bytes: u64,
    /// The volumes with a copy on it; left out where a host only tells how far it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeWithoutHost>,
    /// Why it cannot be, one line each with what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
}

/// A volume with a copy on a host that is to be stopped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct VolumeWithoutHost {
    /// The volume; none where it is being made or deleted.
    pub volume: Option<String>,
    /// Its copies on the host, one for each part.
    pub copies: u64,
    /// Those that are to leave the host.
    pub to_move: u64,
    /// Copies that can be used while the host is stopped, of the part that has fewest.
    pub left: u64,
    /// Copies that it is to have.
    pub asked: u64,
}

impl MaintenanceReport {
    /// Of a host without copies.
    #[must_use]
    pub fn new(host: &str, mode: MaintenanceMode) -> Self {
        Self {
            host: host.to_owned(),
            mode,
            entered: false,
            ready: false,
            copies: 0,
            to_move: 0,
            under_way: 0,
            to_delete: 0,
            only: 0,
            without_place: 0,
            used_bytes: None,
            move_bytes: 0,
            free_bytes: 0,
            volumes: Vec::new(),
            obstacles: Vec::new(),
        }
    }
}
