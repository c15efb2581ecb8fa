// SPDX-License-Identifier: Apache-2.0
//! `gabion policy`.

use crate::Fail;
use crate::args::{Cli, PolicyCommand, RulesArgs};
use crate::ask;
use crate::client::{self, ApiDoor};
use crate::output::{self, say};
use crate::target::TargetHost;
use anyhow::Result;
use base::format_size;
use host::{Affinity, IoLimits, RepairDelay};
use operator::{Command, EffectReport, PolicyCheckReport, PolicyEditReport, PolicyReport};
use std::time::Duration;

/// Volumes that are shown one by one.
const VOLUMES_SHOWN: usize = 12;

pub fn policy(cli: &Cli, command: &PolicyCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    match command {
        PolicyCommand::Create { name, rules } => create(cli, &door, name, *rules),
        PolicyCommand::List => {
            output::print(cli.output, &list(&door)?, |policies| policy_table(policies))
        }
        PolicyCommand::Show { name } => show(cli, &door, name),
        PolicyCommand::Edit { name, rules, yes } => edit(cli, &door, (name, *rules), *yes),
        PolicyCommand::Check { name, rules } => {
            let report = check(&door, name, *rules)?;
            output::print(cli.output, &report, say_check)
        }
        PolicyCommand::Delete { name } => {
            let command = Command::PolicyDelete { name: name.clone() };
            let report: PolicyReport = client::ask(&door, &command)?;
            output::print(cli.output, &report, |_| say!("policy {name} deleted"))
        }
    }
}

fn list(door: &ApiDoor) -> Result<Vec<PolicyReport>> {
    client::ask(door, &Command::PolicyList)
}

fn check(door: &ApiDoor, name: &str, rules: RulesArgs) -> Result<PolicyCheckReport> {
    client::ask(door, &Command::PolicyCheck { name: name.to_owned(), rules: rules.rules() })
}

/// `gabion what-if policy`.
pub fn what_if(cli: &Cli, policy: &str, volumes: &[String]) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    let (name, volumes) = (policy.to_owned(), volumes.to_vec());
    let report = client::ask(&door, &Command::PolicyWhatIf { name, volumes })?;
    output::print(cli.output, &report, say_check)
}

fn create(cli: &Cli, door: &ApiDoor, name: &str, rules: RulesArgs) -> Result<()> {
    let command = Command::PolicyCreate { name: name.to_owned(), rules: rules.rules() };
    let report: PolicyReport = client::ask(door, &command)?;
    output::print(cli.output, &report, |report| {
        policy_table(std::slice::from_ref(report));
        say!("\nto have a volume follow it: gabion volume set-policy VOLUME {name}");
    })
}

fn show(cli: &Cli, door: &ApiDoor, name: &str) -> Result<()> {
    let policy = list(door)?.into_iter().find(|policy| policy.name == name);
    let Some(policy) = policy else {
        return Err(
            Fail::failed(format!("there is no policy '{name}': see 'gabion policy list'")).into()
        );
    };
    output::print(cli.output, &policy, |policy| {
        policy_table(std::slice::from_ref(policy));
        if policy.volumes.is_empty() {
            say!("\nno volume follows it: gabion volume set-policy VOLUME {name}");
            return;
        }
        say!("");
        let rows = policy.volumes.iter().take(VOLUMES_SHOWN).map(|volume| {
            let version = match volume.version == policy.version {
                true => volume.version.to_string(),
                false => format!("{} (kept: gabion volume show {})", volume.version, volume.name),
            };
            vec![volume.name.clone(), version]
        });
        output::table(&["volume", "has version"], rows.collect());
        say_more(policy.volumes.len());
    })
}

fn edit(cli: &Cli, door: &ApiDoor, (name, rules): (&str, RulesArgs), yes: bool) -> Result<()> {
    if !yes {
        let report = check(door, name, rules)?;
        if cli.output == crate::args::Output::Table {
            say_check(&report);
        }
        if !ask::confirm_shown(&format!("policy '{name}'"))? {
            return Err(Fail::failed("nothing was changed").into());
        }
    }
    let command = Command::PolicyEdit { name: name.to_owned(), rules: rules.rules() };
    let report: PolicyEditReport = client::ask(door, &command)?;
    output::print(cli.output, &report, |report| {
        let (version, count) = (report.policy.version, report.changed.len());
        say!("policy {name} has version {version}; {count} volume(s) got its rules");
        for not in report.refused.iter().take(VOLUMES_SHOWN) {
            say!("not volume {}: {}", not.volume, not.why);
        }
        if !report.refused.is_empty() {
            say_more(report.refused.len());
            say!("to try these again: gabion policy edit {name} --yes");
        }
        if count > 0 {
            say!("how far each is: gabion volume show VOLUME");
        }
    })
}

