// SPDX-License-Identifier: Apache-2.0
//! `gabion resync`: its commands and flags.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ResyncCommand {
    /// List the copies that are filled or brought up to date: why, how far, how fast, until when
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  gabion resync list
  gabion resync list --watch               again each second, until nothing is left
  gabion resync list --output json
A copy that was away gets what it lacks; one that is made on another host gets everything."
    )]
    List {
        /// Show it again each second, until nothing is left
        #[arg(long)]
        watch: bool,
    },
}
