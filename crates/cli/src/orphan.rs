// SPDX-License-Identifier: Apache-2.0
//! `gabion orphan`: components that the directory does not account for.

use crate::Fail;
use crate::args::{Cli, OrphanCommand};
use crate::client::{self, ApiDoor};
use crate::output;
use crate::output::say;
use crate::target::TargetHost;
use anyhow::Result;
use base::format_size;
use operator::{Command, OrphanReport, VolumeReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// `gabion orphan ...`.
pub fn orphan(cli: &Cli, command: &OrphanCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    match command {
        OrphanCommand::List => {
            let orphans: Vec<OrphanReport> = client::ask(&door, &Command::OrphanList)?;
            output::print(cli.output, &orphans, |orphans| table(orphans))
        }
        OrphanCommand::Show { volume } => {
            let mut orphans: Vec<OrphanReport> = client::ask(&door, &Command::OrphanList)?;
            orphans.retain(|orphan| is_of(orphan, volume));
            if orphans.is_empty() {
                return Err(Fail::failed(format!(
                    "nothing of '{volume}' is waiting: see 'gabion orphan list'"
                ))
                .into());
            }
            output::print(cli.output, &orphans, |orphans| orphans.iter().for_each(details))
        }
        OrphanCommand::Adopt { all: true, .. } => adopt_all(cli, &door),
        OrphanCommand::Adopt { volume, name, force, .. } => {
            let (volume, name) = (volume.clone().unwrap_or_default(), name.clone());
            let adopt = Command::OrphanAdopt { volume, name, force: *force };
            let volume: VolumeReport = client::ask(&door, &adopt)?;
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
            let () = client::ask(&door, &delete)?;
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

/// The result of adopting one volume.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Adoption {
    volume: String,
    volume_id: String,
    adopted: bool,
    /// Why it was refused, if it was.
    refused: Option<String>,
}

fn adopt_all(cli: &Cli, door: &ApiDoor) -> Result<()> {
    let orphans: Vec<OrphanReport> = client::ask(door, &Command::OrphanList)?;
    let adoptions =
        each(&orphans, |adopt| client::ask::<VolumeReport>(door, &adopt).map(|volume| volume.name));
    output::print(cli.output, &adoptions, |adoptions| {
        if adoptions.is_empty() {
            say!("nothing waits to be adopted; hosts take two minutes to find what does");
        }
        for done in adoptions {
            match &done.refused {
                None => say!("volume {} ({}) is there again", done.volume, done.volume_id),
                Some(why) => say!("volume {} ({}) is not: {why}", done.volume, done.volume_id),
            }
        }
    })?;
    match adoptions.iter().filter(|done| !done.adopted).count() {
        0 => Ok(()),
        count => Err(Fail::failed(format!(
            "{count} of {} volume(s) not adopted: each says why; run the command again after that",
            adoptions.len()
        ))
        .into()),
    }
}

/// Adopts volumes one after the other. It goes on with the next one where one is refused.
fn each(
    orphans: &[OrphanReport],
    mut adopt: impl FnMut(Command) -> Result<String>,
) -> Vec<Adoption> {
    let named = orphans.iter().filter_map(|o| Some((o.volume_id.clone()?, o.volume.clone()?)));
    let volumes: BTreeMap<String, String> = named.collect();
    let adopted = volumes.into_iter().map(|(id, name)| {
        let command = Command::OrphanAdopt { volume: id.clone(), name: None, force: false };
        let (volume, refused) = match adopt(command) {
            Ok(name) => (name, None),
            Err(error) => (name, Some(format!("{error:#}"))),
        };
        Adoption { volume, volume_id: id, adopted: refused.is_none(), refused }
    });
    adopted.collect()
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
    passed(orphan.since)
}

fn passed(since: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match now.saturating_sub(since) {
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
            state(orphan),
        ]
    });
    let heading = ["volume", "id", "part", "host", "used", "since", "why"];
    output::table(&heading, rows.collect());
}

fn state(orphan: &OrphanReport) -> String {
    match orphan {
        OrphanReport { given_up: Some(at), .. } => {
            format!("given up {} ago, its disk was full; another host has it", passed(*at))
        }
        OrphanReport { is_empty: true, .. } => "never written".to_owned(),
        _ => orphan.why.clone(),
    }
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
    if orphan.given_up.is_some() {
        say!("  {}", state(orphan));
    }
    if orphan.is_damaged {
        say!("  it lost data: it is never taken for whole");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan(volume: Option<(&str, &str)>) -> OrphanReport {
        OrphanReport {
            component: "1".to_owned(),
            object: "2".to_owned(),
            volume: volume.map(|(name, _)| name.to_owned()),
            volume_id: volume.map(|(_, id)| id.to_owned()),
            index: None,
            objects: None,
            volume_bytes: None,
            ftt: None,
            host: "host1".to_owned(),
            group: "3".to_owned(),
            why: String::new(),
            since: 0,
            size_bytes: 0,
            used_bytes: 0,
            term: 0,
            durable: String::new(),
            is_damaged: false,
            is_empty: false,
            given_up: None,
        }
    }

    #[test]
    fn every_volume_is_tried_once_by_its_id_and_a_refusal_stops_nobody() {
        let (web, db, other) = (("web", "a1"), ("db", "b2"), ("web", "c3"));
        let orphans = [Some(web), Some(db), None, Some(web), Some(other)].map(orphan);
        let mut asked = Vec::new();
        let adoptions = each(&orphans, |command| {
            let Command::OrphanAdopt { volume, name: None, force: false } = command else {
                panic!("{command:?}")
            };
            asked.push(volume.clone());
            match volume.as_str() {
                "b2" => Err(Fail::failed("a copy is not found").into()),
                _ => Ok("web".to_owned()),
            }
        });
        assert_eq!(asked, ["a1", "b2", "c3"]);
        let refused: Vec<_> = adoptions.iter().filter(|done| !done.adopted).collect();
        let wanted = Adoption {
            volume: "db".to_owned(),
            volume_id: "b2".to_owned(),
            adopted: false,
            refused: Some("a copy is not found".to_owned()),
        };
        assert_eq!((refused, adoptions.len()), (vec![&wanted], 3));
    }
}
