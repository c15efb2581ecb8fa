// SPDX-License-Identifier: Apache-2.0
//! What a host tells of the cluster and its volumes.

use super::{Operations, Outcome, no_such_volume, usage};
use crate::cluster::seen::Answers;
use base::{Map, ShardId, VolumeId};
use directory::{ComponentRecord, ComponentState, ObjectRecord, ShardRecord, VolumeRecord};
use object::{Away, ObjectStatus};
use operator::{
    ComplianceReport, ComponentReport, Health, HostReport, HostState, LimitedReport, StatusReport,
    TurnsReport, VolumePolicy, VolumeReport, WritesReport,
};
use std::cmp::Reverse;
use std::time::Duration;

impl Operations {
    pub(super) async fn status(&self) -> StatusReport {
        self.look_at_devices().await;
        let mut volumes = self.view.volumes();
        volumes.retain(|volume| volume.trashed.is_none());
        let volumes: Vec<_> = volumes.iter().map(|v| self.report(v)).collect();
        let worst = volumes.iter().map(|v| v.health).max().unwrap_or(Health::Green);
        let (trash, resyncs) = (self.trash(), self.resyncs());
        StatusReport { volumes, trash, resyncs, ..self.status_with(worst) }
    }

    /// All but volumes and the copies that are made, where so bad is the worst of the volumes.
    pub(super) fn status_with(&self, worst: Health) -> StatusReport {
        let knows = self.view.is_complete();
        let groups = self.group_reports();
        let worst = groups.iter().map(|group| group.health).fold(worst, Health::max);
        // One in maintenance may be down: somebody wants it so.
        let maintenance = self.view.maintenance();
        let is_missed =
            |id| self.host_state(id).0 != HostState::Up && maintenance.mode(id).is_none();
        let any_down = self.view.shards().iter().any(|shard| is_missed(shard.id));
        let health = match (knows, any_down) {
            (false, _) => Health::Red,
            (true, true) => worst.max(Health::Yellow),
            (true, false) => worst,
        };
        let mut alarms = self.directory_alarms();
        alarms.extend(self.release_alarms());
        alarms.extend(self.link_alarms());
        let health = if alarms.is_empty() { health } else { Health::Red };
        let (shards, domains) = (self.view.shards(), self.view.host_domains());
        let hosts = shards.iter().map(|record| {
            let (state, silent_seconds) = self.host_state(record.id);
            let (name, peer) = (record.name.clone(), record.peer_address.clone());
            let maintenance = self.maintenance_of(record);
            let domains = domains.path(record.id).to_vec();
            let host = record.machine.clone();
            let level = self.view.alive(record.id).map(|alive| alive.level.number());
            HostReport { name, host, state, peer, silent_seconds, domains, level, maintenance }
        });
        StatusReport {
            host: self.view.shard_name(self.me),
            health,
            directory: self.directory.is_connected(),
            hosts: hosts.collect(),
            level: Some(self.view.level().number()),
            removed: self.view.removed_names(),
            volumes: Vec::new(),
            trash: Vec::new(),
            groups,
            alarms,
            backups: self.backups.alarm(),
            memory: vec![self.memory.report(self.view.shard_name(self.me))],
            turns: vec![TurnsReport::new(
                self.view.shard_name(self.me),
                self.env.long_turns(),
                self.env.now(),
            )],
            resyncs: Vec::new(),
            writes: vec![WritesReport::new(self.view.shard_name(self.me), &self.env)],
        }
    }

