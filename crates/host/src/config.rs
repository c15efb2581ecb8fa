// SPDX-License-Identifier: Apache-2.0
//! What one host is told at start: the content of its `host.toml`.

pub(crate) mod address;
mod memory;
mod tuning;

use address::{AddressError, parse_address};
use directory::{ClusterKind, GROUPS_MAX};
use diskgroup::{GroupKind, GroupSpec};
use env::{Access, Address};
pub(crate) use memory::MemoryBudgets;
pub use memory::MemoryConfig;
use operator::GroupConfig;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use thiserror::Error;
pub(crate) use tuning::SCRUB_RATES;
pub use tuning::Tuning;

/// Capacity devices of one disk group, at most.
pub(crate) const CAPACITY_DEVICES_MAX: usize = 7;
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
    /// more memory than there is
    #[error("memory.total_bytes is {total}, and the machine has {machine}: say at most that")]
    MoreThanMachine {
        /// What was said.
        total: String,
        /// What there is.
        machine: String,
    },
    /// parts that leave nothing for disk groups
    #[error(
        "memory: the parts take {parts} ({checksums} for checksum pages, {traffic} for writes and \
         links) of the host's {total}, which leaves nothing for disk groups: raise \
         memory.total_bytes, or lower checksum_bytes, write_bytes or link_bytes"
    )]
    MemoryTooSmall {
        /// The host's total.
        total: String,
        /// All parts.
        parts: String,
        /// Of them.
        checksums: String,
        /// Of them.
        traffic: String,
    },
}

/// A host's configuration file. Addresses are `unix:/path` or `tcp:ip:port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The host's name, unique in the cluster.
    pub name: String,
    /// The host's number, given at join, never reused; 1 and up.
    pub id: u32,
    /// The machine that it shares with others, where it does: operators know that as the host, and
    /// this as one of its shards. No two copies of an object are on one machine. Without it the
    /// machine is its own, under its name.
    #[serde(default, rename = "host", skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
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
    /// Where the API is on the network, `ip:port`; without it, on a Unix socket alone. Of several
    /// shards of a host the first one's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<SocketAddr>,
    /// Where the directory gateway of this process listens; a Unix socket.
    pub directory: String,
    /// etcd endpoints (`http://ip:port`) that the gateway uses; empty for the embedded directory.
    #[serde(default)]
    pub etcd: Vec<String>,
    /// What its disk groups are, `all-flash` or `hybrid`, but for those that say otherwise.
    #[serde(default)]
    pub kind: ClusterKind,
    /// Its disk groups; may be empty (a host that only serves volumes).
    #[serde(default)]
    pub groups: Vec<GroupConfig>,
    /// How much memory it may have, and for what.
    #[serde(default)]
    pub memory: MemoryConfig,
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
        if let Some(machine) = &self.machine {
            ensure(directory::is_name(machine), "host", NAME_RULE)?;
            ensure(
                *machine != self.name,
                "host",
                "is the name of the shard: leave it out where there is one alone",
            )?;
        }
        ensure(self.id != 0, "id", "is 0: host numbers begin with 1")?;
        ensure(self.cluster != 0, "cluster", "is 0: it is the number of the host's cluster")?;
        address("peer", &self.peer)?;
        for door in &self.nbd {
            address("nbd", door)?;
        }
        // Names are replaced by numbers later, where the system can be asked.
        self.nbd_socket.bits()?;
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
        self.memory.check(&self.tuning)?;
        self.tuning.check()
    }

    /// Whether a name is its own, or that of its machine.
    #[must_use]
    pub fn goes_by(&self, name: &str) -> bool {
        self.name == name || self.machine.as_deref() == Some(name)
    }

    /// What a disk group of this host is.
    #[must_use]
    pub fn kind_of(&self, group: &GroupConfig) -> ClusterKind {
        group.kind.unwrap_or(self.kind)
    }

    /// The same, with its sizes.
    #[must_use]
    pub fn group_kind(&self, group: &GroupConfig) -> GroupKind {
        self.tuning.group_kind(self.kind_of(group))
    }

    /// Whether it has a hybrid disk group, or would have if it had any.
    #[must_use]
    pub fn has_hybrid(&self) -> bool {
        let mut kinds = self.groups.iter().map(|group| self.kind_of(group));
        match self.groups.is_empty() {
            true => self.kind == ClusterKind::Hybrid,
            false => kinds.any(|kind| kind == ClusterKind::Hybrid),
        }
    }

    fn check_groups(&self) -> Result<(), ConfigError> {
        ensure(self.groups.len() <= GROUPS_MAX, "groups", "are more than 16")?;
        let mut seen = base::Set::new();
        for group in &self.groups {
            check_new(group, &mut seen)?;
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
        Ok(Access { mode: self.bits()?, owner, group })
    }

    /// The permission bits.
    fn bits(&self) -> Result<u32, ConfigError> {
        let rule = "is not an octal number of at most 0777, like 0660";
        let usual = if self.group.is_some() { 0o660 } else { 0o600 };
        let told = |text: &String| u32::from_str_radix(text, 8).ok();
        let bits = self.mode.as_ref().map_or(Some(usual), told).filter(|bits| *bits <= 0o777);
        bits.ok_or(ConfigError::Invalid { field: "nbd_socket.mode", rule })
    }
}

/// Whether a group can be made of these devices; nothing is opened.
///
/// # Errors
/// [`ConfigError`] with what is wrong.
pub(crate) fn check_group(group: &GroupConfig) -> Result<(), ConfigError> {
    check_new(group, &mut base::Set::new())
}

