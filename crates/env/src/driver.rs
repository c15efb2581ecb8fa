// SPDX-License-Identifier: Apache-2.0
//! The operating system as one shard sees it: the shard submits operations, and the [`Driver`]
//! returns their completions.

use crate::buf::{Buf, Slice};
use base::{Instant, LateFrame, Quirk, WallTime};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// Names one submitted operation. The executor chooses it, unique among the operations in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// An open device or file. The number means something only to the driver that gave it.
///
/// One driver never gives a number twice, so closing a device twice is harmless. The same holds for
/// [`LinkId`] and [`ListenerId`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiskId(pub u32);

/// An open stream connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// A listening socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(pub u32);

/// Where a listener listens and a dialler dials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// A Unix stream socket at this path. Listening replaces a dead socket file of that name.
    Unix(String),
    /// TCP, with TCP_NODELAY on both ends. A listener at port 0 gets a free port.
    Tcp(SocketAddr),
}

/// Who may call a Unix listener: the mode, owner and group of its socket file. At no moment does
/// the file grant more than this, whatever the process's umask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Permission bits of the file. A caller needs the permission to write.
    pub mode: u32,
    /// Number of the user that owns the file; `None`: the process's own user.
    pub owner: Option<u32>,
    /// Number of the file's group; `None`: the process's own group.
    pub group: Option<u32>,
}

impl Default for Access {
    /// Only the process's own user may call.
    fn default() -> Self {
        Self { mode: 0o600, owner: None, group: None }
    }
}

/// Who called a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Caller {
    /// A process of this machine, over a Unix socket. This is the number of its user.
    User(u32),
    /// A caller over TCP, from this address.
    Remote(IpAddr),
}

/// How safe a write is when it completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The data is in the device's cache. A later flush makes it durable.
    Cached,
    /// The data is on stable media, past the device's own cache (O_DSYNC or FUA).
    Durable,
}

/// How to open a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenDisk {
    /// Path of a regular file or block device.
    pub path: String,
    /// `Some(bytes)`: if nothing stands at `path`, a regular file of this size is created. All its
    /// space is allocated, and it reads as zeros. What stands at `path` already keeps its size.
    /// `None`: something must stand at `path`.
    pub create: Option<u64>,
}

/// What a device says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskInfo {
    /// Size, bytes.
    pub size: u64,
    /// Whether it is a regular file. In a file, the first write to a new extent costs a commit of
    /// the file system's journal.
    pub is_file: bool,
    /// Whether it is a file, and less than half of its size had space allocated when it was
    /// opened. Whoever made such a file wants it to take only the space that is written.
    pub is_sparse: bool,
    /// Whether this open created it.
    pub is_new: bool,
}

/// What the operating system says of the hardware below a path. It is shown to people, and it tells
/// whether a device is of the kind that an operator takes it for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Whether the device is magnetic, with platters that turn; `None`: unknown.
    pub is_rotational: Option<bool>,
    /// The vendor's name of the model; `None`: unknown.
    pub model: Option<String>,
}

/// One request to the operating system. Offsets and lengths are bytes.
///
/// The operation owns its buffers until its completion. So a dropped future never frees memory that
/// the kernel still uses.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are named in each variant's text")]
pub enum Op {
    /// Opens a device with O_DIRECT and an exclusive lock. The lock is held until the device is
    /// closed or the process ends. Completes with [`Done::Disk`].
    OpenDisk(OpenDisk),
    /// Reads from `offset` on until `into[at..]` is full. `offset`, `at` and the number of bytes
    /// are multiples of 512. A read that brings less fails with [`IoError::Short`].
    Read { disk: DiskId, offset: u64, into: Buf, at: usize },
    /// Writes all of `from`. The offset, the length, and the place of `from` in its buffer are
    /// multiples of 512.
    Write { disk: DiskId, offset: u64, from: Slice, durability: Durability },
    /// Makes durable every write that completed before this operation was submitted.
    Flush { disk: DiskId },
    /// Gives space back to the device (TRIM) or the file system (a hole in a file). Each sector of
    /// the range then reads as zeros or as before.
    Discard { disk: DiskId, offset: u64, bytes: u64 },
    /// Asks whether `path` still leads to the open device. Completes with [`Done::Size`], or with
    /// [`IoError::NotFound`] if nothing or something else stands there.
    LookAtDisk { disk: DiskId, path: String },
    /// Asks what is known of the device at `path`, which need not be open. Completes with
    /// [`Done::Hardware`]; if no block device stands there, nothing is known.
    AskHardware { path: String },
    /// Closes a device. Later operations on it fail with [`IoError::Closed`].
    CloseDisk { disk: DiskId },
    /// Listens at `address`. Completes with [`Done::Listener`]. `access` matters for Unix sockets
    /// only. If this process may not give the socket file to that owner or group, the operation
    /// fails with [`IoError::Denied`].
    Listen { address: Address, access: Access },
    /// Waits for one caller. Completes with [`Done::Caller`].
    Accept { listener: ListenerId },
    /// Connects to `address`. Completes with [`Done::Link`].
    Dial { address: Address },
    /// Sends all of `from`. A link has at most one send in flight.
    Send { link: LinkId, from: Slice },
    /// Receives at least one byte into `into[at..]`. 0 bytes mean that the peer closed its side. A
    /// link has at most one receive in flight.
    Recv { link: LinkId, into: Buf, at: usize },
    /// Closes a link. Its operations in flight complete with an error.
    Close { link: LinkId },
    /// Stops listening. A Unix socket file is removed.
    CloseListener { listener: ListenerId },
}

