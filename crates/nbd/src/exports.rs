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
    /// the server is about to stop
    #[error("shutting down")]
    ShuttingDown,
}

/// The exports of a server.
pub trait Exports: 'static {
    /// What is served. The connection counts as attached until its last clone is dropped.
    type Device: Device;

    /// Names of all exports.
    fn list(&self) -> Vec<String>;

    /// Opens the export `name`.
    ///
    /// # Errors
    /// [`OpenError`]; the client gets to know which.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Device, OpenError>>;
}
