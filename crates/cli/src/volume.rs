// SPDX-License-Identifier: Apache-2.0
//! `gabion volume`.

use crate::args::{Cli, NewVolumeArgs, Output, VolumeCommand};
use crate::ask::{self, Deed};
use crate::commands::volume_table;
use crate::explain::explain;
use crate::labels::{LabelChange, LabelColumn, in_one_line, told};
use crate::life::{delete, purge, rename, trash_table, undelete};
use crate::output::{self, say};
use crate::target::{TargetHost, gather};
use crate::writers::{say_writer, take_over};
use crate::{Fail, client};
use anyhow::{Context, Result};
use base::format_size;
use host::{Connections, Writers, check_labels};
use operator::{Command, ComponentReport, MoveReport, NewVolume, StaleReport, VolumeReport};
use placement::VolumeSpec;
use std::collections::BTreeSet;

/// Components that are shown one by one. With the lines around them they fit into 24 lines.
const COMPONENTS_SHOWN: usize = 8;
/// `gabion volume ...`.
pub fn volume(cli: &Cli, command: &VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Create(asked) => create(cli, asked),
        VolumeCommand::List(choice) => {
            let status = gather(&TargetHost::find(cli)?)?;
            if choice.is_of_deleted() {
                return output::print(cli.output, &status.trash, |trash| trash_table(trash));
            }
            let is_any = !status.volumes.is_empty();
            let volumes = choice.of(status.volumes, &status.hosts);
            output::print(cli.output, &volumes, |volumes| match (volumes.is_empty(), is_any) {
                (false, _) => volume_table(volumes, choice.label_column()),
                (true, true) => say!("no volume is as asked for"),
                (true, false) => say!("there is no volume: gabion volume create"),
            })
        }
        VolumeCommand::Show { name, all } => show(cli, name, *all),
        VolumeCommand::Explain { name } => explain(cli, name),
        VolumeCommand::Change {
            name,
            reserve,
            read_cache,
            ftt,
            force,
            connections,
            writers,
            on,
            anywhere,
        } => {
            let sizes = (*reserve, ftt.map(|ftt| (ftt, *force)));
            let is_home = *anywhere || on.is_some();
            let keep = || Command::VolumeKeep { name: name.clone(), host: on.clone() };
            let more = (is_home.then(keep), *read_cache);
            change(cli, name, sizes, (*connections, *writers), more)
        }
        VolumeCommand::TakeOver { name, host } => take_over(cli, name, host),
        VolumeCommand::Grow { name, size, by } => grow(cli, name, (*size, *by)),
        VolumeCommand::Move { name, from, to, stop: _ } => {
            move_copies(cli, name, from.as_deref(), to.as_deref())
        }
        VolumeCommand::Label { name, changes } => label(cli, name, changes),
        VolumeCommand::SetPolicy { name, policy, none: _ } => {
            set_policy(cli, name, policy.as_deref())
        }
        VolumeCommand::Recover { name, accept_stale: _, check, yes } => {
            recover(cli, name, *check, *yes)
        }
        VolumeCommand::Rename { name, new } => rename(cli, name, new),
        VolumeCommand::Delete { name, now, yes } => delete(cli, name, *now, *yes),
        VolumeCommand::Undelete { volume, name } => undelete(cli, volume, name.as_deref()),
        VolumeCommand::Purge { volume, yes } => purge(cli, volume, *yes),
    }
}

/// Without `from`: what is under way ends.
fn move_copies(cli: &Cli, name: &str, from: Option<&str>, to: Option<&str>) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let name = name.to_owned();
    let command = match from {
        Some(from) => {
            let (from, to) = (from.to_owned(), to.map(str::to_owned));
            Command::VolumeMove { name, from, to }
        }
        None => Command::VolumeStay { name },
    };
    let report: MoveReport = client::ask(&door, &command)?;
    output::print(cli.output, &report, |report| {
        let (name, count) = (&report.volume, report.begun.len());
        match from {
            Some(from) => {
                let hosts = report.begun.iter().filter_map(|copy| copy.to.as_deref());
                let hosts: BTreeSet<&str> = hosts.collect();
                let hosts = hosts.into_iter().collect::<Vec<_>>().join(", ");
                if count > 0 {
                    say!("{count} component(s) of volume {name} move from {from} to {hosts}");
                }
                if report.under_way > 0 {
                    say!("{} more are on their way already", report.under_way);
                }
                say!("how far it is: gabion volume show {name}");
            }
            None => say!("{count} component(s) of volume {name} stay where they are"),
        }
        for why in &report.refused {
            say!("not moved: {why}");
        }
    })
}

