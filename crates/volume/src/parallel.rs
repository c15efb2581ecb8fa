// SPDX-License-Identifier: Apache-2.0
//! The pieces of one request, several at a time.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Most pieces of one request that are under way. They are 16 MiB at most; more would fill no link
/// better.
const PARALLEL_MAX: usize = 16;

enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

/// Runs the futures, [`PARALLEL_MAX`] at a time, and hands their results to `take` in order. After
/// an error no further future is started. Those that run are waited for, because a write that
/// nobody waits for may still take effect.
///
/// # Errors
/// The first error in order.
pub(crate) async fn in_parallel<T, E, F: Future<Output = Result<T, E>>>(
    mut futures: impl Iterator<Item = F>,
    mut take: impl FnMut(T),
) -> Result<(), E> {
    let mut slots: VecDeque<Slot<F>> = VecDeque::new();
    let mut failed = None;
    poll_fn(|cx| {
        loop {
            while failed.is_none() && slots.len() < PARALLEL_MAX {
                let Some(future) = futures.next() else { break };
                slots.push_back(Slot::Running(Box::pin(future)));
            }
            for slot in &mut slots {
                if let Slot::Running(future) = slot
                    && let Poll::Ready(result) = future.as_mut().poll(cx)
                {
                    *slot = Slot::Done(result);
                }
            }
            let mut has_moved = false;
            while let Some(Slot::Done(_)) = slots.front() {
                let Some(Slot::Done(result)) = slots.pop_front() else { break };
                has_moved = true;
                match result {
                    Ok(value) => take(value),
                    Err(error) => failed = failed.take().or(Some(error)),
                }
            }
            if slots.is_empty() && !has_moved {
                return Poll::Ready(());
            }
            if !has_moved {
                return Poll::Pending;
            }
        }
    })
    .await;
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::{Context, Waker};

    /// A future that is ready at its `polls`-th poll.
    async fn after<T>(polls: usize, running: &Cell<usize>, value: T) -> T {
        let mut left = polls;
        running.set(running.get() + 1);
        poll_fn(|_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        running.set(running.get() - 1);
        value
    }

    #[test]
    fn results_come_in_order_and_bounded_and_errors_wait_for_the_rest() {
        for fails_at in [None, Some(20)] {
            let (running, started) = (Cell::new(0), Cell::new(0));
            let mut taken = Vec::new();
            let futures = (0..100usize).map(|number| {
                started.set(started.get() + 1);
                let value = if Some(number) == fails_at { Err(number) } else { Ok(number) };
                after(1 + number * 7 % 5, &running, value)
            });
            let mut all = Box::pin(in_parallel(futures, |number| taken.push(number)));
            let mut cx = Context::from_waker(Waker::noop());
            let result = loop {
                assert!(running.get() <= PARALLEL_MAX);
                if let Poll::Ready(result) = all.as_mut().poll(&mut cx) {
                    break result;
                }
            };
            drop(all);
            assert_eq!(running.get(), 0);
            match fails_at {
                None => assert_eq!((result, taken), (Ok(()), (0..100).collect())),
                Some(number) => {
                    assert_eq!(result, Err(number));
                    assert!(started.get() < 100);
                }
            }
        }
    }
}
