// SPDX-License-Identifier: Apache-2.0
//! What the clients of the campaign ask for.

use nbd::numbers::{REQUEST_SIZE, command, flag};
use std::fmt;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientCommand {
    /// Read the range: the answer brings its data.
    Read,
    /// Write the range: the data follows the request.
    Write,
    /// The client goes. What it sent before is finished and answered.
    Disconnect,
    /// The range may lose its space and reads as zeros.
    Trim,
    /// The range becomes zeros and keeps its space.
    Zeroes,
    /// Which parts of the range hold data.
    Status,
}

impl ClientCommand {
    /// Bytes of data that the answer to a request of `length` bytes brings.
    pub fn answer_bytes(self, length: u64) -> usize {
        if self == Self::Read { usize::try_from(length).unwrap_or(usize::MAX) } else { 0 }
    }

    /// One request as it goes over the wire; the payload of a write follows.
    pub fn request(self, cookie: u64, offset: u64, length: u32) -> [u8; REQUEST_SIZE] {
        let (number, flags) = match self {
            Self::Read => (command::READ, 0),
            Self::Write => (command::WRITE, 0),
            Self::Disconnect => (command::DISC, 0),
            Self::Trim => (command::TRIM, 0),
            Self::Zeroes => (command::WRITE_ZEROES, flag::NO_HOLE),
            Self::Status => (command::BLOCK_STATUS, 0),
        };
        nbdclient::frames::request(number, flags, cookie, offset, length)
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Disconnect => "disconnect",
            Self::Trim => "trim",
            Self::Zeroes => "write-zeroes",
            Self::Status => "block-status",
        }
    }
}

impl fmt::Display for ClientCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
