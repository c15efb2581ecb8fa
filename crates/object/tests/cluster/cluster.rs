// SPDX-License-Identifier: Apache-2.0
//! The hosts, their lives and their clients.

use crate::group::open_group;
use crate::oracle::Oracle;
use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, Rng, Seat, ShardId, Term, Version, VolumeId,
    WriterEpoch,
};
use directory::store::Snapshot;
use directory::{
    ALIVE_PREFIX, AliveRecord, Backend, Claim, ComponentRecord, ComponentState, Directory, Level,
    MemoryBackend, OBJECT_PREFIX, ObjectRecord, Transaction, WatchEvent, alive_key, object_key,
};
use diskgroup::DiskGroup;
use env::{Address, Env, TaskSet};
use object::{Mutations, ObjectError, ObjectOptions, Objects};
use peer::{NotReady, PeerId, Peers};
use sim::{HostKey, World, WorldOptions};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

pub const OBJECT: ObjectId = ObjectId(77);
pub const BLOCKS: usize = 600; // three chunks, the last one not whole
pub const HOSTS: usize = 3;
const TTL: Duration = Duration::from_secs(6);

pub struct Cluster {
    pub world: World,
    pub hosts: Vec<Rc<Host>>,
    pub directory: HostKey,
    backend: Rc<MemoryBackend>,
    pub oracle: Rc<RefCell<Oracle>>,
    pub failures: Rc<RefCell<Vec<String>>>,
    pub rng: Rng,
    /// Clients end.
    pub stop: Rc<Cell<bool>>,
    mutations: Mutations,
}

pub struct Host {
    pub key: HostKey,
    pub id: ShardId,
    incarnation: Cell<u64>,
    pub is_formatted: Cell<bool>,
    pub group: RefCell<Option<DiskGroup>>,
    pub objects: RefCell<Option<Objects>>,
    pub peers: RefCell<Option<Peers>>,
}

fn address(host: u32, port: u16) -> Address {
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, u8::try_from(host).unwrap()));
    Address::Tcp(SocketAddr::new(ip, port))
}

fn ip(host: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, u8::try_from(host).unwrap()))
}

pub fn record() -> ObjectRecord {
    record_on(&[1, 2, 3])
}

pub fn record_on(hosts: &[u32]) -> ObjectRecord {
    let component = |n: &u32| ComponentRecord {
        id: ComponentId(100 + u64::from(*n)),
        shard: ShardId(*n),
        group: GroupId(u64::from(*n)),
        state: ComponentState::Active,
        seat: Seat(1),
        left: Lsn::ZERO,
        replaces: None,
    };
    ObjectRecord {
        id: OBJECT,
        volume: VolumeId(5),
        sectors: BLOCKS as u64 * 8,
        version: Version(1),
        term: Term(0),
        owner: None,
        handover: None,
        components: hosts.iter().map(component).collect(),
        removed: Vec::new(),
        claims: Vec::new(),
        is_doubted: false,
        writer_epoch: WriterEpoch::ANY,
    }
}

impl Cluster {
    pub fn new(seed: u64, mutations: Mutations) -> Self {
        Self::in_world(World::new(WorldOptions { seed, ..WorldOptions::default() }), mutations)
    }

    /// The same in a world that somebody has chosen.
    pub fn in_world(world: World, mutations: Mutations) -> Self {
        let seed = world.seed();
        let directory = world.add_host("directory", ip(9));
        let host = |n: u32| Host {
            key: world.add_host(&format!("host{n}"), ip(n)),
            id: ShardId(n),
            incarnation: Cell::new(0),
            is_formatted: Cell::new(false),
            group: RefCell::default(),
            objects: RefCell::default(),
            peers: RefCell::default(),
        };
        let hosts = (1..=HOSTS as u32).map(|n| Rc::new(host(n))).collect();
        let cluster = Self {
            hosts,
            directory,
            backend: Rc::default(),
            oracle: Rc::new(RefCell::new(Oracle::new(BLOCKS))),
            failures: Rc::default(),
            rng: Rng::new(seed ^ 0x5EED),
            stop: Rc::default(),
            mutations,
            world,
        };
        cluster.boot_directory();
        for at in 0..HOSTS {
            cluster.boot(at);
        }
        cluster
    }

