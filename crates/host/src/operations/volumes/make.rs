// SPDX-License-Identifier: Apache-2.0
//! Making the components of new objects, before any record names them: those of a new volume, and
//! those that a volume gets when it grows.

use super::directory_away;
use crate::cluster::room::candidates;
use crate::operations::{Operations, Outcome, failed};
use base::{
    ComponentId, Incarnation, Lsn, ObjectId, SECTOR_SIZE, Seat, Set, ShardId, Term, Version,
    VolumeId, WriterEpoch, format_size,
};
use directory::{
    AliveRecord, ComponentRecord, ComponentState, DeletedRecord, ObjectRecord, Transaction,
    VolumeLayout,
};
use object::ObjectError;
use operator::CommandFailure;
use placement::{Candidate, PlacementError};
use tracing::warn;

/// Names of hosts that one sentence has room for.
const NAMES_MAX: usize = 6;

/// What is done with the components of a new volume.
pub(super) const CREATED: &str = "created";

/// Objects that are about to be made.
pub(super) struct NewObjects {
    /// The volume that they are of.
    pub(super) volume: VolumeId,
    /// The volume's name.
    pub(super) name: String,
    /// How they lie.
    pub(super) layout: VolumeLayout,
    /// Failures to tolerate.
    pub(super) ftt: u8,
    /// In which epoch of the volume's writer they begin.
    pub(super) epoch: WriterEpoch,
    /// Part of each that is kept for it, percent.
    pub(super) reserve_percent: u8,
    /// The host that all of them are made on.
    pub(super) kept_on: Option<String>,
    /// Hosts that they are made on where these have the room, instead of those with most room. Not
    /// where they are striped.
    pub(super) beside: Vec<ShardId>,
    /// What is done, for people: "created".
    pub(super) deed: &'static str,
}

impl NewObjects {
    /// Bytes that are kept for them on each host with a copy of all.
    fn reserved_bytes(&self) -> u64 {
        base::percent_of(self.layout.sectors() * SECTOR_SIZE, self.reserve_percent)
    }
}

/// A live host as its lease key was when its component was about to be made.
pub(super) struct Witness {
    pub(super) shard: ShardId,
    incarnation: Incarnation,
    pub(super) revision: u64,
}

impl Operations {
    /// Places new objects and makes their components. A host that says that it has no room, or that
    /// a disk group or device of it is out, is left out of the next attempt, so that there are not
    /// more of these than hosts. With `force` there are fewer copies where not all have a place.
    pub(super) async fn make_components(
        &self,
        new: &NewObjects,
        force: bool,
    ) -> Outcome<(Vec<ObjectRecord>, Vec<Witness>)> {
        if !force {
            self.check_rebuild(new)?;
        }
        let mut refused: Vec<ShardId> = Vec::new();
        loop {
            let places = self.places(new, &refused, force)?;
            let objects = self.compose(new, &places);
            let shards: Set<ShardId> = places.iter().flatten().map(|place| place.shard).collect();
            let witnesses = self.witnesses(&shards.into_iter().collect::<Vec<_>>()).await?;
            let failures = match self.make_all(new, &objects).await {
                Ok(made) => return Ok((made, witnesses)),
                Err(failures) => failures,
            };
            self.discard(new, &objects).await;
            let is_answer = |error| matches!(error, ObjectError::Full | ObjectError::Io);
            if let Some((shard, error)) = failures.iter().find(|(_, error)| !is_answer(*error)) {
                let (name, deed, host) = (&new.name, new.deed, self.view.shard_name(*shard));
                return Err(failed(format!(
                    "volume '{name}' was not {deed}: {host}: {error}; try again"
                )));
            }
            refused.extend(failures.iter().map(|(shard, _)| *shard));
        }
    }

    /// Whether any one host could still be made again on the others, where an operator asks for
    /// that.
    fn check_rebuild(&self, new: &NewObjects) -> Outcome<()> {
        let reserved = new.reserved_bytes().saturating_mul(u64::from(new.ftt) + 1);
        if !self.view.settings().rebuild_reserve {
            return Ok(());
        }
        self.not_rebuilt(reserved).map_or(Ok(()), |why| {
            let (name, deed) = (&new.name, new.deed);
            let or = if deed == CREATED { ", create it with --force" } else { "" };
            Err(failed(format!(
                "volume '{name}' was not {deed}: a host that is lost could not be made again on \
                 the others ({why}): add a host, delete volumes{or}, or do without: 'gabion \
                 cluster set rebuild-reserve off'"
            )))
        })
    }

