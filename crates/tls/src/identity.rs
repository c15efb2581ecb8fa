// SPDX-License-Identifier: Apache-2.0
//! What a shard proves itself with, and whom it believes.

use base::{ShardId, WallTime};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What both ends speak above TLS. A certificate for anything else is good for nothing here.
const PROTOCOL: &[u8] = b"gabion-peer";

/// The name in a certificate that is a shard's, whatever it is called and wherever it is.
#[must_use]
pub fn shard_name(shard: ShardId) -> String {
    format!("shard-{}.shards.gabion", shard.0)
}

pub(crate) fn server_name(shard: ShardId) -> Option<ServerName<'static>> {
    ServerName::try_from(shard_name(shard)).ok()
}

/// Where the key and the certificate of now come from. They may be others for each link.
pub trait Keys: fmt::Debug + Send + Sync {
    /// Those of now.
    fn now(&self) -> Arc<CertifiedKey>;
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
#[error("the certificate of the cluster's CA: {0}")]
pub struct IdentityError(String);

/// What a shard proves itself with, and whom it believes. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    clock: Arc<Clock>,
}

impl Identity {
    /// One by `keys`, which believes whom the authority of the certificate `ca` knows.
    ///
    /// # Errors
    /// The certificate is none of an authority.
    pub fn new(ca: CertificateDer<'static>, keys: Arc<dyn Keys>) -> Result<Self, IdentityError> {
        Self::with_provider(ca, keys, provider())
    }

    pub(crate) fn with_provider(
        ca: CertificateDer<'static>,
        keys: Arc<dyn Keys>,
        provider: CryptoProvider,
    ) -> Result<Self, IdentityError> {
        let failed = |why: String| IdentityError(why);
        let mut roots = RootCertStore::empty();
        roots.add(ca).map_err(|error| failed(error.to_string()))?;
        let (roots, provider) = (Arc::new(roots), Arc::new(provider));
        let clock = Arc::new(Clock::default());
        let keys = Arc::new(Proof(keys));
        let only = [&rustls::version::TLS13];

        let mut client = ClientConfig::builder_with_details(provider.clone(), clock.clone())
            .with_protocol_versions(&only)
            .map_err(|error| failed(error.to_string()))?
            .with_root_certificates(roots.clone())
            .with_client_cert_resolver(keys.clone());
        client.resumption = Resumption::disabled();
        client.alpn_protocols = vec![PROTOCOL.to_vec()];

        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
        let mut server = ServerConfig::builder_with_details(provider, clock.clone())
            .with_protocol_versions(&only)
            .map_err(|error| failed(error.to_string()))?
            .with_client_cert_verifier(verifier.map_err(|error| failed(error.to_string()))?)
            .with_cert_resolver(keys);
        // Each link proves itself anew: it is there for long.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { client: Arc::new(client), server: Arc::new(server), clock })
    }

    /// Certificates are looked at as of `now` until this is called again.
    pub(crate) fn set_time(&self, now: WallTime) {
        self.clock.0.store(now.0 / 1_000_000_000, Ordering::Relaxed);
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// AES with 128 bits first: processors have instructions for it, and fewer rounds.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..default_provider()
    }
}

/// The time by which certificates are looked at, seconds since 1970: that of the shard's own clock,
/// which simulations have too.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// The same key and certificate at both ends.
#[derive(Debug)]
struct Proof(Arc<dyn Keys>);

impl ResolvesClientCert for Proof {
    fn resolve(
        &self,
        _root_hints: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for Proof {
    fn resolve(&self, _hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now())
    }
}
