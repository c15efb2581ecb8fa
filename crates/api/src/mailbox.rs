// SPDX-License-Identifier: Apache-2.0
//! Asks a shard through its control socket: one line of JSON goes there and one comes back.

use operator::{Command, StatusReport};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest answer that is read: a status of 12,800 volumes is a tenth of it.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    /// Nobody listens, or this user may not ask.
    #[error("{0}")]
    Away(#[source] io::Error),
    /// It listens and does not answer in time.
    #[error("no answer in time")]
    Late(#[source] io::Error),
    /// It ended the connection.
    #[error("the connection was closed without an answer")]
    Closed,
    /// The question or the answer is not what it should be.
    #[error("{0}")]
    Form(#[from] serde_json::Error),
}

/// Sends one line and reads one.
///
/// # Errors
/// [`MailboxError`].
pub fn exchange<Q: Serialize, A: DeserializeOwned>(
    socket: &Path,
    question: &Q,
    patience: Duration,
) -> Result<A, MailboxError> {
    let mut text = serde_json::to_string(question)?;
    text.push('\n');
    let mut stream = UnixStream::connect(socket).map_err(MailboxError::Away)?;
    stream.set_read_timeout(Some(patience)).map_err(MailboxError::Away)?;
    stream.set_write_timeout(Some(patience)).map_err(MailboxError::Away)?;
    stream.write_all(text.as_bytes()).map_err(MailboxError::Late)?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    reader.read_line(&mut answer).map_err(MailboxError::Late)?;
    if answer.is_empty() {
        return Err(MailboxError::Closed);
    }
    Ok(serde_json::from_str(&answer)?)
}

/// A [`operator::CommandReply`] to [`Command::Status`], read into its type at once: the way through
/// `serde_json::Value` takes several times as long where there are thousands of volumes.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum StatusReply {
    Ok(Box<StatusReport>),
    Error(IgnoredAny),
}

/// A shard's status. `None` where it does not answer within `patience`.
#[must_use]
pub fn status_within(socket: &Path, patience: Duration) -> Option<StatusReport> {
    match exchange(socket, &Command::Status, patience).ok()? {
        StatusReply::Ok(report) => Some(*report),
        StatusReply::Error(_) => None,
    }
}
