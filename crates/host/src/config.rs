// SPDX-License-Identifier: Apache-2.0
//! What one host is told at start: the content of its `host.toml`.

pub(crate) mod address;

use address::{AddressError, parse_address};
use directory::{ClusterKind, GROUPS_MAX};
use diskgroup::{GroupKind, GroupSpec};
use env::{Access, Address};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Capacity devices of one disk group, at most.
pub(crate) const CAPACITY_DEVICES_MAX: usize = 7;
/// Least milliseconds of `stall_ms`: below it, the pauses between attempts to reach a replica alone
/// are longer.
const STALL_MS_MIN: u64 = 50;
/// Most milliseconds of `stall_ms`: clients give up long before.
const STALL_MS_MAX: u64 = 600_000;
/// Most seconds of `io_timeout_seconds`: a day.
const IO_TIMEOUT_SECONDS_MAX: u64 = 86_400;

/// Most hours of `scrub_period_hours`: a year.
const SCRUB_PERIOD_HOURS_MAX: u64 = 8760;
/// Bytes per second that scrub of a disk group may have: a pass should end some day, and a larger
/// figure than a device can give means nothing.
pub(crate) const SCRUB_RATES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 30;

/// Seconds of `device_stuck_seconds`: below, a busy magnetic disk that repeats a read would count
/// as stuck; above, nobody would still wait.
const STUCK_SECONDS: std::ops::RangeInclusive<u64> = 5..=600;
/// Longest latency of late devices, microseconds: well below what counts as stuck.
const LATE_US_MAX: u64 = 1_000_000;
/// Least rate of late devices: a request of 1 MiB then takes 16 s, below what counts as stuck.
const LATE_RATE_MIN: u64 = 64 << 10;

/// Bytes of client writes that a host's owners may have under way: below, one write of 1 MiB had no
/// room; above, a host that stalls would keep more than a virtual machine's memory.
const WRITE_MEMORY: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 30;
/// What may wait for one link is at least this many times as much: a half of it is for writes, of
/// the host's own owners and on their way to others.
const LINK_TIMES: u64 = 4;
/// Bytes that may wait for one link, at most.
const LINK_MEMORY_MAX: u64 = 64 << 30;
/// Most hours of `orphan_keep_hours`: ten years.
const ORPHAN_KEEP_HOURS_MAX: u64 = 87_600;
/// Most hours of `directory_backup_hours`: a year.
const BACKUP_HOURS_MAX: u64 = 8760;

/// What is wrong with a configuration.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// a value against its rule
    #[error("{field} {rule}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// an address
    #[error("{field}: {source}")]
    Address {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        source: AddressError,
    },
    /// a device twice
    #[error("groups: the device '{}' is named twice", .0.escape_debug())]
    DeviceTwice(String),
}

/// A host's configuration file. Addresses are `unix:/path` or `tcp:ip:port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The host's name, unique in the cluster.
    pub name: String,
    /// The host's number, given at join, never reused; 1 and up.
    pub id: u32,
    /// The cluster's id: a host of another cluster is refused.
    pub cluster: u64,
    /// Where other hosts reach this one.
    pub peer: String,
    /// Where NBD clients connect; the first one is shown to operators.
    pub nbd: Vec<String>,
    /// Who may connect to the Unix sockets in `nbd`.
    #[serde(default, skip_serializing_if = "SocketConfig::is_default")]
    pub nbd_socket: SocketConfig,
    /// Where this host's operator commands connect; a Unix socket.
    pub control: String,
    /// Where the directory gateway of this process listens; a Unix socket.
    pub directory: String,
    /// etcd endpoints (`http://ip:port`) that the gateway uses; empty for the embedded directory.
    #[serde(default)]
    pub etcd: Vec<String>,
    /// What the cluster's disk groups are: `all-flash` or `hybrid`; the directory says the same.
    #[serde(default)]
    pub kind: ClusterKind,
    /// Its disk groups; may be empty (a host that only serves volumes).
    #[serde(default)]
    pub groups: Vec<GroupConfig>,
    /// Settings that have good defaults.
    #[serde(default)]
    pub tuning: Tuning,
}

