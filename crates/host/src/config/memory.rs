// SPDX-License-Identifier: Apache-2.0
//! How much memory a host may have, and which part of it for what.
//!
//! The table `[memory]` of `host.toml` says what the operator wants; the rest is derived from the
//! machine's memory at each start. The parts are dealt with before anything is opened, so that a
//! configuration that cannot be kept is refused by its figures.

use super::{CAPACITY_DEVICES_MAX, ConfigError, Tuning, ensure};
use base::format_size;
use directory::GROUPS_MAX;
use diskgroup::{CHECKSUM_BYTES_MIN, CHECKSUM_DEVICES_MAX};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Bytes of a host, at least: below it the process and the smallest parts leave nothing for disk
/// groups. At most: no machine has more.
const TOTAL: RangeInclusive<u64> = 256 << 20..=64 << 40;
/// What a host takes for granted where nothing is said, however little the machine has.
const TOTAL_DERIVED_MIN: u64 = 512 << 20;
/// Bytes of checksum pages: each of the 112 devices of a host has one; more than the pages of the
/// largest host means nothing.
const CHECKSUMS: RangeInclusive<u64> = CHECKSUM_BYTES_MIN..=1 << 40;
const _: () = assert!(GROUPS_MAX * CAPACITY_DEVICES_MAX <= CHECKSUM_DEVICES_MAX);
/// The part of the total that is for checksum pages where nothing is said: those of 768 GiB for
/// each GiB of it.
const CHECKSUM_PART: u64 = 16;
/// Bytes of client writes that a host's owners may have under way: below, one write of 1 MiB had no
/// room; above, a host that stalls would keep more than a virtual machine's memory.
const WRITES: RangeInclusive<u64> = 1 << 20..=16 << 30;
/// Where nothing is said: at most what fills the devices of a host, and a part of the total.
const WRITES_DERIVED_MAX: u64 = 64 << 20;
const WRITE_PART: u64 = 32;
/// What may wait for one link is at least this many times as much: a half of it is for writes, of
/// the host's own owners and on their way to others.
const LINK_TIMES: u64 = 4;
/// Bytes that may wait for one link, at most.
const LINK_MAX: u64 = 64 << 30;
/// What the process takes beside all of this: code, stacks, connections, buffers kept for reuse.
/// Measured: 30 to 50 MiB with an empty disk group.
const PROCESS: u64 = 64 << 20;
/// Percent of the machine's memory that a host has where nothing is said: half of it is left for
/// virtual machines.
const PERCENT_DEFAULT: u8 = 50;

/// The table `[memory]`. What is left out is derived from the machine's memory at each start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Percent of the machine's memory that the host may have, where `total_bytes` is not said; 1
    /// to 90.
    pub machine_percent: u8,
    /// Bytes that the host may have, all parts together; 256 MiB to 64 TiB. Otherwise
    /// `machine_percent` of the machine's memory, 512 MiB at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Bytes of it for checksum pages, of all capacity devices together; 512 KiB to 1 TiB.
    /// Otherwise a sixteenth of the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_bytes: Option<u64>,
    /// Bytes of client writes that this host's owners have under way at a time, and as many again
    /// on their way to owners on other hosts; further ones wait. One object may have a quarter. 1
    /// MiB to 16 GiB; otherwise 64 MiB, or a 32nd of the total if that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Bytes of requests that may wait for one link to another host: an eighth for control, an
    /// eighth for reads, a quarter for resync, a half for writes. Four times `write_bytes` to 64
    /// GiB; otherwise four times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bytes: Option<u64>,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            machine_percent: PERCENT_DEFAULT,
            total_bytes: None,
            checksum_bytes: None,
            write_bytes: None,
            link_bytes: None,
        }
    }
}

/// The parts of a host's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBudgets {
    /// All of them.
    pub(crate) total: u64,
    /// The process itself.
    pub(crate) process: u64,
    /// Checksum pages.
    pub(crate) checksums: u64,
    /// Client writes under way: of owners, and on their way to others.
    pub(crate) writes: u64,
    /// What may wait for one link.
    pub(crate) link: u64,
    /// Tables of disk groups: what is left.
    pub(crate) tables: u64,
}