    pub fn boot_directory(&self) {
        let backend = Rc::clone(&self.backend);
        self.world.boot(self.directory, |env| {
            Box::pin(async move {
                let listener = env.listen(address(9, 2379)).await.expect("listens");
                drop(directory::serve(&env, listener, backend).await);
            })
        });
    }

    /// Has the next run of a host be number `run`, as a directory does that forgot some.
    pub fn count_runs_from(&self, at: usize, run: u64) {
        self.hosts[at].incarnation.set(run - 1);
    }

    /// Starts a new run of a host.
    pub fn boot(&self, at: usize) {
        let host = Rc::clone(&self.hosts[at]);
        host.incarnation.set(host.incarnation.get() + 1);
        let mutations = self.mutations;
        self.world.boot(host.key, move |env| Box::pin(live(env, host, mutations)));
    }

    pub fn kill(&self, at: usize) {
        drop(self.hosts[at].objects.borrow_mut().take());
        drop(self.hosts[at].peers.borrow_mut().take());
        drop(self.hosts[at].group.borrow_mut().take());
        self.world.kill(self.hosts[at].key);
    }

    pub fn crash(&self, at: usize) {
        drop(self.hosts[at].objects.borrow_mut().take());
        drop(self.hosts[at].peers.borrow_mut().take());
        drop(self.hosts[at].group.borrow_mut().take());
        self.world.crash(self.hosts[at].key);
    }

    /// Cuts or joins a host and all others, the directory included or not.
    pub fn isolate(&self, at: usize, directory_too: bool, cut: bool) {
        for other in (0..HOSTS).filter(|other| *other != at) {
            self.world.partition(self.hosts[at].key, self.hosts[other].key, cut);
        }
        if directory_too {
            self.world.partition(self.hosts[at].key, self.directory, cut);
        }
    }

    pub fn run(&self, seconds: f64) {
        self.world.run_for(Duration::from_secs_f64(seconds));
        self.check();
    }

    pub fn check(&self) {
        let failures = self.failures.borrow();
        assert!(failures.is_empty(), "seed {}: {failures:?}", self.world.seed());
    }

    pub fn objects(&self, at: usize) -> Option<Objects> {
        self.hosts[at].objects.borrow().clone()
    }

