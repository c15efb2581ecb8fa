// SPDX-License-Identifier: Apache-2.0
//! Creating a volume: places are chosen, components are made, and last the records are written.

use super::{DECIDE_MAX, Undecided, decide, deleted_record, deletion, directory_away, unknown};
use crate::cluster::guard::guard_key;
use crate::cluster::room::candidates;
use crate::operations::{Operations, Outcome, failed, usage};
use base::{
    ComponentId, HostId, Incarnation, Lsn, ObjectId, SECTOR_SIZE, Seat, Term, Version, VolumeId,
    format_size,
};
use directory::{
    AliveRecord, ComponentRecord, ComponentState, Connections, Entry, Expect, ObjectRecord,
    Transaction, VolumeRecord,
};
use object::ObjectError;
use operator::CommandFailure;
use operator::VolumeReport;
use placement::{Candidate, PlacementError, VolumeSpec};
use tracing::warn;

/// Attempts of a creation whose hosts only told how much room they have meanwhile.
const ROOM_RACES_MAX: u32 = 10;

/// A live host as its lease key was when its component was about to be made.
pub(super) struct Witness {
    host: HostId,
    incarnation: Incarnation,
    revision: u64,
}

impl Operations {
    /// Creates a volume with rules of its own, or with those of a policy. With `force` it is made
    /// with fewer copies where there is no place for all of them; repair makes the others later.
    pub(crate) async fn create(
        &self,
        name: &str,
        size_bytes: u64,
        (ftt, reserve_percent, policy): (u8, u8, Option<&str>),
        force: bool,
    ) -> Outcome<VolumeReport> {
        let policy = match policy {
            Some(policy) => Some(self.policy_entry(policy).await?.0),
            None => None,
        };
        let rules = policy.as_ref().map(|policy| (policy.ftt, policy.reserve_percent));
        let (ftt, reserve_percent) = rules.unwrap_or((ftt, reserve_percent));
        let spec = VolumeSpec::new(name, size_bytes, ftt).map_err(usage)?;
        let spec = spec.with_reserve(reserve_percent).map_err(usage)?;
        let key = directory::volume_key(name);
        if self.directory.get(&key).await.map_err(directory_away)?.is_some() {
            return Err(failed(format!("a volume '{name}' exists already: choose another name")));
        }
        let (mut volume, objects, witnesses) = self.make_components(&spec, force).await?;
        volume.policy = policy.map(|policy| policy.followed());
        self.record(&volume, &objects, witnesses).await?;
        self.until_seen(&volume, |_| true).await;
        let few = self.too_few_copies(&volume, &objects);
        let note = few.or_else(|| self.overcommitment(&volume, &objects));
        Ok(VolumeReport { note, ..self.report(&volume) })
    }

    /// Whether a volume was made with fewer copies than it is to have, for people.
    fn too_few_copies(&self, volume: &VolumeRecord, objects: &[ObjectRecord]) -> Option<String> {
        let copies = objects.iter().map(|object| object.components.len()).min()?;
        let wanted = usize::from(volume.ftt) + 1;
        (copies < wanted).then(|| {
            format!(
                "it has {copies} of {wanted} copies: the others are made as soon as there is a \
                 place for them; 'gabion volume explain {}' says what is missing",
                volume.name
            )
        })
    }

    /// Whether what is promised on a host of the volume is far more than it has, for people.
    fn overcommitment(&self, volume: &VolumeRecord, objects: &[ObjectRecord]) -> Option<String> {
        let placed = self.view.placed_bytes();
        let hosts = self.view.hosts().into_iter();
        let mine = hosts.filter(|host| {
            objects.iter().flat_map(|object| &object.components).any(|c| c.host == host.id)
        });
        let loads = mine.map(|host| {
            let capacity = host.groups.iter().map(|group| group.capacity_bytes);
            let capacity_bytes = capacity.fold(0, u64::saturating_add);
            let promised_bytes = placed.get(&host.id).copied().unwrap_or(0).max(volume.size_bytes);
            (host.name, placement::Promised { promised_bytes, capacity_bytes })
        });
        let (host, load) = loads.max_by_key(|(_, load)| load.times())?;
        if !load.is_overcommitted(volume.size_bytes) {
            return None;
        }
        let times = match load.times() {
            0 | 1 => "more than".to_owned(),
            times => format!("{times} times"),
        };
        Some(format!(
            "the volumes with a copy on {host} may grow to {} together, {times} the {} that it \
             has: writes fail once that is full; see 'gabion group list', and create volumes that \
             must not run out of space with --reserve",
            format_size(load.promised_bytes),
            format_size(load.capacity_bytes)
        ))
    }

