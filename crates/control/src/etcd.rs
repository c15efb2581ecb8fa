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

use crate::error::ControlError;
use crate::thread::{DirectoryThread, Started, Stop};
use etcd_client::{Client, ConnectOptions};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A member of etcd that accepts no connection within this time is not used until it does.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection to etcd is tested, also an idle one: a watch must notice a dead member.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A test not answered in this time ends the connection.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections of shards at once. Usually there is one; after a restart the old one may still be
/// open.
const CONNECTIONS_MAX: usize = 64;
/// The wait after a failed accept. The usual cause is that no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the directory that the etcd members at `endpoints` (`http://host:port`) keep, at
/// `socket`. etcd need not be reachable yet.
///
/// # Errors
/// [`ControlError`]: an endpoint is no URL, or the socket is in use.
pub fn start_etcd_gateway(
    endpoints: Vec<String>,
    socket: &Path,
) -> Result<DirectoryThread, ControlError> {
    let socket = socket.to_owned();
    DirectoryThread::start("etcd gateway", move |started| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| ControlError::Thread { source })?;
        runtime.block_on(run(&endpoints, &socket, &started))
    })
}

async fn run(endpoints: &[String], socket: &Path, started: &Started) -> Result<(), ControlError> {
    let options = ConnectOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_keep_alive(KEEP_ALIVE_EVERY, KEEP_ALIVE_TIMEOUT)
        .with_keep_alive_while_idle(true)
        .with_require_leader(true);
    let client = Client::connect(endpoints, Some(options))
        .await
        .map_err(|source| ControlError::Endpoints { source })?;
    let bound = bind(socket);
    let listener = bound.map_err(|source| ControlError::Bind { path: socket.into(), source })?;
    let stop = Arc::new(Notify::new());
    let for_stop = Arc::clone(&stop);
    let report: Stop = Box::new(move || for_stop.notify_one());
    if started.send(Ok(report)).is_ok() {
        let mut connections = JoinSet::new();
        tokio::select! {
            () = stop.notified() => {}
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
