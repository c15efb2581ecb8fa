// SPDX-License-Identifier: Apache-2.0
//! Asks a host.

use crate::Fail;
use anyhow::Result;
use operator::{Command, CommandReply, ErrorKind, StatusReport};
use serde::de::DeserializeOwned;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest wait for an answer: creating a volume waits for the directory and for the other hosts.
const ANSWER_MAX: Duration = Duration::from_secs(30);

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
    let reply: CommandReply = api::exchange(socket, command, patience)?;
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
    api::status_within(socket, Duration::from_secs(2))
}
