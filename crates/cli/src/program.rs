// SPDX-License-Identifier: Apache-2.0
//! This program, started once more.

use std::process::Command;

/// What glibc is told of its heap; ignored elsewhere.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Index and buffers are large tables that are read at random: huge pages spare look-ups of
/// addresses, which cost twice in a virtual machine. The systemd unit says the same.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// This program, as a host or a cluster runs it. What the caller's environment says of glibc stays.
pub(crate) fn again() -> std::io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    if std::env::var_os(TUNABLES).is_none() {
        program.env(TUNABLES, HUGE_PAGES);
    }
    Ok(program)
}
