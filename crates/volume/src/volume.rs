// SPDX-License-Identifier: Apache-2.0
//! A volume over its objects: splitting, checksums at the door, resending (rules 43 to 46).

use crate::VolumeError;
use crate::device::{EXTENTS_SPAN_MAX, Extent, Pieces};
use crate::extents::Columns;
use crate::gate::{Gate, Joined, Taken};
use crate::limits::{Limited, Limits};
use crate::openings::Openings;
use crate::split::{self, Piece};
use base::{BLOCK_SIZE, Instant, ObjectId, SECTOR_SIZE, SectorRange, VolumeId, WriterEpoch};
use directory::{IoLimits, VolumeLayout, VolumeRecord};
use env::{
    Either, Env, LockMode, LockedRange, Notify, RangeLock, Reuse, Slice, TaskSet, select,
    try_join_at_most,
};
use object::{ObjectError, Objects, ReadData, WriteRequest};
use std::cell::{Ref, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use wire::{Crcs, WriteKind};

/// First pause before a request is sent again; doubles up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause before a request is sent again.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(500);

/// How a volume behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// How long a request is tried before it fails with [`VolumeError::TimedOut`].
    pub io_timeout: Duration,
    /// Sectors of one step of a long zeroing or discarding, not 0: each step has its own time-out
    /// and holds only its own range.
    pub step_sectors: u64,
    /// Most pieces of one request that are under way, at least 1. The 16 of production are 16 MiB
    /// at most; more would fill no link better.
    pub pieces: usize,
    /// Most writes that go on in the background after their callers got a time-out. Their ranges
    /// stay locked, because each may still take effect. When so many are late, the caller of a
    /// further write waits until the write ends, however long that takes.
    pub late_writes: usize,
    /// How long a write waits while another host is the volume's writer, before it fails with
    /// [`VolumeError::NotWriter`].
    pub writer_wait: Duration,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            io_timeout: Duration::from_secs(60),
            step_sectors: (64 << 20) / SECTOR_SIZE,
            pieces: 16,
            late_writes: 1024,
            writer_wait: Duration::from_secs(30),
        }
    }
}

/// An open volume. Cheap to clone. An object of it counts as attached on this host from its first
/// use until the last clone is dropped.
///
/// Guarantees: a write is never under way together with a read or write that overlaps it (rule 46),
/// also when one of the two ran into its time-out. Data that is read was verified against the
/// checksums that were computed when it was written. Non-guarantee: order between clients of
/// several hosts.
#[derive(Clone)]
pub struct Volume(Rc<VolumeInner>);

struct VolumeInner {
    id: VolumeId,
    limits: Limits,
    lock: RangeLock,
    options: VolumeOptions,
    /// All writes. A late write outlives its call, so it is moved to the background after it was
    /// polled there.
    writes: Reuse<LockedWrite, Result<(), VolumeError>>,
    /// Writes whose callers got a time-out.
    late: TaskSet,
    door: Rc<Door>,
}

/// A write that has its range. It holds the lock itself: the range must stay locked until what was
/// sent can no longer take effect.
struct LockedWrite {
    range: SectorRange,
    kind: WriteKind,
    payload: Slice,
    deadline: Instant,
    taken: Taken,
    locked: LockedRange,
}

/// Everything that a request needs to reach the objects. A late write holds on to this, not to the
/// whole volume.
struct Door {
    env: Env,
    objects: Objects,
    gate: Gate,
    /// How long a write waits there.
    writer_wait: Duration,
    shape: RefCell<Rc<Shape>>,
    /// Most pieces of one request that are under way.
    pieces_most: usize,
    openings: Openings,
    /// Payload of requests without payload.
    empty: Slice,
}

/// The objects of a volume, and what lies in which. A volume that grows gets another one. A request
/// keeps the one that it began with: objects stay where they are.
struct Shape {
    ids: Vec<ObjectId>,
    layout: VolumeLayout,
}

