// SPDX-License-Identifier: Apache-2.0
//! `gabion user`: its commands and flags.

use super::token::role;
use clap::Subcommand;
use operator::AccessRole;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Make a user, and show a code to sign in with the first time: this once
    #[command(after_help = "Examples:
  gabion user create anna --role operator
  gabion user create bert --role viewer --code-for 1h --output json
Who signs in with the code chooses a password then.")]
    Create {
        /// Its name
        name: String,
        /// What it may do: viewer looks; operator also changes volumes and policies;
        /// administrator does everything
        #[arg(long, value_parser = role)]
        role: AccessRole,
        /// For how long the code is good, at most thirty days
        #[arg(long, value_parser = humantime::parse_duration, default_value = "1d")]
        #[arg(value_name = "TIME")]
        code_for: Duration,
    },
    /// Show all users
    #[command(visible_alias = "ls", after_help = "Example:\n  gabion user list")]
    List,
    /// Make a user another code to sign in with once: who has forgotten a password
    #[command(after_help = "Example:\n  gabion user code anna")]
    Code {
        /// Its name
        name: String,
        /// For how long the code is good, at most thirty days
        #[arg(long, value_parser = humantime::parse_duration, default_value = "1d")]
        #[arg(value_name = "TIME")]
        code_for: Duration,
    },
    /// Change what a user may do, at once
    #[command(after_help = "Example:\n  gabion user role anna administrator")]
    Role {
        /// Its name
        name: String,
        /// What it may do: viewer, operator or administrator
        #[arg(value_parser = role)]
        role: AccessRole,
    },
    /// Give a user a password, which is asked for; its sessions end
    #[command(after_help = "Examples:
  gabion user password anna
  pass show gabion/anna | gabion user password anna
A password has 12 characters or more.")]
    Password {
        /// Its name
        name: String,
    },
    /// Delete a user, and end its sessions
    #[command(visible_alias = "rm", after_help = "Example:\n  gabion user delete anna")]
    Delete {
        /// Its name
        name: String,
    },
}
