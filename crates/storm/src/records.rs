// SPDX-License-Identifier: Apache-2.0
//! The directory's content as the campaign sees it: in the backend, without asking the directory.

use crate::writers::{self, MayWrite};
use base::{ComponentId, Map, ObjectId, Set, ShardId, VolumeId};
use directory::store::{Change, EventBatch, Snapshot};
use directory::{
    Backend, BackendError, ComponentState, MemoryBackend, OBJECT_PREFIX, ObjectRecord, OwnerRecord,
    VOLUME_PREFIX, VolumeRecord, Writing,
};
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

/// A backend in memory. It knows the newest record of each object under test, and notes the first
/// change of a record that is forbidden.
#[derive(Default)]
pub struct Records {
    inner: MemoryBackend,
    /// The machines that hosts share.
    machines: Map<ShardId, String>,
    objects: RefCell<Map<ObjectId, ObjectRecord>>,
    /// Components that a record of an object ever listed.
    listed: RefCell<Set<ComponentId>>,
    /// Each volume, as large as it ever was: a directory that goes back in time may have it
    /// smaller.
    volumes: RefCell<Map<String, VolumeRecord>>,
    /// Who may write to each volume, at present.
    writing: RefCell<Map<VolumeId, Writing>>,
    /// The same, at each change since the beginning.
    writers: RefCell<Map<String, Vec<MayWrite>>>,
    /// The fewest and the most copies that each volume ever asked for.
    asked: RefCell<Map<VolumeId, RangeInclusive<usize>>>,
    /// The highest term of each object. It stays when the directory goes back in time.
    highest: RefCell<Map<ObjectId, u32>>,
    changes: Cell<u64>,
    wrong: RefCell<Option<String>>,
    /// Objects whose newest changes the directory forgot when it was set back raw. Each stays here
    /// until it is adopted.
    forks: RefCell<Map<ObjectId, Fork>>,
    /// For each object: how often it went astray (see `Fork`) or was brought back. Odd while it is
    /// astray.
    turns: RefCell<Map<ObjectId, u64>>,
}

/// What a directory that was set back raw no longer knows of an object.
struct Fork {
    /// The object's record before the directory was set back.
    forgotten: ObjectRecord,
    /// Whether the present record has as active none of the copies that were active in `forgotten`.
    /// An owner that serves by such a record cannot know what those copies have.
    is_astray: bool,
}

impl Fork {
    fn is_led_astray_by(&self, record: &ObjectRecord) -> bool {
        let is_active = |c: &&directory::ComponentRecord| c.state == ComponentState::Active;
        let mut counted = self.forgotten.components.iter().filter(is_active);
        let counts = |id| record.components.iter().filter(is_active).any(|c| c.id == id);
        !counted.any(|c| counts(c.id))
    }
}

impl Records {
    /// Those of a cluster in which hosts share machines.
    #[must_use]
    pub fn on_machines(machines: Map<ShardId, String>) -> Self {
        Self { machines, ..Self::default() }
    }

    /// Whether a volume was created.
    #[must_use]
    pub fn is_created(&self, volume: &str) -> bool {
        self.volumes.borrow().contains_key(volume)
    }

    /// Object number `number` of a volume, once it was created.
    #[must_use]
    pub fn id(&self, volume: &str, number: usize) -> Option<ObjectId> {
        self.volumes.borrow().get(volume)?.objects.get(number).copied()
    }

    /// A volume, as large as it ever was.
    #[must_use]
    pub fn volume(&self, volume: &str) -> Option<VolumeRecord> {
        self.volumes.borrow().get(volume).cloned()
    }

    /// Who may write to a volume, by its present record.
    #[must_use]
    pub fn writing(&self, volume: &str) -> Option<Writing> {
        let id = self.volumes.borrow().get(volume)?.id;
        self.writing.borrow().get(&id).copied()
    }

    /// How who may write to a volume changed since so many changes, which are all of them then.
    pub(crate) fn writers_since(&self, volume: &str, seen: &Cell<usize>) -> Vec<MayWrite> {
        let writers = self.writers.borrow();
        let all = writers.get(volume).map_or([].as_slice(), Vec::as_slice);
        all[seen.replace(all.len()).min(all.len())..].to_vec()
    }

    /// The present record of an object of a volume.
    #[must_use]
    pub fn object(&self, volume: &str, number: usize) -> Option<ObjectRecord> {
        self.objects.borrow().get(&self.id(volume, number)?).cloned()
    }

