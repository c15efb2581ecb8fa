// SPDX-License-Identifier: Apache-2.0
//! Authorities and identities of simulated clusters. They are of the same sizes each time, so that
//! a simulation goes the same way.

use crate::identity::{Identity, Keys};
use crate::issue::{CertificateTerms, issue_for_shards};
use base::{ShardId, WallTime};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// An authority of a simulated cluster.
pub struct SimulatedAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl SimulatedAuthority {
    /// One with a key of its own, for as long as clocks have.
    ///
    /// # Panics
    /// If no certificate can be made, which depends on nothing.
    #[must_use]
    pub fn new() -> Self {
        let Ok(made) = Self::make() else { unreachable!("a certificate of fixed parameters") };
        made
    }

    fn make() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "simulated");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.serial_number = Some(SerialNumber::from(1));
        (params.not_before, params.not_after) =
            (at(WallTime(0)).into(), at(WallTime(u64::MAX / 4)).into());
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Its certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// A key and a certificate for `shards`, from one time to another.
    ///
    /// # Panics
    /// If no certificate can be made, which depends on nothing.
    #[must_use]
    pub fn issue(&self, shards: &[ShardId], (from, until): (WallTime, WallTime)) -> CertifiedKey {
        let terms = CertificateTerms { from: at(from), until: at(until), serial: Some(2) };
        match issue_for_shards(&self.issuer, shards, terms) {
            Ok(key) => key,
            Err(why) => unreachable!("a certificate of fixed parameters: {why}"),
        }
    }

    /// What one shard proves itself with, at any time.
    #[must_use]
    pub fn identity(&self, shard: ShardId) -> Identity {
        let key = self.issue(&[shard], (WallTime(0), WallTime(u64::MAX / 4)));
        self.identity_by(&Arc::new(SimulatedKeys::new([key])))
    }

    /// What a shard proves itself with that has these keys.
    ///
    /// # Panics
    /// If the authority's own certificate is none, which depends on nothing.
    #[must_use]
    pub fn identity_by(&self, keys: &Arc<SimulatedKeys>) -> Identity {
        let keys: Arc<dyn Keys> = keys.clone();
        match Identity::new(self.certificate(), keys) {
            Ok(identity) => identity,
            Err(error) => unreachable!("an authority of fixed parameters: {error}"),
        }
    }
}

impl Default for SimulatedAuthority {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimulatedAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedAuthority").finish_non_exhaustive()
    }
}

fn at(time: WallTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(time.0)
}

/// The keys and certificates that a simulated host has, one after the other.
#[derive(Debug)]
pub struct SimulatedKeys {
    all: Vec<Arc<CertifiedKey>>,
    now: AtomicUsize,
}

impl SimulatedKeys {
    /// With the first of these to begin with.
    ///
    /// # Panics
    /// Without any.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = CertifiedKey>) -> Self {
        let all: Vec<_> = all.into_iter().map(Arc::new).collect();
        assert!(!all.is_empty(), "a host has a key");
        Self { all, now: AtomicUsize::new(0) }
    }

    /// The host has the next ones from now on, if there are any.
    pub fn renew(&self) {
        let next = self.now.load(Ordering::Relaxed) + 1;
        self.now.store(next.min(self.all.len() - 1), Ordering::Relaxed);
    }
}

impl Keys for SimulatedKeys {
    fn now(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.all[self.now.load(Ordering::Relaxed)])
    }
}
