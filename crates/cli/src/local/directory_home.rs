// SPDX-License-Identifier: Apache-2.0
//! The directory of a cluster on this machine: hosts go on without it, but nothing can change.

use super::layout::{ClusterFile, Layout, Mode};
use anyhow::Result;
use control::{DirectoryThread, EtcdProcess, Home};

/// How the directory runs.
pub enum DirectoryHome {
    /// A thread of this process.
    Embedded(DirectoryThread),
    /// A process of its own.
    Etcd(EtcdProcess),
}

impl DirectoryHome {
    /// Starts the directory in the way that the cluster's mode asks for.
    pub fn start(layout: &Layout, cluster: &ClusterFile) -> Result<Self> {
        Ok(match cluster.mode {
            Mode::Threads => Self::Embedded(control::start_embedded(
                &layout.directory_file(),
                &layout.directory_socket(),
            )?),
            Mode::Processes => {
                let (client, peer) = cluster.etcd_ports;
                Self::Etcd(control::start_etcd(&layout.etcd_dir(), client, peer)?)
            }
        })
    }
}

impl Home for DirectoryHome {
    fn is_running(&mut self) -> bool {
        match self {
            Self::Embedded(thread) => thread.is_running(),
            Self::Etcd(process) => process.is_running(),
        }
    }

    fn why_ended(self) -> String {
        match self {
            Self::Embedded(thread) => match thread.stop() {
                Ok(()) => "no error".to_owned(),
                Err(error) => format!("{:#}", anyhow::Error::from(error)),
            },
            Self::Etcd(_) => "see etcd.log".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_directory_that_ended_is_noticed() {
        let name = format!("gabion-keeper-{}", std::process::id());
        let layout = Layout::new(&std::env::temp_dir().join(name)).expect("a short path");
        std::fs::create_dir_all(layout.root()).expect("a folder");
        let start =
            || control::start_embedded(&layout.directory_file(), &layout.directory_socket());
        let mut home = DirectoryHome::Embedded(start().expect("it starts"));
        assert!(home.is_running());
        // A second directory on the same file cannot run. So this start fails while the first one
        // lives.
        assert!(start().is_err());
        assert_eq!(home.why_ended(), "no error");
        std::fs::remove_dir_all(layout.root()).expect("removed");
    }
}
