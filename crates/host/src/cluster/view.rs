// SPDX-License-Identifier: Apache-2.0
//! What this host has been told of the cluster: a copy of the directory, kept by watches.
//!
//! It may lag. Whatever changes something reads the directory itself (rule 41).

use crate::mutations::Mutations;
use base::{ComponentId, Map, ObjectId, SECTOR_SIZE, Set, ShardId, VolumeId, WriterEpoch};
use directory::{
    AliveRecord, ClusterKind, ClusterRecord, DEFAULT_POLICY, DomainsRecord, Entry, Level,
    MaintenanceRecord, ObjectRecord, OrphanRecord, OwnerRecord, PolicyRecord, RecordError,
    RemovedShardRecord, SettingsRecord, ShardRecord, VolumeRecord, Writing,
};
use env::Notify;
use placement::HostDomains;
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A change of an object record, for the object layer.
pub enum ObjectChange {
    /// A record is new or changed.
    Put(ObjectRecord, u64),
    /// A record is gone.
    Deleted(ObjectId),
    /// A host's lease key appeared, changed or vanished.
    Alive(ShardId, Option<AliveRecord>),
    /// A host's record, and the revision that wrote it.
    Host(ShardRecord, u64),
    /// A host was taken out of the cluster, for ever.
    Removed(ShardId),
    /// Undecodable record: its key.
    Malformed(String),
}

/// The copy. Cheap to clone.
#[derive(Clone, Default)]
pub struct View(Rc<ViewInner>);

#[derive(Default)]
struct ViewInner {
    mutations: Cell<Mutations>,
    hosts: Held<ShardId, ShardRecord>,
    alive: Held<ShardId, AliveRecord>,
    removed: Held<ShardId, RemovedShardRecord>,
    volumes: Held<String, VolumeRecord>,
    policies: Held<String, PolicyRecord>,
    objects: Held<ObjectId, ObjectRecord>,
    /// Sectors of all components on each host. Kept along, for every new volume asks for it.
    placed_sectors: RefCell<Map<ShardId, u64>>,
    orphans: Held<ComponentId, OrphanRecord>,
    /// Id and level of the cluster whose directory it is.
    cluster: Cell<Option<(u64, Level, ClusterKind)>>,
    /// What an operator set; `None` where nobody did.
    settings: Cell<Option<SettingsRecord>>,
    /// Hosts in maintenance; `None` where there is no record.
    maintenance: RefCell<Option<MaintenanceRecord>>,
    access: AccessView,
    /// Fault domains; `None` where there is no record.
    domains: RefCell<Option<DomainsRecord>>,
    /// The same, by host.
    host_domains: RefCell<HostDomains>,
    complete: Cell<bool>,
    changed: Notify,
    turn: Cell<u64>,
}

/// Records of one kind, each with the value that it was decoded from. A reset tells every key
/// again, and nearly all of them are what they were: a value that is held is not decoded a second
/// time.
struct Held<K, R>(RefCell<Map<K, (R, Vec<u8>)>>);

impl<K, R> Default for Held<K, R> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<K: Ord, R: Clone> Held<K, R> {
    /// Takes the value of a key. `id` is what the key names, `decode` tells what the record in the
    /// value is of. Nothing changes where the value is no record.
    fn put<Q: Ord + ?Sized, E>(
        &self,
        id: Option<&Q>,
        value: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<(K, R), E>,
    ) -> Result<R, E>
    where
        K: Borrow<Q>,
    {
        let mut held = self.0.borrow_mut();
        if let Some((record, _)) = id.and_then(|id| held.get(id)).filter(|(_, of)| *of == value) {
            return Ok(record.clone());
        }
        let (id, record) = decode(value)?;
        held.insert(id, (record.clone(), value.to_vec()));
        Ok(record)
    }

    fn remove<Q: Ord + ?Sized>(&self, id: &Q)
    where
        K: Borrow<Q>,
    {
        self.0.borrow_mut().remove(id);
    }

    fn get<Q: Ord + ?Sized>(&self, id: &Q) -> Option<R>
    where
        K: Borrow<Q>,
    {
        self.0.borrow().get(id).map(|(record, _)| record.clone())
    }

    /// All of them, by id.
    fn all(&self) -> Vec<R> {
        self.0.borrow().values().map(|(record, _)| record.clone()).collect()
    }
}

