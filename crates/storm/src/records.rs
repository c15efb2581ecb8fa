// SPDX-License-Identifier: Apache-2.0
//! The directory's content as the campaign sees it: from behind, at once and without asking.

use base::{ComponentId, Map, ObjectId};
use directory::store::{Batch, Change, Snapshot};
use directory::{
    Backend, BackendError, MemoryBackend, OBJECT_PREFIX, ObjectRecord, VOLUME_PREFIX, VolumeRecord,
};
use std::cell::{Cell, RefCell};

/// A backend in memory that knows the newest record of each object under test, and whether records
/// changed as they may.
#[derive(Default)]
pub struct Records {
    inner: MemoryBackend,
    objects: RefCell<Map<ObjectId, ObjectRecord>>,
    /// The object of each volume; volumes under test are small enough for one.
    volumes: RefCell<Map<String, ObjectId>>,
    /// The highest term of each, also where the directory went back in time.
    highest: RefCell<Map<ObjectId, u32>>,
    changes: Cell<u64>,
    wrong: RefCell<Option<String>>,
}

impl Records {
    /// The object of a volume, once it was created.
    #[must_use]
    pub fn id(&self, volume: &str) -> Option<ObjectId> {
        self.volumes.borrow().get(volume).copied()
    }

    /// The record of a volume's object as it stands.
    #[must_use]
    pub fn object(&self, volume: &str) -> Option<ObjectRecord> {
        self.objects.borrow().get(&self.id(volume)?).cloned()
    }

    /// The highest term of that record: no frame that was sent so far carries a higher one.
    #[must_use]
    pub fn term(&self, volume: &str) -> u64 {
        let highest = self.highest.borrow();
        self.id(volume).and_then(|id| highest.get(&id).copied()).unwrap_or(0).into()
    }

    /// Whether a component counts as a whole copy.
    #[must_use]
    pub fn is_active(&self, id: ComponentId) -> bool {
        let objects = self.objects.borrow();
        let mut components = objects.values().flat_map(|record| &record.components);
        components.any(|c| c.id == id && c.state == directory::ComponentState::Active)
    }

    /// Rises with every change of any object.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The first change that no owner may make (PROTOCOL.md section 6), if there was one.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }

    /// Holds what a backup of before holds, from the next start of the directory on.
    pub fn go_back(&self, backup: Snapshot) {
        let mut objects = self.objects.borrow_mut();
        objects.clear();
        let entries = backup.entries.iter().filter(|(key, ..)| key.starts_with(OBJECT_PREFIX));
        let decoded = entries.filter_map(|(_, entry, _)| ObjectRecord::decode(&entry.value).ok());
        objects.extend(decoded.map(|record| (record.id, record)));
        drop(objects);
        self.inner.replace(backup);
    }

    fn put(&self, record: ObjectRecord) {
        self.changes.set(self.changes.get() + 1);
        let id = record.id;
        {
            let mut highest = self.highest.borrow_mut();
            let highest = highest.entry(id).or_default();
            *highest = (*highest).max(record.term.0);
        }
        let before = self.objects.borrow_mut().insert(id, record.clone());
        let Some(before) = before else { return };
        if let Some(what) = forbidden(&before, &record) {
            let text = format!("{what}: {before:?} became {record:?}");
            self.wrong.borrow_mut().get_or_insert(text);
        }
    }
}

/// What makes `next` an impossible successor of `last`, if anything.
fn forbidden(last: &ObjectRecord, next: &ObjectRecord) -> Option<&'static str> {
    use directory::ComponentState::{Absent, Active, Resyncing};
    if next.version.0 >= last.version.0 + object::ADOPTION_LEAP && next.term > last.term {
        return None; // an operator had it made anew
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
    if next.components.iter().all(|component| component.state != Active) {
        return Some("no component is active");
    }
    for (last, next) in last.components.iter().zip(&next.components) {
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

impl Backend for Records {
    fn load(&self) -> Result<Snapshot, BackendError> {
        self.inner.load()
    }

    fn persist(&self, batch: &Batch) -> Result<(), BackendError> {
        self.inner.persist(batch)?;
        for change in &batch.changes {
            let Change::Put { key, value, .. } = change else { continue };
            if key.starts_with(OBJECT_PREFIX)
                && let Ok(record) = ObjectRecord::decode(value)
            {
                self.put(record);
            } else if key.starts_with(VOLUME_PREFIX)
                && let Ok(volume) = VolumeRecord::decode(value)
                && let [object] = volume.objects[..]
            {
                self.volumes.borrow_mut().insert(volume.name, object);
            }
        }
        Ok(())
    }
}
