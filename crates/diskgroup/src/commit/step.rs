// SPDX-License-Identifier: Apache-2.0
//! What is written to the log next: a commit of appends or of moved entries, and where.

use crate::log::build::{Build, Sealed, to_usize};
use crate::log::queue::{Deferred, Move, Still};
use crate::pace::Admission;
use crate::state::GroupState;
use base::{Instant, Mark, Quirk};
use env::Slice;
use format::KnownCommit;

/// What the log's task does next.
pub(crate) enum LogStep {
    /// Nothing to write, or no room.
    Idle,
    /// The pace lets nothing be written before that time.
    Wait(Instant),
    /// Moved entries were all outdated; look again.
    Again,
    /// There is no room for moved entries, and never will be.
    DeadEnd,
    /// This commit, at this byte of the device, after this summary.
    Write {
        offset: u64,
        segment: u64,
        sealed: Box<Sealed>,
        summary: Option<(u64, Slice)>,
        is_move: bool,
    },
}

impl GroupState {
    /// Fills of ring and index, whichever is higher, without what destage has written of segments
    /// that are not free yet, thousandths.
    pub(crate) fn fill(&self) -> i64 {
        let indexed = usize::try_from(self.pace.indexed()).unwrap_or(usize::MAX);
        self.fill_without(self.pace.done(), indexed)
    }

    /// With that.
    pub(crate) fn fill_of_segments(&self) -> i64 {
        self.fill_without(0, 0)
    }

    fn fill_without(&self, done: u64, indexed: usize) -> i64 {
        let index =
            self.log.index.len().saturating_sub(indexed) * 1000 / self.log.index.limit().max(1);
        self.log.fill(done).max(i64::try_from(index).unwrap_or(1000))
    }

    /// Whether the commit under composition takes an append of so much: above the gate commits are
    /// small, so that they come evenly.
    pub(crate) fn takes(&self, now: Instant, bytes: usize, blocks: usize, marks: usize) -> bool {
        let build = &self.log.build;
        let most = self.pace.commit_blocks(now, self.fill());
        let is_small = build.is_empty() || (build.index_need + blocks) as u64 <= most;
        is_small && build.fits(bytes, blocks, marks)
    }

    /// Copies deferred appends into the commit under composition, in order.
    pub(super) fn refill(&mut self, env: &env::Env) {
        while let Some(next) = self.log.deferred.front() {
            let blocks = next.range.blocks();
            let bytes = if next.kind.is_data() { to_usize(next.range.bytes()) } else { 0 };
            let blocks = to_usize(blocks.end - blocks.start);
            if !self.takes(env.now(), bytes, blocks, next.marks.len()) {
                assert!(!self.log.build.is_empty(), "an append that fits no commit");
                return;
            }
            let Some(next) = self.log.deferred.pop_front() else { return };
            self.add_deferred(env, &next);
        }
    }

    fn add_deferred(&mut self, env: &env::Env, next: &Deferred) {
        let part = crate::log::build::Part {
            serial: next.serial,
            kind: next.kind,
            is_moved: false,
            is_copy: next.is_copy,
            range: next.range,
            lsn: next.lsn,
            crcs: &next.crcs,
            payload: &next.payload,
            marks: &next.marks,
        };
        self.add_to_build(env, &part, next.ticket);
    }

    /// Appends that waited for a direct write of their component go on, in order.
    pub(super) fn admit(&mut self, env: &env::Env, ready: Vec<Deferred>) {
        self.log.deferred.extend(ready);
        // What was deferred before them may fit by now as well: it comes first.
        if !self.log.deferred.is_empty() {
            self.refill(env);
        }
    }

    pub(super) fn add_to_build(
        &mut self,
        env: &env::Env,
        part: &crate::log::build::Part<'_>,
        ticket: u64,
    ) {
        self.log.build.add(env, part);
        self.log.build.tickets.push(ticket);
    }

    /// Whether the index takes what is under composition. An empty one can make no more room.
    fn has_index_room(&self) -> bool {
        let index = &self.log.index;
        index.len() == 0 || index.len() + self.log.build.index_need <= index.limit()
    }

    /// Whether appends wait until destage has made room. The ring may be nearly empty then: a few
    /// kilobytes of zeros in it fill the index.
    pub(crate) fn waits_for_room(&self, now: Instant) -> bool {
        let is_full = || self.pace.admission(now, self.fill()) == Admission::Never;
        !self.log.build.is_empty() && (!self.has_index_room() || is_full())
    }