    /// The present records of all objects of a volume; `None` for those that have none.
    #[must_use]
    pub fn all_objects(&self, volume: &str) -> Vec<Option<ObjectRecord>> {
        let (volumes, objects) = (self.volumes.borrow(), self.objects.borrow());
        let ids = volumes.get(volume).map_or([].as_slice(), |volume| &volume.objects);
        ids.iter().map(|id| objects.get(id).cloned()).collect()
    }

    /// The present record of an object.
    #[must_use]
    pub fn of_id(&self, id: ObjectId) -> Option<ObjectRecord> {
        self.objects.borrow().get(&id).cloned()
    }

    /// The present records of all objects.
    #[must_use]
    pub fn all(&self) -> Vec<ObjectRecord> {
        self.objects.borrow().values().cloned().collect()
    }

    /// The highest term that the record of an object of a volume ever had. No frame that was sent
    /// so far carries a higher one.
    #[must_use]
    pub fn term(&self, volume: &str, number: usize) -> u64 {
        let highest = self.highest.borrow();
        self.id(volume, number).and_then(|id| highest.get(&id).copied()).unwrap_or(0).into()
    }

    /// Whether a component counts as a whole copy.
    #[must_use]
    pub fn is_active(&self, id: ComponentId) -> bool {
        let objects = self.objects.borrow();
        let mut components = objects.values().flat_map(|record| &record.components);
        components.any(|c| c.id == id && c.state == directory::ComponentState::Active)
    }

    /// Whether there ever was a volume of this id.
    #[must_use]
    pub fn was_volume(&self, id: VolumeId) -> bool {
        self.asked.borrow().contains_key(&id)
    }

    /// Whether a record of an object ever listed this component.
    #[must_use]
    pub fn was_listed(&self, id: ComponentId) -> bool {
        self.listed.borrow().contains(&id)
    }

