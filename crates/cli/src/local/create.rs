// SPDX-License-Identifier: Apache-2.0
//! Creates the folder and the devices of a new cluster on this machine.

use super::layout::{ClusterFile, Layout, Mode};
use crate::args::UpArgs;
use crate::config::write_config;
use crate::devices::{check_devices, format_groups};
use crate::{Fail, ask};
use anyhow::{Context, Result};
use base::format_size;
use diskgroup::GroupKind;
use env::{Env, Fifo};
use host::SocketConfig;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that must stay free on the file system of the folder.
const FREE_MIN: u64 = 256 << 20;
/// At most one part in so many of a sparse capacity file is written when it is formatted: its chunk
/// map.
const SPARSE_PART: u64 = 64;

/// Checks that the options of `up` agree with a cluster that exists.
pub fn check_same(cluster: &ClusterFile, up: &UpArgs, layout: &Layout) -> Result<()> {
    let asked_processes = up.processes && cluster.mode != Mode::Processes;
    let asked_magnetic = up.magnetic_capacity && !cluster.magnetic_capacity;
    let differs = |asked: Option<u64>, has: u64| asked.is_some_and(|asked| asked != has);
    let wrong = [
        (differs(up.hosts.map(u64::from), cluster.hosts.into()), "--hosts"),
        (differs(up.cache_size, cluster.cache_size), "--cache-size"),
        (differs(up.capacity_size, cluster.capacity_size), "--capacity-size"),
        (differs(up.shards.map(u64::from), cluster.shards.into()), "--shards"),
        (differs(up.groups.map(u64::from), cluster.groups.into()), "--groups"),
        (
            differs(up.capacity_per_group.map(u64::from), cluster.capacity_per_group.into()),
            "--capacity-per-group",
        ),
        (asked_magnetic, "--magnetic-capacity"),
        (up.kind.is_some_and(|kind| kind != cluster.kind), "--kind"),
        (
            up.read_cache_percent.is_some() && up.read_cache_percent != cluster.read_cache_percent,
            "--read-cache-percent",
        ),
        (up.socket.over(&cluster.nbd_socket) != cluster.nbd_socket, "--nbd-socket-..."),
        (asked_processes, "--processes"),
    ];
    match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        None => Ok(()),
        Some((_, flag)) => Err(Fail::usage(format!(
            "the cluster in '{}' was made with another {flag}: leave {flag} out, or make a new \
             cluster with another --data",
            layout.root().display()
        ))
        .into()),
    }
}

/// Creates a new cluster in a folder that exists and whose lock is held. If that fails, what was
/// begun is removed.
pub fn create(layout: &Layout, up: &UpArgs) -> Result<ClusterFile> {
    clear_leftovers(layout)?;
    fs::write(layout.creating(), "").with_context(|| {
        format!("cannot write in '{}': choose another folder with --data", layout.root().display())
    })?;
    let made = make(layout, up);
    if made.is_err() {
        clear_leftovers(layout)?;
    }
    made
}

/// Removes leftovers of an unfinished creation. Refuses a folder that holds anything else.
fn clear_leftovers(layout: &Layout) -> Result<()> {
    let root = layout.root();
    let entries = fs::read_dir(root)
        .with_context(|| format!("'{}' is not a usable folder", root.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.path());
    }
    names.retain(|path| *path != layout.lock());
    if names.is_empty() {
        return Ok(());
    }
    if !layout.creating().exists() {
        return Err(Fail::failed(format!(
            "'{}' holds other files and no cluster: name an empty or new folder with --data",
            root.display()
        ))
        .into());
    }
    for path in names.iter().filter(|path| **path != layout.creating()) {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.with_context(|| format!("cannot remove '{}'", path.display()))?;
    }
    fs::remove_file(layout.creating())?;
    Ok(())
}

fn make(layout: &Layout, up: &UpArgs) -> Result<ClusterFile> {
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let mode = if up.processes { Mode::Processes } else { Mode::Threads };
    let shards = up.shards.unwrap_or(1);
    let groups = up.groups.unwrap_or(shards);
    if !groups.is_multiple_of(shards) {
        return Err(Fail::usage(format!(
            "{groups} disk groups cannot be dealt out to {shards} shards in equal parts: say a \
             multiple of {shards} with --groups"
        ))
        .into());
    }
    let cluster = ClusterFile {
        version: 1,
        id: env.random(),
        hosts: up.hosts.unwrap_or(3),
        shards,
        groups,
        capacity_per_group: up.capacity_per_group.unwrap_or(1),
        cache_size: up.cache_size.unwrap_or(1 << 30),
        capacity_size: up.capacity_size.unwrap_or(4 << 30),
        magnetic_capacity: up.magnetic_capacity,
        kind: up.kind.unwrap_or_default(),
        read_cache_percent: up.read_cache_percent,
        nbd_socket: up.socket.over(&SocketConfig::default()),
        mode,
        etcd_ports: if up.processes { free_ports()? } else { (0, 0) },
    };
    check_space(layout, &cluster, up)?;
    let mut groups = Vec::new();
    let mut kind = GroupKind::AllFlash;
    for number in 1..=cluster.hosts * cluster.shards {
        let config = layout.host_config_of(&cluster, number);
        layout.check_sockets(&config.name)?;
        fs::create_dir_all(layout.host_dir(&config.name))?;
        write_config(&layout.host_config(&config.name), &config)?;
        kind = config.tuning.group_kind(config.kind);
        for group in config.groups.iter().filter(|_| !up.ignore_device_kind) {
            check_devices(config.kind, group, &config.tuning.magnetic)?;
        }
        groups.extend(config.groups);
    }
    if up.sparse {
        for path in groups.iter().flat_map(|group| &group.capacity) {
            make_sparse(path, cluster.capacity_size)?;
        }
    }
    format_groups(&env, &groups, kind, Some(cluster.device_sizes()), false)?;
    fs::write(layout.founding(), "")?;
    layout.write(&cluster)?;
    fs::remove_file(layout.creating())?;
    Ok(cluster)
}

