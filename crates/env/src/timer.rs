// SPDX-License-Identifier: Apache-2.0
//! Waiting for a point in time, for the first of two futures, and for all of several.

use crate::executor::Env;
use base::{Instant, Quirk};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;

/// A future was not done within its time-out, and was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("timed out")]
pub struct Elapsed;

impl Env {
    /// Waits until `at`.
    #[must_use]
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep { env: self.clone(), at, key: None }
    }

    /// Waits for `duration` from now.
    #[must_use]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Pauses if the simulation says so ([`Quirk`]), for at most a second and mostly much less. It
    /// stands where a crash or another task might come in between. In the real world it does
    /// nothing.
    pub async fn linger(&self, quirk: Quirk) {
        if self.quirk(quirk) {
            let most_us = [50, 1000, 20_000, 200_000, 1_000_000][(self.random() % 5) as usize];
            self.sleep(Duration::from_micros(self.random() % most_us)).await;
        }
    }

    /// Waits for `future`, but no longer than `duration`.
    ///
    /// # Errors
    /// [`Elapsed`] if time is up. The future is then dropped.
    pub async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        match select(future, self.sleep(duration)).await {
            Either::First(value) => Ok(value),
            Either::Second(()) => Err(Elapsed),
        }
    }
}

/// A future that resolves at a point in time.
pub struct Sleep {
    env: Env,
    at: Instant,
    key: Option<(Instant, u64)>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(key) = self.key.take() {
            self.env.timer_remove(key);
        }
        if self.env.now() >= self.at {
            return Poll::Ready(());
        }
        self.key = Some(self.env.timer_add(self.at, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.env.timer_remove(key);
        }
    }
}

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