/// Which hosts count as one: by the domains of a record, and by their machines.
pub fn host_domains(record: &DomainsRecord, machines: Vec<(ShardId, String)>) -> HostDomains {
    let members = record.members.iter().map(|member| member.shard);
    let paths = members.map(|shard| (shard, record.path(shard)));
    HostDomains::on_machines(paths, machines)
}

impl View {
    /// Of a host that has not heard of anything yet.
    pub fn new(mutations: Mutations) -> Self {
        let view = Self::default();
        view.0.mutations.set(mutations);
        view
    }

    /// Rules that are removed on purpose.
    pub fn mutations(&self) -> Mutations {
        self.0.mutations.get()
    }

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
        let (inner, value) = (&*self.0, &*entry.value);
        if let Some(id) = directory::parse_alive_key(key) {
            let Ok(record) = self.put_alive(id, value) else { return malformed() };
            return Some(ObjectChange::Alive(id, Some(record)));
        }
        inner.turn.update(|turn| turn + 1);
        if key.starts_with(directory::HOST_PREFIX) {
            let id = directory::parse_host_key(key);
            let machine = || inner.hosts.get(id.as_ref()?).and_then(|record| record.machine);
            let before = machine();
            let decode = |value: &_| ShardRecord::decode(value).map(|record| (record.id, record));
            let Ok(record) = inner.hosts.put(id.as_ref(), value, decode) else {
                return malformed();
            };
            if record.machine != before {
                self.find_host_domains();
            }
            return Some(ObjectChange::Host(record, entry.revision));
        }
        if key.starts_with(directory::REMOVED_PREFIX) {
            let id = directory::parse_removed_key(key);
            let decode =
                |value: &_| RemovedShardRecord::decode(value).map(|record| (record.id, record));
            let Ok(record) = inner.removed.put(id.as_ref(), value, decode) else {
                return malformed();
            };
            return Some(ObjectChange::Removed(record.id));
        }
        if key.starts_with(directory::VOLUME_PREFIX) {
            let name = key.strip_prefix(directory::VOLUME_PREFIX);
            let decode =
                |value: &_| VolumeRecord::decode(value).map(|record| (record.name.clone(), record));
            let Ok(_) = inner.volumes.put(name, value, decode) else { return malformed() };
            return None;
        }
        if key.starts_with(directory::POLICY_PREFIX) {
            let name = directory::parse_policy_key(key);
            let decode =
                |value: &_| PolicyRecord::decode(value).map(|record| (record.name.clone(), record));
            let Ok(_) = inner.policies.put(name, value, decode) else { return malformed() };
            return None;
        }
        if key.starts_with(directory::OBJECT_PREFIX) {
            let id = directory::parse_object_key(key);
            let decode = |value: &_| {
                let record = ObjectRecord::decode(value).ok();
                let record = record.filter(|record| Some(record.id) == id);
                record.map(|record| (record.id, record)).ok_or(())
            };
            let before = id.and_then(|id| self.object(id));
            let Ok(record) = inner.objects.put(id.as_ref(), value, decode) else {
                return malformed();
            };
            self.count_placed(before.as_ref(), Some(&record));
            return Some(ObjectChange::Put(record, entry.revision));
        }
        if self.put_only_one(key, value).is_err() {
            return malformed();
        }
        if key.starts_with(directory::ORPHAN_PREFIX) {
            let id = directory::parse_orphan_key(key);
            let decode = |value: &_| OrphanRecord::decode(value).map(|record| (record.id, record));
            let Ok(_) = inner.orphans.put(id.as_ref(), value, decode) else { return malformed() };
        }
        None
    }

    fn put_alive(&self, id: ShardId, value: &[u8]) -> Result<AliveRecord, RecordError> {
        let before = self.alive(id).map(|record| record.incarnation);
        let decode = |value: &_| AliveRecord::decode(value).map(|record| (id, record));
        let record = self.0.alive.put(Some(&id), value, decode)?;
        let is_another = before != Some(record.incarnation);
        self.0.turn.update(|turn| turn + u64::from(is_another));
        Ok(record)
    }

    /// Takes the value of a key of which there is one in a cluster.
    fn put_only_one(&self, key: &str, value: &[u8]) -> Result<(), RecordError> {
        let inner = &*self.0;
        if key == directory::cluster_key() {
            let record = ClusterRecord::decode(value)?;
            inner.cluster.set(Some((record.id, record.level, record.kind)));
        }
        if key == directory::settings_key() {
            inner.settings.set(Some(SettingsRecord::decode(value)?));
        }
        if key == directory::maintenance_key() {
            inner.maintenance.replace(Some(MaintenanceRecord::decode(value)?));
        }
        inner.access.put(key, value)?;
        if key == directory::domains_key() {
            self.set_domains(Some(DomainsRecord::decode(value)?));
        }
        Ok(())
    }

    /// Takes one vanished key.
    pub fn delete(&self, key: &str) -> Option<ObjectChange> {
        self.0.changed.notify();
        self.0.turn.update(|turn| turn + 1);
        if let Some(id) = directory::parse_alive_key(key) {
            self.0.alive.remove(&id);
            return Some(ObjectChange::Alive(id, None));
        }
        if let Some(id) = directory::parse_host_key(key) {
            self.0.hosts.remove(&id);
            self.find_host_domains();
            return None;
        }
        if let Some(id) = directory::parse_removed_key(key) {
            self.0.removed.remove(&id);
            return None;
        }
        if let Some(name) = key.strip_prefix(directory::VOLUME_PREFIX) {
            self.0.volumes.remove(name);
            return None;
        }
        if let Some(name) = key.strip_prefix(directory::POLICY_PREFIX) {
            self.0.policies.remove(name);
            return None;
        }
        if let Some(id) = directory::parse_object_key(key) {
            self.count_placed(self.object(id).as_ref(), None);
            self.0.objects.remove(&id);
            return Some(ObjectChange::Deleted(id));
        }
        if key == directory::cluster_key() {
            self.0.cluster.set(None);
        }
        if key == directory::settings_key() {
            self.0.settings.set(None);
        }
        if key == directory::maintenance_key() {
            self.0.maintenance.replace(None);
        }
        self.0.access.delete(key);
        if key == directory::domains_key() {
            self.set_domains(None);
        }
        if let Some(id) = directory::parse_orphan_key(key) {
            self.0.orphans.remove(&id);
        }
        None
    }

    fn keys(&self) -> Set<String> {
        let hosts = self.0.hosts.0.borrow();
        let alive = self.0.alive.0.borrow();
        let removed = self.0.removed.0.borrow();
        let volumes = self.0.volumes.0.borrow();
        let policies = self.0.policies.0.borrow();
        let objects = self.0.objects.0.borrow();
        let orphans = self.0.orphans.0.borrow();
        hosts
            .keys()
            .map(|id| directory::host_key(*id))
            .chain(alive.keys().map(|id| directory::alive_key(*id)))
            .chain(removed.keys().map(|id| directory::removed_key(*id)))
            .chain(volumes.keys().map(|name| directory::volume_key(name)))
            .chain(policies.keys().map(|name| directory::policy_key(name)))
            .chain(objects.keys().map(|id| directory::object_key(*id)))
            .chain(orphans.keys().map(|id| directory::orphan_key(*id)))
            .chain(self.0.cluster.get().map(|_| directory::cluster_key()))
            .chain(self.0.settings.get().map(|_| directory::settings_key()))
            .chain(self.0.maintenance.borrow().as_ref().map(|_| directory::maintenance_key()))
            .chain(self.0.access.keys())
            .chain(self.0.domains.borrow().as_ref().map(|_| directory::domains_key()))
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

    /// Rises at every change but of the free space that a lease key tells, so that what looks at
    /// all records need not look again while nothing that it goes by has changed.
    pub fn turn(&self) -> u64 {
        self.0.turn.get()
    }

    /// All hosts, by number.
    pub fn shards(&self) -> Vec<ShardRecord> {
        self.0.hosts.all()
    }

    /// The name of the machine that a host is on.
    pub fn machine_of(&self, id: ShardId) -> String {
        let record = self.0.hosts.get(&id);
        record.map_or_else(|| self.shard_name(id), |record| record.machine().to_owned())
    }

    /// The machines that hosts share.
    pub fn machines(&self) -> Vec<(ShardId, String)> {
        let hosts = self.0.hosts.0.borrow();
        let machine = |shard: &ShardRecord| Some((shard.id, shard.machine.clone()?));
        hosts.values().filter_map(|(shard, _)| machine(shard)).collect()
    }

    /// The hosts of a machine, by number.
    pub fn hosts_of(&self, machine: &str) -> Vec<ShardRecord> {
        let hosts = self.0.hosts.0.borrow();
        let mine = hosts.values().filter(|(shard, _)| shard.machine() == machine);
        mine.map(|(shard, _)| shard.clone()).collect()
    }

    /// All objects, by id.
    pub fn objects(&self) -> Vec<ObjectRecord> {
        self.0.objects.all()
    }

    /// Calls `look` with each object, by id.
    pub fn for_each_object(&self, mut look: impl FnMut(&ObjectRecord)) {
        self.0.objects.0.borrow().values().for_each(|(record, _)| look(record));
    }

    /// Bytes that the components on each host have when all of them are full.
    pub fn placed_bytes(&self) -> Map<ShardId, u64> {
        let bytes = |sectors: &u64| sectors.saturating_mul(SECTOR_SIZE);
        let placed = self.0.placed_sectors.borrow();
        placed.iter().map(|(shard, sectors)| (*shard, bytes(sectors))).collect()
    }

    /// An object's record was one and is another now. Sums wrap, so that what was added can be
    /// taken off again whatever records say.
    fn count_placed(&self, before: Option<&ObjectRecord>, after: Option<&ObjectRecord>) {
        let mut placed = self.0.placed_sectors.borrow_mut();
        let mut count = |object: &ObjectRecord, add: fn(u64, u64) -> u64| {
            for component in &object.components {
                let sum = placed.entry(component.shard).or_default();
                *sum = add(*sum, object.sectors);
            }
        };
        before.inspect(|object| count(object, u64::wrapping_sub));
        after.inspect(|object| count(object, u64::wrapping_add));
    }

    /// The name of a host, or its number where its record is missing.
    pub fn shard_name(&self, id: ShardId) -> String {
        if let Some(record) = self.0.removed.get(&id) {
            return format!("{} (removed)", record.name);
        }
        let hosts = self.0.hosts.0.borrow();
        hosts.get(&id).map_or_else(|| format!("host {id}"), |(record, _)| record.name.clone())
    }

    /// Whether a host of this name was taken out of the cluster.
    pub fn is_removed(&self, name: &str) -> bool {
        self.0.removed.0.borrow().values().any(|(record, _)| record.name == name)
    }

    /// The names of the hosts that were taken out of the cluster.
    pub fn removed_names(&self) -> Vec<String> {
        self.0.removed.all().into_iter().map(|record| record.name).collect()
    }

    /// The hosts that were taken out of the cluster.
    pub fn removed(&self) -> Set<ShardId> {
        self.0.removed.0.borrow().keys().copied().collect()
    }

    /// The lease record of a live host.
    pub fn alive(&self, id: ShardId) -> Option<AliveRecord> {
        self.0.alive.get(&id)
    }

    /// The living host with the lowest number: the one that does what one host is enough for.
    pub fn first_alive(&self) -> Option<ShardId> {
        self.0.alive.0.borrow().keys().next().copied()
    }

    /// All volumes, by name.
    pub fn volumes(&self) -> Vec<VolumeRecord> {
        self.0.volumes.all()
    }

    /// Calls `look` with each volume, by name.
    pub fn for_each_volume(&self, mut look: impl FnMut(&VolumeRecord)) {
        self.0.volumes.0.borrow().values().for_each(|(record, _)| look(record));
    }

    /// The volumes of which this is so, by name.
    pub fn volumes_where(&self, is_so: impl Fn(&VolumeRecord) -> bool) -> Vec<VolumeRecord> {
        let mut found = Vec::new();
        self.for_each_volume(|record| found.extend(is_so(record).then(|| record.clone())));
        found
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Option<VolumeRecord> {
        self.0.volumes.get(name)
    }

    /// One volume, whatever its name is; it takes a look at all.
    pub fn volume_of_id(&self, id: VolumeId) -> Option<VolumeRecord> {
        let volumes = self.0.volumes.0.borrow();
        volumes.values().find(|(record, _)| record.id == id).map(|(record, _)| record.clone())
    }

    /// Who writes to a volume, if it has this name.
    pub fn writing(&self, name: &str, id: VolumeId) -> Option<Writing> {
        let volumes = self.0.volumes.0.borrow();
        volumes.get(name).filter(|(record, _)| record.id == id).map(|(record, _)| record.writing)
    }

    /// The writer's epoch of an object, and who serves it.
    pub fn writer_epoch(&self, id: ObjectId) -> Option<(WriterEpoch, Option<OwnerRecord>)> {
        let objects = self.0.objects.0.borrow();
        objects.get(&id).map(|(record, _)| (record.writer_epoch, record.owner))
    }

    /// Whether no write of an epoch before this one takes effect on a volume any more (rule 56).
    pub fn is_written_in(&self, volume: &VolumeRecord, epoch: WriterEpoch) -> bool {
        let has = |id: &ObjectId| self.writer_epoch(*id).is_some_and(|(has, _)| has >= epoch);
        volume.objects.iter().all(has)
    }

    /// All policies, by name; the built-in one is always among them.
    pub fn policies(&self) -> Vec<PolicyRecord> {
        let mut policies = self.0.policies.all();
        if self.0.policies.get(DEFAULT_POLICY).is_none() {
            policies.push(PolicyRecord::built_in());
            policies.sort_by(|a, b| a.name.cmp(&b.name));
        }
        policies
    }

    /// One policy.
    pub fn policy(&self, name: &str) -> Option<PolicyRecord> {
        let built_in = || (name == DEFAULT_POLICY).then(PolicyRecord::built_in);
        self.0.policies.get(name).or_else(built_in)
    }

    /// Volumes that objects name and that do not exist; none before the directory was seen whole.
    pub fn volumes_missing(&self) -> Set<VolumeId> {
        let volumes = self.0.volumes.0.borrow();
        let there: Set<VolumeId> = volumes.values().map(|(record, _)| record.id).collect();
        let objects = self.0.objects.0.borrow();
        let named = objects.values().map(|(record, _)| record.volume);
        named.filter(|volume| self.is_complete() && !there.contains(volume)).collect()
    }

    /// Id of the cluster that the directory says it is of; `None` where it is empty.
    pub fn cluster(&self) -> Option<u64> {
        self.0.cluster.get().map(|(id, ..)| id)
    }

    /// What all hosts of the cluster know; the first level where nothing says so.
    pub fn level(&self) -> Level {
        self.0.cluster.get().map_or(Level::FIRST, |(_, level, _)| level)
    }

    /// What new disk groups are; all-flash where nothing says so.
    pub fn kind(&self) -> ClusterKind {
        self.0.cluster.get().map(|(.., kind)| kind).unwrap_or_default()
    }

    /// What an operator set for the cluster, else what is so by default.
    pub fn settings(&self) -> SettingsRecord {
        self.0.settings.get().unwrap_or_default()
    }

    /// The hosts in maintenance.
    pub fn maintenance(&self) -> MaintenanceRecord {
        self.0.maintenance.borrow().clone().unwrap_or_default()
    }

    /// The fault domains, and the hosts in them.
    pub fn domains(&self) -> DomainsRecord {
        self.0.domains.borrow().clone().unwrap_or_default()
    }

    /// The same, as placement wants it.
    pub fn host_domains(&self) -> HostDomains {
        self.0.host_domains.borrow().clone()
    }

    fn set_domains(&self, record: Option<DomainsRecord>) {
        self.0.domains.replace(record);
        self.find_host_domains();
    }

    /// To be called when domains or hosts changed.
    fn find_host_domains(&self) {
        let (mut domains, mut machines) = (self.domains(), self.machines());
        if self.mutations().ignore_domains() {
            domains = DomainsRecord::default();
        }
        if self.mutations().ignore_machines() {
            machines.clear();
        }
        let found = host_domains(&domains, machines);
        self.0.host_domains.replace(found);
    }

    /// Hosts that may take another component, with these in maintenance.
    pub fn takers(&self, maintenance: &MaintenanceRecord) -> Vec<ShardId> {
        let hosts = self.shards().into_iter().filter(|shard| !shard.groups.is_empty());
        let may =
            |shard: &ShardId| self.alive(*shard).is_some() && maintenance.mode(*shard).is_none();
        hosts.map(|shard| shard.id).filter(may).collect()
    }

    /// What hosts hold that the directory does not account for.
    pub fn orphans(&self) -> Vec<OrphanRecord> {
        self.0.orphans.all()
    }

    /// One object.
    pub fn object(&self, id: ObjectId) -> Option<ObjectRecord> {
        self.0.objects.get(&id)
    }
}

mod access;
mod pages;
mod wanted;

use access::AccessView;

pub use wanted::Wanted;

#[cfg(test)]
mod tests;
