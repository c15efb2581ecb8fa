// SPDX-License-Identifier: Apache-2.0
//! `gabion health`: what is wrong, what that means, and what mends it.

use crate::Fail;
use crate::args::{Cli, HealthArgs, HealthCommand};
use crate::client;
use crate::output::{self, say};
use crate::target::{TargetHost, no_host};
use anyhow::Result;
use operator::{CheckReport, CheckState, Command, Health, HealthHistory, HealthReport};
use std::process::ExitCode;

/// Exit codes: 1 and 2 are those of commands that could not be done, and of wrong ones.
const YELLOW: u8 = 3;
const RED: u8 = 4;

/// `gabion health ...`.
pub fn health(cli: &Cli, args: &HealthArgs) -> Result<ExitCode> {
    let target = TargetHost::find(cli)?;
    let door = target.door();
    match &args.command {
        None => {
            let report = ask_health(&target)?;
            output::print(cli.output, &report, |report| say_all(report, args.all))?;
            return Ok(ExitCode::from(match report.state {
                Health::Green => 0,
                Health::Yellow => YELLOW,
                Health::Red => RED,
            }));
        }
        Some(HealthCommand::Show { check }) => {
            let report = ask_health(&target)?;
            let found = report.checks.into_iter().find(|one| one.id == *check);
            let found = found.ok_or_else(|| {
                Fail::failed(format!("there is no check '{check}': see 'gabion health --all'"))
            })?;
            output::print(cli.output, &found, say_one)?;
        }
        Some(HealthCommand::Silence { check, time, reason }) => {
            let (check, reason) = (check.clone(), reason.clone());
            let command = Command::HealthSilence { check, for_seconds: time.as_secs(), reason };
            let report: CheckReport = client::ask(&door, &command)?;
            output::print(cli.output, &report, |report| {
                let until = report.silenced_until.as_deref().unwrap_or_default();
                say!("{} does not count until {until}", report.id);
            })?;
        }
        Some(HealthCommand::Unsilence { check }) => {
            let command = Command::HealthUnsilence { check: check.clone() };
            let report: CheckReport = client::ask(&door, &command)?;
            output::print(cli.output, &report, |report| {
                say!("{} counts again: it is {}", report.id, report.state.name());
            })?;
        }
        Some(HealthCommand::History { last }) => {
            let command = Command::HealthHistory { limit: Some((*last).into()), after: None };
            let page: HealthHistory = client::ask(&door, &command)?;
            output::print(cli.output, &page.items, |items| {
                let rows = items.iter().map(|change| {
                    let states = format!("{} -> {}", change.from.name(), change.to.name());
                    let evidence = change.evidence.first().cloned().unwrap_or_default();
                    vec![change.time.clone(), change.check.clone(), states, evidence]
                });
                output::table(&["when", "check", "state", "what was seen"], rows.collect());
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn ask_health(target: &TargetHost) -> Result<HealthReport> {
    client::ask(&target.door(), &Command::HealthShow).map_err(|error| match error.is::<Fail>() {
        true => error,
        false => no_host(target),
    })
}

/// How many checks are in each state, for people.
fn in_one_line(report: &HealthReport) -> String {
    use CheckState::{Green, Red, Silenced, Unknown, Yellow};
    let count = |state| report.checks.iter().filter(|check| check.state == state).count();
    let counts = [Red, Yellow, Green, Silenced, Unknown].map(|state| (count(state), state.name()));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    let state = CheckState::from(report.state).name();
    format!("health {state}: of {} checks {}", report.checks.len(), counts.join(", "))
}

fn is_wrong(state: CheckState) -> bool {
    matches!(state, CheckState::Yellow | CheckState::Red)
}

fn say_all(report: &HealthReport, all: bool) {
    say!("{}", in_one_line(report));
    let is_shown =
        |check: &&CheckReport| all || is_wrong(check.state) || check.state == CheckState::Silenced;
    let rows: Vec<_> = report.checks.iter().filter(is_shown).map(row).collect();
    if !rows.is_empty() {
        say!("");
        output::table(&["group", "check", "state", "summary"], rows);
    }
    for check in report.checks.iter().filter(|check| is_wrong(check.state)) {
        say!("");
        say_one(check);
    }
}

fn row(check: &CheckReport) -> Vec<String> {
    let state = match check.actual {
        Some(actual) => format!("{} ({})", check.state.name(), actual.name()),
        None => check.state.name().to_owned(),
    };
    vec![check.group.clone(), check.id.clone(), state, check.summary.clone()]
}

fn say_one(check: &CheckReport) {
    say!("{} is {} since {}", check.id, check.state.name(), check.since);
    if let (Some(actual), Some(until)) = (check.actual, &check.silenced_until) {
        let why = check.silenced_because.as_deref().unwrap_or_default();
        say!("  silenced until {until}: {why}; without that it would be {}", actual.name());
    }
    if check.evidence.is_empty() {
        say!("  {}", check.summary);
    }
    for line in &check.evidence {
        say!("  - {line}");
    }
    say!("  what it means: {}", check.means);
    for command in &check.mend {
        say!("  $ {command}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_counted_in_one_line() {
        let check = |state| CheckReport {
            id: "capacity.hosts".to_owned(),
            group: "capacity".to_owned(),
            title: String::new(),
            state,
            actual: None,
            summary: String::new(),
            evidence: Vec::new(),
            since: String::new(),
            means: String::new(),
            mend: Vec::new(),
            silenced_until: None,
            silenced_because: None,
        };
        let states = [CheckState::Green, CheckState::Yellow, CheckState::Green];
        let report = HealthReport { state: Health::Yellow, checks: states.map(check).into() };
        assert_eq!(in_one_line(&report), "health yellow: of 3 checks 1 yellow, 2 green");
    }
}
