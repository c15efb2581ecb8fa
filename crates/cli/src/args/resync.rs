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
    /// Set how much each host copies in a second, at most, to copies that are behind
    #[command(after_help = "Examples:
  gabion resync limit 50MiB
  gabion resync limit none                 as much as clients leave
It holds at once, also for what is being copied, and until it is set again. 'gabion cluster show'
says what it is. A low limit makes volumes stay reduced for longer.")]
    Limit {
        /// Bytes a second, from 1MiB; or none
        #[arg(value_parser = limit, value_name = "BYTES_PER_SECOND")]
        limit: LimitArg,
    },
}

/// Bytes a second; none: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitArg(pub Option<u64>);

fn limit(text: &str) -> Result<LimitArg, String> {
    if text == "none" {
        return Ok(LimitArg(None));
    }
    let bytes = base::parse_size(text).map_err(|error| format!("{error}; or none"))?;
    Ok(LimitArg(Some(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_size_or_none() {
        assert_eq!(limit("none"), Ok(LimitArg(None)));
        assert_eq!(limit("50MiB"), Ok(LimitArg(Some(50 << 20))));
        assert!(limit("fast").is_err_and(|error| error.contains("or none")));
    }
}
