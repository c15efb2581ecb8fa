// SPDX-License-Identifier: Apache-2.0
//! Listening, and the order between connections of one export (rule 47).

use crate::exports::{Exports, OpenError};
use crate::handshake::Handshake;
use crate::inbox::{Inbox, Pulse};
use crate::options::{CONNECTIONS_MAX, ServerOptions};
use crate::request::Agreed;
use crate::session::{End, Session};
use base::Map;
use env::{Address, Env, IoError, Link, Listener, Semaphore, TaskSet, join_all};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use volume::Device;

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
}

/// An NBD server over any exports. Cheap to clone.
pub struct Server<E: Exports>(Rc<Inner<E>>);

impl<E: Exports> Clone for Server<E> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

pub(crate) struct Inner<E: Exports> {
    pub(crate) env: Env,
    pub(crate) exports: E,
    options: ServerOptions,
    /// Exports that have connections, or had.
    used: RefCell<Map<String, Rc<Used<E::Device>>>>,
    stats: Cell<ServerStats>,
}

/// The connections of one export.
struct Used<D> {
    /// Held while one connection drains the older ones.
    gate: Semaphore,
    sessions: RefCell<Vec<Weak<Session<D>>>>,
}

impl<E: Exports> Server<E> {
    /// A server that listens nowhere yet.
    pub fn new(env: &Env, exports: E, options: ServerOptions) -> Self {
        Self(Rc::new(Inner {
            env: env.clone(),
            exports,
            options,
            used: RefCell::default(),
            stats: Cell::default(),
        }))
    }

    /// Serves callers of `listener` until it is closed. Dropping the future ends every connection
    /// that came through it; requests that the device has begun go on. Several listeners may be
    /// served at once.
    pub async fn serve(&self, listener: Listener) {
        let connections = TaskSet::default();
        let is_tcp = matches!(listener.address(), Address::Tcp(_));
        loop {
            let link = match listener.accept().await {
                Ok(link) => link,
                Err(IoError::Closed) => return,
                Err(_) => {
                    self.0.env.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if self.stats().connections >= CONNECTIONS_MAX {
                self.0.count(|stats| stats.refused += 1);
                continue;
            }
            let counted = Counted::new(&self.0);
            connections.spawn(&self.0.env, "nbd connection", async move {
                counted.0.connection(&link, is_tcp).await;
            });
        }
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.0.stats.get()
    }
}

/// One connection in the counters, however it ends.
struct Counted<E: Exports>(Rc<Inner<E>>);

impl<E: Exports> Counted<E> {
    fn new(inner: &Rc<Inner<E>>) -> Self {
        inner.count(|stats| stats.connections += 1);
        Self(Rc::clone(inner))
    }
}

impl<E: Exports> Drop for Counted<E> {
    fn drop(&mut self) {
        self.0.count(|stats| stats.connections -= 1);
    }
}

impl<E: Exports> Inner<E> {
    fn count(&self, change: impl FnOnce(&mut ServerStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    async fn connection(&self, link: &Link, is_tcp: bool) {
        let mut inbox = Inbox::new(&self.env, link);
        let handshake = Handshake::new(self, (link, is_tcp), &mut inbox).run();
        let end = match self.env.timeout(self.options.handshake_timeout, handshake).await {
            Ok(Ok(session)) => {
                let end = session.serve(&mut inbox).await;
                drop(session);
                self.forget_ended();
                end
            }
            Ok(Err(end)) => end,
            Err(_) => End::Left,
        };
        if end == End::Malformed {
            self.count(|stats| stats.malformed += 1);
        }
    }

    /// Opens export `name` for a connection, after all that older ones had delivered (rule 47).
    pub(crate) async fn admit(
        &self,
        name: &str,
        (link, is_tcp): (&Link, bool),
        pulse: Rc<Pulse>,
        agreed: Agreed,
    ) -> Result<Rc<Session<E::Device>>, OpenError> {
        let device = self.exports.open(name).await?;
        let used = self.used(name);
        let _turn = used.gate.acquire(1).await;
        let older: Vec<_> = used.sessions.borrow().iter().filter_map(Weak::upgrade).collect();
        let drains = older.iter().map(|session| session.drain(self.options)).collect();
        let drained = self.env.timeout(self.options.drain_timeout, join_all(drains)).await;
        drained.map_err(|_| OpenError::Unavailable)?;
        let agreed = Agreed { size: device.size(), ..agreed };
        let session = Rc::new(Session::new(&self.env, (link, is_tcp), pulse, device, agreed));
        let mut sessions = used.sessions.borrow_mut();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Rc::downgrade(&session));
        Ok(session)
    }

    fn used(&self, name: &str) -> Rc<Used<E::Device>> {
        let mut used = self.used.borrow_mut();
        let entry = used.entry(name.to_owned()).or_insert_with(|| {
            Rc::new(Used { gate: Semaphore::new(1), sessions: RefCell::default() })
        });
        Rc::clone(entry)
    }

    /// Forgets exports without connections.
    fn forget_ended(&self) {
        self.used.borrow_mut().retain(|_, used| {
            used.sessions.borrow_mut().retain(|session| session.strong_count() > 0);
            Rc::strong_count(used) > 1 || !used.sessions.borrow().is_empty()
        });
    }
}
