// SPDX-License-Identifier: Apache-2.0
//! What a listener of the API proves itself with.

use crate::authority::{Authority, KeyError};
use crate::renewed::Renewed;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// What a listener proves itself with.
pub struct ListenerKey {
    authority: Authority,
    names: Vec<String>,
    key: Renewed,
}

impl ListenerKey {
    /// One for a listener of these names and addresses.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn new(authority: Authority, names: Vec<String>) -> Result<Self, KeyError> {
        let made = SystemTime::now();
        let key = Renewed::new(made, authority.for_listener(&names, made)?);
        Ok(Self { authority, names, key })
    }

    /// Makes another one where that is due at `now`; also where the clock was set back.
    ///
    /// # Errors
    /// [`KeyError`]: the one of before stays.
    pub fn renew(&self, now: SystemTime) -> Result<(), KeyError> {
        self.key.renew(now, || self.authority.for_listener(&self.names, now))
    }
}

impl fmt::Debug for ListenerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerKey").field("names", &self.names).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for ListenerKey {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::RENEWED_AFTER;
    use crate::authority::tests::{DAY, Folder};

    #[test]
    fn a_listener_gets_another_certificate_long_before_its_own_expires() {
        let folder = Folder::new("listener");
        let authority = Authority::create(&folder.0).expect("an authority");
        let listener = ListenerKey::new(authority, vec!["host1".to_owned()]).expect("a key");
        let now = || listener.key.get().cert[0].clone();
        let (first, begun) = (now(), SystemTime::now());
        listener.renew(begun + RENEWED_AFTER / 2).expect("nothing to do");
        assert_eq!(now(), first);
        listener.renew(begun + RENEWED_AFTER + DAY).expect("another one");
        let second = now();
        assert_ne!(second, first);
        // The clock went back: the one of now may not be one yet.
        listener.renew(begun).expect("another one");
        assert_ne!(now(), second);
    }
}
