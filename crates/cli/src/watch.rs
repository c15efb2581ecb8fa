// SPDX-License-Identifier: Apache-2.0
//! `gabion status --watch`: the status again and again, until Ctrl-C or until nobody reads it.

use crate::args::{Cli, Output};
use crate::commands::show_status;
use crate::output::say;
use crate::target::{TargetHost, gather};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The time between two reports.
const EVERY: Duration = Duration::from_secs(1);
/// Puts the cursor to the upper left and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `gabion status --watch`.
pub fn status(cli: &Cli) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let end = interrupted()?;
    let is_live = std::io::stdout().is_terminal() && cli.output == Output::Table;
    let mut is_first = true;
    loop {
        let report = gather(&target);
        let head = match (is_live, is_first, cli.output) {
            (true, ..) => CLEAR,
            (false, false, Output::Table) => "\n",
            _ => "",
        };
        is_first = false;
        match (report, cli.output) {
            (Ok(report), Output::Json) => say!("{}", serde_json::to_string(&report)?),
            (Ok(report), Output::Table) => {
                let _ = write!(std::io::stdout(), "{head}");
                show_status(&report);
            }
            // A program that reads JSON gets no line for a second without an answer.
            (Err(error), Output::Json) => crate::complain(&format!("{error:#}")),
            (Err(error), Output::Table) => say!("{head}{error:#}"),
        }
        if is_reader_gone() || !is_time_over(&end) {
            return Ok(());
        }
    }
}

/// Receives something when the operator interrupts.
fn interrupted() -> Result<Receiver<()>> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot wait for Ctrl-C")?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if sender.send(()).is_err() {
                // The first signal was not enough: something under way stands still.
                std::process::exit(130);
            }
        }
    });
    Ok(receiver)
}

/// Waits until the next report is due. False if the operator interrupted.
fn is_time_over(end: &Receiver<()>) -> bool {
    matches!(end.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout))
}

/// Whether the reader of a pipe has gone. Lines to a closed pipe are dropped silently, so without
/// this the command would write for ever.
fn is_reader_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = std::io::stdout();
    let _ = stdout.lock().flush();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(gone)
}
