// SPDX-License-Identifier: Apache-2.0
//! Limits of the server, all in one place.

use std::time::Duration;

/// Connections that one server holds; further callers are closed at once. Each costs about 20 KiB
/// while idle.
pub(crate) const CONNECTIONS_MAX: usize = 1024;
/// So many of them are kept for callers from elsewhere: an address that holds
/// [`ADDRESS_RESERVED`] or more gets none of the last so many. A quarter.
pub(crate) const CONNECTIONS_RESERVED: usize = 256;
/// Connections that an address may hold whatever the others do, while there is one: two tools with
/// eight connections each.
pub(crate) const ADDRESS_RESERVED: usize = 16;
/// Handshakes under way at once. An honest one takes milliseconds of its client's time.
pub(crate) const HANDSHAKES_MAX: usize = 256;
/// So many handshakes under way are a crowd: a client that leaves the server waiting for
/// [`CROWD_IDLE_MAX`] then makes room for the next caller.
pub(crate) const HANDSHAKES_CROWD: usize = 64;
/// See [`HANDSHAKES_CROWD`]: round trips to the other side of the world, and a busy client.
pub(crate) const CROWD_IDLE_MAX: Duration = Duration::from_secs(2);
/// Connections of one export, those that wait to be let in included: no client has more than 16,
/// and four of them are many. A sixteenth of the server's.
pub(crate) const EXPORT_CONNECTIONS_MAX: usize = 64;
/// How long a newcomer waits for a client that has the export for itself, before it is refused.
/// One that has just ended is gone by then.
pub(crate) const IN_USE_GRACE: Duration = Duration::from_secs(2);
/// Bytes of a client's name.
pub(crate) const CLIENT_NAME_MAX: usize = 64;
/// Bytes that are received ahead while a connection waits to be let in.
pub(crate) const WATCH_SIZE: usize = 4 << 10;
/// Requests of one connection whose reply is not sent yet; beyond that we stop reading. Linux and
/// qemu keep 128 and 16 by default.
pub(crate) const REQUESTS_MAX: usize = 128;
/// Payload bytes of one connection under way, in or out; beyond that we stop reading. Two requests
/// of the largest size.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// The largest request, bytes: what clients assume where nothing is said.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;
/// Bytes of option data that we look at; a longer option is skipped and refused.
pub(crate) const OPTION_MAX: u32 = 16 << 10;
/// Bytes of option data that we skip; a longer option ends the connection.
pub(crate) const OPTION_SKIP_MAX: u32 = 1 << 20;
/// Options in one handshake; a client needs about ten.
pub(crate) const OPTIONS_MAX: u32 = 1000;
/// Bytes of an export name or a query, as the protocol says.
pub(crate) const STRING_MAX: u32 = 4096;
/// Receive buffer of a quiet connection, bytes.
pub(crate) const RECEIVE_MIN: usize = 16 << 10;
/// Receive buffer of a busy connection, bytes: 60 writes of 4 KiB in one system call.
pub(crate) const RECEIVE_MAX: usize = 256 << 10;
/// Payload from here on travels in memory of its own; below it is copied with its neighbours.
pub(crate) const PAYLOAD_LARGE: usize = 64 << 10;
/// Buffer in which replies gather, bytes.
pub(crate) const GATHER_SIZE: usize = 256 << 10;
/// Extents in one block status reply: bounds the reply to 8 KiB.
pub(crate) const EXTENTS_MAX: usize = 1024;

/// What the operator may choose.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// A connection that has not ended its handshake by then is closed.
    pub handshake_timeout: Duration,
    /// An older connection whose client takes no replies for this long, while a new one waits for
    /// it, is closed.
    pub drain_grace: Duration,
    /// How long a new connection waits for requests of older ones; longer than the volume's own
    /// time-out, or a client that reconnects in an outage is refused.
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
