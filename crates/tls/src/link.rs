// SPDX-License-Identifier: Apache-2.0
//! A link whose ends know each other, and that nobody else reads.

use crate::identity::{Identity, server_name};
use crate::session::{Sink, TlsEnd, TlsStep, sealed_max};
use base::ShardId;
use env::{Buf, Env, IoError, Link, Slice};
use rustls::client::{UnbufferedClientConnection, verify_server_name};
use rustls::pki_types::CertificateDer;
use rustls::server::{ParsedCertificate, UnbufferedServerConnection};
use std::cell::{Cell, RefCell};

/// Receive buffer of an idle link, bytes. It holds a record of a ping.
const RECEIVE_MIN: usize = 4 << 10;
/// Receive buffer of a busy link, bytes: several of the longest records.
const RECEIVE_MAX: usize = 256 << 10;
/// The first byte of a connection that begins with TLS: a record of a handshake.
const HANDSHAKE: u8 = 0x16;

/// Why two ends do not come to know each other.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The link ended first.
    #[error("the link ended before the two ends knew each other")]
    Ended(#[source] IoError),
    /// The other end is not whom the authority knows, or does not believe us.
    #[error("the other end is not let in, or does not let us in: {0}")]
    Refused(#[source] rustls::Error),
    /// The other end closed.
    #[error("the other end closed before the two ends knew each other")]
    Closed,
    /// There is no such name.
    #[error("shard {0} has no name")]
    NoName(ShardId),
}

/// Whether what came first on a connection begins TLS.
#[must_use]
pub fn looks_like_tls(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE)
}

/// A link whose ends know each other, and that nobody else reads. The rules of [`Link`] hold: one
/// send and one receive are under way at most.
pub struct SecureLink {
    env: Env,
    link: Link,
    session: RefCell<TlsEnd>,
    /// What came and is not done with; taken while a receive is under way.
    incoming: Cell<Option<Incoming>>,
    /// Of the other end.
    certificate: CertificateDer<'static>,
}

impl SecureLink {
    /// The dialling end: comes to know `shard`, which has to be at the other end.
    ///
    /// # Errors
    /// [`TlsError`]; the link is of no use then.
    pub async fn connect(
        env: &Env,
        link: Link,
        identity: &Identity,
        shard: ShardId,
    ) -> Result<Self, TlsError> {
        identity.set_time(env.wall());
        let name = server_name(shard).ok_or(TlsError::NoName(shard))?;
        let session = UnbufferedClientConnection::new(identity.client.clone(), name)
            .map_err(TlsError::Refused)?;
        let incoming = Incoming::new(env.buf(RECEIVE_MIN), 0);
        shake(env, link, identity, TlsEnd::Client(session), incoming).await
    }

    /// The accepting end: comes to know who dialled. `first` came on the link already: `count`
    /// bytes at the front of the buffer.
    ///
    /// # Errors
    /// [`TlsError`]; the link is of no use then.
    pub async fn accept(
        env: &Env,
        link: Link,
        identity: &Identity,
        (first, count): (Buf, usize),
    ) -> Result<Self, TlsError> {
        identity.set_time(env.wall());
        let session =
            UnbufferedServerConnection::new(identity.server.clone()).map_err(TlsError::Refused)?;
        shake(env, link, identity, TlsEnd::Server(session), Incoming::new(first, count)).await
    }

    /// Whether the other end has proved that it is `shard`.
    #[must_use]
    pub fn is_of(&self, shard: ShardId) -> bool {
        let Some(name) = server_name(shard) else { return false };
        let parsed = ParsedCertificate::try_from(&self.certificate);
        parsed.is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
    }

    /// As [`Link::send`].
    ///
    /// # Errors
    /// As [`Link::send`].
    pub async fn send(&self, from: Slice) -> Result<(), IoError> {
        let mut sealed = self.env.buf(sealed_max(from.len()));
        let count = self.session.borrow_mut().seal(&from, &mut sealed);
        match count {
            Ok(count) => sealed.set_len(count),
            Err(error) => {
                tracing::warn!(%error, "nothing more can be sent on a link");
                return Err(IoError::Reset);
            }
        }
        drop(from);
        self.link.send(sealed.freeze()).await
    }

    /// As [`Link::recv`].
    ///
    /// # Errors
    /// As [`Link::recv`]; [`IoError::Reset`] where somebody changed what came.
    pub async fn recv(&self, mut into: Buf, at: usize) -> Result<(Buf, usize), IoError> {
        assert!(at < into.len(), "no room to receive into");
        let Some(mut incoming) = self.incoming.take() else { return Err(IoError::Closed) };
        loop {
            let taken = incoming.take_out(&mut self.session.borrow_mut(), &mut into[at..]);
            match taken {
                Ok(Some(0)) => {}
                Ok(Some(count)) => {
                    self.incoming.set(Some(incoming));
                    return Ok((into, count));
                }
                Ok(None) => return Ok((into, 0)),
                Err(error) => {
                    tracing::warn!(%error, "a link ends: what came on it is not what was sent");
                    return Err(IoError::Reset);
                }
            }
            incoming.make_room(&self.env);
            let (buf, count) = self.link.recv(incoming.buf, incoming.filled).await?;
            if count == 0 {
                return Ok((into, 0));
            }
            incoming.buf = buf;
            incoming.filled += count;
            incoming.note(count);
        }
    }

