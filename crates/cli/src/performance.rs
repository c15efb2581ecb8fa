// SPDX-License-Identifier: Apache-2.0
//! `gabion performance show`: what something did over a time.

use crate::Fail;
use crate::args::{Cli, PerformanceArgs, PerformanceCommand};
use crate::client;
use crate::figures::{columns, curve, micros, rate, requests};
use crate::output::{self, say};
use crate::reshape::is_same;
use crate::target::{TargetHost, gather, no_host};
use anyhow::Result;
use operator::Command;
use operator::history::{PerformanceKind, PerformancePoint, PerformanceReport};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lines of a table where nothing is said.
const LINES: u64 = 24;
/// Most lines of one.
const LINES_MAX: u64 = 1000;

/// `gabion performance ...`.
pub fn performance(cli: &Cli, command: &PerformanceCommand) -> Result<()> {
    let PerformanceCommand::Show(args) = command;
    let target = TargetHost::find(cli)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let ago = |time: Duration| now.saturating_sub(time.as_secs());
    let (from, to) = (ago(args.since), args.until.map_or(now, ago));
    if from >= to {
        return Err(Fail::usage("--until is to be a shorter time ago than --since").into());
    }
    let points = match args.every {
        None => LINES,
        Some(every) => (to - from).div_ceil(every.as_secs().max(1)),
    };
    if points > LINES_MAX {
        let why = format!("{points} lines are more than {LINES_MAX}: use a longer --every");
        return Err(Fail::usage(why).into());
    }
    let command = Command::PerformanceShow {
        kind: args.kind,
        name: name(&target, args)?,
        from: Some(from),
        to: Some(to),
        points: Some(points),
    };
    let report: PerformanceReport =
        client::ask(&target.door(), &command).map_err(|error| match error.is::<Fail>() {
            true => error,
            false => no_host(&target),
        })?;
    output::print(cli.output, &report, |report| say_report(report, args.every))
}

/// The name that something is kept by: the whole id of a group, the path of a device.
fn name(target: &TargetHost, args: &PerformanceArgs) -> Result<String> {
    let said = args.name.as_str();
    match args.kind {
        PerformanceKind::Cluster => return Ok("cluster".to_owned()),
        _ if said.is_empty() => {
            let what = args.kind.name();
            return Err(Fail::usage(format!("a {what} has a name: say which one")).into());
        }
        PerformanceKind::Group | PerformanceKind::Device => {}
        _ => return Ok(said.to_owned()),
    }
    // Of what is not there any more there may be figures still.
    let Ok(status) = gather(target) else { return Ok(said.to_owned()) };
    let found: Vec<&str> = match args.kind {
        PerformanceKind::Group => {
            let ids = status.groups.iter().map(|group| group.id.as_str());
            ids.filter(|id| id.starts_with(said)).collect()
        }
        _ => {
            let devices = status.groups.iter().flat_map(|group| &group.devices);
            let paths = devices.map(|device| device.path.as_str());
            paths.filter(|path| is_same(path, said)).collect()
        }
    };
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Ok(said.to_owned()),
        many if many.contains(&said) => Ok(said.to_owned()),
        many => {
            let count = many.len();
            let why = format!("{count} disk groups begin with '{said}': give more digits");
            Err(Fail::usage(why).into())
        }
    }
}

fn time(seconds: u64) -> String {
    // Beyond the year 9999 there is no such time.
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    humantime::format_rfc3339_seconds(time).to_string()
}

fn is_seen(point: &&PerformancePoint) -> bool {
    point.covered_ms > 0
}

fn say_report(report: &PerformanceReport, every: Option<Duration>) {
    let PerformanceReport { kind, name, points, all, .. } = report;
    let what = if *kind == PerformanceKind::Cluster { "" } else { kind.name() };
    say!(
        "{what} {name}, {} to {}, {} each, of samples of {}",
        time(report.from),
        time(report.to),
        humantime::format_duration(Duration::from_secs(report.every_seconds)),
        humantime::format_duration(Duration::from_secs(report.resolution_seconds)),
    );
    if every.is_some_and(|every| every.as_secs() < report.every_seconds) {
        say!("so long ago nothing finer is kept");
    }
    if !points.iter().any(|point| is_seen(&point)) {
        say!("nobody looked in this time: nothing is known");
        return;
    }
    let known = |of: fn(&PerformancePoint) -> Option<f64>| -> Vec<Option<f64>> {
        points.iter().map(|point| is_seen(&point).then(|| of(point)).flatten()).collect()
    };
    say_curve("requests/s", &known(requests), rate);
    say_curve("read p99", &known(|it| it.reads.as_ref()?.p99_us), micros);
    say_curve("write p99", &known(|it| it.writes.as_ref()?.p99_us), micros);
    say!("");
    let columns = columns(*kind);
    let heading: Vec<&str> =
        std::iter::once("from").chain(columns.iter().map(|one| one.heading)).collect();
    let row = |when: String, point: &PerformancePoint| -> Vec<String> {
        std::iter::once(when).chain(columns.iter().map(|column| column.text(point))).collect()
    };
    let mut rows: Vec<_> =
        points.iter().filter(is_seen).map(|point| row(time(point.at), point)).collect();
    rows.push(row("all".to_owned(), all));
    output::table(&heading, rows);
}

/// A curve with its largest value. None where nothing is known.
fn say_curve(what: &str, values: &[Option<f64>], write: fn(f64) -> String) {
    let most =
        values.iter().flatten().copied().fold(None, |most: Option<f64>, value| {
            Some(most.map_or(value, |most| most.max(value)))
        });
    if let Some(most) = most {
        say!("{what:>10} {} up to {}", curve(values), write(most));
    }
}
