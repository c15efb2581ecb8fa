// SPDX-License-Identifier: Apache-2.0
//! `gabion`: the operator's tool and the daemon, one binary.
//!
//! Exit codes: 0 done, 1 failed, 2 the request itself is wrong; `gabion health` has 3 and 4
//! besides, for yellow and red. Every failure is one line on
//! standard error that says what to do.
//!
//! Its rooms see each other from top to bottom only. `xtask tidy` checks that no two modules import
//! each other.
//!
//! ```text
//! command line       main, args, door      what was asked, and who carries it out
//! operator           commands, hosts       the cluster and its hosts
//!                    watch, health, performance, top
//!                    volume, orphan, scrub, token, user, audit, notify, support
//!                    group, reshape, disk, replace, latency, wear
//!                    directory, machine    the directory; a host of a cluster of several machines
//!                    gather                the answers of all hosts as one report
//!                    pages                 completions and manual pages
//! whom to ask        target                a cluster on this machine, or this machine's host
//! this machine       local                 a cluster that `gabion up` makes and keeps running
//! one host           daemon, shards, serve
//! below all          config, devices       host.toml; devices of disk groups
//!                    beside                what health checks look at beside the shards
//!                    group_files           what the API writes into them
//!                    labels                labels of volumes, as they are written
//!                    figures               performance, as it is written
//!                    cpu                   how long the threads of shards ran
//!                    memory                what the machine has, what a host says of its own
//!                    client                a question to a host
//!                    keeper, leash         what this process keeps running, and what ends with it
//!                    ask, output, program  the person at the terminal; this program once more
//! ```
#![forbid(unsafe_code)]

mod args;
mod ask;
mod audit;
mod beside;
mod client;
mod commands;
mod config;
mod cpu;
mod daemon;
mod devices;
mod directory;
mod disk;
mod domain;
mod door;
mod explain;
mod figures;
mod group;
mod group_files;
mod health;
mod hosts;
mod labels;
mod latency;
mod leash;
mod life;
mod local;
mod machine;
mod maintenance;
mod member;
mod memory;
mod notify;
mod orphan;
mod output;
mod pages;
mod performance;
mod pick;
mod policy;
mod program;
mod repair;
mod replace;
mod reshape;
mod resync;
mod scrub;
mod serve;
mod shards;
mod support;
mod target;
mod token;
mod top;
mod upgrade;
mod user;
mod volume;
mod watch;
mod wear;
mod writers;

use args::{Cli, ClusterCommand, GabionCommand, HostCommand};
use clap::{CommandFactory, Parser};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use target::TargetHost;

/// jemalloc, because the system's allocator splits its arenas around aligned buffers and keeps
/// freed memory between them: a process that used 0.3 GiB held 2.6 GiB. See
/// `docs/decisions/2026-11-22-allocator.md`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Cargo gives all programs of one build the same features, those of the campaigns too.
const _: () = assert!(
    host::KEEPS_ALL_RULES || cfg!(debug_assertions),
    "build gabion by itself, with `cargo build --release --package cli`: beside gabion-storm or \
     gabion-chaos it would contain the switches that break rules on purpose"
);

/// A failure that knows whether the request was wrong.
#[derive(Debug)]
pub struct Fail {
    usage: bool,
    message: String,
}

impl Fail {
    /// The request is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { usage: true, message: message.into() }
    }

    /// The request is right, but it could not be done.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { usage: false, message: message.into() }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fail {}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match run(&cli) {
        Ok(code) => code,
        Err(error) => {
            let is_usage = error.downcast_ref::<Fail>().is_some_and(|fail| fail.usage);
            if is_usage {
                let help = meant(std::env::args().skip(1));
                complain(&format!("{error:#} (see '{help} --help')"));
            } else {
                complain(&format!("{error:#}"));
            }
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// Writes one line to standard error. If standard error is closed, nobody wants to know.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "gabion: {message}");
}

/// Prints help and version as they are; a mistake becomes one line.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !error.use_stderr() {
        let _ = error.print();
        return ExitCode::from(if help { 2 } else { 0 });
    }
    let text = error.to_string();
    let mut words: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        if !line.is_empty() {
            words.push(line);
        }
    }
    let message = words.join(" ");
    let message = message.trim_start_matches("error: ");
    complain(&format!("{message} (see '{} --help')", meant(std::env::args().skip(1))));
    ExitCode::from(2)
}

