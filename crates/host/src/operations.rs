// SPDX-License-Identifier: Apache-2.0
//! What an operator asks of a host, carried out with what the host is made of.
//!
//! | file | what it is |
//! |---|---|
//! | `control` | the door: a line over a Unix socket, a line back |
//! | `status` | what the host tells of the cluster and its volumes |
//! | `metrics` | what the host counts and measures |
//! | `groups` | what it tells of its disk groups and devices; changing them |
//! | `volumes` | creating, changing, growing, moving and deleting volumes |
//! | `policies` | rules under a name, and the volumes that follow them |
//! | `hosts` | taking a host out of the cluster |
//! | `receivers` | who is told of what health checks find |
//! | `domains` | hosts that may fail together |
//! | `maintenance` | hosts that are about to be stopped |
//! | `repair` | settings of the cluster, repair on demand |
//! | `scrub` | orders for scrub, and what it found |
//! | `orphan` | what the directory does not account for: shown, adopted, given up |
//! | `backups` | the directory's backups on this host: shown, put back |

mod access;
mod backups;
pub(crate) mod control;
mod domains;
mod groups;
mod hosts;
mod links;
mod maintenance;
mod metrics;
mod orphan;
mod policies;
mod receivers;
mod repair;
mod resync;
mod scrub;
mod status;
mod upgrade;
mod users;
mod volumes;

use crate::care::backups::Backups;
use crate::care::memory::MemoryWatch;
use crate::care::repair::Repairs;
use crate::care::scrub::Scrubbers;
use crate::cluster::seen::Seen;
use crate::cluster::view::View;
use crate::config::Tuning;
use crate::exports::HostExports;
use crate::storage::Storage;
use crate::storage::hardware::Devices;
use base::ShardId;
use directory::Directory;
use env::{Env, Notify};
use object::Objects;
use operator::{Command, CommandFailure, CommandReply, ErrorKind};
use serde::Serialize;
use volume::CreationOptions;

/// Carries out commands with what the host is made of.
pub(crate) struct Operations {
    pub(crate) env: Env,
    pub(crate) me: ShardId,
    pub(crate) cluster: u64,
    pub(crate) directory: Directory,
    pub(crate) objects: Objects,
    pub(crate) storage: Storage,
    pub(crate) scrubbers: Scrubbers,
    pub(crate) view: View,
    pub(crate) seen: Seen,
    pub(crate) exports: HostExports,
    pub(crate) backups: Backups,
    pub(crate) memory: MemoryWatch,
    pub(crate) repairs: Repairs,
    pub(crate) stop: Notify,
    pub(crate) tuning: Tuning,
    pub(crate) creation: CreationOptions,
    pub(crate) hardware: Devices,
}

type Outcome<T> = Result<T, CommandFailure>;

fn usage(message: impl ToString) -> CommandFailure {
    CommandFailure { kind: ErrorKind::Usage, message: message.to_string() }
}

/// What is asked about is not there.
fn missing(message: impl ToString) -> CommandFailure {
    CommandFailure { kind: ErrorKind::Missing, message: message.to_string() }
}

fn failed(message: impl ToString) -> CommandFailure {
    CommandFailure { kind: ErrorKind::Failed, message: message.to_string() }
}

fn reply<T: Serialize>(outcome: Outcome<T>) -> CommandReply {
    match outcome.map(serde_json::to_value) {
        Ok(Ok(value)) => CommandReply::Ok(value),
        Ok(Err(error)) => CommandReply::Error(failed(error)),
        Err(failure) => CommandReply::Error(failure),
    }
}

/// The answer to what only the API of the host can say: it asks all shards for it.
fn for_the_api() -> CommandReply {
    reply::<()>(Err(failed("the API of the host answers that: no shard does by itself")))
}

impl Operations {
    fn stop(&self) -> CommandReply {
        self.stop.notify();
        reply(Ok(()))
    }

    async fn look(&self, command: &Command) -> CommandReply {
        match command {
            Command::Metrics => reply(Ok(self.metrics().await)),
            _ => reply(Ok(self.status().await)),
        }
    }

