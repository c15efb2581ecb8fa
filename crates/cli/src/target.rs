// SPDX-License-Identifier: Apache-2.0
//! Which cluster a command is for: a folder on this machine, or this machine's host.

use crate::Fail;
use crate::args::Cli;
use crate::client::{self, ApiDoor};
use crate::config::{CONFIG_DEFAULT, HostFiles, read_host};
use crate::local::{ClusterFile, DATA_DEFAULT, Layout};
use anyhow::Result;
use operator::{Command, StatusReport};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a command talks to.
pub enum TargetHost {
    /// A cluster on this machine.
    Local(Layout, ClusterFile),
    /// This machine's host in a cluster of several.
    Host(Box<HostFiles>),
}

impl TargetHost {
    /// Finds it by `--config`, else `--data`, else in the folder `./gabion-data`, else as the
    /// machine's host.
    pub fn find(cli: &Cli) -> Result<Self> {
        if let Some(config) = &cli.config {
            return Ok(Self::Host(Box::new(read_host(config)?)));
        }
        let folder = cli.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
        let layout = Layout::new(&folder)?;
        if let Some(cluster) = layout.read()? {
            return Ok(Self::Local(layout, cluster));
        }
        let config = Path::new(CONFIG_DEFAULT);
        if cli.data.is_none() && config.exists() {
            return Ok(Self::Host(Box::new(read_host(config)?)));
        }
        Err(Fail::failed(format!(
            "there is no cluster in '{}': start one with 'gabion up', or name its folder with \
             --data",
            folder.display()
        ))
        .into())
    }

    /// The cluster on this machine, or an error where there is none.
    pub fn local(cli: &Cli) -> Result<Layout> {
        match Self::find(cli)? {
            Self::Local(layout, _) => Ok(layout),
            Self::Host(_) => Err(Fail::failed(
                "this is for a cluster on one machine: use 'systemctl start|stop gabion' on the \
                 host itself",
            )
            .into()),
        }
    }

    /// Whoever answers here.
    pub fn door(&self) -> ApiDoor {
        ApiDoor::any(&self.api_socket())
    }

    /// All shards of hosts that could be asked, in the order of their numbers.
    pub fn shards(&self) -> Vec<(String, ApiDoor)> {
        let names = self.hosts().into_iter().map(|(name, _)| name);
        names.map(|name| (name.clone(), self.door().of(&name))).collect()
    }

    /// The same of those that a name is of: one shard, or all of a host.
    pub fn shards_of(&self, wanted: &str) -> Vec<(String, ApiDoor)> {
        let shards = match self {
            Self::Local(_, cluster) => cluster.shards_of(wanted),
            Self::Host(files) => {
                let configs = files.shards.iter().map(|shard| &shard.config);
                configs
                    .filter(|config| config.goes_by(wanted))
                    .map(|config| config.name.clone())
                    .collect()
            }
        };
        let mut all = self.shards();
        all.retain(|(name, _)| shards.contains(name));
        all
    }

    /// Where the API listens.
    pub fn api_socket(&self) -> PathBuf {
        match self {
            Self::Local(layout, _) => layout.api_socket(),
            Self::Host(files) => files.api_socket(),
        }
    }

    /// Where it is on the network, and the file with the certificate that it proves itself with.
    pub fn api_network(&self) -> Option<(SocketAddr, PathBuf)> {
        let (address, keys) = match self {
            Self::Local(layout, _) => (layout.api_address()?, layout.keys()),
            Self::Host(files) => (files.first().api?, files.keys()),
        };
        Some((address, keys.join(keys::CA_FILE))).filter(|(_, file)| file.exists())
    }

    /// Configuration files of the hosts of this machine: none of them has keys.
    pub fn config_files(&self) -> Vec<PathBuf> {
        match self {
            Self::Local(layout, cluster) => {
                cluster.host_names().iter().map(|name| layout.host_config(name)).collect()
            }
            Self::Host(files) => {
                let first = files.keys().join("host.toml");
                let shards = files.shards.iter().map(|shard| shard.path.clone());
                let mut all: Vec<PathBuf> = std::iter::once(first).chain(shards).collect();
                all.dedup();
                all.extend(files.member_file());
                all
            }
        }
    }

    /// The file with what the hosts report; none: it is in the journal.
    pub fn log_file(&self) -> Option<PathBuf> {
        match self {
            Self::Local(layout, _) => Some(layout.log()),
            Self::Host(_) => None,
        }
    }

    /// Names and control sockets of all shards that run on this machine.
    pub fn control_sockets(&self) -> Vec<(String, PathBuf)> {
        self.hosts()
    }

    /// Names and control sockets of all shards of hosts that could be asked, in the order of their
    /// numbers.
    fn hosts(&self) -> Vec<(String, PathBuf)> {
        match self {
            Self::Local(layout, cluster) => {
                let socket = |name: String| (name.clone(), layout.control_socket(&name));
                cluster.host_names().into_iter().map(socket).collect()
            }
            Self::Host(files) => files.control_sockets(),
        }
    }
}

/// Statuses of all shards that can be asked here, merged into one picture.
pub fn gather(target: &TargetHost) -> Result<StatusReport> {
    client::ask(&target.door(), &Command::Status).map_err(|error| match error.is::<Fail>() {
        true => error,
        false => no_host(target),
    })
}

/// What to say where none of them answers.
pub fn no_host(target: &TargetHost) -> anyhow::Error {
    let sockets: Vec<PathBuf> = target.hosts().into_iter().map(|(_, socket)| socket).collect();
    let why = client::why_away(&target.api_socket(), &sockets);
    let usual = || "no host answers: start the cluster with 'gabion up'".to_owned();
    Fail::failed(why.unwrap_or_else(usual)).into()
}