/// The subcommand that a command line was meant for, as far as its words tell.
fn meant(words: impl Iterator<Item = String>) -> String {
    let root = Cli::command();
    let takes_value = |word: &str| {
        let long = word.strip_prefix("--").unwrap_or_default();
        let mut options = root.get_arguments();
        options.any(|option| option.get_long() == Some(long))
    };
    let (mut at, mut path) = (&root, "gabion".to_owned());
    let mut is_value = false;
    for word in words {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if word.starts_with('-') {
            // Only options that all commands have can stand before a subcommand.
            is_value = takes_value(&word);
            continue;
        }
        let Some(next) = at.find_subcommand(&word) else { break };
        path = format!("{path} {}", next.get_name());
        at = next;
    }
    path
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let done = match &cli.command {
        GabionCommand::Disk(command) => return disk::disk(cli, command),
        GabionCommand::Health(args) => return health::health(cli, args),
        GabionCommand::Up(up) => local::up(cli, up, &|layout, cluster| {
            commands::status_line(&TargetHost::Local(layout.clone(), cluster.clone()))
        }),
        GabionCommand::Down => local::down(cli, &TargetHost::local(cli)?),
        GabionCommand::Status { watch: false } => commands::status(cli),
        GabionCommand::Status { watch: true } => watch::status(cli),
        GabionCommand::Top(args) => top::top(cli, args),
        GabionCommand::Performance(command) => performance::performance(cli, command),
        GabionCommand::Host(HostCommand::List) => hosts::list(cli),
        GabionCommand::Host(HostCommand::Show { host }) => hosts::show(cli, host),
        GabionCommand::Host(HostCommand::Kill { host }) => {
            local::kill(cli, &TargetHost::local(cli)?, host)
        }
        GabionCommand::Host(HostCommand::Start { host }) => {
            local::start(cli, &TargetHost::local(cli)?, host)
        }
        GabionCommand::Host(HostCommand::Join(join)) => machine::join(cli, join),
        GabionCommand::Host(HostCommand::Invite { expires_in }) => hosts::invite(cli, *expires_in),
        GabionCommand::Host(HostCommand::Remove { host, lost, yes }) => {
            hosts::remove(cli, host, *lost, *yes)
        }
        GabionCommand::Host(HostCommand::Maintenance(command)) => {
            maintenance::maintenance(cli, command)
        }
        GabionCommand::Domain(command) => domain::domain(cli, command),
        GabionCommand::WhatIf(command) => maintenance::what_if(cli, command),
        GabionCommand::Cluster(ClusterCommand::Create(join)) => machine::create(cli, join),
        GabionCommand::Cluster(ClusterCommand::Recover) => directory::recover(cli),
        GabionCommand::Cluster(ClusterCommand::Show) => repair::settings(cli),
        GabionCommand::Cluster(ClusterCommand::Set(command)) => repair::set(cli, command),
        GabionCommand::Cluster(ClusterCommand::Upgrade { check }) => upgrade::upgrade(cli, *check),
        GabionCommand::Repair(command) => repair::repair(cli, command),
        GabionCommand::Resync(command) => resync::resync(cli, command),
        GabionCommand::Directory(command) => directory::directory(cli, command),
        GabionCommand::Orphan(command) => orphan::orphan(cli, command),
        GabionCommand::Group(command) => group::group(cli, command),
        GabionCommand::Volume(command) => volume::volume(cli, command),
        GabionCommand::Policy(command) => policy::policy(cli, command),
        GabionCommand::Scrub(command) => scrub::scrub(cli, command),
        GabionCommand::Token(command) => token::token(cli, command),
        GabionCommand::User(command) => user::user(cli, command),
        GabionCommand::Notify(command) => notify::notify(cli, command),
        GabionCommand::Audit(command) => audit::audit(cli, *command),
        GabionCommand::SupportBundle(args) => support::support(cli, args),
        GabionCommand::Api(command) => serve::api(*command),
        GabionCommand::Daemon(daemon) => daemon::run(cli, daemon),
        GabionCommand::Pages(command) => pages::pages(command),
    };
    done.map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_usage_points_to_the_help_of_what_was_meant() {
        let help = |line: &str| meant(line.split_whitespace().map(str::to_owned));
        assert_eq!(help(""), "gabion");
        assert_eq!(help("frobnicate"), "gabion");
        assert_eq!(help("volume frobnicate"), "gabion volume");
        assert_eq!(help("volume create x --size ten"), "gabion volume create");
        assert_eq!(help("volume rm"), "gabion volume delete");
        assert_eq!(help("--data volume --output=xml status --colour"), "gabion status");
        assert_eq!(help("--output volume disk ls --x"), "gabion disk list");
    }
}