impl MemoryBudgets {
    /// Writes in both directions, and one link that is full: the host behind it is slow.
    pub(crate) fn traffic(&self) -> u64 {
        2 * self.writes + self.link
    }
}

impl MemoryConfig {
    /// For one of so many hosts on one machine: they share what one would have.
    #[must_use]
    pub fn for_one_of(hosts: u32) -> Self {
        let percent = u32::from(PERCENT_DEFAULT) / hosts.max(1);
        Self { machine_percent: u8::try_from(percent.max(1)).unwrap_or(1), ..Self::default() }
    }

    /// Bytes for writes and links as they were said, here or in the table where they stood before.
    fn said(&self, tuning: &Tuning) -> (Option<u64>, Option<u64>) {
        let writes = self.write_bytes.or(tuning.write_memory_bytes);
        (writes, self.link_bytes.or(tuning.link_memory_bytes))
    }

    /// Whether each value is in its range; the machine is not looked at.
    pub(super) fn check(&self, tuning: &Tuning) -> Result<(), ConfigError> {
        let is_in = |range: &RangeInclusive<u64>, value: Option<u64>| {
            value.is_none_or(|value| range.contains(&value))
        };
        let percent = (1..=90).contains(&self.machine_percent);
        ensure(percent, "memory.machine_percent", "is not between 1 and 90")?;
        let rule = "is not between 268435456 and 70368744177664";
        ensure(is_in(&TOTAL, self.total_bytes), "memory.total_bytes", rule)?;
        let rule = "is not between 524288 and 1099511627776";
        ensure(is_in(&CHECKSUMS, self.checksum_bytes), "memory.checksum_bytes", rule)?;
        let once = |here: Option<u64>, before: Option<u64>| here.is_none() || before.is_none();
        let rule = "is memory.write_bytes now: remove it from [tuning]";
        let is_once = once(self.write_bytes, tuning.write_memory_bytes);
        ensure(is_once, "tuning.write_memory_bytes", rule)?;
        let rule = "is memory.link_bytes now: remove it from [tuning]";
        let is_once = once(self.link_bytes, tuning.link_memory_bytes);
        ensure(is_once, "tuning.link_memory_bytes", rule)?;
        let (writes, link) = self.said(tuning);
        let rule = "is not between 1048576 and 17179869184";
        ensure(is_in(&WRITES, writes), "memory.write_bytes", rule)?;
        let least = writes.unwrap_or(*WRITES.start()) * LINK_TIMES;
        let rule = "is not between four times write_bytes and 68719476736";
        ensure(is_in(&(least..=LINK_MAX), link), "memory.link_bytes", rule)
    }

