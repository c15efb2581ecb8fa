// SPDX-License-Identifier: Apache-2.0
//! What the clients of one volume wait for, and how long they waited: what [`crate::liveness`]
//! looks at. Times are the world's, because the clocks of hosts drift.

use base::{Instant, Map};
use sim::World;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;
use volume::VolumeError;

/// An operation that was answered faster, and without an error, is not kept.
const SLOW: Duration = Duration::from_secs(1);

/// One operation of one client.
#[derive(Clone, Debug)]
pub struct ClientWait {
    /// The index of the host with the client.
    pub host: usize,
    /// What was asked.
    pub what: &'static str,
    /// The name of the client.
    pub client: String,
    /// When it was asked.
    pub begun: Instant,
}

impl fmt::Display for ClientWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.what, self.client)
    }
}

/// An operation that took long or failed.
#[derive(Clone, Debug)]
pub struct WaitOver {
    /// The operation.
    pub wait: ClientWait,
    /// When its client had the answer.
    pub ended: Instant,
    /// The error that the client was told.
    pub error: Option<VolumeError>,
}

/// The operations under way at the clients of one volume, and those that ended since somebody
/// looked.
pub struct ClientWaits {
    world: World,
    last: Cell<u64>,
    open: RefCell<Map<u64, ClientWait>>,
    over: RefCell<Vec<WaitOver>>,
}

impl ClientWaits {
    /// Nobody waits for anything in this world so far.
    #[must_use]
    pub fn new(world: &World) -> Self {
        let (open, over) = (RefCell::default(), RefCell::default());
        Self { world: world.clone(), last: Cell::default(), open, over }
    }

    /// A client asks. If what it gets is dropped, its host has ended and nobody waits any more.
    pub fn begin(&self, host: usize, what: &'static str, client: &str) -> UnderWay<'_> {
        let number = self.last.get() + 1;
        self.last.set(number);
        let (client, begun) = (client.to_owned(), self.world.now());
        self.open.borrow_mut().insert(number, ClientWait { host, what, client, begun });
        UnderWay { waits: self, number }
    }

    /// Whether there is anything to look at: an operation that has waited for long, or one that
    /// took long or failed.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        let now = self.world.now();
        let is_long = |wait: &ClientWait| now.since(wait.begun) >= SLOW;
        // Numbers rise with time, so the first one has waited longest.
        !self.over.borrow().is_empty() || self.open.borrow().values().next().is_some_and(is_long)
    }

    /// The operations under way.
    #[must_use]
    pub fn open(&self) -> Vec<ClientWait> {
        self.open.borrow().values().cloned().collect()
    }

    /// The operations that took long or failed since this was asked last.
    pub fn take_over(&self) -> Vec<WaitOver> {
        std::mem::take(&mut *self.over.borrow_mut())
    }
}

/// An operation under way.
pub struct UnderWay<'a> {
    waits: &'a ClientWaits,
    number: u64,
}

impl UnderWay<'_> {
    /// The client has its answer.
    pub fn end(self, error: Option<VolumeError>) {
        let Some(wait) = self.waits.open.borrow_mut().remove(&self.number) else { return };
        let ended = self.waits.world.now();
        if error.is_some() || ended.since(wait.begun) >= SLOW {
            self.waits.over.borrow_mut().push(WaitOver { wait, ended, error });
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.waits.open.borrow_mut().remove(&self.number);
    }
}
