// SPDX-License-Identifier: Apache-2.0
//! Commands for who packages the program.

use clap::Subcommand;
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum PagesCommand {
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  gabion completions bash > /etc/bash_completion.d/gabion")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a folder, one for each command
    #[command(after_help = "Example:\n  gabion man /usr/local/share/man/man1")]
    Man {
        /// The folder; it is made where there is none
        folder: PathBuf,
    },
}
