// SPDX-License-Identifier: Apache-2.0
//! The NBD server: it serves volumes as network block devices, over Unix and TCP links.
//!
//! It speaks the fixed newstyle handshake and the transmission phase as `docs/formats/nbd.md` says.
//! It serves any [`volume::Device`].
//!
//! # Guarantees
//! - Memory is bounded: by requests and bytes under way per connection, by options and time per
//!   handshake, and by connections per export and per server. At the bound of its connection a
//!   client waits. A handshake beyond its bounds ends the connection. A connection too many is
//!   refused, or an idle handshake makes room for it.
//! - Bytes from a client never panic. A request that cannot be served is answered with an error,
//!   and the connection goes on. A stream that is not NBD, for example one with a wrong magic, ends
//!   the connection and is counted.
//! - When a connection ends, the requests that were taken from it are finished before its device is
//!   let go.
//!
//! # Old and new connections of one export (rule 47)
//! A client that lost its connection dials again and writes. From then on no request of its old
//! connection may take effect. So the handshake of a new connection (GO or EXPORT_NAME) ends only
//! after these steps:
//! 1. Each older Unix connection of the export is read until its socket is empty. Everything that a
//!    dead client ever sent lies in the socket by then, and nothing can follow. If the connection
//!    cannot be read because its client takes no replies for [`ServerOptions::drain_grace`], it is
//!    closed.
//! 2. Each older TCP connection of the same client (`NAME@CLIENT`) is closed, because delayed
//!    packets of its former life may still arrive. A connection of another client goes on. If one
//!    of the two has no name, the server cannot tell whether they are the same client. Then the
//!    newcomer is refused while the older connection lives.
//! 3. The device has finished every request that was taken from older connections.
//!
//! [`ServerOptions::drain_timeout`] bounds these steps. After that the *new* connection is refused,
//! and its client tries again. An export may be [`Sharing::Exclusive`]. Then every client is
//! refused while another one is connected; a client of the same name replaces its older connection.
//! A client that hangs up while it waits leaves at once.
//!
//! Handshakes of one export end one after the other. A new Unix connection may be a second path of
//! a client or its second life. The server need not know which, because it reads older connections
//! until they are empty. So it offers CAN_MULTI_CONN there if the export is shared. Connections to
//! one volume on *different* hosts are not ordered here: they share the object's owner, which
//! orders their requests.
//!
//! # A crowd
//! No address can take all connections of the server: the last ones are for other addresses. See
//! `crowd`.
//!
//! # Shape of a connection
//! One reader takes requests from a large receive buffer, mostly without copying payload. A pool of
//! worker tasks runs the requests on the device. One writer gathers the replies that are ready, so
//! that one send carries many of them.
//!
//! # URIs
//! `nbd+unix:///NAME?socket=/path/to/nbd.sock` and `nbd://host:port/NAME`.
#![forbid(unsafe_code)]

mod admission;
mod crowd;
mod exports;
mod handshake;
mod inbox;
pub mod numbers;
mod options;
mod outbox;
mod proto;
mod request;
mod server;
mod session;
mod worker;

pub use exports::{Exports, OpenError, Sharing};
pub use options::ServerOptions;
pub use server::{NbdServer, ServerStats};
