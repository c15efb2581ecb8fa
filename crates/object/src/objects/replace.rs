// SPDX-License-Identifier: Apache-2.0
//! Who asks for other components: the object's owner is told, wherever it lives.

use super::{Objects, ObjectsInner, Route};
use crate::status::{ObjectError, ReplaceError};
use base::{ObjectId, Term};
use peer::Reply;
use std::rc::Rc;
use std::time::Duration;
use wire::{Failure, MemberChange, Refusal, Request, Response};

/// Longest wait for the record to say so: a component is made, and the directory is asked.
const REPLACE_WAIT: Duration = Duration::from_secs(20);
/// Attempts to find the owner: it may move meanwhile.
const ATTEMPTS_MAX: usize = 5;

impl Objects {
    /// Changes which components an object has, while it is in use. Returns when the record says so.
    /// Filling a new one goes on by itself, with whatever owner the object has then.
    ///
    /// # Errors
    /// [`ReplaceError`]. After [`ReplaceError::Object`] it may have happened all the same.
    pub async fn change_members(
        &self,
        object: ObjectId,
        change: MemberChange,
    ) -> Result<(), ReplaceError> {
        let inner = &self.0.0;
        let mut last = ReplaceError::unavailable();
        for _ in 0..ATTEMPTS_MAX {
            inner.acquire(object).await.map_err(ReplaceError::Object)?;
            match inner.change_members(object, change).await {
                Err(error @ ReplaceError::Object(ObjectError::NotOwner)) => last = error,
                done => return done,
            }
        }
        Err(last)
    }
}

impl ObjectsInner {
    async fn change_members(
        self: &Rc<Self>,
        object: ObjectId,
        change: MemberChange,
    ) -> Result<(), ReplaceError> {
        let (owner, term) = match self.route(object) {
            Route::Local(_) => return self.change_members_here(object, change).await,
            Route::Remote(owner, term) => (owner, term),
            Route::Unknown => return Err(ReplaceError::moved()),
        };
        let request = Request::Members { object, term, change };
        let asked = self.context.peers.call(owner.shard, request);
        match self.env().timeout(REPLACE_WAIT, asked).await {
            Ok(Ok(Response::Done)) => Ok(()),
            Ok(Ok(answer)) => Err(error_in(&answer)),
            Ok(Err(_)) | Err(_) => Err(ReplaceError::unavailable()),
        }
    }

    async fn change_members_here(
        self: &Rc<Self>,
        object: ObjectId,
        change: MemberChange,
    ) -> Result<(), ReplaceError> {
        let owner = self.local_owner(object).ok_or(ReplaceError::moved())?;
        let changed = owner.change_members(change);
        let done = self.env().timeout(REPLACE_WAIT, Box::pin(changed)).await;
        done.unwrap_or(Err(ReplaceError::unavailable()))
    }

    /// Another host asks for other components of an object that is owned here.
    pub(super) fn asked_to_change_members(
        self: &Rc<Self>,
        (object, term): (ObjectId, Term),
        change: MemberChange,
        reply: Reply,
    ) {
        if self.serving(object, term).is_none() {
            return reply.send(self.moved(object));
        }
        let inner = Rc::clone(self);
        self.spawn("change components for another host", async move {
            let done = inner.change_members_here(object, change).await;
            reply.send(match done {
                Ok(()) => Response::Done,
                Err(ReplaceError::Object(ObjectError::NotOwner)) => inner.moved(object),
                Err(error) => answer_to(error),
            });
        });
    }
}

/// How an owner says why not.
fn answer_to(error: ReplaceError) -> Response {
    let refused = |reason| Response::Refused { reason };
    let failed = |reason| Response::Failed { reason };
    match error {
        ReplaceError::Unknown => refused(Refusal::UnknownComponent),
        ReplaceError::SameHost => refused(Refusal::NotReady),
        ReplaceError::Busy => failed(Failure::Busy),
        ReplaceError::Full => failed(Failure::Full),
        ReplaceError::NotMade => failed(Failure::Device),
        ReplaceError::Object(_) => failed(Failure::Inaccessible),
    }
}

/// What such an answer says.
fn error_in(answer: &Response) -> ReplaceError {
    match answer {
        Response::Refused { reason: Refusal::UnknownComponent } => ReplaceError::Unknown,
        Response::Refused { .. } => ReplaceError::SameHost,
        Response::Failed { reason: Failure::Busy } => ReplaceError::Busy,
        Response::Failed { reason: Failure::Full } => ReplaceError::Full,
        Response::Failed { reason: Failure::Device } => ReplaceError::NotMade,
        Response::Moved { .. } => ReplaceError::moved(),
        _ => ReplaceError::unavailable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_owner_answers_is_understood() {
        let all = [
            ReplaceError::Unknown,
            ReplaceError::SameHost,
            ReplaceError::Busy,
            ReplaceError::Full,
            ReplaceError::NotMade,
            ReplaceError::unavailable(),
        ];
        for error in all {
            assert_eq!(error_in(&answer_to(error)), error);
        }
    }
}
