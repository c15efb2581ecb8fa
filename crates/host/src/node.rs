// SPDX-License-Identifier: Apache-2.0
//! One running host.

use crate::address::{AddressError, parse_address};
use crate::alive::Room;
use crate::config::{ConfigError, HostConfig};
use crate::control;
use crate::deletions::Deletions;
use crate::exports::Exports;
use crate::groups::Hardware;
use crate::operations::Operations;
use crate::scrub::{ScrubOptions, Scrubber};
use crate::view::{ObjectChange, View};
use crate::{alive, cleanup, membership, orphans, reserves};
use base::{HostId, Map};
use directory::{Directory, GroupRecord, HostRecord, LeaseId, RecordError, WatchEvent};
use diskgroup::{DiskGroup, GroupError, GroupOptions, GroupSpec};
use env::{Address, Env, IoError, Notify, TaskSet};
use object::{Disks, ObjectOptions, Objects};
use peer::{PeerId, Peers};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;
use tracing::{info, warn};

/// Longest wait for devices that another process has open, and between two attempts.
const BUSY_MAX: Duration = Duration::from_secs(5);
const BUSY_RETRY: Duration = Duration::from_millis(50);

/// Why a host could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// a configured value
    #[error("host.toml: {0}")]
    Config(#[from] ConfigError),
    /// two groups that say they are one
    #[error("the disk groups make no host record: {0}; is one the copy of another?")]
    Record(#[source] RecordError),
    /// a configured address
    #[error("host.toml: {0}")]
    Address(#[from] AddressError),
    /// a listening socket
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address as configured.
        address: String,
        /// Why not.
        source: IoError,
    },
    /// a disk group
    #[error("disk group of cache device {cache}: {source}")]
    Group {
        /// Path of its cache device.
        cache: String,
        /// Why it does not open.
        source: GroupError,
    },
    /// the directory is another cluster's
    #[error(
        "the directory belongs to cluster {found:x}, this host to {wanted:x}: check the \
         directory's address in host.toml"
    )]
    OtherCluster {
        /// In the directory.
        found: u64,
        /// In the configuration.
        wanted: u64,
    },
    /// an empty directory
    #[error(
        "the directory holds no cluster: restore it from a backup, or make a new cluster on wiped \
         devices"
    )]
    DirectoryLost,
    /// damaged or newer
    #[error("the directory's cluster record cannot be read: it is damaged or of another version")]
    ClusterRecord,
}

/// A disk group that did not open: its components are out of service until it does.
#[derive(Debug)]
pub struct ClosedGroup {
    /// Path of its cache device.
    pub cache: String,
    /// Paths of its capacity devices.
    pub capacity: Vec<String>,
    /// Why.
    pub error: GroupError,
}

/// What a host is not told by its configuration.
#[derive(Clone, Default)]
pub struct NodeOptions {
    /// What is known of the hardware of devices, by path; only for people.
    pub hardware: Map<String, Hardware>,
    /// Passed to every disk group; only tests change it.
    pub group: GroupOptions,
    /// Passed to the object layer; only tests change it.
    pub object: ObjectOptions,
    /// Passed to the scrubbers.
    pub scrub: ScrubOptions,
}

/// A running host. Dropping it stops all its tasks at once, as a crash would.
pub struct Node {
    env: Env,
    tasks: TaskSet,
    directory: Directory,
    groups: Vec<DiskGroup>,
    scrubbers: Rc<[Scrubber]>,
    closed: Rc<[ClosedGroup]>,
    lease: Rc<Cell<Option<LeaseId>>>,
    stop: Notify,
    objects: Objects,
    exports: Exports,
    view: View,
}

impl Node {
    /// Opens the disk groups, joins the cluster and serves. Returns when the host is ready; waits
    /// for the directory as long as it takes.
    ///
    /// # Errors
    /// [`StartError`]: a device or address that needs the operator.
    pub async fn start(
        env: &Env,
        config: &HostConfig,
        options: NodeOptions,
    ) -> Result<Self, StartError> {
        config.check()?;
        let directory = Directory::connect(env, parse_address(&config.directory)?);
        let me = HostId(config.id);
        let full_percent = config.tuning.space_full_percent;
        let group_options = GroupOptions { full_percent, ..options.group.clone() };
        let (groups, closed) = open_groups(env, config, &group_options).await?;
        let record = host_record(config, &groups);
        record.check().map_err(StartError::Record)?;
        membership::check_cluster(env, &directory, config.cluster).await?;
        let incarnation = membership::next_incarnation(env, &directory, me).await;
        let me = PeerId { host: me, incarnation };
        let peers = Peers::new(env, me, config.cluster, Rc::new(peer::NotReady));
        let mut object_options = options.object.clone();
        object_options.stall = Duration::from_millis(config.tuning.stall_ms);
        let disks = Disks { groups: groups.clone(), closed: closed.len() };
        let objects =
            Objects::new(env, me, directory.clone(), peers.clone(), disks, object_options);
        let bad_address = |source| StartError::Listen { address: config.peer.clone(), source };
        peers.listen(parse_address(&config.peer)?).await.map_err(bad_address)?;

        let view = View::default();
        let io_timeout = Duration::from_secs(config.tuning.io_timeout_seconds);
        let exports = Exports::new(env, &objects, &view, io_timeout);
        let node = Self {
            env: env.clone(),
            tasks: TaskSet::default(),
            directory,
            scrubbers: scrubbers(env, config, &groups, options.scrub),
            groups,
            closed: closed.into(),
            lease: Rc::default(),
            stop: Notify::default(),
            objects,
            exports,
            view,
        };
        membership::publish(env, &node.directory, &record).await;
        node.run_background(me, config.cluster, &peers);
        node.open_doors(config, me.host, options.hardware).await?;
        info!(name = config.name, %incarnation, "host is ready");
        Ok(node)
    }

