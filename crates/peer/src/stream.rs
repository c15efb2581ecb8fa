// SPDX-License-Identifier: Apache-2.0
//! What frames pass on: a link as it is, or one whose ends have proved who they are.

use crate::peers::{PeersInner, Remote};
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

/// What frames pass on.
pub(crate) enum Stream {
    /// The link as it is, and what came on it already.
    Plain(Link, Cell<Option<(Buf, usize)>>),
    /// One whose ends know each other, and that nobody else reads.
    Secure(Box<SecureLink>),
}

impl Stream {
    /// What a link that was dialled becomes: with TLS where links have to be encrypted. `None`: the
    /// two ends do not come to know each other, which `remote` remembers.
    pub(crate) async fn dialled(
        inner: &Rc<PeersInner>,
        remote: &Remote,
        link: Link,
    ) -> Option<Self> {
        if !inner.is_encrypted.get() {
            return Some(Self::Plain(link, Cell::default()));
        }
        let Some(identity) = &inner.identity else {
            remote.note_unproven(inner, NO_IDENTITY.to_owned());
            return None;
        };
        let shaken = SecureLink::connect(&inner.env, link, identity, remote.shard);
        let why = match inner.env.timeout(HANDSHAKE_WAIT, shaken).await {
            Ok(Ok(link)) => {
                remote.unproven.take();
                inner.counters.encrypted.add(1);
                return Some(Self::Secure(Box::new(link)));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => TOO_SLOW.to_owned(),
        };
        remote.note_unproven(inner, why);
        None
    }

    /// What a link that was accepted becomes: what the other end begins, if that may be. A shard
    /// that can encrypt always takes TLS, so that all of a cluster may change over in use.
    pub(crate) async fn accepted(inner: &Rc<PeersInner>, link: Link) -> Option<Self> {
        let Some(identity) = &inner.identity else {
            return (!inner.is_encrypted.get()).then(|| Self::Plain(link, Cell::default()));
        };
        let shaken = async {
            let buf = inner.env.buf(FIRST_MAX);
            let (buf, count) = link.recv(buf, 0).await.ok()?;
            if count == 0 {
                return None;
            }
            if !looks_like_tls(&buf[..count]) {
                base::hit_if(inner.is_encrypted.get(), Probe::LinkPlainRefused);
                let is_let_in = !inner.is_encrypted.get();
                return is_let_in.then(|| Self::Plain(link, Cell::new(Some((buf, count)))));
            }
            match SecureLink::accept(&inner.env, link, identity, (buf, count)).await {
                Ok(link) => Some(Self::Secure(Box::new(link))),
                Err(error) => {
                    tracing::debug!(%error, "a link that came is not let in");
                    None
                }
            }
        };
        let shaken = inner.env.timeout(HANDSHAKE_WAIT, shaken).await.ok().flatten();
        match &shaken {
            Some(Self::Secure(_)) => inner.counters.encrypted.add(1),
            Some(Self::Plain(..)) => {}
            None => inner.counters.unproven.add(1),
        }
        shaken
    }

    /// Dials `shard` and has it prove itself; nothing else passes.
    pub(crate) async fn prove(
        env: &Env,
        address: Address,
        identity: &Identity,
        shard: ShardId,
    ) -> Result<(), String> {
        let shaken = async {
            let link = env.dial(address).await.map_err(|error| error.to_string())?;
            let shaken = SecureLink::connect(env, link, identity, shard).await;
            shaken.map(|link| link.close()).map_err(|error| error.to_string())
        };
        let shaken = env.timeout(HANDSHAKE_WAIT, shaken).await;
        shaken.unwrap_or_else(|_| Err(TOO_SLOW.to_owned()))
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

impl Remote {
    /// Notes why the other end did not prove itself, and logs it where that is news: it is dialled
    /// twice a second.
    fn note_unproven(&self, inner: &PeersInner, why: String) {
        inner.counters.unproven.add(1);
        let is_news = self.unproven.borrow().as_ref() != Some(&why);
        if is_news {
            tracing::warn!("no link to host {}: {why}", self.shard);
            *self.unproven.borrow_mut() = Some(why);
        }
    }
}
