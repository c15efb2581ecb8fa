// SPDX-License-Identifier: Apache-2.0
//! `gabion orphan`: what the directory does not account for.

use crate::Fail;
use crate::args::{Cli, OrphanCommand};
use crate::commands::any_host;
use crate::output::say;
use crate::target::Target;
use crate::{client, output};
use anyhow::Result;
use base::format_size;
use host::{Command, OrphanReport, VolumeReport};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest wait for an adoption: hundreds of records, each confirmed.
const ADOPT_MAX: Duration = Duration::from_secs(120);

/// `gabion orphan ...`.
pub fn orphan(cli: &Cli, command: &OrphanCommand) -> Result<()> {
    let socket = any_host(&Target::find(cli)?)?;
    match command {
        OrphanCommand::List => {
            let orphans: Vec<OrphanReport> = client::ask(&socket, &Command::OrphanList)?;
            output::print(cli.output, &orphans, |orphans| table(orphans))
        }
        OrphanCommand::Show { volume } => {
            let mut orphans: Vec<OrphanReport> = client::ask(&socket, &Command::OrphanList)?;
            orphans.retain(|orphan| is_of(orphan, volume));
            if orphans.is_empty() {
                return Err(Fail::failed(format!(
                    "nothing of '{volume}' is waiting: see 'gabion orphan list'"
                ))
                .into());
            }
            output::print(cli.output, &orphans, |orphans| orphans.iter().for_each(details))
        }
        OrphanCommand::Adopt { volume, name, force } => {
            let (volume, name) = (volume.clone(), name.clone());
            let adopt = Command::OrphanAdopt { volume, name, force: *force };
            let volume: VolumeReport = client::ask_within(&socket, &adopt, ADOPT_MAX)?;
            output::print(cli.output, &volume, |volume| {
                say!("volume {} of {} is there again", volume.name, format_size(volume.size_bytes));
                say!("see 'gabion volume show {}'", volume.name);
            })
        }
        OrphanCommand::Delete { volume, yes } => {
            if !yes {
                return Err(Fail::usage(format!(
                    "this deletes what may be the last copies of '{volume}': look with 'gabion \
                     orphan show {volume}', then say --yes"
                ))
                .into());
            }
            let delete = Command::OrphanDelete { volume: volume.clone() };
            let () = client::ask(&socket, &delete)?;
            output::print(
                cli.output,
                &serde_json::json!({"volume": volume, "deleted": true}),
                |_| {
                    say!("{volume} is deleted: its hosts give the space back within a minute");
                },
            )
        }
    }
}

fn is_of(orphan: &OrphanReport, wanted: &str) -> bool {
    let ids = [Some(&orphan.component), Some(&orphan.object), orphan.volume_id.as_ref()];
    ids.into_iter().flatten().any(|id| id == wanted) || orphan.volume.as_deref() == Some(wanted)
}

fn part(orphan: &OrphanReport) -> String {
    match (orphan.index, orphan.objects) {
        (Some(index), Some(objects)) => format!("{index} of {objects}"),
        _ => "-".to_owned(),
    }
}

fn age(orphan: &OrphanReport) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match now.saturating_sub(orphan.since) {
        seconds @ 0..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn table(orphans: &[OrphanReport]) {
    if orphans.is_empty() {
        return say!("nothing: the directory accounts for every component that hosts told of");
    }
    let rows = orphans.iter().map(|orphan| {
        vec![
            orphan.volume.clone().unwrap_or_else(|| "-".to_owned()),
            orphan.volume_id.clone().unwrap_or_else(|| orphan.object.clone()),
            part(orphan),
            orphan.host.clone(),
            format_size(orphan.used_bytes),
            age(orphan),
            if orphan.is_empty { "never written".to_owned() } else { orphan.why.clone() },
        ]
    });
    let heading = ["volume", "id", "part", "host", "used", "since", "why"];
    output::table(&heading, rows.collect());
}

fn details(orphan: &OrphanReport) {
    let name = orphan.volume.as_deref().unwrap_or("no name");
    let id = orphan.volume_id.as_deref().unwrap_or("-");
    let size = orphan.volume_bytes.map_or_else(|| "-".to_owned(), format_size);
    say!("component {} on {}, disk group {}", orphan.component, orphan.host, orphan.group);
    say!("  volume {name} ({id}) of {size}, part {}, object {}", part(orphan), orphan.object);
    say!("  {} of {} used", format_size(orphan.used_bytes), format_size(orphan.size_bytes));
    say!("  last write {}, term {}", orphan.durable, orphan.term);
    say!("  {}, since {}", orphan.why, age(orphan));
    if orphan.is_damaged {
        say!("  it lost data: it is never taken for whole");
    }
}
