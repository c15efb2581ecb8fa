// SPDX-License-Identifier: Apache-2.0
//! The gateway between one shard and etcd: directory protocol on one side, gRPC on the other.
//!
//! Guarantees: reads are linearizable. A transaction whose outcome is not certain is answered as
//! unknown, never repeated. A watch begins with a listing and goes on from its revision; after a
//! compaction or a broken stream it begins again. Leases are etcd's own, in whole seconds, rounded
//! up.

mod connection;
mod requests;
mod watch;

use crate::client::{DirectoryDoor, Endpoints, follow_to};
use crate::error::ControlError;
use crate::member_file::MemberFile;
use crate::thread::{DirectoryThread, Started, Stop, runtime};
use etcd_client::Client;
use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Connections of shards at once. Usually there is one; after a restart the old one may still be
/// open.
const CONNECTIONS_MAX: usize = 64;
/// How often the file is looked at that says where etcd is.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// The wait after a failed accept. The usual cause is that no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the directory that etcd at `endpoints` keeps, at `socket`. etcd need not be reachable
/// yet.
///
/// # Errors
/// [`ControlError`]: an endpoint is no URL, the socket is in use, or a key is missing.
pub fn start_etcd_gateway(
    endpoints: impl Into<Endpoints>,
    socket: &Path,
) -> Result<DirectoryThread, ControlError> {
    let (endpoints, socket) = (endpoints.into(), socket.to_owned());
    DirectoryThread::start("etcd gateway", move |started| {
        let runtime = runtime()?;
        runtime.block_on(run(&endpoints, &socket, &started))
    })
}

/// Follows the file of a host that knows where etcd is. Does not end.
async fn follow(client: &Client, mut used: BTreeSet<String>, file: Option<&Path>) {
    let Some(file) = file else { return std::future::pending().await };
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        // One that cannot be read now says nothing: what was known stays.
        let known = MemberFile::read(file).map(|file| file.state.endpoints).unwrap_or_default();
        if !known.is_empty() {
            follow_to(client, &mut used, &known.into_iter().collect()).await;
        }
    }
}

async fn run(endpoints: &Endpoints, socket: &Path, started: &Started) -> Result<(), ControlError> {
    let client = DirectoryDoor::to(endpoints)?.connect(&endpoints.urls, true).await?;
    let bound = bind(socket);
    let listener = bound.map_err(|source| ControlError::Bind { path: socket.into(), source })?;
    let stop = Arc::new(Notify::new());
    let for_stop = Arc::clone(&stop);
    let report: Stop = Box::new(move || for_stop.notify_one());
    if started.send(Ok(report)).is_ok() {
        let mut connections = JoinSet::new();
        let used = endpoints.urls.iter().cloned().collect();
        tokio::select! {
            () = stop.notified() => {}
            () = follow(&client, used, endpoints.file.as_deref()) => {}
            () = accept(&listener, &client, &mut connections) => {}
        }
        connections.shutdown().await;
    }
    drop(listener);
    // If the socket's file is left behind, the next start replaces it.
    let _ = std::fs::remove_file(socket);
    Ok(())
}

/// Listens at `socket`. Replaces the file of a socket at which nobody listens any more.
fn bind(socket: &Path) -> std::io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(socket).is_err() {
        std::fs::remove_file(socket)?;
    }
    UnixListener::bind(socket)
}

async fn accept(listener: &UnixListener, client: &Client, connections: &mut JoinSet<()>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while connections.try_join_next().is_some() {}
                if connections.len() < CONNECTIONS_MAX {
                    connections.spawn(connection::run(stream, client.clone()));
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
