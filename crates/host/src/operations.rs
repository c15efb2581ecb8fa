// SPDX-License-Identifier: Apache-2.0
//! What an operator asks of a host, carried out through the directory.

use crate::control::{Command, ErrorKind, Failure, Reply};
use crate::exports::Exports;
use crate::report::{
    ComponentReport, GroupReport, Health, HostReport, HostState, StatusReport, VolumeReport,
};
use crate::view::View;
use base::{ComponentId, HostId, Lsn, ObjectId, SECTOR_SIZE, Seat, Term, Version, VolumeId};
use directory::{
    ComponentRecord, ComponentState, Directory, DirectoryError, Expect, OBJECT_SECTORS_MAX,
    ObjectRecord, Transaction, VolumeRecord,
};
use diskgroup::DiskGroup;
use env::{Env, Notify};
use object::Objects;
use placement::{Candidate, VolumeSpec};
use serde::Serialize;

/// Keys changed in one transaction at most: etcd's default limit is 128 operations.
const TRANSACTION_KEYS_MAX: usize = 96;
/// Attempts to read back a transaction of unknown outcome before the operator is told so.
const READ_BACK_MAX: u32 = 5;

/// Carries out commands with what the host is made of.
pub(crate) struct Operations {
    pub(crate) env: Env,
    pub(crate) me: HostId,
    pub(crate) directory: Directory,
    pub(crate) objects: Objects,
    pub(crate) groups: Vec<DiskGroup>,
    pub(crate) view: View,
    pub(crate) exports: Exports,
    pub(crate) stop: Notify,
    pub(crate) recovery_ms: f64,
}

type Outcome<T> = Result<T, Failure>;

fn usage(message: impl ToString) -> Failure {
    Failure { kind: ErrorKind::Usage, message: message.to_string() }
}