impl Shape {
    fn of(record: &VolumeRecord) -> Self {
        let layout = record.layout();
        let is_whole = layout.objects() == record.objects.len() as u64;
        assert!(is_whole && layout.objects() > 0, "records are checked when decoded");
        Self { ids: record.objects.clone(), layout }
    }
}

impl Drop for VolumeInner {
    fn drop(&mut self) {
        for number in self.door.openings.touched() {
            self.door.objects.set_attached(self.door.shape().ids[number], false);
        }
    }
}

impl Volume {
    /// Opens the volume of `record` on this host. Open each volume once per host and clone it: the
    /// range lock and the attachment belong to one opening. Where it has an epoch of the writer,
    /// writes wait for [`Self::take_writes_in`]; `wanted` is told when the first of them does.
    #[must_use]
    pub fn open(
        env: &Env,
        objects: Objects,
        record: &VolumeRecord,
        options: VolumeOptions,
        wanted: Notify,
    ) -> Volume {
        assert!(options.step_sectors > 0 && options.pieces > 0, "a limit that lets nothing pass");
        let shape = Shape::of(record);
        let free = record.writing.epoch == WriterEpoch::ANY;
        let door = Door {
            env: env.clone(),
            objects,
            gate: Gate::new(free.then_some(WriterEpoch::ANY), wanted),
            writer_wait: options.writer_wait,
            pieces_most: options.pieces,
            openings: Openings::new(shape.ids.len()),
            shape: RefCell::new(Rc::new(shape)),
            empty: env.buf(0).freeze(),
        };
        let door = Rc::new(door);
        let of_writes = Rc::clone(&door);
        Volume(Rc::new(VolumeInner {
            id: record.id,
            limits: Limits::new(record.limits()),
            lock: RangeLock::default(),
            options,
            writes: Reuse::new(move |write| carry_out(Rc::clone(&of_writes), write)),
            late: TaskSet::default(),
            door,
        }))
    }

    /// The identity of the volume.
    #[must_use]
    pub fn id(&self) -> VolumeId {
        self.0.id
    }

