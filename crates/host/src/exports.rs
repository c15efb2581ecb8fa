// SPDX-License-Identifier: Apache-2.0
//! The volumes of the cluster, as the exports of this host's NBD door.

mod counted;

use self::counted::Counters;
use crate::cluster::view::View;
use base::{Instant, Map, VolumeId, WriterEpoch};
use directory::{Connections, OwnerRecord, VolumeRecord, Writers, Writing};
use env::{Env, Notify, Slice};
use nbd::{OpenError, Sharing};
use object::Objects;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tracing::{info, warn};
use volume::{
    Device, Extent, Limited, Operation, Pieces, Traffic, TrafficCount, Volume, VolumeClient,
    VolumeError, VolumeOptions,
};

/// Least time between two looks at the records of open volumes.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);
/// Least time between two words about writes of one volume that are refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// What this host exports. Cheap to clone.
#[derive(Clone)]
pub struct HostExports(Rc<ExportsInner>);

struct ExportsInner {
    env: Env,
    objects: Objects,
    view: View,
    options: VolumeOptions,
    open: RefCell<Map<VolumeId, Weak<Opened>>>,
    /// Told when a write waits until this host may write, and when the last client that wrote to a
    /// volume leaves.
    moved: Notify,
    /// How often the latter happened.
    left: Cell<u64>,
    /// In which epoch clients last wrote to a volume.
    written: RefCell<Map<VolumeId, WriterEpoch>>,
    /// Volumes that this host gives back, and the epoch in which it wrote to each.
    given: RefCell<Map<VolumeId, WriterEpoch>>,
    /// What clients had volumes do.
    counters: RefCell<Counters>,
}

/// A volume in use on this host: opened once, shared by its clients.
struct Opened {
    name: String,
    volume: Volume,
    clients: Rc<Cell<u64>>,
    /// Those of them that wrote, but for those that were shut out.
    writers: Cell<u64>,
    inner: Weak<ExportsInner>,
    /// In which epoch this host was its one writer when that was last looked at.
    wrote_in: Cell<Option<WriterEpoch>>,
    /// When it was last said that writes are refused.
    refused: Cell<Option<Instant>>,
    env: Env,
    traffic: Rc<Traffic>,
}

impl Opened {
    /// Is as its record says from now on.
    fn follow(&self, record: &VolumeRecord) {
        self.volume.set_limits(record.limits());
        if self.volume.grow(record) {
            info!(volume = self.name, bytes = record.size_bytes, "grown");
        }
    }

    /// Whether writes are taken as a record says.
    fn is_written_so(&self, writing: &Writing, me: OwnerRecord) -> bool {
        let epoch = writing.epoch_of(me);
        let one = epoch.filter(|_| writing.writers == Writers::One);
        (self.volume.takes_writes_in(), self.wrote_in.get()) == (epoch, one)
    }

    /// Whoever had another host take the volume over must know that the clients that are here write
    /// no more.
    fn shut_out_where_taken_over(&self, record: &VolumeRecord) {
        let is_over = |epoch: &WriterEpoch| *epoch < record.writing.epoch;
        if self.wrote_in.get().is_none_or(|epoch| !is_over(&epoch)) {
            return;
        }
        self.wrote_in.set(None);
        if record.writing.writers == Writers::One {
            base::hit(base::Probe::ClientsShutOut);
            warn!(
                volume = self.name,
                clients = self.clients.get(),
                "another host took the volume over: what its clients here write is refused until \
                 they connect again"
            );
            self.volume.shut_out();
            self.writers.set(0);
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut open = inner.open.borrow_mut();
        let id = self.volume.id();
        if open.get(&id).is_some_and(|entry| entry.strong_count() == 0) {
            open.remove(&id);
        }
    }
}

impl HostExports {
    pub(crate) fn new(env: &Env, objects: &Objects, view: &View, options: VolumeOptions) -> Self {
        Self(Rc::new(ExportsInner {
            env: env.clone(),
            objects: objects.clone(),
            view: view.clone(),
            options,
            open: RefCell::default(),
            moved: Notify::default(),
            left: Cell::default(),
            written: RefCell::default(),
            given: RefCell::default(),
            counters: RefCell::default(),
        }))
    }

    /// Connections to a volume through this host.
    #[must_use]
    pub fn clients(&self, volume: VolumeId) -> u64 {
        self.opened(volume).map_or(0, |opened| opened.clients.get())
    }

    /// Requests for a volume that waited here for its limits, since it was opened.
    #[must_use]
    pub fn limited(&self, volume: VolumeId) -> Option<Limited> {
        self.opened(volume).map(|opened| opened.volume.limited())
    }

    /// What clients had each volume do through this host since its start, and all together. Those
    /// that were not used for long may be left out of the first.
    pub(crate) fn traffic(&self) -> (Map<VolumeId, TrafficCount>, TrafficCount) {
        self.0.counters.borrow().read()
    }

    fn opened(&self, volume: VolumeId) -> Option<Rc<Opened>> {
        self.0.open.borrow().get(&volume).and_then(Weak::upgrade)
    }