    /// Runs `work` on a host until it is done.
    pub fn on<T: 'static>(
        &self,
        at: usize,
        max: Duration,
        work: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        let env = self.world.env(self.hosts[at].key)?;
        let _task = env.spawn("test", async move {
            let value = work.await;
            *place.borrow_mut() = Some(value);
        });
        self.world.run_until(max, || result.borrow().is_some());
        result.take()
    }

    /// The object exists.
    pub fn create(&self) {
        self.create_as(record());
    }

    pub fn create_as(&self, record: ObjectRecord) {
        self.create_with(record, 0);
    }

    /// It exists, and so many percent of it are kept for it.
    pub fn create_with(&self, record: ObjectRecord, reserve_percent: u8) {
        let up = || self.hosts.iter().all(|host| host.objects.borrow().is_some());
        assert!(self.world.run_until(Duration::from_secs(20), up), "hosts start");
        let objects = self.objects(0).unwrap();
        let env = self.world.env(self.hosts[0].key).unwrap();
        let done = self.on(0, Duration::from_secs(20), async move {
            objects.create(record.clone(), reserve_percent).await.expect("components are made");
            let directory = Directory::connect(&env, address(9, 2379));
            let put = Transaction::new().put(object_key(record.id), record.encode());
            directory.transact(put).await.expect("the record is written");
        });
        assert!(done.is_some(), "the object is created");
    }

    /// Makes host `at` the owner in the directory, as a hand-over does whose giver hears of it by
    /// its watch first.
    pub fn give_to(&self, at: usize) {
        let host = &self.hosts[at];
        let env = self.world.env(host.key).unwrap();
        let incarnation = Incarnation(host.incarnation.get());
        let to = directory::OwnerRecord { shard: host.id, incarnation };
        let done = self.on(at, Duration::from_secs(5), async move {
            let directory = Directory::connect(&env, address(9, 2379));
            let entry = directory.get(&object_key(OBJECT)).await.unwrap().expect("a record");
            let mut record = ObjectRecord::decode(&entry.value).expect("a record");
            (record.version, record.term) =
                (Version(record.version.0 + 1), Term(record.term.0 + 1));
            record.owner = Some(to);
            let (term, version) = (record.term, record.version);
            record.claims.push(Claim { term, version, owner: to });
            let put = Transaction::new().put(object_key(OBJECT), record.encode());
            directory.transact(put).await.expect("the record is written");
        });
        assert!(done.is_some(), "the directory answers");
    }

    /// Clients of one host: each writes its own blocks and reads all. They end with its run.
    pub fn clients(&self, at: usize, count: usize, until: Duration) {
        let host = Rc::clone(&self.hosts[at]);
        let Some(env) = self.world.env(host.key) else { return };
        let Some(objects) = self.objects(at) else { return };
        objects.set_attached(OBJECT, true);
        let end = env.now() + until;
        for client in 0..count {
            let seed = env.random();
            let mine: Vec<usize> =
                (0..BLOCKS).filter(|b| b % HOSTS == at && b / HOSTS % count == client).collect();
            let (env2, objects, oracle) = (env.clone(), objects.clone(), Rc::clone(&self.oracle));
            let (failures, stop) = (Rc::clone(&self.failures), Rc::clone(&self.stop));
            let task = env.spawn("client", async move {
                let mut rng = Rng::new(seed);
                while env2.now() < end && !stop.get() {
                    let write = rng.below(2) == 0;
                    let block = if write {
                        mine[usize::try_from(rng.below(mine.len() as u64)).unwrap()]
                    } else {
                        usize::try_from(rng.below(BLOCKS as u64)).unwrap()
                    };
                    // A few hot blocks, so that reads meet writes.
                    let block = if rng.below(2) == 0 { mine[0] % HOSTS } else { block };
                    let write = write && mine.contains(&block);
                    let result = if write {
                        put(&env2, &objects, &oracle, block).await
                    } else {
                        get(&env2, &objects, &oracle, block).await
                    };
                    if let Err(failure) = result {
                        failures.borrow_mut().push(failure);
                        return;
                    }
                    env2.sleep(Duration::from_micros(rng.below(3000))).await;
                }
            });
            std::mem::forget(task);
        }
    }

    /// Waits until every component is active and served.
    pub fn settle(&self, max: f64) {
        let is_whole = || {
            self.hosts.iter().any(|host| {
                let objects = host.objects.borrow();
                let status = objects.as_ref().and_then(|objects| objects.status(OBJECT));
                status.is_some_and(|status| {
                    status.is_served_here
                        && status.components.iter().all(|c| c.state == ComponentState::Active)
                })
            })
        };
        let done = self.world.run_until(Duration::from_secs_f64(max), is_whole);
        self.check();
        if !done {
            for host in &self.hosts {
                let objects = host.objects.borrow();
                eprintln!("{:?}: {:?}", host.id, objects.as_ref().and_then(|o| o.status(OBJECT)));
            }
            panic!("seed {}: not whole again after {max} s", self.world.seed());
        }
    }

    /// What the component of a host holds that the object was made with.
    pub fn content(&self, at: usize) -> Vec<u8> {
        self.content_of(at, ComponentId(100 + at as u64 + 1))
    }

    /// What a component of a host holds.
    pub fn content_of(&self, at: usize, id: ComponentId) -> Vec<u8> {
        let group = self.hosts[at].group.borrow().clone().expect("host is up");
        let content = self.on(at, Duration::from_secs(20), async move {
            let mut all = Vec::new();
            for block in 0..BLOCKS {
                let data = group.read(id, Oracle::range(block)).await.expect("readable");
                all.extend_from_slice(&data.payload);
            }
            all
        });
        content.expect("read in time")
    }

    /// All that the directory holds.
    pub fn backup(&self) -> Snapshot {
        self.backend.load().expect("it is in memory")
    }

    /// The directory is started with what it held before.
    pub fn go_back(&self, backup: Snapshot) {
        self.world.kill(self.directory);
        self.backend.replace(backup);
        self.boot_directory();
    }

    /// The object's record as it stands.
    pub fn record(&self) -> ObjectRecord {
        let entries = self.backup().entries;
        let entry = entries.iter().find(|(key, ..)| *key == object_key(OBJECT));
        let (_, entry, _) = entry.expect("there is a record");
        ObjectRecord::decode(&entry.value).expect("a record")
    }

    /// At rest, all components hold the same, and every block is what the oracle allows.
    pub fn verify(&self) {
        self.settle(120.0);
        self.world.run_for(Duration::from_millis(500));
        let components = self.record().components;
        let contents: Vec<Vec<u8>> =
            components.iter().map(|c| self.content_of(c.shard.0 as usize - 1, c.id)).collect();
        for block in 0..BLOCKS {
            let at = block * 4096..(block + 1) * 4096;
            for other in &contents[1..] {
                assert!(
                    contents[0][at.clone()] == other[at.clone()],
                    "seed {}: block {block} differs between components",
                    self.world.seed()
                );
            }
            let mut oracle = self.oracle.borrow_mut();
            let least = oracle.begin_read(block);
            let verdict = oracle.end_read(block, least, &contents[0][at]);
            assert_eq!(verdict, Ok(()), "seed {}: at rest", self.world.seed());
        }
    }

    pub fn owner(&self) -> Option<usize> {
        self.hosts.iter().position(|host| {
            let objects = host.objects.borrow();
            let status = objects.as_ref().and_then(|objects| objects.status(OBJECT));
            status.is_some_and(|status| status.is_served_here)
        })
    }
}

