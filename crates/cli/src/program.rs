// SPDX-License-Identifier: Apache-2.0
//! Starts this program once more.

use std::process::Command;

/// The environment variable with jemalloc's options.
const TUNABLES: &str = "_RJEM_MALLOC_CONF";
/// Index and buffers are large tables that are read at random. Huge pages save look-ups of
/// addresses, which cost twice in a virtual machine. Free memory goes back to the kernel after one
/// second instead of ten. The systemd unit has the same options.
const HUGE_PAGES: &str = "thp:always,dirty_decay_ms:1000";

/// This program, as it runs a host or a cluster. Options for the heap in the caller's environment
/// are kept.
pub(crate) fn again() -> std::io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    if std::env::var_os(TUNABLES).is_none() {
        program.env(TUNABLES, HUGE_PAGES);
    }
    Ok(program)
}
