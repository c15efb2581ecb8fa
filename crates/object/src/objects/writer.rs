// SPDX-License-Identifier: Apache-2.0
//! One writing host at a time: how the epoch comes into the records of objects (rules 55 and 56).

use super::acquire::Wish;
use super::{Objects, Route};
use crate::owner::{Cas, ChangeError, Phase, compare_and_swap};
use crate::record;
use crate::status::ObjectError;
use base::{ObjectId, WriterEpoch};
use directory::{ObjectRecord, object_key};
use env::channel::oneshot;
use std::rc::Rc;

impl Objects {
    /// Whether a take-over is to be told as done too early, for campaigns.
    #[must_use]
    pub fn tells_before_done(&self) -> bool {
        self.0.0.context.options.mutations.told_before_done()
    }

    /// Whether the new writer is to write too early, for campaigns.
    #[must_use]
    pub fn writes_before_done(&self) -> bool {
        self.0.0.context.options.mutations.write_before_done()
    }

    /// Takes an object over whose owner is gone, so that its record gets the epoch (rule 56). Does
    /// nothing where the owner lives. Whether it came to serve here is asked of the record.
    pub async fn take_over(&self, id: ObjectId) {
        let inner = &self.0.0;
        let settled = {
            let mut slots = inner.slots.borrow_mut();
            slots.entry(id).or_default().settled.wait()
        };
        inner.start_acquiring(id, Wish::Adopt);
        settled.await;
    }

    /// Has an object's record say that no write of an epoch before this one takes effect on it any
    /// more (rule 55). For an object that is served here, or that nobody ever owned.
    ///
    /// # Errors
    /// [`ObjectError::NotOwner`]: its owner is to do so. [`ObjectError::Inaccessible`]: not now;
    /// where it is served here, it admits no writes until this is asked again.
    /// [`ObjectError::Deleted`].
    pub async fn bring_in(&self, id: ObjectId, epoch: WriterEpoch) -> Result<(), ObjectError> {
        let inner = &self.0.0;
        if let Route::Local(owner) = inner.route(id)
            && owner.phase() == Phase::Serving
        {
            // It goes on where the caller does not wait: a change that is under way must end.
            let (done, answer) = oneshot();
            let of = Rc::clone(&owner);
            owner.spawn("bring in", async move { done.send(of.bring_in(epoch).await) });
            return match answer.recv().await.unwrap_or(Err(ChangeError::Stopped)) {
                Ok(()) | Err(ChangeError::Nothing) => Ok(()),
                Err(ChangeError::Stopped) => Err(ObjectError::NotOwner),
                Err(ChangeError::Unavailable) => Err(ObjectError::Inaccessible),
            };
        }
        let found = inner.context.directory.get(&object_key(id)).await;
        let entry = found.map_err(|_| ObjectError::Inaccessible)?.ok_or(ObjectError::Deleted)?;
        let before = ObjectRecord::decode(&entry.value).map_err(|_| ObjectError::Inaccessible)?;
        let Some(next) = record::bring_in(&before, epoch) else { return Ok(()) };
        if before.owner.is_some() || before.is_doubted {
            return Err(ObjectError::NotOwner);
        }
        match compare_and_swap(&inner.context, id, entry.revision, &next, &[]).await {
            Cas::Won(_) => Ok(()),
            // Somebody claimed it, or brought it in.
            Cas::Lost => Err(ObjectError::NotOwner),
            Cas::NotSent => Err(ObjectError::Inaccessible),
        }
    }
}