    /// Resolves when an operator asks the host to stop.
    pub async fn stopped(&self) {
        self.stop.wait().await;
    }

    /// The object layer, for tests and campaigns.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The disk groups, for tests and campaigns.
    #[must_use]
    pub fn groups(&self) -> &[DiskGroup] {
        &self.groups
    }

    /// The disk groups that did not open.
    #[must_use]
    pub fn closed_groups(&self) -> &[ClosedGroup] {
        &self.closed
    }

    /// What the host exports, for tests and campaigns.
    #[must_use]
    pub fn exports(&self) -> &Exports {
        &self.exports
    }

    /// A clean end. Whoever serves clients ends first, so that no write meets a closed group; the
    /// lease key is given back last, when nothing is served any more (rule 22).
    pub async fn stop(self) {
        let Self { env, tasks, directory, groups, lease, objects, exports, .. } = self;
        tasks.clear();
        drop(exports);
        drop(objects);
        for group in &groups {
            group.close().await;
        }
        if let Some(lease) = lease.take() {
            // Only a courtesy: without it the key runs out by itself.
            let revoke = directory.lease_revoke(lease);
            let _ = env.timeout(Duration::from_millis(500), revoke).await;
        }
    }

    fn run_background(&self, me: PeerId, cluster: u64, peers: &Peers) {
        let (env, directory, view) = (&self.env, &self.directory, &self.view);
        let deletions = Deletions::default();
        let (objects, peers) = (self.objects.clone(), peers.clone());
        let watch =
            follow(directory.clone(), view.clone(), objects, peers, me.host, deletions.clone());
        self.tasks.spawn(env, "directory watch", watch);
        let objects = self.objects.clone();
        let deleted = move |id| objects.record_deleted(id);
        let decide = deletions.run(env.clone(), directory.clone(), cluster, view.clone(), deleted);
        self.tasks.spawn(env, "deletions", decide);
        let lease = Rc::clone(&self.lease);
        let groups = self.groups.clone();
        let stay = alive::stay_alive(
            env.clone(),
            directory.clone(),
            (me.host, me.incarnation),
            move || room(&groups),
            move |id| lease.set(Some(id)),
        );
        self.tasks.spawn(env, "lease", stay);
        let cleanup = cleanup::run(env.clone(), directory.clone(), cluster, self.groups.clone());
        self.tasks.spawn(env, "cleanup", cleanup);
        for scrubber in self.scrubbers.iter() {
            let run = scrubber.clone().run(self.objects.clone(), view.clone());
            self.tasks.spawn(env, "scrub", run);
        }
        let reserves = reserves::run(env.clone(), view.clone(), self.groups.clone());
        self.tasks.spawn(env, "reserves", reserves);
        let orphans = orphans::run(env.clone(), directory.clone(), cluster, view.clone());
        self.tasks.spawn(env, "orphans", orphans);
    }

    async fn open_doors(
        &self,
        config: &HostConfig,
        me: HostId,
        hardware: Map<String, Hardware>,
    ) -> Result<(), StartError> {
        while !self.view.is_complete() || self.view.alive(me).is_none() {
            let changed = self.view.changed().wait();
            env::select(changed, self.env.sleep(Duration::from_millis(100))).await;
        }
        let server =
            nbd::Server::new(&self.env, self.exports.clone(), nbd::ServerOptions::default());
        for text in &config.nbd {
            let listener = self.listen(text).await?;
            let server = server.clone();
            self.tasks.spawn(&self.env, "nbd", async move { server.serve(listener).await });
        }
        let recovery = self.groups.iter().map(|g| g.recovery().duration.as_secs_f64() * 1e3);
        let operations = Operations {
            env: self.env.clone(),
            me,
            directory: self.directory.clone(),
            objects: self.objects.clone(),
            groups: self.groups.clone(),
            scrubbers: Rc::clone(&self.scrubbers),
            closed: Rc::clone(&self.closed),
            view: self.view.clone(),
            exports: self.exports.clone(),
            stop: self.stop.clone(),
            recovery_ms: recovery.fold(0.0, f64::max),
            tuning: config.tuning.clone(),
            hardware,
        };
        let listener = self.listen(&config.control).await?;
        let serve = control::serve(self.env.clone(), listener, Rc::new(operations));
        self.tasks.spawn(&self.env, "control", serve);
        Ok(())
    }

