// SPDX-License-Identifier: Apache-2.0
//! Calls on devices and files that may hang: opening, looking, and discarding on block devices.
//! Only helper threads make them.

use crate::errors::disk_error;
use crate::files::{Kind, Shared};
use env::{DiskInfo, IoError, OpenDisk};
use rustix::fs::{
    CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, fallocate, flock, fstat,
    fsync, openat, seek, stat, unlink,
};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::DIRECT).union(OFlags::CLOEXEC);
const BLKDISCARD: rustix::ioctl::Opcode = 0x1277;

/// A device or file that was opened.
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: Kind,
    pub(crate) info: DiskInfo,
    pub(crate) path: String,
}

/// Opens a device or file, as [`env::Op::OpenDisk`] says. The call may hang.
pub(crate) fn open(options: OpenDisk) -> Result<Opened, IoError> {
    let (fd, kind, info) = open_at(&options)?;
    Ok(Opened { fd, kind, info, path: options.path })
}

fn open_at(options: &OpenDisk) -> Result<(OwnedFd, Kind, DiskInfo), IoError> {
    let path = options.path.as_str();
    // Look before opening: to open a special file of another kind could have an effect.
    let kind = match stat(path) {
        Ok(found) => kind_of(FileType::from_raw_mode(found.st_mode))?,
        Err(Errno::NOENT) => {
            let size = options.create.ok_or(IoError::NotFound)?;
            let fd = create(path, size)?;
            let info = DiskInfo { size, is_file: true, is_sparse: false, is_new: true };
            return Ok((fd, Kind::RegularFile, info));
        }
        Err(error) => return Err(disk_error(error)),
    };
    // O_EXCL without O_CREAT is the kernel's exclusive claim on a block device. Mounts and other
    // claimants respect it. A lock would collide with the one that udev takes to probe the device.
    let is_block = matches!(kind, Kind::BlockDevice);
    let flags = if is_block { FLAGS | OFlags::EXCL } else { FLAGS };
    let fd = openat(CWD, path, flags, Mode::empty()).map_err(disk_error)?;
    let found = fstat(&fd).map_err(disk_error)?;
    let is_same =
        is_block == matches!(kind_of(FileType::from_raw_mode(found.st_mode))?, Kind::BlockDevice);
    if !is_same {
        return Err(IoError::Busy); // replaced between our two looks
    }
    if !is_block {
        lock(&fd)?;
    }
    let size = seek(&fd, SeekFrom::End(0)).map_err(disk_error)?;
    // These blocks have 512 bytes, whatever the size of the file system's own (stat(2)).
    let taken = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
    let is_sparse = !is_block && taken < size / 2;
    Ok((fd, kind, DiskInfo { size, is_file: !is_block, is_sparse, is_new: false }))
}

/// The present size of an open device, if `path` still leads to it. The call may hang.
pub(crate) fn look(fd: &Shared, path: &str) -> Result<u64, IoError> {
    let (mine, there) = (fstat(fd).map_err(disk_error)?, stat(path).map_err(disk_error)?);
    let is_same = match kind_of(FileType::from_raw_mode(mine.st_mode))? {
        Kind::BlockDevice => {
            let is_block = FileType::from_raw_mode(there.st_mode) == FileType::BlockDevice;
            is_block && mine.st_rdev == there.st_rdev
        }
        _ => (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino),
    };
    if !is_same {
        return Err(IoError::NotFound);
    }
    seek(fd, SeekFrom::End(0)).map_err(disk_error)
}

fn kind_of(found: FileType) -> Result<Kind, IoError> {
    match found {
        FileType::RegularFile => Ok(Kind::RegularFile),
        FileType::BlockDevice => Ok(Kind::BlockDevice),
        _ => Err(disk_error(Errno::NOTBLK)),
    }
}

fn lock(fd: &OwnedFd) -> Result<(), IoError> {
    match flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(IoError::Busy),
        Err(error) => Err(disk_error(error)),
    }
}

/// Creates a file with all its space. File and directory entry are durable before anything is
/// written.
fn create(path: &str, size: u64) -> Result<OwnedFd, IoError> {
    let flags = FLAGS | OFlags::CREATE | OFlags::EXCL;
    let fd = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR).map_err(disk_error)?;
    lock(&fd)?;
    let filled = fallocate(&fd, FallocateFlags::empty(), 0, size)
        .and_then(|()| fsync(&fd))
        .and_then(|()| sync_parent(path));
    match filled {
        Ok(()) => Ok(fd),
        Err(error) => {
            // Nothing was promised yet. A file that cannot be removed is seen later by its size.
            let _ = unlink(path);
            Err(disk_error(error))
        }
    }
}

fn sync_parent(path: &str) -> Result<(), Errno> {
    let parent = Path::new(path).parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(openat(CWD, parent, flags, Mode::empty())?)
}

/// Discards a range of a block device (TRIM). This takes some 100 us per MiB, and may hang.
pub(crate) fn discard_device(fd: &Shared, offset: u64, bytes: u64) -> Result<(), IoError> {
    // SAFETY: BLKDISCARD takes a pointer to two u64, start and length in bytes, and only reads it;
    // the setter holds exactly that for the duration of the call. The descriptor is a block device.
    let result = unsafe {
        rustix::ioctl::ioctl(
            fd,
            rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new([offset, bytes]),
        )
    };
    match result {
        // Some devices cannot discard. To leave the content as before is allowed.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(disk_error(error)),
    }
}
