// SPDX-License-Identifier: Apache-2.0
//! The folder of a cluster on this machine: what lies where, and the file that describes it.
//!
//! ```text
//! DIR/cluster.json       what the cluster is made of; written last when it is created
//! DIR/creating           stands while it is being created: such a folder may be cleared
//! DIR/founding           stands until the directory holds the new cluster's record
//! DIR/lock               held by the running supervisor
//! DIR/audit.jsonl        who changed what
//! DIR/gabion.log         what the hosts report
//! DIR/supervisor.sock    starts and ends hosts
//! DIR/keys/              the key and the certificate of its CA
//! DIR/api.sock           the API; DIR/api.address says where it is on the network
//! DIR/leash.sock         every host hangs on it: its end is theirs
//! DIR/directory.redb     the embedded directory, or DIR/etcd/
//! DIR/hostN/             host.toml, device files, sockets; DIR/hostN.M/ for each shard of several
//! ```

use crate::config::{control_socket, read_config};
use anyhow::{Context, Result, bail};
use diskgroup::CreateSizes;
use host::{ClusterKind, HostConfig, MemoryConfig, SocketConfig, Tuning};
use operator::GroupConfig;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder of a cluster, if no other is named.
pub const DATA_DEFAULT: &str = "gabion-data";

/// Longest path of a Unix socket, in bytes.
const SOCKET_PATH_MAX: usize = 107;

/// Who runs the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One process, one thread per host, embedded directory.
    Threads,
    /// One process per host, etcd.
    Processes,
}

/// What a cluster on this machine is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// Version of this file's format: 1.
    pub(super) version: u32,
    /// The cluster's id.
    pub id: u64,
    /// Number of hosts, named host1, host2, ...
    pub(super) hosts: u32,
    /// Shards per host, named host1.1, host1.2, ... where there are several.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(super) shards: u32,
    /// Disk groups per host, dealt out to its shards in equal parts.
    pub(super) groups: u32,
    /// Capacity devices per group.
    pub(super) capacity_per_group: u32,
    /// Bytes of each cache device.
    pub(super) cache_size: u64,
    /// Bytes of each capacity device.
    pub(super) capacity_size: u64,
    /// The capacity devices behave as magnetic disks would.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) magnetic_capacity: bool,
    /// What the disk groups are.
    #[serde(default, skip_serializing_if = "is_all_flash")]
    pub kind: ClusterKind,
    /// Percent of each cache device that is read cache in a hybrid cluster, where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) read_cache_percent: Option<u8>,
    /// Owner, group and mode of the hosts' NBD sockets.
    #[serde(default, skip_serializing_if = "SocketConfig::is_default")]
    pub(super) nbd_socket: SocketConfig,
    /// Who runs the hosts.
    pub(super) mode: Mode,
    /// TCP ports of etcd for clients and peers; zero where the cluster has no etcd.
    pub(super) etcd_ports: (u16, u16),
}

