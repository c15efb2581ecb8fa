// SPDX-License-Identifier: Apache-2.0
//! `gabion volume explain`.

use crate::args::Cli;
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::{Fail, client};
use anyhow::Result;
use base::format_size;
use operator::{Command, LayoutReport, PlaceKind, PlaceReport, PlacementReport};

/// Parts that are named one by one.
const PARTS_SHOWN: usize = 8;

pub fn explain(cli: &Cli, name: &str) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let command = Command::VolumeExplain { name: name.to_owned() };
    let report: PlacementReport = client::ask(&door, &command)?;
    output::print(cli.output, &report, say_placement)
}

fn say_placement(report: &PlacementReport) {
    let PlacementReport { volume, copies, kept_on, layouts, more_parts } = report;
    let has_domains = |layout: &LayoutReport| layout.hosts.iter().any(|p| !p.domains.is_empty());
    let apart = if layouts.iter().any(has_domains) { "fault domain" } else { "host" };
    match (copies, kept_on) {
        (_, Some(host)) => say!("volume {volume} is to have one copy of each part, on {host}"),
        (1, None) => say!("volume {volume} is to have one copy of each part"),
        _ => say!("volume {volume} is to have {copies} copies of each part, no two in one {apart}"),
    }
    for layout in layouts {
        say!("\n{}:", parts(layout, layouts.len()));
        let rows = layout.hosts.iter().map(row).collect();
        output::table(&["host", "domain", "copy", "room", "why"], rows);
        let has_next = layout.hosts.iter().any(|place| place.place == PlaceKind::Next);
        if !has_next && kept_on.is_none() {
            say!("no host could take another copy: add one ('gabion host join')");
        }
    }
    if *more_parts > 0 {
        say!("\n{more_parts} more parts are on other hosts: gabion volume show {volume} --all");
    }
}

fn parts(layout: &LayoutReport, layouts: usize) -> String {
    let count = layout.parts.len();
    if layouts == 1 {
        return if count == 1 { "its one part".to_owned() } else { format!("all {count} parts") };
    }
    let named = layout.parts.iter().take(PARTS_SHOWN).map(u64::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match count.saturating_sub(PARTS_SHOWN) {
        0 if count == 1 => format!("part {named}"),
        0 => format!("parts {named}"),
        more => format!("parts {named} and {more} more"),
    }
}

fn row(place: &PlaceReport) -> Vec<String> {
    let copy = match place.place {
        PlaceKind::Copy => "yes",
        PlaceKind::TooClose => "too close",
        PlaceKind::Next => "next",
        PlaceKind::Able | PlaceKind::Not => "no",
    };
    let domains = if place.domains.is_empty() { "-".to_owned() } else { place.domains.join("/") };
    let room = place.room_bytes.map(format_size).unwrap_or_default();
    vec![place.host.clone(), domains, copy.to_owned(), room, place.why.clone()]
}
