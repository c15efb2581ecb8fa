// SPDX-License-Identifier: Apache-2.0
//! `gabion health`: its commands and flags.

use clap::{Args, Subcommand};
use std::time::Duration;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  gabion health                            what is wrong, what that means, and what mends it
  gabion health --all                      all checks
  gabion health --output json
The exit code is 0 where all is green, 3 where something is yellow, 4 where something is red, and
1 where nobody could be asked. What is silenced does not count."
)]
pub struct HealthArgs {
    /// Show what is green, too
    #[arg(long)]
    pub all: bool,
    #[command(subcommand)]
    pub command: Option<HealthCommand>,
}

#[derive(Debug, Subcommand)]
pub enum HealthCommand {
    /// Show one check: what it found, since when, what that means, and what mends it
    #[command(after_help = "Example:\n  gabion health show capacity.hosts")]
    Show {
        /// Its id, as 'gabion health --all' shows it
        check: String,
    },
    /// Have a check not count for a while: what it found is known
    #[command(after_help = "Examples:
  gabion health silence hosts.answering --for 2h --reason \"host3 gets new memory\"
  gabion health silence capacity.after-loss --for 30d --reason \"two hosts are enough here\"
Each machine keeps what is silenced there: in a cluster of several machines, say it on each.")]
    Silence {
        /// Its id
        check: String,
        /// For how long, at most 30 days
        #[arg(long = "for", value_parser = time, value_name = "TIME")]
        time: Duration,
        /// Why, for others
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Have a check count again
    #[command(after_help = "Example:\n  gabion health unsilence hosts.answering")]
    Unsilence {
        /// Its id
        check: String,
    },
    /// Show when which check went from which state to which, the newest first
    #[command(after_help = "Examples:
  gabion health history
  gabion health history --last 500 --output json
Each machine keeps what it saw.")]
    History {
        /// How many, the newest of them
        #[arg(long, default_value_t = 50, value_name = "N")]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
        last: u16,
    },
}

fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write for example 45min, 2h or 3d"))?;
    match time.as_secs() {
        1..=2_592_000 => Ok(time),
        _ => Err("a silence lasts from a second to 30 days".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, GabionCommand, HealthCommand};
    use clap::Parser;
    use operator::health::checks;

    #[test]
    fn a_silence_has_a_time_and_a_reason() {
        let silence = |line: &str| {
            let line = format!("gabion health silence hosts.answering {line}");
            let cli = Cli::try_parse_from(line.split_whitespace()).ok()?;
            match cli.command {
                GabionCommand::Health(args) => args.command,
                _ => None,
            }
        };
        let Some(HealthCommand::Silence { time, reason, .. }) = silence("--for 2h --reason known")
        else {
            panic!("a silence")
        };
        assert_eq!((time.as_secs(), reason.as_str()), (7200, "known"));
        for bad in ["", "--for 2h", "--reason x", "--for 31d --reason x", "--for 0s --reason x"] {
            assert!(silence(bad).is_none(), "{bad}");
        }
    }

    /// What checks say mends something can be typed.
    #[test]
    fn each_command_that_mends_is_one() {
        // Of machines of their own: there is no command of ours for what no host of them runs.
        const OTHERS: [&str; 2] = ["ssh HOST systemctl start gabion", "timedatectl set-ntp true"];
        let mut count = 0;
        for (check, mend) in checks().flat_map(|check| check.mend.iter().map(move |it| (check, it)))
        {
            if OTHERS.contains(mend) {
                continue;
            }
            let words = mend.split(' ').map(|word| if word == "ROLE" { "viewer" } else { word });
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{}: '{mend}': {}", check.id, parsed.expect_err("wrong"));
            count += 1;
        }
        assert!(count > 30, "{count}");
        let wrong = Cli::try_parse_from("gabion host begin HOST".split(' '));
        assert!(wrong.is_err(), "what is no command is found");
    }
}
