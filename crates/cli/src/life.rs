// SPDX-License-Identifier: Apache-2.0
//! `gabion volume rename`, `delete`, `undelete` and `purge`.

use crate::args::Cli;
use crate::ask::{self, Deed};
use crate::output::{self, say};
use crate::scrub::time;
use crate::target::{TargetHost, gather};
use crate::{Fail, client};
use anyhow::Result;
use base::format_size;
use operator::{Command, TrashedReport, VolumeReport};
use serde_json::json;

/// Checks what a volume is to be called.
fn check_name(name: &str) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()).into())
}

/// A volume that clients of any host use stays as it is; `None` where there is no such volume.
fn unused(target: &TargetHost, name: &str) -> Result<Option<VolumeReport>> {
    let volume = gather(target)?.volumes.into_iter().find(|volume| volume.name == name);
    let clients = volume.as_ref().map_or(0, |volume| volume.clients);
    if clients == 0 {
        return Ok(volume);
    }
    Err(Fail::failed(format!(
        "volume '{name}' is in use by {clients} client(s): disconnect them first"
    ))
    .into())
}

/// `gabion volume rename`.
pub fn rename(cli: &Cli, name: &str, new: &str) -> Result<()> {
    check_name(name)?;
    check_name(new)?;
    let target = TargetHost::find(cli)?;
    unused(&target, name)?;
    let command = Command::VolumeRename { name: name.to_owned(), new: new.to_owned() };
    let volume: VolumeReport = client::ask(&target.door(), &command)?;
    output::print(cli.output, &volume, |volume| {
        say!("volume {name} is called {} from now on", volume.name);
        if let Some(uri) = volume.nbd.first() {
            say!("{uri}");
        }
    })
}

/// `gabion volume delete`.
pub fn delete(cli: &Cli, name: &str, now: bool, yes: bool) -> Result<()> {
    check_name(name)?;
    let target = TargetHost::find(cli)?;
    // If the volume does not exist, that is said before anything is asked.
    if let (Some(volume), false) = (unused(&target, name)?, yes) {
        let size = format_size(volume.size_bytes);
        let what = match now {
            true => format!("volume '{name}' of {size} with all its data"),
            false => format!("volume '{name}' of {size}"),
        };
        ask::confirm_name(Deed::Delete, &what, name)?;
    }
    let command = Command::VolumeDelete { name: name.to_owned(), for_good: now };
    let () = client::ask(&target.door(), &command)?;
    output::print(cli.output, &json!({"name": name, "deleted": true, "for_good": now}), |_| {
        match now {
            true => say!("volume {name} deleted for good"),
            false => {
                say!("volume {name} deleted");
                say!("bring it back: gabion volume undelete {name}");
                say!("have its space at once: gabion volume purge {name}");
            }
        }
    })
}

/// `gabion volume undelete`.
pub fn undelete(cli: &Cli, volume: &str, name: Option<&str>) -> Result<()> {
    name.map_or(Ok(()), check_name)?;
    let (volume, name) = (volume.to_owned(), name.map(str::to_owned));
    let door = TargetHost::find(cli)?.door();
    let volume: VolumeReport = client::ask(&door, &Command::VolumeUndelete { volume, name })?;
    output::print(cli.output, &volume, |volume| {
        say!("volume {} of {} is back", volume.name, format_size(volume.size_bytes));
        if let Some(uri) = volume.nbd.first() {
            say!("{uri}");
        }
    })
}

/// `gabion volume purge`.
pub fn purge(cli: &Cli, volume: &str, yes: bool) -> Result<()> {
    let target = TargetHost::find(cli)?;
    if !yes {
        let mut trash = gather(&target)?.trash.into_iter();
        let it = trash.find(|one| one.name == volume || one.id == volume);
        if let Some(it) = it {
            let size = format_size(it.size_bytes);
            let what = format!("deleted volume '{}' of {size} with all its data", it.name);
            ask::confirm_name(Deed::Delete, &what, volume)?;
        }
    }
    let command = Command::VolumePurge { volume: volume.to_owned() };
    let () = client::ask(&target.door(), &command)?;
    output::print(cli.output, &json!({"volume": volume, "purged": true}), |_| {
        say!("deleted volume {volume} is gone for good");
    })
}

/// `gabion volume list --deleted`.
pub fn trash_table(trash: &[TrashedReport]) {
    if trash.is_empty() {
        say!("no deleted volume can be brought back");
        return;
    }
    let rows = trash.iter().map(|one| {
        vec![
            one.name.clone(),
            one.id.clone(),
            format_size(one.size_bytes),
            format!("{} ago", time(one.deleted_seconds_ago)),
            format!("in {}", time(one.goes_in_seconds)),
        ]
    });
    output::table(&["volume", "id", "size", "deleted", "goes for good"], rows.collect());
    say!("\nbring one back: gabion volume undelete NAME");
}