    /// Counts the changes of all records of objects.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The first change that no owner may make, if there was one
    /// (docs/protocol.md#asserted-at-run-time).
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }

    /// Sets the content back to `backup`. The directory holds it from its next start on.
    pub fn go_back(&self, backup: Snapshot) {
        let mut objects = self.objects.borrow_mut();
        objects.clear();
        self.writing.borrow_mut().clear();
        // Whoever it was, another one may write now.
        self.writers.borrow_mut().values_mut().for_each(|all| all.push(MayWrite::Any));
        let entries = backup.entries.iter().filter(|(key, ..)| key.starts_with(OBJECT_PREFIX));
        let decoded = entries.filter_map(|(_, entry, _)| ObjectRecord::decode(&entry.value).ok());
        objects.extend(decoded.map(|record| (record.id, record)));
        drop(objects);
        self.inner.replace(backup);
    }

    /// All content, byte for byte.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Ok(snapshot) = self.inner.load() else { unreachable!("it is in memory") };
        snapshot
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<Vec<u8>> {
        let entries = self.snapshot().entries;
        entries.into_iter().find(|(name, ..)| *name == key).map(|(_, entry, _)| entry.value)
    }

    /// As [`Self::go_back`], for content that does not say that it is old. Notes the objects whose
    /// newest changes are forgotten by that.
    pub fn set_back(&self, snapshot: Snapshot) {
        let forgotten = self.objects.borrow().clone();
        self.go_back(snapshot);
        for (id, forgotten) in forgotten {
            let now = self.objects.borrow().get(&id).cloned();
            // A record with the same version is the same record: nothing of it was forgotten.
            let Some(now) = now.filter(|now| now.version != forgotten.version) else { continue };
            let fork = Fork { forgotten, is_astray: false };
            self.forks.borrow_mut().insert(id, fork);
            self.follow_fork(None, &now);
        }
    }

    /// The objects whose newest changes the directory forgot and that were not adopted since, with
    /// the records from before.
    #[must_use]
    pub fn forked(&self) -> Vec<ObjectRecord> {
        self.forks.borrow().values().map(|fork| fork.forgotten.clone()).collect()
    }

    /// How often an object of a volume went astray or was brought back. Odd while it is astray: its
    /// owner has none of the copies that counted before the directory was set back.
    #[must_use]
    pub fn turns(&self, volume: &str, number: usize) -> u64 {
        let turns = self.turns.borrow();
        self.id(volume, number).and_then(|id| turns.get(&id).copied()).unwrap_or(0)
    }

    /// Whether the record that the directory forgot names this owner and this term.
    #[must_use]
    pub fn is_owner_of_before(
        &self,
        (volume, number): (&str, usize),
        owner: Option<OwnerRecord>,
        term: base::Term,
    ) -> bool {
        let forks = self.forks.borrow();
        let fork = self.id(volume, number).and_then(|id| forks.get(&id));
        fork.is_some_and(|fork| (fork.forgotten.owner, fork.forgotten.term) == (owner, term))
    }

    /// Updates what is known of a forked object whose record becomes `next`.
    fn follow_fork(&self, last: Option<&ObjectRecord>, next: &ObjectRecord) {
        let mut forks = self.forks.borrow_mut();
        let Some(fork) = forks.get_mut(&next.id) else { return };
        let turn = || *self.turns.borrow_mut().entry(next.id).or_default() += 1;
        if last.is_some_and(|last| is_made_anew(last, next)) {
            if fork.is_astray {
                turn();
            }
            forks.remove(&next.id);
        } else if !fork.is_astray && fork.is_led_astray_by(next) {
            fork.is_astray = true;
            turn();
        }
    }

    fn put_volume(&self, record: VolumeRecord) {
        self.put_writing(&record);
        let copies = usize::from(record.ftt) + 1;
        self.asked
            .borrow_mut()
            .entry(record.id)
            .and_modify(|asked| *asked = copies.min(*asked.start())..=copies.max(*asked.end()))
            .or_insert(copies..=copies);
        let mut volumes = self.volumes.borrow_mut();
        let known = volumes.get(&record.name).map_or(0, |known| known.objects.len());
        if record.objects.len() >= known {
            volumes.insert(record.name.clone(), record);
        }
    }

    fn put_writing(&self, record: &VolumeRecord) {
        let before = self.writing.borrow_mut().insert(record.id, record.writing);
        if before == Some(record.writing) {
            return;
        }
        let may = MayWrite::of(&record.writing);
        self.writers.borrow_mut().entry(record.name.clone()).or_default().push(may);
        if let Some(what) = before.and_then(|before| writers::forbidden(&before, &record.writing)) {
            let text = format!("{what}: {before:?} became {record:?}");
            self.wrong.borrow_mut().get_or_insert(text);
        }
    }

    fn put(&self, record: ObjectRecord) {
        self.changes.set(self.changes.get() + 1);
        let id = record.id;
        {
            let mut highest = self.highest.borrow_mut();
            let highest = highest.entry(id).or_default();
            *highest = (*highest).max(record.term.0);
        }
        self.listed.borrow_mut().extend(record.components.iter().map(|component| component.id));
        let before = self.objects.borrow_mut().insert(id, record.clone());
        self.follow_fork(before.as_ref(), &record);
        if let Some(new) = self.new_on_one_machine(before.as_ref(), &record) {
            let text = format!("component {new} is new on a machine with another one: {record:?}");
            self.wrong.borrow_mut().get_or_insert(text);
        }
        let Some(before) = before else { return };
        let asked = self.asked.borrow().get(&record.volume).cloned().unwrap_or(1..=usize::MAX);
        if let Some(what) = forbidden(&before, &record, &asked) {
            let text = format!("{what}: {before:?} became {record:?}");
            self.wrong.borrow_mut().get_or_insert(text);
        }
    }
}

impl Records {
    /// A component that was added although another one is on the same machine, which is not the one
    /// whose place it takes.
    fn new_on_one_machine(
        &self,
        last: Option<&ObjectRecord>,
        next: &ObjectRecord,
    ) -> Option<ComponentId> {
        // Nobody chose where the components of a record are that was made anew.
        let is_anew =
            next.is_doubted || last.map_or(is_from_adoption(next), |last| is_made_anew(last, next));
        let was_there =
            |id| last.is_some_and(|last| last.components.iter().any(|old| old.id == id));
        let is_shared = |one: ShardId, other: ShardId| {
            let machine = self.machines.get(&one);
            machine.is_some() && machine == self.machines.get(&other)
        };
        let mut new = next.components.iter().filter(|new| !is_anew && !was_there(new.id));
        let is_too_close = |new: &&directory::ComponentRecord| {
            let mut others = next.components.iter().filter(|other| other.id != new.id);
            others.any(|one| new.replaces != Some(one.id) && is_shared(one.shard, new.shard))
        };
        new.find(is_too_close).map(|new| new.id)
    }
}

