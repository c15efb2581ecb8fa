// SPDX-License-Identifier: Apache-2.0
//! Becoming the owner, or finding who is.

use super::{ObjectSlot, ObjectsInner, Route};
use crate::history::is_made_anew;
use crate::owner::{Owner, Phase};
use crate::status::ObjectError;
use crate::takeover::{Failed, Used, bring_up, check_history, claim};
use base::{ObjectId, Term, Version};
use directory::ObjectRecord;
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Response};

/// First pause between two attempts.
const RETRY: Duration = Duration::from_millis(50);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Attempts of one run that may begin again at once because something changed.
const ROUNDS_MAX: usize = 8;
/// How long the owner elsewhere may take to hand over or to open.
pub(super) const REMOTE_WAIT: Duration = Duration::from_secs(8);

/// Whether a living owner elsewhere is asked to hand over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// A client here wants to use the object.
    Use,
    /// Only take over if the owner is dead.
    Adopt,
}

impl ObjectSlot {
    fn used(&self) -> Used {
        Used { term: self.used, version: self.used_at }
    }

    /// The version of the record as last seen.
    fn known(&self) -> Version {
        self.record.as_ref().map_or(Version(0), |(record, _)| record.version)
    }
}

impl ObjectsInner {
    /// See [`super::Objects::acquire`]. An attempt under way goes on when the future is dropped.
    pub(super) async fn acquire(self: &Rc<Self>, id: ObjectId) -> Result<(), ObjectError> {
        let deadline = self.env().now() + self.context.options.acquire_wait;
        let mut pause = RETRY;
        loop {
            match self.route(id) {
                Route::Local(owner) if owner.phase() == Phase::Serving => return Ok(()),
                Route::Remote(..) => return Ok(()),
                Route::Local(_) | Route::Unknown => {}
            }
            let (settled, news) = {
                let mut slots = self.slots.borrow_mut();
                let slot = slots.entry(id).or_default();
                (slot.settled.wait(), slot.news.wait())
            };
            self.start_acquiring(id, Wish::Use);
            let until = self.env().sleep_until(deadline);
            if let env::Either::Second(()) = env::select(settled, until).await {
                return Err(ObjectError::Inaccessible);
            }
            let outcome = self.slots.borrow().get(&id).and_then(|slot| slot.outcome);
            match outcome {
                None => continue,
                Some(ObjectError::Deleted) => return Err(ObjectError::Deleted),
                Some(_) => {}
            }
            if self.env().now() >= deadline {
                return Err(ObjectError::Inaccessible);
            }
            // Not at once even with news: a record that changes without end is no reason to spin.
            self.env().sleep(RETRY).await;
            env::select(news, self.env().sleep(pause.saturating_sub(RETRY))).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// One attempt at a time per object; a second request joins the first.
    pub(super) fn start_acquiring(self: &Rc<Self>, id: ObjectId, wish: Wish) {
        let settled = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.entry(id).or_default();
            if slot.is_acquiring {
                return;
            }
            slot.is_acquiring = true;
            slot.settled.clone()
        };
        let inner = Rc::clone(self);
        self.spawn("acquire", async move {
            let outcome = inner.attempt(id, wish).await;
            {
                let mut slots = inner.slots.borrow_mut();
                if let Some(slot) = slots.get_mut(&id) {
                    slot.is_acquiring = false;
                    slot.outcome = outcome.err();
                    slot.gone_since = None;
                    slot.settled.notify();
                }
            }
            // Who waited on a slot that was deleted meanwhile learns of it too.
            settled.notify();
        });
    }

    /// Rule 25: nobody may serve what the directory has forgotten. This host makes no more claims,
    /// nor does any other once the record says so. `known` is the version of the record when the
    /// attempt began: one that was made anew meanwhile ends the halt at once.
    fn halt(&self, id: ObjectId, known: Version) -> ObjectError {
        tracing::error!(
            object = %id,
            "the directory holds an older record than the replicas have seen, as after the \
             restore of a backup: the object is not served until its record is made anew of what \
             they say ('gabion orphan adopt')"
        );
        let mut slots = self.slots.borrow_mut();
        let slot = slots.entry(id).or_default();
        slot.halted_at = Some(known).filter(|known| !is_made_anew(*known, slot.known()));
        ObjectError::Inaccessible
    }

    async fn attempt(self: &Rc<Self>, id: ObjectId, wish: Wish) -> Result<(), ObjectError> {
        if self.slots.borrow().get(&id).is_some_and(|slot| slot.halted_at.is_some()) {
            return Err(ObjectError::Inaccessible);
        }
        self.slots.borrow_mut().entry(id).or_default().is_wanted = true;
        for _ in 0..ROUNDS_MAX {
            if let Some(owner) = self.local_owner(id) {
                match owner.phase() {
                    Phase::Serving => return Ok(()),
                    // A hand-over that is under way ends in one way or the other.
                    _ => {
                        let changed = owner.changed.wait();
                        env::select(changed, self.env().sleep(RETRY_MAX)).await;
                        continue;
                    }
                }
            }
            let (used, known) = {
                let slots = self.slots.borrow();
                let slot = slots.get(&id);
                (
                    slot.map_or_else(Used::default, ObjectSlot::used),
                    slot.map_or(Version(0), ObjectSlot::known),
                )
            };
            match claim(&self.context, id, used).await {
                Ok((record, revision)) => match self.rise(id, record, revision).await {
                    Ok(()) => return Ok(()),
                    Err(Failed::Again(_)) => {
                        base::hit(base::Probe::TakeOverAgain);
                        self.env().sleep(RETRY).await;
                    }
                    Err(Failed::Outranked(seen)) => {
                        match check_history(&self.context, id, seen).await {
                            Err(Failed::RolledBack) => return Err(self.halt(id, known)),
                            _ => self.env().sleep(RETRY).await,
                        }
                    }
                    Err(Failed::RolledBack) => return Err(self.halt(id, known)),
                    Err(other) => return Err(error_of(other)),
                },
                Err(Failed::Again(_)) => self.env().sleep(RETRY).await,
                Err(Failed::RolledBack) => return Err(self.halt(id, known)),
                Err(Failed::Alive(owner, term)) if wish == Wish::Use => {
                    match self.approach(id, owner, term).await {
                        Some(result) => return result,
                        None => continue,
                    }
                }
                Err(Failed::Unavailable) if wish == Wish::Use => return self.by_memory(id).await,
                Err(other) => return Err(error_of(other)),
            }
        }
        Err(ObjectError::Inaccessible)
    }

    /// From a claimed record to a serving owner. It is known here from the start, so that the
    /// Fence of a still newer one stops it (rule 52c).
    async fn rise(
        self: &Rc<Self>,
        id: ObjectId,
        record: ObjectRecord,
        revision: u64,
    ) -> Result<(), Failed> {
        let (owner, prefer) = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.entry(id).or_default();
            // The answer to the claim came after the news of a later one. To that one's owner this
            // host may have consented already (rule 52b), and must not answer now.
            let newest = slot.record.as_ref().map_or(Term(0), |(newest, _)| newest.term);
            if newest > record.term {
                base::hit(base::Probe::ClaimOvertaken);
                return Err(Failed::Outranked(newest));
            }
            assert!(record.term > slot.used, "a term is used twice");
            let owner = Owner::new(&self.context, record.clone(), revision);
            (slot.used, slot.used_at) = (record.term, record.version);
            slot.route = Route::Local(Rc::clone(&owner));
            slot.record = Some((record, revision));
            owner.state.borrow_mut().full = slot.full.take();
            (owner, slot.prefer.take())
        };
        let result = match bring_up(&owner, prefer).await {
            // Its own claim may be what the directory has forgotten, and what stands there now be
            // well: only a record that says so keeps this host from looking again.
            Err(Failed::RolledBack) if !owner.doubt().await => Err(Failed::Again(None)),
            result => result,
        };
        if let Err(failed) = result {
            let wanted = if let Failed::Again(component) = failed { component } else { None };
            owner.step_down("the take-over did not succeed");
            let mut slots = self.slots.borrow_mut();
            if let Some(slot) = slots.get_mut(&id) {
                slot.prefer = wanted;
                slot.route = Route::Unknown;
            }
        }
        result
    }

