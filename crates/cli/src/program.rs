// SPDX-License-Identifier: Apache-2.0
//! Starts this program once more.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with jemalloc's options.
const TUNABLES: &str = "_RJEM_MALLOC_CONF";
/// Index and buffers are large tables that are read at random. Huge pages save look-ups of
/// addresses, which cost twice in a virtual machine. Free memory goes back to the kernel after one
/// second instead of ten. The systemd unit has the same options.
const HUGE_PAGES: &str = "thp:always,dirty_decay_ms:1000";

/// What the kernel adds to the path of a program whose file another one took the place of.
const REPLACED: &[u8] = b" (deleted)";

/// This program, as it runs a host or a cluster: the newer one where another release was put in
/// its place meanwhile. Options for the heap in the caller's environment
/// are kept.
pub(crate) fn again() -> io::Result<Command> {
    let mut program = Command::new(successor(&std::env::current_exe()?));
    if std::env::var_os(TUNABLES).is_none() {
        program.env(TUNABLES, HUGE_PAGES);
    }
    Ok(program)
}

/// The path at which the program's file was, where it is gone: an upgrade puts another one there.
fn successor(path: &Path) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(REPLACED) {
        Some(before) if !path.exists() => PathBuf::from(OsString::from_vec(before.to_vec())),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_file_was_replaced_goes_on_as_the_new_one() {
        let gone = Path::new("/no/such/folder/gabion (deleted)");
        assert_eq!(successor(gone), Path::new("/no/such/folder/gabion"));
        assert_eq!(successor(Path::new("/usr/bin/gabion")), Path::new("/usr/bin/gabion"));
    }
}
