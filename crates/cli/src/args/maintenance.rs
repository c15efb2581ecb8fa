// SPDX-License-Identifier: Apache-2.0
//! `gabion host maintenance` and `gabion what-if`: their commands and flags.

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use host::MaintenanceMode;

#[derive(Debug, Subcommand)]
pub enum MaintenanceCommand {
    /// Show what maintenance of a host would come to; of a host in maintenance, how far it is
    #[command(after_help = "Examples:
  gabion host maintenance check host2
  gabion host maintenance check host2 --mode full-evacuation")]
    Check {
        /// Its name
        host: String,
        /// What would become of its copies; without it as in maintenance, else ensure-accessibility
        #[arg(long, value_parser = modes(), value_name = "MODE")]
        mode: Option<MaintenanceMode>,
    },
    /// Make a host ready to be stopped: it gets nothing new, and copies leave it as the mode says
    #[command(after_help = "Examples:
  gabion host maintenance enter host2                          for a reboot
  gabion host maintenance enter host2 --mode full-evacuation   for good, or for days
Modes:
  ensure-accessibility  copies leave without which a volume could not be used; the others stay, and
                        their volumes are reduced while the host is stopped
  full-evacuation       all copies leave: no volume is reduced
  none                  nothing leaves; refused where a volume could not be used without the host
Ctrl-C ends the waiting alone; 'gabion host maintenance exit' takes it back. A host that is stopped
for longer than the repair delay has its copies made again elsewhere, as ever.")]
    Enter {
        /// Its name
        host: String,
        /// What becomes of its copies
        #[arg(long, value_parser = modes(), value_name = "MODE")]
        #[arg(default_value = "ensure-accessibility")]
        mode: MaintenanceMode,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Do not wait until it may be stopped
        #[arg(long)]
        no_wait: bool,
    },
    /// Have a host take part again: copies that are leaving it stay
    #[command(after_help = "Example:\n  gabion host maintenance exit host2")]
    Exit {
        /// Its name
        host: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum WhatIfCommand {
    /// A host is lost: which volumes are reduced or out of service, and whether all can be made
    /// again
    #[command(after_help = "Example:\n  gabion what-if host-failure host2")]
    HostFailure {
        /// Its name
        host: String,
    },
    /// Volumes follow a policy: what is copied, given back and kept, whether it fits, and whether
    /// there are hosts enough
    #[command(after_help = "Examples:
  gabion what-if policy gold                    all volumes
  gabion what-if policy gold --volume db --volume web
To do it: gabion volume set-policy VOLUME POLICY")]
    Policy {
        /// The policy
        policy: String,
        /// A volume; all that there are unless any is named
        #[arg(long = "volume", value_name = "VOLUME")]
        volumes: Vec<String>,
    },
}

const MODES: [MaintenanceMode; 3] =
    [MaintenanceMode::EnsureAccessibility, MaintenanceMode::FullEvacuation, MaintenanceMode::None];

fn modes() -> impl TypedValueParser<Value = MaintenanceMode> {
    let names = PossibleValuesParser::new(MODES.map(MaintenanceMode::name));
    names.map(|name| {
        let called = MODES.into_iter().find(|mode| mode.name() == name);
        called.unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, GabionCommand, HostCommand, MaintenanceCommand};
    use clap::Parser;
    use host::MaintenanceMode;

    #[test]
    fn each_mode_is_called_by_its_name() {
        let mode = |flags: &[&str]| {
            let line = ["gabion", "host", "maintenance", "enter", "h1"].iter().chain(flags);
            match Cli::try_parse_from(line).ok()?.command {
                GabionCommand::Host(HostCommand::Maintenance(MaintenanceCommand::Enter {
                    mode,
                    ..
                })) => Some(mode),
                _ => None,
            }
        };
        assert_eq!(mode(&[]), Some(MaintenanceMode::EnsureAccessibility));
        assert_eq!(mode(&["--mode", "full-evacuation"]), Some(MaintenanceMode::FullEvacuation));
        assert_eq!(mode(&["--mode", "none"]), Some(MaintenanceMode::None));
        assert_eq!(mode(&["--mode", "some"]), None);
    }
}