fn create(cli: &Cli, args: &NewVolumeArgs) -> Result<()> {
    let (asked, connections) = (args.asked().map_err(Fail::usage)?, args.connections);
    let NewVolume { name, size_bytes, ftt, reserve_percent, labels, .. } = &asked;
    let spec = VolumeSpec::new(name, *size_bytes, *ftt);
    let spec = spec.and_then(|spec| spec.with_reserve(*reserve_percent));
    spec.map_err(|error| Fail::usage(error.to_string()))?;
    check_labels(labels).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let command = Command::VolumeCreate(asked.clone());
    let mut volume: VolumeReport = client::ask(&door, &command)?;
    if connections != volume.connections {
        let command = Command::VolumeConnections { name: name.clone(), connections };
        let note = volume.note.take();
        volume = client::ask(&door, &command).with_context(|| {
            format!("volume '{name}' is made and shared: 'gabion volume change' makes it another")
        })?;
        volume.note = note;
    }
    output::print(cli.output, &volume, |volume| {
        say!("volume {} of {} created", volume.name, format_size(volume.size_bytes));
        if let Some(uri) = volume.nbd.first() {
            say!("{uri}");
        }
        if let Some(note) = &volume.note {
            say!("note: {note}");
        }
    })
}

/// `gabion volume grow`: to a size, or by so much more than it has.
fn grow(cli: &Cli, name: &str, (size, by): (Option<u64>, Option<u64>)) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let name = name.to_owned();
    let before: VolumeReport = client::ask(&door, &Command::VolumeShow { name: name.clone() })?;
    let larger = before.size_bytes.saturating_add(by.unwrap_or(0));
    let command = Command::VolumeGrow { name, size_bytes: size.unwrap_or(larger) };
    let volume: VolumeReport = client::ask(&door, &command)?;
    output::print(cli.output, &volume, |volume| {
        let (name, size) = (&volume.name, format_size(volume.size_bytes));
        match volume.size_bytes == before.size_bytes {
            true => say!("volume {name} has {size} already"),
            false => {
                say!("volume {name} has {size}, {} before", format_size(before.size_bytes));
                say!("clients see it when they connect again");
            }
        }
        if let Some(note) = &volume.note {
            say!("note: {note}");
        }
    })
}

/// `gabion volume label`.
fn label(cli: &Cli, name: &str, changes: &[LabelChange]) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let (set, remove) = told(changes).map_err(Fail::usage)?;
    let door = TargetHost::find(cli)?.door();
    let command = Command::VolumeLabel { name: name.to_owned(), set, remove };
    let volume: VolumeReport = client::ask(&door, &command)?;
    output::print(cli.output, &volume, |volume| {
        say!("labels of volume {name}: {}", in_one_line(&volume.labels));
        if let Some(note) = &volume.note {
            say!("note: {note}");
        }
    })
}

/// `gabion volume set-policy`.
fn set_policy(cli: &Cli, name: &str, policy: Option<&str>) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let command =
        Command::VolumeSetPolicy { name: name.to_owned(), policy: policy.map(str::to_owned) };
    let volume: VolumeReport = client::ask(&door, &command)?;
    output::print(cli.output, &volume, |volume| {
        match &volume.policy {
            Some(policy) => {
                say!("volume {name} follows policy {} (version {})", policy.name, policy.version);
            }
            None => say!("volume {name} follows no policy, and keeps the rules that it has"),
        }
        say_compliance(volume);
    })
}

/// Whether a volume is as its rules ask for, and why not.
fn say_compliance(volume: &VolumeReport) {
    say!("it is {}", volume.compliance.state.name());
    for why in &volume.compliance.why {
        say!("  {why}");
    }
}

/// What is to be changed: reserve, failures to tolerate; who uses it and writes to it; where it is
/// kept, and its read cache.
type Sizes = (Option<u8>, Option<(u8, bool)>);
type Users = (Option<Connections>, Option<Writers>);
type Places = (Option<Command>, Option<u8>);

