// SPDX-License-Identifier: Apache-2.0
//! Making components, and keeping space for them.

use super::Replicas;
use super::appends::failure;
use base::{ComponentId, Lsn, ObjectId};
use diskgroup::{ComponentInfo, GroupError, Reserve};
use peer::Reply;
use std::cmp::Reverse;
use std::rc::Rc;
use wire::{Failure, RESERVE_LIMIT, Refusal, Response};

/// For whom a component is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// A new volume: refused by devices that are too full.
    New,
    /// A volume that had it here before.
    Again,
}

impl Replicas {
    /// Makes a component for an object that is being created.
    pub(super) fn create_new(
        self: &Rc<Self>,
        object: ObjectId,
        component: ComponentId,
        sectors: u64,
        reply: Reply,
    ) {
        let replicas = Rc::clone(self);
        self.tasks.spawn(&self.env, "create component", async move {
            let made = replicas.create(object, component, sectors, Admission::New).await;
            let holding = || replicas.disks.holding(component);
            reply.send(match made {
                Err(response) => response,
                Ok(_) => holding()
                    .map_or(failed(Failure::Io), |group| Response::Created { group: group.id() }),
            });
        });
    }

    /// Makes a component, or finds it: on the group with the most room that takes it.
    pub(super) async fn create(
        &self,
        object: ObjectId,
        component: ComponentId,
        sectors: u64,
        admission: Admission,
    ) -> Result<ComponentInfo, Response> {
        let replica = self.kept.of(component);
        let _turn = replica.turn.acquire(1).await;
        let known = self.disks.holding(component).and_then(|group| group.component(component));
        if let Some(info) = known {
            let is_same = info.object == object && info.sectors == sectors;
            let other = Response::Refused { reason: Refusal::UnknownComponent };
            return if is_same { Ok(info) } else { Err(other) };
        }
        if self.disks.is_any_closed() {
            return Err(Response::Failed { reason: Failure::Device });
        }
        let mut groups = self.disks.open();
        groups.sort_by_key(|group| Reverse(group.prospect()));
        let mut reason = Failure::Full;
        for group in groups {
            let made = match admission {
                Admission::New => group.admit_component(component, object, sectors).await,
                Admission::Again => group.create_component(component, object, sectors).await,
            };
            match made {
                Ok(()) => return group.component(component).ok_or(failed(Failure::Io)),
                Err(GroupError::Full { .. }) => {}
                Err(error) => {
                    reason = failure(&error);
                    break;
                }
            }
        }
        Err(failed(reason))
    }

    /// Keeps space for a component that is here, or says how much could be kept.
    pub(super) fn reserve(&self, component: ComponentId, chunks: u32, reply: Reply) {
        let Some(group) = self.disks.holding(component) else {
            return reply.send(Response::Refused { reason: Refusal::UnknownComponent });
        };
        if chunks == RESERVE_LIMIT {
            let free_chunks = group.reserve_limit(component).unwrap_or(0);
            return reply.send(Response::Durable { lsn: Lsn::ZERO, free_chunks });
        }
        self.tasks.spawn(&self.env, "reserve space", async move {
            reply.send(match group.reserve_space(component, chunks, Reserve::IfFree).await {
                Ok(()) => Response::Done,
                Err(error) => failed(failure(&error)),
            });
        });
    }
}

fn failed(reason: Failure) -> Response {
    Response::Failed { reason }
}
