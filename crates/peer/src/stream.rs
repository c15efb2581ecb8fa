// SPDX-License-Identifier: Apache-2.0
//! What frames pass on: a link as it is, or one whose ends have proved who they are.

use crate::stats::PeerCounters;
use base::{Probe, ShardId};
use env::{Address, Buf, Env, IoError, Link, Slice};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tls::{Identity, SecureLink, looks_like_tls};

/// Two ends that do not know each other after this are not going to. Also how long one that
/// accepted a link waits for its first byte.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(2);
/// Bytes that are received before it is known what they begin.
const FIRST_MAX: usize = 4 << 10;

/// Who may be at the other end of a link, and who may read what passes.
#[derive(Clone, Debug, Default)]
pub struct LinkSecurity {
    /// What this shard proves itself with. `None`: it cannot encrypt links.
    pub identity: Option<Identity>,
    /// Whether links are encrypted before [`crate::Peers::encrypt`] says anything.
    pub is_encrypted: bool,
}

/// Whom this shard lets in, and how it proves itself.
pub(crate) struct LinkGate {
    pub(crate) env: Env,
    /// `None`: it cannot encrypt links.
    pub(crate) identity: Option<Identity>,
    /// Whether links are to be encrypted.
    pub(crate) is_encrypted: Cell<bool>,
    pub(crate) counters: Rc<PeerCounters>,
}

/// What frames pass on.
pub(crate) enum Stream {
    /// The link as it is, and what came on it already.
    Plain(Link, Cell<Option<(Buf, usize)>>),
    /// One whose ends know each other, and that nobody else reads.
    Secure(Box<SecureLink>),
}

impl Stream {
    /// What a link to `shard` becomes that was dialled: with TLS where links have to be encrypted.
    ///
    /// # Errors
    /// Why the two ends do not come to know each other, for people.
    pub(crate) async fn dialled(
        gate: &LinkGate,
        shard: ShardId,
        link: Link,
    ) -> Result<Self, String> {
        if !gate.is_encrypted.get() {
            return Ok(Self::Plain(link, Cell::default()));
        }
        let shaken = gate.shake(shard, link).await;
        match &shaken {
            Ok(_) => gate.counters.encrypted.add(1),
            Err(_) => gate.counters.unproven.add(1),
        }
        shaken.map(|link| Self::Secure(Box::new(link)))
    }

    /// What a link that was accepted becomes: what the other end begins, if that may be. A shard
    /// that can encrypt always takes TLS, so that all of a cluster may change over in use.
    pub(crate) async fn accepted(gate: &LinkGate, link: Link) -> Option<Self> {
        let Some(identity) = &gate.identity else {
            return (!gate.is_encrypted.get()).then(|| Self::Plain(link, Cell::default()));
        };
        let shaken = async {
            let buf = gate.env.buf(FIRST_MAX);
            let (buf, count) = link.recv(buf, 0).await.ok()?;
            if count == 0 {
                return None;
            }
            if !looks_like_tls(&buf[..count]) {
                base::hit_if(gate.is_encrypted.get(), Probe::LinkPlainRefused);
                let is_let_in = !gate.is_encrypted.get();
                return is_let_in.then(|| Self::Plain(link, Cell::new(Some((buf, count)))));
            }
            match SecureLink::accept(&gate.env, link, identity, (buf, count)).await {
                Ok(link) => Some(Self::Secure(Box::new(link))),
                Err(error) => {
                    tracing::debug!(%error, "a link that came is not let in");
                    None
                }
            }
        };
        let shaken = gate.env.timeout(HANDSHAKE_WAIT, shaken).await.ok().flatten();
        match &shaken {
            Some(Self::Secure(_)) => gate.counters.encrypted.add(1),
            Some(Self::Plain(..)) => {}
            None => gate.counters.unproven.add(1),
        }
        shaken
    }

    /// Whether the other end may say that it is `shard`: it has proved it, or need not.
    pub(crate) fn is_of(&self, shard: ShardId) -> bool {
        match self {
            Self::Plain(..) => true,
            Self::Secure(link) => link.is_of(shard),
        }
    }

    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, Self::Secure(_))
    }

    /// As [`Link::send`].
    pub(crate) async fn send(&self, from: Slice) -> Result<(), IoError> {
        match self {
            Self::Plain(link, _) => link.send(from).await,
            Self::Secure(link) => link.send(from).await,
        }
    }

    /// As [`Link::recv`]. The first buffer has to be as large as the one in which it was seen what
    /// the other end begins.
    pub(crate) async fn recv(&self, mut into: Buf, at: usize) -> Result<(Buf, usize), IoError> {
        match self {
            Self::Plain(link, first) => match first.take() {
                None => link.recv(into, at).await,
                Some((buf, count)) => {
                    into[at..at + count].copy_from_slice(&buf[..count]);
                    Ok((into, count))
                }
            },
            Self::Secure(link) => link.recv(into, at).await,
        }
    }

    /// As [`Link::close`].
    pub(crate) fn close(&self) {
        match self {
            Self::Plain(link, _) => link.close(),
            Self::Secure(link) => link.close(),
        }
    }
}

const NO_IDENTITY: &str = "this host has no certificate, and links are to be encrypted: give it \
                           ca.pem and ca-key.pem of the cluster, and start it again";
const TOO_SLOW: &str = "the other end said nothing for 2 s that begins TLS";

impl LinkGate {
    /// Dials `shard` and has it prove itself; nothing else passes.
    ///
    /// # Errors
    /// Why it does not, for people.
    pub(crate) async fn prove(&self, address: Address, shard: ShardId) -> Result<(), String> {
        let dialled = self.env.timeout(HANDSHAKE_WAIT, self.env.dial(address)).await;
        let dialled = dialled.map_err(|_| TOO_SLOW.to_owned())?;
        let link = dialled.map_err(|error| error.to_string())?;
        self.shake(shard, link).await.map(|link| link.close())
    }

    async fn shake(&self, shard: ShardId, link: Link) -> Result<SecureLink, String> {
        let identity = self.identity.as_ref().ok_or(NO_IDENTITY)?;
        let shaken = SecureLink::connect(&self.env, link, identity, shard);
        let shaken = self.env.timeout(HANDSHAKE_WAIT, shaken).await;
        shaken.map_err(|_| TOO_SLOW.to_owned())?.map_err(|error| error.to_string())
    }
}
