// SPDX-License-Identifier: Apache-2.0
//! An append: checked, put into the queue, awaited.

use crate::commit::direct::DirectWrite;
use crate::keys::chunk_key;
use crate::log::build::{CommitLimits, Part, is_fraction, to_usize};
use crate::log::queue::Deferred;
use crate::state::{DiskGroup, GroupInner};
use crate::types::{Append, AppendKind, GroupError};
use base::CHUNK_SECTORS;
use format::EntryKind;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::{Crcs, Marks};

impl DiskGroup {
    /// Appends one write. Its place in the order is fixed at this call; it resolves when it and all
    /// before it are durable. Waits for room, however long; the payload slice is held meanwhile, so
    /// the caller's own window bounds what waits. Dropping the future leaves the write under way.
    ///
    /// # Errors
    /// [`GroupError::Full`], [`GroupError::UnknownComponent`], [`GroupError::Range`] at once;
    /// [`GroupError::Fenced`] and [`GroupError::Closed`] at any time: the write may or may not be
    /// found after a restart.
    pub fn append(&self, append: Append<'_>) -> Appending {
        self.append_as(append, false)
    }

    /// As [`DiskGroup::append`]; a copy is for this component alone, what it brings has lower lsns
    /// elsewhere.
    ///
    /// # Errors
    /// As there.
    pub fn append_as(&self, append: Append<'_>, is_copy: bool) -> Appending {
        let inner = Rc::clone(self.shared());
        let ticket = inner.enqueue(append, is_copy);
        let ticket = ticket.map(|(ticket, direct)| {
            if let Some(write) = direct {
                super::direct::begin(&inner, write);
            }
            ticket
        });
        Appending { inner, ticket }
    }
}

/// An append under way; see [`DiskGroup::append`]. Appends of one component become durable in the
/// order of their calls, so whoever waits for many need only look at the oldest.
#[must_use = "it says whether the append is durable"]
pub struct Appending {
    inner: Rc<GroupInner>,
    ticket: Result<u64, GroupError>,
}

impl Future for Appending {
    type Output = Result<(), GroupError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = match &self.ticket {
            Ok(ticket) => *ticket,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let mut state = self.inner.state.borrow_mut();
        if state.log.poll_ticket(ticket, cx.waker()) {
            return Poll::Ready(Ok(()));
        }
        match (&state.fenced, state.is_closed) {
            (Some(_), _) => Poll::Ready(Err(GroupError::Fenced)),
            (None, true) => Poll::Ready(Err(GroupError::Closed)),
            (None, false) => Poll::Pending,
        }
    }
}

impl GroupInner {
    /// Checks an append and puts it into the queue; its ticket, and what goes to capacity first.
    fn enqueue(
        &self,
        append: Append<'_>,
        is_copy: bool,
    ) -> Result<(u64, Option<DirectWrite>), GroupError> {
        self.check_open()?;
        let id = append.component;
        let kind = match append.kind {
            AppendKind::Data => EntryKind::Data,
            AppendKind::Zero => EntryKind::Zero,
            AppendKind::Discard => EntryKind::Discard,
        };
        let is_data = kind == EntryKind::Data;
        let state = &mut *self.state.borrow_mut();
        let Some(component) = state.store.components.by_id(id) else {
            return Err(GroupError::UnknownComponent { component: id });
        };
        let (serial, device) = (component.row.serial, component.device);
        let is_sound = is_sound(&append, is_data, component.row.sectors, &state.log.limits);
        let Append { lsn, range, crcs, payload, marks, .. } = append;
        if !is_sound {
            return Err(GroupError::Range { range });
        }
        let key = chunk_key(serial, range.start / CHUNK_SECTORS);
        if is_data && !state.store.set_aside(key, device) {
            let free = state.store.capacity[device].available();
            return Err(GroupError::Full { free });
        }
        state.log.enqueue(key, crate::log::build::parts(range));
        let ticket = state.log.take_ticket(self.env.now());
        let bytes = if is_data { payload.len() } else { 0 };
        state.counters.appended_bytes += bytes as u64;
        state.counters.unaligned_writes += u64::from(is_fraction(range));
        let direct = match is_data && !self.is_hybrid {
            true => state.stage((key, device), range, &self.options.limits),
            false => None,
        };
        let must_wait = state.log.is_behind(serial) && !self.options.mutations.overtake_direct();
        if direct.is_some() || must_wait {
            let (crcs, marks) = (Crcs::new(crcs), Marks::new(marks));
            let append =
                Deferred { serial, kind, is_copy, range, lsn, crcs, payload, marks, ticket };
            return Ok((ticket, state.put_behind(&self.env, append, device, direct)));
        }
        let blocks = to_usize(range.blocks().end - range.blocks().start);
        let fits = state.takes(self.env.now(), bytes, blocks, marks.len());
        if fits && state.log.deferred.is_empty() {
            let payload = &payload;
            let is_moved = false;
            let part = Part { serial, kind, is_moved, is_copy, range, lsn, crcs, payload, marks };
            state.add_to_build(&self.env, &part, ticket);
        } else {
            base::hit(base::Probe::LogDeferred);
            state.log.deferred.push_back(Deferred {
                serial,
                kind,
                is_copy,
                range,
                lsn,
                crcs: Crcs::new(crcs),
                payload,
                marks: Marks::new(marks),
                ticket,
            });
        }
        if !state.log.is_writing {
            self.log_kick.notify();
        }
        Ok((ticket, None))
    }
}

/// Whether the group can take an append to a component of so many sectors.
fn is_sound(append: &Append<'_>, is_data: bool, sectors: u64, limits: &CommitLimits) -> bool {
    let Append { range, crcs, payload, marks, .. } = append;
    let blocks = range.blocks();
    !range.is_empty()
        && range.end() <= sectors
        && range.start % CHUNK_SECTORS + range.count <= CHUNK_SECTORS
        && (!is_data || payload.len() as u64 == range.bytes())
        && (!is_data || crcs.len() as u64 == blocks.end - blocks.start)
        && (!is_data || payload.len() <= limits.payload - 4096)
        && limits.takes(marks.len())
}