impl HostConfig {
    /// Whether a host can run with it; nothing is opened or asked.
    ///
    /// # Errors
    /// [`ConfigError`] with the first field that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        ensure(directory::is_name(&self.name), "name", NAME_RULE)?;
        ensure(self.id != 0, "id", "is 0: host numbers begin with 1")?;
        ensure(self.cluster != 0, "cluster", "is 0: it is the number of the host's cluster")?;
        address("peer", &self.peer)?;
        for door in &self.nbd {
            address("nbd", door)?;
        }
        self.nbd_socket.access()?;
        let is_socket = |address| matches!(address, Address::Unix(_));
        let control = address("control", &self.control)?;
        ensure(is_socket(control), "control", "is not a Unix socket: write unix:/path")?;
        let directory = address("directory", &self.directory)?;
        // With etcd, this process listens there itself.
        let fits = self.etcd.is_empty() || is_socket(directory);
        ensure(fits, "directory", "is not a Unix socket: write unix:/path")?;
        self.check_groups()?;
        for device in &self.tuning.magnetic {
            let mut groups = self.groups.iter();
            let is_known = groups.any(|g| g.cache == *device || g.capacity.contains(device));
            ensure(is_known, "tuning.magnetic", "names a device that is in none of the groups")?;
        }
        self.tuning.check()
    }

    /// What a disk group of this host is.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        self.tuning.group_kind(self.kind)
    }

    fn check_groups(&self) -> Result<(), ConfigError> {
        ensure(self.groups.len() <= GROUPS_MAX, "groups", "are more than 16")?;
        let mut seen = base::Set::new();
        for group in &self.groups {
            group.check_new(&mut seen)?;
        }
        Ok(())
    }
}

const NAME_RULE: &str = "is not 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first";

fn ensure(holds: bool, field: &'static str, rule: &'static str) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Invalid { field, rule }) }
}

fn address(field: &'static str, text: &str) -> Result<Address, ConfigError> {
    parse_address(text).map_err(|source| ConfigError::Address { field, source })
}

/// Whose a Unix socket is and what they may do: without a word here, the host's own user alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketConfig {
    /// The user that owns it, by number; the program puts in numbers for names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its group, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Permission bits in octal, `0660` where a group is named and `0600` otherwise: who may write
    /// may connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl SocketConfig {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What the driver is told.
    ///
    /// # Errors
    /// [`ConfigError`] where the mode is none, or a name was not replaced by its number.
    pub fn access(&self) -> Result<Access, ConfigError> {
        let number = |field, text: &Option<String>| match text.as_deref().map(str::parse) {
            None => Ok(None),
            Some(Ok(number)) if number != u32::MAX => Ok(Some(number)),
            Some(_) => Err(ConfigError::Invalid { field, rule: "is not the number of one" }),
        };
        let owner = number("nbd_socket.owner", &self.owner)?;
        let group = number("nbd_socket.group", &self.group)?;
        let usual = if group.is_some() { 0o660 } else { 0o600 };
        let rule = "is not an octal number of at most 0777, like 0660";
        let mode = match &self.mode {
            None => Ok(usual),
            Some(text) => u32::from_str_radix(text, 8).map_err(|_| ()),
        };
        let mode = mode.ok().filter(|mode| *mode <= 0o777);
        let mode = mode.ok_or(ConfigError::Invalid { field: "nbd_socket.mode", rule })?;
        Ok(Access { mode, owner, group })
    }
}

/// One disk group: device paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The cache device.
    pub cache: String,
    /// One to seven capacity devices.
    pub capacity: Vec<String>,
}

impl GroupConfig {
    /// Whether a group can be made of it; nothing is opened.
    ///
    /// # Errors
    /// [`ConfigError`] with what is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_new(&mut base::Set::new())
    }

    fn check_new<'a>(&'a self, seen: &mut base::Set<&'a String>) -> Result<(), ConfigError> {
        let fits = (1..=CAPACITY_DEVICES_MAX).contains(&self.capacity.len());
        ensure(fits, "groups", "need one to seven capacity devices each")?;
        for device in self.devices() {
            ensure(!device.is_empty(), "groups", "name a device with an empty path")?;
            if !seen.insert(device) {
                return Err(ConfigError::DeviceTwice(device.clone()));
            }
        }
        Ok(())
    }

    /// All its devices, the cache device first.
    pub fn devices(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.cache).chain(&self.capacity)
    }
}

impl From<GroupConfig> for GroupSpec {
    fn from(group: GroupConfig) -> Self {
        Self { cache: group.cache, capacity: group.capacity }
    }
}

