// SPDX-License-Identifier: Apache-2.0
//! How requests are answered.

use crate::answers::AnswerQueue;
use crate::calls::{Call, Calls};
use crate::link::Inbound;
use crate::{PeerError, PeerId};
use std::rc::Rc;
use wire::{Refusal, Request, Response};

/// What answers requests, those of other hosts and those of the own one.
pub trait Handler {
    /// Takes a request. Requests of one host come in the order that [`crate::Peers::call`]
    /// promises. A call to the own host comes here at once, before `call` returns. So a handler
    /// holds no borrow while it calls.
    ///
    /// What must happen in order happens before this returns. The answer may be sent at any time.
    fn handle(&self, from: PeerId, request: Request, reply: Reply);
}

/// A handler for the time before the real one is there. It refuses every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotReady;

impl Handler for NotReady {
    fn handle(&self, _from: PeerId, _request: Request, reply: Reply) {
        reply.send(Response::Refused { reason: Refusal::NotReady });
    }
}

/// The right and the duty to answer one request once. If it is dropped without an answer, a caller
/// on another host waits until the link ends, and that is counted; a caller on this host gets
/// [`PeerError::Reset`].
#[must_use = "every request is answered"]
pub struct Reply(Option<To>);

enum To {
    Here { calls: Rc<Calls>, id: u64 },
    Queue { queue: Rc<AnswerQueue>, number: u64 },
    There { inbound: Rc<Inbound>, id: u64, bytes: u64 },
}

impl Reply {
    pub(crate) fn here(calls: &Rc<Calls>, id: u64) -> Self {
        Self(Some(To::Here { calls: Rc::clone(calls), id }))
    }

    /// The reply to a request of another host. The request takes `bytes` of what may be under way
    /// on its link until it is answered.
    pub(crate) fn there(inbound: &Rc<Inbound>, id: u64, bytes: u64) -> Self {
        Self(Some(To::There { inbound: Rc::clone(inbound), id, bytes }))
    }

    /// A reply and the call that it answers, without any link. For whoever hands a request to a
    /// handler directly.
    pub fn pair() -> (Self, Call) {
        let calls = Rc::new(Calls::default());
        let Some(id) = calls.open(None) else { unreachable!("an empty table has room") };
        (Self::here(&calls, id), Call::under(calls, id))
    }

    /// A reply that goes into `queue`, under `number`. For whoever hands many requests to a handler
    /// directly.
    pub fn queued(queue: &Rc<AnswerQueue>, number: u64) -> Self {
        Self(Some(To::Queue { queue: Rc::clone(queue), number }))
    }

    /// Sends the answer. Nothing happens where the asker is gone.
    pub fn send(mut self, response: Response) {
        match self.0.take() {
            Some(To::Here { calls, id }) => drop(calls.finish(id, Ok(response))),
            Some(To::Queue { queue, number }) => queue.push(number, Ok(response)),
            Some(To::There { inbound, id, bytes }) => inbound.answer(id, bytes, response),
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        match self.0.take() {
            Some(To::Here { calls, id }) => drop(calls.finish(id, Err(PeerError::Reset))),
            Some(To::Queue { queue, number }) => queue.push(number, Err(PeerError::Reset)),
            Some(To::There { inbound, bytes, .. }) => inbound.forget(bytes),
            None => {}
        }
    }
}
