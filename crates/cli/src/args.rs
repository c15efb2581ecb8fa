// SPDX-License-Identifier: Apache-2.0
//! The command line's grammar.

use crate::door::SocketArgs;
use base::parse_size;
use clap::{Args, Parser, Subcommand, ValueEnum};
use host::ClusterKind;
use std::path::PathBuf;

mod audit;

pub use audit::AuditCommand;

mod api;
pub use self::api::ApiCommand;
mod notify;
mod orphan;

pub use notify::{NotifyAddArgs, NotifyCommand};
pub use orphan::{DirectoryCommand, OrphanCommand};

mod machine;

pub use machine::{CreateArgs, DaemonArgs, HostArgs, JoinArgs};

mod kind;

use kind::cluster_kind;

mod domain;

pub use domain::{AssignArgs, DomainCommand};

mod health;
mod hosts;

pub use health::{HealthArgs, HealthCommand};
pub use hosts::HostCommand;

mod maintenance;

pub use maintenance::{MaintenanceCommand, WhatIfCommand};

mod pages;
mod performance;

pub use pages::PagesCommand;
pub use performance::{PerformanceArgs, PerformanceCommand, TopArgs};

mod policy;

pub use policy::{PolicyCommand, RulesArgs};

mod repair;

pub use repair::{RepairCommand, SetCommand, Switch};

mod resync;

pub use resync::ResyncCommand;

mod scrub;

pub use scrub::ScrubCommand;

mod support;
mod token;
mod user;

pub use support::SupportArgs;
pub use token::TokenCommand;
pub use user::UserCommand;

mod volume;

pub use volume::{NewVolumeArgs, VolumeCommand};

/// Smallest cache device: below it, commits and destage have no room to overlap.
pub const CACHE_SIZE_MIN: u64 = 64 << 20;
/// Smallest capacity device.
pub const CAPACITY_SIZE_MIN: u64 = 128 << 20;
/// Largest device file that makes sense on one machine.
const DEVICE_SIZE_MAX: u64 = 64 << 40;

/// Gabion: the local disks of ordinary servers as one replicated store of virtual disks.
#[derive(Debug, Parser)]
#[command(name = "gabion", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  gabion up --detach                       start a cluster of three hosts on this machine
  gabion volume create web --size 20GiB    create a virtual disk with two copies
  gabion volume show web                   its health and its NBD URIs
  gabion status                            how everything is
  gabion health                            what is wrong, and what mends it
  gabion top                               what is done now")]
pub struct Cli {
    /// Folder of the cluster on this machine
    #[arg(long, global = true, env = "GABION_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration of this host, in a cluster of several machines
    #[arg(long, global = true, env = "GABION_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How to print results
    #[arg(long, global = true, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    #[command(subcommand)]
    pub command: GabionCommand,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables for people
    Table,
    /// JSON for programs
    Json,
}