    /// Where the copies of each object go: all of them, or with `force` as many as have a place.
    fn places(
        &self,
        new: &NewObjects,
        refused: &[ShardId],
        force: bool,
    ) -> Outcome<Vec<Vec<Candidate>>> {
        let (domains, me) = (self.view.host_domains(), Some(self.me));
        let mut all = candidates(&self.view);
        if let Some(host) = &new.kept_on {
            let home = self.target(host, &[])?;
            all.retain(|candidate| home.contains(&candidate.shard));
        }
        // Where nothing is striped all objects go to the same hosts.
        let together = |ftt| {
            let is_beside = |candidate: &&Candidate| new.beside.contains(&candidate.shard);
            let beside: Vec<Candidate> = all.iter().filter(is_beside).cloned().collect();
            let near = placement::place(ftt, None, &beside, refused, &domains);
            let places = near.or_else(|_| placement::place(ftt, me, &all, refused, &domains))?;
            Ok(new.layout.sizes().map(|_| places.clone()).collect())
        };
        let apart = |ftt| {
            let (mut all, mut places) = (all.clone(), Vec::new());
            for set in new.layout.sets() {
                let wanted = (set.width, set.range.bytes() / u64::from(set.width));
                let set = placement::place_set(ftt, me, &mut all, refused, &domains, wanted)?;
                places.extend(set);
            }
            Ok(places)
        };
        let place = |ftt| if new.layout.width() > 1 { apart(ftt) } else { together(ftt) };
        let fewer = (0..new.ftt).rev().filter(|_| force).find_map(|ftt| place(ftt).ok());
        place(new.ftt).or_else(|error| fewer.ok_or_else(|| self.no_room(new, &error, force)))
    }

    /// Takes back the components of objects that surely never come to be. Hosts that are not
    /// reached find them in a record of what is deleted; where that cannot be written either, they
    /// keep them in quarantine, empty as they are.
    pub(super) async fn discard(&self, new: &NewObjects, objects: &[ObjectRecord]) {
        let mut is_done = true;
        for object in objects {
            is_done &= self.objects.discard(object).await;
        }
        if is_done {
            return;
        }
        let hosts = objects.iter().flat_map(|object| &object.components).map(|c| c.shard);
        let shards: Set<ShardId> = hosts.collect();
        let record = DeletedRecord {
            id: VolumeId(self.env.random()), // a number that nothing else has
            name: new.name.clone(),
            shards: shards.into_iter().collect(),
            objects: objects.iter().map(|object| object.id).collect(),
        };
        let put = Transaction::new().put(directory::deleted_key(record.id), record.encode());
        if let Err(error) = self.directory.transact(put).await {
            warn!(volume = new.name, %error, "components that were made in vain stay for now");
        }
    }

