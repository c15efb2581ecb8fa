// SPDX-License-Identifier: Apache-2.0
//! Limits of the server, all in one place.

use std::time::Duration;

/// Connections that one server holds; further callers are closed at once. Each costs about 20 KiB
/// while idle.
pub(crate) const CONNECTIONS_MAX: usize = 1024;
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
