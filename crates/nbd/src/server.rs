// SPDX-License-Identifier: Apache-2.0
//! The server: it listens, gives each caller a place in the crowd, and runs the connections.

use crate::admission::Gates;
use crate::crowd::{Crowd, Stage};
use crate::exports::Exports;
use crate::handshake::Handshake;
use crate::inbox::Inbox;
use crate::options::ServerOptions;
use crate::session::SessionEnd;
use base::Map;
use env::{Address, Caller, Env, IoError, Link, Listener, TaskSet};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections now, in handshake or serving.
    pub connections: usize,
    /// Connections dropped because what they sent was no NBD.
    pub malformed: u64,
    /// Callers closed because there were too many connections.
    pub refused: u64,
    /// Connections closed in a crowd because their clients kept the server waiting in the
    /// handshake.
    pub evicted: u64,
}

/// An NBD server over any exports. Cheap to clone.
pub struct NbdServer<E: Exports>(Rc<Inner<E>>);

impl<E: Exports> Clone for NbdServer<E> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

pub(crate) struct Inner<E: Exports> {
    pub(crate) env: Env,
    pub(crate) exports: E,
    pub(crate) options: ServerOptions,
    pub(crate) gates: Gates<E::Device>,
    crowd: RefCell<Crowd>,
    /// The link of each connection that has a place, by the number of the place.
    links: RefCell<Map<u64, Link>>,
    stats: Cell<ServerStats>,
}

impl<E: Exports> NbdServer<E> {
    /// A server that listens nowhere yet.
    pub fn new(env: &Env, exports: E, options: ServerOptions) -> Self {
        Self(Rc::new(Inner {
            env: env.clone(),
            exports,
            options,
            gates: Gates::default(),
            crowd: RefCell::default(),
            links: RefCell::default(),
            stats: Cell::default(),
        }))
    }

    /// Serves callers of `listener` until it is closed. Several listeners may be served at once.
    /// Dropping the future ends every connection that came through it. A write that the device was
    /// carrying out may still take effect.
    pub async fn serve(&self, listener: Listener) {
        let connections = TaskSet::default();
        let is_tcp = matches!(listener.address(), Address::Tcp(_));
        loop {
            let (link, caller) = match listener.accept_from().await {
                Ok(accepted) => accepted,
                Err(IoError::Closed) => return,
                Err(_) => {
                    self.0.env.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = Placed::new(&self.0, &link, caller) else { continue };
            connections.spawn(&self.0.env, "nbd connection", async move {
                place.server.connection(&link, is_tcp, place.id).await;
            });
        }
    }

    /// The counters as they are now.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.0.stats.get()
    }
}

/// The place of one connection in the crowd. It is given back when this is dropped, however the
/// connection ended.
struct Placed<E: Exports> {
    server: Rc<Inner<E>>,
    id: u64,
}

impl<E: Exports> Placed<E> {
    /// A place for a caller, if there is one. Connections that make room for it are closed.
    fn new(server: &Rc<Inner<E>>, link: &Link, caller: Caller) -> Option<Self> {
        let (entered, evicted) = server.crowd.borrow_mut().enter(caller, server.env.now());
        for id in evicted {
            server.count(|stats| stats.evicted += 1);
            if let Some(link) = server.links.borrow_mut().remove(&id) {
                link.close();
            }
        }
        let Some(id) = entered else {
            server.count(|stats| stats.refused += 1);
            return None;
        };
        server.links.borrow_mut().insert(id, link.clone());
        server.count(|stats| stats.connections += 1);
        Some(Self { server: Rc::clone(server), id })
    }
}

impl<E: Exports> Drop for Placed<E> {
    fn drop(&mut self) {
        self.server.crowd.borrow_mut().leave(self.id);
        self.server.links.borrow_mut().remove(&self.id);
        self.server.count(|stats| stats.connections -= 1);
    }
}

impl<E: Exports> Inner<E> {
    fn count(&self, change: impl FnOnce(&mut ServerStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Connection `id` is at `stage` from now on.
    pub(crate) fn is_at(&self, id: u64, stage: Stage) {
        self.crowd.borrow_mut().set(id, stage);
    }

    async fn connection(&self, link: &Link, is_tcp: bool, id: u64) {
        let mut inbox = Inbox::new(&self.env, link);
        let handshake = Handshake::new(self, (link, is_tcp, id), &mut inbox).run();
        let end = match self.env.timeout(self.options.handshake_timeout, handshake).await {
            Ok(Ok(admitted)) => {
                self.is_at(id, Stage::Open);
                admitted.session.serve(&mut inbox).await
            }
            Ok(Err(end)) => end,
            Err(_) => SessionEnd::Left,
        };
        if end == SessionEnd::Malformed {
            self.count(|stats| stats.malformed += 1);
        }
    }
}