#[derive(Debug, Subcommand)]
pub enum GabionCommand {
    /// Start a cluster on this machine, or start it again
    Up(UpArgs),
    /// Stop the cluster on this machine; its data stays
    Down,
    /// Show the state of the cluster
    #[command(after_help = "Examples:
  gabion status
  gabion status --watch                    again every second, until Ctrl-C
A host that has not answered for a second is 'not answering', one whose lease has ended is 'down'.
A volume is 'reduced' while it has fewer copies that answer than its policy asks for.")]
    Status {
        /// Show it again every second, until Ctrl-C; with JSON, one line each time
        #[arg(long)]
        watch: bool,
    },
    /// Show what is wrong, what that means for the data, and which command mends it
    Health(HealthArgs),
    /// Who is told of what health checks find: by webhook, mail or syslog
    #[command(subcommand, arg_required_else_help = true)]
    Notify(NotifyCommand),
    /// Show what is done now, live: volumes, hosts, disk groups, sorted by load
    Top(TopArgs),
    /// What was done over time, up to 90 days back
    #[command(subcommand, arg_required_else_help = true)]
    Performance(PerformanceCommand),
    /// Look at and control hosts
    #[command(subcommand, arg_required_else_help = true)]
    Host(HostCommand),
    /// Create, look at, change and delete volumes
    #[command(subcommand, arg_required_else_help = true)]
    Volume(VolumeCommand),
    /// Rules under a name, which many volumes follow
    #[command(subcommand, arg_required_else_help = true)]
    Policy(PolicyCommand),
    /// Hosts that may fail together, as those of one rack do: no two copies are in one domain
    #[command(subcommand, arg_required_else_help = true)]
    Domain(DomainCommand),
    /// What would be if something happened; nothing is changed
    #[command(subcommand, arg_required_else_help = true)]
    WhatIf(WhatIfCommand),
    /// Read everything on the capacity devices and repair what is bad
    #[command(subcommand, arg_required_else_help = true)]
    Scrub(ScrubCommand),
    /// List, inspect and replace devices
    #[command(subcommand, arg_required_else_help = true)]
    Disk(DiskCommand),
    /// Look at disk groups; make, extend, close, open and remove them while volumes are in use
    #[command(subcommand, arg_required_else_help = true)]
    Group(GroupCommand),
    /// Back up and restore the directory, the cluster's records
    #[command(subcommand, arg_required_else_help = true)]
    Directory(DirectoryCommand),
    /// Data that the directory does not account for: it is kept, but not served and not deleted
    #[command(subcommand, arg_required_else_help = true)]
    Orphan(OrphanCommand),
    /// Make a cluster of several machines; its settings; recover one whose directory was lost
    #[command(subcommand, arg_required_else_help = true)]
    Cluster(ClusterCommand),
    /// Make missing copies again on other hosts, at once
    #[command(subcommand, arg_required_else_help = true)]
    Repair(RepairCommand),
    /// Look at what is being copied to copies that are behind or new
    #[command(subcommand, arg_required_else_help = true)]
    Resync(ResyncCommand),
    /// Programs that may ask the API over the network
    #[command(subcommand, arg_required_else_help = true)]
    Token(TokenCommand),
    /// People who may ask the API over the network
    #[command(subcommand, arg_required_else_help = true)]
    User(UserCommand),
    /// Who changed what, from where, and what came of it
    #[command(subcommand, arg_required_else_help = true)]
    Audit(AuditCommand),
    /// Gather what somebody who helps wants to see into one file, without secrets
    SupportBundle(SupportArgs),
    /// The API, for programs
    #[command(subcommand)]
    Api(ApiCommand),
    /// Run this host's daemon in the foreground (what the systemd unit does)
    Daemon(DaemonArgs),
    #[command(flatten)]
    Pages(PagesCommand),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  gabion up                                in the foreground, Ctrl-C stops it
  gabion up --detach --data /srv/gabion    in the background, data in /srv/gabion
  gabion up --sparse --detach              capacity takes disk space as it is written
  gabion up --processes --detach           one process per host, with etcd
  gabion up --hosts 5 --capacity-size 20GiB")]
pub struct UpArgs {
    /// Hosts of a new cluster [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=16), value_name = "N")]
    pub hosts: Option<u32>,
    /// Size of each cache device of a new cluster [default: 1GiB]
    #[arg(long, value_parser = cache_size, value_name = "SIZE")]
    pub cache_size: Option<u64>,
    /// Size of each capacity device of a new cluster [default: 4GiB]
    #[arg(long, value_parser = capacity_size, value_name = "SIZE")]
    pub capacity_size: Option<u64>,
    /// Let the capacity devices of a new cluster take disk space as they are written, not at once:
    /// where the disk below gets full, they fail
    #[arg(long)]
    pub sparse: bool,
    /// Do not ask before disk space is taken
    #[arg(long)]
    pub yes: bool,
    /// Shards per host of a new cluster, each with a thread and disk groups of its own [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=5), value_name = "N")]
    pub shards: Option<u32>,
    /// Disk groups per host of a new cluster [default: one for each shard]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=5), value_name = "N")]
    pub groups: Option<u32>,
    /// Capacity devices per disk group of a new cluster [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=7), value_name = "N")]
    pub capacity_per_group: Option<u32>,
    /// For tests and benchmarks: make the capacity devices of a new cluster as slow as magnetic
    /// disks of 7200 rpm would be (150 MB/s, 8 ms to a random place)
    #[arg(long)]
    pub magnetic_capacity: bool,
    /// What the disk groups of a new cluster are: all-flash, or hybrid for magnetic capacity, which
    /// keeps what is read on the cache device too [default: all-flash]
    #[arg(long, value_parser = cluster_kind, value_name = "KIND")]
    pub kind: Option<ClusterKind>,
    /// Use devices even where what is known of them does not fit the kind of the cluster
    #[arg(long)]
    pub ignore_device_kind: bool,
    /// Part of each cache device of a new hybrid cluster that is read cache [default: 70]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=90), value_name = "PERCENT")]
    pub read_cache_percent: Option<u8>,
    #[command(flatten)]
    pub socket: SocketArgs,
    /// One process per host and an etcd, instead of one process with a thread per host
    #[arg(long)]
    pub processes: bool,
    /// Return when the cluster is ready
    #[arg(long)]
    pub detach: bool,
    /// Run as the background half of --detach
    #[arg(long, hide = true)]
    pub background: bool,
}

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// List the disk groups of all hosts that answer
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  gabion group list
  gabion group list --output json"
    )]
    List,
    /// Show one disk group: devices, where their space is, write buffer, components
    #[command(after_help = "Examples:
  gabion group show 1f2e3d4c5b6a7988
  gabion group show 1f2e                   its first digits are enough where no other begins so")]
    Show {
        /// Its id, as 'gabion group list' shows it, or the first digits
        group: String,
    },
    /// Make a disk group of empty devices on a running host; new volumes may use it at once
    #[command(after_help = "Examples:
  gabion group create --cache /dev/nvme1n1 --capacity /dev/sdb --capacity /dev/sdc
  gabion group create --host host2 --cache c1.img --capacity d1.img --create-files 1GiB")]
    Create(GroupCreateArgs),
    /// Add an empty capacity device to a disk group; for a moment its volumes are served by their
    /// other copies
    #[command(after_help = "Examples:
  gabion group add-disk 1f2e /dev/sdd
  gabion group add-disk 1f2e gabion-data/host2/more.img --create-files 4GiB")]
    AddDisk(AddDiskArgs),
    /// Take a disk group out of service: its volumes are served by their other copies
    #[command(after_help = "Examples:
  gabion group close 1f2e
  gabion group close /dev/nvme1n1          any of its devices names it
