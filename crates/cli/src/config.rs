// SPDX-License-Identifier: Apache-2.0
//! The configuration file of a host: where it is, reading it, writing it.
//!
//! A host of one shard has one file, with everything. One of several has a file that names those of
//! its shards:
//!
//! ```toml
//! host = "host1"
//! leash = "/run/gabion/leash.sock"
//! shards = ["host1.1.toml", "host1.2.toml"]
//! ```

use crate::Fail;
use anyhow::{Context, Result};
use control::{DirectoryThread, Endpoints, MemberFile};
use env::Address;
use host::HostConfig;
use operator::GroupConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The configuration file of a host, if no other is named.
pub const CONFIG_DEFAULT: &str = "/etc/gabion/host.toml";

/// The file of a host with several shards.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardList {
    /// The host's name.
    host: String,
    /// Socket that its shards hang on.
    leash: PathBuf,
    /// Files of its shards; those without a folder are in this file's.
    shards: Vec<PathBuf>,
}

/// One shard of a host: its file, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFile {
    /// Where the file is.
    pub path: PathBuf,
    /// What it says.
    pub config: HostConfig,
}

/// A host as its configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFiles {
    /// Socket that its shards hang on; `None`: it is one shard, which needs no supervisor.
    pub leash: Option<PathBuf>,
    /// Its shards, one at least.
    pub shards: Vec<ShardFile>,
}

impl HostFiles {
    /// The first of its shards.
    pub fn first(&self) -> &HostConfig {
        &self.shards[0].config
    }

    /// The file of its part in the directory; `None` where etcd is run by hand.
    pub fn member_file(&self) -> Option<PathBuf> {
        self.shards[0].member_file()
    }

    /// Names and control sockets of its shards.
    pub fn control_sockets(&self) -> Vec<(String, PathBuf)> {
        let shards = self.shards.iter().map(|shard| &shard.config);
        shards.map(|config| (config.name.clone(), control_socket(config))).collect()
    }

    /// Where the cluster's CA is: beside its configuration.
    pub fn keys(&self) -> PathBuf {
        self.shards[0].path.parent().unwrap_or(Path::new(".")).to_owned()
    }

    /// Where its API listens: beside what its shards hang on, or beside the control socket.
    pub fn api_socket(&self) -> PathBuf {
        let beside = self.leash.clone().unwrap_or_else(|| control_socket(self.first()));
        beside.with_extension("api.sock")
    }
}

impl ShardFile {
    /// The file of the host's part in the directory; `None` where etcd is run by hand.
    pub fn member_file(&self) -> Option<PathBuf> {
        member_file(&self.path, &self.config)
    }

    /// Where etcd is; `None` where the directory is that of a cluster on this machine.
    pub fn endpoints(&self) -> Result<Option<Endpoints>> {
        endpoints(&self.path, &self.config)
    }
}

/// The control socket of a shard.
pub fn control_socket(config: &HostConfig) -> PathBuf {
    config.control.trim_start_matches("unix:").into()
}

fn member_file(path: &Path, config: &HostConfig) -> Option<PathBuf> {
    let host = config.machine.as_ref().unwrap_or(&config.name);
    Some(MemberFile::beside(path, host)).filter(|path| path.exists())
}

/// Where etcd is for the host or shard whose configuration this is, at `path`; `None` where the
/// directory is that of a cluster on this machine.
pub fn endpoints(path: &Path, config: &HostConfig) -> Result<Option<Endpoints>> {
    let urls = config.etcd.clone();
    if urls.is_empty() {
        return Ok(None);
    }
    let Some(path) = member_file(path, config) else { return Ok(Some(urls.into())) };
    Ok(Some(MemberFile::followed(path, urls)?))
}

/// The door to the directory for a command: of etcd where there are `endpoints`, for which the
/// gateway is this process's own and ends when it is dropped; else at `own`.
pub fn reach(
    endpoints: Option<Endpoints>,
    own: Address,
) -> Result<(Option<DirectoryThread>, Address)> {
    let Some(endpoints) = endpoints else { return Ok((None, own)) };
    let name = format!("gabion-directory-{}.sock", std::process::id());
    let socket = std::env::temp_dir().join(name);
    let gateway = control::start_etcd_gateway(endpoints, &socket)?;
    Ok((Some(gateway), Address::Unix(socket.display().to_string())))
}

/// Reads the configuration of a host, of one shard or of several.
pub fn read_host(path: &Path) -> Result<HostFiles> {
    let text = read(path)?;
    // Only a list of shards has such a line.
    let is_list = toml::from_str::<toml::Table>(&text).is_ok_and(|it| it.contains_key("shards"));
    if !is_list {
        let shard = ShardFile { path: path.to_owned(), config: parse_config(path, &text)? };
        return Ok(HostFiles { leash: None, shards: vec![shard] });
    }
    let list: ShardList = parse(path, &text)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let shard = |file: &PathBuf| {
        let path = folder.join(file);
        Ok(ShardFile { config: read_config(&path)?, path })
    };
    let shards: Vec<ShardFile> = list.shards.iter().map(shard).collect::<Result<_>>()?;
    check_shards(&list.host, &shards)
        .map_err(|why| Fail::failed(format!("'{}' cannot be used: {why}", path.display())))?;
    Ok(HostFiles { leash: Some(list.leash), shards })
}

