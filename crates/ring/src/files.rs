// SPDX-License-Identifier: Apache-2.0
//! The open descriptors of one driver, by identities that are never given twice.
//!
//! A descriptor is closed only when no operation on it is in flight: the kernel could otherwise
//! hand its number out again while a queued operation still names it.

use env::IoError;
use rustix::fs::{FlockOperation, Stat, flock, stat, unlink};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Open at once: what 16 bits of an identity can name. More fails with EMFILE, as the kernel does.
const OPEN_MAX: usize = 1 << 16;

/// What a descriptor is, and what its closing takes.
pub(crate) enum Kind {
    /// A regular file with a lock on it.
    RegularFile,
    /// A block device, opened exclusively.
    BlockDevice,
    /// A connection.
    Link,
    /// A listening socket, with its file where it is a Unix socket.
    Listener(Option<SocketFile>),
}

/// The file of a Unix socket, remembered by its inode: only our own is removed.
pub(crate) struct SocketFile {
    path: String,
    inode: (u64, u64),
}

impl SocketFile {
    /// The socket file that stands at `path` now.
    pub(crate) fn at(path: &str) -> Result<Self, rustix::io::Errno> {
        Ok(Self { path: path.to_owned(), inode: inode_of(&stat(path)?) })
    }

    /// Removes it, where it still is what it was.
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

/// A descriptor that calls in other threads share: it is closed when the last one lets go of it.
pub(crate) struct Shared {
    fd: OwnedFd,
    is_locked: bool,
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Releases what the kernel would release only some time after the close: a finished operation's
/// worker may hold the file a moment longer, and the lock with it.
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
    /// Where it was opened; of devices.
    path: Option<Arc<str>>,
    in_flight: u32,
    is_closing: bool,
}

/// A device whose descriptor is to be closed, which may take its time.
pub(crate) struct Retired {
    pub(crate) path: Arc<str>,
    pub(crate) fd: Arc<Shared>,
}

#[derive(Default)]
struct Place {
    generation: u16,
    file: Option<File>,
}

/// All open descriptors. An identity is a place (low 16 bits) and its generation; a place whose
/// generations are used up is retired.
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
    /// Takes a socket in and names it.
    pub(crate) fn insert(&mut self, fd: OwnedFd, kind: Kind) -> Result<u32, IoError> {
        self.insert_at(fd, kind, None)
    }

    /// Takes a device in and names it.
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

    /// The descriptor for one more operation, which [`Files::leave`] ends.
    pub(crate) fn enter(&mut self, id: u32) -> Result<RawFd, IoError> {
        match self.get(id) {
            Some(file) if !file.is_closing => {
                file.in_flight += 1;
                Ok(file.fd.fd.as_raw_fd())
            }
            _ => Err(IoError::Closed),
        }
    }

    /// Ends one operation; says whether the descriptor was closed meanwhile.
    pub(crate) fn leave(&mut self, id: u32) -> bool {
        let Some(file) = self.get(id) else { unreachable!("closed with an operation in flight") };
        file.in_flight -= 1;
        let is_closing = file.is_closing;
        if is_closing && file.in_flight == 0 {
            self.remove(id);
        }
        is_closing
    }

    /// The device's descriptor and path, to be used by a call in another thread.
    pub(crate) fn share(&mut self, id: u32) -> Result<(Arc<Shared>, Arc<str>), IoError> {
        let file = self.get(id).filter(|file| !file.is_closing).ok_or(IoError::Closed)?;
        match &file.path {
            Some(path) => Ok((Arc::clone(&file.fd), Arc::clone(path))),
            None => Err(IoError::Closed),
        }
    }

    /// Whether it is a block device.
    pub(crate) fn is_block_device(&mut self, id: u32) -> bool {
        self.get(id).is_some_and(|file| matches!(file.kind, Kind::BlockDevice))
    }

    /// A device that nothing names any more, to be closed.
    pub(crate) fn next_retired(&mut self) -> Option<Retired> {
        self.retired.pop()
    }

    /// Refuses new operations, makes a socket's pending ones fail, closes when none is left.
    pub(crate) fn close(&mut self, id: u32) {
        let Some(file) = self.get(id) else { return };
        if file.is_closing {
            return;
        }
        file.is_closing = true;
        match &file.kind {
            Kind::RegularFile | Kind::BlockDevice => {}
            // It fails where the peer is gone already: nothing is left to be made fail.
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

    /// Closes everything.
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