/// Whether a record that is the first one comes from an adoption: the directory was lost.
fn is_from_adoption(first: &ObjectRecord) -> bool {
    first.version.0 >= object::ADOPTION_LEAP
}

/// Whether an operator's adoption made the record anew.
fn is_made_anew(last: &ObjectRecord, next: &ObjectRecord) -> bool {
    next.version.0 >= last.version.0 + object::ADOPTION_LEAP && next.term > last.term
}

/// Why the record may not change from `last` to `next`; `None` if it may. `asked`: the fewest
/// and the most copies that its volume ever asked for.
fn forbidden(
    last: &ObjectRecord,
    next: &ObjectRecord,
    asked: &RangeInclusive<usize>,
) -> Option<&'static str> {
    use ComponentState::{Absent, Active, Resyncing};
    if is_made_anew(last, next) {
        return None;
    }
    if next.is_doubted {
        return None; // restored from a backup, or found to be of before
    }
    if last.is_doubted {
        return Some("a record that is doubted is claimed");
    }
    if next.version.0 != last.version.0 + 1 {
        return Some("the version does not rise by one");
    }
    if next.term < last.term || (next.term == last.term && next.owner != last.owner) {
        return Some("the owner changes without a higher term");
    }
    if next.writer_epoch < last.writer_epoch {
        return Some("the epoch of the writer falls");
    }
    if next.components.iter().all(|component| component.state != Active) {
        return Some("no component is active");
    }
    if let Some(what) = wrong_members(last, next, asked) {
        return Some(what);
    }
    for next in &next.components {
        let Some(last) = last.components.iter().find(|last| last.id == next.id) else { continue };
        if next.seat < last.seat {
            return Some("a seat falls");
        }
        if last.state != Active && next.state != Active && next.left > last.left {
            return Some("`left` rises without a return");
        }
        if next.state == Active && last.state != Active && last.state != Resyncing {
            return Some("a component becomes active without a resync");
        }
        if last.state == Active && next.state == Resyncing {
            return Some("an active component is resynced");
        }
        if last.state == Absent && next.state == Resyncing && next.seat == last.seat {
            return Some("a component returns on its old seat");
        }
    }
    None
}

/// Components that do not take the place of others.
fn copies(record: &ObjectRecord) -> usize {
    record.components.iter().filter(|component| component.replaces.is_none()).count()
}

/// What no owner may do to the list of components (rules 38-40).
fn wrong_members(
    last: &ObjectRecord,
    next: &ObjectRecord,
    asked: &RangeInclusive<usize>,
) -> Option<&'static str> {
    use directory::ComponentState::{Absent, Active};
    let of = |record: &ObjectRecord, id| record.components.iter().find(|c| c.id == id).copied();
    for old in last.components.iter().filter(|old| of(next, old.id).is_none()) {
        if next.removed.iter().all(|removed| removed.id != old.id) {
            return Some("a component vanishes, and nobody is told to delete it");
        }
        let takes_its_place = |new: &directory::ComponentRecord| {
            let before = of(last, new.id);
            new.state == Active && before.is_some_and(|before| before.replaces == Some(old.id))
        };
        let is_replaced = next.components.iter().any(takes_its_place);
        if old.replaces.is_none() && !is_replaced && copies(next) < *asked.start() {
            return Some("a component is taken out that the volume needs");
        }
    }
    for new in next.components.iter().filter(|new| of(last, new.id).is_none()) {
        if new.state != Absent || new.left != base::Lsn::ZERO {
            return Some("a component comes from nowhere");
        }
        if new.replaces.is_none() && copies(next) > *asked.end() {
            return Some("more components than the volume ever asked for");
        }
        if last.removed.iter().any(|removed| removed.id == new.id) {
            return Some("a component that was taken out is back");
        }
    }
    None
}

impl Backend for Records {
    fn load(&self) -> Result<Snapshot, BackendError> {
        self.inner.load()
    }

    fn persist(&self, batch: &EventBatch) -> Result<(), BackendError> {
        self.inner.persist(batch)?;
        for change in &batch.changes {
            let Change::Put { key, value, .. } = change else { continue };
            if key.starts_with(OBJECT_PREFIX)
                && let Ok(record) = ObjectRecord::decode(value)
            {
                self.put(record);
            } else if key.starts_with(VOLUME_PREFIX)
                && let Ok(volume) = VolumeRecord::decode(value)
            {
                self.put_volume(volume);
            }
        }
        Ok(())
    }
}
