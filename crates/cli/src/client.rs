// SPDX-License-Identifier: Apache-2.0
//! Asks a host or the supervisor: sends one line of JSON and reads one.

use crate::Fail;
use anyhow::{Context, Result, bail};
use operator::{Command, CommandReply, ErrorKind, StatusReport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest wait for an answer: creating a volume waits for the directory and for the other hosts.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Sends one line and reads one.
pub fn exchange<Q: Serialize, A: DeserializeOwned>(
    socket: &Path,
    question: &Q,
    patience: Duration,
) -> Result<A> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    let mut text = serde_json::to_string(question)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context("no answer in time")?;
    if answer.is_empty() {
        bail!("the connection was closed without an answer");
    }
    Ok(serde_json::from_str(&answer)?)
}

/// Asks a host.
pub fn ask<A: DeserializeOwned>(socket: &Path, command: &Command) -> Result<A> {
    ask_within(socket, command, ANSWER_MAX)
}

/// Asks a host for something that may take longer.
pub fn ask_within<A: DeserializeOwned>(
    socket: &Path,
    command: &Command,
    patience: Duration,
) -> Result<A> {
    let reply: CommandReply = exchange(socket, command, patience)?;
    match reply {
        CommandReply::Ok(value) => Ok(serde_json::from_value(value)?),
        CommandReply::Error(failure) if failure.kind == ErrorKind::Usage => {
            Err(Fail::usage(failure.message).into())
        }
        CommandReply::Error(failure) => Err(Fail::failed(failure.message).into()),
    }
}

/// The message about a socket that this user may not use. `None` where that is not the problem.
pub fn refusal(socket: &Path) -> Option<String> {
    let error = UnixStream::connect(socket).err()?;
    (error.kind() == std::io::ErrorKind::PermissionDenied).then(|| {
        format!(
            "permission denied at the socket '{}': it is for the user that runs the host; run this \
             as that user or as root",
            socket.display()
        )
    })
}

/// A host's status. `None` where it does not answer within two seconds.
pub fn status(socket: &Path) -> Option<StatusReport> {
    status_within(socket, Duration::from_secs(2))
}

/// A host's status. `None` where it does not answer within `patience`.
pub fn status_within(socket: &Path, patience: Duration) -> Option<StatusReport> {
    let reply: CommandReply = exchange(socket, &Command::Status, patience).ok()?;
    match reply {
        CommandReply::Ok(value) => serde_json::from_value(value).ok(),
        CommandReply::Error(_) => None,
    }
}
