// SPDX-License-Identifier: Apache-2.0
//! A directory as a server that listens on links of a shard. The embedded directory is this server
//! with a durable backend; the simulated one is this server with faults.
//!
//! Guarantees: linearizable, since one task of one shard decides at a time; what is answered is
//! durable in the backend; a lease ends on time or later, never earlier. When the backend fails the
//! server ends: what it keeps in memory may no longer be what is durable.

mod connection;

use crate::protocol::{Answer, DirectoryRequest, PART_BYTES_MAX};
use crate::store::{EventBatch, HISTORY_MAX, Snapshot, Store};
use crate::types::{DirectoryError, LeaseId, check_key};
use connection::ServerConnection;
use env::{Either, Env, IoError, Listener, Notify, TaskSet, select};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;

/// Clients at once: two for each of 512 hosts, as `peer` has it. Beyond it a new connection is
/// closed at once and tried again by its client.
pub const CONNECTIONS_MAX: usize = 1024;
/// The wait after a failed accept. The usual cause is that no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where the directory's content survives a restart.
pub trait Backend {
    /// All that was persisted.
    ///
    /// # Errors
    /// [`BackendError`]: the content cannot be read; the server does not start.
    fn load(&self) -> Result<Snapshot, BackendError>;

    /// Makes all of `batch` durable, or none of it. The request is answered only afterwards.
    /// Batches come in the order of their revisions.
    ///
    /// # Errors
    /// [`BackendError`]: it is unknown whether it is durable; the server ends.
    fn persist(&self, batch: &EventBatch) -> Result<(), BackendError>;
}

/// A backend cannot read or write.
#[derive(Debug, Error)]
#[error("the directory's storage failed")]
pub struct BackendError {
    /// Why.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Why a server ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// the content could not be read or a change not be kept
    #[error("the directory ends: its storage failed")]
    Backend {
        /// Why.
        #[source]
        source: BackendError,
    },
    /// nobody can connect any more
    #[error("the directory ends: its listener failed")]
    Listener {
        /// Why.
        #[source]
        source: IoError,
    },
}

/// A backend in memory. Its content lasts as long as somebody holds the backend: in simulation it
/// survives the crash of its host.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    store: RefCell<Option<Store>>,
}

impl MemoryBackend {
    /// Replaces the content, as the restore of a backup does. A server sees it when it next starts.
    pub fn replace(&self, snapshot: Snapshot) {
        *self.store.borrow_mut() = Some(Store::restore(snapshot, base::Instant(0)));
    }
}

impl Backend for MemoryBackend {
    fn load(&self) -> Result<Snapshot, BackendError> {
        Ok(self.store.borrow().as_ref().map(Store::snapshot).unwrap_or_default())
    }

    fn persist(&self, batch: &EventBatch) -> Result<(), BackendError> {
        let mut store = self.store.borrow_mut();
        let empty = || Store::restore(Snapshot::default(), base::Instant(0));
        store.get_or_insert_with(empty).commit(batch.clone(), base::Instant(0));
        Ok(())
    }
}

/// What goes wrong on purpose, in simulation. All probabilities in parts per million, per request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerFaults {
    /// The connection breaks before a request is looked at.
    pub drop_before_ppm: u64,
    /// The connection breaks after a request was carried out and before it is answered.
    pub drop_after_ppm: u64,
    /// An answer comes late.
    pub late_ppm: u64,
    /// How late at most.
    pub late_max: Duration,
    /// Probability that after a change the history is forgotten. Watches that are behind get a
    /// reset.
    pub compact_ppm: u64,
    /// Leases end later than they should by up to this time; never earlier (rule 50).
    pub expiry_late_max: Duration,
    /// A lease is revoked, as an operator might, in the moment in which its holder keeps it.
    pub lose_lease_ppm: u64,
}

