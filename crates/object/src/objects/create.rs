// SPDX-License-Identifier: Apache-2.0
//! Making the components of a new object, and taking them back.

use super::{Objects, ObjectsInner, reserve_chunks};
use crate::status::ObjectError;
use base::{GroupId, ObjectId, ShardId};
use directory::{ComponentRecord, ObjectRecord};
use env::join_all;
use std::rc::Rc;
use wire::{Request, Response};

impl Objects {
    /// Makes the components of an object that is not in the directory yet, each with room for
    /// `reserve_percent` of it. The record as it is to be written: each host says which of its disk
    /// groups it chose.
    ///
    /// # Errors
    /// The hosts that could not, each with [`ObjectError::Full`], [`ObjectError::Io`] where a disk
    /// group or device of it fails or is out of service, or [`ObjectError::Inaccessible`] where it
    /// does not answer in time; others may have made theirs, see [`Objects::discard`].
    pub async fn create(
        &self,
        mut record: ObjectRecord,
        reserve_percent: u8,
    ) -> Result<ObjectRecord, Vec<(ShardId, ObjectError)>> {
        let inner = &self.0.0;
        let chunks = reserve_chunks(record.sectors, reserve_percent);
        let create = async |component: &ComponentRecord| {
            let (shard, id) = (component.shard, component.id);
            let made = inner.make(shard, record.id, component, record.sectors).await;
            let made = match made {
                Ok(group) if chunks > 0 => {
                    let reserve = Request::ReserveSpace { component: id, chunks };
                    inner.ask_replica(shard, reserve).await.map(|()| group)
                }
                made => made,
            };
            made.map_err(|error| (shard, error))
        };
        let creations = record.components.iter().map(|component| Box::pin(create(component)));
        let made = join_all(creations.collect()).await;
        let (mut groups, mut failed) = (Vec::new(), Vec::new());
        for made in made {
            match made {
                Ok(group) => groups.push(group),
                Err(failure) => failed.push(failure),
            }
        }
        if !failed.is_empty() {
            return Err(failed);
        }
        for (component, group) in record.components.iter_mut().zip(groups) {
            component.group = group;
        }
        Ok(record)
    }

    /// Takes back what [`Objects::create`] made of a record that never comes. False: not all of it.
    pub async fn discard(&self, record: &ObjectRecord) -> bool {
        let delete = |component: &ComponentRecord| {
            let request = Request::DeleteComponent { object: record.id, component: component.id };
            self.0.0.ask_replica(component.shard, request)
        };
        let deletions = record.components.iter().map(|component| Box::pin(delete(component)));
        join_all(deletions.collect()).await.iter().all(Result::is_ok)
    }
}

impl ObjectsInner {
    /// Has a component made; the disk group that it is on.
    async fn make(
        self: &Rc<Self>,
        shard: ShardId,
        object: ObjectId,
        component: &ComponentRecord,
        sectors: u64,
    ) -> Result<GroupId, ObjectError> {
        let request = Request::CreateComponent { object, component: component.id, sectors };
        match self.ask_replica_for(shard, request).await? {
            Response::Created { group } => Ok(group),
            other => {
                tracing::warn!(%object, %shard, ?other, "a component was made, and no word where");
                Ok(component.group)
            }
        }
    }
}
