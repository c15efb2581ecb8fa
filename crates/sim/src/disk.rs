// SPDX-License-Identifier: Apache-2.0
//! One modelled device: a volatile cache over stable media, latency, and faults.
//!
//! What POSIX and NVMe allow, and these devices do:
//!
//! - Nothing smaller than a sector of 512 bytes is atomic, and that one is: a sector is never torn.
//! - Operations under way have no order. They end in any order. With
//!   [`crate::DiskFreedom::is_loose`] they also take effect in any order and in parts
//!   (`loose.rs`, `parts.rs`); without it each takes effect when it ends.
//! - A cached write is `dirty` from its effect until a flush ends that was submitted after the
//!   write was answered. The device may move it to the media at any time before.
//! - A durable write (O_DSYNC, FUA) is durable when it is answered. It says nothing of others.
//! - Power loss decides for each dirty or unfinished write whether all, none or some of its sectors
//!   reach the media. So a newer write may be lost while an older one of the same sectors is kept.
//!   What is on the media already is never replaced by something older.
//! - A discard is a hint. The device may ignore it; until it is flushed it may be lost like a
//!   write.
//! - A flush that fails vouches for nothing, ever.

use crate::modelled::Modelled;
use crate::options::{CrashModel, DiskModel, WorldStats};
use crate::store::{ContentStore, Layer, StoredPiece};
use base::Rng;

/// What a write or discard puts on the device.
#[derive(Clone)]
pub(crate) enum Body {
    Data(Vec<StoredPiece>),
    Zero { offset: u64, bytes: u64 },
}

impl Body {
    /// Bytes that a flush has to move.
    fn weight(&self) -> u64 {
        match self {
            Self::Data(pieces) => pieces.iter().map(|p| p.sector_count() as u64 * 512).sum(),
            Self::Zero { .. } => 512,
        }
    }
}

struct Dirty {
    seq: u64,
    /// The operation that it is of.
    op: u64,
    /// The number of the moment in which its operation was answered. A flush that was submitted
    /// before need not cover it.
    answered: u64,
    /// A flush that should have covered it failed: no later flush vouches for it.
    in_limbo: bool,
    /// A discard that reads do not see yet.
    is_lazy: bool,
    body: Body,
}

/// When an operation was answered that was not answered yet.
const UNANSWERED: u64 = u64::MAX;

/// The faults that are on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) fail_reads: bool,
    pub(crate) fail_writes: bool,
    pub(crate) fail_flush: bool,
    /// Flushes and durable writes do less than they say.
    pub(crate) lies: bool,
    pub(crate) slow: u64,
    pub(crate) is_frozen: bool,
    /// Its path leads to it no more.
    pub(crate) is_unlinked: bool,
    /// What happens to the next write without anybody being told.
    pub(crate) silent: Option<Silent>,
    /// Only to one that begins in this range (start, end).
    pub(crate) silent_in: Option<(u64, u64)>,
}

