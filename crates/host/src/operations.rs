// SPDX-License-Identifier: Apache-2.0
//! What an operator asks of a host. What changes volumes is in `volumes`.

use crate::backups::Backups;
use crate::config::{SCRUB_RATES, Tuning};
use crate::control::{Command, CommandFailure, ErrorKind, Reply};
use crate::exports::Exports;
use crate::hardware::Devices;
use crate::report::{
    ComponentReport, Health, HostReport, HostState, ScrubReport, StatusReport, TurnsReport,
    VolumeReport,
};
use crate::seen::{Answers, Seen};
use crate::storage::Storage;
use crate::view::View;
use base::HostId;
use directory::{
    ClusterKind, ComponentRecord, ComponentState, Directory, ObjectRecord, VolumeRecord,
};
use env::{Env, Notify};
use object::{Away, ObjectStatus, Objects};
use serde::Serialize;
use std::time::Duration;

/// Carries out commands with what the host is made of.
pub(crate) struct Operations {
    pub(crate) env: Env,
    pub(crate) me: HostId,
    pub(crate) cluster: u64,
    pub(crate) kind: ClusterKind,
    pub(crate) directory: Directory,
    pub(crate) objects: Objects,
    pub(crate) storage: Storage,
    pub(crate) view: View,
    pub(crate) seen: Seen,
    pub(crate) exports: Exports,
    pub(crate) backups: Backups,
    pub(crate) stop: Notify,
    pub(crate) tuning: Tuning,
    pub(crate) hardware: Devices,
}

pub(crate) type Outcome<T> = Result<T, CommandFailure>;

pub(crate) fn usage(message: impl ToString) -> CommandFailure {
    CommandFailure { kind: ErrorKind::Usage, message: message.to_string() }
}

pub(crate) fn failed(message: impl ToString) -> CommandFailure {
    CommandFailure { kind: ErrorKind::Failed, message: message.to_string() }
}

fn reply<T: Serialize>(outcome: Outcome<T>) -> Reply {
    match outcome.map(serde_json::to_value) {
        Ok(Ok(value)) => Reply::Ok(value),
        Ok(Err(error)) => Reply::Error(failed(error)),
        Err(failure) => Reply::Error(failure),
    }
}

impl Operations {
    /// Does what is asked; never panics because of what was asked.
    pub(crate) async fn carry_out(&self, command: Command) -> Reply {
        match command {
            Command::Status => {
                self.look_at_devices().await;
                reply(Ok(self.status()))
            }
            Command::VolumeCreate { name, size_bytes, ftt, reserve_percent } => {
                reply(self.create(&name, size_bytes, ftt, reserve_percent).await)
            }
            Command::GroupShow { id } => {
                self.look_at_devices().await;
                reply(self.group_show(&id))
            }
            command @ (Command::GroupCreate { .. }
            | Command::GroupExtend { .. }
            | Command::GroupClose { .. }
            | Command::GroupOpen { .. }
            | Command::GroupRemove { .. }) => reply(self.change_group(command).await),
            Command::VolumeShow { name } => reply(self.show(&name)),
            Command::VolumeChange { name, reserve_percent } => {
                reply(self.change(&name, reserve_percent).await)
            }
            Command::VolumeConnections { name, connections } => {
                reply(self.change_connections(&name, connections).await)
            }
            Command::VolumeDelete { name } => reply(self.delete(&name).await),
            Command::DirectoryBackups => reply(Ok(self.backups().await)),
            Command::DirectoryRestore { number, replace } => {
                reply(self.restore_kept(number, replace).await)
            }
            Command::OrphanList => reply(self.orphans().await),
            Command::OrphanAdopt { volume, name, force } => {
                reply(self.adopt(&volume, name.as_deref(), force).await)
            }
            Command::OrphanDelete { volume } => reply(self.give_up(&volume).await),
            Command::ScrubStatus => reply(Ok(self.scrub())),
            Command::ScrubStart { bytes_per_second } => reply(self.start_scrub(bytes_per_second)),
            Command::ScrubPause => {
                self.storage.serving().iter().for_each(|serving| serving.scrubber.pause());
                reply(Ok(self.scrub()))
            }
            Command::Stop => {
                self.stop.notify();
                Reply::Ok(serde_json::Value::Null)
            }
        }
    }