    /// Whether a host takes part, and for how many seconds it has not answered.
    fn host_state(&self, id: ShardId) -> (HostState, Option<u64>) {
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

    pub(super) fn show(&self, name: &str) -> Outcome<VolumeReport> {
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
        let owner = first.and_then(|o| o.owner.as_ref()).map(|o| self.view.shard_name(o.shard));
        let known: Vec<_> = objects.iter().map(|o| self.objects.status(o.id)).collect();
        let known = || objects.iter().zip(known.iter().map(Option::as_ref));
        let health = self.volume_health(volume, known());
        let reduced = known().filter_map(|(o, known)| self.seen.reduced_for(o, known)).max();
        let (repair_in_seconds, not_repaired) = self.outlook(volume);
        let mut report = VolumeReport {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            ftt: volume.ftt,
            reserve_percent: volume.reserve_percent,
            cache_percent: volume.cache_percent,
            cached: self.cached_report(&objects),
            stripe_width: volume.stripe_width,
            home: self.home_report(volume),
            otherwise_striped_bytes: volume.otherwise_striped() * base::SECTOR_SIZE,
            connections: volume.connections,
            writer: self.writer(volume),
            policy: self.policy_of(volume),
            labels: volume.labels.clone(),
            compliance: ComplianceReport::default(),
            health,
            reduced_seconds: reduced.map(|reduced| reduced.as_secs()),
            repair_in_seconds,
            not_repaired,
            copied_in_seconds: None,
            owner,
            term: first.map_or(0, |o| o.term.0),
            nbd: self.doors(&objects).iter().map(|door| nbd_uri(door, &volume.name)).collect(),
            components: (0..)
                .zip(known())
                .flat_map(|(at, (o, known))| self.components(at, o, known))
                .collect(),
            clients: self.exports.clients(volume.id),
            limited: self.limited(volume.id),
            note: None,
        };
        report.compliance = report.find_compliance();
        report
    }

    /// Where clients reach a volume on each machine: through its owner where that is there, else
    /// through a host that has a copy, else through any.
    fn doors(&self, objects: &[ObjectRecord]) -> Vec<String> {
        let best = self.best_doors(objects).into_iter();
        best.map(|shard| shard.nbd_uri).collect()
    }

    /// Of each machine the shard through which clients reach a volume.
    pub(crate) fn best_doors(&self, objects: &[ObjectRecord]) -> Vec<ShardRecord> {
        // How many objects a host owns, and how many copies it has.
        let mut has: Map<ShardId, (usize, usize)> = Map::new();
        for object in objects {
            if let Some(owner) = object.owner {
                has.entry(owner.shard).or_default().0 += 1;
            }
            object.components.iter().for_each(|one| has.entry(one.shard).or_default().1 += 1);
        }
        let worth = |shard: &ShardRecord| {
            let is_up = self.view.alive(shard.id).is_some();
            (is_up, has.get(&shard.id).copied().unwrap_or_default(), Reverse(shard.id))
        };
        let shards = self.view.shards();
        // Of each machine its first host, and the best one.
        let mut machines: Map<&str, (ShardId, &ShardRecord)> = Map::new();
        for shard in &shards {
            let (_, best) = machines.entry(shard.machine()).or_insert((shard.id, shard));
            if worth(shard) > worth(best) {
                *best = shard;
            }
        }
        let mut doors: Vec<_> = machines.into_values().collect();
        doors.sort_by_key(|(first, _)| *first);
        doors.into_iter().map(|(_, best)| best.clone()).collect()
    }

    fn policy_of(&self, volume: &VolumeRecord) -> Option<VolumePolicy> {
        let followed = volume.policy.as_ref()?;
        Some(VolumePolicy {
            name: followed.name.clone(),
            version: followed.version,
            newest: self.view.policy(&followed.name).map(|policy| policy.version),
            repair_delay: followed.repair_delay,
            limits: followed.limits,
        })
    }

    /// Requests for a volume that waited here for its limits.
    fn limited(&self, volume: VolumeId) -> Vec<LimitedReport> {
        let limited = self.exports.limited(volume).filter(|limited| limited.requests > 0);
        let host = || self.view.shard_name(self.me);
        limited.map(|limited| LimitedReport::new(host(), limited)).into_iter().collect()
    }

    /// The worst of its objects; red where not all of these are known.
    pub(super) fn volume_health<'a>(
        &self,
        volume: &VolumeRecord,
        known: impl ExactSizeIterator<Item = (&'a ObjectRecord, Option<&'a ObjectStatus>)>,
    ) -> Health {
        let is_complete = known.len() == volume.objects.len();
        let copies = usize::from(volume.ftt) + 1;
        let worst = known.map(|(o, known)| self.object_health(o, known, copies)).max();
        worst.filter(|_| is_complete).unwrap_or(Health::Red)
    }

    fn object_health(
        &self,
        object: &ObjectRecord,
        known: Option<&ObjectStatus>,
        copies: usize,
    ) -> Health {
        let is_there = |c: &&ComponentRecord| {
            self.seen.is_there(c, known.and_then(|known| known.component(c.id)?.away))
        };
        // One that is to take the place of another is one more than the policy asks for.
        let asked = object.components.iter().filter(|component| component.replaces.is_none());
        match asked.clone().filter(is_there).count() {
            0 => Health::Red,
            n if n == asked.count() && n >= copies => Health::Green,
            _ => Health::Yellow,
        }
    }

    fn components(
        &self,
        at: u64,
        object: &ObjectRecord,
        known: Option<&ObjectStatus>,
    ) -> Vec<ComponentReport> {
        let replaced = |c: &ComponentRecord| {
            object.components.iter().find(|old| c.replaces == Some(old.id)).copied()
        };
        let domains = self.view.host_domains();
        let report = |c: &ComponentRecord| {
            let known = known.and_then(|known| known.component(c.id));
            ComponentReport {
                object: at,
                host: self.view.shard_name(c.shard),
                domain: domains.innermost(c.shard).map(str::to_owned),
                group: c.group.to_string(),
                state: state_name(c.state).to_owned(),
                resync_bytes_left: known.map_or(0, |known| known.resync_bytes_left),
                writes_waiting: known.map_or(0, |known| known.writes_waiting),
                why: self.why(c, known.and_then(|known| known.away)),
                replaces: replaced(c).map(|old| self.view.shard_name(old.shard)),
            }
        };
        object.components.iter().map(report).collect()
    }

    /// Why a component is not active or its host not there, for people.
    pub(super) fn why(&self, component: &ComponentRecord, away: Option<Away>) -> Option<String> {
        let host = self.view.shard_name(component.shard);
        let seconds = |left: Duration| left.as_secs() + 1;
        match away {
            _ if self.view.alive(component.shard).is_none() => Some(format!("{host} is down")),
            _ if matches!(self.seen.host(component.shard), Answers::No(_)) => {
                Some(format!("{host} does not answer"))
            }
            Some(Away::Unheard(since)) => Some(format!(
                "{host} has not answered the volume's owner for {} s; given up, or back, once the \
                 directory answers",
                since.as_secs()
            )),
            _ if component.state == ComponentState::Active => None,
            Some(Away::Unreachable) => Some(format!("{host} cannot be reached")),
            Some(Away::Paused(left)) if component.replaces.is_some() => {
                Some(format!("it is filled in {} s at the earliest", seconds(left)))
            }
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
