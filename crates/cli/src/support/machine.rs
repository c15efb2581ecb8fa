// SPDX-License-Identifier: Apache-2.0
//! What a machine says of itself: its release, kernel, devices and logs. Each program that is asked
//! has a time and a size.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a program.
const PROGRAM_MAX: Duration = Duration::from_secs(30);
/// The time between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Most of what a program or a file says that is read: an entry of a bundle has no more.
const TEXT_BYTES_MAX: u64 = 32 << 20;
/// Files that say what a machine is.
const FILES: [(&str, &str); 9] = [
    ("os-release", "/etc/os-release"),
    ("kernel", "/proc/version"),
    ("command-line", "/proc/cmdline"),
    ("cpu", "/proc/cpuinfo"),
    ("memory", "/proc/meminfo"),
    ("load", "/proc/loadavg"),
    ("mounts", "/proc/self/mounts"),
    ("disk-counters", "/proc/diskstats"),
    ("pressure-of-io", "/proc/pressure/io"),
];
/// Programs that say more.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("devices", &["lsblk", "--bytes", "--output", "NAME,TYPE,SIZE,ROTA,MODEL,FSTYPE,MOUNTPOINT"]),
    ("addresses", &["ip", "-brief", "address"]),
    ("unit", &["systemctl", "show", "gabion", "--property", UNIT]),
    ("clock", &["timedatectl", "show"]),
];
/// Of the unit: not its environment, which may hold secrets.
const UNIT: &str =
    "ActiveState,SubState,NRestarts,ExecMainStatus,ExecMainStartTimestamp,MemoryCurrent";

/// The name of this machine.
pub fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let is_plain = |one: &char| one.is_ascii_alphanumeric() || *one == '-' || *one == '.';
    Some(name.trim().chars().filter(is_plain).collect()).filter(|name: &String| !name.is_empty())
}

/// Which programs these are.
pub fn versions() -> String {
    let etcd = run(&["etcd", "--version"]).unwrap_or_else(|error| format!("etcd: {error:#}"));
    format!("gabion {}\n{}\n", env!("CARGO_PKG_VERSION"), etcd.trim_end())
}

/// What is known of this machine.
pub fn facts() -> Vec<(String, Result<String>)> {
    let files = FILES.iter().map(|(name, path)| (format!("{name}.txt"), tail(Path::new(path))));
    let programs = PROGRAMS.iter().map(|(name, words)| (format!("{name}.txt"), run(words)));
    files.chain(programs).collect()
}

/// The logs of the hosts since a time, seconds since 1970: in a file, or in the journal.
pub fn logs(file: Option<&Path>, since: u64) -> Vec<(String, Result<String>)> {
    let at = format!("@{since}");
    let journal = |what: &[&str]| {
        let mut words = vec!["journalctl", "--no-pager", "--output", "short-iso-precise"];
        words.extend(["--since", &at]);
        words.extend(what);
        run(&words)
    };
    let hosts = match file {
        Some(path) => ("gabion.log".to_owned(), tail(path).map(|text| newer(&text, since))),
        None => ("journal.log".to_owned(), journal(&["--unit", "gabion"])),
    };
    vec![hosts, ("kernel.log".to_owned(), journal(&["--dmesg"]))]
}

/// The lines of a log from the first one of that time or later on. Lines begin with their time.
fn newer(text: &str, since: u64) -> String {
    let begin = super::said(since);
    let day = begin.len() - 1;
    let is_new = |line: &&str| {
        let is_time = line.as_bytes().first().is_some_and(u8::is_ascii_digit);
        is_time && line.get(..day).is_some_and(|time| time >= &begin[..day])
    };
    let mut before = 0;
    for line in text.split_inclusive('\n') {
        if is_new(&line) {
            return text[before..].to_owned();
        }
        before += line.len();
    }
    String::new()
}

/// The end of a file.
pub fn tail(path: &Path) -> Result<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        if size > TEXT_BYTES_MAX {
            file.seek(SeekFrom::Start(size - TEXT_BYTES_MAX))?;
        }
        let mut bytes = Vec::new();
        file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().with_context(|| format!("cannot read '{}'", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a program says, the beginning of it where it is much.
fn run(words: &[&str]) -> Result<String> {
    let (program, arguments) = words.split_first().ok_or_else(|| anyhow!("no program"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().with_context(|| format!("no '{program}' here"))?;
    let Some(said) = running.stdout.take() else { bail!("'{program}' says nothing") };
    // It is read beside the wait: what it says may be more than a pipe holds.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = said.take(TEXT_BYTES_MAX).read_to_end(&mut bytes);
        read.map(|_| bytes)
    });
    let status = ended(&mut running, program);
    let bytes = reader.join().map_err(|_| anyhow!("'{program}' could not be read"))?;
    let bytes = bytes.with_context(|| format!("'{program}' could not be read"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    status.map(|()| text)
}

/// Waits until a program has ended, and ends it when its time is over.
fn ended(running: &mut Child, program: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        match running.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("'{program}' failed: {status}"),
            None if begun.elapsed() > PROGRAM_MAX => {
                let _ = running.kill();
                let _ = running.wait();
                bail!("'{program}' did not end in {} s", PROGRAM_MAX.as_secs());
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_begins_at_its_time() {
        let log = "old\n2026-11-29T09:59:59.1Z a\n2026-11-29T10:00:00.1Z b\n  more\n";
        assert_eq!(newer(log, 1_795_946_400), "2026-11-29T10:00:00.1Z b\n  more\n");
        assert_eq!(newer(log, 1_795_946_401), "");
        assert_eq!(newer(log, 0), log.split_once('\n').expect("a line").1);
    }

    #[test]
    fn what_a_program_says_is_bounded_in_time_and_failures_are_told() {
        assert_eq!(run(&["echo", "well"]).expect("a program"), "well\n");
        assert!(run(&["false"]).expect_err("it fails").to_string().contains("failed"));
        assert!(run(&["no-such-program-here"]).is_err());
    }
}
