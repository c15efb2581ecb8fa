// SPDX-License-Identifier: Apache-2.0
//! A deposed owner that lives says so to the components (rule 52b: "or the old one consented").
//!
//! Grants are per pair of hosts, and a living host goes on renewing its grants for its other
//! objects. Another host may take one object over without its help, because its lease key was gone
//! for a moment. Without consent that new owner would wait for ever for the grants to run out.
//!
//! The old owner learns from the record that it was deposed. It has stopped answering before it
//! says anything to the components.

use super::{ObjectSlot, ObjectsInner, Route};
use base::{ComponentId, ObjectId, Session, ShardId, Term, Version};
use directory::ObjectRecord;
use std::rc::Rc;
use std::time::Duration;
use wire::{Refusal, Request, Response, Target};

/// Between two attempts while a component's host does not answer.
const RETRY: Duration = Duration::from_millis(300);
/// Between two attempts while its disk group is out of service: that may be for days.
const CLOSED_RETRY: Duration = Duration::from_secs(2);

const STILL_ANSWERS: &str = "consent of an owner that still answers";

impl ObjectSlot {
    /// Whether nobody here answers as the owner in a term before `term`.
    fn may_consent(&self, term: Term) -> bool {
        let serves = matches!(&self.route, Route::Local(owner) if !owner.is_stopped());
        !serves || self.used >= term
    }
}

impl ObjectsInner {
    /// Called for each newer record: tells the components of an object that this run may have
    /// owned, once per term, whose they are now. "May have": a change of hands whose answer was
    /// lost, or that another host made at this one's wish, is known to the components and perhaps
    /// not here.
    pub(super) fn consent_if_deposed(self: &Rc<Self>, record: &ObjectRecord) {
        let me = self.context.me_as_owner();
        let must_tell = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.entry(record.id).or_default();
            slot.is_wanted |= record.owner == Some(me);
            let is_given = record.owner.is_some_and(|owner| owner != me);
            assert!(!is_given || slot.may_consent(record.term), "{STILL_ANSWERS}");
            let must_tell = is_given && slot.is_wanted && record.term > slot.consented;
            if must_tell {
                slot.consented = record.term;
            }
            must_tell && record.term > slot.used
        };
        if !must_tell || self.context.options.mutations.never_consent() {
            return;
        }
        base::hit(base::Probe::DeposedConsented);
        for component in record.components.iter().filter(|c| c.shard != me.shard) {
            let (inner, object, component) = (Rc::clone(self), record.id, component.id);
            let is_new = {
                let mut slots = self.slots.borrow_mut();
                slots.entry(object).or_default().consenting.insert(component)
            };
            // Whoever is at it already says what is newest.
            if is_new {
                self.spawn("consent", async move {
                    inner.consent(object, component).await;
                    if let Some(slot) = inner.slots.borrow_mut().get_mut(&object) {
                        slot.consenting.remove(&component);
                    }
                });
            }
        }
    }

    /// Until the component's host has answered in the newest term: while it could not be reached
    /// the object may have gone from hand to hand, and only who is in its books can let go.
    async fn consent(&self, object: ObjectId, component: ComponentId) {
        while let Some((shard, request, term)) = self.consent_now(object, component) {
            let answer = self.context.peers.call(shard, request).await;
            // Only what its next run would know as well.
            let (is_heard, pause) = match answer {
                // The component comes back as it was, with this host in its books.
                Ok(Response::Refused { reason: Refusal::GroupClosed }) => (false, CLOSED_RETRY),
                Err(_)
                | Ok(Response::Failed { .. } | Response::Refused { reason: Refusal::NotReady }) => {
                    (false, RETRY)
                }
                Ok(_) => (true, RETRY),
            };
            if is_heard && self.newest(object).is_none_or(|record| record.term == term) {
                return;
            }
            self.env().sleep(pause).await;
        }
    }

    /// What to say now; nothing where the object is this host's again or the component is gone.
    fn consent_now(
        &self,
        object: ObjectId,
        component: ComponentId,
    ) -> Option<(ShardId, Request, Term)> {
        let record = {
            let slots = self.slots.borrow();
            let slot = slots.get(&object)?;
            let (record, _) = slot.record.as_ref()?;
            if record.owner != Some(self.context.me_as_owner()) {
                assert!(slot.may_consent(record.term), "{STILL_ANSWERS}");
            }
            record.clone()
        };
        let to = record.owner.filter(|owner| *owner != self.context.me_as_owner())?;
        let owner = wire::OwnerId { shard: to.shard, incarnation: to.incarnation };
        let of = record.components.iter().find(|c| c.id == component)?;
        let (term, seat) = (record.term, of.seat);
        // The session is below every one that the new owner uses.
        let target = Target { object, component, term, seat, session: Session(0) };
        // No version: the owner's own record may be an earlier one of the same term, and must not
        // look like one that the directory has forgotten (rule 25).
        let version = Version(0);
        let claims = crate::record::claims(&record);
        let request = Request::Fence { target, version, owner, create: None, claims };
        Some((of.shard, request, term))
    }

    fn newest(&self, id: ObjectId) -> Option<ObjectRecord> {
        let slots = self.slots.borrow();
        slots.get(&id).and_then(|slot| slot.record.as_ref()).map(|(record, _)| record.clone())
    }
}
