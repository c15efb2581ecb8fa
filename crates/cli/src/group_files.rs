// SPDX-License-Identifier: Apache-2.0
//! The configuration files of this machine's shards, which the API writes when a shard's disk
//! groups change: the shard's next start finds them.

use crate::config::{ShardFile, read_config, write_config};
use anyhow::Result;
use api::ShardConfigs;
use host::HostConfig;
use operator::{Command, CommandFailure, ErrorKind, GroupConfig};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files, each with the name of its shard.
pub struct GroupFiles {
    files: Vec<(String, PathBuf)>,
    /// Held while one is read and written again.
    writing: Mutex<()>,
}

impl GroupFiles {
    /// Those of these shards.
    pub fn of(shards: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        Self { files: shards.into_iter().collect(), writing: Mutex::new(()) }
    }

    /// Those that a host's configuration names.
    pub fn of_host(shards: &[ShardFile]) -> Self {
        Self::of(shards.iter().map(|shard| (shard.config.name.clone(), shard.path.clone())))
    }

    fn file(&self, shard: &str) -> Result<&Path, CommandFailure> {
        let found = self.files.iter().find(|(name, _)| name == shard);
        let none = || failure(ErrorKind::Failed, format!("{shard} has no configuration file here"));
        found.map(|(_, path)| path.as_path()).ok_or_else(none)
    }
}

impl ShardConfigs for GroupFiles {
    fn check(&self, shard: &str, command: &Command) -> Result<(), CommandFailure> {
        let devices: Vec<&String> = match command {
            Command::GroupCreate { cache, capacity, .. } => {
                std::iter::once(cache).chain(capacity).collect()
            }
            Command::GroupExtend { device, .. } => vec![device],
            _ => return Ok(()),
        };
        if let Some(path) = devices.iter().find(|path| !Path::new(path).is_absolute()) {
            let why = format!("'{}' is no absolute path of a device", path.escape_debug());
            return Err(failure(ErrorKind::Usage, why));
        }
        let mut config = read(self.file(shard)?)?;
        match command {
            Command::GroupCreate { cache, capacity, .. } => {
                let (cache, capacity) = (cache.clone(), capacity.clone());
                config.groups.push(GroupConfig { cache, capacity, kind: None });
            }
            Command::GroupExtend { group, device, .. } => {
                // One that is named otherwise the shard finds, or refuses.
                let has = |one: &&mut GroupConfig| one.devices().any(|device| device == group);
                if let Some(group) = config.groups.iter_mut().find(has) {
                    group.capacity.push(device.clone());
                }
            }
            _ => {}
        }
        config.check().map_err(|error| failure(ErrorKind::Failed, error.to_string()))
    }

    fn keep(&self, shard: &str, command: &Command, done: &Value) -> Result<(), CommandFailure> {
        let change: fn(&mut HostConfig, GroupConfig) = match command {
            Command::GroupCreate { .. } => create,
            Command::GroupExtend { .. } => extend,
            Command::GroupRemove { .. } => remove,
            _ => return Ok(()),
        };
        let path = self.file(shard)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || -> Result<()> {
            let mut config = read_config(path)?;
            change(&mut config, serde_json::from_value(done.clone())?);
            write_config(path, &config)
        };
        write().map_err(|error| {
            let why = format!(
                "{shard} has done it, but its next start will not know: put its groups into '{}' \
                 by hand ({error:#})",
                path.display()
            );
            failure(ErrorKind::Failed, why)
        })
    }
}

fn create(config: &mut HostConfig, made: GroupConfig) {
    let usual = config.kind;
    let kind = made.kind.filter(|kind| *kind != usual);
    config.groups.push(GroupConfig { kind, ..made });
}

fn extend(config: &mut HostConfig, extended: GroupConfig) {
    let mut groups = config.groups.iter_mut();
    if let Some(group) = groups.find(|group| group.cache == extended.cache) {
        group.capacity = extended.capacity;
    }
}

fn remove(config: &mut HostConfig, removed: GroupConfig) {
    config.groups.retain(|group| group.cache != removed.cache);
    // What is said of devices that it does not use any more would be a mistake.
    let is_gone = |device: &String| removed.devices().any(|other| other == device);
    config.tuning.magnetic.retain(|device| !is_gone(device));
}

fn read(path: &Path) -> Result<HostConfig, CommandFailure> {
    read_config(path).map_err(|error| failure(ErrorKind::Failed, format!("{error:#}")))
}

fn failure(kind: ErrorKind, message: String) -> CommandFailure {
    CommandFailure { kind, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::shard;
    use serde_json::json;

    struct Written {
        folder: PathBuf,
        files: GroupFiles,
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn written(name: &str) -> Written {
        let folder = std::env::temp_dir().join(format!("ggroups-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("host.toml");
        write_config(&path, &shard(1)).expect("written");
        Written { files: GroupFiles::of([("a.1".to_owned(), path)]), folder }
    }

    fn create(cache: &str) -> Command {
        let capacity = vec!["/new-capacity".to_owned()];
        Command::GroupCreate {
            cache: cache.to_owned(),
            capacity,
            kind: None,
            create_bytes: None,
            wipe: false,
            ignore_device_kind: false,
        }
    }

    fn extend(group: &str, device: &str) -> Command {
        Command::GroupExtend {
            group: group.to_owned(),
            device: device.to_owned(),
            create_bytes: None,
            wipe: false,
            ignore_device_kind: false,
        }
    }

    #[test]
    fn the_file_says_what_the_shard_says_of_its_groups() {
        let written = written("kept");
        let keep = |command: &Command, done: Value| {
            written.files.keep("a.1", command, &done).expect("written");
            let groups = read_config(&written.folder.join("host.toml")).expect("a file").groups;
            groups.into_iter().map(|group| (group.cache, group.capacity)).collect::<Vec<_>>()
        };
        let group = |cache: &str, capacity: &[&str]| {
            (cache.to_owned(), capacity.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
        };
        let made = json!({"cache": "/new", "capacity": ["/new-capacity"]});
        let now = keep(&create("/new"), made);
        assert_eq!(now, [group("/cache1", &["/capacity1"]), group("/new", &["/new-capacity"])]);
        let larger = json!({"cache": "/new", "capacity": ["/new-capacity", "/more"]});
        let now = keep(&extend("/new", "/more"), larger);
        assert_eq!(now[1], group("/new", &["/new-capacity", "/more"]));
        let remove = Command::GroupRemove { group: "/cache1".to_owned() };
        let gone = json!({"cache": "/cache1", "capacity": ["/capacity1"]});
        assert_eq!(keep(&remove, gone), [group("/new", &["/new-capacity", "/more"])]);
    }

    #[test]
    fn what_no_file_could_say_is_refused_before_it_is_done() {
        let written = written("refused");
        let why = |shard: &str, command: &Command| {
            written.files.check(shard, command).map_err(|why| (why.kind, why.message))
        };
        assert_eq!(why("a.1", &create("/new")), Ok(()));
        assert_eq!(why("a.1", &Command::ScrubStatus), Ok(()));
        let (kind, said) = why("a.1", &create("new")).expect_err("where the server runs");
        assert!(kind == ErrorKind::Usage && said.contains("absolute"), "{said}");
        let (_, said) = why("a.1", &create("/cache1")).expect_err("twice");
        assert!(said.contains("/cache1"), "{said}");
        let (_, said) = why("a.1", &extend("/cache1", "/capacity1")).expect_err("twice");
        assert!(said.contains("/capacity1"), "{said}");
        assert!(why("b", &create("/new")).is_err(), "a shard of another machine");
    }
}