    async fn listen(&self, text: &str) -> Result<env::Listener, StartError> {
        let address: Address = parse_address(text)?;
        let listening = self.env.listen(address).await;
        listening.map_err(|source| StartError::Listen { address: text.to_owned(), source })
    }
}

fn scrubbers(
    env: &Env,
    config: &HostConfig,
    groups: &[DiskGroup],
    options: ScrubOptions,
) -> Rc<[Scrubber]> {
    let rate = config.tuning.scrub_bytes_per_second;
    let period = Duration::from_secs(config.tuning.scrub_period_hours * 3600);
    groups.iter().map(|group| Scrubber::new(env, group, rate, period, options)).collect()
}

fn room(groups: &[DiskGroup]) -> Room {
    Room {
        free_bytes: groups.iter().map(|group| group.free_chunks() * base::CHUNK_SIZE).sum(),
        capacity_bytes: groups.iter().map(|group| group.status().capacity_bytes).sum(),
    }
}

/// What the directory is told of this host.
fn host_record(config: &HostConfig, groups: &[DiskGroup]) -> HostRecord {
    let groups = groups
        .iter()
        .map(|group| GroupRecord { id: group.id(), capacity_bytes: group.status().capacity_bytes });
    HostRecord {
        id: HostId(config.id),
        name: config.name.clone(),
        peer_address: config.peer.clone(),
        nbd_uri: config.nbd.first().cloned().unwrap_or_default(),
        groups: groups.collect(),
    }
}

/// Opens a group. The kernel lets go of a killed process's devices only when their I/O has ended,
/// a moment after the process.
async fn open_group(
    env: &Env,
    spec: &GroupSpec,
    options: &GroupOptions,
) -> Result<DiskGroup, GroupError> {
    let begun = env.now();
    loop {
        match DiskGroup::open(env, spec, options.clone()).await {
            Err(GroupError::Device { source: IoError::Busy, .. })
                if env.now().since(begun) < BUSY_MAX =>
            {
                env.sleep(BUSY_RETRY).await;
            }
            opened => return opened,
        }
    }
}

/// Opens all groups. One that does not open takes its own components out of service, and nothing
/// else; one that another process has open ends the start.
async fn open_groups(
    env: &Env,
    config: &HostConfig,
    options: &GroupOptions,
) -> Result<(Vec<DiskGroup>, Vec<ClosedGroup>), StartError> {
    let opening = config.groups.iter().map(|group| {
        let spec = GroupSpec { cache: group.cache.clone(), capacity: group.capacity.clone() };
        let (env, options) = (env.clone(), options.clone());
        async move { (open_group(&env, &spec, &options).await, spec) }
    });
    let (mut groups, mut closed) = (Vec::new(), Vec::new());
    for (opened, spec) in env::join_all(opening.collect()).await {
        match opened {
            Ok(group) => groups.push(group),
            Err(source @ GroupError::Device { source: IoError::Busy, .. }) => {
                return Err(StartError::Group { cache: spec.cache, source });
            }
            Err(error) => {
                warn!(cache = spec.cache, %error, "a disk group does not open");
                let GroupSpec { cache, capacity } = spec;
                closed.push(ClosedGroup { cache, capacity, error });
            }
        }
    }
    Ok((groups, closed))
}

/// Copies the directory into the view and passes on what concerns objects and peers.
async fn follow(
    directory: Directory,
    view: View,
    objects: Objects,
    peers: Peers,
    me: HostId,
    deletions: Deletions,
) {
    let mut watch = directory.watch(directory::PREFIX);
    loop {
        let changes = match watch.next().await {
            WatchEvent::Reset(listing) => view.reset(&listing.entries),
            WatchEvent::Put(key, entry) => view.put(&key, &entry).into_iter().collect(),
            WatchEvent::Delete(key, _) => view.delete(&key).into_iter().collect(),
        };
        for change in changes {
            match change {
                ObjectChange::Put(record, revision) => objects.record_changed(record, revision),
                ObjectChange::Deleted(id) => deletions.add(id),
                ObjectChange::Alive(host, alive) => {
                    objects.host_alive(host, alive.map(|record| record.incarnation));
                }
                ObjectChange::Host(record) if record.id == me => {}
                ObjectChange::Host(record) => match parse_address(&record.peer_address) {
                    Ok(address) => peers.set_address(record.id, address),
                    Err(error) => warn!(host = record.name, %error, "unusable host record"),
                },
                ObjectChange::Malformed(key) => warn!(key, "undecodable directory record"),
            }
        }
    }
}
