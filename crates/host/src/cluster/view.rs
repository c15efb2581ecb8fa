// SPDX-License-Identifier: Apache-2.0
//! What this host has been told of the cluster: a copy of the directory, kept by watches.
//!
//! It may lag. Whatever changes something reads the directory itself (rule 41).

use base::{ComponentId, HostId, Map, ObjectId, SECTOR_SIZE, Set, VolumeId};
use directory::{
    AliveRecord, ClusterRecord, Entry, HostRecord, ObjectRecord, OrphanRecord, VolumeRecord,
};
use env::Notify;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A change of an object record, for the object layer.
pub enum ObjectChange {
    /// A record is new or changed.
    Put(ObjectRecord, u64),
    /// A record is gone.
    Deleted(ObjectId),
    /// A host's lease key appeared, changed or vanished.
    Alive(HostId, Option<AliveRecord>),
    /// A host's record, and the revision that wrote it.
    Host(HostRecord, u64),
    /// Undecodable record: its key.
    Malformed(String),
}

/// The copy. Cheap to clone.
#[derive(Clone, Default)]
pub struct View(Rc<ViewInner>);

#[derive(Default)]
struct ViewInner {
    hosts: RefCell<Map<HostId, HostRecord>>,
    alive: RefCell<Map<HostId, AliveRecord>>,
    volumes: RefCell<Map<String, VolumeRecord>>,
    objects: RefCell<Map<ObjectId, ObjectRecord>>,
    orphans: RefCell<Map<ComponentId, OrphanRecord>>,
    /// Id of the cluster whose directory it is.
    cluster: Cell<Option<u64>>,
    complete: Cell<bool>,
    changed: Notify,
}

impl View {
    /// Takes the whole truth (a watch's reset): what is not in it is gone.
    pub fn reset(&self, entries: &[(String, Entry)]) -> Vec<ObjectChange> {
        let mut gone = self.keys();
        let mut changes = Vec::new();
        for (key, entry) in entries {
            gone.remove(key);
            changes.extend(self.put(key, entry));
        }
        for key in gone {
            changes.extend(self.delete(&key));
        }
        self.0.complete.set(true);
        self.0.changed.notify();
        changes
    }

    /// Takes one changed key.
    pub fn put(&self, key: &str, entry: &Entry) -> Option<ObjectChange> {
        let malformed = || Some(ObjectChange::Malformed(key.to_owned()));
        self.0.changed.notify();
        if let Some(id) = directory::parse_alive_key(key) {
            let Ok(record) = AliveRecord::decode(&entry.value) else { return malformed() };
            self.0.alive.borrow_mut().insert(id, record);
            return Some(ObjectChange::Alive(id, Some(record)));
        }
        if key.starts_with(directory::HOST_PREFIX) {
            let Ok(record) = HostRecord::decode(&entry.value) else { return malformed() };
            self.0.hosts.borrow_mut().insert(record.id, record.clone());
            return Some(ObjectChange::Host(record, entry.revision));
        }
        if key.starts_with(directory::VOLUME_PREFIX) {
            let Ok(record) = VolumeRecord::decode(&entry.value) else { return malformed() };
            self.0.volumes.borrow_mut().insert(record.name.clone(), record);
            return None;
        }
        if key.starts_with(directory::OBJECT_PREFIX) {
            let Ok(record) = ObjectRecord::decode(&entry.value) else { return malformed() };
            self.0.objects.borrow_mut().insert(record.id, record.clone());
            return Some(ObjectChange::Put(record, entry.revision));
        }
        if key == directory::cluster_key() {
            let Ok(record) = ClusterRecord::decode(&entry.value) else { return malformed() };
            self.0.cluster.set(Some(record.id));
        }
        if key.starts_with(directory::ORPHAN_PREFIX) {
            let Ok(record) = OrphanRecord::decode(&entry.value) else { return malformed() };
            self.0.orphans.borrow_mut().insert(record.id, record);
        }
        None
    }

