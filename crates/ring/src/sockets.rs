// SPDX-License-Identifier: Apache-2.0
//! Making sockets: everything about them that happens once per socket.

use crate::errors::socket_error;
use crate::files::SocketFile;
use env::{Address, IoError};
use rustix::fs::{FileType, stat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    getsockname, listen as start_listening, socket_with, sockopt,
};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Callers that the kernel holds until they are accepted; more wait in their dial. The kernel
/// clamps it to net.core.somaxconn.
const BACKLOG_MAX: i32 = 1024;

fn family(address: &Address) -> AddressFamily {
    match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
    }
}

fn kernel_address(address: &Address) -> Result<SocketAddrAny, Errno> {
    match address {
        Address::Unix(path) => Ok(SocketAddrUnix::new(path.as_str())?.into()),
        Address::Tcp(address) => Ok((*address).into()),
    }
}

/// A blocking socket: io_uring waits for it itself, and would hand EAGAIN to us otherwise.
fn socket(address: &Address) -> Result<OwnedFd, Errno> {
    let fd = socket_with(family(address), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Address::Tcp(_) = address {
        sockopt::set_tcp_nodelay(&fd, true)?; // accepted sockets inherit it from their listener
    }
    Ok(fd)
}

/// A socket to connect, and where to.
pub(crate) fn dialler(address: &Address) -> Result<(OwnedFd, SocketAddrAny), IoError> {
    let to = kernel_address(address).map_err(socket_error)?;
    Ok((socket(address).map_err(socket_error)?, to))
}

/// A listening socket, its real address, and its file if it has one.
pub(crate) fn listen(address: &Address) -> Result<(OwnedFd, Address, Option<SocketFile>), IoError> {
    listen_errno(address).map_err(socket_error)
}

fn listen_errno(address: &Address) -> Result<(OwnedFd, Address, Option<SocketFile>), Errno> {
    let fd = socket(address)?;
    let at = kernel_address(address)?;
    match address {
        Address::Unix(path) => {
            match bind(&fd, &at) {
                Err(Errno::ADDRINUSE) if is_dead_socket(path, &at)? => {
                    unlink(path.as_str())?;
                    bind(&fd, &at)?;
                }
                other => other?,
            }
            start_listening(&fd, BACKLOG_MAX)?;
            Ok((fd, address.clone(), Some(SocketFile::at(path)?)))
        }
        Address::Tcp(_) => {
            sockopt::set_socket_reuseaddr(&fd, true)?;
            bind(&fd, &at)?;
            start_listening(&fd, BACKLOG_MAX)?;
            let real = SocketAddr::try_from(getsockname(&fd)?)?;
            Ok((fd, Address::Tcp(real), None))
        }
    }
}

/// Whether a socket file stands there that nobody listens at. Two starters may both find it dead;
/// the later one then takes the address over, and the lock on the disks decides who is right.
fn is_dead_socket(path: &str, at: &SocketAddrAny) -> Result<bool, Errno> {
    if FileType::from_raw_mode(stat(path)?.st_mode) != FileType::Socket {
        return Ok(false);
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&probe, at) == Err(Errno::CONNREFUSED))
}
