// SPDX-License-Identifier: Apache-2.0
//! Why a host could not start.

use crate::config::ConfigError;
use crate::config::address::AddressError;
use directory::{Level, RecordError};
use diskgroup::GroupError;
use env::IoError;
use thiserror::Error;

/// See the module.
#[derive(Debug, Error)]
pub enum StartError {
    /// a configured value
    #[error("host.toml: {0}")]
    Config(#[from] ConfigError),
    /// two groups that say they are one
    #[error("the disk groups make no host record: {0}; is one the copy of another?")]
    Record(#[source] RecordError),
    /// a configured address
    #[error("host.toml: {0}")]
    Address(#[from] AddressError),
    /// a listening socket
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address as configured.
        address: String,
        /// Why not.
        source: IoError,
    },
    /// a socket file for somebody else
    #[error(
        "cannot make the socket {address}: permission denied; only root may give it to another \
         user (nbd_socket.owner), and to a group (nbd_socket.group) only root or a member may, \
         and its folder must be writable"
    )]
    Give {
        /// The address as configured.
        address: String,
    },
    /// a disk group
    #[error("disk group of cache device {cache}: {source}{next}", next = next_step(source))]
    Group {
        /// Path of its cache device.
        cache: String,
        /// Why it does not open.
        source: GroupError,
    },
    /// the directory is another cluster's
    #[error(
        "the directory belongs to cluster {found:x}, this host to {wanted:x}: check the \
         directory's address in host.toml"
    )]
    OtherCluster {
        /// In the directory.
        found: u64,
        /// In the configuration.
        wanted: u64,
    },
    /// the cluster uses what came with a later release
    #[error(
        "the cluster is at level {cluster}, and this release knows what there is up to level \
         {known}: start the host with the release that the other hosts have"
    )]
    OlderRelease {
        /// In the directory.
        cluster: Level,
        /// Of this program.
        known: Level,
    },
    /// an empty directory
    #[error(
        "the directory holds no cluster: check its address in host.toml; if it was lost, begin it \
         anew with 'gabion cluster recover', then restore a backup or adopt what the hosts have; \
         wipe no device"
    )]
    DirectoryLost,
    /// `gabion host remove`
    #[error(
        "this host was taken out of the cluster ('gabion host remove'), and what it holds was made \
         again elsewhere; to use the machine again: remove its host.toml, then 'gabion host join' \
         with --wipe"
    )]
    Removed,
    /// damaged or newer
    #[error("the directory's cluster record cannot be read: it is damaged or of another version")]
    ClusterRecord,
}

/// What to do about a group that ends the start, to stand behind the error.
fn next_step(error: &GroupError) -> &'static str {
    match error {
        GroupError::NoMemory { .. } => {
            "; raise memory.total_bytes in host.toml by what is missing, or take a disk group out \
             of it"
        }
        _ => "",
    }
}