    /// Takes one vanished key.
    pub fn delete(&self, key: &str) -> Option<ObjectChange> {
        self.0.changed.notify();
        if let Some(id) = directory::parse_alive_key(key) {
            self.0.alive.borrow_mut().remove(&id);
            return Some(ObjectChange::Alive(id, None));
        }
        if let Some(name) = key.strip_prefix(directory::VOLUME_PREFIX) {
            self.0.volumes.borrow_mut().remove(name);
            return None;
        }
        if let Some(id) = directory::parse_object_key(key) {
            self.0.objects.borrow_mut().remove(&id);
            return Some(ObjectChange::Deleted(id));
        }
        if key == directory::cluster_key() {
            self.0.cluster.set(None);
        }
        if let Some(id) = directory::parse_orphan_key(key) {
            self.0.orphans.borrow_mut().remove(&id);
        }
        None
    }

    fn keys(&self) -> Set<String> {
        let hosts = self.0.hosts.borrow();
        let alive = self.0.alive.borrow();
        let volumes = self.0.volumes.borrow();
        let objects = self.0.objects.borrow();
        let orphans = self.0.orphans.borrow();
        hosts
            .keys()
            .map(|id| directory::host_key(*id))
            .chain(alive.keys().map(|id| directory::alive_key(*id)))
            .chain(volumes.keys().map(|name| directory::volume_key(name)))
            .chain(objects.keys().map(|id| directory::object_key(*id)))
            .chain(orphans.keys().map(|id| directory::orphan_key(*id)))
            .chain(self.0.cluster.get().map(|_| directory::cluster_key()))
            .collect()
    }

    /// Whether the directory has been seen whole at least once.
    pub fn is_complete(&self) -> bool {
        self.0.complete.get()
    }

    /// Wakes at every change.
    pub fn changed(&self) -> Notify {
        self.0.changed.clone()
    }

    /// All hosts, by number.
    pub fn hosts(&self) -> Vec<HostRecord> {
        self.0.hosts.borrow().values().cloned().collect()
    }

    /// All objects, by id.
    pub fn objects(&self) -> Vec<ObjectRecord> {
        self.0.objects.borrow().values().cloned().collect()
    }

    /// Bytes that the components on each host have when all of them are full.
    pub fn placed_bytes(&self) -> Map<HostId, u64> {
        let mut placed: Map<HostId, u64> = Map::new();
        for object in self.0.objects.borrow().values() {
            let bytes = object.sectors.saturating_mul(SECTOR_SIZE);
            for component in &object.components {
                let sum = placed.entry(component.host).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        placed
    }

    /// The name of a host, or its number where its record is missing.
    pub fn host_name(&self, id: HostId) -> String {
        let hosts = self.0.hosts.borrow();
        hosts.get(&id).map_or_else(|| format!("host {id}"), |record| record.name.clone())
    }

    /// The lease record of a live host.
    pub fn alive(&self, id: HostId) -> Option<AliveRecord> {
        self.0.alive.borrow().get(&id).copied()
    }

    /// All volumes, by name.
    pub fn volumes(&self) -> Vec<VolumeRecord> {
        self.0.volumes.borrow().values().cloned().collect()
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Option<VolumeRecord> {
        self.0.volumes.borrow().get(name).cloned()
    }

    /// Volumes that objects name and that do not exist; none before the directory was seen whole.
    pub fn volumes_missing(&self) -> Set<VolumeId> {
        let volumes = self.0.volumes.borrow();
        let there: Set<VolumeId> = volumes.values().map(|record| record.id).collect();
        let objects = self.0.objects.borrow();
        let named = objects.values().map(|record| record.volume);
        named.filter(|volume| self.is_complete() && !there.contains(volume)).collect()
    }

    /// Id of the cluster that the directory says it is of; `None` where it is empty.
    pub fn cluster(&self) -> Option<u64> {
        self.0.cluster.get()
    }

    /// What hosts hold that the directory does not account for.
    pub fn orphans(&self) -> Vec<OrphanRecord> {
        self.0.orphans.borrow().values().cloned().collect()
    }

    /// One object.
    pub fn object(&self, id: ObjectId) -> Option<ObjectRecord> {
        self.0.objects.borrow().get(&id).cloned()
    }
}
