// SPDX-License-Identifier: Apache-2.0
//! One running host: everything that it is made of, put together in this order, and ended.

mod follow;

use crate::care::backups::Backups;
use crate::care::balance::{Balance, BalanceOptions};
use crate::care::cleanup::Cleanup;
use crate::care::deletions::{Deletions, Fate};
use crate::care::memory::MemoryWatch;
use crate::care::outs::Outs;
use crate::care::repair::Repairs;
use crate::care::scrub::{RepairHelpers, ScrubMarks, ScrubOptions, Scrubbers};
use crate::care::trash::Trash;
use crate::care::writers::WriterCare;
use crate::care::{caches, describe, latency, leftovers, reserves};
use crate::cluster::membership::OwnCluster;
use crate::cluster::seen::Seen;
use crate::cluster::view::View;
use crate::cluster::{alive, membership};
use crate::config::address::parse_address;
use crate::config::{HostConfig, MemoryBudgets, Tuning};
use crate::exports::HostExports;
use crate::mutations::Mutations;
use crate::operations::{Operations, control};
use crate::start_error::StartError;
use crate::storage::hardware::Devices;
use crate::storage::{self, Opening, SlotState, Storage, StorageError, StorageOptions};
use base::{Incarnation, ShardId};
use directory::{ClientOptions, Directory, LeaseId, Level, OwnerRecord, ShardRecord};
use diskgroup::{DiskGroup, GroupError, GroupOptions, StoreMemory};
use env::{Access, Address, Boxed, Env, IoError, Notify, TaskSet};
use follow::Followers;
use object::{Disks, ObjectOptions, Objects, ReadFrom};
use peer::{LinkSecurity, NotReady, PeerId, PeerOptions, Peers};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tls::Identity;
use tracing::{info, warn};
use volume::{CreationOptions, VolumeOptions};

/// What a host is not told by its configuration.
#[derive(Clone, Default)]
pub struct NodeOptions {
    /// Passed to every disk group; only tests change it.
    pub group: GroupOptions,
    /// Passed to the object layer; only tests change it.
    pub object: ObjectOptions,
    /// Passed to the scrubbers.
    pub scrub: ScrubOptions,
    /// Passed to each open volume; only tests change it.
    pub volume: VolumeOptions,
    /// Passed to the client of the directory; only tests change it.
    pub directory: ClientOptions,
    /// How volumes are created and deleted; only tests change it.
    pub creation: CreationOptions,
    /// How often links are pinged, and what hosts speak to each other; only tests change it.
    pub peer: PeerOptions,
    /// What it proves itself with to other hosts. `None`: its links cannot be encrypted.
    pub identity: Option<Identity>,
    /// When copies move so that hosts are filled alike; only tests change it.
    pub balance: BalanceOptions,
    /// What the machine has.
    pub memory: MachineMemory,
    /// What its release knows; only tests change it.
    pub level: Level,
    /// Rules that are removed on purpose.
    pub mutations: Mutations,
}

/// Memory of the machine that a host runs on.
#[derive(Clone, Copy, Debug)]
pub struct MachineMemory {
    /// Bytes. The program looks; simulations have 16 GiB.
    pub bytes: u64,
    /// Bytes of checksum pages whatever the configuration says; for tests, which want fewer than it
    /// takes.
    pub checksum_bytes: Option<u64>,
    /// Bytes for tables of disk groups whatever is left for them; for tests, which want no byte to
    /// spare.
    pub table_bytes: Option<u64>,
}

impl Default for MachineMemory {
    fn default() -> Self {
        Self { bytes: 16 << 30, checksum_bytes: None, table_bytes: None }
    }
}

/// A running host. Dropping it stops all its tasks at once, as a crash would.
pub struct Node {
    env: Env,
    incarnation: Incarnation,
    tasks: TaskSet,
    directory: Directory,
    storage: Storage,
    lease: Rc<Cell<Option<LeaseId>>>,
    stop: Notify,
    objects: Objects,
    exports: HostExports,
    view: View,
    seen: Seen,
    backups: Backups,
    memory: MemoryWatch,
    repairs: Repairs,
    creation: CreationOptions,
    level: Level,
    keeping: Keeping,
}

/// How long what nobody needs any more is kept.
#[derive(Clone, Copy)]
struct Keeping {
    /// A component that no record accounts for.
    orphans: Duration,
    /// A deleted volume.
    deleted: Duration,
}

