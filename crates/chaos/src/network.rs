// SPDX-License-Identifier: Apache-2.0
//! Machines: network namespaces on one bridge, and what can be done to their links.
//!
//! A direction between two machines is cut by a neighbour entry that leads nowhere: the sender's
//! frames go to an address that nobody has. Nothing tells either side, as on a broken switch, and
//! no packet filter is needed.

use crate::fault::HOSTS;
use crate::process::run;
use anyhow::Result;
use std::process::Command;

/// An Ethernet address that nobody has (locally administered).
const NOBODY: &str = "02:00:00:00:00:99";

/// The network namespaces. They are removed when this is dropped.
#[derive(Debug)]
pub struct Network {
    name: String,
}

/// A machine's address.
pub fn address(machine: usize) -> String {
    format!("10.78.0.{}", machine + 1)
}

impl Network {
    /// Makes the bridge and one namespace per machine.
    ///
    /// # Errors
    /// No root, or no namespaces here.
    pub fn create() -> Result<Self> {
        let network = Self { name: format!("gc{}", std::process::id()) };
        let name = &network.name;
        ip(&["link", "add", name, "type", "bridge"])?;
        ip(&["link", "set", name, "up"])?;
        for machine in 0..HOSTS {
            let (space, port) = (network.space(machine), network.port(machine));
            ip(&["netns", "add", &space])?;
            let pair = ["link", "add", &port, "type", "veth", "peer", "name", "eth0"];
            ip(&[&pair[..], &["netns", &space]].concat())?;
            ip(&["link", "set", &port, "master", name, "up"])?;
            let address = format!("{}/24", address(machine));
            ip(&["-n", &space, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &space, "link", "set", "eth0", "up"])?;
            ip(&["-n", &space, "link", "set", "lo", "up"])?;
        }
        Ok(network)
    }

    fn space(&self, machine: usize) -> String {
        format!("{}-{}", self.name, machine + 1)
    }

    fn port(&self, machine: usize) -> String {
        format!("{}-v{}", self.name, machine + 1)
    }

    /// A command that runs on a machine.
    pub fn on(&self, machine: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(machine)]).arg(program);
        command
    }

    /// Takes a machine's link away, or gives it back.
    ///
    /// # Errors
    /// As the command's.
    pub fn set_link(&self, machine: usize, is_up: bool) -> Result<()> {
        let state = if is_up { "up" } else { "down" };
        ip(&["link", "set", &self.port(machine), state])
    }

    /// Loses what `from` sends to `to`.
    ///
    /// # Errors
    /// As the command's.
    pub fn cut(&self, from: usize, to: usize) -> Result<()> {
        let (space, to) = (self.space(from), address(to));
        let entry = ["lladdr", NOBODY, "dev", "eth0", "nud", "permanent"];
        ip(&[&["-n", &space, "neigh", "replace", &to], &entry[..]].concat())
    }

    /// Ends [`Network::cut`].
    ///
    /// # Errors
    /// As the command's.
    pub fn join(&self, from: usize, to: usize) -> Result<()> {
        ip(&["-n", &self.space(from), "neigh", "del", &address(to), "dev", "eth0"])
    }

    /// Makes what every machine sends late and a part of it lost, or ends that.
    ///
    /// # Errors
    /// As the command's.
    pub fn disturb(&self, is_on: bool) -> Result<()> {
        for machine in 0..HOSTS {
            let space = self.space(machine);
            let place = ["dev", "eth0", "root"];
            let how = ["netem", "delay", "20ms", "15ms", "loss", "1%"];
            let (verb, how) = if is_on { ("add", &how[..]) } else { ("del", &[][..]) };
            let command = [&["-n", &space, "qdisc", verb], &place[..], how].concat();
            run(Command::new("tc").args(command))?;
        }
        Ok(())
    }

    /// Whether this kernel has what [`Network::disturb`] needs.
    pub fn can_disturb(&self) -> bool {
        let can = self.disturb(true).is_ok();
        // Where the kernel cannot do it there is nothing to remove.
        let _ = self.disturb(false);
        can
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What was not made yet is not there to remove.
        for machine in 0..HOSTS {
            let _ = ip(&["netns", "del", &self.space(machine)]);
            let _ = ip(&["link", "del", &self.port(machine)]);
        }
        let _ = ip(&["link", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(Command::new("ip").args(arguments)).map(drop)
}
