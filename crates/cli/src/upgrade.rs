// SPDX-License-Identifier: Apache-2.0
//! `gabion cluster upgrade`.

use crate::args::Cli;
use crate::client;
use crate::output::{self, say};
use crate::target::TargetHost;
use anyhow::Result;
use operator::{Command, HostReport, StatusReport, UpgradeReport};

pub fn upgrade(cli: &Cli, check: bool) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    let report: UpgradeReport = client::ask(&door, &Command::ClusterUpgrade { check })?;
    output::print(cli.output, &report, |report| {
        let known = |level: Option<u32>| level.map_or("down".to_owned(), |level| level.to_string());
        let rows = report.hosts.iter().map(|one| vec![one.host.clone(), known(one.level)]);
        output::table(&["host", "knows up to level"], rows.collect());
        match (report.from, report.to) {
            (from, to) if from == to => say!("the cluster is at level {to}: nothing to raise"),
            (from, to) if check => {
                say!(
                    "the cluster is at level {from} and would be at level {to}: what is new since"
                );
                say!("is used then, and no host goes back to an older release");
            }
            (from, to) => say!("the cluster was at level {from} and is at level {to} now"),
        }
    })
}

/// Says where hosts know more than the cluster uses.
pub fn say_levels(report: &StatusReport) {
    let known = || report.hosts.iter().filter_map(|host| host.level);
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return };
    if least < most {
        let is_older = |shards: &[&HostReport]| shards.iter().any(|one| one.level == Some(least));
        let older = operator::by_host(&report.hosts).into_iter().filter(|host| is_older(&host.1));
        let names: Vec<&str> = older.map(|(name, _)| name).collect();
        say!("an older release runs on {}: start it with the newer one", names.join(", "));
    } else if report.level.is_some_and(|level| level < least) {
        say!("all hosts have a newer release: 'gabion cluster upgrade' lets the cluster use it");
    }
}
