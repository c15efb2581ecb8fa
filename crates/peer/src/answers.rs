// SPDX-License-Identifier: Apache-2.0
//! Answers to requests of which many are under way: one queue, which one task takes in.
//!
//! A [`crate::Call`] needs a task that waits for it. Frames of a session come by the ten thousand
//! in a second, so their answers come here instead, each with the number that its asker gave it.

use crate::PeerError;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use wire::Response;

/// How a request ended.
pub(crate) type CallOutcome = Result<Response, PeerError>;

/// See the module. It holds at most one answer for each request that was asked with it, so whoever
/// bounds these bounds the queue.
#[derive(Default)]
pub struct AnswerQueue(RefCell<QueuedAnswers>);

#[derive(Default)]
struct QueuedAnswers {
    answers: VecDeque<(u64, CallOutcome)>,
    reader: Option<Waker>,
    is_closed: bool,
}

impl AnswerQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// The request with this number was answered. Nothing happens in a queue that is closed.
    pub(crate) fn push(&self, number: u64, answer: CallOutcome) {
        let reader = {
            let mut queue = self.0.borrow_mut();
            if queue.is_closed {
                return;
            }
            queue.answers.push_back((number, answer));
            queue.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The oldest answer and the number of its request; `None` once the queue is closed. One task
    /// at a time may wait here.
    ///
    /// # Errors
    /// What is in the queue as an error is handed out like every other answer.
    pub async fn next(&self) -> Option<(u64, Result<Response, PeerError>)> {
        poll_fn(|cx| {
            let mut queue = self.0.borrow_mut();
            match (queue.is_closed, queue.answers.pop_front()) {
                (true, _) => Poll::Ready(None),
                (false, Some(answer)) => Poll::Ready(Some(answer)),
                (false, None) => {
                    queue.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Nobody wants the answers any more: those that are there are dropped, and so are later ones.
    pub fn close(&self) {
        let (answers, reader) = {
            let mut queue = self.0.borrow_mut();
            queue.is_closed = true;
            (std::mem::take(&mut queue.answers), queue.reader.take())
        };
        drop(answers);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Whether [`AnswerQueue::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.borrow().is_closed
    }
}