    /// The parts, on a machine with so many bytes of memory.
    ///
    /// # Errors
    /// [`ConfigError`] where they do not fit the total, or the total not the machine.
    pub(crate) fn budgets(
        &self,
        tuning: &Tuning,
        machine: u64,
    ) -> Result<MemoryBudgets, ConfigError> {
        let derived = (machine / 100 * u64::from(self.machine_percent)).max(TOTAL_DERIVED_MIN);
        let total = self.total_bytes.unwrap_or(derived);
        if self.total_bytes.is_some_and(|said| said > machine) {
            let (total, machine) = (format_size(total), format_size(machine >> 20 << 20));
            return Err(ConfigError::MoreThanMachine { total, machine });
        }
        let checksums = (total / CHECKSUM_PART).clamp(*CHECKSUMS.start(), *CHECKSUMS.end());
        let checksums = self.checksum_bytes.unwrap_or(checksums);
        let (writes, link) = self.said(tuning);
        // A link that was said bounds the writes that were not.
        let most = link.map_or(WRITES_DERIVED_MAX, |link| link / LINK_TIMES);
        let usual = (total / WRITE_PART).clamp(*WRITES.start(), WRITES_DERIVED_MAX).min(most);
        let writes = writes.unwrap_or(usual);
        let link = link.unwrap_or(writes * LINK_TIMES);
        let budgets = MemoryBudgets { total, process: PROCESS, checksums, writes, link, tables: 0 };
        let parts = PROCESS + checksums + budgets.traffic();
        match total.checked_sub(parts) {
            Some(tables) if tables > 0 => Ok(MemoryBudgets { tables, ..budgets }),
            _ => Err(ConfigError::MemoryTooSmall {
                total: format_size(total >> 20 << 20),
                parts: format_size(parts.next_multiple_of(1 << 20)),
                checksums: format_size(checksums.next_multiple_of(1 << 20)),
                traffic: format_size(budgets.traffic().next_multiple_of(1 << 20)),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn budgets(memory: &MemoryConfig, machine: u64) -> Result<MemoryBudgets, ConfigError> {
        memory.budgets(&Tuning::default(), machine)
    }

    /// The parts are the whole, whatever is said; on small machines and large ones.
    #[test]
    fn the_parts_are_the_total() {
        for machine in [GIB / 4, GIB, 4 * GIB, 64 * GIB, 1024 * GIB] {
            for hosts in [1, 3, 16] {
                let memory = MemoryConfig::for_one_of(hosts);
                let found = budgets(&memory, machine).expect("a default is never refused");
                let parts = found.process + found.checksums + found.traffic() + found.tables;
                assert_eq!(parts, found.total);
                assert!(found.total <= (machine / 2).max(TOTAL_DERIVED_MIN), "{found:?}");
                assert!(found.tables >= found.total / 2, "{found:?}");
                assert!(CHECKSUMS.contains(&found.checksums) && WRITES.contains(&found.writes));
            }
        }
        let found = budgets(&MemoryConfig::default(), 64 * GIB).expect("a default");
        assert_eq!((found.total, found.checksums), (machine_half(64 * GIB), found.total / 16));
        assert_eq!((found.writes, found.link), (64 << 20, 256 << 20));
    }

    fn machine_half(machine: u64) -> u64 {
        machine / 100 * 50
    }

    #[test]
    fn what_is_said_counts_and_what_cannot_be_kept_is_refused_with_its_figures() {
        let said = MemoryConfig {
            total_bytes: Some(GIB),
            checksum_bytes: Some(GIB / 4),
            write_bytes: Some(32 << 20),
            link_bytes: Some(200 << 20),
            ..MemoryConfig::default()
        };
        let found = budgets(&said, 4 * GIB).expect("it fits");
        let parts = (found.checksums, found.writes, found.link, found.tables);
        assert_eq!(parts, (GIB / 4, 32 << 20, 200 << 20, GIB - ((64 + 256 + 64 + 200) << 20)));
        let error = budgets(&said, GIB / 2).expect_err("the machine has less").to_string();
        assert!(error.contains("1GiB") && error.contains("512MiB"), "{error}");
        let greedy = MemoryConfig { checksum_bytes: Some(GIB), ..said };
        let error = budgets(&greedy, 4 * GIB).expect_err("nothing is left").to_string();
        assert!(error.contains("1GiB") && error.contains("memory.total_bytes"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        let least =
            MemoryConfig { checksum_bytes: Some(CHECKSUM_BYTES_MIN), ..MemoryConfig::default() };
        assert_eq!(least.check(&Tuning::default()), Ok(()), "a page for each device");
    }

    #[test]
    fn values_from_where_they_stood_before_count() {
        let tuning = |writes, link| Tuning {
            write_memory_bytes: writes,
            link_memory_bytes: link,
            ..Tuning::default()
        };
        let memory = MemoryConfig::default();
        let old = tuning(Some(8 << 20), Some(64 << 20));
        assert_eq!(memory.check(&old), Ok(()));
        let found = memory.budgets(&old, 8 * GIB).expect("it fits");
        assert_eq!((found.writes, found.link), (8 << 20, 64 << 20));
        let both = MemoryConfig { write_bytes: Some(8 << 20), ..memory };
        let error = both.check(&old).expect_err("in two places").to_string();
        assert!(error.contains("remove it from [tuning]"), "{error}");
    }
}
