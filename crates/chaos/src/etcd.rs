// SPDX-License-Identifier: Apache-2.0
//! An etcd with one member per machine.

use crate::fault::HOSTS;
use crate::network::{Network, address};
use crate::process::{Process, run};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// There must be a leader within this time.
const LEADER_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The members.
#[derive(Debug)]
pub struct Etcd {
    area: PathBuf,
    members: Vec<Option<Process>>,
}

/// The URL at which clients reach a member.
pub fn endpoint(machine: usize) -> String {
    format!("http://{}:2379", address(machine))
}

fn peer(machine: usize) -> String {
    format!("http://{}:2380", address(machine))
}

impl Etcd {
    /// Starts all members, with their data below `area`, and waits for a leader.
    ///
    /// # Errors
    /// There is no etcd, or it elects nobody.
    pub fn start(network: &Network, area: &Path) -> Result<Self> {
        let members = (0..HOSTS).map(|_| None).collect();
        let mut etcd = Self { area: area.to_owned(), members };
        for machine in 0..HOSTS {
            etcd.start_member(network, machine)?;
        }
        let begun = Instant::now();
        while etcd.leader(network).is_err() {
            if begun.elapsed() > LEADER_WITHIN {
                bail!("etcd has no leader after {LEADER_WITHIN:?}");
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(etcd)
    }

    /// Starts a member, if it does not run.
    ///
    /// # Errors
    /// There is no etcd.
    pub fn start_member(&mut self, network: &Network, machine: usize) -> Result<()> {
        if self.members[machine].is_some() {
            return Ok(());
        }
        let mut command = network.on(machine, "etcd");
        // etcd takes options from the environment too.
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
        let name = |machine| format!("member{}", machine + 1);
        let all: Vec<_> = (0..HOSTS).map(|m| format!("{}={}", name(m), peer(m))).collect();
        command.arg("--name").arg(name(machine));
        command.arg("--data-dir").arg(self.area.join(format!("etcd{}", machine + 1)));
        let (client, peer) = (endpoint(machine), peer(machine));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &all.join(",")]);
        // The same timing as that of an etcd that Gabion starts.
        command.args(["--heartbeat-interval=100", "--election-timeout=500"]);
        command.args(["--logger=zap", "--log-outputs=stderr"]);
        let log = self.area.join(format!("etcd{}.log", machine + 1));
        let name = format!("etcd member {}", machine + 1);
        self.members[machine] = Some(Process::start(&name, &mut command, &log)?);
        Ok(())
    }

    /// Kills a member.
    pub fn kill(&mut self, machine: usize) {
        self.members[machine] = None;
    }

    /// Lets all members stand still, or go on.
    ///
    /// # Errors
    /// One is gone.
    pub fn stand_still(&self, is_still: bool) -> Result<()> {
        let signal = if is_still { Signal::STOP } else { Signal::CONT };
        self.members.iter().flatten().try_for_each(|member| member.signal(signal))
    }

    /// The machine of the leader.
    ///
    /// # Errors
    /// No member knows one.
    pub fn leader(&self, network: &Network) -> Result<usize> {
        for asked in 0..HOSTS {
            if self.members[asked].is_none() {
                continue;
            }
            let mut command = network.on(asked, "etcdctl");
            command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint(asked)]);
            command.args(["--command-timeout=1s", "endpoint", "status", "-w", "json"]);
            let Ok(text) = run(&mut command) else { continue };
            if let Some(true) = is_leader(&text) {
                return Ok(asked);
            }
        }
        bail!("no member of etcd leads")
    }
}

/// Whether the member that gave this status is the leader.
fn is_leader(status: &str) -> Option<bool> {
    let all: Value = serde_json::from_str(status).ok()?;
    let status = &all.get(0)?["Status"];
    let leader = status["leader"].as_u64()?;
    Some(leader != 0 && leader == status["header"]["member_id"].as_u64()?)
}

/// Whether the programs that a campaign needs are here.
///
/// # Errors
/// The first that is not.
pub fn check_programs() -> Result<()> {
    for program in ["etcd", "etcdctl"] {
        let mut command = Command::new(program);
        command.arg(if program == "etcd" { "--version" } else { "version" });
        run(&mut command).with_context(|| format!("{program} is needed"))?;
    }
    run(Command::new("ip").arg("-V")).context("iproute2 is needed").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_leads_says_so() {
        let status = |leader: u64| {
            format!(
                r#"[{{"Endpoint":"e","Status":{{"header":{{"member_id":7}},"leader":{leader}}}}}]"#
            )
        };
        assert_eq!(is_leader(&status(7)), Some(true));
        assert_eq!(is_leader(&status(8)), Some(false));
        assert_eq!(is_leader("[]"), None);
    }
}
