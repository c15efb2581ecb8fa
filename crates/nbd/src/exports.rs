// SPDX-License-Identifier: Apache-2.0
//! What a server offers.

use std::future::Future;
use thiserror::Error;
use volume::Device;

/// Why an export could not be opened.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum OpenError {
    /// no export has that name
    #[error("no such export")]
    NotFound,
    /// the export exists and cannot be used now
    #[error("export not available")]
    Unavailable,
    /// a client has it for itself
    #[error(
        "in use by another client; see 'gabion volume show'. Over TCP, clients that connect to \
         NAME@CLIENT, each with a CLIENT name of its own, share a volume, and one that comes again \
         under its name takes its older connection over"
    )]
    InUse,
    /// it has as many connections as an export may have
    #[error("too many connections to this export")]
    TooMany,
    /// the server is about to stop
    #[error("shutting down")]
    ShuttingDown,
}

/// Who may use an export beside whom, on one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Any number of clients; over TCP each needs a name of its own.
    #[default]
    Shared,
    /// One connection at a time.
    Exclusive,
}

/// The exports of a server.
pub trait Exports: 'static {
    /// What is served. The connection counts as attached until its last clone is dropped.
    type Device: Device;

    /// Names of all exports.
    fn list(&self) -> Vec<String>;

    /// Who may use the export `name` beside whom; asked for each newcomer.
    fn sharing(&self, _name: &str) -> Sharing {
        Sharing::Shared
    }

    /// Opens the export `name`.
    ///
    /// # Errors
    /// [`OpenError`]; the client gets to know which.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Device, OpenError>>;
}
