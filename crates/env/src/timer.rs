// SPDX-License-Identifier: Apache-2.0
//! Waiting for a point in time.

use crate::executor::Env;
use crate::join::{Either, select};
use base::{Instant, Quirk};
use std::future::Future;
use std::pin::Pin;
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
