// SPDX-License-Identifier: Apache-2.0
//! Space that is kept for components that exist.

use super::Objects;
use crate::status::ObjectError;
use base::{ComponentId, ShardId};
use wire::{RESERVE_LIMIT, Request, Response};

impl Objects {
    /// Chunks that could be kept for a component, those that it has included; `None` where its host
    /// is of a version that does not say.
    ///
    /// # Errors
    /// [`ObjectError::Inaccessible`]: it does not answer in time, or has no such component now.
    pub async fn reserve_limit(
        &self,
        shard: ShardId,
        component: ComponentId,
    ) -> Result<Option<u32>, ObjectError> {
        let ask = Request::ReserveSpace { component, chunks: RESERVE_LIMIT };
        match self.0.0.ask_replica_for(shard, ask).await {
            Ok(Response::Durable { free_chunks, .. }) => Ok(Some(free_chunks)),
            Ok(_) | Err(ObjectError::Full) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps so many chunks for a component, those that it has included; 0 ends it. Durable on
    /// return, and done already where it is so.
    ///
    /// # Errors
    /// [`ObjectError::Full`]: they are not there, nothing changed; [`ObjectError::Inaccessible`],
    /// [`ObjectError::Io`]: it may have happened.
    pub async fn reserve(
        &self,
        shard: ShardId,
        component: ComponentId,
        chunks: u32,
    ) -> Result<(), ObjectError> {
        self.0.0.ask_replica(shard, Request::ReserveSpace { component, chunks }).await
    }
}