impl Keeping {
    fn of(tuning: &Tuning) -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let Tuning { orphan_keep_hours, deleted_keep_hours, .. } = tuning;
        Self { orphans: hours(*orphan_keep_hours), deleted: hours(*deleted_keep_hours) }
    }
}

fn object_options(
    config: &HostConfig,
    options: &NodeOptions,
    budgets: &MemoryBudgets,
) -> ObjectOptions {
    ObjectOptions {
        stall: Duration::from_millis(config.tuning.stall_ms),
        write_bytes: budgets.writes,
        read_from: match config.has_hybrid() {
            false => ReadFrom::Nearest,
            true => ReadFrom::Chosen,
        },
        ..options.object.clone()
    }
}

fn group_options(config: &HostConfig, options: &NodeOptions) -> GroupOptions {
    GroupOptions {
        full_percent: config.tuning.space_full_percent,
        stuck_after: Duration::from_secs(config.tuning.device_stuck_seconds),
        ..options.group.clone()
    }
}

/// The number of this run: above all that directory and disk groups have seen of the host.
async fn next_run(
    env: &Env,
    directory: &Directory,
    cluster: OwnCluster,
    me: ShardId,
    groups: &[DiskGroup],
) -> Result<Incarnation, StartError> {
    let seen = groups.iter().map(|group| group.incarnation_seen(me)).max();
    membership::next_incarnation(env, directory, cluster, me, seen.unwrap_or_default()).await
}

/// How links begin, before changes of the settings are followed.
async fn security(env: &Env, directory: &Directory, options: &NodeOptions) -> LinkSecurity {
    let is_encrypted = membership::settings(env, directory).await.encrypt_links;
    LinkSecurity { identity: options.identity.clone(), is_encrypted }
}

/// Keeps copies and links to what an operator set; runs for ever.
async fn follow_settings(view: View, objects: Objects, peers: Peers) {
    loop {
        let changed = view.changed().wait();
        // Before the directory was read links are what they began as.
        if view.is_complete() {
            let settings = view.settings();
            objects.set_resync_limit(settings.resync_limit);
            peers.encrypt(settings.encrypt_links);
        }
        changed.await;
    }
}

/// The parts of the host's memory, and what its disk groups share of it.
fn memory_of(
    config: &HostConfig,
    machine: MachineMemory,
) -> Result<(MemoryBudgets, StoreMemory), StartError> {
    let mut budgets = config.memory.budgets(&config.tuning, machine.bytes)?;
    budgets.checksums = machine.checksum_bytes.unwrap_or(budgets.checksums);
    budgets.tables = machine.table_bytes.unwrap_or(budgets.tables);
    Ok((budgets, StoreMemory::new(budgets.checksums, budgets.tables)))
}

