// SPDX-License-Identifier: Apache-2.0
//! Keys that are made again long before their certificates expire.

use crate::authority::{KeyError, RENEWED_AFTER};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Whether what was made at `made` is to be made again at `now`; also where the clock was set back.
#[must_use]
pub fn is_due(made: SystemTime, now: SystemTime) -> bool {
    now.duration_since(made).map_or(true, |age| age >= RENEWED_AFTER)
}

/// A key and its certificate, of which others take the place in time.
pub struct Renewed(RwLock<(SystemTime, Arc<CertifiedKey>)>);

impl Renewed {
    /// The first one, made at `made`.
    pub fn new(made: SystemTime, key: CertifiedKey) -> Self {
        Self(RwLock::new((made, Arc::new(key))))
    }

    /// The one that there is.
    pub fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Makes another one where that is due at `now`.
    ///
    /// # Errors
    /// Those of `make`: the one of before stays.
    pub fn renew(
        &self,
        now: SystemTime,
        make: impl FnOnce() -> Result<CertifiedKey, KeyError>,
    ) -> Result<(), KeyError> {
        let made = self.0.read().unwrap_or_else(PoisonError::into_inner).0;
        if is_due(made, now) {
            let key = Arc::new(make()?);
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = (now, key);
        }
        Ok(())
    }
}
