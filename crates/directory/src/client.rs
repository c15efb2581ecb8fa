// SPDX-License-Identifier: Apache-2.0
//! A shard's handle on the directory.
//!
//! Guarantees: every call ends within [`CALL_TIMEOUT`]; a transaction that ends with
//! [`DirectoryError::Unavailable`] was surely not applied, one that ends with
//! [`DirectoryError::Unknown`] may be applied at any later time (rules 16, 23); a watch begins with
//! all keys, and begins so again after each gap. Non-guarantees: two calls under way at once may be
//! applied in either order; a watch is not ordered against calls.

mod connection;
mod state;

use crate::protocol::{Answer, DirectoryRequest};
use crate::types::{
    DirectoryError, Entry, LeaseId, Listing, Transacted, Transaction, WatchEvent, check_key,
};
use env::{Address, Env, Task};
use state::ClientState;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// How long a call takes at most, waiting for a connection included.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Calls under way at once; beyond it a call fails as unavailable. A host makes only a few for each
/// object whose record changes.
pub const CALLS_MAX: usize = 4096;
/// Most bytes of a listing, also of one in a reset. 64 hosts and 12,800 volumes take a quarter of
/// it.
pub const LISTING_BYTES_MAX: usize = 64 << 20;
/// Most events that a watch keeps for a slow reader. When more come, they are dropped. Once the
/// reader has taken those that were kept, the watch starts again with a reset.
pub const WATCH_EVENTS_MAX: usize = 4096;

/// How a [`Directory`] behaves. `Default` is what production runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Events that a watch keeps for a slow reader, [`WATCH_EVENTS_MAX`] at most.
    pub watch_events: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { watch_events: WATCH_EVENTS_MAX }
    }
}

/// A handle on the directory. Clones share one connection. A connection that is lost is made again
/// by itself, for as long as a clone or a watch lives.
#[derive(Clone)]
pub struct Directory {
    shared: Rc<ClientShared>,
    _task: Rc<Task>,
}

pub(crate) struct ClientShared {
    pub(crate) env: Env,
    pub(crate) address: Address,
    pub(crate) state: RefCell<ClientState>,
    /// Wakes the sender of the connection.
    pub(crate) outgoing: env::Notify,
    pub(crate) malformed: Cell<u64>,
}

impl Directory {
    /// A handle on the directory that listens at `address`; connects in the background.
    #[must_use]
    pub fn connect(env: &Env, address: Address) -> Self {
        Self::connect_with(env, address, ClientOptions::default())
    }

    /// As [`Self::connect`], with other options.
    #[must_use]
    pub fn connect_with(env: &Env, address: Address, options: ClientOptions) -> Self {
        let shared = Rc::new(ClientShared {
            env: env.clone(),
            address,
            state: RefCell::new(ClientState::new(options)),
            outgoing: env::Notify::default(),
            malformed: Cell::new(0),
        });
        let task = env.spawn("directory client", connection::keep(Rc::clone(&shared)));
        Self { shared, _task: Rc::new(task) }
    }

    /// The entry of a key, linearizable.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`]; malformed or too long a key.
    pub async fn get(&self, key: &str) -> Result<Option<Entry>, DirectoryError> {
        check_key(key)?;
        match self.call(DirectoryRequest::Get { key: key.to_owned() }).await? {
            Answer::Entry(entry) => Ok(entry),
            _ => Err(DirectoryError::Unavailable),
        }
    }

    /// All entries with a prefix at one revision, linearizable.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`]; malformed or too long a prefix;
    /// [`DirectoryError::TooLarge`] beyond [`LISTING_BYTES_MAX`].
    pub async fn list(&self, prefix: &str) -> Result<Listing, DirectoryError> {
        check_key(prefix)?;
        match self.call(DirectoryRequest::List { prefix: prefix.to_owned() }).await? {
            Answer::Part { listing, .. } => Ok(listing),
            _ => Err(DirectoryError::Unavailable),
        }
    }

    /// Applies all of `transaction` or nothing. After the future was dropped nobody knows whether
    /// the transaction is applied.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`]: surely not applied. [`DirectoryError::Unknown`]: it may be
    /// applied, and the caller has to read back what the directory has.
    /// [`DirectoryError::LeaseGone`], [`DirectoryError::Malformed`], [`DirectoryError::TooLarge`]:
    /// refused, nothing applied.
    pub async fn transact(&self, transaction: Transaction) -> Result<Transacted, DirectoryError> {
        transaction.check()?;
        match self.call(DirectoryRequest::Transact(transaction)).await? {
            Answer::Transacted(transacted) => Ok(transacted),
            _ => Err(DirectoryError::Unknown),
        }
    }