    fn all_open(&self) -> Vec<Rc<Opened>> {
        self.0.open.borrow().values().filter_map(Weak::upgrade).collect()
    }

    fn record_of(&self, opened: &Opened) -> Option<VolumeRecord> {
        let id = opened.volume.id();
        let named = self.0.view.volume(&opened.name).filter(|record| record.id == id);
        named.or_else(|| self.0.view.volume_of_id(id)) // it was renamed
    }

    /// Writes to a volume that wait here until this host may write.
    pub(crate) fn writes_wait(&self, volume: VolumeId) -> usize {
        self.opened(volume).map_or(0, |opened| opened.volume.writes_wait())
    }

    /// Whether any does.
    pub(crate) fn is_write_waiting(&self) -> bool {
        self.all_open().iter().any(|opened| opened.volume.writes_wait() > 0)
    }

    /// In which epoch a client last wrote to a volume here, since it was given back.
    pub(crate) fn written_in(&self, volume: VolumeId) -> Option<WriterEpoch> {
        self.0.written.borrow().get(&volume).copied()
    }

    /// Clients that wrote to a volume through this host.
    pub(crate) fn writers(&self, volume: VolumeId) -> u64 {
        self.opened(volume).map_or(0, |opened| opened.writers.get())
    }

    /// How often the last client that wrote to a volume left.
    pub(crate) fn left(&self) -> u64 {
        self.0.left.get()
    }

    /// Wakes when a write begins to wait until this host may write, and when the last client that
    /// wrote to a volume leaves.
    pub(crate) fn moved(&self) -> Notify {
        self.0.moved.clone()
    }

    /// Lets writes to open volumes through where this run of this host may write, once none of an
    /// earlier epoch takes effect any more (rule 57).
    pub(crate) fn let_write(&self, me: OwnerRecord) {
        for opened in self.all_open() {
            let known = self.0.view.writing(&opened.name, opened.volume.id());
            if known.is_some_and(|writing| opened.is_written_so(&writing, me)) {
                continue; // as nearly all are
            }
            let Some(record) = self.record_of(&opened) else { continue };
            opened.shut_out_where_taken_over(&record);
            let now = opened.volume.takes_writes_in();
            // What is open stays open: objects that are added have the epoch from the beginning.
            let is_done = |epoch: &WriterEpoch| {
                now == Some(*epoch)
                    || *epoch == WriterEpoch::ANY
                    || self.0.objects.writes_before_done()
                    || self.0.view.is_written_in(&record, *epoch)
            };
            let given = self.0.given.borrow().get(&record.id).copied();
            let epoch = record.writing.epoch_of(me).filter(is_done);
            let epoch = epoch.filter(|epoch| given != Some(*epoch));
            opened.volume.take_writes_in(epoch);
            let is_one = record.writing.writers == Writers::One;
            opened.wrote_in.set(epoch.filter(|_| is_one).or(opened.wrote_in.get()));
        }
    }

    /// This host gives a volume back to which it wrote in this epoch, and takes no writes in it any
    /// more: clients that come meanwhile wait, and nobody shuts them out.
    pub(crate) fn gives_back(&self, volume: VolumeId, epoch: WriterEpoch) {
        self.0.given.borrow_mut().insert(volume, epoch);
        if let Some(opened) = self.opened(volume) {
            opened.wrote_in.set(None);
            opened.volume.take_writes_in(None);
        }
    }

    /// It was given back, or somebody else was there before.
    pub(crate) fn gave_back(&self, volume: VolumeId) {
        self.0.written.borrow_mut().remove(&volume);
        self.0.given.borrow_mut().remove(&volume);
    }

    /// Says why writes to a volume fail here, and what to do.
    fn tell_refused(&self, opened: &Opened) {
        let now = self.0.env.now();
        if opened.refused.get().is_some_and(|last| now.since(last) < REFUSED_PAUSE) {
            return;
        }
        opened.refused.set(Some(now));
        let Some(record) = self.record_of(opened) else { return };
        let writer = record.writing.writer.map(|writer| self.0.view.shard_name(writer.shard));
        let writer = writer.unwrap_or_else(|| "nobody yet".to_owned());
        warn!(
            volume = record.name, %writer, epoch = %record.writing.epoch,
            "writes through this host are refused: one host writes to the volume at a time. \
             Disconnect the clients of that one, or see 'gabion volume takeover --help'"
        );
    }