/// What an operation brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// The operation succeeded and brought nothing.
    Unit,
    /// Bytes received; 0 means the end of the stream.
    Bytes(usize),
    /// An open device.
    Disk(DiskId, DiskInfo),
    /// The size that a device has now, bytes.
    Size(u64),
    /// What is known of a device's hardware.
    Hardware(Hardware),
    /// An open connection.
    Link(LinkId),
    /// An open connection that a caller made to us, and who called.
    Caller(LinkId, Caller),
    /// A listening socket and its address, with the real port where port 0 was asked for.
    Listener(ListenerId, Address),
}

/// Why an operation failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IoError {
    /// no such file, device or listening peer
    #[error("not found")]
    NotFound,
    /// somebody, perhaps this very process, holds the exclusive lock
    #[error("in use by another process")]
    Busy,
    /// permission denied
    #[error("permission denied")]
    Denied,
    /// no space left on the file system below
    #[error("no space left")]
    NoSpace,
    /// the device refused or failed the operation
    #[error("device error {errno}")]
    Device {
        /// The kernel's error number.
        errno: i32,
    },
    /// fewer bytes than asked for
    #[error("short transfer: {done} of {wanted} bytes")]
    Short {
        /// Bytes transferred.
        done: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// the connection was reset or broken, or nothing answered the dial
    #[error("connection reset")]
    Reset,
    /// nobody listens there
    #[error("connection refused")]
    Refused,
    /// the disk, link or listener is closed
    #[error("closed")]
    Closed,
    /// the operation was cancelled before it happened
    #[error("cancelled")]
    Cancelled,
    /// the device did not answer, and nobody waits for it any more; the operation may still happen
    #[error("no answer from the device")]
    NoAnswer,
    /// too many calls wait for devices that do not answer
    #[error("too many calls wait for devices")]
    Overloaded,
    /// the address is in use or cannot be bound
    #[error("address not available")]
    AddressInUse,
}

/// The end of one operation. Every submitted token completes exactly once, cancelled or not.
#[derive(Debug)]
pub struct Completion {
    /// Which operation has ended.
    pub token: Token,
    /// What the operation brought, or why it failed.
    pub result: Result<Done, IoError>,
    /// The buffer of a `Read` or `Recv`, given back.
    pub buf: Option<Buf>,
}

/// What stands below [`crate::Env`]: the kernel (`ring::RingDriver`) or the simulator
/// (`sim::SimDriver`). For tests, `devicemodel::SlowedDriver` makes files of another driver slow.
pub trait Driver {
    /// Nanoseconds on the host's boot-time clock, which never goes back while the host runs.
    fn now(&self) -> Instant;
    /// A clock to measure how long computing takes: cheap to read, and right to some milliseconds.
    /// It does not begin where [`Driver::now`] does, so the two must not be compared.
    fn coarse(&self) -> Instant {
        self.now()
    }
    /// The time of day, for people and logs. No decision may rest on it.
    fn wall(&self) -> WallTime;
    /// 64 random bits, only to seed random generators.
    fn entropy(&mut self) -> u64;
    /// Whether a rare path is to be taken here without need. The real world never says yes.
    fn quirk(&mut self, _quirk: Quirk) -> bool {
        false
    }
    /// How long a frame of this kind is held back here. In the real world never.
    fn delay_of(&mut self, _frame: LateFrame) -> Duration {
        Duration::ZERO
    }
    /// Takes an operation in. The driver may hold it back until the next `park`.
    fn submit(&mut self, token: Token, op: Op);
    /// Asks for an early end of an operation. Its completion still arrives exactly once.
    fn cancel(&mut self, token: Token);
    /// Starts what was submitted, waits until something has completed or `until` has come, and
    /// appends what has completed to `done`. With `None` there is no limit to the wait; with a time
    /// in the past there is no wait.
    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>);
}