/// Settings with defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tuning {
    /// Seconds that a volume's I/O waits for its components before it fails with EIO.
    pub io_timeout_seconds: u64,
    /// Milliseconds that a silent replica may hold up writes before it is marked absent.
    pub stall_ms: u64,
    /// Hours from the beginning of a scrub pass to that of the next.
    pub scrub_period_hours: u64,
    /// Most bytes per second that scrub reads, per disk group.
    pub scrub_bytes_per_second: u64,
    /// Percent of a new cache device that a hybrid group uses as its read cache.
    pub read_cache_percent: u8,
    /// Percent of a capacity device's space from which on `gabion status` warns.
    pub space_warn_percent: u8,
    /// Percent of a capacity device's space from which on it takes no components of new volumes.
    pub space_full_percent: u8,
    /// Seconds that a device may leave an I/O unanswered before its disk group stops.
    pub device_stuck_seconds: u64,
    /// Bytes of client writes that this host's owners have under way at a time, and as many again
    /// on their way to owners on other hosts; further ones wait. One object may have a quarter.
    pub write_memory_bytes: u64,
    /// Bytes of requests that may wait for one link to another host: an eighth for control, an
    /// eighth for reads, a quarter for resync, a half for writes.
    pub link_memory_bytes: u64,
    /// Hours for which a component that no record of the directory accounts for is surely kept.
    pub orphan_keep_hours: u64,
    /// Hours between two backups of the directory on the host's disk groups; 0: none are taken.
    pub directory_backup_hours: u64,
    /// For tests and benchmarks: device files, as `groups` names them, that behave as magnetic
    /// disks of 7200 rpm would (150 MB/s, 8 ms to a random place) while the host runs. Block
    /// devices are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub magnetic: Vec<String>,
    /// For tests and benchmarks: how slow all device files of `groups` are while the host runs that
    /// are not in `magnetic`. Block devices are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Late>,
}

/// How slow devices are: bytes pass one after the other, and each request ends `latency_us` after
/// its last byte has passed, however many are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// Microseconds that each request takes beside its bytes; 1,000,000 at most.
    pub latency_us: u64,
    /// Bytes that pass in a second; at least 64 KiB.
    pub bytes_per_second: u64,
}

impl Late {
    fn check(&self) -> Result<(), ConfigError> {
        let latency = self.latency_us <= LATE_US_MAX;
        ensure(latency, "tuning.late.latency_us", "is more than 1000000")?;
        let rate = self.bytes_per_second >= LATE_RATE_MIN;
        ensure(rate, "tuning.late.bytes_per_second", "is less than 65536")
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            io_timeout_seconds: 60,
            stall_ms: 2000,
            scrub_period_hours: 7 * 24,
            scrub_bytes_per_second: 8 << 20,
            read_cache_percent: 70,
            space_warn_percent: 80,
            space_full_percent: 90,
            device_stuck_seconds: 30,
            write_memory_bytes: 64 << 20,
            link_memory_bytes: 256 << 20,
            orphan_keep_hours: 7 * 24,
            directory_backup_hours: 24,
            magnetic: Vec::new(),
            late: None,
        }
    }
}