fn check_new<'a>(
    group: &'a GroupConfig,
    seen: &mut base::Set<&'a String>,
) -> Result<(), ConfigError> {
    let fits = (1..=CAPACITY_DEVICES_MAX).contains(&group.capacity.len());
    ensure(fits, "groups", "need one to seven capacity devices each")?;
    for device in group.devices() {
        ensure(!device.is_empty(), "groups", "name a device with an empty path")?;
        if !seen.insert(device) {
            return Err(ConfigError::DeviceTwice(device.clone()));
        }
    }
    Ok(())
}

/// The devices as the crate of disk groups has them.
#[must_use]
pub fn group_spec(group: &GroupConfig) -> GroupSpec {
    GroupSpec { cache: group.cache.clone(), capacity: group.capacity.clone() }
}

#[cfg(test)]
mod tests {
    use super::tuning::LateTuning;
    use super::*;

    fn good() -> HostConfig {
        let group = |n: u32| GroupConfig {
            cache: format!("/dev/cache{n}"),
            capacity: vec![format!("/dev/capacity{n}")],
            kind: None,
        };
        HostConfig {
            name: "host1".to_owned(),
            id: 1,
            machine: None,
            cluster: 1,
            peer: "tcp:10.0.0.1:7070".to_owned(),
            nbd: vec!["unix:/run/gabion/nbd.sock".to_owned()],
            nbd_socket: SocketConfig::default(),
            control: "unix:/run/gabion/control.sock".to_owned(),
            api: None,
            directory: "unix:/run/gabion/directory.sock".to_owned(),
            etcd: vec!["http://10.0.0.1:2379".to_owned()],
            kind: ClusterKind::AllFlash,
            groups: vec![group(0), group(1)],
            memory: MemoryConfig::default(),
            tuning: Tuning::default(),
        }
    }

    fn magnetic(path: &str) -> Tuning {
        Tuning { magnetic: vec![path.to_owned()], ..Tuning::default() }
    }

    fn late(latency_us: u64, bytes_per_second: u64) -> Tuning {
        let late = Some(LateTuning { latency_us, bytes_per_second });
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
        let nbd_socket = SocketConfig { group: Some("kvm".to_owned()), ..SocketConfig::default() };
        assert_eq!(HostConfig { nbd_socket, ..good() }.check(), Ok(()));
        assert_eq!(HostConfig { tuning: magnetic("/dev/capacity1"), ..good() }.check(), Ok(()));
        assert_eq!(HostConfig { tuning: late(1_000_000, 65_536), ..good() }.check(), Ok(()));
    }

    #[test]
    fn each_bad_value_is_refused_in_one_line_that_names_it() {
        let text = str::to_owned;
        let twice = || vec![good().groups[0].clone(), good().groups[0].clone()];
        let bare = || vec![GroupConfig { cache: text("/dev/c"), capacity: Vec::new(), kind: None }];
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
        let keep = |orphan_keep_hours| Tuning { orphan_keep_hours, ..Tuning::default() };
        let long = format!("unix:/{}", "a".repeat(600));
        let bad = [
            ("id", HostConfig { id: 0, ..good() }),
            ("cluster", HostConfig { cluster: 0, ..good() }),
            ("name", HostConfig { name: text(""), ..good() }),
            ("name", HostConfig { name: text("a/b"), ..good() }),
            ("name", HostConfig { name: "a".repeat(65), ..good() }),
            ("host", HostConfig { machine: Some(text("")), ..good() }),
            ("host", HostConfig { machine: Some(text("host1")), ..good() }),
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
            ("orphan_keep", HostConfig { tuning: keep(0), ..good() }),
            ("orphan_keep", HostConfig { tuning: keep(u64::MAX), ..good() }),
            ("magnetic", HostConfig { tuning: magnetic("/dev/capacity9"), ..good() }),
        ];
        bad.into_iter().for_each(refused);
        refused(("latency_us", HostConfig { tuning: late(1_000_001, 1 << 20), ..good() }));
        refused(("late.bytes_per", HostConfig { tuning: late(0, 65_535), ..good() }));
    }

    #[test]
    fn each_bad_budget_is_refused_in_one_line_that_names_it() {
        let memory = |write_bytes, link_bytes| MemoryConfig {
            write_bytes: Some(write_bytes),
            link_bytes: Some(link_bytes),
            ..MemoryConfig::default()
        };
        let percent = |machine_percent| MemoryConfig { machine_percent, ..MemoryConfig::default() };
        let total = |bytes| MemoryConfig { total_bytes: Some(bytes), ..MemoryConfig::default() };
        let checksums =
            |bytes| MemoryConfig { checksum_bytes: Some(bytes), ..MemoryConfig::default() };
        let bad = [
            ("write_bytes", HostConfig { memory: memory((1 << 20) - 1, 1 << 30), ..good() }),
            ("write_bytes", HostConfig { memory: memory(u64::MAX, 1 << 30), ..good() }),
            ("link_bytes", HostConfig { memory: memory(1 << 20, (4 << 20) - 1), ..good() }),
            ("link_bytes", HostConfig { memory: memory(1 << 20, u64::MAX), ..good() }),
            ("machine_percent", HostConfig { memory: percent(0), ..good() }),
            ("machine_percent", HostConfig { memory: percent(91), ..good() }),
            ("total_bytes", HostConfig { memory: total((256 << 20) - 1), ..good() }),
            ("total_bytes", HostConfig { memory: total(u64::MAX), ..good() }),
            ("checksum_bytes", HostConfig { memory: checksums((512 << 10) - 1), ..good() }),
            ("checksum_bytes", HostConfig { memory: checksums(u64::MAX), ..good() }),
        ];
        bad.into_iter().for_each(refused);
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
