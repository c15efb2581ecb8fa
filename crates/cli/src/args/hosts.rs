// SPDX-License-Identifier: Apache-2.0
//! `gabion host`: its commands and flags.

use super::{JoinArgs, MaintenanceCommand};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// List the hosts
    #[command(visible_alias = "ls")]
    List,
    /// Show one host: its state, disk groups and memory, how long single tasks kept its thread
    /// busy, and where the time of writes goes
    #[command(after_help = "Examples:
  gabion host show host2
  gabion host show host2 --output json")]
    Show {
        /// Its name
        host: String,
    },
    /// End a host of the cluster on this machine at once, as kill -9 would: all its shards, or one
    #[command(after_help = "Examples:\n  gabion host kill host2\n  gabion host kill host2.1")]
    Kill {
        /// Its name, or that of one of its shards
        host: String,
    },
    /// Start a host of the cluster on this machine again
    #[command(after_help = "Example:\n  gabion host start host2")]
    Start {
        /// Its name
        host: String,
    },
    /// Make this machine a host of an existing cluster: writes its configuration
    #[command(after_help = "Example:
  gabion host join --invitation gbj_... --name host2 --address 10.0.0.2 \\
      --cache /dev/nvme0n1 --capacity /dev/nvme1n1
'gabion host invite' on a host of the cluster makes the invitation.")]
    Join(Box<JoinArgs>),
    /// Make an invitation, with which one machine becomes a host
    #[command(after_help = "Example:\n  gabion host invite --expires-in 10m")]
    Invite {
        /// For how long it is good, at most thirty days
        #[arg(long, value_parser = humantime::parse_duration, default_value = "1h")]
        #[arg(value_name = "TIME")]
        expires_in: std::time::Duration,
    },
    /// Make a host ready to be stopped, and have it take part again
    #[command(subcommand, arg_required_else_help = true)]
    Maintenance(MaintenanceCommand),
    /// Take a host out of the cluster that is down and does not come back
    #[command(after_help = "Examples:
  gabion host remove host3                 it has no copies: they were moved away
  gabion host remove host3 --lost          what it had is gone, and is made again on other hosts
Refused while the host is up, and where it has the only whole copy of something. It cannot be taken
back: the host's daemon does not start again. To use the machine once more, 'gabion host join' it
with --wipe.")]
    Remove {
        /// Its name
        host: String,
        /// Its copies are gone for good: make them again on other hosts, without the repair delay
        #[arg(long)]
        lost: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}