    /// As [`Link::close`].
    pub fn close(&self) {
        self.link.close();
    }
}

/// Has the two ends come to know each other.
async fn shake(
    env: &Env,
    link: Link,
    identity: &Identity,
    mut session: TlsEnd,
    mut incoming: Incoming,
) -> Result<SecureLink, TlsError> {
    let mut out = Vec::new();
    loop {
        let (done, step) = {
            let Incoming { buf, start, filled, rest, .. } = &mut incoming;
            let mut sink = Sink { room: &mut [], used: 0, rest, out: &mut out };
            identity.set_time(env.wall());
            match session.step(&mut buf[*start..*filled], &mut sink) {
                Ok(it) => it,
                Err(error) => {
                    say_why(env, &link, &mut session, &mut out).await;
                    return Err(TlsError::Refused(error));
                }
            }
        };
        incoming.start += done;
        match step {
            TlsStep::Again => {}
            TlsStep::Send => {
                let mut buf = env.buf(out.len());
                buf.copy_from_slice(&out);
                out.clear();
                link.send(buf.freeze()).await.map_err(TlsError::Ended)?;
            }
            TlsStep::Wait => {
                incoming.make_room(env);
                let received = link.recv(incoming.buf, incoming.filled).await;
                let (buf, count) = received.map_err(TlsError::Ended)?;
                if count == 0 {
                    return Err(TlsError::Closed);
                }
                incoming.buf = buf;
                incoming.filled += count;
            }
            TlsStep::Open => break,
            TlsStep::Closed => return Err(TlsError::Closed),
        }
    }
    let certificate = session.certificate().ok_or(TlsError::Closed)?;
    Ok(SecureLink {
        env: env.clone(),
        link,
        session: RefCell::new(session),
        incoming: Cell::new(Some(incoming)),
        certificate,
    })
}

/// Tells the other end why it is not let in, if it listens.
async fn say_why(env: &Env, link: &Link, session: &mut TlsEnd, out: &mut Vec<u8>) {
    let mut rest = Vec::new();
    let mut sink = Sink { room: &mut [], used: 0, rest: &mut rest, out };
    let alert = session.step(&mut [], &mut sink);
    if matches!(alert, Ok((_, TlsStep::Again))) && !out.is_empty() {
        let mut buf = env.buf(out.len());
        buf.copy_from_slice(out);
        let _ = link.send(buf.freeze()).await;
    }
}

/// What came on the link and is not done with.
struct Incoming {
    buf: Buf,
    /// Bytes before that are done with.
    start: usize,
    /// Bytes that came.
    filled: usize,
    /// How long the next buffer is to be.
    size: usize,
    /// Content of a record that its user had no room for yet.
    rest: Vec<u8>,
    /// Bytes of it that are done with.
    rest_start: usize,
}

impl Incoming {
    fn new(buf: Buf, filled: usize) -> Self {
        let size = RECEIVE_MIN.max(buf.len());
        Self { buf, start: 0, filled, size, rest: Vec::new(), rest_start: 0 }
    }

    /// Fills `room` from what came, as far as there are whole records. `None`: nothing comes any
    /// more.
    fn take_out(
        &mut self,
        session: &mut TlsEnd,
        room: &mut [u8],
    ) -> Result<Option<usize>, rustls::Error> {
        let kept = &self.rest[self.rest_start..];
        let count = kept.len().min(room.len());
        room[..count].copy_from_slice(&kept[..count]);
        self.rest_start += count;
        if self.rest_start < self.rest.len() {
            return Ok(Some(count));
        }
        self.rest.clear();
        self.rest_start = 0;
        // The writer sends what the session has to say by itself: with what it sends next.
        let mut out = Vec::new();
        let mut sink = Sink { room, used: count, rest: &mut self.rest, out: &mut out };
        while sink.used < sink.room.len() {
            let incoming = &mut self.buf[self.start..self.filled];
            let (done, step) = session.step(incoming, &mut sink)?;
            self.start += done;
            match step {
                TlsStep::Again => {}
                TlsStep::Open | TlsStep::Wait => break,
                // Nothing is sent outside of records once the two ends know each other.
                TlsStep::Send => return Err(rustls::Error::General("out of place".to_owned())),
                TlsStep::Closed if sink.used == 0 => return Ok(None),
                TlsStep::Closed => break,
            }
        }
        Ok(Some(sink.used))
    }

    /// Makes room behind what came, where there is none.
    fn make_room(&mut self, env: &Env) {
        let rest = self.filled - self.start;
        // The longest record fits into a buffer of four times the smallest and more.
        if rest == self.buf.len() {
            self.size = (self.size * 4).min(RECEIVE_MAX);
        }
        if self.start == 0 && self.filled < self.buf.len() {
            return;
        }
        if rest == 0 && self.size == self.buf.len() {
            (self.start, self.filled) = (0, 0);
            return;
        }
        let mut buf = env.buf(self.size.max(rest + RECEIVE_MIN));
        buf[..rest].copy_from_slice(&self.buf[self.start..self.filled]);
        self.buf = buf;
        (self.start, self.filled) = (0, rest);
    }

    /// Busy links get larger buffers, quiet ones smaller ones.
    fn note(&mut self, count: usize) {
        if self.filled == self.buf.len() {
            self.size = (self.size * 4).min(RECEIVE_MAX);
        } else if count < self.size / 4 {
            self.size = (self.size / 2).max(RECEIVE_MIN);
        }
    }
}
