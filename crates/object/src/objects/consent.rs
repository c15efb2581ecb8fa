// SPDX-License-Identifier: Apache-2.0
//! A deposed owner that lives says so to the components (rule 52b: "or the old one consented").
//!
//! Grants are per pair of hosts, and a living host renews its grants for its other objects for
//! ever. So whoever succeeds it in one object without its help, because its lease key was gone for
//! a moment, would wait for ever for grants to run out. The record tells the old owner; it has
//! stopped answering before it says anything.

use super::{Inner, Route};
use base::{ObjectId, Session, Term};
use directory::ObjectRecord;
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Target};

/// Between two attempts while a component's host does not answer.
const RETRY: Duration = Duration::from_millis(300);

impl Inner {
    /// Called for each newer record: tells the components of an object that was this run's in a
    /// lower term whose they are now.
    pub(super) fn consent_if_deposed(self: &Rc<Self>, record: &ObjectRecord) {
        let me = self.context.me_as_owner();
        let Some(to) = record.owner.filter(|owner| *owner != me) else {
            let mut slots = self.slots.borrow_mut();
            slots.entry(record.id).or_default().was_mine |= record.owner == Some(me);
            return;
        };
        let must_tell = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.entry(record.id).or_default();
            let serves = matches!(&slot.route, Route::Local(owner) if !owner.is_stopped());
            assert!(!serves || slot.used >= record.term, "consent of an owner that still answers");
            let was_mine = std::mem::take(&mut slot.was_mine) || slot.used > slot.consented;
            slot.consented = slot.consented.max(slot.used);
            was_mine && record.term > slot.used
        };
        if !must_tell || self.context.options.mutations.never_consent {
            return;
        }
        base::hit(base::Probe::DeposedConsented);
        let owner = wire::Owner { host: to.host, incarnation: to.incarnation };
        for component in record.components.iter().filter(|c| c.host != me.host) {
            let target = Target {
                object: record.id,
                component: component.id,
                term: record.term,
                seat: component.seat,
                session: Session(0), // below every one that the new owner uses
            };
            let version = record.version;
            let request = Request::Fence { target, version, owner, create: None };
            let (inner, host) = (Rc::clone(self), component.host);
            self.spawn("consent", async move {
                while inner.newest_term(target.object) == target.term
                    && inner.context.peers.call(host, request.clone()).await.is_err()
                {
                    inner.env().sleep(RETRY).await;
                }
            });
        }
    }

    fn newest_term(&self, id: ObjectId) -> Term {
        let slots = self.slots.borrow();
        let record = slots.get(&id).and_then(|slot| slot.record.as_ref());
        record.map_or(Term(0), |(record, _)| record.term)
    }
}
