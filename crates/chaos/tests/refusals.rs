// SPDX-License-Identifier: Apache-2.0
//! What the program refuses before it touches network or devices.

use std::process::Command;

#[track_caller]
fn assert_refused(options: &[&str], why: &str) {
    let program = env!("CARGO_BIN_EXE_gabion-chaos");
    let done = Command::new(program).args(options).output().expect("the program can be started");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{options:?}: {said}");
    assert!(said.contains(why), "{options:?}: {said}");
}

#[test]
fn what_cannot_be_run_is_named() {
    assert_refused(&["--faults", "nonsense"], "possible values: kill");
    assert_refused(&["--volumes", "9"], "9 is not in 1..=4");
    let no_program = ["--gabion", "/nowhere/gabion"];
    let is_root = rustix::process::geteuid().is_root();
    assert_refused(&no_program, if is_root { "no '/nowhere/gabion'" } else { "need root" });
}
