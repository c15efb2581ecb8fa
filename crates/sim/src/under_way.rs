// SPDX-License-Identifier: Apache-2.0
//! What a process asked for and has no answer to: calls, dials, operations on devices.

use crate::ends::EndRef;
use env::{Address, Buf, DiskId, Durability, IoError, OpenDisk, Slice, Token};

/// A call that io_uring or a helper thread makes for the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Call {
    /// Opening what is there.
    Open,
    /// Making a file.
    Create,
    /// Whether the path still leads to the open device, and what its hardware is.
    Look,
    /// Closing: the device is in use until its end.
    Close,
    /// Each discard.
    Discard,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Open, Self::Create, Self::Look, Self::Close, Self::Discard];
}

/// A call under way.
pub(crate) struct LateCall {
    pub(crate) host: u32,
    pub(crate) process: u32,
    pub(crate) serial: u64,
    pub(crate) path: String,
    pub(crate) what: What,
}

pub(crate) enum What {
    Open(Token, OpenDisk),
    Look(Token, DiskId),
    Hardware(Token),
    /// The world's number of the disk.
    Close(u32),
}

/// One attempt to connect. It always has exactly one event in the queue.
pub(crate) struct Dial {
    pub(crate) process: u32,
    /// `None`: cancelled.
    pub(crate) token: Option<Token>,
    /// Where it goes; `None`: no such machine.
    pub(crate) to: Option<u32>,
    pub(crate) address: Address,
    pub(crate) until: u64,
    /// The machine was found dead: how that ends was decided.
    pub(crate) hangs: bool,
    pub(crate) outcome: Result<EndRef, IoError>,
}

/// One operation on a device.
pub(crate) struct DiskOp {
    pub(crate) process: u32,
    pub(crate) token: Token,
    pub(crate) disk: u32,
    pub(crate) serial: u64,
    pub(crate) work: DiskWork,
}

pub(crate) enum DiskWork {
    Read { offset: u64, into: Buf, at: usize },
    Write { offset: u64, from: Slice, durability: Durability },
    Flush { cover: u64 },
    Discard { offset: u64, bytes: u64 },
}
