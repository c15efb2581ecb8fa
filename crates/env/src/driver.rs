// SPDX-License-Identifier: Apache-2.0
//! The operating system as one shard sees it: submissions in, completions out.

use crate::buf::{Buf, Slice};
use base::{Instant, Quirk, WallTime};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Names one submitted operation; chosen by the executor, unique among those in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// An open device or file; meaningful to the driver that gave it. Never reused by one driver, like
/// [`LinkId`] and [`ListenerId`]: closing twice is harmless.
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
    /// TCP, with TCP_NODELAY on both ends. Port 0 listens on a free port.
    Tcp(SocketAddr),
}

/// Who may call a Unix listener: its socket file's mode, owner and group. From its first moment the
/// file is no looser than this, whatever the process's umask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Permission bits; a caller needs the one for writing.
    pub mode: u32,
    /// Number of the user that owns it; `None`: the process's own.
    pub owner: Option<u32>,
    /// Number of its group; `None`: the process's own.
    pub group: Option<u32>,
}

impl Default for Access {
    /// For the process's own user alone.
    fn default() -> Self {
        Self { mode: 0o600, owner: None, group: None }
    }
}

/// Who called a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Caller {
    /// A process of this machine, over a Unix socket: the number of its user.
    User(u32),
    /// Over TCP, from there.
    Remote(IpAddr),
}

/// How safe a write is when it completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// In the device's cache; a later flush makes it durable.
    Cached,
    /// On stable media, through the device's own cache (O_DSYNC or FUA).
    Durable,
}

/// How to open a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenDisk {
    /// Path of a regular file or block device.
    pub path: String,
    /// Bytes: create a regular file of this size (space allocated, content zero) where nothing
    /// stands at `path`. `None`: it must exist. Never shrinks, grows or truncates what exists.
    pub create: Option<u64>,
}

/// What a device says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskInfo {
    /// Bytes.
    pub size: u64,
    /// Whether it is a regular file: fresh extents cost a file-system journal commit.
    pub is_file: bool,
    /// Whether it is a file of which the greater part had no space of its own when it was opened.
    /// Whoever made such a file wants it to take no more space than what is written.
    pub is_sparse: bool,
    /// Whether this open created it.
    pub is_new: bool,
}

/// What the operating system says of the hardware below a path; only for people, and for whether a
/// device is what an operator takes it for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Whether it has platters; `None`: nobody knows.
    pub is_rotational: Option<bool>,
    /// Vendor's name of it.
    pub model: Option<String>,
}

/// One request to the operating system. It owns its buffers until its completion, so dropping a
/// future never frees memory that the kernel still uses. Offsets and lengths are bytes.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are named in each variant's text")]
pub enum Op {
    /// Opens with O_DIRECT and an exclusive lock (held until closed or the process ends).
    /// Completes with [`Done::Disk`].
    OpenDisk(OpenDisk),
    /// Reads exactly as many bytes as `into[at..]` has, from `offset` on. All three are multiples
    /// of 512. A short read is [`IoError::Short`].
    Read { disk: DiskId, offset: u64, into: Buf, at: usize },
    /// Writes all of `from`. Offset, length and memory are multiples of 512.
    Write { disk: DiskId, offset: u64, from: Slice, durability: Durability },
    /// Everything completed before this was submitted is on stable media when it completes.
    Flush { disk: DiskId },
    /// Gives space back (TRIM or hole punching); the range reads as zeros or as before.
    Discard { disk: DiskId, offset: u64, bytes: u64 },
    /// Whether `path` still leads to the open device: completes with [`Done::Size`], or with
    /// [`IoError::NotFound`] where something else stands there, or nothing.
    LookAtDisk { disk: DiskId, path: String },
    /// What is known of the device at `path`, open or not: completes with [`Done::Hardware`], with
    /// nothing known where no block device stands there.
    AskHardware { path: String },
    /// Closes; later operations on it fail with [`IoError::Closed`].
    CloseDisk { disk: DiskId },
    /// Completes with [`Done::Listener`]. `access` is for Unix sockets; [`IoError::Denied`] where
    /// this process may not give the file to that owner or group.
    Listen { address: Address, access: Access },
    /// Completes with [`Done::Caller`] for one caller.
    Accept { listener: ListenerId },
    /// Completes with [`Done::Link`].
    Dial { address: Address },
    /// Sends all of `from`, in order with other sends of this link. At most one in flight per link.
    Send { link: LinkId, from: Slice },
    /// Receives at least one byte into `into[at..]`; 0 bytes means that the peer closed its side.
    /// At most one in flight per link.
    Recv { link: LinkId, into: Buf, at: usize },
    /// Closes; operations in flight on it complete with an error.
    Close { link: LinkId },
    /// Stops listening; a Unix socket file is removed.
    CloseListener { listener: ListenerId },
}

/// What an operation brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// Nothing but success.
    Unit,
    /// Bytes received (0: end of stream).
    Bytes(usize),
    /// An open device.
    Disk(DiskId, DiskInfo),
    /// A device's size now, bytes.
    Size(u64),
    /// A device's hardware.
    Hardware(Hardware),
    /// An open connection.
    Link(LinkId),
    /// An open connection that somebody made to us, and who.
    Caller(LinkId, Caller),
    /// A listening socket and where it really listens.
    Listener(ListenerId, Address),
}

/// Why an operation failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IoError {
    /// no such file, device or listening peer
    #[error("not found")]
    NotFound,
    /// another process holds the exclusive lock
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
    /// the connection was reset, refused or broken
    #[error("connection reset")]
    Reset,
    /// nobody listens there
    #[error("connection refused")]
    Refused,
    /// the disk, link or listener is closed
    #[error("closed")]
    Closed,
    /// cancelled before it happened
    #[error("cancelled")]
    Cancelled,
    /// the device did not answer, and nobody waits for it any more; it may still happen
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
    /// The operation's name.
    pub token: Token,
    /// What came of it.
    pub result: Result<Done, IoError>,
    /// The buffer of a `Read` or `Recv`.
    pub buf: Option<Buf>,
}

/// The seam between the two worlds. Two implementations: `ring::RingDriver`, `sim::SimDriver`.
pub trait Driver {
    /// Nanoseconds on the host's boot-time clock.
    fn now(&self) -> Instant;
    /// A clock that is cheap to read, right to some milliseconds, to measure how long computing
    /// takes. It has its own beginning.
    fn coarse(&self) -> Instant {
        self.now()
    }
    /// For people and logs; never for decisions.
    fn wall(&self) -> WallTime;
    /// Seeds generators, nothing else.
    fn entropy(&mut self) -> u64;
    /// Whether a rare path is taken without need; the real world never does.
    fn quirk(&mut self, _quirk: Quirk) -> bool {
        false
    }
    /// Takes the operation; nothing may reach the kernel before the next `park`.
    fn submit(&mut self, token: Token, op: Op);
    /// Asks for an early end; the completion still arrives exactly once.
    fn cancel(&mut self, token: Token);
    /// Pushes submissions, waits until something completed or `until` has come (`None`: for ever;
    /// a time in the past: not at all), and appends what completed to `done`.
    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>);
}
