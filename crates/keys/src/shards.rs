// SPDX-License-Identifier: Apache-2.0
//! What the shards of one process prove themselves with to other shards.

use crate::authority::{Authority, KeyError};
use crate::renewed::Renewed;
use base::ShardId;
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use tls::{Identity, Keys};

/// What the shards of one process prove themselves with. Like that of a listener it is on no disk,
/// and another one is made long before it expires.
pub struct ShardKeys {
    authority: Authority,
    shards: Vec<ShardId>,
    key: Renewed,
}

impl ShardKeys {
    /// The identity of these shards, by the authority of the cluster.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn identity(authority: Authority, shards: Vec<ShardId>) -> Result<Identity, KeyError> {
        let (ca, file) = (authority.certificate(), authority.ca_file());
        let keys = Arc::new(Self::new(authority, shards)?);
        Identity::new(ca, keys)
            .map_err(|error| KeyError::Certificate(file.display().to_string(), error.to_string()))
    }

    fn new(authority: Authority, shards: Vec<ShardId>) -> Result<Self, KeyError> {
        let made = SystemTime::now();
        let key = Renewed::new(made, authority.for_shards(&shards, made)?);
        Ok(Self { authority, shards, key })
    }

    /// Those of a time: others where those that there are were made long before, or after.
    fn at(&self, now: SystemTime) -> Arc<CertifiedKey> {
        let renewed = self.key.renew(now, || self.authority.for_shards(&self.shards, now));
        if let Err(error) = renewed {
            tracing::error!(%error, "the certificate of this host's shards stays the old one");
        }
        self.key.get()
    }
}

impl fmt::Debug for ShardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardKeys").field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl Keys for ShardKeys {
    fn now(&self) -> Arc<CertifiedKey> {
        self.at(SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::RENEWED_AFTER;
    use crate::authority::tests::{DAY, Folder};

    #[test]
    fn shards_get_another_certificate_long_before_theirs_expires() {
        let folder = Folder::new("shards");
        let authority = Authority::create(&folder.0).expect("an authority");
        let begun = SystemTime::now();
        let shards = ShardKeys::new(authority, vec![ShardId(4), ShardId(5)]).expect("a key");
        let at = |time| shards.at(time).cert[0].clone();
        let first = at(begun + RENEWED_AFTER / 2);
        assert_eq!(at(begun + RENEWED_AFTER / 2), first);
        let second = at(begun + RENEWED_AFTER + DAY);
        assert_ne!(second, first);
        assert_eq!(at(begun + RENEWED_AFTER + 2 * DAY), second, "not at each link");
        assert_ne!(at(begun), second, "the clock went back");
    }
}