/// One command for each thing that is to be changed, in their order.
fn changes(
    name: &str,
    (reserve, ftt): Sizes,
    (connections, writers): Users,
    (home, read_cache): Places,
) -> impl Iterator<Item = Command> {
    let name = || name.to_owned();
    let reserve =
        reserve.map(|reserve_percent| Command::VolumeChange { name: name(), reserve_percent });
    let cache =
        read_cache.map(|cache_percent| Command::VolumeCache { name: name(), cache_percent });
    let connections =
        connections.map(|connections| Command::VolumeConnections { name: name(), connections });
    let writers = writers.map(|writers| Command::VolumeWriters { name: name(), writers });
    let redundancy = ftt.map(|(ftt, force)| Command::VolumeRedundancy { name: name(), ftt, force });
    // A volume that is kept on one host has one copy: it is let go before it gets more, and has
    // no more before it is kept.
    let is_let_go = matches!(home, Some(Command::VolumeKeep { host: None, .. }));
    let copies = if is_let_go { [home, redundancy] } else { [redundancy, home] };
    copies.into_iter().chain([reserve, cache, connections, writers]).flatten()
}

fn change(cli: &Cli, name: &str, sizes: Sizes, users: Users, places: Places) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let (reserve, ftt) = sizes;
    let checked = ftt.map_or(Ok(()), |(ftt, _)| placement::check_ftt(ftt));
    checked.map_err(|error| Fail::usage(error.to_string()))?;
    let target = TargetHost::find(cli)?;
    let door = target.door();
    let (is_home, is_cache) = (places.0.is_some(), places.1.is_some());
    let followed: VolumeReport =
        client::ask(&door, &Command::VolumeShow { name: name.to_owned() })?;
    let mut volume: Option<VolumeReport> = None;
    for command in changes(name, sizes, users, places) {
        volume = Some(client::ask(&door, &command)?);
    }
    let Some(volume) = volume else { return Ok(()) };
    let away = volume.components.iter().filter(|c| c.state != "active");
    let away: Vec<_> = away.map(|c| c.host.as_str()).collect();
    output::print(cli.output, &volume, |volume| {
        if let (Some(policy), None) = (&followed.policy, &volume.policy) {
            say!("volume {} follows policy {} no more: its rules are its own", name, policy.name);
        }
        if ftt.is_some() {
            let copies = u32::from(volume.ftt) + 1;
            say!(
                "volume {} is to have {copies} copies; how far that is: gabion volume show {}",
                volume.name,
                volume.name
            );
        }
        if is_home {
            say_home(volume);
            say_compliance(volume);
        }
        if is_cache {
            say_cache(volume);
        }
        if users.0.is_some() {
            say!("volume {} is {} from now on", volume.name, volume.connections.name());
        }
        if users.1.is_some() {
            say_writer(&volume.writer);
        }
        if reserve.is_none() {
            return;
        }
        say!("{} % of volume {} are kept for it", volume.reserve_percent, volume.name);
        if !away.is_empty() {
            say!("not active now: {}; its copy there takes it when it returns", away.join(", "));
        }
    })
}

fn say_home(volume: &VolumeReport) {
    match &volume.home {
        Some(home) => say!("volume {} is kept on {}", volume.name, home.host),
        None => say!("volume {} is kept wherever there is room", volume.name),
    }
}

/// Tells for which part of a volume read cache is kept, and what it has of it on each host.
fn say_cache(volume: &VolumeReport) {
    let percent = volume.cache_percent;
    if percent > 0 {
        let bytes = format_size(base::percent_of(volume.size_bytes, percent));
        say!("read cache: kept for {percent} % ({bytes}), as far as it is on hybrid disk groups");
    } else {
        say!("read cache: none is kept for it");
    }
    for at in volume.cached.iter().filter(|at| at.asked_bytes > 0) {
        say!(
            "  {}: {} kept, {} of it there",
            at.host,
            format_size(at.kept_bytes),
            format_size(at.held_bytes)
        );
    }
}

fn show(cli: &Cli, name: &str, all: bool) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let report = gather(&TargetHost::find(cli)?)?;
    let volume = report.volumes.into_iter().find(|v| v.name == name);
    let Some(volume) = volume else {
        return Err(
            Fail::failed(format!("there is no volume '{name}': see 'gabion volume list'")).into()
        );
    };
    output::print(cli.output, &volume, |volume| {
        volume_table(std::slice::from_ref(volume), LabelColumn::Hidden);
        say!("");
        if all || volume.components.len() <= COMPONENTS_SHOWN {
            components_table(&volume.components.iter().collect::<Vec<_>>());
        } else {
            components_summary(volume);
        }
        say!("");
        if let Some(policy) = &volume.policy {
            say!(
                "policy: {} (version {}, repair delay {})",
                policy.name,
                policy.version,
                crate::policy::delay(policy.repair_delay)
            );
        }
        if let Some(home) = &volume.home {
            say!("kept on: {}", home.host);
        }
        if volume.cache_percent > 0 || !volume.cached.is_empty() {
            say_cache(volume);
        }
        say_limits(volume);
        say_compliance(volume);
        if volume.stripe_width > 1 {
            say!("stripe width: {}", volume.stripe_width);
        }
        if !volume.labels.is_empty() {
            say!("labels: {}", in_one_line(&volume.labels));
        }
        say!("connections: {}", volume.connections.name());
        say_writer(&volume.writer);
        for uri in &volume.nbd {
            say!("{uri}");
        }
    })
}

