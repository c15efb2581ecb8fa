// SPDX-License-Identifier: Apache-2.0
//! Answering.

use crate::calls::{Call, Calls};
use crate::link::Inbound;
use crate::{PeerError, PeerId};
use std::rc::Rc;
use wire::{Refusal, Request, Response};

/// What answers requests, of other hosts and of the own one.
pub trait Handler {
    /// Takes a request. Called in the order in which the requests of one host were called, from
    /// whatever stack is running: a handler holds no borrow while it calls [`crate::Peers::call`],
    /// because a call to the own host comes back here at once, before `call` returns.
    ///
    /// What must happen in order happens before this returns; the answer may be sent at any time.
    fn handle(&self, from: PeerId, request: Request, reply: Reply);
}

/// A handler for the time before the real one is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotReady;

impl Handler for NotReady {
    fn handle(&self, _from: PeerId, _request: Request, reply: Reply) {
        reply.send(Response::Refused { reason: Refusal::NotReady });
    }
}

/// The right and the duty to answer one request once. Dropped without an answer it leaves a remote
/// caller waiting until the link ends (and is counted).
#[must_use = "every request is answered"]
pub struct Reply(Option<To>);

enum To {
    Here { calls: Rc<Calls>, id: u64 },
    There { inbound: Rc<Inbound>, id: u64, bytes: u64 },
}

impl Reply {
    pub(crate) fn here(calls: &Rc<Calls>, id: u64) -> Self {
        Self(Some(To::Here { calls: Rc::clone(calls), id }))
    }

    /// To a request that takes `bytes` of what its link may ask at a time.
    pub(crate) fn there(inbound: &Rc<Inbound>, id: u64, bytes: u64) -> Self {
        Self(Some(To::There { inbound: Rc::clone(inbound), id, bytes }))
    }

    /// A reply and the call that it answers, without any link: to hand a request to a handler by
    /// hand.
    pub fn pair() -> (Self, Call) {
        let calls = Rc::new(Calls::default());
        let Some(id) = calls.open() else { unreachable!("an empty table has room") };
        (Self::here(&calls, id), Call::under(calls, id))
    }

    /// Answers. Nothing happens where the asker is gone.
    pub fn send(mut self, response: Response) {
        match self.0.take() {
            Some(To::Here { calls, id }) => drop(calls.finish(id, Ok(response))),
            Some(To::There { inbound, id, bytes }) => inbound.answer(id, bytes, response),
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        match self.0.take() {
            Some(To::Here { calls, id }) => drop(calls.finish(id, Err(PeerError::Reset))),
            Some(To::There { inbound, bytes, .. }) => inbound.forget(bytes),
            None => {}
        }
    }
}
