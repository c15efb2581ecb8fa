// SPDX-License-Identifier: Apache-2.0
//! Processes that the campaign starts, and commands that it runs. None outlives it.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time for a command. It may ask a host that stands still.
const COMMAND_MAX: Duration = Duration::from_secs(20);
/// Between two looks whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A daemon; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `command` with its output at the end of `log`.
    ///
    /// # Errors
    /// There is no such program, or the log cannot be written.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write '{}'", log.display()))?;
        let errors = file.try_clone().context("out of descriptors")?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        // A Ctrl-C at the terminal is for the campaign alone, which then ends its processes.
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("a process has a number")?;
        kill_process(pid, signal).with_context(|| format!("{} takes no signal", self.name))
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, if it did.
    pub fn end(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("{} ended: {status}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end and returns what it wrote to standard output.
///
/// # Errors
/// It cannot be started, fails (with what it said), or does not end.
pub fn run(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = format!("{command:?}");
    let mut child =
        command.process_group(0).spawn().with_context(|| format!("cannot run {text}"))?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > COMMAND_MAX {
            let _ = child.kill();
            let _ = child.wait();
            bail!("no end after {COMMAND_MAX:?}: {text}");
        }
        thread::sleep(LOOK_EVERY);
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{text}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_what_it_said() {
        assert_eq!(run(Command::new("echo").arg("hello")).unwrap(), "hello\n");
        let failed = run(Command::new("sh").args(["-c", "echo no way >&2; exit 3"])).unwrap_err();
        assert!(failed.to_string().contains("no way"), "{failed}");
    }
}