    /// Places the volume and makes its components. A host that says that it has no room, or that a
    /// disk group or device of it is out, is left out of the next attempt, so that there are not
    /// more of these than hosts.
    async fn make_components(
        &self,
        spec: &VolumeSpec,
        force: bool,
    ) -> Outcome<(VolumeRecord, Vec<ObjectRecord>, Vec<Witness>)> {
        let mut refused: Vec<HostId> = Vec::new();
        loop {
            let places = self.places(spec, &refused, force)?;
            let (volume, objects) = self.compose(spec, &places);
            let hosts: Vec<HostId> = places.iter().map(|place| place.host).collect();
            let witnesses = self.witnesses(&hosts).await?;
            let failures = match self.make_all(&objects, spec.reserve_percent()).await {
                Ok(made) => return Ok((volume, made, witnesses)),
                Err(failures) => failures,
            };
            self.discard(&volume, &objects).await;
            let is_answer = |error| matches!(error, ObjectError::Full | ObjectError::Io);
            if let Some((host, error)) = failures.iter().find(|(_, error)| !is_answer(*error)) {
                let (name, host) = (spec.name(), self.view.host_name(*host));
                return Err(failed(format!(
                    "volume '{name}' was not created: {host}: {error}; try again"
                )));
            }
            refused.extend(failures.iter().map(|(host, _)| *host));
        }
    }

    /// Where the copies go: all of them, or with `force` as many as have a place.
    fn places(
        &self,
        spec: &VolumeSpec,
        refused: &[HostId],
        force: bool,
    ) -> Outcome<Vec<Candidate>> {
        let (candidates, domains) = (candidates(&self.view), self.view.host_domains());
        let place = |ftt| placement::place(ftt, Some(self.me), &candidates, refused, &domains);
        let all = place(spec.ftt());
        let fewer = (0..spec.ftt()).rev().filter(|_| force).find_map(|ftt| place(ftt).ok());
        all.or_else(|error| fewer.ok_or_else(|| self.no_room(spec, &error, force)))
    }

    /// Takes back the components of a creation that surely never comes to be. Hosts that are not
    /// reached find them in a record of what is deleted; where that cannot be written either, they
    /// keep them in quarantine, empty as they are.
    async fn discard(&self, volume: &VolumeRecord, objects: &[ObjectRecord]) {
        let mut is_done = true;
        for object in objects {
            is_done &= self.objects.discard(object).await;
        }
        if is_done {
            return;
        }
        let record = deleted_record(volume, objects.iter());
        let put = Transaction::new().put(directory::deleted_key(volume.id), record.encode());
        if let Err(error) = self.directory.transact(put).await {
            warn!(volume = volume.name, %error, "components of a failed creation stay for now");
        }
    }

