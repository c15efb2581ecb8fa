// SPDX-License-Identifier: Apache-2.0
//! The cluster's own certificate authority, and the certificates of its listeners.
//!
//! Whoever has the authority's certificate (`ca.pem`) knows the cluster's hosts by it. Its key
//! (`ca-key.pem`) is beside it, for the user of the hosts alone. A listener has a key and a
//! certificate for as long as it runs: they are made when it starts, again long before they expire,
//! and are on no disk.

use crate::durable::write_durably;
use base::ShardId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tls::{CertificateTerms, Identity, Keys};

/// The authority's certificate, for whoever asks the cluster.
pub const CA_FILE: &str = "ca.pem";
/// The authority's key.
const KEY_FILE: &str = "ca-key.pem";
/// The name of every authority: which one it is its key says.
const AUTHORITY: &str = "Gabion cluster CA";
const DAY: Duration = Duration::from_secs(86_400);
/// How long an authority is one.
const AUTHORITY_LASTS: Duration = Duration::from_secs(3653 * 86_400);
/// How long a listener's certificate is one.
const CERTIFICATE_LASTS: Duration = Duration::from_secs(90 * 86_400);
/// Clocks of hosts may differ by so much, and still one takes the certificate of the other.
const CLOCKS_APART: Duration = Duration::from_secs(30 * 86_400);
/// After that the listener gets another one.
const RENEWED_AFTER: Duration = Duration::from_secs(30 * 86_400);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("'{}': {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no authority here.
    #[error(
        "there is no key of the cluster's CA: copy {CA_FILE} and {KEY_FILE} from the host that \
         created the cluster into '{}'", .0.display()
    )]
    NoAuthority(PathBuf),
    /// There is another authority here.
    #[error(
        "there is the CA of another cluster in '{}': move {CA_FILE} and {KEY_FILE} away, or use \
         --config in another folder", .0.display()
    )]
    OtherAuthority(PathBuf),
    /// A certificate cannot be made or used.
    #[error("the certificate of '{0}': {1}")]
    Certificate(String, String),
}

/// A cluster's authority.
pub struct Authority {
    folder: PathBuf,
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// Makes one, whose files go into a folder. One that is there already stays.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn create(folder: &Path) -> Result<Self, KeyError> {
        if folder.join(KEY_FILE).exists() {
            return Self::open(folder);
        }
        let key = KeyPair::generate().map_err(|error| certificate(AUTHORITY, &error))?;
        let mut params = authority_params();
        params.not_before = (SystemTime::now() - DAY).into();
        params.not_after = (SystemTime::now() + AUTHORITY_LASTS).into();
        let made = params.self_signed(&key).map_err(|error| certificate(AUTHORITY, &error))?;
        Self::install(folder, (&made.pem(), &key.serialize_pem()))
    }

    /// Writes the certificate and the key of one into a folder. Where there is one already it must
    /// be the same.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn install(folder: &Path, (ca, key): (&str, &str)) -> Result<Self, KeyError> {
        if folder.join(KEY_FILE).exists() {
            let there = Self::open(folder)?;
            return match there.texts()? == (ca.to_owned(), key.to_owned()) {
                true => Ok(there),
                false => Err(KeyError::OtherAuthority(folder.to_owned())),
            };
        }
        write_new(&folder.join(CA_FILE), ca, 0o644)?;
        // Last: whoever finds it finds the certificate too.
        write_new(&folder.join(KEY_FILE), key, 0o600)?;
        Self::open(folder)
    }

    /// The one whose files are in a folder.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn open(folder: &Path) -> Result<Self, KeyError> {
        let path = folder.join(KEY_FILE);
        if !path.exists() {
            return Err(KeyError::NoAuthority(folder.to_owned()));
        }
        let text = read(&path)?;
        let key = KeyPair::from_pem(&text)
            .map_err(|error| certificate(&path.display().to_string(), &error))?;
        let path = folder.join(CA_FILE);
        let certificate = CertificateDer::from_pem_slice(read(&path)?.as_bytes())
            .map_err(|why| KeyError::Certificate(path.display().to_string(), why.to_string()))?;
        Ok(Self { folder: folder.to_owned(), key, certificate })
    }

    /// Its certificate, DER.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The texts of its files: the certificate and the key.
    ///
    /// # Errors
    /// [`KeyError`]
    pub(crate) fn texts(&self) -> Result<(String, String), KeyError> {
        Ok((read(&self.folder.join(CA_FILE))?, read(&self.folder.join(KEY_FILE))?))
    }

    /// The file with its certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join(CA_FILE)
    }

    /// A key and a certificate for shards of one host, from `now` on.
    fn issue_for_shards(
        &self,
        shards: &[ShardId],
        now: SystemTime,
    ) -> Result<CertifiedKey, KeyError> {
        let issuer = Issuer::new(authority_params(), &self.key);
        let terms = CertificateTerms {
            from: now - CLOCKS_APART,
            until: now + CERTIFICATE_LASTS,
            serial: None,
        };
        tls::issue_for_shards(&issuer, shards, terms)
            .map_err(|why| KeyError::Certificate("the shards of this host".to_owned(), why))
    }

    /// A key and a certificate for a listener of these names and addresses, from `now` on.
    fn issue(&self, names: &[String], now: SystemTime) -> Result<CertifiedKey, KeyError> {
        let name = names.first().map_or("gabion", String::as_str);
        let failed = |error: rcgen::Error| certificate(name, &error);
        let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = (now - DAY).into();
        params.not_after = (now + CERTIFICATE_LASTS).into();
        let key = KeyPair::generate().map_err(failed)?;
        let issuer = Issuer::new(authority_params(), &self.key);
        let made = params.signed_by(&key, &issuer).map_err(failed)?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing = any_supported_type(&secret)
            .map_err(|error| KeyError::Certificate(name.to_owned(), error.to_string()))?;
        // Those who know the authority by its digest alone are shown it.
        let chain = vec![made.der().clone(), self.certificate()];
        Ok(CertifiedKey::new(chain, signing))
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn certificate(name: &str, error: &rcgen::Error) -> KeyError {
    KeyError::Certificate(name.to_owned(), error.to_string())
}

fn read(path: &Path) -> Result<String, KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    fs::read_to_string(path).map_err(failed)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    write_durably(path, text.as_bytes(), mode).map_err(failed)
}

