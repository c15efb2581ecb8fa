// SPDX-License-Identifier: Apache-2.0
//! What a server offers: exports, and how many clients may use one at a time.

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
    /// another client uses the export, and this one may not join it
    #[error(
        "in use by another client; see 'gabion volume show'. Over TCP, clients that connect to \
         NAME@CLIENT, each with a CLIENT name of its own, share a volume, and one that comes again \
         under its name takes its older connection over"
    )]
    InUse,
    /// the export has as many connections as it may have
    #[error("too many connections to this export")]
    TooMany,
    /// the server is about to stop
    #[error("shutting down")]
    ShuttingDown,
}

/// Whether several clients may use an export at the same time, through one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Several clients. Over TCP each of them needs a name of its own.
    #[default]
    Shared,
    /// One connection at a time. A client that comes again under its name replaces its older
    /// connection.
    Exclusive,
}

/// The exports of a server.
pub trait Exports: 'static {
    /// The device behind an export. A client counts as attached until the last clone of the device
    /// that it opened is dropped.
    type Device: Device;

    /// Names of all exports.
    fn list(&self) -> Vec<String>;

    /// Whether several clients may use the export `name` at the same time. The server asks for each
    /// newcomer.
    fn sharing(&self, _name: &str) -> Sharing {
        Sharing::Shared
    }

    /// Opens the export `name`.
    ///
    /// # Errors
    /// [`OpenError`]; the client is told which.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Device, OpenError>>;
}