Its devices may be looked at and moved then; 'gabion group open' brings it back.")]
    Close {
        /// Its id, the first digits, or one of its devices
        group: String,
        /// Close it even where volumes have no other copy now: their I/O stands still
        #[arg(long)]
        stop_volumes: bool,
    },
    /// Open a disk group that was closed, did not open, or takes no writes after a device failed
    #[command(after_help = "Example:\n  gabion group open 1f2e")]
    Open {
        /// Its id, the first digits, or one of its devices
        group: String,
    },
    /// Give up a disk group that holds nothing; its devices may be used for something else then
    #[command(visible_alias = "rm", after_help = "Example:\n  gabion group remove 1f2e")]
    Remove {
        /// Its id, the first digits, or one of its devices
        group: String,
    },
}

/// What may be done with new devices.
#[derive(Args, Debug)]
pub struct NewDeviceArgs {
    /// Create device files of this size where there is nothing at their paths
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub create_files: Option<u64>,
    /// Use devices even if they hold other data: it is lost
    #[arg(long)]
    pub wipe: bool,
    /// Use devices even where the system says that they do not fit: it may be wrong of virtual
    /// disks
    #[arg(long)]
    pub ignore_device_kind: bool,
}

#[derive(Args, Debug)]
pub struct GroupCreateArgs {
    /// The host, where several run on this machine
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The cache device
    #[arg(long, value_name = "DEVICE")]
    pub cache: String,
    /// A capacity device; one to seven
    #[arg(long, required = true, value_name = "DEVICE")]
    pub capacity: Vec<String>,
    /// What it is: all-flash, or hybrid for magnetic capacity [default: what new groups of the
    /// cluster are, 'gabion cluster show']
    #[arg(long, value_parser = cluster_kind, value_name = "KIND")]
    pub kind: Option<ClusterKind>,
    #[command(flatten)]
    pub new: NewDeviceArgs,
}

