// SPDX-License-Identifier: Apache-2.0
//! The open descriptors of one driver. Each has an identity that is never given twice.
//!
//! A descriptor is closed only when no operation on it is in flight. Otherwise the kernel could
//! give its number to another file while a queued operation still names it.

use env::IoError;
use rustix::fs::{FlockOperation, Stat, flock, stat, unlink};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Descriptors that can be open at once: as many as 16 bits of an identity can name. With more,
/// opening fails with EMFILE, as in the kernel.
const OPEN_MAX: usize = 1 << 16;

/// What a descriptor is. This decides how it is closed.
pub(crate) enum Kind {
    /// A regular file with a lock on it.
    RegularFile,
    /// A block device, opened exclusively.
    BlockDevice,
    /// A connection.
    Link,
    /// A listening socket. A Unix socket has a file.
    Listener(Option<SocketFile>),
}

/// The file of a Unix socket. Its inode is remembered, so that only our own file is removed.
pub(crate) struct SocketFile {
    path: String,
    inode: (u64, u64),
}

impl SocketFile {
    /// The socket file that stands at `path` now.
    pub(crate) fn at(path: &str) -> Result<Self, rustix::io::Errno> {
        Ok(Self { path: path.to_owned(), inode: inode_of(&stat(path)?) })
    }

    /// Removes the file, unless another file stands there by now.
    pub(crate) fn remove(&self) {
        if stat(self.path.as_str()).is_ok_and(|found| inode_of(&found) == self.inode) {
            // A failure leaves a dead file, which the next listener replaces.
            let _ = unlink(self.path.as_str());
        }
    }
}

fn inode_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// A descriptor that calls in other threads may share. It is closed when the last of them drops it.
pub(crate) struct Shared {
    fd: OwnedFd,
    is_locked: bool,
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Releases the lock before the close. A worker of the kernel may hold the file a moment longer
/// than its operation lasts, and the lock would stay as long.
impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_locked {
            let _ = flock(&self.fd, FlockOperation::Unlock);
        }
    }
}

struct File {
    fd: Arc<Shared>,
    kind: Kind,
    /// The path by which a device was opened; `None` for sockets.
    path: Option<Arc<str>>,
    in_flight: u32,
    is_closing: bool,
}

/// A device whose descriptor is to be closed by a helper thread, because that may hang.
pub(crate) struct Retired {
    pub(crate) path: Arc<str>,
    pub(crate) fd: Arc<Shared>,
}

#[derive(Default)]
struct Place {
    generation: u16,
    file: Option<File>,
}

/// All open descriptors. An identity is a place (the low 16 bits) and its generation. A place whose
/// generations are used up is not used again.
#[derive(Default)]
pub(crate) struct Files {
    places: Vec<Place>,
    free: Vec<u16>,
    retired: Vec<Retired>,
}

fn place_of(id: u32) -> usize {
    (id & 0xFFFF) as usize
}

impl Files {
    /// Takes in a socket and returns its identity.
    pub(crate) fn insert(&mut self, fd: OwnedFd, kind: Kind) -> Result<u32, IoError> {
        self.insert_at(fd, kind, None)
    }

    /// Takes in a device and returns its identity.
    pub(crate) fn insert_disk(
        &mut self,
        fd: OwnedFd,
        kind: Kind,
        path: &str,
    ) -> Result<u32, IoError> {
        self.insert_at(fd, kind, Some(Arc::from(path)))
    }

