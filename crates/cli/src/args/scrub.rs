// SPDX-License-Identifier: Apache-2.0
//! `gabion scrub`: its commands and flags.

use base::parse_size;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ScrubCommand {
    /// Show how far scrub is on each device, and what it found
    #[command(after_help = "Examples:
  gabion scrub status
  gabion scrub status --output json
Found, repaired and lost are blocks of 4 KiB. Found and repaired count since the host's start,
lost in the last pass or this one.")]
    Status,
    /// Begin a pass now, or go on with the one that was paused
    #[command(after_help = "Examples:
  gabion scrub start
  gabion scrub start --rate 32MiB --host host2")]
    Start {
        /// Bytes per second of each disk group, at most, until the host is started again
        #[arg(long, value_parser = parse_size, value_name = "BYTES_PER_SECOND")]
        rate: Option<u64>,
        /// Only on this host
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
    /// Stop reading until scrub is started, or the host is started again
    #[command(after_help = "Example:\n  gabion scrub pause --host host2")]
    Pause {
        /// Only on this host
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
}
