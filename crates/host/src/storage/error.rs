// SPDX-License-Identifier: Apache-2.0
//! Why a disk group is out of service, and why it did not do what was asked.

use diskgroup::GroupError;
use thiserror::Error;

/// Why a disk group did not do what was asked.
#[derive(Debug, Error)]
pub enum StorageError {
    /// no such group
    #[error("{host} has no disk group '{wanted}': see 'gabion group list'")]
    Unknown {
        /// This host.
        host: String,
        /// As it was asked for.
        wanted: String,
    },
    /// a beginning of several ids
    #[error("several disk groups of {host} begin with '{wanted}': give more digits")]
    Ambiguous {
        /// This host.
        host: String,
        /// As it was asked for.
        wanted: String,
    },
    /// it serves
    #[error("the disk group of {cache} is open and takes writes: nothing to be done")]
    IsOpen {
        /// Its cache device.
        cache: String,
    },
    /// it does not serve
    #[error(
        "the disk group of {cache} is out of service: what is on it is not known; next: \
         'gabion group open {cache}'"
    )]
    IsClosed {
        /// Its cache device.
        cache: String,
    },
    /// it holds data
    #[error(
        "the disk group of {cache} holds {components} components: delete their volumes first \
         ('gabion group show {cache}')"
    )]
    NotEmpty {
        /// Its cache device.
        cache: String,
        /// How many.
        components: usize,
    },
    /// what is on a device of it is not known
    #[error(
        "a capacity device of the disk group of {cache} is out, and what is on it is not known: \
         put it back or replace it first ('gabion group show {cache}')"
    )]
    DeviceOut {
        /// Its cache device.
        cache: String,
    },
    /// a device of another group
    #[error("{0} is a device of a disk group of this host already: see 'gabion disk list'")]
    Taken(String),
    /// a limit
    #[error("{what} has {most} {things} at most")]
    TooMany {
        /// What has them.
        what: &'static str,
        /// How many.
        most: usize,
        /// Of what.
        things: &'static str,
    },
    /// the devices
    #[error("{0}")]
    Group(#[from] GroupError),
}

/// Why a group is out of service.
#[derive(Clone, Debug, Error)]
pub enum Closed {
    /// an operator closed it
    #[error("closed by an operator")]
    Asked,
    /// it is being opened, closed or extended
    #[error("being opened or closed")]
    Changing,
    /// it does not open
    #[error("{0}")]
    Failed(#[from] GroupError),
}

impl Closed {
    /// Whether it does not open for its log is damaged.
    pub(crate) fn is_rotten_log(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_rotten_log())
    }
}