    fn insert_at(
        &mut self,
        fd: OwnedFd,
        kind: Kind,
        path: Option<Arc<str>>,
    ) -> Result<u32, IoError> {
        let is_locked = matches!(kind, Kind::RegularFile);
        let fd = Arc::new(Shared { fd, is_locked });
        let file = File { fd, kind, path, in_flight: 0, is_closing: false };
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < OPEN_MAX => {
                self.places.push(Place::default());
                (self.places.len() - 1) as u16
            }
            None => return Err(IoError::Device { errno: libc::EMFILE }),
        };
        let place = &mut self.places[usize::from(index)];
        assert!(place.file.is_none(), "a place in use was given again");
        place.file = Some(file);
        Ok(u32::from(place.generation) << 16 | u32::from(index))
    }

    fn get(&mut self, id: u32) -> Option<&mut File> {
        let place = self.places.get_mut(place_of(id))?;
        if u32::from(place.generation) != id >> 16 {
            return None;
        }
        place.file.as_mut()
    }

    /// Counts one more operation on a file, until [`Files::leave`]. Returns the descriptor.
    pub(crate) fn enter(&mut self, id: u32) -> Result<RawFd, IoError> {
        match self.get(id) {
            Some(file) if !file.is_closing => {
                file.in_flight += 1;
                Ok(file.fd.fd.as_raw_fd())
            }
            _ => Err(IoError::Closed),
        }
    }

    /// Counts the end of one operation. Returns whether the file was closed meanwhile.
    pub(crate) fn leave(&mut self, id: u32) -> bool {
        let Some(file) = self.get(id) else { unreachable!("closed with an operation in flight") };
        file.in_flight -= 1;
        let is_closing = file.is_closing;
        if is_closing && file.in_flight == 0 {
            self.remove(id);
        }
        is_closing
    }

    /// A device's descriptor and path, for a call in another thread.
    pub(crate) fn share(&mut self, id: u32) -> Result<(Arc<Shared>, Arc<str>), IoError> {
        let file = self.get(id).filter(|file| !file.is_closing).ok_or(IoError::Closed)?;
        match &file.path {
            Some(path) => Ok((Arc::clone(&file.fd), Arc::clone(path))),
            None => Err(IoError::Closed),
        }
    }

    /// Whether the file is a block device.
    pub(crate) fn is_block_device(&mut self, id: u32) -> bool {
        self.get(id).is_some_and(|file| matches!(file.kind, Kind::BlockDevice))
    }

    /// The next device to be closed. No operation names it any more.
    pub(crate) fn next_retired(&mut self) -> Option<Retired> {
        self.retired.pop()
    }

    /// Refuses new operations on a file, and makes those of a socket fail. The descriptor is closed
    /// when no operation is left.
    pub(crate) fn close(&mut self, id: u32) {
        let Some(file) = self.get(id) else { return };
        if file.is_closing {
            return;
        }
        file.is_closing = true;
        match &file.kind {
            Kind::RegularFile | Kind::BlockDevice => {}
            // This fails if the peer is gone already. Then the operations fail anyway.
            Kind::Link => _ = shutdown(&file.fd.fd, Shutdown::Both),
            Kind::Listener(socket_file) => {
                _ = shutdown(&file.fd.fd, Shutdown::Both);
                if let Some(socket_file) = socket_file {
                    socket_file.remove();
                }
            }
        }
        if file.in_flight == 0 {
            self.remove(id);
        }
    }

    /// Closes all files.
    pub(crate) fn close_all(&mut self) {
        for index in 0..self.places.len() {
            let id = u32::from(self.places[index].generation) << 16 | index as u32;
            self.close(id);
        }
    }

    fn remove(&mut self, id: u32) {
        let index = place_of(id);
        let place = &mut self.places[index];
        if let Some(File { path: Some(path), fd, .. }) = place.file.take() {
            self.retired.push(Retired { path, fd });
        }
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(index as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn an_identity_is_never_given_twice_and_a_close_waits() {
        let mut files = Files::default();
        let open = |files: &mut Files| {
            files.insert(eventfd(0, EventfdFlags::CLOEXEC).unwrap(), Kind::Link).unwrap()
        };
        let first = open(&mut files);
        files.enter(first).unwrap();
        files.close(first);
        assert_eq!(files.enter(first), Err(IoError::Closed));
        let second = open(&mut files);
        assert_ne!(place_of(first), place_of(second), "the place is in use until the last leave");
        assert!(files.leave(first));
        let mut seen = std::collections::BTreeSet::from([first, second]);
        for _ in 0..70_000 {
            let id = open(&mut files);
            assert!(seen.insert(id), "an identity came twice");
            files.close(id);
            files.close(id);
        }
        assert!(files.enter(second).is_ok());
    }
}