// The default is left out, so that earlier versions can read the file.
fn is_all_flash(kind: &ClusterKind) -> bool {
    *kind == ClusterKind::AllFlash
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl ClusterFile {
    /// The names of the shards of all hosts, by number; of the hosts where each is one shard.
    pub fn host_names(&self) -> Vec<String> {
        (1..=self.hosts * self.shards).map(|number| self.names(number).0).collect()
    }

    /// The names of the hosts.
    pub(super) fn machine_names(&self) -> Vec<String> {
        (1..=self.hosts).map(|number| format!("host{number}")).collect()
    }

    /// The name of a shard, by its number from 1 on, and that of its host where that has several.
    fn names(&self, number: u32) -> (String, Option<String>) {
        let host = format!("host{}", (number - 1) / self.shards + 1);
        match self.shards {
            1 => (host, None),
            many => (format!("{host}.{}", (number - 1) % many + 1), Some(host)),
        }
    }

    /// The shards that a name is of: one of them, or all of a host.
    pub fn shards_of(&self, name: &str) -> Vec<String> {
        let all = (1..=self.hosts * self.shards).map(|number| self.names(number));
        let is_meant =
            |of: &(String, Option<String>)| of.0 == name || of.1.as_deref() == Some(name);
        all.filter(is_meant).map(|(shard, _)| shard).collect()
    }

    /// How large its device files are.
    pub fn device_sizes(&self) -> CreateSizes {
        CreateSizes { cache: self.cache_size, capacity: self.capacity_size }
    }

    /// Where its etcd listens; nothing where the directory is embedded.
    pub fn etcd(&self) -> Vec<String> {
        match self.mode {
            Mode::Threads => Vec::new(),
            Mode::Processes => vec![format!("http://127.0.0.1:{}", self.etcd_ports.0)],
        }
    }
}

/// The paths of a cluster's folder.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout of the cluster in `folder`, which need not exist.
    pub fn new(folder: &Path) -> Result<Self> {
        let root = std::path::absolute(folder)
            .with_context(|| format!("'{}' is not a folder's name", folder.display()))?;
        let layout = Self { root };
        layout.check_sockets("host16")?;
        Ok(layout)
    }

    /// Whether sockets in the folder of a host have paths that are short enough. The longest one is
    /// that of its gateway to etcd.
    pub(super) fn check_sockets(&self, host: &str) -> Result<()> {
        if self.host_dir(host).join("directory.sock").as_os_str().len() > SOCKET_PATH_MAX {
            bail!(
                "the path '{}' is too long for sockets in it: use a folder with a shorter path",
                self.root.display()
            );
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn cluster_file(&self) -> PathBuf {
        self.root.join("cluster.json")
    }

    pub(super) fn creating(&self) -> PathBuf {
        self.root.join("creating")
    }

    pub(super) fn founding(&self) -> PathBuf {
        self.root.join("founding")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// What the hosts report.
    pub fn log(&self) -> PathBuf {
        self.root.join("gabion.log")
    }

    /// The log, to write behind what it says. It is for nobody else on the machine.
    pub fn open_log(&self) -> io::Result<fs::File> {
        fs::OpenOptions::new().create(true).append(true).mode(0o600).open(self.log())
    }

    pub(super) fn supervisor_socket(&self) -> PathBuf {
        self.root.join("supervisor.sock")
    }

    /// Who changed what.
    pub(super) fn audit(&self) -> PathBuf {
        self.root.join("audit.jsonl")
    }

    /// The folder of the cluster's CA.
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    /// Where the API is on the network while the cluster runs, and was before.
    pub fn api_address(&self) -> Option<SocketAddr> {
        fs::read_to_string(self.root.join("api.address")).ok()?.trim().parse().ok()
    }

    /// Notes where the API is on the network.
    pub(super) fn note_api_address(&self, address: SocketAddr) -> io::Result<()> {
        fs::write(self.root.join("api.address"), format!("{address}\n"))
    }

    /// Where the cluster's API listens.
    pub fn api_socket(&self) -> PathBuf {
        self.root.join("api.sock")
    }

    pub(super) fn leash_socket(&self) -> PathBuf {
        self.root.join("leash.sock")
    }

    pub(super) fn directory_file(&self) -> PathBuf {
        self.root.join("directory.redb")
    }

    pub fn directory_socket(&self) -> PathBuf {
        self.root.join("directory.sock")
    }

    pub(super) fn etcd_dir(&self) -> PathBuf {
        self.root.join("etcd")
    }

    pub(super) fn host_dir(&self, host: &str) -> PathBuf {
        self.root.join(host)
    }

    pub fn control_socket(&self, host: &str) -> PathBuf {
        self.host_dir(host).join("control.sock")
    }

    pub fn host_config(&self, host: &str) -> PathBuf {
        self.host_dir(host).join("host.toml")
    }

    /// Reads `cluster.json`; `None` where there is none.
    pub fn read(&self) -> Result<Option<ClusterFile>> {
        let path = self.cluster_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                bail!("'{}' is not a folder: name another with --data", self.root.display())
            }
            Err(error) => bail!("cannot read '{}': {error}", path.display()),
        };
        let cluster: ClusterFile = serde_json::from_str(&text).with_context(|| {
            format!("'{}' is damaged or of another version of gabion", path.display())
        })?;
        if cluster.version != 1 {
            bail!("'{}' has version {}, this gabion knows 1", path.display(), cluster.version);
        }
        Ok(Some(cluster))
    }

    /// Writes `cluster.json` so that it is either whole or as it was.
    pub(super) fn write(&self, cluster: &ClusterFile) -> Result<()> {
        let path = self.cluster_file();
        let next = self.root.join("cluster.json.new");
        let text = serde_json::to_string_pretty(cluster)?;
        fs::write(&next, text + "\n")
            .and_then(|()| fs::File::open(&next)?.sync_all())
            .and_then(|()| fs::rename(&next, &path))
            .and_then(|()| fs::File::open(&self.root)?.sync_all())
            .with_context(|| format!("cannot write '{}'", path.display()))
    }

    /// Checks that the folder is still where the cluster was made, because the hosts'
    /// configurations name their devices and sockets by absolute paths.
    pub(super) fn check_place(&self, cluster: &ClusterFile) -> Result<()> {
        for name in cluster.host_names() {
            // A configuration that cannot be read is reported by the host's start.
            let Ok(config) = read_config(&self.host_config(&name)) else { continue };
            let socket = control_socket(&config);
            let Some(made_at) = socket.parent() else { continue };
            if !is_same_folder(made_at, &self.host_dir(&name)) {
                bail!(
                    "the cluster in '{}' was made in '{}' and its configuration names devices \
                     there: move the folder back, or bind-mount it there",
                    self.root.display(),
                    made_at.parent().unwrap_or(made_at).display()
                );
            }
        }
        Ok(())
    }

    /// The configuration of one shard of `cluster`, by its number from 1 on.
    pub(super) fn host_config_of(&self, cluster: &ClusterFile, number: u32) -> HostConfig {
        let (name, machine) = cluster.names(number);
        let dir = self.host_dir(&name);
        let file = |leaf: String| dir.join(leaf).display().to_string();
        let socket = |leaf: &str| format!("unix:{}", dir.join(leaf).display());
        let groups = (0..cluster.groups / cluster.shards).map(|group| GroupConfig {
            cache: file(format!("cache{group}.img")),
            capacity: (0..cluster.capacity_per_group)
                .map(|device| file(format!("capacity{group}-{device}.img")))
                .collect(),
            kind: None,
        });
        let groups: Vec<GroupConfig> = groups.collect();
        let magnetic = groups.iter().flat_map(|group| group.capacity.clone());
        let magnetic = magnetic.filter(|_| cluster.magnetic_capacity).collect();
        let usual = Tuning::default();
        let directory = match cluster.mode {
            Mode::Threads => format!("unix:{}", self.directory_socket().display()),
            Mode::Processes => socket("directory.sock"),
        };
        HostConfig {
            name,
            id: number,
            machine,
            cluster: cluster.id,
            peer: socket("peer.sock"),
            nbd: vec![socket("nbd.sock")],
            nbd_socket: cluster.nbd_socket.clone(),
            control: socket("control.sock"),
            api: None,
            directory,
            etcd: cluster.etcd(),
            kind: cluster.kind,
            groups,
            memory: MemoryConfig::for_one_of(cluster.hosts * cluster.shards),
            tuning: Tuning {
                magnetic,
                read_cache_percent: cluster.read_cache_percent.unwrap_or(usual.read_cache_percent),
                ..usual
            },
        }
    }
}

/// Whether two paths lead to one folder, through links and mounts too.
fn is_same_folder(a: &Path, b: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(mode: Mode) -> ClusterFile {
        ClusterFile {
            version: 1,
            id: 1,
            hosts: 16,
            shards: 1,
            groups: 1,
            capacity_per_group: 1,
            cache_size: 0,
            capacity_size: 0,
            magnetic_capacity: false,
            kind: ClusterKind::AllFlash,
            read_cache_percent: None,
            nbd_socket: SocketConfig::default(),
            mode,
            etcd_ports: (1, 2),
        }
    }

    #[test]
    fn no_socket_of_an_accepted_folder_is_too_long_to_listen_at() {
        let mut accepted = (1..120)
            .filter_map(|length| Layout::new(&Path::new("/").join("d".repeat(length))).ok());
        let longest = accepted.next_back().expect("short folders are accepted");
        for mode in [Mode::Threads, Mode::Processes] {
            let config = longest.host_config_of(&cluster(mode), 16);
            for text in config.nbd.iter().chain([&config.peer, &config.control, &config.directory])
            {
                assert!(host::parse_address(text).is_ok(), "{text}");
            }
        }
        for socket in [longest.supervisor_socket(), longest.leash_socket()] {
            assert!(socket.as_os_str().len() <= SOCKET_PATH_MAX);
        }
    }

    #[test]
    fn the_shards_of_a_host_share_its_disk_groups() {
        let layout = Layout::new(Path::new("/d")).expect("a short path");
        let plain = ClusterFile { hosts: 2, ..cluster(Mode::Threads) };
        assert_eq!(plain.host_names(), ["host1", "host2"]);
        let text = serde_json::to_string(&plain).expect("JSON");
        assert!(!text.contains("shards"), "earlier versions of gabion read the file");
        let two = ClusterFile { shards: 2, groups: 4, ..plain };
        let names = ["host1.1", "host1.2", "host2.1", "host2.2"];
        assert_eq!(two.host_names(), names);
        assert_eq!(two.shards_of("host2"), names[2..]);
        assert_eq!(two.shards_of("host1.2"), names[1..2]);
        assert!(two.shards_of("host3").is_empty() && two.shards_of("host1.3").is_empty());
        for (number, name) in (1..).zip(names) {
            let config = layout.host_config_of(&two, number);
            assert_eq!((config.name.as_str(), config.groups.len()), (name, 2));
            assert_eq!(config.machine.as_deref(), name.split_once('.').map(|(host, _)| host));
            assert_eq!(config.check(), Ok(()));
        }
    }

    #[test]
    fn magnetic_capacity_is_the_capacity_devices_and_no_other() {
        let layout = Layout::new(Path::new("/d")).expect("a short path");
        let plain = ClusterFile { groups: 2, capacity_per_group: 2, ..cluster(Mode::Threads) };
        assert!(layout.host_config_of(&plain, 1).tuning.magnetic.is_empty());
        let text = serde_json::to_string(&plain).expect("JSON");
        assert!(!text.contains("magnetic"), "earlier versions of gabion read the file");
        let slow = ClusterFile { magnetic_capacity: true, ..plain };
        let config = layout.host_config_of(&slow, 1);
        let capacity: Vec<_> = config.groups.iter().flat_map(|g| g.capacity.clone()).collect();
        assert_eq!((config.tuning.magnetic.len(), &config.tuning.magnetic), (4, &capacity));
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn a_folder_that_was_moved_is_refused_with_the_place_where_it_was_made() {
        let area = std::env::temp_dir().join(format!("gabion-moved-{}", std::process::id()));
        let (old, new) = (area.join("old"), area.join("new"));
        let layout = Layout::new(&old).expect("a short path");
        let cluster = ClusterFile { hosts: 1, ..cluster(Mode::Threads) };
        fs::create_dir_all(layout.host_dir("host1")).expect("a folder");
        let config = layout.host_config_of(&cluster, 1);
        crate::config::write_config(&layout.host_config("host1"), &config).expect("a file");
        assert!(layout.check_place(&cluster).is_ok());

        std::os::unix::fs::symlink(&old, area.join("link")).expect("a link");
        let linked = Layout::new(&area.join("link")).expect("a short path");
        assert!(linked.check_place(&cluster).is_ok(), "another way to the same folder");

        fs::rename(&old, &new).expect("moved");
        let moved = Layout::new(&new).expect("a short path");
        let error = moved.check_place(&cluster).expect_err("it was moved").to_string();
        assert!(error.contains(&old.display().to_string()), "{error}");
        fs::remove_dir_all(&area).expect("removed");
    }
}
