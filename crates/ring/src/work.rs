// SPDX-License-Identifier: Apache-2.0
//! Operations in flight: what each one owns while the kernel uses it, how it becomes a queue entry,
//! and what the kernel's result means.

use crate::errors::{disk_error, is_transient, socket_error};
use env::{Buf, Done, Durability, IoError, Slice, Token};
use io_uring::{opcode, squeue, types};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The most bytes of one queue entry. The rest of a larger transfer follows in further entries.
const PIECE_MAX: usize = 1 << 30;
/// How often an operation is tried again because the kernel asks for it. After that it fails.
const RETRIES_MAX: u8 = 16;

/// One operation with everything that it owns. `disk`, `link` and `listener` are identities in
/// [`crate::files::Files`].
pub(crate) enum Work {
    Read {
        disk: u32,
        offset: u64,
        into: Buf,
        at: usize,
        done: usize,
    },
    Write {
        disk: u32,
        offset: u64,
        from: Slice,
        done: usize,
        durability: Durability,
    },
    Flush {
        disk: u32,
    },
    /// Makes a hole in a file. On block devices, helper threads discard.
    Discard {
        disk: u32,
        offset: u64,
        bytes: u64,
    },
    Accept {
        listener: u32,
    },
    Dial {
        socket: Option<OwnedFd>,
        to: Box<SocketAddrAny>,
    },
    Send {
        link: u32,
        from: Slice,
        done: usize,
    },
    Recv {
        link: u32,
        into: Buf,
        at: usize,
    },
    /// The driver's own read of its eventfd.
    Wake {
        count: Box<u64>,
    },
}

/// What to do after a completion.
pub(crate) enum Step {
    /// Submit the operation again, or what is left of it.
    Again,
    /// A socket was connected.
    Connected(OwnedFd),
    /// A caller was accepted.
    Accepted(OwnedFd),
    /// The operation is over.
    Over(Result<Done, IoError>),
}

impl Work {
    /// The open file that counts this operation.
    pub(crate) fn file(&self) -> Option<u32> {
        match self {
            Self::Read { disk, .. }
            | Self::Write { disk, .. }
            | Self::Flush { disk }
            | Self::Discard { disk, .. } => Some(*disk),
            Self::Accept { listener } => Some(*listener),
            Self::Send { link, .. } | Self::Recv { link, .. } => Some(*link),
            Self::Dial { .. } | Self::Wake { .. } => None,
        }
    }

    /// Whether the operation fails if its file is closed meanwhile. Disk operations do not.
    pub(crate) fn ends_with_file(&self) -> bool {
        matches!(self, Self::Accept { .. } | Self::Send { .. } | Self::Recv { .. })
    }

    /// The buffer to give back to the caller, if it gave one.
    pub(crate) fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Read { into, .. } | Self::Recv { into, .. } => Some(into),
            _ => None,
        }
    }

    /// The queue entry for what is left of the operation. Its pointers stay valid while this value
    /// lives, even if it moves: the memory that they name is behind a `Vec`, `Rc` or `Box`.
    pub(crate) fn entry(&mut self, fd: RawFd) -> squeue::Entry {
        let fd = types::Fd(fd);
        match self {
            Self::Read { offset, into, at, done, .. } => {
                let rest = &mut into[*at + *done..];
                opcode::Read::new(fd, rest.as_mut_ptr(), piece(rest.len()))
                    .offset(*offset + *done as u64)
                    .build()
            }
            Self::Write { offset, from, done, durability, .. } => {
                let rest = &from[*done..];
                let flags = match durability {
                    Durability::Cached => 0,
                    Durability::Durable => libc::RWF_DSYNC,
                };
                opcode::Write::new(fd, rest.as_ptr(), piece(rest.len()))
                    .offset(*offset + *done as u64)
                    .rw_flags(flags)
                    .build()
            }
            Self::Flush { .. } => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Self::Discard { offset, bytes, .. } => opcode::Fallocate::new(fd, *bytes)
                .offset(*offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            Self::Accept { .. } => {
                opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            Self::Dial { to, .. } => {
                opcode::Connect::new(fd, to.as_ptr().cast(), to.addr_len()).build()
            }
            Self::Send { from, done, .. } => {
                let rest = &from[*done..];
                opcode::Send::new(fd, rest.as_ptr(), piece(rest.len()))
                    .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                    .build()
            }
            Self::Recv { into, at, .. } => {
                let rest = &mut into[*at..];
                opcode::Recv::new(fd, rest.as_mut_ptr(), piece(rest.len())).build()
            }
            Self::Wake { count } => {
                let place: *mut u64 = &mut **count;
                opcode::Read::new(fd, place.cast(), 8).build()
            }
        }
    }

    /// Takes in the kernel's result.
    fn advance(&mut self, result: i32) -> Step {
        let Ok(count) = usize::try_from(result) else {
            let error = Errno::from_raw_os_error(-result);
            return Step::Over(Err(self.error(error)));
        };
        match self {
            Self::Read { into, at, done, .. } => transferred(done, count, into.len() - *at),
            Self::Write { from, done, .. } => transferred(done, count, from.len()),
            Self::Send { from, done, .. } => {
                *done += count;
                assert!(*done <= from.len(), "the kernel sent more than it was given");
                if *done == from.len() {
                    return Step::Over(Ok(Done::Unit));
                }
                if count == 0 { Step::Over(Err(IoError::Reset)) } else { Step::Again }
            }
            Self::Recv { .. } => Step::Over(Ok(Done::Bytes(count))),
            // SAFETY: a successful accept's result is a new descriptor that nobody else knows.
            Self::Accept { .. } => Step::Accepted(unsafe { OwnedFd::from_raw_fd(result) }),
            Self::Dial { socket, .. } => match socket.take() {
                Some(socket) => Step::Connected(socket),
                None => unreachable!("a dial completes once"),
            },
            Self::Wake { .. } => Step::Again,
            Self::Flush { .. } | Self::Discard { .. } => Step::Over(Ok(Done::Unit)),
        }
    }

    fn error(&self, error: Errno) -> IoError {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::Flush { .. } | Self::Discard { .. } => {
                disk_error(error)
            }
            _ => socket_error(error),
        }
    }

    /// Whether the operation may be tried again. A flush may not, because a second one could
    /// succeed and hide that the first one failed.
    fn may_retry(&self) -> bool {
        !matches!(self, Self::Flush { .. } | Self::Dial { .. })
    }
}

