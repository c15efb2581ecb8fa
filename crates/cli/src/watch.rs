// SPDX-License-Identifier: Apache-2.0
//! `gabion status --watch`: the status again and again, until Ctrl-C or until nobody reads it.

use crate::args::{Cli, Output};
use crate::commands::show_status;
use crate::gather::gather;
use crate::output::say;
use crate::target::Target;
use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// The cursor to the upper left, and what was below it away.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `gabion status --watch`.
pub fn status(cli: &Cli) -> Result<()> {
    let target = Target::find(cli)?;
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
            // A program that reads JSON finds no line for a second without an answer.
            (Err(error), Output::Json) => crate::complain(&format!("{error:#}")),
            (Err(error), Output::Table) => say!("{head}{error:#}"),
        }
        if is_reader_gone() || !is_time_over(&end) {
            return Ok(());
        }
    }
}

/// Gets something when the operator has seen enough.
fn interrupted() -> Result<Receiver<()>> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot wait for Ctrl-C")?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if sender.send(()).is_err() {
                // The first one was not enough: what is under way stands still.
                std::process::exit(130);
            }
        }
    });
    Ok(receiver)
}

/// Waits for the next look; false where it does not come.
fn is_time_over(end: &Receiver<()>) -> bool {
    matches!(end.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout))
}

/// Whether the reader of a pipe has gone: lines that it does not take are dropped silently, and it
/// would be written for ever.
fn is_reader_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = std::io::stdout();
    let _ = stdout.lock().flush();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(gone)
}