impl Node {
    /// Opens the disk groups, joins the cluster and serves. Returns when the host is ready; waits
    /// for the directory as long as it takes.
    ///
    /// # Errors
    /// [`StartError`]: a device or address that needs the operator.
    pub fn start<'a>(
        env: &'a Env,
        config: &'a HostConfig,
        options: NodeOptions,
    ) -> Boxed<'a, Result<Self, StartError>> {
        Box::pin(Self::open_and_join(env, config, options))
    }

    async fn open_and_join(
        env: &Env,
        config: &HostConfig,
        options: NodeOptions,
    ) -> Result<Self, StartError> {
        config.check()?;
        options.creation.check();
        let (budgets, memory) = memory_of(config, options.memory)?;
        let address = parse_address(&config.directory)?;
        let directory = Directory::connect_with(env, address, options.directory);
        let (me, group_options) = (ShardId(config.id), group_options(config, &options));
        let opened = storage::open_all(env, config, &group_options, &memory).await;
        let disks = disks(&opened)?;
        let record = host_record(config, &disks.open())?;
        let cluster = OwnCluster::of(config, options.level);
        membership::check_cluster(env, &directory, cluster).await?;
        describe::check_history(env, &directory, &disks.open()).await;
        let incarnation = next_run(env, &directory, cluster, me, &disks.open()).await?;
        describe::note_run(&disks.open(), incarnation).await;
        let me = PeerId { shard: me, incarnation };
        let links = PeerOptions { waiting_bytes_max: budgets.link, ..options.peer };
        let links = (links, security(env, &directory, &options).await);
        let peers = Peers::with_options(env, me, config.cluster, Rc::new(NotReady), links);
        let object_options = object_options(config, &options, &budgets);
        let objects =
            Objects::new(env, me, directory.clone(), peers.clone(), disks, object_options);
        let bad_address = |source| StartError::Listen { address: config.peer.clone(), source };
        peers.listen(parse_address(&config.peer)?).await.map_err(bad_address)?;

        let view = View::new(options.mutations);
        let io_timeout = Duration::from_secs(config.tuning.io_timeout_seconds);
        let volume_options = VolumeOptions { io_timeout, ..options.volume };
        let exports = HostExports::new(env, &objects, &view, volume_options);
        let scrubbers = scrubbers(env, config, &objects, &view, &directory, options.scrub);
        let attend = {
            let scrubbers = scrubbers.clone();
            Rc::new(move |group: &DiskGroup| scrubbers.attend(group))
        };
        let storage_options =
            StorageOptions { group: group_options, memory: memory.clone(), attend };
        membership::publish(env, &directory, &record).await?;
        let storage = Storage::new(env, &objects, storage_options, record, opened);
        let memory = MemoryWatch::new(options.memory.bytes, budgets, memory, &storage, &objects);
        let seen = Seen::new(env, me.shard, &peers, &view);
        let backups = Backups::new(env, &directory, &storage, &view, config);
        let repairs = Repairs::new(env, me.shard, &directory, &objects, (&storage, &view));
        let node = Self {
            env: env.clone(),
            incarnation,
            tasks: TaskSet::default(),
            directory,
            storage,
            lease: Rc::default(),
            stop: Notify::default(),
            objects,
            exports,
            view,
            seen,
            backups,
            memory,
            repairs,
            creation: options.creation,
            level: options.level,
            keeping: Keeping::of(&config.tuning),
        };
        node.run_background(me, config.cluster, &peers, options.balance);
        node.open_doors(config, me.shard, scrubbers).await?;
        info!(name = config.name, %incarnation, "host is ready");
        Ok(node)
    }

    /// Resolves when an operator asks the host to stop.
    pub async fn stopped(&self) {
        self.stop.wait().await;
    }

    /// The number of this run, for tests and campaigns.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The object layer, for tests and campaigns.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// What its disk groups share of its memory, for tests and campaigns.
    #[must_use]
    pub fn store_memory(&self) -> StoreMemory {
        self.memory.store()
    }

    /// The disk groups, for tests and campaigns.
    #[must_use]
    pub fn groups(&self) -> Vec<DiskGroup> {
        self.storage.groups()
    }

    /// Paths of the cache devices of groups that are out of service.
    #[must_use]
    pub fn closed_groups(&self) -> Vec<String> {
        let slots = self.storage.slots().into_iter();
        let closed = slots.filter(|slot| matches!(slot.state, SlotState::Closed(_)));
        closed.map(|slot| slot.spec.cache).collect()
    }

    /// Capacity devices that their open groups lack: the cache device, and the number.
    #[must_use]
    pub fn out_devices(&self) -> Vec<(String, usize)> {
        let groups = self.storage.groups().into_iter();
        let outs = groups.flat_map(|group| {
            let cache = group.cache_path().to_owned();
            group.out_devices().into_iter().map(move |out| (cache.clone(), out.at))
        });
        outs.collect()
    }

    /// Opens a group again that is out of service or takes no writes, as an operator would.
    ///
    /// # Errors
    /// Why it stays out of service.
    pub async fn open_group(&self, cache: &str) -> Result<(), StorageError> {
        self.storage.open(cache, None).await.map(drop)
    }

    /// Takes a group out of service, as an operator would.
    ///
    /// # Errors
    /// No such group.
    pub async fn close_group(&self, cache: &str) -> Result<(), StorageError> {
        self.storage.close(cache).await
    }

    /// What the host exports, for tests and campaigns.
    #[must_use]
    pub fn exports(&self) -> &HostExports {
        &self.exports
    }

    /// A clean end. Whoever serves clients ends first, so that no write meets a closed group; the
    /// lease key is given back last, when nothing is served any more (rule 22).
    pub async fn stop(self) {
        let Self { env, tasks, directory, storage, lease, objects, exports, backups, .. } = self;
        tasks.clear();
        let groups = storage.groups();
        drop((exports, backups, storage, objects));
        for group in &groups {
            group.close().await;
        }
        if let Some(lease) = lease.take() {
            // Only a courtesy: without it the key runs out by itself.
            let revoke = directory.lease_revoke(lease);
            let _ = env.timeout(Duration::from_millis(500), revoke).await;
        }
    }

    fn balance(&self, me: ShardId, options: BalanceOptions) -> Balance {
        Balance {
            env: self.env.clone(),
            me,
            directory: self.directory.clone(),
            objects: self.objects.clone(),
            storage: self.storage.clone(),
            view: self.view.clone(),
            options,
        }
    }

    fn trash(&self, cluster: u64, me: ShardId) -> Trash {
        Trash {
            env: self.env.clone(),
            directory: self.directory.clone(),
            cluster,
            me,
            view: self.view.clone(),
            storage: self.storage.clone(),
            keep: self.keeping.deleted,
            at_once: self.creation.transaction_objects,
        }
    }

    fn writers(&self, me: PeerId) -> WriterCare {
        WriterCare {
            env: self.env.clone(),
            me: OwnerRecord { shard: me.shard, incarnation: me.incarnation },
            directory: self.directory.clone(),
            objects: self.objects.clone(),
            view: self.view.clone(),
            exports: self.exports.clone(),
        }
    }

    fn run_background(&self, me: PeerId, cluster: u64, peers: &Peers, balance: BalanceOptions) {
        let (env, directory, view) = (&self.env, &self.directory, &self.view);
        let deletions = Deletions::default();
        let (objects, peers) = (self.objects.clone(), peers.clone());
        let stop = self.stop.clone();
        let level = self.level;
        let followed = peers.clone();
        let heads = Followers { objects, peers, deletions: deletions.clone(), level, stop };
        let follow = heads.follow(directory.clone(), view.clone(), self.seen.clone(), me.shard);
        self.tasks.spawn(env, "directory watch", follow);
        self.tasks.spawn(env, "who answers", self.seen.clone().run());
        let objects = self.objects.clone();
        let decided = move |id, fate| match fate {
            Fate::Deleted => objects.record_deleted(id),
            Fate::Missing => objects.record_missing(id),
        };
        let who = (cluster, me.shard);
        let decide = deletions.run(env.clone(), directory.clone(), who, view.clone(), decided);
        self.tasks.spawn(env, "deletions", decide);
        let lease = Rc::clone(&self.lease);
        let storage = self.storage.clone();
        let stay = alive::stay_alive(
            env.clone(),
            directory.clone(),
            (me.shard, me.incarnation, self.level),
            move || storage::room(&storage.groups()),
            move |id| lease.set(Some(id)),
        );
        self.tasks.spawn(env, "lease", stay);
        let cleanup = Cleanup {
            env: env.clone(),
            directory: directory.clone(),
            cluster,
            me,
            storage: self.storage.clone(),
            objects: self.objects.clone(),
            view: view.clone(),
            keep: self.keeping.orphans,
        };
        let cleanup = cleanup.run();
        self.tasks.spawn(env, "cleanup", cleanup);
        self.tasks.spawn(env, "balance", self.balance(me.shard, balance).run());
        self.tasks.spawn(env, "trash", self.trash(cluster, me.shard).run());
        let storage = self.storage.clone().run(directory.clone());
        self.tasks.spawn(env, "disk groups", storage);
        let outs = Outs::new(env, me.shard, directory, &self.objects, view, &self.storage);
        self.tasks.spawn(env, "devices", outs.run());
        let reserves =
            reserves::run(env.clone(), directory.clone(), view.clone(), self.storage.clone());
        self.tasks.spawn(env, "reserves", reserves);
        let caches = caches::run(env.clone(), view.clone(), self.storage.clone());
        self.tasks.spawn(env, "caches", caches);
        self.tasks.spawn(env, "repair", self.repairs.clone().run());
        let describe =
            describe::run(env.clone(), view.clone(), self.storage.clone(), me.incarnation);
        self.tasks.spawn(env, "describe", describe);
        self.tasks.spawn(env, "exports", self.exports.clone().follow_records());
        self.tasks.spawn(env, "writers", self.writers(me).run());
        let settings = follow_settings(view.clone(), self.objects.clone(), followed);
        self.tasks.spawn(env, "settings", settings);
        let latency = latency::run(env.clone(), self.storage.clone());
        self.tasks.spawn(env, "device latency", latency);
        self.tasks.spawn(env, "memory", self.memory.clone().run(env.clone()));
        let leftovers = leftovers::run(env.clone(), directory.clone(), cluster, view.clone());
        self.tasks.spawn(env, "leftovers", leftovers);
        self.tasks.spawn(env, "directory backups", self.backups.clone().run());
    }

    async fn open_doors(
        &self,
        config: &HostConfig,
        me: ShardId,
        scrubbers: Scrubbers,
    ) -> Result<(), StartError> {
        let hardware = Devices::new(&self.env, &config.tuning.magnetic);
        while !self.view.is_complete() || self.view.alive(me).is_none() {
            let changed = self.view.changed().wait();
            env::select(changed, self.env.sleep(Duration::from_millis(100))).await;
        }
        let server =
            nbd::NbdServer::new(&self.env, self.exports.clone(), nbd::ServerOptions::default());
        let access = config.nbd_socket.access()?;
        for text in &config.nbd {
            let listener = self.listen(text, access).await?;
            let server = server.clone();
            self.tasks.spawn(&self.env, "nbd", async move { server.serve(listener).await });
        }
        let operations = Operations {
            env: self.env.clone(),
            me,
            cluster: config.cluster,
            directory: self.directory.clone(),
            objects: self.objects.clone(),
            storage: self.storage.clone(),
            scrubbers,
            view: self.view.clone(),
            seen: self.seen.clone(),
            exports: self.exports.clone(),
            backups: self.backups.clone(),
            memory: self.memory.clone(),
            repairs: self.repairs.clone(),
            stop: self.stop.clone(),
            tuning: config.tuning.clone(),
            creation: self.creation,
            hardware,
        };
        let listener = self.listen(&config.control, Access::default()).await?;
        let serve = control::serve(self.env.clone(), listener, Rc::new(operations));
        self.tasks.spawn(&self.env, "control", serve);
        Ok(())
    }

    async fn listen(&self, text: &str, access: Access) -> Result<env::Listener, StartError> {
        let at: Address = parse_address(text)?;
        let listening = self.env.listen_for(at, access).await;
        let is_given = access.owner.is_some() || access.group.is_some();
        listening.map_err(|source| match source {
            IoError::Denied if is_given => StartError::Give { address: text.to_owned() },
            source => StartError::Listen { address: text.to_owned(), source },
        })
    }
}

