// SPDX-License-Identifier: Apache-2.0
//! Creating a volume: places are chosen, components are made, and last the records are written.

use super::make::{CREATED, NewObjects, Witness};
use super::{DECIDE_MAX, Undecided, decide, directory_away, unknown};
use crate::care::trash::deletion;
use crate::cluster::guard::guard_key;
use crate::operations::{Operations, Outcome, failed, usage};
use base::{VolumeId, WriterEpoch, format_size};
use directory::{
    Connections, Entry, Expect, Level, ObjectRecord, Transaction, VolumeRecord, Writers, Writing,
    check_labels,
};
use operator::{NewVolume, VolumeReport};
use placement::VolumeSpec;
use tracing::warn;

/// Attempts of a creation whose hosts only told how much room they have meanwhile.
pub(super) const ROOM_RACES_MAX: u32 = 10;

impl Operations {
    /// Creates a volume with rules of its own, or with those of a policy. With `force`, or where
    /// the policy says so, it is made with fewer copies where there is no place for all of them;
    /// repair makes the others later.
    pub(crate) async fn create(&self, asked: NewVolume) -> Outcome<VolumeReport> {
        let NewVolume { name, size_bytes, .. } = asked;
        let policy = match &asked.policy {
            Some(policy) => Some(self.policy_entry(policy).await?.0),
            None => None,
        };
        let rules = policy.as_ref().map(|p| (p.ftt, p.reserve_percent, p.stripe_width));
        let own = (asked.ftt, asked.reserve_percent, asked.stripe_width);
        let (ftt, reserve_percent, stripe_width) = rules.unwrap_or(own);
        let force = asked.force || policy.as_ref().is_some_and(|policy| policy.force);
        let spec = VolumeSpec::new(&name, size_bytes, ftt).map_err(usage)?;
        let spec = spec.with_reserve(reserve_percent).map_err(usage)?;
        let spec = spec.with_stripes(stripe_width).map_err(usage)?;
        check_labels(&asked.labels).map_err(usage)?;
        if !asked.labels.is_empty() {
            self.need(Level::LABELS, "labels of volumes")?;
        }
        let key = directory::volume_key(&name);
        if self.directory.get(&key).await.map_err(directory_away)?.is_some() {
            return Err(failed(format!("a volume '{name}' exists already: choose another name")));
        }
        let writers = match asked.writers {
            None if self.view.level() < Level::WRITERS => Writers::Any,
            writers => writers.unwrap_or(Writers::One),
        };
        if writers == Writers::One {
            self.need(Level::WRITERS, "one writing host")?;
        }
        let writing = Writing::of_new(writers);
        let cache_percent = policy.as_ref().map_or(asked.cache_percent, |p| p.cache_percent);
        self.check_cache(cache_percent)?;
        let kept_on = self.home_of_new(asked.on.as_deref(), ftt, policy.as_ref())?;
        let new =
            NewObjects { epoch: writing.epoch, kept_on: kept_on.clone(), ..self.new_volume(&spec) };
        let (objects, witnesses) = self.make_components(&new, force).await?;
        let volume = VolumeRecord {
            id: new.volume,
            name,
            size_bytes,
            ftt,
            reserve_percent,
            cache_percent,
            stripe_width,
            kept_on,
            connections: Connections::Shared,
            writing,
            policy: policy.map(|policy| policy.followed()),
            labels: asked.labels,
            trashed: None,
            runs: new.layout.said(),
            objects: objects.iter().map(|object| object.id).collect(),
        };
        self.record(&volume, &objects, (&new, witnesses)).await?;
        self.until_seen(&volume, |_| true).await;
        let few = self.too_few_copies(&volume, &objects);
        let note = few.or_else(|| self.overcommitment(&volume, &objects));
        Ok(VolumeReport { note, ..self.report(&volume) })
    }

    /// The objects of a volume that does not exist yet.
    fn new_volume(&self, spec: &VolumeSpec) -> NewObjects {
        NewObjects {
            volume: VolumeId(self.env.random()),
            name: spec.name().to_owned(),
            layout: self.creation.layout_of(spec.size_bytes(), spec.stripe_width()),
            ftt: spec.ftt(),
            epoch: WriterEpoch::ANY,
            reserve_percent: spec.reserve_percent(),
            kept_on: None,
            beside: Vec::new(),
            deed: CREATED,
        }
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
    pub(super) fn overcommitment(
        &self,
        volume: &VolumeRecord,
        objects: &[ObjectRecord],
    ) -> Option<String> {
        let placed = self.view.placed_bytes();
        let hosts = self.view.shards().into_iter();
        let mine = hosts.filter(|shard| {
            objects.iter().flat_map(|object| &object.components).any(|c| c.shard == shard.id)
        });
        let loads = mine.map(|shard| {
            let capacity_bytes = shard.capacity_bytes();
            let promised_bytes = placed.get(&shard.id).copied().unwrap_or(0).max(volume.size_bytes);
            (shard.name, placement::Promised { promised_bytes, capacity_bytes })
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

    /// Writes the objects' records and, last, the volume's: what has no volume record is nothing.
    /// What it wrote before it failed is deleted again, here or by `leftovers`.
    async fn record(
        &self,
        volume: &VolumeRecord,
        objects: &[ObjectRecord],
        (new, mut witnesses): (&NewObjects, Vec<Witness>),
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
                    self.discard(new, objects).await;
                    return Err(failed(format!(
                        "volume '{}' was not created: its name was taken or the cluster changed \
                         meanwhile; try again",
                        volume.name
                    )));
                }
                Err(Undecided::Away(error)) if index == 0 => {
                    self.discard(new, objects).await;
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
                let ids: Vec<_> = part.iter().map(|object| object.id).collect();
                undone = self.directory.transact(deletion(&ids)).await.map(drop);
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
        let alive = directory::alive_key(witness.shard);
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
