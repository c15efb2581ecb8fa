// SPDX-License-Identifier: Apache-2.0
//! `gabion audit`: its commands and flags.

use clap::Subcommand;

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum AuditCommand {
    /// Show the newest changes: who, from where, what, and what came of it
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  gabion audit list
  gabion audit list --last 500 --output json
Each machine keeps what came through it: in a cluster of several machines, ask on each."
    )]
    List {
        /// How many, the newest of them
        #[arg(long, default_value_t = 50, value_name = "N")]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
        last: u16,
    },
    /// Print all that is kept, a line of JSON each, the oldest first
    #[command(after_help = "Example:\n  gabion audit export > changes.jsonl")]
    Export,
}