#[derive(Args, Debug)]
pub struct AddDiskArgs {
    /// The group: its id, the first digits, or one of its devices
    pub group: String,
    /// The new device
    pub device: String,
    #[command(flatten)]
    pub new: NewDeviceArgs,
}

#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// List the devices of all hosts that answer
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  gabion disk list
  gabion disk list --output json"
    )]
    List,
    /// Check every structure of a device that no running host uses; nothing is written
    #[command(after_help = "Examples:
  gabion disk inspect /dev/nvme0n1
  gabion disk inspect gabion-data/host1/capacity0-0.img --read-blocks
The exit code is 0 where nothing that was written is gone, 1 where something is.")]
    Inspect(InspectArgs),
    /// Give a disk group a new device in the place of one that was lost: what was on it comes back
    /// from the other copies
    #[command(after_help = "Examples:
  gabion disk replace gabion-data/host2/capacity0-0.img
  gabion disk replace /dev/nvme1n1 --with /dev/nvme4n1 --wipe
A new cache device costs what was in the write buffer alone, a new capacity device the components
on it. Refused where a volume has its only whole copy there. A host that runs goes on running.")]
    Replace(ReplaceArgs),
}

#[derive(Args, Debug)]
pub struct ReplaceArgs {
    /// The device as the host's configuration names it
    pub device: String,
    /// Use this device in its place
    #[arg(long, value_name = "DEVICE")]
    pub with: Option<String>,
    /// Use the other device even if it holds data: it is lost
    #[arg(long, requires = "with")]
    pub wipe: bool,
    /// Use devices even where the system says that they do not fit: it may be wrong of virtual
    /// disks
    #[arg(long)]
    pub ignore_device_kind: bool,
    /// Create device files of this size where there is nothing at their paths
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub create_files: Option<u64>,
    /// Make the whole disk group anew, not the device alone
    #[arg(long)]
    pub whole_group: bool,
    /// Give up volumes that have no other whole copy, and make the whole disk group anew
    #[arg(long)]
    pub lose_data: bool,
}

#[derive(Args, Debug)]
pub struct InspectArgs {
    /// The device, or its file
    pub device: String,
    /// Read every block that holds data and compare it with its checksum
    #[arg(long)]
    pub read_blocks: bool,
}

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make a new cluster with this machine as its first host: writes its configuration
    #[command(after_help = "Examples:
  gabion cluster create --name host1 --address 10.0.0.1 \\
      --cache /dev/nvme0n1 --capacity /dev/nvme1n1
  systemctl enable --now gabion
The hosts keep the directory by themselves, with the etcd that is installed: on the first one, then
on the first three, or five. With --etcd URL they use one that is run by hand.")]
    Create(Box<CreateArgs>),
    /// Begin the directory anew where it was lost and there is no backup; volumes are then made
    /// again from what is on the disks
    #[command(after_help = "Examples:
  gabion cluster recover
  gabion orphan list
  gabion orphan adopt web")]
    Recover,
    /// Show the settings of the cluster
    Show,
    /// Change a setting of the cluster
    #[command(subcommand, arg_required_else_help = true)]
    Set(SetCommand),
    /// Let the cluster use what came with the release that all of its hosts have by now
    #[command(after_help = "Examples:
  gabion cluster upgrade --check           what each host knows, and what it would come to
  gabion cluster upgrade
