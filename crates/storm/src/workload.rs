// SPDX-License-Identifier: Apache-2.0
//! Clients: tasks on the cluster's hosts that write, read and discard at random.

use crate::cluster::Cluster;
use crate::oracles::{ObjectOracles, ReadPart, WritePart};
use crate::plan::ClientLoad;
use crate::records::Records;
use crate::waits::ClientWaits;
use base::{BLOCK_SECTORS, CHUNK_SECTORS, Rng, SECTOR_SIZE, SectorRange};
use directory::VolumeLayout;
use env::channel::oneshot;
use env::{Either, Env, Notify, TaskSet, select};
use host::Node;
use oracle::{Author, Oracle, Wrong, fill};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use volume::{Device, Pieces, VolumeError};

/// Largest operation, sectors. It is larger than a chunk, so that operations cross chunk borders.
const COUNT_MAX: u64 = 2200;
/// The drawn number that means a discard.
const DISCARD: u64 = 9;

/// What the clients of one volume share with the campaign.
pub struct VolumeLoad {
    /// The volume's name.
    pub volume: String,
    /// Decides what may be read.
    pub oracle: RefCell<ObjectOracles>,
    /// The first wrong sector that a client saw, and who saw it.
    pub wrong: RefCell<Option<(String, Wrong)>>,
    /// Whether clients begin new operations.
    pub is_open: Cell<bool>,
    /// Whether clients discard whole chunks and do not write.
    pub is_trimming: Cell<bool>,
    /// The hosts whose clients work; the others detach. `None`: all hosts.
    pub only: RefCell<Option<Vec<usize>>>,
    /// If set, all clients meet there, and their writes may overlap.
    pub(crate) meeting: Cell<Option<Meeting>>,
    /// Wakes clients that have a write under way, so that those of `leaves` hang up.
    pub(crate) hang_up: Notify,
    /// The host whose clients hang up.
    pub(crate) leaves: Cell<Option<u32>>,
    /// How many changes of the writer the oracle knows of.
    pub(crate) writers_seen: Cell<usize>,
    /// Operations acknowledged.
    pub done: Cell<u64>,
    /// Operations that ended with an error.
    pub failed: Cell<u64>,
    /// Operations under way.
    pub running: Cell<u64>,
    /// What clients wait for.
    pub waits: ClientWaits,
    /// The directory's content.
    pub records: Rc<Records>,
}

impl VolumeLoad {
    /// The shared state for a volume that lies so.
    #[must_use]
    pub fn new(volume: String, layout: &VolumeLayout, cluster: &Cluster) -> Self {
        Self {
            volume,
            oracle: RefCell::new(ObjectOracles::new(layout)),
            wrong: RefCell::default(),
            is_open: Cell::new(true),
            is_trimming: Cell::default(),
            only: RefCell::default(),
            meeting: Cell::default(),
            hang_up: Notify::default(),
            leaves: Cell::default(),
            writers_seen: Cell::default(),
            done: Cell::default(),
            failed: Cell::default(),
            running: Cell::default(),
            waits: ClientWaits::new(&cluster.world),
            records: Rc::clone(&cluster.records),
        }
    }

    fn admits(&self, host: u32) -> bool {
        let is_chosen =
            self.only.borrow().as_ref().is_none_or(|only| only.contains(&(host as usize)));
        self.is_open.get() && is_chosen && self.wrong.borrow().is_none()
    }

    /// Tells the oracle of an object in which term `node` serves it, if it does, and if some write
    /// is undecided.
    fn note_service(&self, node: &Node, object: usize) {
        if !self.oracle.borrow_mut().of(object).has_undecided() {
            return;
        }
        let id = self.records.id(&self.volume, object);
        let status = id.and_then(|id| node.objects().status(id));
        if let Some(status) = status.filter(|status| status.is_served_here) {
            self.oracle.borrow_mut().of(object).served(status.term.0.into());
        }
    }
}

/// A few sectors where the clients of all hosts meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    /// Whole blocks.
    pub(crate) range: SectorRange,
    /// Longest pause of a client between two operations.
    pub(crate) pause_max: Duration,
}