    fn status(&self) -> StatusReport {
        let volumes: Vec<_> = self.view.volumes().iter().map(|v| self.report(v)).collect();
        let knows = self.view.is_complete();
        let worst = volumes.iter().map(|v| v.health).max().unwrap_or(Health::Green);
        let groups = self.group_reports();
        let worst = groups.iter().map(|group| group.health).fold(worst, Health::max);
        let any_down = self.view.hosts().iter().any(|h| self.host_state(h.id).0 != HostState::Up);
        let health = match (knows, any_down) {
            (false, _) => Health::Red,
            (true, true) => worst.max(Health::Yellow),
            (true, false) => worst,
        };
        let alarms = self.directory_alarms();
        let health = if alarms.is_empty() { health } else { Health::Red };
        let hosts = self.view.hosts();
        let hosts = hosts.iter().map(|record| {
            let (state, silent_seconds) = self.host_state(record.id);
            let (name, peer) = (record.name.clone(), record.peer_address.clone());
            HostReport { name, state, peer, silent_seconds }
        });
        StatusReport {
            host: self.view.host_name(self.me),
            health,
            directory: self.directory.is_connected(),
            hosts: hosts.collect(),
            volumes,
            groups,
            alarms,
            backups: self.backups.alarm(),
            turns: vec![TurnsReport::new(
                self.view.host_name(self.me),
                self.env.long_turns(),
                self.env.now(),
            )],
        }
    }

    /// Whether a host takes part, and for how many seconds it has not answered.
    fn host_state(&self, id: HostId) -> (HostState, Option<u64>) {
        let silent = match self.seen.host(id) {
            Answers::Yes => None,
            Answers::No(silent) => Some(silent.as_secs()),
        };
        match (self.view.alive(id), silent) {
            (None, _) => (HostState::Down, silent),
            (Some(_), None) => (HostState::Up, None),
            (Some(_), Some(_)) => (HostState::NotAnswering, silent),
        }
    }

    fn scrub(&self) -> Vec<ScrubReport> {
        let host = self.view.host_name(self.me);
        let serving = self.storage.serving();
        serving.iter().flat_map(|serving| serving.scrubber.report(&host)).collect()
    }

    fn start_scrub(&self, rate: Option<u64>) -> Outcome<Vec<ScrubReport>> {
        if rate.is_some_and(|rate| !SCRUB_RATES.contains(&rate)) {
            let (least, most) = (SCRUB_RATES.start(), SCRUB_RATES.end());
            return Err(usage(format!(
                "a scrub rate is {} to {} a second",
                base::format_size(*least),
                base::format_size(*most)
            )));
        }
        self.storage.serving().iter().for_each(|serving| serving.scrubber.start(rate));
        Ok(self.scrub())
    }