/// What the directory is told of this host.
fn host_record(config: &HostConfig, groups: &[DiskGroup]) -> Result<ShardRecord, StartError> {
    let record = ShardRecord {
        id: ShardId(config.id),
        name: config.name.clone(),
        peer_address: config.peer.clone(),
        nbd_uri: config.nbd.first().cloned().unwrap_or_default(),
        groups: storage::group_records(groups),
        machine: config.machine.clone(),
    };
    record.check().map_err(StartError::Record)?;
    Ok(record)
}

/// What the object layer works with. A group that another process has open ends the start, and so
/// does one for which there is no memory: whoever changed the configuration should know at once.
fn disks(opened: &[storage::GroupOpening]) -> Result<Disks, StartError> {
    let (mut open, mut closed) = (Vec::new(), 0);
    for (spec, opened) in opened {
        match opened {
            Opening::Done(Ok(group)) => open.push(group.clone()),
            Opening::Done(Err(
                source @ (GroupError::Device { source: IoError::Busy, .. }
                | GroupError::NoMemory { .. }),
            )) => {
                let (cache, source) = (spec.cache.clone(), source.clone());
                return Err(StartError::Group { cache, source });
            }
            Opening::UnderWay(_) => {
                warn!(cache = spec.cache, "a disk group hangs while it is opened");
                closed += 1;
            }
            Opening::Done(Err(error)) => {
                warn!(cache = spec.cache, %error, "a disk group does not open");
                closed += 1;
            }
        }
    }
    Ok(Disks::new(open, closed))
}

/// What scrubs the disk groups, each while it serves.
fn scrubbers(
    env: &Env,
    config: &HostConfig,
    objects: &Objects,
    view: &View,
    directory: &Directory,
    options: ScrubOptions,
) -> Scrubbers {
    let marks = ScrubMarks { directory: directory.clone(), shard: ShardId(config.id) };
    let helpers = RepairHelpers { objects: objects.clone(), view: view.clone(), marks };
    let period = Duration::from_secs(config.tuning.scrub_period_hours * 3600);
    Scrubbers::new(env, helpers, config.tuning.scrub_bytes_per_second, period, options)
}