/// How a server behaves. `Default` is what production runs.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// What goes wrong on purpose.
    pub faults: ServerFaults,
    /// Changes that the history keeps, [`HISTORY_MAX`] at most. A watch that is further behind gets
    /// a reset.
    pub history: usize,
    /// Bytes of keys and values in one part of an answer, [`PART_BYTES_MAX`] at most. An entry that
    /// is larger is a part by itself.
    pub part_bytes: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { faults: ServerFaults::default(), history: HISTORY_MAX, part_bytes: PART_BYTES_MAX }
    }
}

impl From<ServerFaults> for ServeOptions {
    fn from(faults: ServerFaults) -> Self {
        Self { faults, ..Self::default() }
    }
}

/// Serves until the backend or the listener fails. Dropping the future closes every connection.
///
/// # Errors
/// [`ServeError`], which is how it ends.
pub async fn serve(
    env: &Env,
    listener: Listener,
    backend: Rc<dyn Backend>,
) -> Result<(), ServeError> {
    serve_with(env, listener, backend, ServeOptions::default()).await
}

/// As [`serve`], with other options. Faults are drawn from the shard's random numbers.
///
/// # Errors
/// [`ServeError`], which is how it ends.
pub async fn serve_with(
    env: &Env,
    listener: Listener,
    backend: Rc<dyn Backend>,
    options: impl Into<ServeOptions>,
) -> Result<(), ServeError> {
    let options = options.into();
    assert!(options.part_bytes <= PART_BYTES_MAX, "a part fits a frame");
    let snapshot = backend.load().map_err(|source| ServeError::Backend { source })?;
    let server = Rc::new(DirectoryServer {
        env: env.clone(),
        store: RefCell::new(Store::restore(snapshot, env.now()).with_history(options.history)),
        backend,
        faults: options.faults,
        part_bytes: options.part_bytes,
        changed: Notify::default(),
        leases_changed: Notify::default(),
        failure: RefCell::new(None),
        failed: Notify::default(),
        malformed: Cell::new(0),
    });
    let failed = server.failed.wait();
    let running = select(accept(&server, &listener), expire(&server));
    match select(failed, running).await {
        Either::First(()) | Either::Second(Either::Second(())) => {
            let failure = server.failure.borrow_mut().take();
            let Some(source) = failure else { unreachable!("a failure is kept before it is told") };
            Err(ServeError::Backend { source })
        }
        Either::Second(Either::First(source)) => Err(ServeError::Listener { source }),
    }
}

pub(crate) struct DirectoryServer {
    env: Env,
    store: RefCell<Store>,
    backend: Rc<dyn Backend>,
    faults: ServerFaults,
    /// Bytes of one part of an answer.
    part_bytes: usize,
    /// Keys changed: watches have something to tell.
    changed: Notify,
    /// The next expiry may be earlier than it was.
    leases_changed: Notify,
    failure: RefCell<Option<BackendError>>,
    failed: Notify,
    malformed: Cell<u64>,
}