    /// A living owner elsewhere: it hands over (`None`: look again), or becomes the way to go.
    async fn approach(
        self: &Rc<Self>,
        id: ObjectId,
        owner: directory::OwnerRecord,
        term: Term,
    ) -> Option<Result<(), ObjectError>> {
        let me = self.context.me;
        if owner.shard == me.shard {
            return Some(Err(ObjectError::Inaccessible)); // a newer run of my own host
        }
        let to = wire::OwnerId { shard: me.shard, incarnation: me.incarnation };
        let call = self.context.peers.call(owner.shard, Request::HandOver { object: id, to });
        match self.env().timeout(REMOTE_WAIT, call).await {
            Ok(Ok(Response::Done)) => None,
            Ok(Ok(_)) => Some(self.open_remote(id, owner, term).await),
            Ok(Err(_)) | Err(_) => Some(Err(ObjectError::Inaccessible)),
        }
    }

    /// Rules 44, 45: requests that this host sent before are answered or gone when it opens. Those
    /// of an earlier run that the owner knows are told apart from those of this one (rule 46).
    async fn open_remote(
        self: &Rc<Self>,
        id: ObjectId,
        owner: directory::OwnerRecord,
        term: Term,
    ) -> Result<(), ObjectError> {
        let volume = {
            let slots = self.slots.borrow();
            let record = slots.get(&id).and_then(|slot| slot.record.as_ref());
            record.map_or(base::VolumeId(0), |(record, _)| record.volume)
        };
        let request = Request::ClientOpen { volume, object: id, term };
        let call = self.context.peers.call(owner.shard, request);
        let last = match self.env().timeout(REMOTE_WAIT, call).await {
            Ok(Ok(Response::Done)) => None,
            Ok(Ok(Response::Opened { last })) if last.client == self.context.me.shard => Some(last),
            _ => return Err(ObjectError::Inaccessible),
        };
        if let Some(last) = last
            && !self.context.options.mutations.number_as_before()
        {
            self.requests(id).learn(last);
        }
        self.slots.borrow_mut().entry(id).or_default().route = Route::Remote(owner, term);
        Ok(())
    }

    /// Without a directory nothing changes hands, but a living owner can still be used (rule 52).
    async fn by_memory(self: &Rc<Self>, id: ObjectId) -> Result<(), ObjectError> {
        let known = {
            let slots = self.slots.borrow();
            let record = slots.get(&id).and_then(|slot| slot.record.as_ref());
            record.and_then(|(record, _)| Some((record.owner?, record.term)))
        };
        match known {
            Some((owner, term)) if owner.shard != self.context.me.shard => {
                self.open_remote(id, owner, term).await
            }
            _ => Err(ObjectError::Inaccessible),
        }
    }
}

fn error_of(failed: Failed) -> ObjectError {
    match failed {
        Failed::Deleted => ObjectError::Deleted,
        Failed::Alive(..)
        | Failed::Unavailable
        | Failed::Inaccessible
        | Failed::Again(_)
        | Failed::Outranked(_)
        | Failed::RolledBack => ObjectError::Inaccessible,
    }
}
