// SPDX-License-Identifier: Apache-2.0
//! The NBD server: volumes as network block devices, over Unix and TCP links.
//!
//! Speaks the fixed newstyle handshake and the transmission phase as `docs/formats/nbd.md` says;
//! serves any [`volume::Device`].
//!
//! # Guarantees
//! - Every bound is explicit: requests and bytes under way per connection, options and time of a
//!   handshake, connections per server. A client beyond a bound waits; it never makes memory grow.
//! - Bytes from a client never panic. A request that cannot be served gets its error and the
//!   connection goes on; a stream that is no NBD (wrong magic) is dropped and counted.
//! - A connection that ends finishes what it had delivered before its device is let go.
//!
//! # Old and new connections of one export (rule 47)
//! A client that lost its connection dials again and writes. No request of the old connection may
//! act after that. So the handshake of a new connection (GO or EXPORT_NAME) ends only after:
//! 1. each older connection of the export took what lay in its socket, or ended. Over a Unix socket
//!    everything that a dead client ever sent lies in the socket by then, nothing can follow;
//! 2. each older TCP connection of the same client (`NAME@CLIENT`) is closed, because delayed
//!    packets of its former life may still arrive; one of another client goes on; and where one of
//!    them has no name, nobody knows, and the newcomer is refused while the older one lives. A Unix
//!    connection is closed too where it cannot be read because its client takes no replies for
//!    [`ServerOptions::drain_grace`];
//! 3. every request that was taken from older connections is finished by the device.
//!
//! All that is bounded by [`ServerOptions::drain_timeout`], after which the *new* connection is
//! refused; its client tries again. An export may be [`Sharing::Exclusive`]: then whoever is not
//! the same client is refused. A client that hangs up while it waits leaves at once.
//!
//! Handshakes of one export end one after the other. Over Unix sockets a second path of a client
//! needs not be told from its second life, and CAN_MULTI_CONN is offered. Connections to one volume
//! on *different* hosts are not ordered here; the object's owner is what they share.
//!
//! # A crowd
//! Places are given by address, with a reserve for others; see `crowd`.
//!
//! # Shape of a connection
//! One reader takes requests from a large receive buffer, payload without copies; a pool of worker
//! tasks runs them on the device; one writer gathers all replies that are ready into one send.
//!
//! # URIs
//! `nbd+unix:///NAME?socket=/path/to/nbd.sock` and `nbd://host:port/NAME`.
#![forbid(unsafe_code)]

mod admission;
mod crowd;
mod exports;
mod handshake;
mod inbox;
mod options;
mod outbox;
mod proto;
mod request;
mod server;
mod session;
mod worker;

pub use exports::{Exports, OpenError, Sharing};
pub use options::ServerOptions;
pub use server::{Server, ServerStats};