impl Meeting {
    /// A whole block, a part of one, or anything within the range.
    fn choose(self, rng: &mut Rng) -> SectorRange {
        let block = BLOCK_SECTORS * rng.below(self.range.count.div_ceil(BLOCK_SECTORS));
        let block = self.range.start + block;
        let length = BLOCK_SECTORS.min(self.range.end() - block);
        let (start, end) = match rng.below(4) {
            0 => (block, block + length),
            1 | 2 => {
                let first = rng.below(length);
                (block + first, block + rng.between(first + 1, length))
            }
            _ => {
                let first = rng.below(self.range.count);
                let end = rng.between(first + 1, self.range.count);
                (self.range.start + first, self.range.start + end)
            }
        };
        SectorRange::new(start, end - start)
    }
}

/// Who does an operation.
pub struct Asker<'a> {
    /// The host that is asked.
    pub node: &'a Node,
    /// The host, and the run of that host, in whose name the operation is asked.
    pub author: Author,
    /// The name of the client, for people.
    pub name: &'a str,
}

/// Finds out whether the answer to an operation may be checked. If the directory was set back raw,
/// an owner may serve that has none of the copies that counted before. Such an owner cannot know
/// that its data is old, so its answers are not checked (`docs/campaign.md`).
struct Doubts {
    /// Of each object of the volume.
    turns: Vec<u64>,
}

impl Doubts {
    fn begin(shared: &VolumeLoad) -> Self {
        let objects = 0..shared.oracle.borrow().count();
        let turns = |object| shared.records.turns(&shared.volume, object);
        Self { turns: objects.map(turns).collect() }
    }

    /// Whether an answer of `node` can be believed, as far as it is about this object.
    fn is_credible(&self, shared: &VolumeLoad, node: &Node, object: usize) -> bool {
        let (records, volume) = (&shared.records, &*shared.volume);
        let now = records.turns(volume, object);
        if now == self.turns[object] && now.is_multiple_of(2) {
            return true;
        }
        // An owner from before the set-back may go on serving. It has every copy that counts.
        let status = records.id(volume, object).and_then(|id| node.objects().status(id));
        status.is_some_and(|status| {
            let (owner, term) = (status.owner, status.term);
            status.is_served_here && records.is_owner_of_before((volume, object), owner, term)
        })
    }
}

/// Counts an operation under way, until it ends or a crash drops it.
pub(crate) struct Running(Rc<VolumeLoad>);