async fn accept(server: &Rc<DirectoryServer>, listener: &Listener) -> IoError {
    let connections = TaskSet::default();
    loop {
        match listener.accept().await {
            Ok(link) if connections.len() < CONNECTIONS_MAX => {
                let connection = ServerConnection::new(Rc::clone(server), link);
                connections.spawn(&server.env, "directory connection", connection.run());
            }
            Ok(link) => link.close(),
            Err(error @ IoError::Closed) => return error,
            Err(_) => server.env.sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Ends leases that ran out; ends itself only when the backend fails.
async fn expire(server: &Rc<DirectoryServer>) {
    loop {
        let changed = server.leases_changed.wait();
        let (expired, next) = {
            let store = server.store.borrow();
            (store.expired(server.env.now()), store.next_expiry())
        };
        if let Some(lease) = expired {
            if server.end_lease(lease) == Err(Failed::Backend) {
                return;
            }
            continue;
        }
        match next {
            Some(at) => drop(select(changed, server.env.sleep_until(at)).await),
            None => changed.await,
        }
    }
}

/// Why a request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// The request itself was refused. The client is told why.
    Refused(DirectoryError),
    /// Nobody knows what is durable: no answer to anybody any more.
    Backend,
}

impl From<DirectoryError> for Failed {
    fn from(error: DirectoryError) -> Self {
        Self::Refused(error)
    }
}

impl DirectoryServer {
    fn chance(&self, ppm: u64) -> bool {
        ppm > 0 && self.env.random() % 1_000_000 < ppm
    }

    fn up_to(&self, max: Duration) -> Duration {
        match u64::try_from(max.as_nanos()) {
            Ok(0) => Duration::ZERO,
            Ok(nanos) => Duration::from_nanos(self.env.random() % nanos),
            Err(_) => max,
        }
    }

    /// Carries out a request that has one answer. `None`: the server is ending.
    fn carry_out(&self, request: DirectoryRequest) -> Option<Answer> {
        let result = match request {
            DirectoryRequest::Ping => Ok(Answer::Done),
            DirectoryRequest::Get { key } => check_key(&key)
                .map(|()| Answer::Entry(self.store.borrow().get(&key).cloned()))
                .map_err(Failed::Refused),
            DirectoryRequest::Transact(transaction) => {
                let prepared = self.store.borrow().prepare(transaction);
                prepared.map_err(Failed::Refused).and_then(|(transacted, batch)| {
                    self.apply(batch)?;
                    Ok(Answer::Transacted(transacted))
                })
            }
            DirectoryRequest::LeaseGrant { ttl_ms } => self.grant(Duration::from_millis(ttl_ms)),
            DirectoryRequest::LeaseKeep { lease } if self.chance(self.faults.lose_lease_ppm) => {
                self.end_lease(lease).and(Err(Failed::Refused(DirectoryError::LeaseGone)))
            }
            DirectoryRequest::LeaseKeep { lease } => {
                let (now, late) = (self.env.now(), self.up_to(self.faults.expiry_late_max));
                let kept = self.store.borrow_mut().keep(lease, now, late);
                kept.map(|()| Answer::Done).map_err(Failed::Refused)
            }
            DirectoryRequest::LeaseRevoke { lease } => self.end_lease(lease).map(|()| Answer::Done),
            DirectoryRequest::List { .. }
            | DirectoryRequest::Watch { .. }
            | DirectoryRequest::Unwatch { .. } => {
                unreachable!("the connection carries these out itself")
            }
        };
        match result {
            Ok(answer) => Some(answer),
            Err(Failed::Refused(error)) => Some(Answer::Failed(error)),
            Err(Failed::Backend) => None,
        }
    }

    fn grant(&self, ttl: Duration) -> Result<Answer, Failed> {
        let id = loop {
            // 63 random bits, as etcd has them. So a restarted server does not give out an old id
            // by accident.
            let id = LeaseId(self.env.random() >> 1);
            if id.0 != 0 && !self.store.borrow().has_lease(id) {
                break id;
            }
        };
        let batch = self.store.borrow().prepare_grant(id, ttl)?;
        self.apply(batch)?;
        let late = self.up_to(self.faults.expiry_late_max);
        self.store.borrow_mut().keep(id, self.env.now(), late)?;
        self.leases_changed.notify();
        Ok(Answer::Lease(id))
    }

    fn end_lease(&self, lease: LeaseId) -> Result<(), Failed> {
        let batch = self.store.borrow().prepare_end(lease)?;
        self.apply(batch)
    }

    /// Makes `batch` durable, then applies it in memory, without an await in between.
    fn apply(&self, batch: EventBatch) -> Result<(), Failed> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.failure.borrow().is_some() {
            return Err(Failed::Backend);
        }
        if let Err(error) = self.backend.persist(&batch) {
            *self.failure.borrow_mut() = Some(error);
            self.failed.notify();
            return Err(Failed::Backend);
        }
        let mut store = self.store.borrow_mut();
        store.commit(batch, self.env.now());
        if self.chance(self.faults.compact_ppm) {
            store.compact(0);
        }
        drop(store);
        self.changed.notify();
        Ok(())
    }
}
