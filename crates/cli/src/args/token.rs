// SPDX-License-Identifier: Apache-2.0
//! `gabion token`: its commands and flags.

use clap::Subcommand;
use operator::AccessRole;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, and show its text: this once
    #[command(after_help = "Examples:
  gabion token create grafana --role viewer
  gabion token create ci --role operator --expires-in 30d --output json
Then: curl --cacert ca.pem -H \"Authorization: Bearer gbn_...\" https://HOST:7443/api/v1/status
'gabion status --output json' says where the API listens, and where ca.pem is.")]
    Create {
        /// Its name: what it is for, or whose it is
        name: String,
        /// What its holder may do: viewer looks; operator also changes volumes and policies;
        /// administrator does everything
        #[arg(long, value_parser = role)]
        role: AccessRole,
        /// For how long it opens the API, at most ten years
        #[arg(long, value_parser = humantime::parse_duration, default_value = "90d")]
        #[arg(value_name = "TIME")]
        expires_in: Duration,
    },
    /// Show all tokens, without their text
    #[command(visible_alias = "ls", after_help = "Example:\n  gabion token list")]
    List,
    /// Delete a token: it opens nothing from then on
    #[command(visible_alias = "rm", after_help = "Example:\n  gabion token delete grafana")]
    Delete {
        /// Its name
        name: String,
    },
}

pub fn role(text: &str) -> Result<AccessRole, String> {
    let known = [AccessRole::Viewer, AccessRole::Operator, AccessRole::Administrator];
    let found = known.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| "is neither 'viewer', 'operator' nor 'administrator'".to_owned())
}
