// SPDX-License-Identifier: Apache-2.0
//! The grammar of the commands about the directory and about what it lost.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum DirectoryCommand {
    /// Write all records of the cluster to a file, while the cluster runs
    #[command(after_help = "Example:\n  gabion directory backup /backup/gabion-$(date +%F).gdb")]
    Backup {
        /// The file; it must not exist
        file: PathBuf,
    },
    /// List the backups that the hosts took by themselves and keep on their disk groups
    #[command(after_help = "Examples:
  gabion directory backups
  gabion directory backups --output json
Each host takes one a day, and one some minutes after volumes or hosts came or went; the three
newest are kept. 'gabion directory restore --from-host HOST' puts one back.")]
    Backups,
    /// Make the directory hold what a backup holds
    #[command(after_help = "Examples:
  gabion directory restore /backup/gabion-2026-11-22.gdb
  gabion directory restore --replace old.gdb     also where the directory holds volumes
  gabion directory restore --from-host host1     the newest that host1 keeps on its disk groups
  gabion directory restore --from-host host1 --backup 7
What is younger than the backup is in no record then: it is kept and not served, 'gabion orphan
list' shows it and 'gabion orphan adopt' makes it again. Run it again after an interruption.")]
    Restore {
        /// The file
        #[arg(required_unless_present = "from_host")]
        file: Option<PathBuf>,
        /// Restore a backup that this host keeps on its disk groups, instead of a file
        #[arg(long, value_name = "HOST", conflicts_with = "file")]
        from_host: Option<String>,
        /// Its number, as 'gabion directory backups' shows it; the newest otherwise
        #[arg(long, value_name = "NUMBER", requires = "from_host", conflicts_with = "file")]
        backup: Option<u64>,
        /// Restore even where the directory holds volumes: it then holds what the backup holds
        #[arg(long)]
        replace: bool,
    },
    /// Show on which hosts the directory is, and whether they answer
    #[command(after_help = "Examples:
  gabion directory members
  gabion directory members --output json
The directory is on one host, or on three or five, each in a fault domain of its own where there are
as many. It moves by itself: off hosts that were taken out of the cluster, and off hosts that do not
answer for ten minutes.")]
    Members,
    /// Go on with what this host has of the directory, where most hosts with it are gone for good
    #[command(after_help = "Example:
  gabion directory go-on-alone --yes
Run it on the host that has the directory, with its daemon running. The other hosts that had it must
be gone for good, or get to hear of it: start none of them before 'gabion directory members' answers
here. The directory may have fallen back by some changes: see 'gabion status' then. Where no host
with the directory is left, --empty begins it anew on this host; then 'gabion cluster recover'.")]
    GoOnAlone {
        /// Begin with an empty directory where this host has nothing of it
        #[arg(long)]
        empty: bool,
        /// Confirm that the other hosts with the directory are gone for good
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum OrphanCommand {
    /// List the components on all hosts that are in no record, or know of newer ones
    #[command(after_help = "Examples:
  gabion orphan list
  gabion orphan list --output json")]
    List,
    /// Show all that is known of the components of one volume or object
    #[command(after_help = "Example:\n  gabion orphan show web")]
    Show {
        /// The volume's name or id, the object's or the component's id
        volume: String,
    },
    /// Make a volume again from its components
    #[command(after_help = "Examples:
  gabion orphan adopt web
  gabion orphan adopt 1f2e3d4c5b6a7988 --name web-old
  gabion orphan adopt --all
Copies that are not surely whole are copied again. Where none is, or one is not found that may have
newer writes, nothing is done; start all hosts first. --force then takes the best copy that was
whole when it was last heard of: the last writes may be missing. --all says what it did with each
volume; its exit code is 1 if some were refused, and it can be run again.")]
    Adopt {
        /// Its name or id, as 'gabion orphan list' shows them
        #[arg(required_unless_present = "all")]
        volume: Option<String>,
        /// Adopt every volume that can be adopted without --force
        #[arg(long, conflicts_with_all = ["volume", "name", "force"])]
        all: bool,
        /// Its new name, where another volume has its name now
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Take the best copy where none is surely whole
        #[arg(long)]
        force: bool,
    },
    /// Delete a volume's components for good
    #[command(after_help = "Example:
  gabion orphan delete web --yes
Of a volume that is in the directory these are copies that its record went on without: the volume
stays as it is.")]
    Delete {
        /// The volume's name or id; the object's id where it has no name
        volume: String,
        /// Confirm that its data is not needed any more
        #[arg(long)]
        yes: bool,
    },
}
