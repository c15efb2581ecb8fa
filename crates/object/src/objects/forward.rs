// SPDX-License-Identifier: Apache-2.0
//! I/O to an owner on another host (rules 43, 44).

use super::{ObjectsInner, Route};
use crate::status::{ObjectError, ReadData};
use base::{ObjectId, SectorRange, Term};
use peer::PeerError;
use std::rc::Rc;
use wire::{Failure, Request, Response};

impl ObjectsInner {
    pub(super) async fn forward_read(
        self: &Rc<Self>,
        id: ObjectId,
        to: directory::OwnerRecord,
        term: Term,
        range: SectorRange,
    ) -> Result<ReadData, ObjectError> {
        let request = Request::ClientRead { object: id, term, range };
        match self.context.peers.call(to.shard, request).await {
            Ok(Response::Data { crcs, payload }) => {
                // A mismatch arose on the way: the owner has a good copy, ask again.
                let is_good = wire::verify(range, &crcs, &payload);
                is_good.then_some(ReadData { payload, crcs }).ok_or(ObjectError::Inaccessible)
            }
            other => Err(self.failed(id, to, other)),
        }
    }

    pub(super) async fn forward_write(
        self: &Rc<Self>,
        id: ObjectId,
        to: directory::OwnerRecord,
        request: Request,
    ) -> Result<(), ObjectError> {
        match self.context.peers.call(to.shard, request).await {
            Ok(Response::Done) => Ok(()),
            other => Err(self.failed(id, to, other)),
        }
    }

    pub(super) async fn forward_extents(
        self: &Rc<Self>,
        id: ObjectId,
        to: directory::OwnerRecord,
        term: Term,
        range: SectorRange,
    ) -> Result<Vec<(SectorRange, bool)>, ObjectError> {
        let request = Request::ClientExtents { object: id, term, range };
        match self.context.peers.call(to.shard, request).await {
            Ok(Response::Extents { ranges }) => Ok(ranges),
            other => Err(self.failed(id, to, other)),
        }
    }

    /// What the caller learns; where the owner moved or the link broke, the way is unknown again.
    fn failed(
        &self,
        id: ObjectId,
        to: directory::OwnerRecord,
        answer: Result<Response, PeerError>,
    ) -> ObjectError {
        match answer {
            Ok(Response::Failed { reason }) => match reason {
                Failure::Full => ObjectError::Full,
                Failure::Busy | Failure::Inaccessible => ObjectError::Inaccessible,
                Failure::Device | Failure::BadCrc { .. } | Failure::Io => ObjectError::Io,
                Failure::NotWriter => ObjectError::NotWriter,
            },
            Err(PeerError::Overloaded) => ObjectError::Inaccessible,
            _ => {
                let mut slots = self.slots.borrow_mut();
                if let Some(slot) = slots.get_mut(&id)
                    && matches!(slot.route, Route::Remote(owner, _) if owner == to)
                {
                    slot.route = Route::Unknown;
                }
                ObjectError::NotOwner
            }
        }
    }
}
