// SPDX-License-Identifier: Apache-2.0
//! Objects that nobody serves any more are taken over without being asked for, so that their
//! redundancy is restored and the next client finds an owner.

use super::acquire::Wish;
use super::{Inner, Route, Slot};
use base::{HostId, Instant, ObjectId};
use directory::{ComponentState, ObjectRecord};
use std::rc::Weak;
use std::time::Duration;

/// How often the objects are looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn run(inner: Weak<Inner>) {
    loop {
        let env = {
            let Some(this) = inner.upgrade() else { return };
            let due = this.due();
            for id in due {
                // Bounded: hundreds of objects of a lost host come one after the other.
                if this.adoptions.in_use() >= super::RESYNCS_MAX {
                    break;
                }
                let this2 = std::rc::Rc::clone(&this);
                this.spawn("adopt", async move {
                    let _turn = this2.adoptions.acquire(1).await;
                    let settled = {
                        let slots = this2.slots.borrow();
                        let Some(slot) = slots.get(&id) else { return };
                        slot.settled.wait()
                    };
                    this2.start_acquiring(id, Wish::Adopt);
                    settled.await;
                });
            }
            this.env().clone()
        };
        env.sleep(LOOK).await;
    }
}

impl Inner {
    /// Objects whose owner has been gone for long enough that it is this host's turn.
    fn due(&self) -> Vec<ObjectId> {
        let now = self.env().now();
        let ids: Vec<ObjectId> = self.slots.borrow().keys().copied().collect();
        ids.into_iter().filter(|id| self.is_due(*id, now)).collect()
    }

    fn is_due(&self, id: ObjectId, now: Instant) -> bool {
        // Asked first: it forgets a local owner that is over.
        if !matches!(self.route(id), Route::Unknown) {
            return false;
        }
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&id) else { return false };
        let Some(pause) = self.pause(slot) else {
            slot.gone_since = None;
            return false;
        };
        let since = *slot.gone_since.get_or_insert(now);
        !slot.is_acquiring && !slot.is_halted && now.since(since) >= pause
    }

    /// How long this host waits before it adopts the object; `None`: its owner lives, or this host
    /// is not the one to do it.
    fn pause(&self, slot: &Slot) -> Option<Duration> {
        let (record, _) = slot.record.as_ref()?;
        let owner = record.owner?;
        let me = self.context.me;
        if owner.host == me.host {
            // My earlier run, or a term of my own that ended without a successor.
            return (owner.incarnation <= me.incarnation).then_some(Duration::ZERO);
        }
        if self.context.alive.borrow().get(&owner.host) == Some(&owner.incarnation) {
            return None;
        }
        let place = place_of(record, me.host)?;
        Some(self.context.options.adopt_after + LOOK * place)
    }
}

/// This host's place among those with an active component: the first tries first.
fn place_of(record: &ObjectRecord, host: HostId) -> Option<u32> {
    let active = record.components.iter().filter(|c| c.state == ComponentState::Active);
    let place = active.map(|component| component.host).position(|at| at == host)?;
    u32::try_from(place).ok()
}
