// SPDX-License-Identifier: Apache-2.0
//! The form of a host's answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The request itself is wrong; nothing could make it work.
    Usage,
    /// The request is fine but cannot be done now.
    Failed,
}

/// Why a command failed: one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandFailure {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// One line for people.
    pub message: String,
}

/// A host's answer to a [`Command`](crate::Command).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandReply {
    /// Done; the value depends on the command.
    Ok(serde_json::Value),
    /// Not done.
    Error(CommandFailure),
}