/// What a listener proves itself with.
pub struct ListenerKey {
    authority: Authority,
    names: Vec<String>,
    /// When it was made, and it.
    now: RwLock<(SystemTime, Arc<CertifiedKey>)>,
}

impl ListenerKey {
    /// One for a listener of these names and addresses.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn new(authority: Authority, names: Vec<String>) -> Result<Self, KeyError> {
        let made = SystemTime::now();
        let key = Arc::new(authority.issue(&names, made)?);
        Ok(Self { authority, names, now: RwLock::new((made, key)) })
    }

    /// Makes another one where that is due at `now`; also where the clock was set back.
    ///
    /// # Errors
    /// [`KeyError`]: the one of before stays.
    pub fn renew(&self, now: SystemTime) -> Result<(), KeyError> {
        let made = self.now.read().unwrap_or_else(PoisonError::into_inner).0;
        if now.duration_since(made).is_ok_and(|age| age < RENEWED_AFTER) {
            return Ok(());
        }
        let key = Arc::new(self.authority.issue(&self.names, now)?);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = (now, key);
        Ok(())
    }

    fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner).1)
    }
}

impl fmt::Debug for ListenerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerKey").field("names", &self.names).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for ListenerKey {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

/// What the shards of one process prove themselves with to other shards. Like that of a listener it
/// is on no disk, and another one is made long before it expires.
pub struct ShardKeys {
    authority: Authority,
    shards: Vec<ShardId>,
    /// When it was made, and it.
    now: RwLock<(SystemTime, Arc<CertifiedKey>)>,
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
        let key = Arc::new(authority.issue_for_shards(&shards, made)?);
        Ok(Self { authority, shards, now: RwLock::new((made, key)) })
    }

    /// Those of a time: others where those that there are were made long before, or after.
    fn at(&self, now: SystemTime) -> Arc<CertifiedKey> {
        let (made, key) = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        if now.duration_since(made).is_ok_and(|age| age < RENEWED_AFTER) {
            return key;
        }
        match self.authority.issue_for_shards(&self.shards, now) {
            Ok(made) => {
                let made = Arc::new(made);
                let mut place = self.now.write().unwrap_or_else(PoisonError::into_inner);
                *place = (now, Arc::clone(&made));
                made
            }
            Err(error) => {
                tracing::error!(%error, "the certificate of this host's shards stays the old one");
                key
            }
        }
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
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gkeys-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    #[test]
    fn an_authority_is_made_once_and_its_key_is_for_its_user_alone() {
        let folder = folder("once");
        assert!(matches!(Authority::open(&folder), Err(KeyError::NoAuthority(_))));
        let made = Authority::create(&folder).expect("an authority");
        let key = folder.join(KEY_FILE);
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode(&key), mode(&made.ca_file())), (0o600, 0o644));
        let before = (fs::read(&key).expect("a key"), fs::read(made.ca_file()).expect("it"));
        Authority::create(&folder).expect("the same");
        let after = (fs::read(&key).expect("a key"), fs::read(made.ca_file()).expect("it"));
        assert_eq!(before, after);
        fs::write(&key, "nonsense").expect("written");
        assert!(matches!(Authority::open(&folder), Err(KeyError::Certificate(..))));
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_listener_gets_another_certificate_long_before_its_own_expires() {
        let folder = folder("renewed");
        let authority = Authority::create(&folder).expect("an authority");
        let listener = ListenerKey::new(authority, vec!["host1".to_owned()]).expect("a key");
        let now = || listener.certified().cert[0].clone();
        let (first, begun) = (now(), SystemTime::now());
        listener.renew(begun + RENEWED_AFTER / 2).expect("nothing to do");
        assert_eq!(now(), first);
        listener.renew(begun + RENEWED_AFTER + DAY).expect("another one");
        let second = now();
        assert_ne!(second, first);
        // The clock went back: the one of now may not be one yet.
        listener.renew(begun).expect("another one");
        assert_ne!(now(), second);
        let authority = Authority::open(&folder).expect("it");
        let shards = ShardKeys::new(authority, vec![ShardId(4), ShardId(5)]).expect("a key");
        let at = |time| shards.at(time).cert[0].clone();
        let first = at(begun + RENEWED_AFTER / 2);
        assert_eq!(at(begun + RENEWED_AFTER / 2), first);
        let second = at(begun + RENEWED_AFTER + DAY);
        assert_ne!(second, first);
        assert_eq!(at(begun + RENEWED_AFTER + 2 * DAY), second, "not at each link");
        assert_ne!(at(begun), second, "the clock went back");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
