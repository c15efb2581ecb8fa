// SPDX-License-Identifier: Apache-2.0
//! The way of one session's frames to their component: called directly where it is on this host,
//! over a link where it is on another one.
//!
//! Frames take effect in the order of [`Road::send`], whichever way they go. Their answers come to
//! one queue for all of the session, so that a frame costs no task.

use crate::context::Context;
use crate::replica::Replicas;
use base::{Lsn, ShardId};
use peer::{AnswerQueue, Call, Class, PeerError, PeerId, Reply, Sequence};
use std::rc::Rc;
use wire::{Request, Response};

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Road {
    to: RoadEnd,
    answers: Rc<AnswerQueue>,
}

#[derive(Clone)]
enum RoadEnd {
    Here(Rc<Replicas>, PeerId),
    There(Sequence),
}

impl Road {
    /// The way to the components of `host`, for one session.
    pub(crate) fn new(context: &Context, shard: ShardId) -> Self {
        let to = match shard == context.me.shard {
            true => RoadEnd::Here(Rc::clone(&context.replicas), context.me),
            false => RoadEnd::There(context.peers.sequence(shard)),
        };
        Self { to, answers: AnswerQueue::new() }
    }

    /// Sends the frame `lsn`. Its answer comes out of [`Road::answer`].
    pub(crate) fn send(&self, class: Class, lsn: Lsn, request: Request) {
        match &self.to {
            RoadEnd::Here(replicas, me) => {
                if !self.answers.is_closed() {
                    replicas.handle(*me, request, Reply::queued(&self.answers, lsn.0));
                }
            }
            RoadEnd::There(sequence) => sequence.send(class, request, &self.answers, lsn.0),
        }
    }

    /// The next answer to a frame, and its lsn; `None` once the session is over.
    pub(crate) async fn answer(&self) -> Option<(Lsn, Result<Response, PeerError>)> {
        let (lsn, answer) = self.answers.next().await?;
        Some((Lsn(lsn), answer))
    }

    /// Asks behind all frames that were sent so far.
    pub(crate) fn call(&self, class: Class, request: Request) -> Call {
        match &self.to {
            RoadEnd::Here(replicas, me) => {
                let (reply, call) = Reply::pair();
                replicas.handle(*me, request, reply);
                call
            }
            RoadEnd::There(sequence) => sequence.call(class, request),
        }
    }

    /// The session is over: what was not sent so far never is, and no answer is taken in any more.
    pub(crate) fn close(&self) {
        self.answers.close();
        if let RoadEnd::There(sequence) = &self.to {
            sequence.close();
        }
    }
}
