// SPDX-License-Identifier: Apache-2.0
//! Limits of the server, all in one place.

use std::time::Duration;

/// Connections that one server holds. At this limit a further caller is closed at once, unless an
/// idle handshake makes room for it. Each connection costs about 20 KiB while idle.
pub(crate) const CONNECTIONS_MAX: usize = 1024;
/// How many of them are kept for addresses that hold few connections. An address that holds
/// [`ADDRESS_RESERVED`] or more gets none of these. A quarter of all.
pub(crate) const CONNECTIONS_RESERVED: usize = 256;
/// An address that holds fewer connections than this gets another one as long as the server has
/// any. Enough for two tools with eight connections each.
pub(crate) const ADDRESS_RESERVED: usize = 16;
/// Handshakes under way at once. At this limit a newcomer takes the place of a handshake whose
/// client keeps the server waiting, or is closed. An honest client answers within milliseconds.
pub(crate) const HANDSHAKES_MAX: usize = 256;
/// From so many handshakes under way on, there is a crowd. Then each client that has kept the
/// server waiting for [`CROWD_IDLE_MAX`] loses its place when the next caller comes.
pub(crate) const HANDSHAKES_CROWD: usize = 64;
/// See [`HANDSHAKES_CROWD`]. Long enough for round trips to the other side of the world and for a
/// busy client.
pub(crate) const CROWD_IDLE_MAX: Duration = Duration::from_secs(2);
/// Connections of one export, those that wait to be let in included. Further ones are refused. Room
/// for four clients with 16 connections each, more than any client opens. A sixteenth of what the
/// server holds.
pub(crate) const EXPORT_CONNECTIONS_MAX: usize = 64;
/// How long a newcomer waits for an older client that keeps it out, before it is refused. An older
/// client that has just ended is gone by then.
pub(crate) const IN_USE_GRACE: Duration = Duration::from_secs(2);
/// Most bytes of a client's name. A longer one is refused.
pub(crate) const CLIENT_NAME_MAX: usize = 64;
/// Buffer of one receive while a connection waits to be let in, bytes.
pub(crate) const WATCH_SIZE: usize = 4 << 10;
/// Requests of one connection whose replies are not sent yet. At this limit the server stops
/// reading. By default Linux keeps 128 requests under way and qemu 16.
pub(crate) const REQUESTS_MAX: usize = 128;
/// Payload bytes of one connection that are under way, in or out. At this limit the server stops
/// reading. Room for two requests of the largest size.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// Bytes of the largest read or write. Clients assume this size where a server says nothing.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;
/// Bytes of option data that the server reads. A longer option is skipped and refused.
pub(crate) const OPTION_MAX: u32 = 16 << 10;
/// Bytes of option data that the server skips. A longer option ends the connection.
pub(crate) const OPTION_SKIP_MAX: u32 = 1 << 20;
/// Options in one handshake. More of them end the connection. A client needs about ten.
pub(crate) const OPTIONS_MAX: u32 = 1000;
/// Bytes of an export name or a query, as the protocol says.
pub(crate) const STRING_MAX: u32 = 4096;
/// Receive buffer of a quiet connection, bytes.
pub(crate) const RECEIVE_MIN: usize = 16 << 10;
/// Receive buffer of a busy connection, bytes: 60 writes of 4 KiB in one system call.
pub(crate) const RECEIVE_MAX: usize = 256 << 10;
/// A payload of this many bytes or more has memory of its own, on its way in and out. A smaller one
/// is copied together with its neighbours.
pub(crate) const PAYLOAD_LARGE: usize = 64 << 10;
/// Buffer in which replies gather, bytes.
pub(crate) const GATHER_SIZE: usize = 256 << 10;
/// Extents in one block status reply: bounds the reply to 8 KiB.
pub(crate) const EXTENTS_MAX: usize = 1024;

/// How long the server waits for its clients. Whoever starts the server chooses; `gabion` uses the
/// defaults.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Bounds the whole handshake, including the wait for older connections. A connection that
    /// takes longer is closed.
    pub handshake_timeout: Duration,
    /// While a newcomer waits for an older Unix connection whose client takes no replies for this
    /// long, the older one is closed.
    pub drain_grace: Duration,
    /// How long a newcomer waits until the requests of older connections are finished, before it is
    /// refused. It is longer than the time-out of a volume: otherwise a client that reconnects
    /// during an outage would be refused.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(150),
            drain_grace: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(70),
        }
    }
}
