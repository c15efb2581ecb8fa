// SPDX-License-Identifier: Apache-2.0
//! `gabion domain`.

use crate::args::{AssignArgs, Cli, DomainCommand, Output};
use crate::client::{self, ApiDoor};
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::{Fail, ask};
use anyhow::Result;
use base::format_size;
use operator::{Command, DomainReport, DomainsReport};

/// Volumes that are named.
const VOLUMES_SHOWN: usize = 8;

pub fn domain(cli: &Cli, command: &DomainCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    match command {
        DomainCommand::List => {
            output::print(cli.output, &asked(&door, &Command::DomainList)?, say_domains)
        }
        DomainCommand::Create { name, within } => {
            let create = Command::DomainCreate { name: name.clone(), within: within.clone() };
            output::print(cli.output, &asked(&door, &create)?, |_| {
                say!("fault domain {name} created: gabion domain assign HOST.. --to {name}");
            })
        }
        DomainCommand::Assign { hosts, to, how } => {
            assign(cli, &door, hosts, Some(to.as_str()), *how)
        }
        DomainCommand::Unassign { hosts, how } => assign(cli, &door, hosts, None, *how),
        DomainCommand::Delete { name } => {
            let delete = Command::DomainDelete { name: name.clone() };
            output::print(cli.output, &asked(&door, &delete)?, |_| {
                say!("fault domain {name} deleted");
            })
        }
    }
}

fn asked(door: &ApiDoor, command: &Command) -> Result<DomainsReport> {
    client::ask(door, command)
}

/// Shows what would move and asks, where something would; then assigns.
fn assign(
    cli: &Cli,
    door: &ApiDoor,
    hosts: &[String],
    domain: Option<&str>,
    how: AssignArgs,
) -> Result<()> {
    let assign = |check| {
        let (hosts, domain) = (hosts.to_vec(), domain.map(str::to_owned));
        asked(door, &Command::DomainAssign { hosts, domain, check })
    };
    if !how.yes {
        let report = assign(true)?;
        if how.check {
            return output::print(cli.output, &report, |report| {
                say_domains(report);
                say!("\nthat is how it would be: nothing was changed");
            });
        }
        if report.to_move > 0 {
            if cli.output == Output::Table {
                say_close(&report);
            }
            if !ask::confirm_shown(&format!("the fault domain of {}", hosts.join(", ")))? {
                return Err(Fail::failed("nothing was changed").into());
            }
        }
    }
    output::print(cli.output, &assign(false)?, say_domains)
}

fn say_domains(report: &DomainsReport) {
    let row = |domain: &DomainReport| {
        let indent = "  ".repeat(usize::try_from(domain.depth).unwrap_or(0));
        vec![format!("{indent}{}", domain.name), domain.hosts.join(", ")]
    };
    let mut rows: Vec<_> = report.domains.iter().map(row).collect();
    if rows.is_empty() {
        say!("there are no fault domains: each host is one of its own");
        return;
    }
    if !report.without.is_empty() {
        rows.push(vec!["(each one of its own)".to_owned(), report.without.join(", ")]);
    }
    output::table(&["fault domain", "hosts"], rows);
    if report.to_move > 0 {
        say!("");
        say_close(report);
    }
}

/// Copies in one domain with another one.
fn say_close(report: &DomainsReport) {
    let DomainsReport { to_move, move_bytes, without_place, close_volumes, .. } = report;
    let named = close_volumes.iter().take(VOLUMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = match close_volumes.len().saturating_sub(VOLUMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    say!(
        "{to_move} copies are in one fault domain with another one, and move to another host: at \
         most {} of {named}{more}",
        format_size(*move_bytes)
    );
    if *without_place > 0 {
        say!(
            "{without_place} of them have nowhere to go: add hosts in other domains ('gabion host \
             join')"
        );
    }
}