    /// Decides what to write and takes it out of the queue.
    pub(crate) fn next_step(&mut self, env: &env::Env) -> LogStep {
        if self.fenced.is_some() || self.log.is_writing {
            return LogStep::Idle;
        }
        let is_move = self.log.has_moves();
        let build = if is_move {
            self.build_moves(env)
        } else {
            if self.log.build.is_empty() {
                return LogStep::Idle;
            }
            let has_room = self.has_index_room();
            let admission = self.pace.admission(env.now(), self.fill());
            if !has_room || admission != Admission::Now {
                base::hit(base::Probe::LogPressed);
            }
            match admission {
                Admission::Now if has_room => None,
                Admission::At(at) if has_room => return LogStep::Wait(at),
                _ => {
                    self.log.is_pressed = true;
                    return LogStep::Idle;
                }
            }
        };
        if is_move && build.is_none() {
            return LogStep::Again;
        }
        let next = build.as_ref().unwrap_or(&self.log.build);
        let (length, direct) = (next.length() as u64, next.direct);
        let is_early = !is_move
            && self.log.offset > 0
            && self.log.may_open_next(false)
            && env.quirk(Quirk::LogTurnsEarly);
        let fits = !is_early && self.log.has_room(length, direct);
        if !fits && !self.log.may_open_next(is_move) {
            self.log.is_pressed = true;
            let is_dead_end = build.is_some_and(|build| self.log.stall(build));
            return if is_dead_end { LogStep::DeadEnd } else { LogStep::Idle };
        }
        let summary = if fits { None } else { self.log.turn_over(env.pool()) };
        let build = build.unwrap_or_else(|| {
            let next = self.log.build.next();
            std::mem::replace(&mut self.log.build, next)
        });
        let known = self.known_of(&build);
        let (offset, sealed) = self.log.seal(env, build, known);
        if !is_move {
            self.pace.charge(env.now(), sealed.crcs.len() as u64, self.fill());
            self.refill(env);
        }
        let (segment, sealed) = (self.log.head, Box::new(sealed));
        self.log.is_writing = true;
        self.log.is_moving = is_move;
        LogStep::Write { offset, segment, sealed, summary, is_move }
    }

    /// Composes a commit of those moved entries that are still needed. No other commit is in flight
    /// here, so the index knows everything that is durable. What supersedes a moved entry later is
    /// written behind it in the log, and cannot be destaged and forgotten before it.
    fn build_moves(&mut self, env: &env::Env) -> Option<Build> {
        if let Some(stalled) = self.log.stalled.take() {
            return Some(stalled);
        }
        let mut build = Build::new(self.log.limits);
        while let Some(next) = self.log.next_moved(&build) {
            let marks = next.id.map(Mark::Done);
            if self.cuts(&next) {
                continue;
            }
            if !self.is_still(&next) && !self.mutations.move_unchecked() {
                continue;
            }
            build.add(
                env,
                &crate::log::build::Part {
                    serial: next.serial,
                    kind: next.kind,
                    is_moved: true,
                    is_copy: next.is_copy,
                    range: next.range,
                    lsn: next.lsn,
                    crcs: &next.crcs,
                    payload: &next.payload,
                    marks: marks.as_slice(),
                },
            );
            base::hit(base::Probe::LogMoved);
            self.counters.moved_entries += 1;
        }
        (!build.is_empty()).then_some(build)
    }

    fn is_still(&self, moved: &Move) -> bool {
        if self.store.components.get(moved.serial).is_none() {
            return false;
        }
        match &moved.still {
            Still::Live(key, place) => self.log.index.is_live(*key, *place),
            Still::Cleared(key, place) => {
                self.log.cleared(*key).is_some_and(|(at, _)| at == *place)
            }
            Still::Pieces(key, places) => match self.log.index.get(*key) {
                Some(crate::log::index::LogView::Parts(parts)) => {
                    let old = parts.pieces.iter().filter(|piece| piece.lsn <= moved.lsn.0);
                    old.map(|piece| piece.place).eq(places.iter().copied())
                }
                _ => false,
            },
            // What is not live of it was cut off.
            Still::Direct(_) => true,
            Still::Open => {
                self.store.components.get(moved.serial).is_some_and(|c| c.row.commit < moved.lsn)
            }
        }
    }

    /// Whether something newer came over a part of a direct write that is to be moved. Then the
    /// other parts take its place: what is newer may be freed before the moved entry, and must not
    /// be hidden by it afterwards.
    fn cuts(&mut self, moved: &Move) -> bool {
        let Still::Direct(place) = moved.still else { return false };
        let live = self.log.live_parts((moved.serial, moved.range), place);
        if live == [moved.range] || self.mutations.move_unchecked() {
            base::hit(base::Probe::StagedMoved);
            return false;
        }
        base::hit_if(!live.is_empty(), base::Probe::StagedCut);
        self.log.move_parts(moved, &live);
        true
    }

    /// What the header of a commit says of K, for components of which no header said it yet.
    fn known_of(&mut self, build: &Build) -> Vec<KnownCommit> {
        let mut known = Vec::new();
        for serial in build.serials() {
            if let Some(component) = self.store.components.get_mut(serial)
                && component.row.commit > component.commit_logged
            {
                component.commit_logged = component.row.commit;
                known.push(KnownCommit { serial, lsn: component.row.commit });
            }
        }
        known
    }
}
