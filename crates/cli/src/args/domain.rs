// SPDX-License-Identifier: Apache-2.0
//! `gabion domain`: its commands and flags.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum DomainCommand {
    /// Show the fault domains and the hosts in them
    #[command(visible_alias = "ls", after_help = "Example:\n  gabion domain list")]
    List,
    /// Make a fault domain: a rack, a room, whatever fails as a whole
    #[command(after_help = "Examples:
  gabion domain create rack1
  gabion domain create room1
  gabion domain create rack1 --within room1    racks in rooms, at most three deep
Then: gabion domain assign HOST.. --to rack1")]
    Create {
        /// Its name: a-z, 0-9, '.' and '-', at most 63
        name: String,
        /// The domain that it is a part of
        #[arg(long, value_name = "DOMAIN")]
        within: Option<String>,
    },
    /// Put hosts into a fault domain: no two copies are in the same from then on
    #[command(after_help = "Examples:
  gabion domain assign host1 host2 --to rack1
  gabion domain assign host1 host2 --to rack1 --check   what would move? nothing is changed
  gabion domain assign host1 host2 --to rack1 --yes     in scripts: nothing is asked
Volumes stay in use. Copies that are in one domain with another one move to hosts elsewhere, in the
background: gabion resync list")]
    Assign {
        /// Their names
        #[arg(required = true)]
        hosts: Vec<String>,
        /// The fault domain
        #[arg(long, value_name = "DOMAIN")]
        to: String,
        #[command(flatten)]
        how: AssignArgs,
    },
    /// Take hosts out of their fault domain: each is one of its own then
    #[command(after_help = "Example:\n  gabion domain unassign host1")]
    Unassign {
        /// Their names
        #[arg(required = true)]
        hosts: Vec<String>,
        #[command(flatten)]
        how: AssignArgs,
    },
    /// Delete a fault domain that has nothing in it
    #[command(visible_alias = "rm", after_help = "Example:\n  gabion domain delete rack1")]
    Delete {
        /// Its name
        name: String,
    },
}

#[derive(clap::Args, Clone, Copy, Debug)]
pub struct AssignArgs {
    /// Show what it would come to, and change nothing
    #[arg(long)]
    pub check: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "check")]
    pub yes: bool,
}