    /// The records, with the disk groups that the hosts chose.
    async fn make_all(
        &self,
        new: &NewObjects,
        objects: &[ObjectRecord],
    ) -> Result<Vec<ObjectRecord>, Vec<(ShardId, ObjectError)>> {
        let mut all = Vec::with_capacity(objects.len());
        // One after the other they go to the emptiest device in turn, and so to different ones.
        let is_striped = new.layout.width() > 1;
        let at_once = if is_striped { 1 } else { self.creation.objects_at_once };
        for objects in objects.chunks(at_once) {
            base::hit_if(!all.is_empty(), base::Probe::ObjectsLot);
            let reserve = new.reserve_percent;
            let making = objects.iter().map(|o| self.objects.create(o.clone(), reserve));
            let made = env::join_all(making.collect()).await;
            all.extend(made.into_iter().collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// Why a volume has no place, with what to do.
    fn no_room(&self, new: &NewObjects, error: &PlacementError, force: bool) -> CommandFailure {
        let reserve = match new.reserve_percent {
            0 => String::new(),
            _ => {
                let bytes = format_size(new.reserved_bytes());
                format!(", or less than the reserve of {bytes} is free on them")
            }
        };
        let or = match (force, new.deed) {
            (false, CREATED) => {
                ", or choose a lower --ftt, or have it made with fewer copies for now: --force"
            }
            _ => "",
        };
        let on = match &new.kept_on {
            Some(host) => format!("volume '{}' is to be kept on {host}: ", new.name),
            None => String::new(),
        };
        failed(format!("{on}{}{or}", self.why_no_place(error, &reserve)))
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
        let hosts = self.view.shards().into_iter();
        let resting = hosts.filter(|shard| maintenance.mode(shard.id).is_some());
        let resting = some_of(resting.map(|shard| shard.name).collect());
        let error = match resting.as_str() {
            "" => error.to_string(),
            resting => {
                format!("{error} ({resting} in maintenance: 'gabion host maintenance exit')")
            }
        };
        if without_room.is_empty() {
            return format!("{error}: start or add hosts");
        }
        let names = without_room.iter().map(|shard| self.view.shard_name(*shard));
        let names = some_of(names.collect());
        let full = self.tuning.space_full_percent;
        format!(
            "{error}; none on {names} (every device is {full} % taken or more{reserve}, or has as \
             many components as it can have: 128 below 4 GiB, else 1,024; or a disk group or \
             device is out of service); see 'gabion status' and 'gabion group list', \
             delete volumes or discard what they do not need, or add a host"
        )
    }

    fn compose(&self, new: &NewObjects, places: &[Vec<Candidate>]) -> Vec<ObjectRecord> {
        let object = |(sectors, places): (u64, &Vec<Candidate>)| ObjectRecord {
            id: ObjectId(self.env.random()),
            volume: new.volume,
            sectors,
            version: Version(1),
            term: Term(0),
            owner: None,
            handover: None,
            components: places.iter().map(|place| self.component(place)).collect(),
            removed: Vec::new(),
            claims: Vec::new(),
            is_doubted: false,
            writer_epoch: new.epoch,
        };
        new.layout.sizes().zip(places).map(object).collect()
    }

    fn component(&self, place: &Candidate) -> ComponentRecord {
        ComponentRecord {
            id: ComponentId(self.env.random()),
            shard: place.shard,
            group: place.group,
            state: ComponentState::Active,
            seat: Seat(1),
            left: Lsn::ZERO,
            replaces: None,
        }
    }

    /// The lease keys of the hosts concerned: a host that restarts meanwhile may already have
    /// cleaned up the component made for us, so the transaction must then fail (see `cleanup`).
    pub(super) async fn witnesses(&self, shards: &[ShardId]) -> Outcome<Vec<Witness>> {
        let mut witnesses = Vec::new();
        for shard in shards {
            let key = directory::alive_key(*shard);
            let entry = self.directory.get(&key).await.map_err(directory_away)?;
            let alive = entry.as_ref().map(|entry| AliveRecord::decode(&entry.value));
            let (Some(entry), Some(Ok(alive))) = (&entry, alive) else {
                let name = self.view.shard_name(*shard);
                return Err(failed(format!("{name} has just gone down: try again")));
            };
            let (incarnation, revision) = (alive.incarnation, entry.revision);
            witnesses.push(Witness { shard: *shard, incarnation, revision });
        }
        Ok(witnesses)
    }

    /// Whether all hosts are in the same run as before, so that only what they tell of their room
    /// has changed; takes the new revisions.
    pub(super) async fn is_only_room(&self, witnesses: &mut Vec<Witness>) -> bool {
        let shards: Vec<ShardId> = witnesses.iter().map(|witness| witness.shard).collect();
        let Ok(now) = self.witnesses(&shards).await else { return false };
        let mut pairs = now.iter().zip(witnesses.iter());
        let is_same_run = pairs.all(|(now, then)| now.incarnation == then.incarnation);
        let mut pairs = now.iter().zip(witnesses.iter());
        let is_changed = pairs.any(|(now, then)| now.revision != then.revision);
        *witnesses = now;
        is_same_run && is_changed
    }
}

/// The first few names, and how many there are besides.
fn some_of(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    if more > 1 {
        names.truncate(NAMES_MAX);
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_a_few_of_many_hosts() {
        let some = |count| some_of((1..=count).map(|n| format!("h{n}")).collect());
        assert_eq!(some(0), "");
        assert_eq!(some(2), "h1, h2");
        assert_eq!(some(7), "h1, h2, h3, h4, h5, h6, h7", "one more is as short as its name");
        assert_eq!(some(80), "h1, h2, h3, h4, h5, h6, 74 more");
    }
}