Start the hosts with the new release first, one after the other ('gabion host maintenance'). Until
the cluster is upgraded each of them can go back to the release before; after it none can.")]
    Upgrade {
        /// Only tell what it would come to
        #[arg(long)]
        check: bool,
    },
}

fn device_size(text: &str, min: u64) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size < min || size > DEVICE_SIZE_MAX || !size.is_multiple_of(1 << 20) {
        return Err(format!(
            "a device has a multiple of 1MiB, at least {} and at most {}",
            base::format_size(min),
            base::format_size(DEVICE_SIZE_MAX)
        ));
    }
    Ok(size)
}

fn cache_size(text: &str) -> Result<u64, String> {
    device_size(text, CACHE_SIZE_MIN)
}

fn capacity_size(text: &str) -> Result<u64, String> {
    device_size(text, CAPACITY_SIZE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_volume_is_changed_in_one_way_at_least() {
        let change = |line: &str| {
            let line = format!("gabion volume change {line}");
            Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
        };
        let said = |line: &str| match change(line) {
            Ok(GabionCommand::Volume(VolumeCommand::Change {
                name,
                reserve,
                ftt,
                force: false,
                connections,
                writers: None,
                ..
            })) => (name, reserve, ftt, connections),
            other => panic!("{other:?}"),
        };
        assert!(change("db --on host2").is_ok() && change("db --anywhere").is_ok());
        assert!(change("db --on host2 --anywhere").is_err(), "one of the two");
        assert_eq!(said("db --reserve 40"), ("db".to_owned(), Some(40), None, None));
        assert_eq!(said("db --ftt 2"), ("db".to_owned(), None, Some(2), None));
        let exclusive = Some(host::Connections::Exclusive);
        assert_eq!(said("db --connections exclusive"), ("db".to_owned(), None, None, exclusive));
        for bad in [
            "db",
            "db --connections some",
            "--reserve 4",
            "db --reserve 101",
            "db --reserve -1",
            "db --reserve 4%",
        ] {
            assert!(change(bad).is_err(), "{bad}");
        }
    }

    fn scrub(line: &str) -> Result<ScrubCommand, clap::Error> {
        let cli = Cli::try_parse_from(format!("gabion scrub {line}").split_whitespace())?;
        match cli.command {
            GabionCommand::Scrub(command) => Ok(command),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_backup_comes_from_a_file_or_from_a_host() {
        let restore = |line: &str| {
            let line = format!("gabion directory restore {line}");
            Cli::try_parse_from(line.split_whitespace()).is_ok()
        };
        for good in ["a.gdb", "--replace a.gdb", "--from-host a", "--from-host a --backup 3"] {
            assert!(restore(good), "{good}");
        }
        for bad in ["", "--replace", "a.gdb --from-host a", "a.gdb --backup 3", "--backup 3"] {
            assert!(!restore(bad), "{bad}");
        }
    }

    #[test]
    fn scrub_takes_a_rate_and_a_host() {
        assert!(matches!(scrub("status"), Ok(ScrubCommand::Status)));
        assert!(matches!(scrub("start"), Ok(ScrubCommand::Start { rate: None, host: None })));
        for (text, bytes) in [("32M", 32 << 20), ("1.5GiB", 3 << 29), ("70000", 70_000)] {
            let Ok(ScrubCommand::Start { rate, host }) = scrub(&format!("start --rate {text}"))
            else {
                panic!("{text}")
            };
            assert_eq!((rate, host), (Some(bytes), None));
        }
        let Ok(ScrubCommand::Pause { host }) = scrub("pause --host host2") else { panic!("host") };
        assert_eq!(host.as_deref(), Some("host2"));
        for bad in ["", "stop", "start --rate", "start --rate fast", "start --rate -1M", "pause x"]
        {
            assert!(scrub(bad).is_err(), "{bad}");
        }
    }
}