    /// Gives open volumes the limits and the size that their records say, as these change. Runs for
    /// ever.
    pub(crate) async fn follow_records(self) {
        loop {
            let changed = self.0.view.changed().wait();
            for opened in self.all_open() {
                if let Some(record) = self.record_of(&opened) {
                    opened.follow(&record);
                }
            }
            changed.await;
            self.0.env.sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Opens a volume for one client; it counts until its last clone is dropped.
    ///
    /// # Errors
    /// [`OpenError::NotFound`]. [`OpenError::InUse`]: the volume was renamed, and a client uses it
    /// here under the name that it had.
    pub fn attach(&self, name: &str) -> Result<Attached, OpenError> {
        let record = self.0.view.volume(name).filter(|record| record.trashed.is_none());
        let record = record.ok_or(OpenError::NotFound)?;
        let opened = match self.opened(record.id) {
            // The door lets clients in by name, so it does not know of those under the other one.
            Some(opened) if opened.name != name => return Err(OpenError::InUse),
            Some(opened) => {
                opened.follow(&record);
                opened
            }
            None => {
                let options = self.0.options.clone();
                let (env, objects) = (&self.0.env, self.0.objects.clone());
                let volume = Volume::open(env, objects, &record, options, self.0.moved.clone());
                let opened = Rc::new(Opened {
                    name: name.to_owned(),
                    volume,
                    clients: Rc::default(),
                    writers: Cell::default(),
                    inner: Rc::downgrade(&self.0),
                    wrote_in: Cell::default(),
                    refused: Cell::default(),
                    env: env.clone(),
                    traffic: self.0.counters.borrow_mut().of(record.id),
                });
                self.0.open.borrow_mut().insert(record.id, Rc::downgrade(&opened));
                opened
            }
        };
        opened.clients.set(opened.clients.get() + 1);
        let client = VolumeClient::new(&opened.volume);
        Ok(Attached(Rc::new(Counted { opened, client, wrote: Cell::default() })))
    }
}

impl nbd::Exports for HostExports {
    type Device = Attached;

    fn list(&self) -> Vec<String> {
        let all = self.0.view.volumes_where(|record| record.trashed.is_none());
        all.into_iter().map(|record| record.name).collect()
    }

    fn sharing(&self, name: &str) -> Sharing {
        match self.0.view.volume(name).map(|record| record.connections) {
            Some(Connections::Exclusive) => Sharing::Exclusive,
            Some(Connections::Shared) | None => Sharing::Shared,
        }
    }

    async fn open(&self, name: &str) -> Result<Attached, OpenError> {
        self.attach(name)
    }
}

/// One of the clients of a volume, while it is there.
struct Counted {
    opened: Rc<Opened>,
    client: VolumeClient,
    /// Set once it wrote: in which epoch it did last.
    wrote: Cell<Option<WriterEpoch>>,
}

impl Counted {
    fn note_write(&self) {
        let opened = &self.opened;
        let epoch = opened.volume.takes_writes_in().unwrap_or_default();
        let before = self.wrote.get();
        if before == Some(epoch) || self.client.is_shut_out() {
            return; // as nearly always
        }
        self.wrote.set(Some(epoch));
        if before.is_none() {
            opened.writers.update(|writers| writers + 1);
        }
        if let Some(inner) = opened.inner.upgrade() {
            inner.written.borrow_mut().insert(opened.volume.id(), epoch);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let opened = &self.opened;
        opened.clients.update(|clients| clients - 1);
        if self.wrote.get().is_none() || self.client.is_shut_out() {
            return;
        }
        opened.writers.update(|writers| writers - 1);
        if let Some(inner) = opened.inner.upgrade()
            && opened.writers.get() == 0
        {
            inner.left.update(|left| left + 1);
            inner.moved.notify();
        }
    }
}

/// A volume as one client uses it.
#[derive(Clone)]
pub struct Attached(Rc<Counted>);

impl Attached {
    /// What became of a write: who wrote counts as a writer, and where this host may not write that
    /// is told of.
    fn written(&self, done: Result<(), VolumeError>) -> Result<(), VolumeError> {
        let opened = &self.0.opened;
        match done {
            Ok(()) => self.0.note_write(),
            Err(VolumeError::NotWriter) => {
                let inner = opened.inner.upgrade();
                inner.inspect(|inner| HostExports(Rc::clone(inner)).tell_refused(opened));
            }
            Err(_) => {}
        }
        done
    }

    /// Counts a request when it is answered. One whose client went away before is not counted.
    async fn counted<T>(
        &self,
        operation: Operation,
        bytes: u64,
        request: impl Future<Output = Result<T, VolumeError>>,
    ) -> Result<T, VolumeError> {
        let Opened { env, traffic, .. } = &*self.0.opened;
        let begun = env.now();
        let done = request.await;
        traffic.count(operation, bytes, env.now().since(begun), done.is_ok());
        done
    }
}

impl Device for Attached {
    fn size(&self) -> u64 {
        self.0.client.size()
    }

    async fn read(&self, offset: u64, bytes: u64) -> Result<Pieces, VolumeError> {
        self.counted(Operation::Read, bytes, self.0.client.read(offset, bytes)).await
    }

    async fn write(&self, offset: u64, payload: Slice) -> Result<(), VolumeError> {
        let bytes = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        let write = self.0.client.write(offset, payload);
        self.written(self.counted(Operation::Write, bytes, write).await)
    }

    async fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let zero = self.0.client.write_zeroes(offset, bytes);
        self.written(self.counted(Operation::Zero, bytes, zero).await)
    }

    async fn discard(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let discard = self.0.client.discard(offset, bytes);
        self.written(self.counted(Operation::Discard, bytes, discard).await)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.counted(Operation::Flush, 0, self.0.client.flush()).await
    }

    async fn extents(&self, offset: u64, bytes: u64) -> Result<Vec<Extent>, VolumeError> {
        self.0.client.extents(offset, bytes).await
    }
}
