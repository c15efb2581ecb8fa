// SPDX-License-Identifier: Apache-2.0
//! A process whose output is watched and whose CPU time is bounded.
//!
//! Time is what the process itself has used, not what the clock says: a busy machine makes nothing
//! look like a hang.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Address space of one process, KiB: a mutant that allocates without end ends.
const MEMORY_MAX: u64 = 8 << 20;
/// A process that uses no CPU for so long waits for something that will not come. The simulated
/// world never waits.
const STILL_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Of the times in `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

/// How a process ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessEnd {
    /// By itself, with success or not.
    Exit(bool),
    /// It was ended for a line of its output.
    Line(String),
    /// It used all of its CPU time, or stood still.
    Hang,
}

/// How a process ended, and the CPU time that it used, seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub end: ProcessEnd,
    pub seconds: f64,
}

/// Runs `program` with the environment variables `set`, until a line of its output `is_enough`, or
/// until it has used `seconds_max` of CPU time.
pub fn run(
    program: &Path,
    arguments: &[&str],
    folder: &Path,
    set: &[(&str, &str)],
    seconds_max: f64,
    is_enough: impl Fn(&str) -> bool,
) -> Result<Ran> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {MEMORY_MAX} -c 0; exec \"$0\" \"$@\""));
    command.arg(program).args(arguments).current_dir(folder);
    command.env("CARGO_MANIFEST_DIR", folder).envs(set.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    let output = child.stdout.take().context("no output")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
        for line in lines {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let mut used = Used { seconds: 0.0, moved: Instant::now() };
    loop {
        let line = lines.recv_timeout(LOOK_EVERY);
        let is_still = used.look(&child);
        let end = match line {
            Ok(line) if is_enough(&line) => ProcessEnd::Line(line),
            Err(RecvTimeoutError::Disconnected) => break,
            _ if is_still || used.seconds > seconds_max => ProcessEnd::Hang,
            _ => continue,
        };
        child.kill()?;
        child.wait()?;
        return Ok(Ran { end, seconds: used.seconds });
    }
    let is_good = child.wait()?.success();
    Ok(Ran { end: ProcessEnd::Exit(is_good), seconds: used.seconds })
}

struct Used {
    seconds: f64,
    moved: Instant,
}

impl Used {
    /// Looks at the clock of the process. Returns whether it has stood still for too long.
    fn look(&mut self, child: &Child) -> bool {
        if let Some(now) = cpu_seconds(child.id()).filter(|now| *now > self.seconds) {
            *self = Used { seconds: now, moved: Instant::now() };
        }
        self.moved.elapsed() > STILL_MAX
    }
}

/// The CPU time of all threads of a process; `None` once it has ended.
fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, the name in parentheses, may contain blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, seconds_max: f64) -> Ran {
        let is_enough = |line: &str| line == "enough";
        run(Path::new("sh"), &["-c", script], Path::new("/"), &[("X", "3")], seconds_max, is_enough)
            .unwrap()
    }

    #[test]
    fn a_process_ends_by_itself_by_a_line_or_by_its_time() {
        assert_eq!(shell("test $X = 3", 9.0).end, ProcessEnd::Exit(true));
        assert_eq!(shell("exit 2", 9.0).end, ProcessEnd::Exit(false));
        let talking = shell("echo much; echo enough; while :; do :; done", 9.0);
        assert_eq!(talking.end, ProcessEnd::Line("enough".into()));
        let busy = shell("while :; do :; done", 0.2);
        assert!(busy.end == ProcessEnd::Hang && busy.seconds > 0.2, "{busy:?}");
    }
}