    /// The records, with the disk groups that the hosts chose.
    async fn make_all(
        &self,
        objects: &[ObjectRecord],
        reserve_percent: u8,
    ) -> Result<Vec<ObjectRecord>, Vec<(HostId, ObjectError)>> {
        let mut all = Vec::with_capacity(objects.len());
        for objects in objects.chunks(self.creation.objects_at_once) {
            base::hit_if(!all.is_empty(), base::Probe::ObjectsLot);
            let making = objects.iter().map(|o| self.objects.create(o.clone(), reserve_percent));
            let made = env::join_all(making.collect()).await;
            all.extend(made.into_iter().collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// Why a volume has no place, with what to do.
    fn no_room(&self, spec: &VolumeSpec, error: &PlacementError, force: bool) -> CommandFailure {
        let reserve = match spec.reserve_percent() {
            0 => String::new(),
            percent => {
                let bytes = u128::from(spec.size_bytes()) * u128::from(percent) / 100;
                let bytes = format_size(u64::try_from(bytes).unwrap_or(u64::MAX));
                format!(", or less than the reserve of {bytes} is free on them")
            }
        };
        let or = match force {
            true => "",
            false => {
                ", or choose a lower --ftt, or have it made with fewer copies for now: --force"
            }
        };
        failed(format!("{}{or}", self.why_no_place(error, &reserve)))
    }

    /// Why there are too few hosts for so many copies, and what gives more. `reserve` is one more
    /// cause that a host may have.
    pub(super) fn why_no_place(&self, error: &PlacementError, reserve: &str) -> String {
        let without_room = match error {
            PlacementError::TooFewHosts { without_room, .. } => without_room,
            PlacementError::TooFewDomains { .. } => {
                return format!("{error}: start or add hosts in other domains");
            }
        };
        let maintenance = self.view.maintenance();
        let hosts = self.view.hosts().into_iter();
        let resting = hosts.filter(|host| maintenance.mode(host.id).is_some());
        let resting = resting.map(|host| host.name).collect::<Vec<_>>().join(", ");
        let error = match resting.as_str() {
            "" => error.to_string(),
            resting => {
                format!("{error} ({resting} in maintenance: 'gabion host maintenance exit')")
            }
        };
        if without_room.is_empty() {
            return format!("{error}: start or add hosts");
        }
        let names = without_room.iter().map(|host| self.view.host_name(*host));
        let names = names.collect::<Vec<_>>().join(", ");
        let full = self.tuning.space_full_percent;
        format!(
            "{error}; none on {names} (every device is {full} % taken or more{reserve}, or has as \
             many components as it can have: 128 below 4 GiB, else 1,024; or a disk group or \
             device is out of service); see 'gabion status' and 'gabion group list', \
             delete volumes or discard what they do not need, or add a host"
        )
    }

    fn compose(
        &self,
        spec: &VolumeSpec,
        places: &[Candidate],
    ) -> (VolumeRecord, Vec<ObjectRecord>) {
        let volume_id = VolumeId(self.env.random());
        let whole = base::SectorRange::new(0, spec.size_bytes() / SECTOR_SIZE);
        let each = self.creation.object_sectors_of(spec.size_bytes());
        let objects: Vec<_> = whole
            .split_at_multiples(each)
            .map(|piece| ObjectRecord {
                id: ObjectId(self.env.random()),
                volume: volume_id,
                sectors: piece.count,
                version: Version(1),
                term: Term(0),
                owner: None,
                handover: None,
                components: places.iter().map(|place| self.component(place)).collect(),
                removed: Vec::new(),
                claims: Vec::new(),
                is_doubted: false,
            })
            .collect();
        let volume = VolumeRecord {
            id: volume_id,
            name: spec.name().to_owned(),
            size_bytes: spec.size_bytes(),
            ftt: spec.ftt(),
            reserve_percent: spec.reserve_percent(),
            connections: Connections::Shared,
            policy: None,
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
            replaces: None,
        }
    }

    /// The lease keys of the hosts concerned: a host that restarts meanwhile may already have
    /// cleaned up the component made for us, so the transaction must then fail (see `cleanup`).
    async fn witnesses(&self, hosts: &[HostId]) -> Outcome<Vec<Witness>> {
        let mut witnesses = Vec::new();
        for host in hosts {
            let key = directory::alive_key(*host);
            let entry = self.directory.get(&key).await.map_err(directory_away)?;
            let alive = entry.as_ref().map(|entry| AliveRecord::decode(&entry.value));
            let (Some(entry), Some(Ok(alive))) = (&entry, alive) else {
                let name = self.view.host_name(*host);
                return Err(failed(format!("{name} has just gone down: try again")));
            };
            let (incarnation, revision) = (alive.incarnation, entry.revision);
            witnesses.push(Witness { host: *host, incarnation, revision });
        }
        Ok(witnesses)
    }

    /// Writes the objects' records and, last, the volume's: what has no volume record is nothing.
    /// What it wrote before it failed is deleted again, here or by `leftovers`.
    async fn record(
        &self,
        volume: &VolumeRecord,
        objects: &[ObjectRecord],
        mut witnesses: Vec<Witness>,
    ) -> Outcome<()> {
        let until = self.env.now() + DECIDE_MAX;
        let parts: Vec<_> = objects.chunks(self.creation.transaction_objects).collect();
        let mut races = 0;
        let mut index = 0;
        base::hit_if(parts.len() > 1, base::Probe::SecondTransaction);
        while index < parts.len() {
            let (transaction, probe) = creation(volume, &parts, index, &witnesses);
            let landed = |entry: Option<&Entry>| entry.is_some();
            let decided =
                decide(&self.env, &self.directory, &transaction, &probe, landed, until).await;
            let is_last = index + 1 == parts.len();
            match decided {
                Ok(true) => index += 1,
                Ok(false) if races < ROOM_RACES_MAX && self.is_only_room(&mut witnesses).await => {
                    races += 1;
                }
                Err(Undecided::Unknown) if is_last => {
                    return Err(unknown(&format!("volume '{}' was created", volume.name)));
                }
                Ok(false) => {
                    self.undo(volume, &parts).await;
                    self.discard(volume, objects).await;
                    return Err(failed(format!(
                        "volume '{}' was not created: its name was taken or the cluster changed \
                         meanwhile; try again",
                        volume.name
                    )));
                }
                Err(Undecided::Away(error)) if index == 0 => {
                    self.discard(volume, objects).await;
                    return Err(directory_away(error));
                }
                Err(_) => {
                    self.undo(volume, &parts).await;
                    return Err(failed(format!(
                        "volume '{}' was not created: the directory does not answer; try again",
                        volume.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Whether all hosts are in the same run as before, so that only what they tell of their room
    /// has changed; takes the new revisions.
    async fn is_only_room(&self, witnesses: &mut Vec<Witness>) -> bool {
        let hosts: Vec<HostId> = witnesses.iter().map(|witness| witness.host).collect();
        let Ok(now) = self.witnesses(&hosts).await else { return false };
        let mut pairs = now.iter().zip(witnesses.iter());
        let is_same_run = pairs.all(|(now, then)| now.incarnation == then.incarnation);
        let mut pairs = now.iter().zip(witnesses.iter());
        let is_changed = pairs.any(|(now, then)| now.revision != then.revision);
        *witnesses = now;
        is_same_run && is_changed
    }

    /// Takes back a creation in several transactions. The guard goes first: nothing of the creation
    /// can land after it. What is not reached here is left to `leftovers`.
    async fn undo(&self, volume: &VolumeRecord, parts: &[&[ObjectRecord]]) {
        if parts.len() < 2 {
            return;
        }
        let guard = Transaction::new().delete(guard_key(volume.id));
        let mut undone = self.directory.transact(guard).await.map(drop);
        for part in parts {
            if undone.is_ok() {
                let ids = part.iter().map(|object| object.id);
                undone = self.directory.transact(deletion(ids)).await.map(drop);
            }
        }
        if let Err(error) = undone {
            warn!(volume = volume.name, %error, "objects of a failed creation go later");
        }
    }
}

/// The transaction number `index` of a creation, and a key that exists when it was applied.
pub(super) fn creation(
    volume: &VolumeRecord,
    parts: &[&[ObjectRecord]],
    index: usize,
    witnesses: &[Witness],
) -> (Transaction, String) {
    let part = parts[index];
    let probe = directory::object_key(part[0].id);
    let key = directory::volume_key(&volume.name);
    let mut transaction = Transaction::new()
        .expect(key.clone(), Expect::Absent)
        .expect(probe.clone(), Expect::Absent);
    for witness in witnesses {
        let alive = directory::alive_key(witness.host);
        transaction = transaction.expect(alive, Expect::Revision(witness.revision));
    }
    for object in part {
        transaction = transaction.put(directory::object_key(object.id), object.encode());
    }
    let guard = guard_key(volume.id);
    let (is_first, is_last) = (index == 0, index + 1 == parts.len());
    transaction = match (is_first, is_last) {
        (true, true) => transaction, // one transaction needs no guard
        (true, false) => transaction.put(guard, ""),
        (false, true) => transaction.expect(guard.clone(), Expect::Present).delete(guard),
        (false, false) => transaction.expect(guard, Expect::Present),
    };
    if is_last {
        transaction = transaction.put(key, volume.encode());
    }
    (transaction, probe)
}