    /// Does what is asked; never panics because of what was asked.
    async fn carry_out(&self, command: Command) -> CommandReply {
        match command {
            command @ (Command::Status | Command::Metrics) => self.look(&command).await,
            #[rustfmt::skip]
            command @ (Command::VolumeCreate(_) | Command::VolumeShow { .. }
            | Command::VolumeChange { .. } | Command::VolumeGrow { .. }
            | Command::VolumeRedundancy { .. } | Command::VolumeMove { .. }
            | Command::VolumeExplain { .. } | Command::VolumeRecover { .. }
            | Command::VolumeStay { .. } | Command::VolumeConnections { .. }
            | Command::VolumeWriters { .. } | Command::VolumeTakeOver { .. }
            | Command::VolumeKeep { .. } | Command::VolumeCache { .. }
            | Command::VolumeLabel { .. } | Command::VolumeSetPolicy { .. }
            | Command::VolumeRename { .. } | Command::VolumeDelete { .. }
            | Command::VolumeUndelete { .. } | Command::VolumePurge { .. }) =>
                self.volume_command(command).await,
            Command::GroupShow { group } => reply(self.group_show(&group).await),
            #[rustfmt::skip]
            command @ (Command::GroupCreate { .. } | Command::GroupExtend { .. }
            | Command::GroupClose { .. } | Command::GroupOpen { .. }
            | Command::GroupRemove { .. }) => reply(self.change_group(command).await),
            #[rustfmt::skip]
            command @ (Command::PolicyList | Command::PolicyCreate { .. }
            | Command::PolicyEdit { .. } | Command::PolicyCheck { .. }
            | Command::PolicyWhatIf { .. } | Command::PolicyDelete { .. }) =>
                self.policy_command(command).await,
            command @ (Command::ClusterShow
            | Command::ClusterSet { .. }
            | Command::ClusterKind { .. }
            | Command::Rebalance { .. }
            | Command::RebuildReserve { .. }
            | Command::EncryptLinks { .. }
            | Command::ResyncLimit { .. }) => reply(self.settings_command(command).await),
            Command::ClusterUpgrade { check } => reply(self.upgrade(check).await),
            Command::HostRemove { host, lost } => reply(self.remove_host(&host, lost).await),
            command @ (Command::MaintenanceCheck { .. }
            | Command::MaintenanceEnter { .. }
            | Command::MaintenanceExit { .. }) => reply(self.maintenance_command(command).await),
            #[rustfmt::skip]
            command @ (Command::TokenList | Command::TokenCreate { .. } | Command::UserList
            | Command::TokenDelete { .. } | Command::UserCreate { .. } | Command::UserCode { .. }
            | Command::UserRole { .. } | Command::UserPassword { .. } | Command::HostJoin { .. }
            | Command::UserDelete { .. } | Command::SessionCreate { .. } | Command::SessionShow
            | Command::SessionDelete | Command::HostInvite { .. } | Command::Admission(_)) =>
                self.access_command(command).await,
            command @ (Command::DomainList
            | Command::DomainCreate { .. }
            | Command::DomainDelete { .. }
            | Command::DomainAssign { .. }) => reply(self.domain_command(command).await),
            Command::RepairNow { volume } => reply(self.repair_now(volume.as_deref()).await),
            command @ (Command::DirectoryBackups | Command::DirectoryRestore { .. }) => {
                self.backup_command(command).await
            }
            command @ (Command::OrphanList
            | Command::OrphanAdopt { .. }
            | Command::OrphanDelete { .. }) => self.orphan_command(command).await,
            command @ (Command::ScrubStatus | Command::ScrubStart { .. } | Command::ScrubPause) => {
                reply(self.scrub_command(&command))
            }
            Command::HealthShow | Command::HealthHistory { .. } => for_the_api(),
            #[rustfmt::skip]
            command @ (Command::NotifyList | Command::NotifyShow { .. }
            | Command::NotifyAdd { .. } | Command::NotifyDelete { .. }) =>
                self.receiver_command(command).await,
            #[rustfmt::skip]
            Command::HealthSilence { .. } | Command::HealthUnsilence { .. }
            | Command::NotifyTest { .. } | Command::PerformanceShow { .. }
            | Command::PerformanceTop { .. } => for_the_api(),
            Command::Stop => self.stop(),
        }
    }
}

fn no_such_volume(name: &str) -> CommandFailure {
    missing(format!("there is no volume '{name}': see 'gabion volume list'"))
}
