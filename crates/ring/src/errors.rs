// SPDX-License-Identifier: Apache-2.0
//! Why a driver cannot be made, and what the kernel's error numbers mean as [`IoError`]s.

use env::IoError;
use rustix::io::Errno;
use std::io;
use thiserror::Error;

/// Why a driver cannot be made.
#[derive(Debug, Error)]
pub enum RingError {
    /// io_uring is missing, forbidden (seccomp, sysctl) or older than Linux 6.1
    #[error("io_uring is not available")]
    Setup {
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// the kernel gives no eventfd for wake-ups
    #[error("no eventfd")]
    Event {
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

/// What an error of a device or of its file system means.
pub(crate) fn disk_error(error: Errno) -> IoError {
    match error {
        Errno::NOENT | Errno::NOTDIR => IoError::NotFound,
        // EXIST: somebody else created it between our look and our open.
        Errno::BUSY | Errno::EXIST | Errno::TXTBSY => IoError::Busy,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => IoError::Denied,
        Errno::NOSPC | Errno::DQUOT => IoError::NoSpace,
        Errno::CANCELED => IoError::Cancelled,
        Errno::BADF => IoError::Closed,
        other => IoError::Device { errno: other.raw_os_error() },
    }
}

/// What an error of a socket means.
pub(crate) fn socket_error(error: Errno) -> IoError {
    match error {
        Errno::NOENT | Errno::NOTDIR => IoError::NotFound,
        Errno::CONNREFUSED => IoError::Refused,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => IoError::Denied,
        Errno::NOSPC | Errno::DQUOT => IoError::NoSpace,
        Errno::ADDRINUSE | Errno::ADDRNOTAVAIL => IoError::AddressInUse,
        Errno::CANCELED => IoError::Cancelled,
        Errno::BADF => IoError::Closed,
        Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::PIPE
        | Errno::NOTCONN
        | Errno::TIMEDOUT
        | Errno::HOSTUNREACH
        | Errno::HOSTDOWN
        | Errno::NETUNREACH
        | Errno::NETDOWN
        | Errno::NETRESET => IoError::Reset,
        other => IoError::Device { errno: other.raw_os_error() },
    }
}

/// Whether the kernel only asks us to try again.
pub(crate) fn is_transient(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::AGAIN)
}
