// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with the embedded directory, the gateway or etcd.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use thiserror::Error;

/// Why a directory cannot start, or why it ended.
#[derive(Debug, Error)]
pub enum ControlError {
    /// the operating system gives no thread or runtime
    #[error("cannot start the thread of the directory")]
    Thread {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// io_uring is not available
    #[error("cannot start the directory's event loop")]
    Ring {
        /// Why.
        #[source]
        source: ring::RingError,
    },
    /// the embedded directory cannot listen at the socket's path
    #[error("cannot listen at {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: env::IoError,
    },
    /// the gateway cannot listen at the socket's path
    #[error("cannot listen at {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// a path that is not text
    #[error("the path {} is not UTF-8", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// the directory's file cannot be opened or is damaged
    #[error("cannot open the directory's file {}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DatabaseError,
    },
    /// the directory ended by itself
    #[error("the directory ended")]
    Serve {
        /// Why.
        #[source]
        source: directory::ServeError,
    },
    /// its thread panicked
    #[error("the directory's thread panicked")]
    Panicked,
    /// no etcd client can be made, usually because an endpoint is not a URL
    #[error("cannot use the etcd endpoints")]
    Endpoints {
        /// Why.
        #[source]
        source: etcd_client::Error,
    },
    /// members of the directory want a proof, and there is none
    #[error(
        "the directory at {endpoints} wants to know who asks, and no CA of a cluster is here: an \
         etcd that is run by hand is reached by http"
    )]
    NoKeys {
        /// Where it is.
        endpoints: String,
    },
    /// the cluster's CA cannot be used
    #[error(transparent)]
    Keys(#[from] keys::KeyError),
    /// what a host knows of its part in the directory cannot be read or written
    #[error("cannot use {}", path.display())]
    MemberFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// a new directory where there is one
    #[error(
        "there is a directory in {} already: this machine is, or was, a host of a cluster; move it \
         away if nobody needs it",
        path.display()
    )]
    DirectoryExists {
        /// Its folder.
        path: PathBuf,
    },
    /// no member of etcd answers
    #[error("no member of the directory answers at {endpoints}")]
    Silent {
        /// Their URLs.
        endpoints: String,
    },
    /// no etcd is installed
    #[error("etcd is not installed: apt-get install etcd-server")]
    EtcdMissing,
    /// etcd cannot be run
    #[error("cannot run etcd in {}", path.display())]
    EtcdStart {
        /// Its data directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// etcd ended right after its start
    #[error("etcd ended at once ({status}): see {}", log.display())]
    EtcdEnded {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        log: PathBuf,
    },
    /// etcd runs and does not become healthy
    #[error("etcd was not healthy within {waited:?}: see {}", log.display())]
    EtcdUnhealthy {
        /// How long was waited.
        waited: Duration,
        /// What it said.
        log: PathBuf,
    },
}

/// Why the embedded directory's file cannot be used.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// the database below refuses
    #[error("the database failed")]
    Database {
        /// Why.
        #[source]
        source: redb::Error,
    },
    /// written by a program of another format
    #[error("the file has format {found}, not {wanted}")]
    Format {
        /// The file's format.
        found: u64,
        /// This program's.
        wanted: u64,
    },
}