    fn show(&self, name: &str) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        match self.view.volume(name) {
            Some(record) => Ok(self.report(&record)),
            None => Err(no_such_volume(name)),
        }
    }

    pub(crate) fn report(&self, volume: &VolumeRecord) -> VolumeReport {
        let objects: Vec<_> =
            volume.objects.iter().filter_map(|id| self.view.object(*id)).collect();
        let first = objects.first();
        let owner = first.and_then(|o| o.owner.as_ref()).map(|o| self.view.host_name(o.host));
        let complete = objects.len() == volume.objects.len();
        let known: Vec<_> = objects.iter().map(|o| self.objects.status(o.id)).collect();
        let known = || objects.iter().zip(known.iter().map(Option::as_ref));
        let worst = known().map(|(o, known)| self.object_health(o, known)).max();
        let health = match worst {
            Some(health) if complete => health,
            _ => Health::Red,
        };
        let reduced = known().filter_map(|(o, known)| self.seen.reduced_for(o, known)).max();
        VolumeReport {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            ftt: volume.ftt,
            reserve_percent: volume.reserve_percent,
            connections: volume.connections,
            health,
            reduced_seconds: reduced.map(|reduced| reduced.as_secs()),
            owner,
            term: first.map_or(0, |o| o.term.0),
            nbd: self.view.hosts().iter().map(|h| nbd_uri(&h.nbd_uri, &volume.name)).collect(),
            components: (0..)
                .zip(known())
                .flat_map(|(at, (o, known))| self.components(at, o, known))
                .collect(),
            clients: self.exports.clients(&volume.name),
            note: None,
        }
    }

    fn object_health(&self, object: &ObjectRecord, known: Option<&ObjectStatus>) -> Health {
        let is_there = |c: &&ComponentRecord| {
            self.seen.is_there(c, known.and_then(|known| known.component(c.id)?.away))
        };
        match object.components.iter().filter(is_there).count() {
            0 => Health::Red,
            n if n == object.components.len() => Health::Green,
            _ => Health::Yellow,
        }
    }

    fn components(
        &self,
        at: u64,
        object: &ObjectRecord,
        known: Option<&ObjectStatus>,
    ) -> Vec<ComponentReport> {
        let report = |c: &ComponentRecord| {
            let known = known.and_then(|known| known.component(c.id));
            ComponentReport {
                object: at,
                host: self.view.host_name(c.host),
                group: c.group.to_string(),
                state: state_name(c.state).to_owned(),
                resync_bytes_left: known.map_or(0, |known| known.resync_bytes_left),
                writes_waiting: known.map_or(0, |known| known.writes_waiting),
                why: self.why(c, known.and_then(|known| known.away)),
            }
        };
        object.components.iter().map(report).collect()
    }

    /// Why a component is not active or its host not there, for people.
    fn why(&self, component: &ComponentRecord, away: Option<Away>) -> Option<String> {
        let host = self.view.host_name(component.host);
        let seconds = |left: Duration| left.as_secs() + 1;
        match away {
            _ if self.view.alive(component.host).is_none() => Some(format!("{host} is down")),
            _ if matches!(self.seen.host(component.host), Answers::No(_)) => {
                Some(format!("{host} does not answer"))
            }
            Some(Away::Unheard(since)) => Some(format!(
                "{host} has not answered the volume's owner for {} s; given up, or back, once the \
                 directory answers",
                since.as_secs()
            )),
            _ if component.state == ComponentState::Active => None,
            Some(Away::Unreachable) => Some(format!("{host} cannot be reached")),
            Some(Away::Paused(left)) => Some(format!(
                "it was away lately, and comes back in {} s at the earliest",
                seconds(left)
            )),
            Some(Away::GroupClosed(left)) => Some(format!(
                "a disk group or device of {host} is out of service ('gabion status'); tried again \
                 in {} s, or when that changes",
                seconds(left)
            )),
            Some(Away::Failed(left)) => {
                Some(format!("copying it failed; tried again in {} s", seconds(left)))
            }
            None => None,
        }
    }
}

pub(crate) fn no_such_volume(name: &str) -> CommandFailure {
    failed(format!("there is no volume '{name}': see 'gabion volume list'"))
}

fn state_name(state: ComponentState) -> &'static str {
    match state {
        ComponentState::Active => "active",
        ComponentState::Absent => "absent",
        ComponentState::Degraded => "degraded",
        ComponentState::Resyncing => "resyncing",
    }
}

/// The URI of a volume at a host whose NBD door is at `address` (`unix:/path` or `tcp:ip:port`).
fn nbd_uri(address: &str, volume: &str) -> String {
    match address.split_once(':') {
        Some(("unix", path)) => format!("nbd+unix:///{volume}?socket={path}"),
        Some(("tcp", address)) => format!("nbd://{address}/{volume}"),
        _ => String::new(),
    }
}