impl Faults {
    /// What silently happens to a write, once.
    pub(crate) fn take_silent(&mut self, offset: u64) -> Option<Silent> {
        match self.silent_in {
            Some((start, end)) if !(start..end).contains(&offset) => None,
            _ => self.silent.take(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silent {
    Lost,
    Elsewhere(u64),
}

/// One device of one host. It outlives processes and crashes.
pub(crate) struct SimDisk {
    pub(crate) host: u32,
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) is_file: bool,
    pub(crate) is_sparse: bool,
    /// The process that holds the lock.
    pub(crate) owner: Option<u32>,
    /// Closed by its owner while operations are under way: free when they are done.
    pub(crate) is_closing: bool,
    pub(crate) in_flight: usize,
    pub(crate) faults: Faults,
    /// Operations whose time came while the device was frozen: slot and serial.
    pub(crate) held: Vec<(u32, u64)>,
    pub(crate) store: ContentStore,
    /// Ranges (start, end) that cannot be read until they are written again.
    pub(crate) bad: Vec<(u64, u64)>,
    /// Says when operations end, instead of the world's latencies.
    pub(crate) modelled: Option<Modelled>,
    channels: Vec<u64>,
    dirty: Vec<Dirty>,
    dirty_bytes: u64,
    cache_bytes: u64,
    seq: u64,
}

/// Fate of one unflushed write.
enum Fate {
    Kept,
    Lost,
    Torn,
}

/// How one crash treats unflushed writes.
#[derive(Clone, Copy)]
pub(crate) enum Mood {
    AllKept,
    AllLost,
    Mixed,
}

impl Mood {
    pub(crate) fn draw(model: &CrashModel, rng: &mut Rng) -> Self {
        match rng.chance_ppm(model.uniform_ppm) {
            true if rng.below(2) == 0 => Self::AllKept,
            true => Self::AllLost,
            false => Self::Mixed,
        }
    }

    fn fate(self, model: &CrashModel, rng: &mut Rng) -> Fate {
        match self {
            Self::AllKept => Fate::Kept,
            Self::AllLost => Fate::Lost,
            Self::Mixed if rng.chance_ppm(model.lost_ppm) => Fate::Lost,
            Self::Mixed if rng.chance_ppm(model.torn_ppm) => Fate::Torn,
            Self::Mixed => Fate::Kept,
        }
    }
}

/// Some sectors of a write, at least one and not all; `None` where it has only one.
pub(crate) fn tear(pieces: &[StoredPiece], rng: &mut Rng) -> Option<Vec<StoredPiece>> {
    let sectors: usize = pieces.iter().map(StoredPiece::sector_count).sum();
    if sectors < 2 {
        return None;
    }
    let mut keep: Vec<bool> = match rng.below(4) {
        0 => (0..sectors).map(|_| rng.below(2) == 0).collect(),
        1 => {
            let hole = rng.below(sectors as u64) as usize;
            (0..sectors).map(|at| at != hole).collect()
        }
        which => {
            let cut = rng.between(1, sectors as u64 - 1) as usize;
            (0..sectors).map(|at| (at < cut) == (which == 2)).collect()
        }
    };
    if keep.iter().all(|kept| *kept == keep[0]) {
        keep[0] = !keep[0];
    }
    let mut marks = keep.into_iter();
    let mut out = Vec::new();
    for piece in pieces {
        piece.sift(|| marks.next().unwrap_or(false), &mut out);
    }
    Some(out)
}

impl SimDisk {
    /// Whether a fault is on that the device does not have by itself.
    pub(crate) fn is_faulty(&self) -> bool {
        self.faults != Faults::default() || !self.bad.is_empty()
    }

    pub(crate) fn new(host: u32, path: &str, size: u64, is_file: bool, model: &DiskModel) -> Self {
        Self {
            host,
            path: path.to_owned(),
            size,
            is_file,
            is_sparse: false,
            owner: None,
            is_closing: false,
            in_flight: 0,
            faults: Faults::default(),
            held: Vec::new(),
            store: ContentStore::default(),
            bad: Vec::new(),
            modelled: None,
            channels: vec![0; model.channels.max(1)],
            dirty: Vec::new(),
            dirty_bytes: 0,
            cache_bytes: model.cache_bytes,
            seq: 0,
        }
    }

    /// Takes the channel that is free first for `service` nanoseconds; when that is over.
    pub(crate) fn occupy(
        &mut self,
        now: u64,
        service: u64,
        model: &DiskModel,
        rng: &mut Rng,
    ) -> u64 {
        let mut service = service.saturating_mul(self.faults.slow.max(1));
        if rng.chance_ppm(model.tail_ppm) {
            service = service.saturating_mul(model.tail_factor.max(1));
        }
        let mut first = 0;
        for (index, free_at) in self.channels.iter().enumerate() {
            if *free_at <= now {
                first = index;
                break;
            }
            if *free_at < self.channels[first] {
                first = index;
            }
        }
        let end = self.channels[first].max(now).saturating_add(service);
        self.channels[first] = end;
        end
    }

    pub(crate) fn is_bad(&self, offset: u64, bytes: u64) -> bool {
        self.bad.iter().any(|(start, end)| *start < offset + bytes && offset < *end)
    }

    /// A write makes its range readable again.
    pub(crate) fn heal(&mut self, offset: u64, bytes: u64) {
        if self.bad.is_empty() {
            return;
        }
        let end = offset + bytes;
        for (from, to) in std::mem::take(&mut self.bad) {
            let parts = [(from, to.min(offset)), (from.max(end), to)];
            self.bad.extend(parts.into_iter().filter(|(from, to)| from < to));
        }
    }

    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// What a flush submitted now covers.
    pub(crate) fn flush_cover(&self) -> u64 {
        self.seq
    }

    /// A write or discard into the cache completed.
    pub(crate) fn commit_cached(&mut self, body: Body, in_limbo: bool) {
        self.land(body, 0);
        if let Some(last) = self.dirty.last_mut() {
            (last.answered, last.in_limbo) = (last.seq, in_limbo);
        }
        self.spill();
    }

    /// A part of operation `op` takes effect: reads see it, and power loss may lose it.
    pub(crate) fn land(&mut self, body: Body, op: u64) {
        self.seq += 1;
        match &body {
            Body::Data(pieces) => {
                self.store.write_current(pieces);
            }
            Body::Zero { offset, bytes } => {
                self.store.zero(Layer::Current, *offset, *bytes, self.seq)
            }
        }
        self.push_dirty(body, op, false);
    }

    /// Reads see nothing of this discard. Power loss before the next flush may show it.
    pub(crate) fn land_unseen(&mut self, body: Body, op: u64) {
        self.seq += 1;
        self.push_dirty(body, op, true);
    }

    fn push_dirty(&mut self, body: Body, op: u64, is_lazy: bool) {
        self.dirty_bytes += body.weight();
        let (seq, answered, in_limbo) = (self.seq, UNANSWERED, false);
        self.dirty.push(Dirty { seq, op, answered, in_limbo, is_lazy, body });
    }

    /// Where the cache is too full the older half moves to the media, as devices do on their own.
    fn spill(&mut self) {
        if self.dirty_bytes > self.cache_bytes {
            let middle = self.dirty[self.dirty.len() / 2].seq;
            self.settle_where(|dirty| dirty.seq <= middle && !dirty.in_limbo);
        }
    }

    /// Operation `op` was answered: the next flush covers what it did.
    pub(crate) fn answer(&mut self, op: u64) {
        self.seq += 1;
        for dirty in self.dirty.iter_mut().filter(|dirty| dirty.op == op) {
            dirty.answered = self.seq;
        }
        self.spill();
    }

    /// Operation `op` was a durable write and is answered.
    pub(crate) fn answer_durable(&mut self, op: u64) {
        self.settle_where(|dirty| dirty.op == op);
    }

    /// Operation `op` failed: what it left may or may not survive, for ever.
    pub(crate) fn answer_failed(&mut self, op: u64) {
        self.seq += 1;
        for dirty in self.dirty.iter_mut().filter(|dirty| dirty.op == op) {
            (dirty.answered, dirty.in_limbo) = (self.seq, true);
        }
    }

    /// Nobody waits any more: the next flush covers all that operations under way have done.
    pub(crate) fn answer_all(&mut self) {
        self.seq += 1;
        for dirty in self.dirty.iter_mut().filter(|dirty| dirty.answered == UNANSWERED) {
            dirty.answered = self.seq;
        }
    }

    /// A write through the cache completed.
    pub(crate) fn commit_durable(&mut self, pieces: &[StoredPiece]) {
        self.seq += 1;
        self.store.write_through(pieces, self.seq);
    }

    fn settle(store: &mut ContentStore, body: &Body, seq: u64) {
        match body {
            Body::Data(pieces) => store.write_stable(pieces, seq),
            Body::Zero { offset, bytes } => store.zero(Layer::Stable, *offset, *bytes, seq),
        }
    }

    /// A flush that covers everything up to `cover` completed.
    pub(crate) fn commit_flush(&mut self, cover: u64) {
        self.settle_where(|dirty| dirty.answered <= cover && !dirty.in_limbo);
    }

    /// Moves to the media what is so. A discard that reads do not see never happens then.
    fn settle_where(&mut self, is_so: impl Fn(&Dirty) -> bool) {
        let (store, bytes) = (&mut self.store, &mut self.dirty_bytes);
        self.dirty.retain(|dirty| {
            if !is_so(dirty) {
                return true;
            }
            if !dirty.is_lazy {
                Self::settle(store, &dirty.body, dirty.seq);
            }
            *bytes -= dirty.body.weight();
            false
        });
    }

    /// A flush failed: what it should have covered may or may not survive, for ever.
    pub(crate) fn fail_flush(&mut self, cover: u64) {
        for dirty in &mut self.dirty {
            dirty.in_limbo |= dirty.answered <= cover;
        }
    }

    /// Power loss, with `unfinished` writes under way.
    pub(crate) fn crash(
        &mut self,
        mut unfinished: Vec<Body>,
        model: &CrashModel,
        rng: &mut Rng,
        stats: &mut WorldStats,
    ) {
        let mood = Mood::draw(model, rng);
        for index in (1..unfinished.len()).rev() {
            unfinished.swap(index, rng.below(index as u64 + 1) as usize);
        }
        let mut pending = std::mem::take(&mut self.dirty);
        for body in unfinished {
            self.seq += 1;
            let (seq, op, answered) = (self.seq, 0, UNANSWERED);
            pending.push(Dirty { seq, op, answered, in_limbo: true, is_lazy: false, body });
        }
        for dirty in pending {
            match (mood.fate(model, rng), &dirty.body) {
                (Fate::Lost, _) => stats.writes_lost += 1,
                (Fate::Torn, Body::Data(pieces)) => match tear(pieces, rng) {
                    Some(part) => {
                        stats.writes_torn += 1;
                        self.store.write_stable(&part, dirty.seq);
                    }
                    None => stats.writes_lost += 1,
                },
                (_, body) => {
                    stats.writes_kept += 1;
                    Self::settle(&mut self.store, body, dirty.seq);
                }
            }
        }
        self.store.revert();
        self.dirty_bytes = 0;
        self.seize();
    }

    /// What surely survives a crash, and the number of its last write.
    pub(crate) fn survivor(&self) -> (ContentStore, u64) {
        let mut store = self.store.clone();
        store.revert();
        (store, self.seq)
    }

    /// Holds what another device held; what is written from now on is newer.
    pub(crate) fn go_on_from(&mut self, (store, seq): (ContentStore, u64)) {
        (self.store, self.seq) = (store, seq);
    }

    /// An operation is over; the last one of a device that was closed frees it.
    pub(crate) fn leave(&mut self) {
        self.in_flight -= 1;
        if self.is_closing && self.in_flight == 0 {
            self.is_closing = false;
            self.owner = None;
        }
    }

    /// Its process is gone: unlock, forget what was under way.
    pub(crate) fn seize(&mut self) {
        self.owner = None;
        self.is_closing = false;
        self.in_flight = 0;
        self.held.clear();
        self.channels.fill(0);
        if let Some(modelled) = &mut self.modelled {
            modelled.stop();
        }
    }
}
