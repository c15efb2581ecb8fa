// SPDX-License-Identifier: Apache-2.0
//! The gate of an export: which newcomers are let in, and what happens to older connections first
//! (rule 47).

use crate::exports::{Exports, OpenError, Sharing};
use crate::inbox::Pulse;
use crate::options::{EXPORT_CONNECTIONS_MAX, IN_USE_GRACE, ServerOptions};
use crate::request::Agreed;
use crate::session::{Precedence, Session};
use base::{Instant, Map};
use env::{Env, Link, Notify, Semaphore, join_all};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use volume::Device;

/// Who asks for an export.
pub(crate) struct ExportAsker<'a> {
    pub(crate) link: &'a Link,
    pub(crate) is_tcp: bool,
    /// The name that the client gave itself.
    pub(crate) client: Option<&'a str>,
}

/// The gates of all exports that have connections, by name.
pub(crate) struct Gates<D>(Rc<RefCell<Map<String, Rc<Gate<D>>>>>);

/// The gate of one export, with its connections.
struct Gate<D> {
    /// Held while one connection drains the older ones.
    turn: Semaphore,
    sessions: RefCell<Vec<Weak<Session<D>>>>,
    /// Connections of the export, those that wait included.
    places: Cell<usize>,
    /// A connection has left, or has been closed.
    left: Notify,
}

/// The place of one connection at the gate of an export. The gate is removed together with its last
/// place.
struct Place<D> {
    gates: Gates<D>,
    gate: Rc<Gate<D>>,
    name: String,
}

/// A session with its place. Once this is dropped, nothing more is taken from the client.
pub(crate) struct Admitted<D: Device> {
    pub(crate) session: Rc<Session<D>>,
    _place: Place<D>,
}

impl<D: Device> Drop for Admitted<D> {
    /// Closes the session: after a handshake that failed there is no reader that would notice that
    /// the client is gone.
    fn drop(&mut self) {
        self.session.close();
    }
}

impl<D> Clone for Gates<D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<D> Default for Gates<D> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<D> Drop for Place<D> {
    fn drop(&mut self) {
        self.gate.places.set(self.gate.places.get() - 1);
        self.gate.sessions.borrow_mut().retain(|session| session.strong_count() > 0);
        if self.gate.places.get() == 0 {
            self.gates.0.borrow_mut().remove(&self.name);
        }
        self.gate.left.notify();
    }
}

impl<D: Device> Gates<D> {
    /// Opens export `name` for a connection, once the requests of older ones are finished
    /// (rule 47). May be dropped at any moment.
    ///
    /// # Errors
    /// [`OpenError::TooMany`]; [`OpenError::InUse`] after [`IN_USE_GRACE`];
    /// [`OpenError::Unavailable`] where older requests did not finish in time; what
    /// [`Exports::open`] says.
    pub(crate) async fn admit<E: Exports<Device = D>>(
        &self,
        (env, exports, options): (&Env, &E, ServerOptions),
        name: &str,
        caller: &ExportAsker<'_>,
        pulse: Rc<Pulse>,
        agreed: Agreed,
    ) -> Result<Admitted<D>, OpenError> {
        let place = self.place(name)?;
        let gate = &place.gate;
        let until = env.now() + IN_USE_GRACE;
        let (_turn, sharing) = loop {
            gate.until_free(env, caller, || exports.sharing(name), until).await?;
            let turn = gate.turn.acquire(1).await;
            let sharing = exports.sharing(name);
            if !gate.is_taken(caller, sharing) {
                break (turn, sharing);
            }
        };
        let device = exports.open(name).await?;
        let older = gate.older();
        let drain = |session: &Rc<Session<D>>| {
            let session = Rc::clone(session);
            let precedence = session.precedence(caller, sharing);
            async move { session.drain(options, precedence).await }
        };
        let drained = join_all(older.iter().map(drain).collect());
        let drained = env.timeout(options.drain_timeout, drained).await;
        drained.map_err(|_| OpenError::Unavailable)?;
        let agreed = Agreed { size: device.size(), ..agreed };
        let session = Session::new(env, caller, (pulse, gate.left.clone()), device, agreed);
        let session = Rc::new(session);
        gate.sessions.borrow_mut().push(Rc::downgrade(&session));
        Ok(Admitted { session, _place: place })
    }

    fn place(&self, name: &str) -> Result<Place<D>, OpenError> {
        let mut gates = self.0.borrow_mut();
        let gate = gates.entry(name.to_owned()).or_insert_with(|| {
            Rc::new(Gate {
                turn: Semaphore::new(1),
                sessions: RefCell::default(),
                places: Cell::new(0),
                left: Notify::default(),
            })
        });
        if gate.places.get() >= EXPORT_CONNECTIONS_MAX {
            return Err(OpenError::TooMany);
        }
        gate.places.set(gate.places.get() + 1);
        let gate = Rc::clone(gate);
        Ok(Place { gates: self.clone(), gate, name: name.to_owned() })
    }
}

impl<D: Device> Gate<D> {
    fn older(&self) -> Vec<Rc<Session<D>>> {
        self.sessions.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether an older connection keeps `caller` out.
    fn is_taken(&self, caller: &ExportAsker<'_>, sharing: Sharing) -> bool {
        let refuses =
            |session: &Rc<Session<D>>| session.precedence(caller, sharing) == Precedence::Refused;
        self.older().iter().any(refuses)
    }

    /// Waits until no older connection keeps `caller` out. The gate is free meanwhile, so others
    /// may come in.
    ///
    /// # Errors
    /// [`OpenError::InUse`] at `until`.
    async fn until_free(
        &self,
        env: &Env,
        caller: &ExportAsker<'_>,
        sharing: impl Fn() -> Sharing,
        until: Instant,
    ) -> Result<(), OpenError> {
        loop {
            let left = self.left.wait();
            if !self.is_taken(caller, sharing()) {
                return Ok(());
            }
            if env.now() >= until {
                return Err(OpenError::InUse);
            }
            env::select(left, env.sleep_until(until)).await;
        }
    }
}
