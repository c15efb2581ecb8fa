// SPDX-License-Identifier: Apache-2.0
//! This program, started once more.

use std::process::Command;

/// What the allocator is told.
const TUNABLES: &str = "_RJEM_MALLOC_CONF";
/// Index and buffers are large tables that are read at random: huge pages spare look-ups of
/// addresses, which cost twice in a virtual machine. What is free goes back to the kernel after a
/// second, not ten. The systemd unit says the same.
const HUGE_PAGES: &str = "thp:always,dirty_decay_ms:1000";

/// This program, as a host or a cluster runs it. What the caller's environment says of the heap
/// stays.
pub(crate) fn again() -> std::io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    if std::env::var_os(TUNABLES).is_none() {
        program.env(TUNABLES, HUGE_PAGES);
    }
    Ok(program)
}
