// SPDX-License-Identifier: Apache-2.0
//! The directory: the small, linearizable store in which a cluster keeps who owns what.
//!
//! [`records`] are the values, [`Directory`] is the client that lives in a shard, [`serve`] the
//! server behind the embedded directory and the simulated one. The etcd gateway in `control` speaks
//! the same [`protocol`]. Nothing on the data path waits for the directory unless the configuration
//! of an object changes (rule 52).
#![forbid(unsafe_code)]

#[doc(hidden)]
mod backup;
mod client;
pub mod conformance;
mod frames;
pub mod protocol;
mod records;
mod server;
pub mod store;
mod types;

pub use backup::{BACKUP_BYTES_MAX, BACKUP_VERSION, Backup, BackupError};
pub use client::{
    CALL_TIMEOUT, CALLS_MAX, ClientOptions, Directory, LISTING_BYTES_MAX, WATCH_EVENTS_MAX, Watch,
};
pub use records::*;
pub use server::{
    Backend, BackendError, CONNECTIONS_MAX, MemoryBackend, ServeError, ServeOptions, ServerFaults,
    serve, serve_with,
};
pub use types::*;
