// SPDX-License-Identifier: Apache-2.0
//! Requests of other hosts (and of this one): to the replicas, or to the owner that lives here.

use super::{Forwarded, ObjectsInner, Route};
use crate::handover::{consents, hand_over};
use crate::owner::{Owner, Phase};
use crate::status::ObjectError;
use base::{ObjectId, ShardId, Term};
use peer::{Handler, PeerId, Reply};
use std::rc::{Rc, Weak};
use wire::{Failure, Refusal, Request, Response};

/// The handler that the peer links know; it does not keep the objects alive.
pub(super) struct Door(Weak<ObjectsInner>);

impl Door {
    pub(super) fn new(inner: &Rc<ObjectsInner>) -> Self {
        Self(Rc::downgrade(inner))
    }
}

impl Handler for Door {
    fn handle(&self, from: PeerId, request: Request, reply: Reply) {
        match self.0.upgrade() {
            Some(inner) => inner.handle(from, request, reply),
            None => reply.send(Response::Refused { reason: Refusal::NotReady }),
        }
    }
}

impl ObjectsInner {
    fn handle(self: &Rc<Self>, from: PeerId, request: Request, reply: Reply) {
        let me = self.context.me.shard;
        match request {
            Request::Fence { target, version, owner: to, create, ref claims } => {
                // Rule 52c: a Fence that reaches the old owner's own host stops it in this step.
                // The other components may know at once, or the new owner waits for grants that
                // this host goes on renewing for its other objects.
                if let Some(owner) = self.local_owner(target.object)
                    && target.term > owner.term
                {
                    let consents = consents(&owner, version, target.term, to, claims);
                    owner.step_down("a newer owner fences");
                    for (shard, request) in consents.into_iter().filter(|(shard, _)| *shard != me) {
                        let call = self.context.peers.call(shard, request);
                        self.spawn("consent", async move { drop(call.await) });
                    }
                }
                if create.is_some() && self.is_stray(&target) {
                    base::hit(base::Probe::StrayFence);
                    return reply.send(Response::Refused { reason: Refusal::NotReady });
                }
                self.replicas.handle(from, request, reply);
            }
            Request::HandOver { object, to } => self.asked_to_hand_over(from, object, to, reply),
            Request::ClientOpen { object, term, .. } => self.client_open(from, object, term, reply),
            Request::ClientRead { object, term, range } => {
                self.client(from, object, term, reply, async move |owner: Rc<Owner>| {
                    let data = owner.read(range).await?;
                    Ok(Response::Data { crcs: data.crcs, payload: data.payload })
                });
            }
            Request::ClientWrite { object, term, id, epoch, range, kind, crcs, payload } => {
                self.client(from, object, term, reply, async move |owner: Rc<Owner>| {
                    owner.write((epoch, |_: &_| id), range, kind, crcs, payload).await?;
                    Ok(Response::Done)
                });
            }
            Request::ClientExtents { object, term, range } => {
                self.client(from, object, term, reply, async move |owner: Rc<Owner>| {
                    let ranges = owner.extents(range).await?;
                    Ok(Response::Extents { ranges })
                });
            }
            Request::Repair { object, term, component, range } => {
                self.asked_to_repair(from, (object, term), component, range, reply);
            }
            Request::Members { object, term, change } => {
                self.asked_to_change_members((object, term), change, reply);
            }
            other => self.replicas.handle(from, other, reply),
        }
    }

    /// Whether a component is not here, and is to be made for a record that this host does not know
    /// or that does not list it. The Fence may have been long on its way, and the object deleted
    /// meanwhile: nobody would ever ask for what is made for it.
    fn is_stray(&self, target: &wire::Target) -> bool {
        let slots = self.slots.borrow();
        let record = slots.get(&target.object).and_then(|slot| slot.record.as_ref());
        let is_listed = |(record, _): &(directory::ObjectRecord, u64)| {
            record.components.iter().any(|listed| listed.id == target.component)
        };
        self.context.disks.holding(target.component).is_none() && !record.is_some_and(is_listed)
    }

    /// The owner that serves `object` here at `term` (rule 43).
    pub(super) fn serving(&self, object: ObjectId, term: Term) -> Option<Rc<Owner>> {
        let owner = self.local_owner(object)?;
        if owner.term != term {
            base::hit(base::Probe::ClientOutdated);
        }
        let is_right = owner.term == term || self.context.options.mutations.no_client_term_check();
        (is_right && owner.phase() == Phase::Serving).then_some(owner)
    }