fn failed(message: impl ToString) -> Failure {
    Failure { kind: ErrorKind::Failed, message: message.to_string() }
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
            Command::Status => reply(Ok(self.status())),
            Command::VolumeCreate { name, size_bytes, ftt } => {
                reply(self.create(&name, size_bytes, ftt).await)
            }
            Command::VolumeShow { name } => reply(self.show(&name)),
            Command::VolumeDelete { name } => reply(self.delete(&name).await),
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
        let any_down = self.view.hosts().iter().any(|h| self.view.alive(h.id).is_none());
        let health = match (knows, any_down) {
            (false, _) => Health::Red,
            (true, true) => worst.max(Health::Yellow),
            (true, false) => worst,
        };
        let hosts = self.view.hosts();
        let hosts = hosts.iter().map(|record| HostReport {
            name: record.name.clone(),
            state: match self.view.alive(record.id) {
                Some(_) => HostState::Up,
                None => HostState::Down,
            },
            peer: record.peer_address.clone(),
        });
        StatusReport {
            host: self.view.host_name(self.me),
            health,
            directory: self.directory.is_connected(),
            hosts: hosts.collect(),
            volumes,
            groups: self.groups.iter().map(|group| self.group_report(group)).collect(),
        }
    }

    fn group_report(&self, group: &DiskGroup) -> GroupReport {
        let status = group.status();
        GroupReport {
            host: self.view.host_name(self.me),
            id: group.id().to_string(),
            buffer_fill: status.buffer_fill,
            used_bytes: status.used_bytes,
            capacity_bytes: status.capacity_bytes,
            state: status.fenced.unwrap_or_else(|| "ok".to_owned()),
            recovery_ms: self.recovery_ms,
        }
    }

    fn show(&self, name: &str) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        match self.view.volume(name) {
            Some(record) => Ok(self.report(&record)),
            None => Err(no_such_volume(name)),
        }
    }

    fn report(&self, volume: &VolumeRecord) -> VolumeReport {
        let objects: Vec<_> =
            volume.objects.iter().filter_map(|id| self.view.object(*id)).collect();
        let first = objects.first();
        let owner = first.and_then(|o| o.owner.as_ref()).map(|o| self.view.host_name(o.host));
        let complete = objects.len() == volume.objects.len();
        let worst = objects.iter().map(|o| self.object_health(o)).max();
        let health = match worst {
            Some(health) if complete => health,
            _ => Health::Red,
        };
        VolumeReport {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            ftt: volume.ftt,
            health,
            owner,
            term: first.map_or(0, |o| o.term.0),
            nbd: self.view.hosts().iter().map(|h| nbd_uri(&h.nbd_uri, &volume.name)).collect(),
            components: objects.iter().flat_map(|o| self.components(o)).collect(),
            clients: self.exports.clients(&volume.name),
        }
    }

    fn object_health(&self, object: &ObjectRecord) -> Health {
        let active = object.components.iter().filter(|c| c.state == ComponentState::Active);
        let reachable = active.filter(|c| self.view.alive(c.host).is_some()).count();
        match reachable {
            0 => Health::Red,
            n if n == object.components.len() => Health::Green,
            _ => Health::Yellow,
        }
    }

    fn components(&self, object: &ObjectRecord) -> Vec<ComponentReport> {
        let status = self.objects.status(object.id);
        let left = |id: ComponentId| {
            let status = status.as_ref()?;
            status.components.iter().find(|c| c.id == id).map(|c| c.resync_bytes_left)
        };
        let report = |c: &ComponentRecord| ComponentReport {
            host: self.view.host_name(c.host),
            state: state_name(c.state).to_owned(),
            resync_bytes_left: left(c.id).unwrap_or(0),
        };
        object.components.iter().map(report).collect()
    }

    async fn create(&self, name: &str, size_bytes: u64, ftt: u8) -> Outcome<VolumeReport> {
        let spec = VolumeSpec::new(name, size_bytes, ftt).map_err(usage)?;
        let key = directory::volume_key(name);
        if self.directory.get(&key).await.map_err(directory_away)?.is_some() {
            return Err(failed(format!("a volume '{name}' exists already: choose another name")));
        }
        let places = placement::place(ftt, Some(self.me), &self.candidates()).map_err(failed)?;
        let (volume, objects) = self.compose(&spec, &places);
        let alive = self.alive_revisions(&places).await?;
        for object in &objects {
            self.objects.create(object.clone()).await.map_err(|error| {
                failed(format!("volume '{name}' was not created: {error}; try again"))
            })?;
        }
        self.record(&volume, &objects, alive).await?;
        for _ in 0..100 {
            if self.view.volume(name).is_some_and(|v| v.id == volume.id) {
                break;
            }
            let changed = self.view.changed().wait();
            env::select(changed, self.env.sleep(std::time::Duration::from_millis(20))).await;
        }
        Ok(self.report(&volume))
    }

    fn candidates(&self) -> Vec<Candidate> {
        let hosts = self.view.hosts();
        let live = hosts.iter().filter_map(|host| Some((host, self.view.alive(host.id)?)));
        live.flat_map(|(host, alive)| {
            let share = host.groups.len().max(1) as u64;
            host.groups.iter().map(move |group| Candidate {
                host: host.id,
                group: group.id,
                free_bytes: alive.free_bytes / share,
            })
        })
        .collect()
    }

    fn compose(
        &self,
        spec: &VolumeSpec,
        places: &[Candidate],
    ) -> (VolumeRecord, Vec<ObjectRecord>) {
        let volume_id = VolumeId(self.env.random());
        let whole = base::SectorRange::new(0, spec.size_bytes() / SECTOR_SIZE);
        let objects: Vec<_> = whole
            .split_at_multiples(OBJECT_SECTORS_MAX)
            .map(|piece| ObjectRecord {
                id: ObjectId(self.env.random()),
                volume: volume_id,
                sectors: piece.count,
                version: Version(1),
                term: Term(0),
                owner: None,
                handover: None,
                components: places.iter().map(|place| self.component(place)).collect(),
            })
            .collect();
        let volume = VolumeRecord {
            id: volume_id,
            name: spec.name().to_owned(),
            size_bytes: spec.size_bytes(),
            ftt: spec.ftt(),
            objects: objects.iter().map(|object| object.id).collect(),
        };
        (volume, objects)
    }

    fn component(&self, place: &Candidate) -> ComponentRecord {
        ComponentRecord {
            id: ComponentId(self.env.random()),
            host: place.host,
            group: place.group,
            state: ComponentState::Active,
            seat: Seat(1),
            left: Lsn::ZERO,
        }
    }

    /// The lease keys of the hosts concerned: a host that restarts meanwhile may already have
    /// cleaned up the component made for us, so the transaction must then fail (see `cleanup`).
    async fn alive_revisions(&self, places: &[Candidate]) -> Outcome<Vec<(String, Expect)>> {
        let mut expected = Vec::new();
        for place in places {
            let key = directory::alive_key(place.host);
            let entry = self.directory.get(&key).await.map_err(directory_away)?;
            let Some(entry) = entry else {
                let host = self.view.host_name(place.host);
                return Err(failed(format!("{host} has just gone down: try again")));
            };
            expected.push((key, Expect::Revision(entry.revision)));
        }
        Ok(expected)
    }

    /// Writes the objects' records and, last, the volume's: what has no volume record is nothing.
    async fn record(
        &self,
        volume: &VolumeRecord,
        objects: &[ObjectRecord],
        alive: Vec<(String, Expect)>,
    ) -> Outcome<()> {
        let key = directory::volume_key(&volume.name);
        let last = objects.chunks(TRANSACTION_KEYS_MAX).count() - 1;
        for (index, part) in objects.chunks(TRANSACTION_KEYS_MAX).enumerate() {
            let mut transaction = Transaction { compare: alive.clone(), ..Default::default() };
            transaction.compare.push((key.clone(), Expect::Absent));
            for object in part {
                let put = (directory::object_key(object.id), object.encode(), None);
                transaction.puts.push(put);
            }
            if index == last {
                transaction.puts.push((key.clone(), volume.encode(), None));
            }
            let probe = transaction.puts[0].0.clone();
            let won = self.decide(transaction, &probe, true).await?;
            if !won {
                return Err(failed(format!(
                    "volume '{}' was not created: the cluster changed meanwhile; try again",
                    volume.name
                )));
            }
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> Outcome<()> {
        placement::check_name(name).map_err(usage)?;
        let key = directory::volume_key(name);
        let entry = self.directory.get(&key).await.map_err(directory_away)?;
        let Some(entry) = entry else { return Err(no_such_volume(name)) };
        let volume = VolumeRecord::decode(&entry.value).map_err(failed)?;
        let clients = self.exports.clients(name);
        if clients > 0 {
            return Err(failed(format!(
                "volume '{name}' is in use by {clients} client(s) of this host: disconnect them \
                 first"
            )));
        }
        let expect = (key.clone(), Expect::Revision(entry.revision));
        let mut objects = volume.objects.chunks(TRANSACTION_KEYS_MAX);
        let mut first = Transaction { compare: vec![expect], ..Default::default() };
        first.deletes.push(key.clone());
        let keys = |part: &[ObjectId]| -> Vec<String> {
            part.iter().map(|id| directory::object_key(*id)).collect()
        };
        first.deletes.extend(objects.next().map(keys).unwrap_or_default());
        if !self.decide(first, &key, false).await? {
            return Err(failed(format!("volume '{name}' changed meanwhile: try again")));
        }
        for part in objects {
            let rest = Transaction { deletes: keys(part), ..Default::default() };
            let probe = rest.deletes[0].clone();
            self.decide(rest, &probe, false).await?;
        }
        Ok(())
    }

    /// Transacts; an unknown outcome is read back (trap 7): it happened if `probe` is there
    /// (`present`) or gone.
    async fn decide(&self, transaction: Transaction, probe: &str, present: bool) -> Outcome<bool> {
        match self.directory.transact(transaction).await {
            Ok(transacted) => return Ok(transacted.succeeded),
            Err(DirectoryError::Unknown) => {}
            Err(error) => return Err(directory_away(error)),
        }
        for _ in 0..READ_BACK_MAX {
            if let Ok(entry) = self.directory.get(probe).await {
                return Ok(entry.is_some() == present);
            }
            self.env.sleep(std::time::Duration::from_millis(500)).await;
        }
        Err(failed("the directory did not answer: it is unknown whether this was done; look again"))
    }
}

fn no_such_volume(name: &str) -> Failure {
    failed(format!("there is no volume '{name}': see 'gabion volume list'"))
}

fn directory_away(error: DirectoryError) -> Failure {
    failed(format!("the directory cannot be reached ({error}): nothing was changed; try again"))
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