impl Tuning {
    /// What a disk group of a cluster is.
    #[must_use]
    pub fn group_kind(&self, kind: ClusterKind) -> GroupKind {
        let read_cache_percent = self.read_cache_percent;
        match kind {
            ClusterKind::AllFlash => GroupKind::AllFlash,
            ClusterKind::Hybrid => GroupKind::Hybrid { read_cache_percent },
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let stall = (STALL_MS_MIN..=STALL_MS_MAX).contains(&self.stall_ms);
        ensure(stall, "tuning.stall_ms", "is not between 50 and 600000")?;
        let timeout = (1..=IO_TIMEOUT_SECONDS_MAX).contains(&self.io_timeout_seconds);
        ensure(timeout, "tuning.io_timeout_seconds", "is not between 1 and 86400")?;
        let period = (1..=SCRUB_PERIOD_HOURS_MAX).contains(&self.scrub_period_hours);
        ensure(period, "tuning.scrub_period_hours", "is not between 1 and 8760")?;
        let rate = SCRUB_RATES.contains(&self.scrub_bytes_per_second);
        let rule = "is not between 65536 and 17179869184";
        ensure(rate, "tuning.scrub_bytes_per_second", rule)?;
        let part = (1..=90).contains(&self.read_cache_percent);
        ensure(part, "tuning.read_cache_percent", "is not between 1 and 90")?;
        let full = (1..=100).contains(&self.space_full_percent);
        ensure(full, "tuning.space_full_percent", "is not between 1 and 100")?;
        let warn = (1..=self.space_full_percent).contains(&self.space_warn_percent);
        ensure(warn, "tuning.space_warn_percent", "is not between 1 and space_full_percent")?;
        let memory = WRITE_MEMORY.contains(&self.write_memory_bytes);
        let rule = "is not between 1048576 and 17179869184";
        ensure(memory, "tuning.write_memory_bytes", rule)?;
        let link = (self.write_memory_bytes * LINK_TIMES..=LINK_MEMORY_MAX)
            .contains(&self.link_memory_bytes);
        let rule = "is not between four times write_memory_bytes and 68719476736";
        ensure(link, "tuning.link_memory_bytes", rule)?;
        let keep = (1..=ORPHAN_KEEP_HOURS_MAX).contains(&self.orphan_keep_hours);
        ensure(keep, "tuning.orphan_keep_hours", "is not between 1 and 87600")?;
        let backup = self.directory_backup_hours <= BACKUP_HOURS_MAX;
        ensure(backup, "tuning.directory_backup_hours", "is more than 8760")?;
        let stuck = STUCK_SECONDS.contains(&self.device_stuck_seconds);
        ensure(stuck, "tuning.device_stuck_seconds", "is not between 5 and 600")?;
        self.late.iter().try_for_each(Late::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> HostConfig {
        let group = |n: u32| GroupConfig {
            cache: format!("/dev/cache{n}"),
            capacity: vec![format!("/dev/capacity{n}")],
        };
        HostConfig {
            name: "host1".to_owned(),
            id: 1,
            cluster: 1,
            peer: "tcp:10.0.0.1:7070".to_owned(),
            nbd: vec!["unix:/run/gabion/nbd.sock".to_owned()],
            nbd_socket: SocketConfig::default(),
            control: "unix:/run/gabion/control.sock".to_owned(),
            directory: "unix:/run/gabion/directory.sock".to_owned(),
            etcd: vec!["http://10.0.0.1:2379".to_owned()],
            kind: ClusterKind::AllFlash,
            groups: vec![group(0), group(1)],
            tuning: Tuning::default(),
        }
    }

    fn magnetic(path: &str) -> Tuning {
        Tuning { magnetic: vec![path.to_owned()], ..Tuning::default() }
    }

    fn late(latency_us: u64, bytes_per_second: u64) -> Tuning {
        let late = Some(Late { latency_us, bytes_per_second });
        Tuning { late, ..Tuning::default() }
    }

    #[test]
    fn a_socket_is_as_open_as_it_says() {
        let socket = |owner: &str, group: &str, mode: &str| {
            let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let socket = SocketConfig { owner: text(owner), group: text(group), mode: text(mode) };
            socket.access().ok()
        };
        let access = |mode, owner, group| Some(Access { mode, owner, group });
        assert_eq!(socket("", "", ""), Some(Access::default()));
        assert_eq!(socket("107", "", ""), access(0o600, Some(107), None));
        assert_eq!(socket("", "64055", ""), access(0o660, None, Some(64_055)));
        assert_eq!(socket("0", "0", "0666"), access(0o666, Some(0), Some(0)));
        for (owner, group, mode) in [
            ("", "", "0888"),
            ("", "", "1777"),
            ("", "", "rw-rw----"),
            ("-1", "", ""),
            ("4294967295", "", ""),
            ("", "libvirt", ""),
        ] {
            assert_eq!(socket(owner, group, mode), None, "{owner} {group} {mode}");
        }
    }

    #[test]
    fn a_good_one_is_taken() {
        assert_eq!(good().check(), Ok(()));
        assert_eq!(HostConfig { groups: Vec::new(), ..good() }.check(), Ok(()));
        assert_eq!(HostConfig { tuning: magnetic("/dev/capacity1"), ..good() }.check(), Ok(()));
        assert_eq!(HostConfig { tuning: late(1_000_000, 65_536), ..good() }.check(), Ok(()));
    }

    #[test]
    fn each_bad_value_is_refused_in_one_line_that_names_it() {
        let text = str::to_owned;
        let twice = || vec![good().groups[0].clone(), good().groups[0].clone()];
        let bare = || vec![GroupConfig { cache: text("/dev/c"), capacity: Vec::new() }];
        let tuning = |stall_ms, io_timeout_seconds| Tuning {
            stall_ms,
            io_timeout_seconds,
            ..Tuning::default()
        };
        let scrub = |scrub_period_hours, scrub_bytes_per_second| Tuning {
            scrub_period_hours,
            scrub_bytes_per_second,
            ..Tuning::default()
        };
        let space = |space_warn_percent, space_full_percent| Tuning {
            space_warn_percent,
            space_full_percent,
            ..Tuning::default()
        };
        let read_cache = |read_cache_percent| Tuning { read_cache_percent, ..Tuning::default() };
        let stuck = |device_stuck_seconds| Tuning { device_stuck_seconds, ..Tuning::default() };
        let memory = |write_memory_bytes, link_memory_bytes| Tuning {
            write_memory_bytes,
            link_memory_bytes,
            ..Tuning::default()
        };
        let keep = |orphan_keep_hours| Tuning { orphan_keep_hours, ..Tuning::default() };
        let long = format!("unix:/{}", "a".repeat(600));
        let bad = [
            ("id", HostConfig { id: 0, ..good() }),
            ("cluster", HostConfig { cluster: 0, ..good() }),
            ("name", HostConfig { name: text(""), ..good() }),
            ("name", HostConfig { name: text("a/b"), ..good() }),
            ("name", HostConfig { name: "a".repeat(65), ..good() }),
            ("peer", HostConfig { peer: text("10.0.0.1:7070"), ..good() }),
            ("nbd", HostConfig { nbd: vec![long], ..good() }),
            ("control", HostConfig { control: text("tcp:10.0.0.1:1"), ..good() }),
            ("directory", HostConfig { directory: text("tcp:10.0.0.1:1"), ..good() }),
            ("groups", HostConfig { groups: twice(), ..good() }),
            ("groups", HostConfig { groups: bare(), ..good() }),
            ("stall_ms", HostConfig { tuning: tuning(0, 60), ..good() }),
            ("stall_ms", HostConfig { tuning: tuning(49, 60), ..good() }),
            ("stall_ms", HostConfig { tuning: tuning(u64::MAX, 60), ..good() }),
            ("io_timeout", HostConfig { tuning: tuning(2000, 0), ..good() }),
            ("space_full", HostConfig { tuning: space(80, 0), ..good() }),
            ("space_full", HostConfig { tuning: space(80, 101), ..good() }),
            ("space_warn", HostConfig { tuning: space(0, 90), ..good() }),
            ("space_warn", HostConfig { tuning: space(91, 90), ..good() }),
            ("io_timeout", HostConfig { tuning: tuning(2000, u64::MAX), ..good() }),
            ("read_cache", HostConfig { tuning: read_cache(0), ..good() }),
            ("read_cache", HostConfig { tuning: read_cache(91), ..good() }),
            ("scrub_period_hours", HostConfig { tuning: scrub(0, 1 << 20), ..good() }),
            ("scrub_period_hours", HostConfig { tuning: scrub(u64::MAX, 1 << 20), ..good() }),
            ("scrub_bytes", HostConfig { tuning: scrub(1, 0), ..good() }),
            ("scrub_bytes", HostConfig { tuning: scrub(1, u64::MAX), ..good() }),
            ("device_stuck", HostConfig { tuning: stuck(4), ..good() }),
            ("device_stuck", HostConfig { tuning: stuck(601), ..good() }),
            ("write_memory", HostConfig { tuning: memory((1 << 20) - 1, 1 << 30), ..good() }),
            ("write_memory", HostConfig { tuning: memory(u64::MAX, 1 << 30), ..good() }),
            ("link_memory", HostConfig { tuning: memory(1 << 20, (4 << 20) - 1), ..good() }),
            ("link_memory", HostConfig { tuning: memory(1 << 20, u64::MAX), ..good() }),
            ("orphan_keep", HostConfig { tuning: keep(0), ..good() }),
            ("orphan_keep", HostConfig { tuning: keep(u64::MAX), ..good() }),
            ("magnetic", HostConfig { tuning: magnetic("/dev/capacity9"), ..good() }),
        ];
        bad.into_iter().for_each(refused);
        refused(("latency_us", HostConfig { tuning: late(1_000_001, 1 << 20), ..good() }));
        refused(("late.bytes_per", HostConfig { tuning: late(0, 65_535), ..good() }));
    }

    fn refused((field, config): (&str, HostConfig)) {
        let error = config.check().expect_err(field).to_string();
        assert!(error.contains(field) && !error.contains('\n'), "{field}: {error}");
    }

    #[test]
    fn backups_are_taken_once_a_year_at_least_or_never() {
        let check = |directory_backup_hours| {
            let tuning = Tuning { directory_backup_hours, ..Tuning::default() };
            HostConfig { tuning, ..good() }.check()
        };
        assert!([0, 1, 8760].into_iter().all(|hours| check(hours).is_ok()));
        let error = check(8761).expect_err("too long").to_string();
        assert!(error.contains("directory_backup_hours"), "{error}");
    }
}
