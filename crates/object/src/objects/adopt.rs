// SPDX-License-Identifier: Apache-2.0
//! Objects that nobody serves any more are taken over without being asked for, so that their
//! redundancy is restored and the next client finds an owner. And those that clients here use
//! through an owner elsewhere come here once its own clients have left, as when a guest moved.

use super::acquire::Wish;
use super::{ObjectSlot, ObjectsInner, Route};
use base::{Instant, ObjectId, ShardId};
use directory::{ComponentState, ObjectRecord};
use std::rc::{Rc, Weak};
use std::time::Duration;
use wire::Request;

/// How often the objects are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// At every so many looks, owners elsewhere are asked to hand over.
const LOOKS_PER_ASKING: u32 = 4;

pub(super) async fn run(inner: Weak<ObjectsInner>) {
    for look in 0_u32.. {
        let env = {
            let Some(this) = inner.upgrade() else { return };
            if look % LOOKS_PER_ASKING == 0 {
                this.ask_for_used();
            }
            let due = this.due();
            for id in due {
                // Bounded: hundreds of objects of a lost host come one after the other.
                if this.adoptions.in_use() >= this.context.options.limits.resyncs {
                    break;
                }
                let this2 = Rc::clone(&this);
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

impl ObjectsInner {
    /// An owner with clients of its own refuses (rule 53); else the record's change tells the rest.
    pub(super) fn ask_for_used(self: &Rc<Self>) {
        if self.is_asking.get() {
            return;
        }
        let mut asked = Vec::new();
        for (id, slot) in self.slots.borrow().iter().filter(|(_, slot)| slot.is_attached) {
            if let Route::Remote(owner, _) = &slot.route {
                let to = wire::OwnerId {
                    shard: self.context.me.shard,
                    incarnation: self.context.me.incarnation,
                };
                asked.push((owner.shard, Request::HandOver { object: *id, to }));
            }
        }
        if asked.is_empty() || self.is_asking.replace(true) {
            return;
        }
        let this = Rc::clone(self);
        self.spawn("ask for what is used here", async move {
            for (shard, request) in asked {
                let call = this.context.peers.call(shard, request);
                drop(this.env().timeout(super::acquire::REMOTE_WAIT, call).await);
            }
            this.is_asking.set(false);
        });
    }

    /// Objects whose owner has been gone for long enough that it is this host's turn.
    fn due(&self) -> Vec<ObjectId> {
        let now = self.env().now();
        let ids: Vec<ObjectId> = {
            let slots = self.slots.borrow();
            let may_be_due = |slot: &ObjectSlot| self.may_be_due(slot);
            slots.iter().filter(|(_, slot)| may_be_due(slot)).map(|(id, _)| *id).collect()
        };
        ids.into_iter().filter(|id| self.is_due(*id, now)).collect()
    }

    /// Of thousands of objects all but a few have nothing to wait for. A local owner may be over,
    /// and is forgotten then.
    fn may_be_due(&self, slot: &ObjectSlot) -> bool {
        slot.gone_since.is_some()
            || matches!(slot.route, Route::Local(_))
            || self.pause(slot).is_some()
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
        !slot.is_acquiring && slot.halted_at.is_none() && now.since(since) >= pause
    }

    /// How long this host waits before it adopts the object; `None`: its owner lives, or this host
    /// is not the one to do it.
    fn pause(&self, slot: &ObjectSlot) -> Option<Duration> {
        let (record, _) = slot.record.as_ref()?;
        let me = self.context.me;
        let Some(owner) = record.owner else {
            // Never used: it waits for its first client. Made anew of what its components say: what
            // is not whole comes back under an owner only.
            let is_whole = record.components.iter().all(|c| c.state == ComponentState::Active);
            let place = place_of(record, me.shard).filter(|_| !is_whole && !record.is_doubted)?;
            return Some(self.context.options.adopt_after + LOOK * place);
        };
        if owner.shard == me.shard {
            // My earlier run, or a term of my own that ended without a successor.
            return (owner.incarnation <= me.incarnation).then_some(Duration::ZERO);
        }
        if self.context.alive.borrow().get(&owner.shard) == Some(&owner.incarnation) {
            return None;
        }
        let place = place_of(record, me.shard)?;
        Some(self.context.options.adopt_after + LOOK * place)
    }
}

/// This host's place among those with an active component: the first tries first.
fn place_of(record: &ObjectRecord, shard: ShardId) -> Option<u32> {
    let active = record.components.iter().filter(|c| c.state == ComponentState::Active);
    let place = active.map(|component| component.shard).position(|at| at == shard)?;
    u32::try_from(place).ok()
}