    /// A lease that runs out when it is not kept for `ttl`. The directory may round `ttl` up and
    /// end the lease later, never earlier (rule 50).
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`]: there is no lease, or its id was lost and it runs out by
    /// itself.
    pub async fn lease_grant(&self, ttl: Duration) -> Result<LeaseId, DirectoryError> {
        let ttl_ms = u64::try_from(ttl.as_millis()).map_err(|_| DirectoryError::Malformed)?;
        match self.call(DirectoryRequest::LeaseGrant { ttl_ms }).await? {
            Answer::Lease(lease) => Ok(lease),
            _ => Err(DirectoryError::Unavailable),
        }
    }

    /// Gives a lease its full time again, counted from some moment within this call.
    ///
    /// # Errors
    /// [`DirectoryError::LeaseGone`]; [`DirectoryError::Unavailable`]: it may have been kept.
    pub async fn lease_keep(&self, lease: LeaseId) -> Result<(), DirectoryError> {
        match self.call(DirectoryRequest::LeaseKeep { lease }).await? {
            Answer::Done => Ok(()),
            _ => Err(DirectoryError::Unavailable),
        }
    }

    /// Ends a lease now and deletes its keys.
    ///
    /// # Errors
    /// [`DirectoryError::LeaseGone`]: it had ended before; [`DirectoryError::Unavailable`];
    /// [`DirectoryError::Unknown`].
    pub async fn lease_revoke(&self, lease: LeaseId) -> Result<(), DirectoryError> {
        match self.call(DirectoryRequest::LeaseRevoke { lease }).await? {
            Answer::Done => Ok(()),
            _ => Err(DirectoryError::Unknown),
        }
    }

    /// Watches all keys with a prefix of 1 to [`crate::KEY_BYTES_MAX`] bytes.
    #[must_use]
    pub fn watch(&self, prefix: &str) -> Watch {
        assert!(check_key(prefix).is_ok(), "prefixes are constants of the program");
        let id = self.shared.state.borrow_mut().watch_add(prefix.to_owned());
        self.shared.outgoing.notify();
        Watch { directory: self.clone(), id }
    }

    /// Where the directory listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Whether there is a connection to the directory (or its gateway) now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.state.borrow().is_connected()
    }

    /// Frames that were no messages; each cost the connection.
    #[must_use]
    pub fn malformed_frames(&self) -> u64 {
        self.shared.malformed.get()
    }

    async fn call(&self, request: DirectoryRequest) -> Result<Answer, DirectoryError> {
        let shared = &self.shared;
        let is_change = matches!(
            request,
            DirectoryRequest::Transact { .. } | DirectoryRequest::LeaseRevoke { .. }
        );
        let (number, reply) = shared.state.borrow_mut().call_add(&request, is_change)?;
        let guard = CallGuard { shared, number };
        shared.outgoing.notify();
        let answer = match shared.env.timeout(CALL_TIMEOUT, reply.recv()).await {
            Ok(Some(answer)) => answer,
            Ok(None) | Err(_) => Err(shared.state.borrow_mut().call_give_up(number)),
        };
        drop(guard);
        match answer? {
            Answer::Failed(error) => Err(error),
            answer => Ok(answer),
        }
    }
}

/// Forgets a call when its caller goes away. A call that was not sent by then is never sent.
struct CallGuard<'a> {
    shared: &'a ClientShared,
    number: u64,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.shared.state.borrow_mut().call_remove(self.number);
    }
}

/// A stream of changes. Dropping it ends the watch.
pub struct Watch {
    directory: Directory,
    id: u64,
}

impl Watch {
    /// The next event. Waits as long as nothing changes or the directory is not reachable.
    /// Cancel-safe.
    pub async fn next(&mut self) -> WatchEvent {
        let shared = &self.directory.shared;
        loop {
            let changed = {
                let mut state = shared.state.borrow_mut();
                if let Some(event) = state.watch_take(self.id) {
                    return event;
                }
                if let Some(id) = state.watch_restart_if_overflown(self.id) {
                    self.id = id;
                    shared.outgoing.notify();
                }
                state.watch_wait(self.id)
            };
            changed.await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let shared = &self.directory.shared;
        shared.state.borrow_mut().watch_remove(self.id);
        shared.outgoing.notify();
    }
}