    /// Requests that hold or wait for their range.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.0.lock.len()
    }

    /// Writes are taken in this epoch from now on (rule 54); `None`: they wait. Those that were
    /// taken before stay what they are.
    pub fn take_writes_in(&self, epoch: Option<WriterEpoch>) {
        self.0.door.gate.set(epoch);
    }

    /// Writes wait from now on, and those of all clients that are here fail: another host took the
    /// volume over.
    pub fn shut_out(&self) {
        self.0.door.gate.shut_out();
    }

    /// For a client that comes now.
    pub(crate) fn join(&self) -> Joined {
        self.0.door.gate.join()
    }

    /// In which epoch writes are taken now.
    #[must_use]
    pub fn takes_writes_in(&self) -> Option<WriterEpoch> {
        self.0.door.gate.epoch()
    }

    /// Writes that wait until this host may write.
    #[must_use]
    pub fn writes_wait(&self) -> usize {
        self.0.door.gate.waiting()
    }

    /// What it may do in a second from now on.
    pub fn set_limits(&self, limits: IoLimits) {
        self.0.limits.set(limits);
    }

    /// Has the size and the objects of `record` from now on, where they are those of before with
    /// some more behind them. Any other record is one of before, or of a directory that was set
    /// back: the volume stays as it is. Returns whether it grew.
    pub fn grow(&self, record: &VolumeRecord) -> bool {
        let door = &self.0.door;
        let known = door.shape();
        let is_longer = record.objects.len() > known.ids.len();
        if !is_longer || !record.objects.starts_with(&known.ids) {
            return false;
        }
        let next = Shape::of(record);
        // The first sector behind the objects of before begins a new object.
        let end = next.layout.place(known.layout.sectors());
        if end.is_none_or(|end| (end.object, end.sector) != (known.ids.len(), 0)) {
            return false;
        }
        drop(known);
        door.openings.grow(next.ids.len());
        *door.shape.borrow_mut() = Rc::new(next);
        true
    }

    /// Requests that waited for its limits.
    #[must_use]
    pub fn limited(&self) -> Limited {
        self.0.limits.limited()
    }

    /// Waits until its limits let a request with so many bytes of data begin. The request's time
    /// begins after that.
    async fn pass(&self, bytes: u64) {
        self.0.limits.pass(&self.0.door.env, bytes).await;
    }

    fn deadline(&self) -> Instant {
        self.0.door.env.now() + self.0.options.io_timeout
    }

    /// Takes the range of a request in the order of arrival.
    async fn lock(
        &self,
        range: SectorRange,
        mode: LockMode,
        deadline: Instant,
    ) -> Result<LockedRange, VolumeError> {
        let locked = self.0.lock.lock(range, mode);
        match select(locked.granted(), self.0.door.env.sleep_until(deadline)).await {
            Either::First(()) => Ok(locked),
            Either::Second(()) => Err(VolumeError::TimedOut),
        }
    }

    /// One write of any kind; `payload` is empty unless the kind is data.
    async fn change(
        &self,
        joined: Joined,
        range: SectorRange,
        (kind, payload): (WriteKind, Slice),
    ) -> Result<(), VolumeError> {
        let size = self.size();
        base::hit_if(
            range.end() * SECTOR_SIZE == size && !size.is_multiple_of(BLOCK_SIZE),
            base::Probe::PartialBlock,
        );
        let deadline = self.deadline();
        // Before it has its range: reads do not wait behind what may not happen yet.
        let taken = self.0.door.may_write(joined, None, deadline).await?;
        let locked = self.lock(range, LockMode::Exclusive, deadline).await?;
        let write = LockedWrite { range, kind, payload, deadline, taken, locked };
        let mut write = self.0.writes.begin(write);
        let late = &self.0.late;
        match select(&mut write, self.0.door.env.sleep_until(deadline)).await {
            Either::First(done) => done,
            Either::Second(()) if late.len() >= self.0.options.late_writes => write.await,
            Either::Second(()) => {
                late.spawn(&self.0.door.env, "late write", async move {
                    // Its caller has had its answer.
                    let _ = write.await;
                });
                Err(VolumeError::TimedOut)
            }
        }
    }

    /// Makes a range zeros, step by step.
    pub(crate) async fn clear(
        &self,
        joined: Joined,
        (offset, bytes): (u64, u64),
        kind: WriteKind,
    ) -> Result<(), VolumeError> {
        let range = split::range(offset, bytes, self.size())?;
        for (number, step) in range.split_at_multiples(self.0.options.step_sectors).enumerate() {
            base::hit_if(number > 0, base::Probe::SecondStep);
            self.pass(0).await;
            self.change(joined, step, (kind, self.0.door.empty.clone())).await?;
        }
        Ok(())
    }
}

async fn carry_out(door: Rc<Door>, write: LockedWrite) -> Result<(), VolumeError> {
    let LockedWrite { range, kind, payload, deadline, taken, locked } = write;
    let done = door.write(range, (kind, payload), taken, deadline).await;
    drop(locked);
    done
}

impl Volume {
    /// See [`crate::Device::size`].
    pub(crate) fn size(&self) -> u64 {
        self.0.door.shape().layout.sectors() * SECTOR_SIZE
    }

    /// See [`crate::Device::read`].
    pub(crate) async fn read(&self, offset: u64, bytes: u64) -> Result<Pieces, VolumeError> {
        let range = split::range(offset, bytes, self.size())?;
        self.pass(bytes).await;
        let deadline = self.deadline();
        let _locked = self.lock(range, LockMode::Shared, deadline).await?;
        let read = self.0.door.read(range, deadline);
        match select(read, self.0.door.env.sleep_until(deadline)).await {
            Either::First(done) => done,
            Either::Second(()) => Err(VolumeError::TimedOut),
        }
    }

    /// See [`crate::Device::write`].
    pub(crate) async fn write(
        &self,
        joined: Joined,
        offset: u64,
        payload: Slice,
    ) -> Result<(), VolumeError> {
        let range = split::range(offset, payload.len() as u64, self.size())?;
        if range.is_empty() {
            return Ok(());
        }
        self.pass(payload.len() as u64).await;
        self.change(joined, range, (WriteKind::Data, payload)).await
    }

