// SPDX-License-Identifier: Apache-2.0
//! Listeners: each gets the events of the [`Feed`] as server-sent events. Shards are asked only
//! while there is one.

use crate::feed::{Feed, Start};
use crate::problem::Problem;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use operator::StatusReport;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// The header with the last event that a listener has.
pub const LAST_EVENT: &str = "last-event-id";
/// Most listeners at once.
pub const LISTENERS_MAX: usize = 64;
/// How often shards are asked.
const EVERY: Duration = Duration::from_secs(1);
/// How often a listener hears something where nothing happens: what stands between must not take
/// the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// All listeners.
pub struct Listeners {
    feed: Mutex<Feed>,
    /// Whether the feed is ready, and its newest event: changes wake listeners.
    newest: watch::Sender<(bool, u64)>,
    /// There is a listener.
    came: Notify,
    places: Arc<Semaphore>,
}

/// One of them.
struct Listener {
    all: Arc<Listeners>,
    changes: watch::Receiver<(bool, u64)>,
    /// The id that it came with.
    last: Option<String>,
    /// The event that it gets next; none before it was told where it begins.
    next: Option<u64>,
    _place: OwnedSemaphorePermit,
}

impl Listeners {
    /// Nobody listens. `run` tells this run of the program from others.
    pub fn new(run: u64) -> Self {
        Self {
            feed: Mutex::new(Feed::new(run)),
            newest: watch::Sender::new((false, 0)),
            came: Notify::new(),
            places: Arc::new(Semaphore::new(LISTENERS_MAX)),
        }
    }

    fn feed(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what is, by `look`, as long as somebody listens.
    pub async fn watch(&self, look: impl Fn() -> Option<StatusReport> + Clone + Send + 'static) {
        loop {
            while self.newest.receiver_count() == 0 {
                self.came.notified().await;
            }
            let Ok(report) = tokio::task::spawn_blocking(look.clone()).await else { continue };
            let state = {
                let mut feed = self.feed();
                feed.take(report.as_ref());
                (feed.is_ready(), feed.newest())
            };
            self.newest.send_if_modified(|known| std::mem::replace(known, state) != state);
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The answer to one that wants to listen and has all events up to `last`.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub fn listen(self: &Arc<Self>, last: Option<String>) -> Result<Response, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let _place = place.map_err(|_| Problem::busy(LISTENERS_MAX))?;
        let (all, changes) = (Arc::clone(self), self.newest.subscribe());
        self.came.notify_one();
        let listener = Listener { all, changes, last, next: None, _place };
        let events = unfold(listener, async |mut listener| {
            let event = listener.event().await?;
            Some((Ok::<_, Infallible>(event), listener))
        });
        Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
    }
}

impl Listener {
    /// What it is told next. `None`: the program ends.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.event_now() {
                return Some(event);
            }
            self.changes.changed().await.ok()?;
        }
    }

    fn event_now(&mut self) -> Option<Event> {
        let all = Arc::clone(&self.all);
        let feed = all.feed();
        let Some(next) = self.next else {
            if !feed.is_ready() {
                return None;
            }
            let (name, next) = match feed.start(self.last.as_deref()) {
                Start::At(next) => ("ready", next),
                Start::Reset(next) => ("reset", next),
            };
            return Some(self.begin(&feed, name, next));
        };
        match feed.event(next) {
            Ok(event) => {
                let event = event?;
                self.next = Some(next + 1);
                let id = feed.id(event.number);
                Some(Event::default().event("change").id(id).data(event.data.to_string()))
            }
            Err(newest) => Some(self.begin(&feed, "reset", newest)),
        }
    }

    /// Says where it begins.
    fn begin(&mut self, feed: &Feed, name: &str, next: u64) -> Event {
        self.next = Some(next);
        Event::default().event(name).id(feed.id(next - 1)).data("{}")
    }
}
