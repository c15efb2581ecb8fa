// SPDX-License-Identifier: Apache-2.0
//! Which cluster a command is for: a folder on this machine, or this machine's host.

use crate::Fail;
use crate::args::Cli;
use crate::layout::{ClusterFile, Layout};
use anyhow::{Context, Result};
use host::HostConfig;
use std::path::{Path, PathBuf};

/// Folder of a cluster where nothing else is said.
pub const DATA_DEFAULT: &str = "gabion-data";
/// Configuration of a host where nothing else is said.
pub const CONFIG_DEFAULT: &str = "/etc/gabion/host.toml";

/// What a command talks to.
pub enum Target {
    /// A cluster on this machine.
    Local(Layout, ClusterFile),
    /// This machine's host in a cluster of several.
    Host(HostConfig),
}

impl Target {
    /// Finds it: `--config`, `--data`, then the folder `./gabion-data`, then the machine's host.
    pub fn find(cli: &Cli) -> Result<Self> {
        if let Some(config) = &cli.config {
            return Ok(Self::Host(read_config(config)?));
        }
        let folder = cli.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
        let layout = Layout::new(&folder)?;
        if let Some(cluster) = layout.read()? {
            return Ok(Self::Local(layout, cluster));
        }
        let config = Path::new(CONFIG_DEFAULT);
        if cli.data.is_none() && config.exists() {
            return Ok(Self::Host(read_config(config)?));
        }
        Err(Fail::failed(format!(
            "there is no cluster in '{}': start one with 'gabion up', or name its folder with \
             --data",
            folder.display()
        ))
        .into())
    }

    /// The cluster on this machine; an error where it is not one.
    pub fn local(cli: &Cli) -> Result<(Layout, ClusterFile)> {
        match Self::find(cli)? {
            Self::Local(layout, cluster) => Ok((layout, cluster)),
            Self::Host(_) => Err(Fail::failed(
                "this is for a cluster on one machine: use 'systemctl start|stop gabion' on the \
                 host itself",
            )
            .into()),
        }
    }

    /// Control sockets of all hosts that could be asked, in the order of their numbers.
    pub fn control_sockets(&self) -> Vec<PathBuf> {
        match self {
            Self::Local(layout, cluster) => {
                cluster.host_names().iter().map(|name| layout.control_socket(name)).collect()
            }
            Self::Host(config) => {
                vec![PathBuf::from(config.control.trim_start_matches("unix:"))]
            }
        }
    }
}

/// Reads a host's configuration file.
pub fn read_config(path: &Path) -> Result<HostConfig> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration '{}'", path.display()))?;
    toml::from_str(&text).with_context(|| format!("'{}' is not a configuration", path.display()))
}
