// SPDX-License-Identifier: Apache-2.0
//! How much memory this machine has, and what a host says of its own.

use crate::output::{self, say};
use anyhow::{Context, Result, bail};
use base::format_size;
use operator::{MemoryReport, MemoryUse};
use std::path::Path;

/// Where the kernel keeps the limits of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory that this process can have: the machine's, or the least limit of the control
/// groups that it is in.
pub fn of_machine() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read '/proc/meminfo'")?;
    let Some(total) = total_of(&text) else { bail!("'/proc/meminfo' says no MemTotal") };
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Without control groups there is no limit.
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let limit = |group: &Path| {
        let text = std::fs::read_to_string(Path::new(GROUPS).join(group).join("memory.max"));
        text.ok()?.trim().parse::<u64>().ok()
    };
    let limits = Path::new(own).ancestors().filter_map(limit);
    Ok(limits.fold(total, u64::min))
}

/// Bytes, of the text of `/proc/meminfo`.
fn total_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What a host holds, and what it may.
pub fn table(report: &MemoryReport) {
    say!(
        "memory: at most {} of the machine's {}",
        rounded(report.total_bytes),
        rounded(report.machine_bytes)
    );
    let rows = report.parts.iter().map(|part| {
        let counted = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), rounded);
        let (used, most) = match part.name {
            MemoryUse::Left => (None, None),
            _ => (part.used_bytes, part.most_bytes),
        };
        vec![name(part.name).to_owned(), rounded(part.budget_bytes), counted(used), counted(most)]
    });
    output::table(&["memory for", "budget", "in use", "most so far"], rows.collect());
}

fn name(name: MemoryUse) -> &'static str {
    match name {
        MemoryUse::ChecksumPages => "checksum pages",
        MemoryUse::WriteBuffers => "write buffers' index and history",
        MemoryUse::ChunkMaps => "chunk maps and pending changes",
        MemoryUse::ReadCaches => "read caches' tables",
        MemoryUse::UnderWay => "on its way to capacity",
        MemoryUse::Traffic => "client writes and links",
        MemoryUse::Process => "the process itself",
        MemoryUse::Left => "left for disk groups",
    }
}

/// Whole MiB, up.
fn rounded(bytes: u64) -> String {
    format_size(bytes.next_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let text = "MemTotal:       24609508 kB\nMemFree:         1 kB\n";
        assert_eq!(total_of(text), Some(24_609_508 * 1024));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert_eq!(total_of("MemTotal: many kB\n"), None);
        assert!(of_machine().expect("this machine has some") > 1 << 20);
    }
}
