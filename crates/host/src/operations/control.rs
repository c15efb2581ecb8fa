// SPDX-License-Identifier: Apache-2.0
//! The operator's door to a host: one JSON request per line over a Unix socket, one line back.

use super::Operations;
use env::{Buf, Env, Link, Listener, TaskSet};
use operator::{Command, CommandFailure, CommandReply, ErrorKind};
use std::rc::Rc;
use tracing::debug;

/// Longest request line, bytes.
const LINE_MAX: usize = 64 << 10;
/// Connections served at once; more wait in the accept queue.
const CONNECTIONS_MAX: usize = 64;

/// Serves operators until dropped.
pub(crate) async fn serve(env: Env, listener: Listener, operations: Rc<Operations>) {
    let sessions = TaskSet::default();
    loop {
        let Ok(link) = listener.accept().await else {
            env.sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        if sessions.len() >= CONNECTIONS_MAX {
            continue; // dropped: the operator sees a closed connection and tries again
        }
        let (inner, operations) = (env.clone(), Rc::clone(&operations));
        sessions.spawn(&env, "control session", async move {
            if let Some(reason) = session(&inner, &link, &operations).await {
                debug!(reason, "control session ended");
            }
        });
    }
}

async fn session(env: &Env, link: &Link, operations: &Operations) -> Option<&'static str> {
    let mut buf = env.buf(LINE_MAX);
    let mut filled = 0;
    loop {
        let (line, rest) = match read_line(link, buf, filled).await {
            Ok(parts) => parts,
            Err(reason) => return Some(reason),
        };
        let reply = match serde_json::from_slice::<Command>(&line) {
            Ok(command) => operations.carry_out(command).await,
            Err(error) => CommandReply::Error(CommandFailure {
                kind: ErrorKind::Usage,
                message: format!("not a command: {error}"),
            }),
        };
        let mut text = match serde_json::to_vec(&reply) {
            Ok(text) => text,
            Err(_) => return Some("unprintable reply"),
        };
        text.push(b'\n');
        let mut out = env.buf(text.len());
        out.copy_from_slice(&text);
        if link.send(out.freeze()).await.is_err() {
            return Some("operator gone");
        }
        buf = rest.0;
        filled = rest.1;
    }
}

/// One line without its newline, and the buffer with what came behind it.
async fn read_line(
    link: &Link,
    mut buf: Buf,
    mut filled: usize,
) -> Result<(Vec<u8>, (Buf, usize)), &'static str> {
    loop {
        if let Some(at) = buf[..filled].iter().position(|byte| *byte == b'\n') {
            let line = buf[..at].to_vec();
            buf.copy_within(at + 1..filled, 0);
            return Ok((line, (buf, filled - at - 1)));
        }
        if filled == buf.len() {
            return Err("line too long");
        }
        let (back, count) = link.recv(buf, filled).await.map_err(|_| "connection broken")?;
        if count == 0 {
            return Err("operator done");
        }
        buf = back;
        filled += count;
    }
}

/// Asks a host over an open link: for tests and for tools that live in an `Env`.
///
/// # Errors
/// A line saying what broke.
pub async fn call(env: &Env, link: &Link, command: &Command) -> Result<CommandReply, &'static str> {
    let mut text = serde_json::to_vec(command).map_err(|_| "unprintable command")?;
    text.push(b'\n');
    let mut out = env.buf(text.len());
    out.copy_from_slice(&text);
    link.send(out.freeze()).await.map_err(|_| "connection broken")?;
    let (line, _) = read_line(link, env.buf(LINE_MAX * 16), 0).await?;
    serde_json::from_slice(&line).map_err(|_| "not a reply")
}
