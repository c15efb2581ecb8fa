// SPDX-License-Identifier: Apache-2.0
//! Who writes to a volume: as operators say it, and `gabion volume takeover`.

use crate::args::Cli;
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::{Fail, client};
use anyhow::Result;
use host::Writers;
use operator::{Command, VolumeReport, WriterReport};

/// `gabion volume takeover`.
pub fn take_over(cli: &Cli, name: &str, host: &str) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    let command = Command::VolumeTakeOver { name: name.to_owned(), host: host.to_owned() };
    let volume: VolumeReport = client::ask(&door, &command)?;
    output::print(cli.output, &volume, |volume| {
        let writer = volume.writer.host.as_deref().unwrap_or(host);
        say!("{writer} writes to volume {} from now on", volume.name);
        say!("nothing that was sent to it through another host takes effect any more");
    })
}

/// Who writes to a volume, in a line or two.
pub fn say_writer(writer: &WriterReport) {
    match (writer.writers, &writer.host) {
        (Writers::Any, _) => say!("writers: any host"),
        (Writers::One, None) => say!("writers: one host at a time, none now"),
        (Writers::One, Some(host)) => say!("writers: one host at a time, now {host}"),
    }
    if writer.host.is_some() || writer.writers == Writers::Any {
        for what in &writer.waits_for {
            say!("  it cannot write everywhere yet: {what}");
        }
    }
}