    /// See [`crate::Device::extents`].
    pub(crate) async fn extents(
        &self,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<Extent>, VolumeError> {
        let range = split::range(offset, bytes.min(EXTENTS_SPAN_MAX), self.size())?;
        let deadline = self.deadline();
        let extents = self.0.door.extents(range, deadline);
        match select(extents, self.0.door.env.sleep_until(deadline)).await {
            Either::First(done) => done,
            Either::Second(()) => Err(VolumeError::TimedOut),
        }
    }
}

impl Door {
    fn shape(&self) -> Ref<'_, Rc<Shape>> {
        self.shape.borrow()
    }

    /// Counts what is rare about a request of several pieces.
    fn note_pieces(&self, shape: &Shape, range: SectorRange) {
        let object = |sector| shape.layout.place(sector).map(|place| place.object);
        let (first, last) = (object(range.start), object(range.end() - 1));
        base::hit_if(first != last, base::Probe::ObjectsCrossed);
        let is_many = split::pieces(range, &shape.layout).nth(self.pieces_most).is_some();
        base::hit_if(is_many, base::Probe::PiecesWaited);
    }

    async fn read(&self, range: SectorRange, deadline: Instant) -> Result<Pieces, VolumeError> {
        let shape = Rc::clone(&self.shape());
        let mut all = split::pieces(range, &shape.layout);
        if let (Some(only), None) = (all.next(), all.next()) {
            return Ok(self.read_piece(only, deadline).await?.into());
        }
        self.note_pieces(&shape, range);
        let reads =
            split::pieces(range, &shape.layout).map(|piece| self.read_piece(piece, deadline));
        let mut joined = Pieces::default();
        let slices = try_join_at_most(self.pieces_most, reads).await?;
        slices.into_iter().for_each(|slice| joined.push(slice));
        Ok(joined)
    }

    async fn read_piece(&self, piece: Piece, deadline: Instant) -> Result<Slice, VolumeError> {
        let attempt = |id| self.objects.read(id, piece.range);
        // Bytes that were damaged on their way here are good at the second try.
        for _ in 0..2 {
            let ReadData { payload, crcs } = self.resend(piece.object, deadline, attempt).await?;
            if wire::verify(piece.range, &crcs, &payload) {
                return Ok(payload);
            }
        }
        Err(VolumeError::Io)
    }

    async fn write(
        &self,
        range: SectorRange,
        (kind, payload): (WriteKind, Slice),
        taken: Taken,
        deadline: Instant,
    ) -> Result<(), VolumeError> {
        let part = |piece: Piece| match kind {
            WriteKind::Data => payload.slice(piece.within.clone()),
            WriteKind::Zero | WriteKind::Discard => self.empty.clone(),
        };
        let shape = Rc::clone(&self.shape());
        let mut all = split::pieces(range, &shape.layout);
        if let (Some(only), None) = (all.next(), all.next()) {
            let payload = part(only.clone());
            return self.write_piece(only, (kind, payload), taken, deadline).await;
        }
        self.note_pieces(&shape, range);
        let writes = split::pieces(range, &shape.layout).map(|piece| {
            let payload = part(piece.clone());
            self.write_piece(piece, (kind, payload), taken, deadline)
        });
        try_join_at_most(self.pieces_most, writes).await.map(drop)
    }

    async fn write_piece(
        &self,
        piece: Piece,
        (kind, payload): (WriteKind, Slice),
        mut taken: Taken,
        deadline: Instant,
    ) -> Result<(), VolumeError> {
        // Computed once, where the data enters: every later step checks the data against these.
        let crcs = match kind {
            WriteKind::Data => wire::crcs_of(piece.range, &payload),
            WriteKind::Zero | WriteKind::Discard => Crcs::default(),
        };
        let range = piece.range;
        loop {
            let Taken { joined, epoch } = taken;
            let request = &self.begin_write(piece.object, epoch, deadline).await?;
            let attempt =
                |id| self.objects.write(id, request, range, kind, crcs.clone(), payload.clone());
            match self.resend(piece.object, deadline, attempt).await {
                // It did not happen, and does not: this host may be the writer again, in an epoch
                // that it has not heard of yet.
                Err(VolumeError::NotWriter) => {
                    taken = self.may_write(joined, Some(epoch), deadline).await?;
                }
                done => return done,
            }
        }
    }

