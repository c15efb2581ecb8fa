// SPDX-License-Identifier: Apache-2.0
//! `gabion api`: its commands.

use clap::Subcommand;

/// `gabion api`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ApiCommand {
    /// Print the description of the API: OpenAPI 3.1, for clients that are made from it
    #[command(after_help = "Examples:
  gabion api describe > gabion.json
  curl --unix-socket gabion-data/api.sock http://gabion/api/v1/volumes/db
Where the API of a running cluster listens: gabion status --output json, in 'api'")]
    Describe,
}
