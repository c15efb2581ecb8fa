// SPDX-License-Identifier: Apache-2.0
//! Making sockets: everything about them that happens once per socket.

use crate::errors::socket_error;
use crate::files::SocketFile;
use env::{Access, Address, Caller, IoError};
use rustix::fs::{FileType, Gid, Mode, Uid, chmod, chown, fchmod, stat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    getpeername, getsockname, listen as start_listening, socket_with, sockopt,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A caller's machine that says nothing is asked after this, then each second, [`KEEP_PROBES`]
/// times. Its connection ends after 10 s: a volume that it had in use alone is free again, and it
/// holds no place of a listener's.
const KEEP_IDLE: Duration = Duration::from_secs(5);
/// See [`KEEP_IDLE`].
const KEEP_INTERVAL: Duration = Duration::from_secs(1);
/// See [`KEEP_IDLE`].
const KEEP_PROBES: u32 = 5;
/// Milliseconds after which a connection ends on which something sent was not taken notice of; the
/// kernel tries for a quarter of an hour otherwise.
const UNNOTICED_MS_MAX: u32 = 15_000;

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
pub(crate) fn listen(address: &Address, access: Access) -> Result<Listening, IoError> {
    listen_errno(address, access).map_err(socket_error)
}

type Listening = (OwnedFd, Address, Option<SocketFile>);

fn listen_errno(address: &Address, access: Access) -> Result<Listening, Errno> {
    let fd = socket(address)?;
    let at = kernel_address(address)?;
    match address {
        Address::Unix(path) => {
            // The file is made with these bits at most; nobody is let in before `listen` anyhow.
            fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
            match bind(&fd, &at) {
                Err(Errno::ADDRINUSE) if is_dead_socket(path, &at)? => {
                    unlink(path.as_str())?;
                    bind(&fd, &at)?;
                }
                other => other?,
            }
            let file = SocketFile::at(path)?;
            let open = give(path, access).and_then(|()| start_listening(&fd, BACKLOG_MAX));
            open.inspect_err(|_| file.remove())?;
            Ok((fd, address.clone(), Some(file)))
        }
        Address::Tcp(_) => {
            sockopt::set_socket_reuseaddr(&fd, true)?;
            bind(&fd, &at)?;
            keep_alive(&fd)?;
            start_listening(&fd, BACKLOG_MAX)?;
            let real = SocketAddr::try_from(getsockname(&fd)?)?;
            Ok((fd, Address::Tcp(real), None))
        }
    }
}

/// Gives the socket file to whom it is for; the owner first, or the old one would have a moment of
/// the new one's rights.
fn give(path: &str, access: Access) -> Result<(), Errno> {
    if access.owner.is_some() || access.group.is_some() {
        chown(path, access.owner.map(Uid::from_raw), access.group.map(Gid::from_raw))?;
    }
    chmod(path, Mode::from_raw_mode(access.mode & 0o777))
}

/// Accepted sockets inherit it from their listener.
fn keep_alive(fd: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_keepidle(fd, KEEP_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEP_INTERVAL)?;
    sockopt::set_tcp_keepcnt(fd, KEEP_PROBES)?;
    sockopt::set_tcp_user_timeout(fd, UNNOTICED_MS_MAX)?;
    sockopt::set_socket_keepalive(fd, true)
}

/// Who is at the other end. A connection that is broken already tells nobody.
pub(crate) fn caller(fd: &OwnedFd) -> Caller {
    let unknown = Caller::Remote(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let Ok(Some(peer)) = getpeername(fd) else { return unknown };
    match SocketAddr::try_from(peer.clone()) {
        Ok(address) => Caller::Remote(address.ip().to_canonical()),
        Err(_) => {
            let credentials = sockopt::socket_peercred(fd);
            credentials.map_or(unknown, |peer| Caller::User(peer.uid.as_raw()))
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