    /// Waits until this host may write, in another epoch than `refused`.
    async fn may_write(
        &self,
        joined: Joined,
        refused: Option<WriterEpoch>,
        deadline: Instant,
    ) -> Result<Taken, VolumeError> {
        let bounds = (deadline, self.writer_wait);
        self.gate.pass(&self.env, joined, refused, bounds).await
    }

    async fn extents(
        &self,
        range: SectorRange,
        deadline: Instant,
    ) -> Result<Vec<Extent>, VolumeError> {
        let set = self.shape().layout.set_of(range.start).filter(|_| !range.is_empty());
        let Some(set) = set else { return Ok(Vec::new()) };
        let columns = Columns::of(set, range.intersect(set.range));
        let asked = columns.asked().map(|(object, range)| async move {
            let attempt = |id| self.objects.extents(id, range);
            self.resend(object, deadline, attempt).await
        });
        let answers = try_join_at_most(self.pieces_most, asked).await?;
        let list = columns.joined(&answers);
        // A gap, or nothing at all: an owner answered nonsense.
        if list.is_empty() { Err(VolumeError::Io) } else { Ok(list) }
    }

    /// Takes the request number of a write. All attempts of the write carry this one number, so
    /// that the write has its effect once (rule 46).
    async fn begin_write(
        &self,
        object: usize,
        epoch: WriterEpoch,
        deadline: Instant,
    ) -> Result<WriteRequest, VolumeError> {
        let id = self.object(object);
        let left = deadline.since(self.env.now());
        let begun = self.env.timeout(left, self.objects.begin_write(id, epoch)).await;
        begun.map_err(|_| VolumeError::TimedOut)
    }

    /// The id of object number `number`, which is used from now on. Its first use attaches it to
    /// this host, and an owner does not hand over an object that its own clients use (rule 53).
    fn object(&self, number: usize) -> ObjectId {
        let Some(id) = self.shape().ids.get(number).copied() else {
            unreachable!("ranges are checked against the size, which the objects cover")
        };
        if self.openings.touch(number) {
            self.objects.set_attached(id, true);
        }
        id
    }

    /// Repeats `attempt` until object number `object` answers; no attempt starts after `deadline`.
    /// An object that says `NotOwner` or `Inaccessible` has ended the attempt (rule 44). Then the
    /// owner is looked for again, and the next attempt goes to the owner that is found.
    async fn resend<T, F: Future<Output = Result<T, ObjectError>>>(
        &self,
        object: usize,
        deadline: Instant,
        attempt: impl Fn(ObjectId) -> F,
    ) -> Result<T, VolumeError> {
        let id = self.object(object);
        let mut pause = Duration::ZERO;
        while self.env.now() < deadline {
            let seen = self.openings.finished(object);
            match attempt(id).await {
                Ok(done) => return Ok(done),
                Err(ObjectError::NotOwner | ObjectError::Inaccessible) => {}
                Err(ObjectError::Full) => return Err(VolumeError::Full),
                Err(ObjectError::Io) => return Err(VolumeError::Io),
                Err(ObjectError::NotWriter) => return Err(VolumeError::NotWriter),
                Err(ObjectError::Deleted) => return Err(VolumeError::Deleted),
            }
            let left = deadline.since(self.env.now());
            let acquire = self.openings.acquire(object, seen, self.objects.acquire(id));
            let acquired = self.env.timeout(left, acquire).await;
            if let Ok(Err(ObjectError::Deleted)) = acquired {
                return Err(VolumeError::Deleted);
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
        }
        Err(VolumeError::TimedOut)
    }
}