    /// "Not here", with what this host knows of where.
    pub(super) fn moved(&self, object: ObjectId) -> Response {
        let slots = self.slots.borrow();
        let record = slots.get(&object).and_then(|slot| slot.record.as_ref());
        let owner = record.and_then(|(record, _)| record.owner);
        let owner =
            owner.map(|owner| wire::OwnerId { shard: owner.shard, incarnation: owner.incarnation });
        let term = record.map_or(Term(0), |(record, _)| record.term);
        Response::Moved { owner, term }
    }

    fn forwarded(&self, object: ObjectId, shard: ShardId) -> Rc<Forwarded> {
        let mut slots = self.slots.borrow_mut();
        Rc::clone(slots.entry(object).or_default().forwarded.entry(shard).or_default())
    }

    /// One client request of another host, counted while it is under way.
    fn client<F>(self: &Rc<Self>, from: PeerId, object: ObjectId, term: Term, reply: Reply, run: F)
    where
        F: AsyncFnOnce(Rc<Owner>) -> Result<Response, ObjectError> + 'static,
    {
        let Some(owner) = self.serving(object, term) else {
            return reply.send(self.moved(object));
        };
        let forwarded = self.forwarded(object, from.shard);
        if forwarded.count.get() >= self.context.options.limits.forwarded {
            base::hit(base::Probe::ForwardedFull);
            return reply.send(Response::Failed { reason: Failure::Busy });
        }
        forwarded.count.set(forwarded.count.get() + 1);
        let inner = Rc::clone(self);
        self.spawn("client request", async move {
            let response = match run(owner).await {
                Ok(response) => response,
                Err(ObjectError::NotOwner | ObjectError::Deleted) => inner.moved(object),
                Err(ObjectError::Full) => Response::Failed { reason: Failure::Full },
                Err(ObjectError::Io) => Response::Failed { reason: Failure::Io },
                Err(ObjectError::NotWriter) => Response::Failed { reason: Failure::NotWriter },
                Err(ObjectError::Inaccessible) => {
                    Response::Failed { reason: Failure::Inaccessible }
                }
            };
            forwarded.count.set(forwarded.count.get() - 1);
            forwarded.fell.notify();
            reply.send(response);
        });
    }

    /// Rule 45: answered when no earlier request of that host is under way any more. What it is
    /// told of them is complete then (rule 46).
    fn client_open(self: &Rc<Self>, from: PeerId, object: ObjectId, term: Term, reply: Reply) {
        let Some(owner) = self.serving(object, term) else {
            return reply.send(self.moved(object));
        };
        let forwarded = self.forwarded(object, from.shard);
        let inner = Rc::clone(self);
        self.spawn("client open", async move {
            loop {
                let (fell, changed) = (forwarded.fell.wait(), owner.changed.wait());
                if owner.phase() != Phase::Serving {
                    return reply.send(inner.moved(object));
                }
                if forwarded.count.get() == 0 {
                    let last = owner.state.borrow().clients.last_of(from.shard);
                    let last = last.filter(|last| last.run >= from.incarnation);
                    return reply
                        .send(last.map_or(Response::Done, |last| Response::Opened { last }));
                }
                base::hit(base::Probe::ClientDrained);
                if owner.lock.is_any_wanted() {
                    base::hit(base::Probe::DrainedBesideRival);
                }
                env::select(fell, changed).await;
            }
        });
    }

    /// Rule 53: given away unless clients of this host use it.
    fn asked_to_hand_over(
        self: &Rc<Self>,
        from: PeerId,
        object: ObjectId,
        to: wire::OwnerId,
        reply: Reply,
    ) {
        let is_attached = {
            let slots = self.slots.borrow();
            slots.get(&object).is_none_or(|slot| slot.is_attached)
        };
        let owner = match self.route(object) {
            Route::Local(owner) if owner.phase() == Phase::Serving => owner,
            _ => return reply.send(self.moved(object)),
        };
        let is_sender = to.shard == from.shard && to.incarnation == from.incarnation;
        if is_attached || !is_sender {
            return reply.send(self.moved(object));
        }
        let inner = Rc::clone(self);
        self.spawn("hand over", async move {
            let to = directory::OwnerRecord { shard: to.shard, incarnation: to.incarnation };
            if hand_over(&owner, to).await {
                base::hit(base::Probe::HandedOver);
                reply.send(Response::Done);
            } else {
                reply.send(inner.moved(object));
            }
        });
    }
}