impl Running {
    pub(crate) fn new(shared: &Rc<VolumeLoad>) -> Self {
        shared.running.set(shared.running.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

/// A write under way. If it ends with an error, or a crash drops it, the content of its range is
/// undecided.
struct Writing {
    shared: Rc<VolumeLoad>,
    /// In each object that it touches.
    parts: Vec<WritePart>,
}

impl Writing {
    /// It was answered: what is credible of that counts.
    fn answered(mut self, doubts: &Doubts, node: &Node) {
        self.shared.note_writers();
        let mut parts = std::mem::take(&mut self.parts);
        let credible = |part: &mut WritePart| doubts.is_credible(&self.shared, node, part.object);
        for part in parts.extract_if(.., credible) {
            self.shared.oracle.borrow_mut().of(part.object).acknowledged(part.id);
        }
        self.parts = parts;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut oracle = self.shared.oracle.borrow_mut();
        for part in self.parts.drain(..) {
            let term = self.shared.records.term(&self.shared.volume, part.object);
            oracle.of(part.object).unanswered(part.id, term);
        }
    }
}

/// One client.
pub struct Client {
    /// Its host's environment.
    pub env: Env,
    /// Its host.
    pub node: Rc<Node>,
    /// What it shares with all others.
    pub shared: Rc<VolumeLoad>,
    /// The host, and the run of that host, in whose name it asks.
    pub author: Author,
    /// What it does.
    pub load: ClientLoad,
    /// Whether it only reads. Such a client goes on when writes have to wait.
    pub is_reader: bool,
    /// Its random numbers.
    pub rng: Rng,
    /// Its name, for people.
    pub name: String,
}

impl Client {
    /// Does one operation after the other, until its host ends.
    pub async fn run(mut self) {
        let shared = Rc::clone(&self.shared);
        let (host, name) = (self.host(), self.name.clone());
        let (mut device, mut refused) = (None, None);
        let left = TaskSet::default();
        loop {
            if !self.shared.admits(self.author.host) {
                (device, refused) = (None, None);
                self.env.sleep(Duration::from_millis(20)).await;
                continue;
            }
            if self.rng.below(200) == 0 {
                device = None; // reconnect, so that ownership moves
            }
            let attached = match device.take() {
                Some(attached) => attached,
                None => match self.node.exports().attach(&self.shared.volume) {
                    Ok(attached) => attached,
                    Err(_) => {
                        refused
                            .get_or_insert_with(|| shared.waits.begin(host, "connection", &name));
                        self.env.sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                },
            };
            refused = None;
            // A client that hangs up begins anew.
            device = self.operation(&attached, &left).await.then_some(attached);
            let pause_max = self.shared.meeting.get().map_or(self.load.pause_max, |m| m.pause_max);
            let pause = self.rng.below(1 + pause_max.as_micros() as u64);
            self.env.sleep(Duration::from_micros(pause)).await;
        }
    }

    /// The index of its host.
    fn host(&self) -> usize {
        usize::try_from(self.author.host).unwrap_or(usize::MAX)
    }

    /// A short range around the end of a chunk or an object, or at the volume's end.
    fn choose_edge(&mut self, sectors: u64) -> SectorRange {
        let edge = match self.rng.below(3) {
            0 => sectors,
            1 => self.rng.below(sectors.div_ceil(CHUNK_SECTORS)) * CHUNK_SECTORS,
            _ => {
                let oracle = self.shared.oracle.borrow();
                let starts = oracle.starts();
                let object = self.rng.below(u64::try_from(starts.len()).unwrap_or(1));
                starts[usize::try_from(object).unwrap_or(0)].min(sectors)
            }
        };
        let start = edge.saturating_sub(self.rng.below(20)).min(sectors - 1);
        let count = (1 + self.rng.below(28)).min(sectors - start);
        SectorRange::new(start, count)
    }

    /// A range of a volume that has so many sectors by now.
    fn choose(&mut self, sectors: u64) -> SectorRange {
        if let Some(meeting) = self.shared.meeting.get() {
            return meeting.choose(&mut self.rng);
        }
        // Draws nothing where no edges are asked for: older seeds stay what they were.
        let percent = self.load.edge_percent;
        if percent > 0 && self.rng.below(100) < percent {
            return self.choose_edge(sectors);
        }
        let is_hot = self.rng.below(100) < self.load.hot_percent;
        let (unit, count) = match self.rng.below(64) {
            0..36 => (8, 8),
            36..54 => (1, 1 + self.rng.below(8)),
            54..63 => (8, 8 * (1 + self.rng.below(32))),
            _ => (1, 1 + self.rng.below(COUNT_MAX)),
        };
        let count = count.min(sectors);
        // Many operations go to a small region, so that they collide.
        let span = if is_hot { sectors.min(self.load.hot_sectors.max(count)) } else { sectors };
        let start = self.rng.below(span - count + 1) / unit * unit;
        SectorRange::new(start, count)
    }

    /// The chunk in which a range begins.
    fn chunk_of(range: SectorRange, sectors: u64) -> SectorRange {
        let start = range.start / CHUNK_SECTORS * CHUNK_SECTORS;
        let end = sectors.min(start + CHUNK_SECTORS);
        SectorRange::new(start, end - start)
    }

    /// Does one operation. What it leaves under way when it hangs up goes on in `left`. Returns
    /// whether it has not hung up.
    async fn operation<D>(&mut self, device: &D, left: &TaskSet) -> bool
    where
        D: Device + Clone + 'static,
    {
        // A host that has not heard that the volume grew has less of it.
        let sectors = self.shared.oracle.borrow().sectors().min(device.size() / SECTOR_SIZE);
        let mut range = self.choose(sectors);
        let mut draw = if self.is_reader { u64::MAX } else { self.rng.below(20) };
        if self.shared.is_trimming.get() && draw < 11 {
            (range, draw) = (Self::chunk_of(range, sectors), DISCARD);
        }
        let shared = Rc::clone(&self.shared);
        let _running = Running::new(&shared);
        let doubts = Doubts::begin(&shared);
        // Draws nothing where nobody asks for block status: older seeds stay what they were.
        let percent = self.load.status_percent;
        let is_status = percent > 0 && self.rng.below(100) < percent;
        let what = match draw {
            DISCARD => "discard",
            0..11 => "write",
            _ if is_status => "question for block status",
            _ => "read",
        };
        let wait = shared.waits.begin(self.host(), what, &self.name);
        let outcome = match draw {
            0..11 if shared.meeting.get().is_some() => {
                self.write_apart(device, range, draw, left).await
            }
            0..11 => self.write(device, range, draw).await.map(Some),
            _ => {
                let (node, author, name) = (&*self.node, self.author, &*self.name);
                let asker = Asker { node, author, name };
                let checked = match is_status {
                    true => status(device, range, &shared, &asker).await,
                    false => read(device, range, &shared, &asker).await,
                };
                checked.map(|()| Some(true))
            }
        };
        wait.end(outcome.err());
        match outcome {
            Ok(Some(true)) => {
                shared.done.set(shared.done.get() + 1);
                for object in 0..doubts.turns.len() {
                    if doubts.is_credible(&shared, &self.node, object) {
                        shared.note_service(&self.node, object);
                    }
                }
            }
            Ok(Some(false)) => self.env.sleep(Duration::from_micros(200)).await,
            Ok(None) => return false,
            // It may have been shut out for good. Who connects anew is another one.
            Err(VolumeError::NotWriter) => return self.rng.below(4) > 0,
            Err(_) => shared.failed.set(shared.failed.get() + 1),
        }
        true
    }

    /// Writes data or zeros, or discards. Returns false, and does nothing, if another write under
    /// way has a part of the range.
    async fn write<D: Device>(
        &self,
        device: &D,
        range: SectorRange,
        draw: u64,
    ) -> Result<bool, VolumeError> {
        let begun = self.shared.oracle.borrow_mut().begin_write(self.author, range, draw >= 9);
        let Some(parts) = begun else { return Ok(false) };
        let tag = parts.first().map_or(0, |part| part.tag);
        tracing::trace!(name = self.name, ?range, tag, at = self.env.now().0, "begins");
        self.request(parts).run(device, range, draw).await?;
        tracing::trace!(name = self.name, ?range, tag, at = self.env.now().0, "acknowledged");
        Ok(true)
    }

    /// As [`Self::write`], beside writes of other hosts that overlap it, and for a client that may
    /// hang up meanwhile. The host carries a write on whose client has hung up, as it does for one
    /// at its door. Returns `None` if the client has hung up.
    async fn write_apart<D>(
        &self,
        device: &D,
        range: SectorRange,
        draw: u64,
        left: &TaskSet,
    ) -> Result<Option<bool>, VolumeError>
    where
        D: Device + Clone + 'static,
    {
        let parts = self.shared.oracle.borrow_mut().begin_rival(self.author, range, draw >= 9);
        let tag = parts.first().map_or(0, |part| part.tag);
        tracing::trace!(name = self.name, ?range, tag, at = self.env.now().0, "begins");
        let (request, device) = (self.request(parts), device.clone());
        let running = Running::new(&self.shared);
        let (done, answer) = oneshot();
        left.spawn(&self.env, "client request", async move {
            done.send(request.run(&device, range, draw).await);
            drop(running);
        });
        let mut answer = std::pin::pin!(answer.recv());
        loop {
            match select(answer.as_mut(), self.shared.hang_up.wait()).await {
                Either::First(outcome) => {
                    outcome.unwrap_or(Err(VolumeError::TimedOut))?;
                    tracing::trace!(name = self.name, ?range, tag, "acknowledged");
                    return Ok(Some(true));
                }
                Either::Second(()) if self.shared.leaves.get() == Some(self.author.host) => {
                    tracing::trace!(name = self.name, ?range, tag, "hangs up");
                    return Ok(None);
                }
                Either::Second(()) => {}
            }
        }
    }

    fn request(&self, parts: Vec<WritePart>) -> ClientRequest {
        let writing = Writing { shared: Rc::clone(&self.shared), parts };
        ClientRequest { env: self.env.clone(), node: Rc::clone(&self.node), writing }
    }
}

/// A write of a client, which its host carries out whoever waits for it.
struct ClientRequest {
    env: Env,
    node: Rc<Node>,
    writing: Writing,
}

impl ClientRequest {
    async fn run<D: Device>(
        self,
        device: &D,
        range: SectorRange,
        draw: u64,
    ) -> Result<(), VolumeError> {
        let shared = Rc::clone(&self.writing.shared);
        let doubts = Doubts::begin(&shared);
        let (offset, bytes) = (range.start * SECTOR_SIZE, range.bytes());
        match draw {
            DISCARD => device.discard(offset, bytes).await?,
            10 => device.write_zeroes(offset, bytes).await?,
            _ => {
                let mut payload = self.env.buf(bytes_of(range));
                let mut rest = &mut payload[..];
                for part in &self.writing.parts {
                    let (bytes, behind) = rest.split_at_mut(bytes_of(part.range));
                    fill(part.range, part.tag, bytes);
                    rest = behind;
                }
                device.write(offset, payload.freeze()).await?;
            }
        }
        self.writing.answered(&doubts, &self.node);
        Ok(())
    }
}

/// A read, or a question for block status, under way. If it fails, or a crash drops it, the oracle
/// forgets it.
struct Reading<'a> {
    shared: &'a VolumeLoad,
    asker: &'a Asker<'a>,
    doubts: Doubts,
    /// In each object that it touches.
    parts: Vec<ReadPart>,
}

impl<'a> Reading<'a> {
    fn begin(shared: &'a VolumeLoad, asker: &'a Asker<'a>, range: SectorRange) -> Self {
        let doubts = Doubts::begin(shared);
        let parts = shared.oracle.borrow_mut().begin_read(range);
        Self { shared, asker, doubts, parts }
    }

    /// It was answered. Where the answer can be believed, `check` tells the oracle of an object
    /// what was seen of it. The first wrong sector is kept and ends the run.
    fn end(mut self, check: impl Fn(&mut Oracle, &ReadPart, Author) -> Result<(), Wrong>) {
        self.shared.note_writers();
        let mut parts = std::mem::take(&mut self.parts);
        let (shared, asker) = (self.shared, self.asker);
        let doubts = &self.doubts;
        let credible = |part: &mut ReadPart| doubts.is_credible(shared, asker.node, part.object);
        for part in parts.extract_if(.., credible) {
            let checked = check(shared.oracle.borrow_mut().of(part.object), &part, asker.author);
            if let Err(wrong) = checked {
                let name = asker.name.to_owned();
                shared.wrong.borrow_mut().get_or_insert((name, wrong));
            }
        }
        self.parts = parts;
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        for part in self.parts.drain(..) {
            self.shared.oracle.borrow_mut().of(part.object).read_failed(part.id);
        }
    }
}

/// Bytes of a range of a volume that is small enough for memory.
fn bytes_of(range: SectorRange) -> usize {
    usize::try_from(range.bytes()).unwrap_or(usize::MAX)
}

/// Reads a range and checks it.
///
/// # Errors
/// The error of the device, if it cannot be read.
pub async fn read<D: Device>(
    device: &D,
    range: SectorRange,
    shared: &VolumeLoad,
    asker: &Asker<'_>,
) -> Result<(), VolumeError> {
    let reading = Reading::begin(shared, asker, range);
    let pieces = device.read(range.start * SECTOR_SIZE, range.bytes()).await?;
    let content = joined(&pieces);
    reading.end(|oracle, part, author| {
        let from = bytes_of(SectorRange::new(0, part.range.start - range.start));
        oracle.read(part.id, author, &content[from..from + bytes_of(part.range)])
    });
    Ok(())
}

/// What was read, copied only where it came in several pieces.
fn joined(pieces: &Pieces) -> Cow<'_, [u8]> {
    let mut all = pieces.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Cow::Borrowed(only),
        _ => Cow::Owned(pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>().concat()),
    }
}

/// Asks for block status and checks what is called a hole.
async fn status<D: Device>(
    device: &D,
    range: SectorRange,
    shared: &VolumeLoad,
    asker: &Asker<'_>,
) -> Result<(), VolumeError> {
    let reading = Reading::begin(shared, asker, range);
    let extents = device.extents(range.start * SECTOR_SIZE, range.bytes()).await?;
    let mut at = range.start;
    let part = |extent: &volume::Extent| {
        let sectors = extent.bytes / SECTOR_SIZE;
        at += sectors;
        (SectorRange::new(at - sectors, sectors), extent.is_allocated)
    };
    let parts: Vec<_> = extents.iter().map(part).collect();
    if parts.iter().any(|(_, is_data)| !is_data) {
        base::hit(base::Probe::StatusHole);
    }
    reading.end(|oracle, asked, author| {
        let told = parts.iter().map(|(part, is_data)| (part.intersect(asked.range), *is_data));
        let told: Vec<_> = told.filter(|(part, _)| !part.is_empty()).collect();
        if told.is_empty() {
            // The answer may end early. Then nobody has asked the later objects.
            oracle.read_failed(asked.id);
            return Ok(());
        }
        oracle.status(asked.id, author, &told)
    });
    Ok(())
}
