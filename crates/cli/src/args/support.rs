// SPDX-License-Identifier: Apache-2.0
//! `gabion support-bundle`: its flags.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gabion support-bundle                    of the last day, into a file in this folder
  gabion support-bundle --since 7d --to /tmp/host1.tar.gz
  gabion support-bundle --output json      the list of what is in it, for programs
Secrets are taken out: keys, tokens, codes, passwords and their digests, and what receivers of
notifications are told with. What is in it is listed; look before you give it away. Of a cluster of
several machines each has logs of its own: make one on each.")]
pub struct SupportArgs {
    /// How far back logs, the audit and changes of health go
    #[arg(long, value_parser = humantime::parse_duration, default_value = "24h")]
    #[arg(value_name = "TIME")]
    pub since: Duration,
    /// The file; there must be none of this name [default: gabion-support-HOST-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}
