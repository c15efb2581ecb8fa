// SPDX-License-Identifier: Apache-2.0
//! `gabion resync`: its commands and flags.

use super::policy::bandwidth;
use clap::Subcommand;
use operator::RateLimit;

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
    /// Set how much each host copies in a second, at most, to copies that are behind
    #[command(after_help = "Examples:
  gabion resync limit 50MiB
  gabion resync limit none                 as much as clients leave
It holds at once, also for what is being copied, and until it is set again. 'gabion cluster show'
says what it is. A low limit makes volumes stay reduced for longer.")]
    Limit {
        /// Bytes a second, from 1MiB; or none
        #[arg(value_parser = bandwidth, value_name = "BYTES_PER_SECOND")]
        limit: RateLimit,
    },
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, GabionCommand, ResyncCommand};
    use clap::Parser;
    use operator::RateLimit;

    #[test]
    fn a_limit_is_a_size_or_none() {
        let limit = |text: &str| {
            let cli = Cli::try_parse_from(["gabion", "resync", "limit", text]);
            match cli.map_err(|error| error.to_string())?.command {
                GabionCommand::Resync(ResyncCommand::Limit { limit }) => Ok(limit),
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(limit("none"), Ok(RateLimit::None));
        assert_eq!(limit("50MiB"), Ok(RateLimit::At(50 << 20)));
        assert!(limit("fast").is_err_and(|error| error.contains("or none")));
    }
}
