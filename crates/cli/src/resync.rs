// SPDX-License-Identifier: Apache-2.0
//! `gabion resync`.

use crate::args::{Cli, Output, ResyncCommand};
use crate::client;
use crate::output::{self, say};
use crate::scrub::time;
use crate::target::{TargetHost, gather};
use anyhow::Result;
use base::format_size;
use operator::{ClusterReport, Command, ResyncReport, ResyncSum};
use std::io::IsTerminal;
use std::time::Duration;

/// Between two looks of `--watch`.
const WATCH: Duration = Duration::from_secs(1);
/// Characters of a full bar.
const BAR: u64 = 20;
/// Puts the cursor of a terminal at the top of an empty screen.
const CLEAR: &str = "\x1b[2J\x1b[H";

pub fn resync(cli: &Cli, command: &ResyncCommand) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let watch = match command {
        ResyncCommand::List { watch } => watch,
        ResyncCommand::Limit { limit } => return set_limit(cli, &target, limit.limit()),
    };
    let clears = *watch && cli.output == Output::Table && std::io::stdout().is_terminal();
    loop {
        let resyncs = gather(&target)?.resyncs;
        if clears {
            say!("{CLEAR}");
        }
        output::print(cli.output, &resyncs, |resyncs| show(resyncs))?;
        if !watch || resyncs.is_empty() {
            return Ok(());
        }
        std::thread::sleep(WATCH);
    }
}

fn set_limit(cli: &Cli, target: &TargetHost, bytes_per_second: Option<u64>) -> Result<()> {
    let command = Command::ResyncLimit { bytes_per_second };
    let report: ClusterReport = client::ask(&target.door(), &command)?;
    output::print(cli.output, &report, |report| match report.resync_bytes_per_second {
        Some(bytes) => say!("each host copies at most {}/s", format_size(bytes)),
        None => say!("hosts copy as much as clients leave"),
    })
}

fn show(resyncs: &[ResyncReport]) {
    let Some(line) = summary(resyncs) else {
        say!("nothing is being copied: no copy is behind whose host is there");
        return;
    };
    let has_objects = resyncs.iter().any(|one| one.object > 0);
    let rows = resyncs.iter().map(|one| {
        let volume = match has_objects {
            true => format!("{} ({})", one.volume, one.object),
            false => one.volume.clone(),
        };
        let (left, rate, until) = match &one.waits {
            Some(why) => ("-".to_owned(), "-".to_owned(), why.clone()),
            None => {
                let waiting = match one.writes_waiting {
                    0 => String::new(),
                    many => format!("; {many} write(s) wait for it"),
                };
                let until = one.seconds_left.map_or_else(|| "nobody can tell".to_owned(), time);
                let rate = format!("{}/s", format_size(one.bytes_per_second));
                (format_size(one.bytes_left), rate, format!("{until}{waiting}"))
            }
        };
        let done = if one.waits.is_some() { "waits".to_owned() } else { bar(one.percent()) };
        vec![volume, one.host.clone(), one.reason.text(), done, left, rate, until]
    });
    let heading = ["volume", "copy on", "why", "done", "left", "rate", "takes"];
    output::table(&heading, rows.collect());
    say!("\n{line}");
}

/// One line about all of them; `None` where there is none.
pub fn summary(resyncs: &[ResyncReport]) -> Option<String> {
    if resyncs.is_empty() {
        return None;
    }
    let sum = ResyncSum::of(resyncs);
    let until = sum.seconds_left.map_or_else(String::new, |left| format!(", {}", time(left)));
    let waiting = if sum.waiting > 0 { format!("; {} wait", sum.waiting) } else { String::new() };
    Some(format!(
        "{} copies are behind and being copied: {} left at {}/s{until}{waiting}",
        sum.copying,
        format_size(sum.bytes_left),
        format_size(sum.bytes_per_second)
    ))
}

/// How much is done, as a bar of characters.
pub fn bar(percent: u64) -> String {
    let full = usize::try_from(percent * BAR / 100).unwrap_or(0);
    let all = usize::try_from(BAR).unwrap_or(0);
    format!("[{:-<all$}] {percent:>3} %", "#".repeat(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        assert_eq!(bar(0), "[--------------------]   0 %");
        assert_eq!(bar(26), "[#####---------------]  26 %");
        assert_eq!(bar(100), "[####################] 100 %");
    }
}