async fn retry(env: &Env, objects: &Objects, error: ObjectError) -> Result<(), String> {
    match error {
        ObjectError::NotOwner => {
            let _ = objects.acquire(OBJECT).await;
        }
        ObjectError::Inaccessible => {
            env.sleep(Duration::from_millis(20)).await;
            let _ = objects.acquire(OBJECT).await;
        }
        other => return Err(format!("{other}")),
    }
    env.sleep(Duration::from_millis(1)).await;
    Ok(())
}

pub async fn put(
    env: &Env,
    objects: &Objects,
    oracle: &RefCell<Oracle>,
    block: usize,
) -> Result<(), String> {
    let range = Oracle::range(block);
    let version = oracle.borrow_mut().begin_write(block);
    let bytes = Oracle::content(block, version);
    let mut buf = env.buf(bytes.len());
    buf.copy_from_slice(&bytes);
    let payload = buf.freeze();
    let crcs = wire::crcs_of(range, &payload);
    let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
    loop {
        let (kind, crcs, payload) = (wire::WriteKind::Data, crcs.clone(), payload.clone());
        match objects.write(OBJECT, &request, range, kind, crcs, payload).await {
            Ok(()) => break,
            Err(error) => retry(env, objects, error).await?,
        }
    }
    oracle.borrow_mut().end_write(block, version);
    Ok(())
}