/// Bytes that the devices of a new cluster take of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    /// When they are created.
    at_once: u64,
    /// At most, once they are full.
    at_most: u64,
}

impl Demand {
    fn of(cluster: &ClusterFile, is_sparse: bool) -> Self {
        let groups = u64::from(cluster.hosts) * u64::from(cluster.groups);
        let cache = groups * cluster.cache_size;
        let capacity = groups * u64::from(cluster.capacity_per_group) * cluster.capacity_size;
        let at_most = cache + capacity;
        // The metadata of a capacity file is written at once.
        let metadata = capacity / SPARSE_PART;
        Self { at_once: if is_sparse { cache + metadata } else { at_most }, at_most }
    }

    /// One line for people.
    fn say(self, folder: &Path, free: u64) -> String {
        let (once, most) = (format_size(self.at_once), format_size(self.at_most));
        let free = format_size(free >> 20 << 20);
        let folder = folder.display();
        if self.at_once == self.at_most {
            return format!(
                "the devices take {once} of disk space in '{folder}' at once ({free} are free); \
                 --sparse, --cache-size and --capacity-size make that less"
            );
        }
        format!(
            "the devices take about {once} of disk space in '{folder}' at once and {most} when \
             they are full ({free} are free)"
        )
    }
}

/// Refuses what has no room. Otherwise says how much is going to be taken, and asks on a terminal.
fn check_space(layout: &Layout, cluster: &ClusterFile, up: &UpArgs) -> Result<()> {
    let demand = Demand::of(cluster, up.sparse);
    let needed = demand.at_once + FREE_MIN;
    let stat = rustix::fs::statvfs(layout.root())?;
    let free = stat.f_bavail * stat.f_frsize;
    if free < needed {
        return Err(Fail::failed(format!(
            "the devices need {}, '{}' has {} free: use {}smaller --cache-size and \
             --capacity-size, or another folder with --data",
            format_size(needed >> 20 << 20),
            layout.root().display(),
            format_size(free >> 20 << 20),
            if up.sparse { "" } else { "--sparse, " }
        ))
        .into());
    }
    crate::complain(&demand.say(layout.root(), free));
    if up.yes || ask::go_on()? {
        return Ok(());
    }
    Err(Fail::failed("nothing was made").into())
}

/// Creates a device file that takes no space until it is written.
fn make_sparse(path: &str, size: u64) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    // What volumes hold is for nobody else on the machine.
    let made = options.write(true).create_new(true).mode(0o600).open(path).and_then(|file| {
        file.set_len(size)?;
        file.sync_all()
    });
    made.with_context(|| format!("cannot make '{path}'"))
}

/// Two TCP ports that are free now. Both are held until both are chosen, so that they differ.
fn free_ports() -> Result<(u16, u16)> {
    let client = TcpListener::bind("127.0.0.1:0").context("no free TCP port for etcd")?;
    let peer = TcpListener::bind("127.0.0.1:0").context("no free TCP port for etcd")?;
    Ok((client.local_addr()?.port(), peer.local_addr()?.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::ClusterKind;

    #[test]
    fn what_a_cluster_takes_is_said_before() {
        let cluster = ClusterFile {
            version: 1,
            id: 1,
            hosts: 3,
            shards: 1,
            groups: 1,
            capacity_per_group: 2,
            cache_size: 1 << 30,
            capacity_size: 4 << 30,
            magnetic_capacity: false,
            kind: ClusterKind::AllFlash,
            read_cache_percent: None,
            nbd_socket: SocketConfig::default(),
            mode: Mode::Threads,
            etcd_ports: (0, 0),
        };
        let whole = Demand::of(&cluster, false);
        assert_eq!((whole.at_once, whole.at_most), (27 << 30, 27 << 30));
        let sparse = Demand::of(&cluster, true);
        assert_eq!(sparse.at_most, 27 << 30);
        assert!((3 << 30..4 << 30).contains(&sparse.at_once));
        let said = |demand: Demand| demand.say(Path::new("/d"), 100 << 30);
        assert!(said(whole).contains("27GiB of disk space in '/d' at once (100GiB are free)"));
        assert!(said(sparse).contains("27GiB when they are full"));
    }

    #[test]
    fn a_sparse_file_is_as_long_as_it_was_asked_for_and_takes_nothing() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("gabion-sparse-{}", std::process::id()));
        let text = path.display().to_string();
        make_sparse(&text, 1 << 30).expect("a file");
        let found = fs::metadata(&path).expect("it is there");
        assert_eq!(found.len(), 1 << 30);
        assert!(found.blocks() < 64, "{} blocks", found.blocks());
        assert!(make_sparse(&text, 1).is_err(), "what is there stays");
        fs::remove_file(&path).expect("removed");
    }
}
