// SPDX-License-Identifier: Apache-2.0
//! What a process asked for and still waits for: calls, dials, operations on devices.

use crate::ends::EndRef;
use crate::loose::LooseOp;
use base::LateFrame;
use devicemodel::DeviceOp;
use env::{Address, Buf, DiskId, Durability, IoError, OpenDisk, Slice, Token};

/// A call that may hang. In the real world io_uring or a helper thread makes it for the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceCall {
    /// Opening a device or file that exists.
    Open,
    /// Creating a file.
    Create,
    /// Asking whether a path still leads to the open device, or what hardware is at a path.
    Look,
    /// Closing a device. The device is in use until this ends.
    Close,
    /// One discard.
    Discard,
}

impl DeviceCall {
    /// Every kind of call.
    pub const ALL: [Self; 5] = [Self::Open, Self::Create, Self::Look, Self::Close, Self::Discard];
}

/// A late call under way.
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
    /// Who waits; `None`: the dial was cancelled.
    pub(crate) token: Option<Token>,
    /// The host that it goes to; `None`: there is no such machine.
    pub(crate) to: Option<u32>,
    pub(crate) address: Address,
    pub(crate) until: u64,
    /// The machine was found dead, and it was drawn that this dial gets no error for it.
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
    /// How it takes effect; `None`: all at once, when it ends.
    pub(crate) loose: Option<LooseOp>,
}

pub(crate) enum DiskWork {
    Read { offset: u64, into: Buf, at: usize },
    Write { offset: u64, from: Slice, durability: Durability },
    Flush { cover: u64 },
    Discard { offset: u64, bytes: u64 },
}

impl DiskWork {
    /// How many bytes it reads, writes or discards.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Read { into, at, .. } => into.len() - at,
            Self::Write { from, .. } => from.len(),
            Self::Flush { .. } => 0,
            Self::Discard { bytes, .. } => return *bytes,
        };
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// What a device's model is asked. Discards are beyond the models, and cost nothing there.
    pub(crate) fn device_op(&self) -> Option<DeviceOp> {
        let (offset, bytes) = match self {
            Self::Read { offset, into, at } => (*offset, into.len() - at),
            Self::Write { offset, from, .. } => (*offset, from.len()),
            Self::Flush { .. } => return Some(DeviceOp::Flush),
            Self::Discard { .. } => return None,
        };
        Some(DeviceOp::Transfer { offset, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) })
    }
}

/// One kind of frame that is late where one host sends it or takes it in.
pub(crate) struct LateKind {
    pub(crate) host: u32,
    pub(crate) frame: LateFrame,
    /// Nanoseconds, at most.
    pub(crate) most: u64,
}
