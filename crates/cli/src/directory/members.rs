// SPDX-License-Identifier: Apache-2.0
//! `gabion directory members`, `go-on-alone`: on which hosts the directory is.

use crate::Fail;
use crate::args::Cli;
use crate::ask::{self, Deed};
use crate::output::{self, say};
use crate::target::TargetHost;
use anyhow::Result;
use base::format_size;
use control::{ELECTION_MAX, Keeping, MemberFile, MemberReport, MemberRole};
use std::time::Duration;

/// `gabion status` waits no longer than this for a member that answers.
const ALARMS_WITHIN: Duration = Duration::from_secs(1);

/// How the host that was asked finds the directory.
fn keeping(target: &TargetHost) -> Result<Keeping> {
    match target {
        TargetHost::Local(_, cluster) => Ok(Keeping::Given(cluster.etcd())),
        TargetHost::Host(files) => match files.member_file() {
            Some(path) => Ok(Keeping::Own(MemberFile::read(&path)?)),
            None => Ok(Keeping::Given(files.first().etcd.clone())),
        },
    }
}

/// `gabion directory members`.
pub fn show(cli: &Cli) -> Result<()> {
    let keeping = keeping(&TargetHost::find(cli)?)?;
    let endpoints = keeping.endpoints();
    if endpoints.urls.is_empty() {
        let why = "the directory of this cluster is in one process with it: it has no members";
        return Err(Fail::failed(why).into());
    }
    let members = control::members(&endpoints, ELECTION_MAX)?;
    output::print(cli.output, &members, |members| {
        let rows = members.iter().map(row).collect();
        output::table(&["host", "role", "state", "size", "etcd", "address"], rows);
        for alarm in control::alarms(members) {
            say!("\nALARM: {alarm}");
        }
    })
}

fn row(member: &MemberReport) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let role = match member.role {
        MemberRole::Leader => "leader",
        MemberRole::Voter => "voter",
        MemberRole::Learner => "being filled",
    };
    let (state, size) = match member.answers {
        true => ("answers", format_size(member.bytes)),
        false if member.url.is_empty() => ("not started yet", "-".to_owned()),
        false => ("DOES NOT ANSWER", "-".to_owned()),
    };
    vec![
        or_dash(&member.host),
        role.to_owned(),
        state.to_owned(),
        size,
        or_dash(&member.version),
        or_dash(&member.url),
    ]
}

/// What `gabion status` says of the members, where the hosts keep the directory by themselves.
/// Nothing where none answers: then the hosts themselves say that the directory is not reachable.
pub fn alarms(target: &TargetHost) -> Vec<String> {
    let Ok(Keeping::Own(file)) = keeping(target) else { return Vec::new() };
    let members = control::members(&file.endpoints(), ALARMS_WITHIN).unwrap_or_default();
    control::alarms(&members)
}

/// `gabion directory go-on-alone`.
pub fn go_on_alone(cli: &Cli, empty: bool, yes: bool) -> Result<()> {
    let Keeping::Own(file) = keeping(&TargetHost::find(cli)?)? else {
        let why = "etcd is run by hand for this cluster: see the manual of etcd";
        return Err(Fail::failed(why).into());
    };
    if !control::has_any(&file) && !empty {
        let elsewhere = file.state.endpoints.join(", ");
        return Err(Fail::failed(format!(
            "this host has nothing of the directory: run it on one of {elsewhere}; where all of \
             them are gone for good, --empty begins it anew here"
        ))
        .into());
    }
    if !yes {
        let what = format!("the directory of all hosts but '{}'", file.host);
        ask::confirm_name(Deed::Remove, &what, &file.host)?;
    }
    let has_any = control::go_on_alone(&file)?;
    say!("the daemon of {} does it within some seconds: see 'gabion directory members'", file.host);
    match has_any {
        true => say!("then look at 'gabion status': the directory may have fallen back"),
        false => say!("then 'gabion cluster recover': the directory is empty"),
    }
    Ok(())
}