pub async fn get(
    env: &Env,
    objects: &Objects,
    oracle: &RefCell<Oracle>,
    block: usize,
) -> Result<(), String> {
    loop {
        let least = oracle.borrow().begin_read(block);
        match objects.read(OBJECT, Oracle::range(block)).await {
            Ok(data) => return oracle.borrow_mut().end_read(block, least, &data.payload),
            Err(error) => retry(env, objects, error).await?,
        }
    }
}

/// One run of one host.
async fn live(env: Env, host: Rc<Host>, mutations: Mutations) {
    let me = PeerId { shard: host.id, incarnation: Incarnation(host.incarnation.get()) };
    let directory = Directory::connect(&env, address(9, 2379));
    let peers = Peers::new(&env, me, 1, Rc::new(NotReady));
    let group = open_group(&env, &host).await;
    let options = ObjectOptions { mutations, ..ObjectOptions::default() };
    let disks = object::Disks::new(vec![group.clone()], 0);
    let objects = Objects::new(&env, me, directory.clone(), peers.clone(), disks, options);
    drop(peers.listen(address(host.id.0, 7000)).await.expect("listens"));
    for other in 1..=HOSTS as u32 {
        if other != host.id.0 {
            peers.set_address(ShardId(other), address(other, 7000));
        }
    }
    *host.group.borrow_mut() = Some(group);
    *host.objects.borrow_mut() = Some(objects.clone());
    *host.peers.borrow_mut() = Some(peers);
    let tasks = TaskSet::default();
    tasks.spawn(&env, "alive", keep_alive(env.clone(), directory.clone(), me));
    tasks.spawn(&env, "records", watch_records(directory.clone(), objects.clone()));
    watch_hosts(directory, objects).await;
}

async fn keep_alive(env: Env, directory: Directory, me: PeerId) {
    loop {
        if let Ok(lease) = directory.lease_grant(TTL).await {
            let record =
                AliveRecord { incarnation: me.incarnation, free_bytes: 0, level: Level::FIRST };
            let put = Transaction::new().put_leased(alive_key(me.shard), record.encode(), lease);
            if directory.transact(put).await.is_ok() {
                while directory.lease_keep(lease).await != Err(directory::DirectoryError::LeaseGone)
                {
                    env.sleep(TTL / 4).await;
                }
            }
        }
        env.sleep(Duration::from_millis(200)).await;
    }
}

async fn watch_records(directory: Directory, objects: Objects) {
    let mut watch = directory.watch(OBJECT_PREFIX);
    loop {
        match watch.next().await {
            WatchEvent::Reset(listing) => {
                for (_, entry) in listing.entries {
                    let record = ObjectRecord::decode(&entry.value).expect("a record");
                    objects.record_changed(record, entry.revision);
                }
            }
            WatchEvent::Put(_, entry) => {
                let record = ObjectRecord::decode(&entry.value).expect("a record");
                objects.record_changed(record, entry.revision);
            }
            WatchEvent::Delete(..) => objects.record_deleted(OBJECT),
        }
    }
}

async fn watch_hosts(directory: Directory, objects: Objects) {
    let mut watch = directory.watch(ALIVE_PREFIX);
    let told = |key: &str, value: Option<&[u8]>| {
        let mut hosts = (1..=HOSTS as u32).map(ShardId);
        let shard = hosts.find(|shard| alive_key(*shard) == key).expect("a host's key");
        let alive = value.map(|value| AliveRecord::decode(value).expect("a record").incarnation);
        objects.host_alive(shard, alive);
    };
    loop {
        match watch.next().await {
            WatchEvent::Reset(listing) => {
                for host in 1..=HOSTS as u32 {
                    objects.host_alive(ShardId(host), None);
                }
                listing.entries.iter().for_each(|(key, entry)| told(key, Some(&entry.value)));
            }
            WatchEvent::Put(key, entry) => told(&key, Some(&entry.value)),
            WatchEvent::Delete(key, _) => told(&key, None),
        }
    }
}
