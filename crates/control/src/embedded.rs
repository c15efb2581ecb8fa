// SPDX-License-Identifier: Apache-2.0
//! The embedded directory: the server of `directory` on a thread and an io_uring of its own, its
//! content in one file.
//!
//! Guarantees: what is answered is durable; only one process at a time can open the file; after a
//! restart every lease has its full time again, so that it may end late but never early (rule 50).

use crate::error::{ControlError, DatabaseError};
use crate::thread::{DirectoryThread, Started};
use directory::store::{Change, EventBatch, LeaseChange, Snapshot};
use directory::{Backend, BackendError, Entry, LeaseId, serve};
use env::{Address, Either, Env, Fifo, select};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use ring::RingDriver;
use std::fs::OpenOptions;
use std::future::poll_fn;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Key to (revision, lease or 0, value).
const KEYS: TableDefinition<'_, &str, (u64, u64, &[u8])> = TableDefinition::new("keys");
/// Lease to its time to live in milliseconds.
const LEASES: TableDefinition<'_, u64, u64> = TableDefinition::new("leases");
/// `format` and `revision`.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const FORMAT_NAME: &str = "format";
const REVISION_NAME: &str = "revision";
/// The format of the tables above.
const FORMAT: u64 = 1;
/// Memory for the database's pages; the whole content is in memory anyway.
const CACHE_BYTES: usize = 4 << 20;

/// Serves the directory in `data_file`, which is created where it is missing, at `socket`.
///
/// # Errors
/// [`ControlError`]: the file is in use, damaged or of another format; the socket is in use; there
/// is no io_uring.
pub fn start_embedded(data_file: &Path, socket: &Path) -> Result<DirectoryThread, ControlError> {
    let (data_file, socket) = (data_file.to_owned(), socket.to_owned());
    DirectoryThread::start("directory", move |started| run(&data_file, &socket, &started))
}

fn run(data_file: &Path, socket: &Path, started: &Started) -> Result<(), ControlError> {
    let wrap = |source| ControlError::Storage { path: data_file.to_owned(), source };
    let storage = Storage::open(data_file).map_err(wrap)?;
    let mut driver = RingDriver::new().map_err(|source| ControlError::Ring { source })?;
    let (signal, waker) = (Arc::new(StopSignal::default()), driver.waker());
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let main = {
        let (env, socket, started) = (env.clone(), socket.to_owned(), started.clone());
        async move {
            let Some(path) = socket.to_str() else {
                return Err(ControlError::Path { path: PathBuf::from(&socket) });
            };
            let listening = env.listen(Address::Unix(path.to_owned())).await;
            let listener = listening
                .map_err(|source| ControlError::Listen { path: socket.clone(), source })?;
            let for_stop = Arc::clone(&signal);
            let stop = move || {
                for_stop.raise();
                waker.wake();
            };
            // The caller no longer waits for the report, so nobody wants this thread either.
            if started.send(Ok(Box::new(stop))).is_err() {
                return Ok(());
            }
            match select(signal.raised(), serve(&env, listener, Rc::new(storage))).await {
                Either::First(()) => Ok(()),
                Either::Second(ended) => ended.map_err(|source| ControlError::Serve { source }),
            }
        }
    };
    let result = env.run(main);
    env.stop();
    result
}

/// Raised by another thread; a task of the shard waits for it.
#[derive(Default)]
struct StopSignal {
    is_raised: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl StopSignal {
    fn raise(&self) {
        self.is_raised.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }

    async fn raised(&self) {
        poll_fn(|cx| {
            // The waker is stored before the flag is read. A raise in between sees the waker, or is
            // seen here.
            let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            *waker = Some(cx.waker().clone());
            drop(waker);
            if self.is_raised.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The directory's file.
struct Storage(Database);

impl Storage {
    fn open(path: &Path) -> Result<Self, DatabaseError> {
        Self::try_open(path).map_err(|source| DatabaseError::Database { source }).and_then(
            |(storage, found)| match found {
                FORMAT => Ok(storage),
                found => Err(DatabaseError::Format { found, wanted: FORMAT }),
            },
        )
    }

    /// Opens the database and returns the format it says it has. A new file gets this program's
    /// format.
    fn try_open(path: &Path) -> Result<(Self, u64), redb::Error> {
        // A new one is for nobody else on the machine.
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
        let write = database.begin_write()?;
        let mut numbers = write.open_table(NUMBERS)?;
        let found = numbers.get(FORMAT_NAME)?.map(|number| number.value());
        if found.is_none() {
            numbers.insert(FORMAT_NAME, FORMAT)?;
            numbers.insert(REVISION_NAME, 0)?;
        }
        drop(numbers);
        if found.is_none() {
            write.open_table(KEYS)?;
            write.open_table(LEASES)?;
            write.commit()?;
        } else {
            write.abort()?;
        }
        Ok((Self(database), found.unwrap_or(FORMAT)))
    }

    fn read(&self) -> Result<Snapshot, redb::Error> {
        let read = self.0.begin_read()?;
        let revision = read.open_table(NUMBERS)?.get(REVISION_NAME)?;
        let revision = revision.map_or(0, |number| number.value());
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        for row in read.open_table(KEYS)?.iter()? {
            let (key, columns) = row?;
            let (revision, lease, value) = columns.value();
            let entry = Entry { value: value.to_vec(), revision };
            let lease = (lease != 0).then_some(LeaseId(lease));
            snapshot.entries.push((key.value().to_owned(), entry, lease));
        }
        for row in read.open_table(LEASES)?.iter()? {
            let (lease, ttl_ms) = row?;
            let ttl = Duration::from_millis(ttl_ms.value());
            snapshot.leases.push((LeaseId(lease.value()), ttl));
        }
        Ok(snapshot)
    }

    /// Writes `batch` in one transaction of the database, which is durable when this returns.
    fn write(&self, batch: &EventBatch) -> Result<(), redb::Error> {
        let write = self.0.begin_write()?;
        let mut keys = write.open_table(KEYS)?;
        for change in &batch.changes {
            match change {
                Change::Put { key, value, lease } => {
                    let lease = lease.map_or(0, |lease| lease.0);
                    keys.insert(key.as_str(), (batch.revision, lease, value.as_slice()))?;
                }
                Change::Delete { key } => drop(keys.remove(key.as_str())?),
            }
        }
        drop(keys);
        let mut leases = write.open_table(LEASES)?;
        for change in &batch.leases {
            match change {
                LeaseChange::Granted(id, ttl) => {
                    // Below an hour by the store's limit.
                    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                    leases.insert(id.0, ttl_ms)?;
                }
                LeaseChange::Gone(id) => drop(leases.remove(id.0)?),
            }
        }
        drop(leases);
        write.open_table(NUMBERS)?.insert(REVISION_NAME, batch.revision)?;
        write.commit()?;
        Ok(())
    }
}

impl Backend for Storage {
    fn load(&self) -> Result<Snapshot, BackendError> {
        self.read().map_err(|error| BackendError { source: Box::new(error) })
    }

    fn persist(&self, batch: &EventBatch) -> Result<(), BackendError> {
        self.write(batch).map_err(|error| BackendError { source: Box::new(error) })
    }
}