/// What is wrong with the shards of a host, in one line.
fn check_shards(host: &str, shards: &[ShardFile]) -> Result<(), String> {
    if shards.is_empty() {
        return Err("shards is empty: name the files of one at least".to_owned());
    }
    let mut seen = BTreeSet::new();
    for ShardFile { path, config } in shards {
        let path = path.display();
        if config.machine.as_deref() != Some(host) {
            return Err(format!("'{path}' is of another host: it needs host = \"{host}\""));
        }
        let devices = config.groups.iter().flat_map(GroupConfig::devices);
        let own = [&config.name, &config.peer, &config.control];
        // With etcd, each process listens there itself.
        let gateway = (!config.etcd.is_empty()).then_some(&config.directory);
        let doors = config.nbd.iter().chain(gateway);
        let all = own.into_iter().chain(doors).chain(devices).cloned();
        for text in all.chain([config.id.to_string()]) {
            if !seen.insert(text.clone()) {
                return Err(format!("'{path}' has {text}, which another shard has too"));
            }
        }
    }
    Ok(())
}

/// Reads the configuration file of one shard.
pub fn read_config(path: &Path) -> Result<HostConfig> {
    parse_config(path, &read(path)?)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration '{}'", path.display()))
}

fn parse_config(path: &Path, text: &str) -> Result<HostConfig> {
    let config: HostConfig = parse(path, text)?;
    config.check().with_context(|| format!("'{}' cannot be used", path.display()))?;
    Ok(config)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        // Only the message: the whole error has several lines.
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Fail::failed(format!(
            "'{}' is not a configuration: line {line}: {}",
            path.display(),
            error.message()
        ))
        .into()
    })
}

/// Writes the configuration of a host: its shards' files, then, where there are several, the one
/// that names them, at `path`.
pub fn write_host(path: &Path, host: &str, files: &HostFiles) -> Result<()> {
    for shard in &files.shards {
        write_config(&shard.path, &shard.config)?;
    }
    let Some(leash) = &files.leash else { return Ok(()) };
    let names = files.shards.iter().filter_map(|shard| shard.path.file_name());
    let shards = names.map(PathBuf::from).collect();
    write_toml(path, &ShardList { host: host.to_owned(), leash: leash.clone(), shards })
}

/// Writes the configuration file of one shard.
pub fn write_config(path: &Path, config: &HostConfig) -> Result<()> {
    write_toml(path, config)
}

fn write_toml<T: Serialize>(path: &Path, content: &T) -> Result<()> {
    control::write_toml(path, content).with_context(|| format!("cannot write '{}'", path.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

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

    /// Shard `n` of host a.
    pub(crate) fn shard(n: u32) -> HostConfig {
        let text = format!(
            "name = 'a.{n}'\nid = {n}\nhost = 'a'\ncluster = 1\npeer = 'unix:/p{n}'\n\
             nbd = ['unix:/n{n}']\ncontrol = 'unix:/c{n}'\ndirectory = 'unix:/d'\n\
             groups = [{{ cache = '/cache{n}', capacity = ['/capacity{n}'] }}]\n"
        );
        toml::from_str::<HostConfig>(&text).expect("a configuration")
    }

    #[test]
    fn a_host_of_several_shards_is_what_its_files_say_together() {
        let folder = std::env::temp_dir().join(format!("gabion-shards-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("host.toml");
        let written = |shards: &[HostConfig]| {
            let file = |config: &HostConfig| ShardFile {
                path: folder.join(format!("{}.toml", config.name)),
                config: config.clone(),
            };
            let shards = shards.iter().map(file).collect();
            let files = HostFiles { leash: Some(PathBuf::from("/run/leash.sock")), shards };
            write_host(&path, "a", &files).expect("written");
            (read_host(&path).map_err(|error| format!("{error:#}")), files)
        };
        let (read, files) = written(&[shard(1), shard(2)]);
        assert_eq!(read, Ok(files));
        let refused = |other: HostConfig, part: &str| {
            let error = written(&[shard(1), other]).0.expect_err(part);
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        };
        refused(HostConfig { machine: Some("b".to_owned()), ..shard(2) }, "of another host");
        refused(HostConfig { groups: shard(1).groups, ..shard(2) }, "has /cache1, which another");
        refused(HostConfig { id: 1, ..shard(2) }, "has 1, which another shard has");
        assert!(written(&[]).0.is_err_and(|error| error.contains("shards is empty")));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