fn say_more(count: usize) {
    if count > VOLUMES_SHOWN {
        say!("and {} more (--output json shows all)", count - VOLUMES_SHOWN);
    }
}

fn say_check(report: &PolicyCheckReport) {
    policy_table(std::slice::from_ref(&report.policy));
    say!("");
    match &report.impossible {
        Some(why) if report.policy.force => say!(
            "there is no place for all copies now: {why}; volumes are made with fewer, and get the \
             others once there is"
        ),
        Some(why) => say!("the cluster cannot do that now: {why}"),
        None => say!("the cluster has hosts enough for it"),
    }
    if report.effects.is_empty() {
        say!("nothing is copied, given back or kept for any volume");
        return;
    }
    let rows = report.effects.iter().take(VOLUMES_SHOWN).map(|effect| {
        let size = |bytes: u64, at_most: bool| match (bytes, at_most) {
            (0, _) => "-".to_owned(),
            (bytes, true) => format!("at most {}", format_size(bytes)),
            (bytes, false) => format_size(bytes),
        };
        vec![
            effect.volume.clone(),
            size(effect.copied_bytes, effect.at_most),
            size(effect.freed_bytes, effect.at_most),
            size(effect.reserved_bytes, false),
            size(effect.cached_bytes, false),
        ]
    });
    let heading = ["volume", "to copy", "given back", "kept more on each host", "read cache"];
    output::table(&heading, rows.collect());
    say_more(report.effects.len());
    let sum = |of: fn(&EffectReport) -> u64| report.effects.iter().map(of).sum::<u64>();
    let at_most = if report.effects.iter().any(|effect| effect.at_most) { "at most " } else { "" };
    let (copied, freed) = (sum(|effect| effect.copied_bytes), sum(|effect| effect.freed_bytes));
    say!(
        "in all {at_most}{} to copy, {at_most}{} given back",
        format_size(copied),
        format_size(freed)
    );
    let room = format_size(report.room_bytes);
    match copied > report.room_bytes {
        true => say!("that may not fit: the hosts have room for {room} together"),
        false => say!("the hosts have room for {room} together"),
    }
}

fn policy_table(policies: &[PolicyReport]) {
    let rows = policies.iter().map(|policy| {
        vec![
            policy.name.clone(),
            policy.version.to_string(),
            redundancy(policy),
            percent(policy.reserve_percent),
            percent(policy.cache_percent),
            policy.stripe_width.to_string(),
            delay(policy.repair_delay),
            limits(policy.limits).unwrap_or_else(|| "-".to_owned()),
            policy.volumes.len().to_string(),
        ]
    });
    let heading = [
        "policy",
        "version",
        "ftt",
        "reserve",
        "read cache",
        "stripes",
        "repair delay",
        "limits",
        "volumes",
    ];
    output::table(&heading, rows.collect());
}

/// A part of a volume for people; none is a dash.
pub fn percent(percent: u8) -> String {
    if percent == 0 { "-".to_owned() } else { format!("{percent} %") }
}

/// Failures to tolerate, and what else is said of copies.
fn redundancy(policy: &PolicyReport) -> String {
    let is_kept = policy.affinity == Affinity::Host;
    let words = [(is_kept, "on one host"), (policy.force, "forced")];
    let words = words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned());
    let all: Vec<String> = std::iter::once(policy.ftt.to_string()).chain(words).collect();
    all.join(", ")
}

/// Limits for people; `None`: there are none.
pub fn limits(limits: IoLimits) -> Option<String> {
    let iops = limits.iops.map(|iops| format!("{iops} IOPS"));
    let bandwidth = limits.bytes_per_second.map(|bytes| format!("{}/s", format_size(bytes)));
    let all: Vec<String> = iops.into_iter().chain(bandwidth).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A repair delay for people.
pub fn delay(delay: RepairDelay) -> String {
    match delay {
        RepairDelay::Cluster => "of the cluster".to_owned(),
        RepairDelay::Never => "never".to_owned(),
        RepairDelay::Seconds(seconds) => {
            humantime::format_duration(Duration::from_secs(seconds)).to_string()
        }
    }
}
