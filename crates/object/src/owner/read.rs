// SPDX-License-Identifier: Apache-2.0
//! Reads: shared lock, an active source, and the lease at the very end (rules 10-13, 52a).

use super::mirror::ReadSource;
use super::state::{Owner, Phase};
use super::window::Mask;
use crate::status::ObjectError;
use crate::status::ReadData;
use base::{CHUNK_SECTORS, Quirk, SectorRange};
use env::LockMode;
use peer::PeerError;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use wire::{Failure, Refusal, Request, Response};

/// Before a source is asked again after an answer that said "later".
const RETRY: Duration = Duration::from_millis(20);

/// How a source answered.
pub(crate) enum SourceAnswer {
    /// Data that matches its checksums.
    Data(ReadData),
    /// Not from this one: its copy is bad or its device fails.
    Bad,
    /// Nothing to conclude; ask again, perhaps another one.
    Again,
}

impl Owner {
    /// One client read within one chunk.
    pub(crate) async fn read(self: &Rc<Self>, range: SectorRange) -> Result<ReadData, ObjectError> {
        self.check_range(range)?;
        let guard = match self.options().mutations.reads_do_not_wait() {
            true => None,
            false => Some(self.lock.lock(range, LockMode::Shared).await), // rule 10
        };
        self.check_serving()?;
        self.busy_at.set(self.now());
        let deadline = self.now() + self.options().lease_wait;
        let mut avoid: Mask = 0;
        loop {
            self.check_serving()?;
            let changed = self.changed.wait();
            let Some(source) = self.source_of(range, avoid) else {
                if avoid != 0 && self.all_tried(avoid) {
                    return Err(ObjectError::Io); // no good copy (promise 4)
                }
                self.wait(changed, deadline).await?;
                continue;
            };
            match self.ask(&source, range).await {
                SourceAnswer::Data(data) => {
                    if !self.confirm(&source, deadline).await? {
                        continue;
                    }
                    drop(guard);
                    if avoid != 0 {
                        self.repair_later(range, avoid);
                    }
                    return Ok(data);
                }
                SourceAnswer::Bad => avoid |= source.bit,
                SourceAnswer::Again => {
                    let pause = self.env().sleep(RETRY);
                    self.wait(pause, deadline).await?;
                }
            }
        }
    }

    /// Which parts of `range` hold data, as the local component knows it. Where there is no local
    /// component to ask, everything counts as data. The list may end before `range` does.
    pub(crate) async fn extents(
        self: &Rc<Self>,
        range: SectorRange,
    ) -> Result<Vec<(SectorRange, bool)>, ObjectError> {
        if range.is_empty() || range.end() > self.sectors {
            return Err(ObjectError::Io);
        }
        let deadline = self.now() + self.options().lease_wait;
        let mut found = Vec::new();
        for piece in range.split_at_multiples(CHUNK_SECTORS) {
            if found.len() >= self.options().limits.list_entries / 2 {
                base::hit(base::Probe::StatusCut);
                break; // may end early
            }
            self.env().spend_steps(1).await; // up to a thousand chunks
            let _guard = self.lock.lock(piece, LockMode::Shared).await; // rule 10
            self.check_serving()?;
            let local = self.source(0).filter(|source| source.shard == self.context.me.shard);
            let group =
                local.as_ref().and_then(|source| self.context.disks.holding(source.component));
            match (local, group) {
                (Some(source), Some(group)) => {
                    let parts = group.extents(source.component, piece);
                    if !self.confirm(&source, deadline).await? {
                        return Err(ObjectError::NotOwner); // an answer like a read's (rule 12)
                    }
                    found.extend(parts);
                }
                _ => found.push((piece, true)),
            }
        }
        Ok(found)
    }

    async fn wait<T>(
        &self,
        event: impl Future<Output = T>,
        deadline: base::Instant,
    ) -> Result<(), ObjectError> {
        match env::select(event, self.env().sleep_until(deadline)).await {
            env::Either::First(_) => Ok(()),
            env::Either::Second(()) => Err(ObjectError::Inaccessible),
        }
    }

    /// Asks `source` for `range` and looks at the answer.
    pub(crate) async fn ask(
        self: &Rc<Self>,
        source: &ReadSource,
        range: SectorRange,
    ) -> SourceAnswer {
        let (component, session) = (source.component, source.session);
        let context = &self.context;
        let is_here = source.shard == context.me.shard;
        let request = Request::Read { target: source.target, range };
        let answer = context.ask(source.shard, request).await;
        match answer {
            // The group compared what it read with the checksums a moment ago: looking again is for
            // what came over a network.
            Ok(Response::Data { crcs, payload })
                if is_here || wire::verify(range, &crcs, &payload) =>
            {
                SourceAnswer::Data(ReadData { payload, crcs })
            }
            Ok(Response::Data { .. }) => SourceAnswer::Bad,
            Ok(Response::Failed { reason: Failure::BadCrc { .. } }) => SourceAnswer::Bad,
            Ok(Response::Failed { reason: Failure::Device | Failure::Io }) => SourceAnswer::Bad,
            Ok(Response::Refused { reason: Refusal::HigherTerm(term) }) if term > self.term => {
                self.step_down("a replica refuses this term"); // rules 8, 20
                SourceAnswer::Again
            }
            Err(PeerError::Overloaded) => SourceAnswer::Again,
            Ok(Response::Refused { .. }) | Err(_) => {
                self.break_leg(component, session, "a read failed");
                SourceAnswer::Again
            }
            Ok(_) => SourceAnswer::Again,
        }
    }

    /// Rule 12, after the data arrived and before the answer: still the owner at this term, the
    /// source still active, every remote active component covered by a grant. Waits for a grant
    /// that is late, and then looks again. False: the source no longer counts, read again.
    async fn confirm(
        self: &Rc<Self>,
        source: &ReadSource,
        deadline: base::Instant,
    ) -> Result<bool, ObjectError> {
        self.env().linger(Quirk::ReadLingers).await;
        let mut has_waited = false;
        loop {
            let (changed, granted) = (self.changed.wait(), self.context.leases.changed().wait());
            if has_waited && self.phase() == Phase::Stopped {
                base::hit(base::Probe::ReadOutlivedOwner);
            }
            self.check_serving()?;
            let any = self.options().mutations.joining_serves();
            if !any && !self.state.borrow().is_readable(source.component) {
                base::hit(base::Probe::ReadLapsed);
                return Ok(false);
            }
            if self.options().mutations.no_lease_check() || self.is_covered() {
                return Ok(true);
            }
            base::hit(base::Probe::ReadWaitedForGrant);
            has_waited = true;
            let _waiting = WaitingRead::begin(self);
            let event = env::select(changed, granted);
            if let Err(error) = self.wait(event, deadline).await {
                base::hit(base::Probe::ReadRefusedForGrant);
                return Err(error);
            }
        }
    }
}

/// Counts a read that waits for a grant. The keeper of a leg looks at the count: while there are
/// any, a host that is gone is not left alone (rule 18).
struct WaitingRead<'a>(&'a Owner);

impl<'a> WaitingRead<'a> {
    fn begin(owner: &'a Owner) -> Self {
        owner.reads_waiting.set(owner.reads_waiting.get() + 1);
        Self(owner)
    }
}

impl Drop for WaitingRead<'_> {
    fn drop(&mut self) {
        self.0.reads_waiting.set(self.0.reads_waiting.get() - 1);
    }
}
