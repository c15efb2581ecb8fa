// SPDX-License-Identifier: Apache-2.0
//! Asks the API of this machine's host, or of a cluster on this machine.

use crate::Fail;
use anyhow::{Result, anyhow};
use api::{ApiClient, ApiRequest, CallError, Problem};
use operator::{Command, StatusReport};
use serde::de::DeserializeOwned;
use std::io::ErrorKind::PermissionDenied;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whom to ask: any shard that knows, or one by its name.
#[derive(Clone, Debug)]
pub struct ApiDoor {
    api: ApiClient,
    shard: Option<String>,
}

impl ApiDoor {
    /// Whoever answers at an API's socket.
    pub fn any(socket: &Path) -> Self {
        Self { api: ApiClient::at(socket), shard: None }
    }

    /// One shard.
    pub fn of(self, shard: &str) -> Self {
        Self { shard: Some(shard.to_owned()), ..self }
    }
}

/// Asks, and waits for the answer as long as the command may take.
///
/// # Errors
/// A [`Fail`] where the command was refused; anything else: nobody answered.
pub fn ask<A: DeserializeOwned>(door: &ApiDoor, command: &Command) -> Result<A> {
    let request = ApiRequest::of(command, door.shard.as_deref());
    let request = request.ok_or_else(|| anyhow!("no request stands for this command"))?;
    door.api.call(&request).map_err(|error| refused(door, error))
}

/// Reads what is at a path of the API that no command stands for.
///
/// # Errors
/// As of [`ask`].
pub fn look<A: DeserializeOwned>(door: &ApiDoor, path: &str) -> Result<A> {
    door.api.get(path).map_err(|error| refused(door, error))
}

/// Reads the text that is at a path of the API's listener.
///
/// # Errors
/// As of [`ask`].
pub fn text(door: &ApiDoor, path: &str) -> Result<String> {
    door.api.text(path).map_err(|error| refused(door, error))
}

fn refused(door: &ApiDoor, error: CallError) -> anyhow::Error {
    match error {
        CallError::Away(error) if error.kind() == PermissionDenied => {
            Fail::failed(refusal(door.api.socket().unwrap_or(Path::new("")))).into()
        }
        CallError::Away(_) => anyhow!("no host answers: start the cluster with 'gabion up'"),
        CallError::Problem(problem) => told(&problem),
        error @ (CallError::Late | CallError::Form(_)) => error.into(),
    }
}

fn told(problem: &Problem) -> anyhow::Error {
    let detail = &problem.detail;
    match problem.status {
        400 => Fail::usage(detail).into(),
        _ if problem.is_passing() => anyhow!("{detail}"),
        _ => Fail::failed(detail).into(),
    }
}

fn refusal(socket: &Path) -> String {
    format!(
        "permission denied at the socket '{}': it is for the user that runs the host; run this as \
         that user or as root",
        socket.display()
    )
}

/// Why nobody could be asked at an API's socket, beside the sockets of the shards that it is for.
/// `None` where none of them runs.
pub fn why_away(socket: &Path, shards: &[PathBuf]) -> Option<String> {
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == PermissionDenied => Some(refusal(socket)),
        Err(_) if shards.iter().any(|shard| UnixStream::connect(shard).is_ok()) => Some(
            "the host runs an older program, which has no API yet: start it again with this one \
             ('systemctl restart gabion')"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The status of a shard that this machine runs, from its own socket. `None` where it does not
/// answer within two seconds.
pub fn shard_status(socket: &Path) -> Option<StatusReport> {
    api::status_within(socket, Duration::from_secs(2))
}
