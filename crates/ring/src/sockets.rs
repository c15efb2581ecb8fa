// SPDX-License-Identifier: Apache-2.0
//! Making sockets: everything that happens once per socket.

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

/// If a caller's machine is silent for so long, the kernel begins to probe it. The connection of a
/// machine that does not answer ends after [`UNNOTICED_MS_MAX`]. Then the volume that only this
/// caller used is free again, and so is the caller's place at the listener.
const KEEP_IDLE: Duration = Duration::from_secs(5);
/// The time between two probes, see [`KEEP_IDLE`].
const KEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How many probes may stay without an answer. Linux ignores this where [`UNNOTICED_MS_MAX`] is
/// set, as it is here.
const KEEP_PROBES: u32 = 5;
/// A connection ends when its peer has not acknowledged data or answered a probe for so many
/// milliseconds. By itself the kernel would go on for a quarter of an hour.
const UNNOTICED_MS_MAX: u32 = 15_000;

/// Callers that the kernel holds until they are accepted. Further ones wait in their dial. The
/// kernel lowers this to net.core.somaxconn.
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

/// Makes a blocking socket. With a non-blocking one, io_uring would give us EAGAIN instead of
/// waiting.
fn socket(address: &Address) -> Result<OwnedFd, Errno> {
    let fd = socket_with(family(address), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Address::Tcp(_) = address {
        sockopt::set_tcp_nodelay(&fd, true)?; // accepted sockets inherit it from their listener
    }
    Ok(fd)
}

/// Makes a socket, and returns it with the address that it is to connect to.
pub(crate) fn dialler(address: &Address) -> Result<(OwnedFd, SocketAddrAny), IoError> {
    let to = kernel_address(address).map_err(socket_error)?;
    Ok((socket(address).map_err(socket_error)?, to))
}

/// Makes a listening socket. Returns it with its real address, and its file if it has one.
pub(crate) fn listen(address: &Address, access: Access) -> Result<Listening, IoError> {
    listen_errno(address, access).map_err(socket_error)
}

type Listening = (OwnedFd, Address, Option<SocketFile>);

fn listen_errno(address: &Address, access: Access) -> Result<Listening, Errno> {
    let fd = socket(address)?;
    let at = kernel_address(address)?;
    match address {
        Address::Unix(path) => {
            // `bind` gives the file these permissions at most. Nobody can connect before `listen`.
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

/// Sets owner, group and mode of a socket file. The mode comes last: otherwise the old owner and
/// group would have the new permissions for a moment.
fn give(path: &str, access: Access) -> Result<(), Errno> {
    if access.owner.is_some() || access.group.is_some() {
        chown(path, access.owner.map(Uid::from_raw), access.group.map(Gid::from_raw))?;
    }
    chmod(path, Mode::from_raw_mode(access.mode & 0o777))
}

/// Lets the kernel probe silent peers. Accepted sockets inherit this from their listener.
fn keep_alive(fd: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_keepidle(fd, KEEP_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEP_INTERVAL)?;
    sockopt::set_tcp_keepcnt(fd, KEEP_PROBES)?;
    sockopt::set_tcp_user_timeout(fd, UNNOTICED_MS_MAX)?;
    sockopt::set_socket_keepalive(fd, true)
}

/// Who is at the other end. If the connection is broken already, this is unknown: 0.0.0.0.
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

/// Whether a socket file stands at `path` at which nobody listens. Two processes that start may
/// both find it so. Then the later one takes the address over, and the lock on the disks decides
/// which of them may run.
fn is_dead_socket(path: &str, at: &SocketAddrAny) -> Result<bool, Errno> {
    if FileType::from_raw_mode(stat(path)?.st_mode) != FileType::Socket {
        return Ok(false);
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&probe, at) == Err(Errno::CONNREFUSED))
}
