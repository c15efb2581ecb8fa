// SPDX-License-Identifier: Apache-2.0
//! `gabion notify`: its commands and flags.

use clap::{ArgGroup, Args, Subcommand};
use operator::{MailTls, NoticeLevel};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub enum NotifyCommand {
    /// Have somebody told of what health checks find: by webhook, mail or syslog
    #[command(after_help = "Examples:
  gabion notify add pager --webhook https://hooks.example.com/gabion --secret-file pager.secret
  gabion notify add ops --email ops@example.com --smtp mail.example.com:587 \\
                        --user gabion --password-file smtp.password
  gabion notify add log --syslog logs.example.com:514
  gabion notify add here --syslog            the syslog of the host that tells
  gabion notify add night --email on-call@example.com --smtp localhost:25 --tls none \\
                          --from-state red --group hosts,objects
What is wrong already is told at once. Secrets are never shown again.")]
    Add(Box<NotifyAddArgs>),
    /// Show who is told, and who cannot be told
    #[command(visible_alias = "ls", after_help = "Example:\n  gabion notify list")]
    List,
    /// Show one receiver
    #[command(after_help = "Example:\n  gabion notify show ops")]
    Show {
        /// Its name
        name: String,
    },
    /// Tell a receiver nothing more
    #[command(visible_alias = "rm", after_help = "Example:\n  gabion notify delete ops")]
    Delete {
        /// Its name
        name: String,
    },
    /// Send a receiver a message that says that it is a test, and show what it answered
    #[command(after_help = "Example:\n  gabion notify test ops")]
    Test {
        /// Its name
        name: String,
    },
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("way").required(true).args(["webhook", "email", "syslog"])))]
pub struct NotifyAddArgs {
    /// Its name
    pub name: String,
    /// Post messages to this URL (https, or http), as JSON
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// Sign them with the first line of this file, as Standard Webhooks has it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["email", "syslog"])]
    pub secret_file: Option<PathBuf>,
    /// Send mail to this address
    #[arg(long, value_name = "ADDRESS", requires = "smtp")]
    pub email: Option<String>,
    /// By this mail server
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["webhook", "syslog"])]
    pub smtp: Option<String>,
    /// From this address [default: gabion at the domain of the other one]
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["webhook", "syslog"])]
    pub from: Option<String>,
    /// Sign in at the mail server as this user
    #[arg(long, value_name = "NAME", requires = "password_file")]
    #[arg(conflicts_with_all = ["webhook", "syslog"])]
    pub user: Option<String>,
    /// With the first line of this file as the password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// How the connection to the mail server is kept from others: starttls, tls or none
    #[arg(long, value_parser = tls, default_value = "starttls", value_name = "HOW")]
    pub tls: MailTls,
    /// Send lines of syslog to this host, or to the syslog of the host that tells
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1)]
    pub syslog: Option<Option<String>>,
    /// Over TCP, where not over UDP
    #[arg(long, conflicts_with_all = ["webhook", "email"])]
    pub tcp: bool,
    /// Believe a server of this CA, PEM [default: those that the host trusts]
    #[arg(long, value_name = "FILE", conflicts_with = "syslog")]
    pub ca_file: Option<PathBuf>,
    /// Tell what is as bad or worse: yellow or red
    #[arg(long, value_parser = level, default_value = "yellow", value_name = "STATE")]
    pub from_state: NoticeLevel,
    /// Tell of these groups of checks alone, as 'gabion health --all' shows them
    #[arg(long = "group", value_delimiter = ',', value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Tell again what is still wrong, after an hour to 30 days; or 'never'
    #[arg(long, value_parser = remind, default_value = "1d", value_name = "TIME")]
    pub remind: RemindTime,
}

/// After which time somebody is reminded; none: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemindTime(pub Option<Duration>);

fn tls(text: &str) -> Result<MailTls, String> {
    match text {
        "starttls" => Ok(MailTls::Starttls),
        "tls" => Ok(MailTls::Tls),
        "none" => Ok(MailTls::None),
        _ => Err("it is starttls, tls or none".to_owned()),
    }
}

fn level(text: &str) -> Result<NoticeLevel, String> {
    match text {
        "yellow" => Ok(NoticeLevel::Yellow),
        "red" => Ok(NoticeLevel::Red),
        _ => Err("it is yellow or red".to_owned()),
    }
}

fn remind(text: &str) -> Result<RemindTime, String> {
    if text == "never" {
        return Ok(RemindTime(None));
    }
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write for example 4h, 1d or never"))?;
    match time.as_secs() {
        3600..=2_592_000 => Ok(RemindTime(Some(time))),
        _ => Err("it is an hour to 30 days, or never".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn a_receiver_is_told_on_one_way() {
        let add = |line: &str| {
            let line = format!("gabion notify add ops {line}");
            Cli::try_parse_from(line.split_whitespace()).is_ok()
        };
        for good in [
            "--webhook https://a.example",
            "--webhook https://a.example --secret-file f --remind never --group hosts,objects",
            "--email a@b.c --smtp m:25 --tls none",
            "--email a@b.c --smtp m:25 --user u --password-file f --from g@b.c",
            "--syslog",
            "--syslog l:514 --tcp --from-state red",
        ] {
            assert!(add(good), "{good}");
        }
        for bad in [
            "",
            "--webhook https://a.example --syslog",
            "--email a@b.c",
            "--email a@b.c --smtp m:25 --user u",
            "--email a@b.c --smtp m:25 --secret-file f",
            "--webhook https://a.example --tcp",
            "--syslog --remind 1min",
            "--syslog --from-state green",
        ] {
            assert!(!add(bad), "{bad}");
        }
    }
}
