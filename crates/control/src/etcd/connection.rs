// SPDX-License-Identifier: Apache-2.0
//! One shard's connection to the gateway.

use super::{requests, watch};
use directory::check_key;
use directory::protocol::{Answer, DirectoryRequest, HEADER_BYTES, ServerHeader, encode_answer};
use etcd_client::Client;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

/// Requests under way at once; beyond it the connection is not read.
const REQUESTS_MAX: usize = 256;
/// Answers that wait for the shard; beyond it requests and watches wait.
const ANSWERS_MAX: usize = 64;
/// Watches of one connection.
const WATCHES_MAX: usize = 64;

/// Takes the answers for one connection. A sender waits while it is full.
#[derive(Clone)]
pub struct EtcdOutbox(mpsc::Sender<Vec<u8>>);

/// The connection is gone.
#[derive(Debug)]
pub struct Gone;

impl EtcdOutbox {
    /// Sends an answer to request `number`.
    pub async fn send(&self, number: u64, answer: &Answer) -> Result<(), Gone> {
        self.0.send(encode_answer(number, answer)).await.map_err(|_| Gone)
    }
}

/// Serves the shard until one of the two directions ends.
pub async fn run(stream: UnixStream, client: Client) {
    let (reader, writer) = stream.into_split();
    let (sender, receiver) = mpsc::channel(ANSWERS_MAX);
    let tasks = JoinSet::new();
    tokio::select! {
        () = receive(reader, EtcdOutbox(sender), client, tasks) => {}
        () = send(writer, receiver) => {}
    }
}

async fn send(mut writer: OwnedWriteHalf, mut answers: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = answers.recv().await {
        if writer.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// Reads requests and starts a task for each; the tasks end with the connection.
async fn receive(
    mut reader: OwnedReadHalf,
    outbox: EtcdOutbox,
    client: Client,
    mut tasks: JoinSet<()>,
) {
    let room = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut watches: BTreeMap<u64, AbortHandle> = BTreeMap::new();
    loop {
        // Nothing more to read, or not a request: the connection is dropped.
        let Some((number, request)) = next(&mut reader).await else { return };
        while tasks.try_join_next().is_some() {}
        match request {
            DirectoryRequest::Watch { prefix } => {
                let is_refused = watches.len() >= WATCHES_MAX || watches.contains_key(&number);
                if is_refused || check_key(&prefix).is_err() {
                    return;
                }
                let task = watch::run(client.clone(), outbox.clone(), number, prefix);
                watches.insert(number, tasks.spawn(task));
            }
            DirectoryRequest::Unwatch { watch } => {
                if let Some(task) = watches.remove(&watch) {
                    task.abort();
                }
            }
            request => {
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                let (client, outbox) = (client.clone(), outbox.clone());
                tasks.spawn(async move {
                    for answer in requests::carry_out(client, request).await {
                        if outbox.send(number, &answer).await.is_err() {
                            break;
                        }
                    }
                    drop(permit);
                });
            }
        }
    }
}

async fn next(reader: &mut OwnedReadHalf) -> Option<(u64, DirectoryRequest)> {
    let mut head = [0; HEADER_BYTES];
    reader.read_exact(&mut head).await.ok()?;
    let header = ServerHeader::decode(&head).ok()?;
    let mut body = vec![0; header.body_bytes];
    reader.read_exact(&mut body).await.ok()?;
    header.decode_request(&body).ok()
}
