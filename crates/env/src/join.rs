// SPDX-License-Identifier: Apache-2.0
//! Waiting for the first of two futures, and for all of several.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Which of two futures was done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first argument's result.
    First(A),
    /// The second argument's result.
    Second(B),
}

/// The result of the future that is done first, of `a` if both are. The other one is dropped.
pub async fn select<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::First(value));
        }
        if let Poll::Ready(value) = b.as_mut().poll(cx) {
            return Poll::Ready(Either::Second(value));
        }
        Poll::Pending
    })
    .await
}

/// Waits for both futures and returns both results.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

/// Waits for all futures and returns their results, in the order of the futures.
pub async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (slot, result) in running.iter_mut().zip(&mut results) {
            let Some(future) = slot else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => {
                    *result = Some(value);
                    *slot = None;
                }
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Runs the futures, `limit` of them at a time, and returns their results in the order of the
/// futures. Whenever one ends the next one begins, so nothing waits for the slowest of a batch.
/// The iterator makes each future only when that one begins.
///
/// # Errors
/// The first error. Behind it no further future begins, and those that were begun are waited for:
/// no I/O goes on behind the caller's back.
pub async fn try_join_at_most<F, T, E>(
    limit: usize,
    futures: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<T, E>>,
{
    assert!(limit > 0, "no future may run");
    let mut rest = futures.into_iter().fuse();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::with_capacity(limit);
    let mut results: Vec<Option<T>> = Vec::new();
    let mut failed = None;
    std::future::poll_fn(|cx| {
        running.retain_mut(|(at, future)| match future.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                keep(result, &mut results[*at], &mut failed);
                false
            }
        });
        while failed.is_none()
            && running.len() < limit
            && let Some(future) = rest.next()
        {
            let (at, mut future) = (results.len(), Box::pin(future));
            results.push(None);
            match future.as_mut().poll(cx) {
                Poll::Pending => running.push((at, future)),
                Poll::Ready(result) => keep(result, &mut results[at], &mut failed),
            }
        }
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    match failed {
        Some(error) => Err(error),
        None => Ok(results.into_iter().flatten().collect()),
    }
}

fn keep<T, E>(result: Result<T, E>, value: &mut Option<T>, failed: &mut Option<E>) {
    match result {
        Ok(result) => *value = Some(result),
        Err(error) => drop(failed.get_or_insert(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{OneReceiver, OneSender, oneshot};
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};
    use std::task::{Context, Waker};

    type Ended = Result<usize, usize>;

    /// Futures that end when the test says so.
    struct Stage {
        ends: RefCell<Vec<Option<OneSender<Ended>>>>,
        begun: Cell<usize>,
        ended: Cell<usize>,
    }

    impl Stage {
        async fn run(&self, answer: OneReceiver<Ended>) -> Ended {
            self.begun.set(self.begun.get() + 1);
            let result = answer.recv().await.expect("the test answers");
            self.ended.set(self.ended.get() + 1);
            result
        }
    }

    proptest! {
        #[test]
        fn as_many_run_as_may_and_none_is_left_behind(
            limit in 1..6_usize,
            count in 0..20_usize,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 20),
            fails_at in 0..40_usize,
        ) {
            let (ends, answers): (Vec<_>, Vec<_>) = (0..count).map(|_| oneshot()).unzip();
            let ends = RefCell::new(ends.into_iter().map(Some).collect());
            let stage = Stage { ends, begun: Cell::new(0), ended: Cell::new(0) };
            let futures = answers.into_iter().map(|answer| stage.run(answer));
            let mut all = pin!(try_join_at_most(limit, futures));
            let mut cx = Context::from_waker(Waker::noop());
            let mut failed = None;
            for pick in picks {
                let polled = all.as_mut().poll(&mut cx);
                let (begun, ended) = (stage.begun.get(), stage.ended.get());
                prop_assert!(begun - ended <= limit);
                if let Poll::Ready(result) = polled {
                    prop_assert_eq!(begun, ended, "something runs on behind the caller's back");
                    match failed {
                        Some(error) => prop_assert_eq!(result, Err(error)),
                        None => prop_assert_eq!(result, Ok((0..count).collect())),
                    }
                    return Ok(());
                }
                if failed.is_none() {
                    prop_assert_eq!(begun - ended, limit.min(count - ended), "a place is free");
                }
                let mut ends = stage.ends.borrow_mut();
                let open: Vec<usize> = (0..begun).filter(|at| ends[*at].is_some()).collect();
                let at = *pick.get(&open);
                let result = if at == fails_at { Err(at) } else { Ok(at) };
                if result.is_err() {
                    failed.get_or_insert(at);
                }
                ends[at].take().expect("open").send(result);
            }
            // Twenty answers end whatever there is.
            prop_assert!(all.as_mut().poll(&mut cx).is_ready());
        }
    }
}
