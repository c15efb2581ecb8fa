// SPDX-License-Identifier: Apache-2.0
//! Who asks for a component to be replaced: its object's owner is told, wherever it lives.

use super::{Objects, ObjectsInner, Route};
use crate::status::{ObjectError, ReplaceError};
use base::{ComponentId, HostId, ObjectId, Term};
use peer::Reply;
use std::rc::Rc;
use std::time::Duration;
use wire::{Failure, Refusal, Request, Response};

/// Longest wait for the record to say so: a component is made, and the directory is asked.
const REPLACE_WAIT: Duration = Duration::from_secs(20);
/// Attempts to find the owner: it may move meanwhile.
const ATTEMPTS_MAX: usize = 5;

impl Objects {
    /// Has a new component on the host `to` take the place of `component`, while the object is in
    /// use; `None`: `component` stays, and what was to take its place goes. Returns when the record
    /// says so. Filling it goes on by itself, with whatever owner the object has then.
    ///
    /// # Errors
    /// [`ReplaceError`]. After [`ReplaceError::Object`] it may have happened all the same.
    pub async fn replace(
        &self,
        object: ObjectId,
        component: ComponentId,
        to: Option<HostId>,
    ) -> Result<(), ReplaceError> {
        let inner = &self.0.0;
        let mut last = ReplaceError::unavailable();
        for _ in 0..ATTEMPTS_MAX {
            inner.acquire(object).await.map_err(ReplaceError::Object)?;
            match inner.replace(object, component, to).await {
                Err(error @ ReplaceError::Object(ObjectError::NotOwner)) => last = error,
                done => return done,
            }
        }
        Err(last)
    }
}

impl ObjectsInner {
    async fn replace(
        self: &Rc<Self>,
        object: ObjectId,
        component: ComponentId,
        to: Option<HostId>,
    ) -> Result<(), ReplaceError> {
        let (owner, term) = match self.route(object) {
            Route::Local(_) => return self.replace_here(object, component, to).await,
            Route::Remote(owner, term) => (owner, term),
            Route::Unknown => return Err(ReplaceError::moved()),
        };
        let request = Request::Replace { object, term, component, to };
        let asked = self.context.peers.call(owner.host, request);
        match self.env().timeout(REPLACE_WAIT, asked).await {
            Ok(Ok(Response::Done)) => Ok(()),
            Ok(Ok(answer)) => Err(error_in(&answer)),
            Ok(Err(_)) | Err(_) => Err(ReplaceError::unavailable()),
        }
    }

    async fn replace_here(
        self: &Rc<Self>,
        object: ObjectId,
        component: ComponentId,
        to: Option<HostId>,
    ) -> Result<(), ReplaceError> {
        let owner = self.local_owner(object).ok_or(ReplaceError::moved())?;
        let replaced = owner.replace(component, to);
        let done = self.env().timeout(REPLACE_WAIT, Box::pin(replaced)).await;
        done.unwrap_or(Err(ReplaceError::unavailable()))
    }

    /// Another host asks for a component of an object that is owned here.
    pub(super) fn asked_to_replace(
        self: &Rc<Self>,
        (object, term): (ObjectId, Term),
        component: ComponentId,
        to: Option<HostId>,
        reply: Reply,
    ) {
        if self.serving(object, term).is_none() {
            return reply.send(self.moved(object));
        }
        let inner = Rc::clone(self);
        self.spawn("replace for another host", async move {
            let done = inner.replace_here(object, component, to).await;
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
