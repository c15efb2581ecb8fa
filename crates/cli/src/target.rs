// SPDX-License-Identifier: Apache-2.0
//! Which cluster a command is for: a folder on this machine, or this machine's host.

use crate::Fail;
use crate::args::Cli;
use crate::layout::{ClusterFile, Layout};
use anyhow::{Context, Result};
use host::HostConfig;
use std::path::{Path, PathBuf};

/// The folder of a cluster, if no other is named.
pub const DATA_DEFAULT: &str = "gabion-data";
/// The configuration file of a host, if no other is named.
pub const CONFIG_DEFAULT: &str = "/etc/gabion/host.toml";

/// What a command talks to.
pub enum Target {
    /// A cluster on this machine.
    Local(Layout, ClusterFile),
    /// This machine's host in a cluster of several.
    Host(Box<HostConfig>),
}

impl Target {
    /// Finds it by `--config`, else `--data`, else in the folder `./gabion-data`, else as the
    /// machine's host.
    pub fn find(cli: &Cli) -> Result<Self> {
        if let Some(config) = &cli.config {
            return Ok(Self::Host(Box::new(read_config(config)?)));
        }
        let folder = cli.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
        let layout = Layout::new(&folder)?;
        if let Some(cluster) = layout.read()? {
            return Ok(Self::Local(layout, cluster));
        }
        let config = Path::new(CONFIG_DEFAULT);
        if cli.data.is_none() && config.exists() {
            return Ok(Self::Host(Box::new(read_config(config)?)));
        }
        Err(Fail::failed(format!(
            "there is no cluster in '{}': start one with 'gabion up', or name its folder with \
             --data",
            folder.display()
        ))
        .into())
    }

    /// The cluster on this machine, or an error where there is none.
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
        self.hosts().into_iter().map(|(_, socket)| socket).collect()
    }

    /// Names and control sockets of all hosts that could be asked, in the order of their numbers.
    pub fn hosts(&self) -> Vec<(String, PathBuf)> {
        match self {
            Self::Local(layout, cluster) => {
                let socket = |name: String| (name.clone(), layout.control_socket(&name));
                cluster.host_names().into_iter().map(socket).collect()
            }
            Self::Host(config) => {
                let socket = PathBuf::from(config.control.trim_start_matches("unix:"));
                vec![(config.name.clone(), socket)]
            }
        }
    }
}

/// Reads a host's configuration file.
pub fn read_config(path: &Path) -> Result<HostConfig> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration '{}'", path.display()))?;
    let config: HostConfig = toml::from_str(&text).map_err(|error| {
        // Only the message: the whole error has several lines.
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Fail::failed(format!(
            "'{}' is not a configuration: line {line}: {}",
            path.display(),
            error.message()
        ))
    })?;
    config.check().with_context(|| format!("'{}' cannot be used", path.display()))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_configuration_is_refused_in_one_line() {
        let path = std::env::temp_dir().join(format!("gabion-{}.toml", std::process::id()));
        let good = "name = 'a'\nid = 1\ncluster = 1\npeer = 'unix:/p'\nnbd = []\n\
                    control = 'unix:/c'\ndirectory = 'unix:/d'\n";
        let read = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            read_config(&path).map_err(|error| format!("{error:#}"))
        };
        assert!(read(good).is_ok());
        let bad = [
            (good.replace("id = 1", "id = 0"), "id is 0"),
            (good.replace("id = 1", "id = -1"), "line 2"),
            (format!("{good}[tuning]\nstall_ms = 0\n"), "tuning.stall_ms"),
        ];
        for (text, part) in bad {
            let error = read(&text).expect_err(part);
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