fn say_limits(volume: &VolumeReport) {
    let limits = volume.policy.as_ref().and_then(|policy| crate::policy::limits(policy.limits));
    if let Some(limits) = limits {
        say!("limits: {limits}, at each host that it is used through");
    }
    for at in &volume.limited {
        let average = at.waited_ms as f64 / at.requests.max(1) as f64;
        say!("{} requests waited for them on {}, {average:.1} ms on average", at.requests, at.host);
    }
}

fn components_table(components: &[&ComponentReport]) {
    let has_objects = components.iter().any(|c| c.object > 0);
    let rows = components.iter().map(|c| {
        let more = match c.resync_bytes_left {
            0 => c.why.clone().unwrap_or_default(),
            left => {
                let waiting = match c.writes_waiting {
                    0 => String::new(),
                    1 => ", 1 write waits for it".to_owned(),
                    many => format!(", {many} writes wait for it"),
                };
                format!("{} to resync{waiting}", format_size(left))
            }
        };
        let more = match &c.replaces {
            Some(host) if more.is_empty() => format!("takes the place of that on {host}"),
            Some(host) => format!("takes the place of that on {host}: {more}"),
            None => more,
        };
        let object = has_objects.then(|| c.object.to_string());
        let host = match &c.domain {
            Some(domain) => format!("{} ({domain})", c.host),
            None => c.host.clone(),
        };
        object.into_iter().chain([host, c.group.clone(), c.state.clone(), more]).collect()
    });
    let heading = ["object", "component on", "disk group", "state", ""];
    output::table(&heading[usize::from(!has_objects)..], rows.collect());
}

/// Shows a volume of many objects on one screen: a line for each host, and the first components
/// that are not as they should be.
fn components_summary(volume: &VolumeReport) {
    let rows = operator::totals(&volume.components).into_iter().map(|(host, all)| {
        vec![
            host.to_owned(),
            all.components.to_string(),
            all.active.to_string(),
            all.not_answering.to_string(),
            (all.components - all.active - all.not_answering).to_string(),
            if all.resync_bytes_left > 0 {
                format_size(all.resync_bytes_left)
            } else {
                "-".to_owned()
            },
        ]
    });
    let heading = ["host", "components", "active", "not answering", "not active", "to resync"];
    output::table(&heading, rows.collect());
    let wrong = volume.components.iter().filter(|c| c.state != "active" || c.why.is_some());
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        say!("");
        components_table(&wrong[..wrong.len().min(COMPONENTS_SHOWN)]);
    }
    let name = &volume.name;
    match wrong.len().saturating_sub(COMPONENTS_SHOWN) {
        0 => say!("\neach component: gabion volume show {name} --all"),
        more => say!("\nand {more} more; each component: gabion volume show {name} --all"),
    }
}

/// What would be done is shown before anything is asked.
fn recover(cli: &Cli, name: &str, check: bool, yes: bool) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let ask = |check| -> Result<StaleReport> {
        let command = Command::VolumeRecover { name: name.to_owned(), check };
        client::ask(&door, &command)
    };
    if !check && !yes {
        let would = ask(true)?;
        if matches!(cli.output, Output::Table) {
            say_recovery(&would);
        }
        ask::confirm_name(Deed::Recover, &format!("volume '{name}'"), name)?;
    }
    output::print(cli.output, &ask(check)?, say_recovery)
}

fn say_recovery(report: &StaleReport) {
    let StaleReport { volume, parts, old, is_done } = report;
    let rows = old.iter().map(|part| {
        let note = if part.was_returning { "in the middle of a copy: partly newer" } else { "" };
        let number = format!("{} of {parts}", part.part);
        vec![number, part.from.clone(), part.given_up.join(", "), note.to_owned()]
    });
    output::table(&["part", "goes on from", "given up", ""], rows.collect());
    if *is_done {
        say!("volume {volume} goes on from these copies, without what was written since");
        say!("how redundant it is: gabion volume show {volume}");
    } else {
        say!("volume {volume} would lose what was written since these copies left");
    }
}