fn piece(len: usize) -> u32 {
    len.min(PIECE_MAX) as u32
}

/// A disk transfer has moved `count` bytes more. It goes on while it moves and stays aligned.
fn transferred(done: &mut usize, count: usize, wanted: usize) -> Step {
    *done += count;
    assert!(*done <= wanted, "the kernel moved more than it was given");
    if *done == wanted {
        return Step::Over(Ok(Done::Unit));
    }
    if count > 0 && done.is_multiple_of(512) {
        return Step::Again;
    }
    Step::Over(Err(IoError::Short { done: *done as u64, wanted: wanted as u64 }))
}

/// One submitted operation and what is known of its fate.
pub(crate) struct Flight {
    pub(crate) token: Token,
    pub(crate) fd: RawFd,
    pub(crate) work: Work,
    pub(crate) is_cancelled: bool,
    retries: u8,
}

impl Flight {
    pub(crate) fn new(token: Token, fd: RawFd, work: Work) -> Self {
        Self { token, fd, work, is_cancelled: false, retries: 0 }
    }

    /// What to do after this result of the kernel.
    pub(crate) fn step(&mut self, result: i32) -> Step {
        let is_transient = result < 0 && is_transient(Errno::from_raw_os_error(-result));
        let step = if is_transient && self.is_cancelled {
            Step::Over(Err(IoError::Cancelled)) // an interrupted worker
        } else if is_transient && self.work.may_retry() && self.retries < RETRIES_MAX {
            self.retries += 1;
            Step::Again
        } else {
            self.work.advance(result)
        };
        match step {
            Step::Again if self.is_cancelled => Step::Over(Err(IoError::Cancelled)),
            step => step,
        }
    }
}

/// All operations in flight. Places are reused, so that a steady load allocates nothing. The name
/// of a flight (the kernel's user data) is its place and a generation, so names are not reused.
#[derive(Default)]
pub(crate) struct Flights {
    places: Vec<(u32, Option<Flight>)>,
    free: Vec<u32>,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Takes in a flight and returns its name.
    pub(crate) fn insert(&mut self, flight: Flight) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        assert!(place.1.is_none(), "a place in use was given again");
        place.0 = place.0.wrapping_add(1);
        place.1 = Some(flight);
        u64::from(place.0) << 32 | u64::from(index)
    }

    fn place(&mut self, name: u64) -> &mut (u32, Option<Flight>) {
        let place = &mut self.places[(name & u64::from(u32::MAX)) as usize];
        assert!(u64::from(place.0) == name >> 32, "a completion of a flight that is over");
        place
    }

    /// The flight of this name, which must be in flight.
    pub(crate) fn get(&mut self, name: u64) -> &mut Flight {
        match &mut self.place(name).1 {
            Some(flight) => flight,
            None => unreachable!("a completion of a flight that is over"),
        }
    }

    /// Takes out a flight that is over.
    pub(crate) fn remove(&mut self, name: u64) -> Flight {
        let Some(flight) = self.place(name).1.take() else {
            unreachable!("a flight ends once");
        };
        self.free.push((name & u64::from(u32::MAX)) as u32);
        flight
    }

    /// The name of a token's flight. This looks at all flights: a map would cost something for each
    /// operation, and cancelling is rare.
    pub(crate) fn find(&self, token: Token) -> Option<u64> {
        let flying =
            |flight: &Flight| flight.token == token && !matches!(flight.work, Work::Wake { .. });
        let index = self.places.iter().position(|place| place.1.as_ref().is_some_and(flying))?;
        Some(u64::from(self.places[index].0) << 32 | index as u64)
    }

    /// Forgets all flights without freeing their buffers, which the kernel may still use.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.places));
        self.free.clear();
    }
}
