// SPDX-License-Identifier: Apache-2.0
//! What scrub finds on a component of this host: its owner is told, wherever it lives (rule 13).

use super::{Objects, ObjectsInner};
use crate::status::ObjectError;
use base::{ComponentId, ObjectId, SectorRange, Term};
use peer::{PeerId, Reply};
use std::rc::Rc;
use std::time::Duration;
use wire::{Failure, Request, Response};

/// Longest wait for one repair: the owner may wait for a lock, and for a component to be marked
/// absent.
const REPAIR_WAIT: Duration = Duration::from_secs(10);
/// Repairs for other hosts under way here; beyond it they are refused as busy. Each disk group of
/// a cluster asks for one at a time.
const REPAIRS_MAX: usize = 64;

impl Objects {
    /// Data of a component of this host is bad in `range`, which lies within one chunk: the owner
    /// writes it again from another active component. Returns when that is durable here. Dropping
    /// the future leaves a repair that has begun under way.
    ///
    /// # Errors
    /// [`ObjectError::Io`]: no active component has a good copy. Any other: not now, and nothing
    /// says that asking again does any harm.
    pub async fn repair(
        &self,
        object: ObjectId,
        component: ComponentId,
        range: SectorRange,
    ) -> Result<(), ObjectError> {
        let inner = &self.0.0;
        let repair = inner.repair(object, component, range);
        let done = inner.env().timeout(REPAIR_WAIT, Box::pin(repair)).await;
        done.unwrap_or(Err(ObjectError::Inaccessible))
    }
}

impl ObjectsInner {
    async fn repair(
        self: &Rc<Self>,
        object: ObjectId,
        component: ComponentId,
        range: SectorRange,
    ) -> Result<(), ObjectError> {
        let me = self.context.me.shard;
        if let Some(owner) = self.local_owner(object) {
            return owner.repair_component(me, component, range).await;
        }
        let known = {
            let slots = self.slots.borrow();
            let record = slots.get(&object).and_then(|slot| slot.record.as_ref());
            record.and_then(|(record, _)| Some((record.owner?, record.term)))
        };
        let known = known.filter(|(owner, _)| owner.shard != me);
        let (owner, term) = known.ok_or(ObjectError::NotOwner)?;
        let request = Request::Repair { object, term, component, range };
        match self.context.peers.call(owner.shard, request).await {
            Ok(Response::Done) => Ok(()),
            Ok(Response::Failed { reason: Failure::Io }) => Err(ObjectError::Io),
            Ok(Response::Moved { .. }) => Err(ObjectError::NotOwner),
            Ok(_) | Err(_) => Err(ObjectError::Inaccessible),
        }
    }

    /// A host found bad data on its component of an object that is owned here.
    pub(super) fn asked_to_repair(
        self: &Rc<Self>,
        from: PeerId,
        (object, term): (ObjectId, Term),
        component: ComponentId,
        range: SectorRange,
        reply: Reply,
    ) {
        let Some(owner) = self.serving(object, term) else {
            return reply.send(self.moved(object));
        };
        if self.repairs.get() >= REPAIRS_MAX {
            return reply.send(Response::Failed { reason: Failure::Busy });
        }
        self.repairs.set(self.repairs.get() + 1);
        let inner = Rc::clone(self);
        self.spawn("repair for another host", async move {
            let repaired = owner.repair_component(from.shard, component, range);
            let repaired = inner.env().timeout(REPAIR_WAIT, Box::pin(repaired)).await;
            inner.repairs.set(inner.repairs.get() - 1);
            reply.send(match repaired {
                Ok(Ok(())) => Response::Done,
                Ok(Err(ObjectError::Io)) => Response::Failed { reason: Failure::Io },
                Ok(Err(ObjectError::NotOwner)) => inner.moved(object),
                Ok(Err(_)) | Err(_) => Response::Failed { reason: Failure::Inaccessible },
            });
        });
    }
}
