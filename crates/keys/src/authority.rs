// SPDX-License-Identifier: Apache-2.0
//! The authority: its files, and the certificates that it signs.

use crate::durable::write_durably;
use base::ShardId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tls::{CertificateSubject, CertificateTerms};

/// The authority's certificate, for whoever asks the cluster.
pub const CA_FILE: &str = "ca.pem";
/// The authority's key.
const KEY_FILE: &str = "ca-key.pem";
/// The name of every authority: which one it is its key says.
const AUTHORITY: &str = "Gabion cluster CA";
/// How long an authority is one.
const AUTHORITY_LASTS: Duration = Duration::from_secs(3653 * 86_400);
/// How long what it issues is a certificate.
const CERTIFICATE_LASTS: Duration = Duration::from_secs(90 * 86_400);
/// Clocks of hosts may differ by so much, and still one takes the certificate of the other.
const CLOCKS_APART: Duration = Duration::from_secs(30 * 86_400);
/// After that there is another one.
pub const RENEWED_AFTER: Duration = Duration::from_secs(30 * 86_400);

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
        params.not_before = (SystemTime::now() - CLOCKS_APART).into();
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

    /// Takes the files of one out of a folder, which nobody has used yet.
    pub fn remove(folder: &Path) {
        // What cannot be removed is found by the next attempt.
        let _ = fs::remove_file(folder.join(KEY_FILE));
        let _ = fs::remove_file(folder.join(CA_FILE));
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
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The texts of its files: the certificate and the key.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn texts(&self) -> Result<(String, String), KeyError> {
        Ok((read(&self.folder.join(CA_FILE))?, read(&self.folder.join(KEY_FILE))?))
    }

    /// The file with its certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join(CA_FILE)
    }

    /// A key and a certificate for shards of one host, from `now` on.
    pub(crate) fn for_shards(
        &self,
        shards: &[ShardId],
        now: SystemTime,
    ) -> Result<CertifiedKey, KeyError> {
        let issuer = Issuer::new(authority_params(), &self.key);
        tls::issue_for_shards(&issuer, shards, terms(now, CERTIFICATE_LASTS))
            .map_err(|why| KeyError::Certificate("the shards of this host".to_owned(), why))
    }

    /// A key and a certificate for a listener of these names and addresses, from `now` on.
    pub(crate) fn for_listener(
        &self,
        names: &[String],
        now: SystemTime,
    ) -> Result<CertifiedKey, KeyError> {
        let subject = CertificateSubject {
            names: names.to_vec(),
            uses: vec![ExtendedKeyUsagePurpose::ServerAuth],
            algorithm: &PKCS_ECDSA_P256_SHA256,
        };
        let (made, key) = self.issue(subject, terms(now, CERTIFICATE_LASTS))?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let name = names.first().cloned().unwrap_or_default();
        let signing = any_supported_type(&secret)
            .map_err(|error| KeyError::Certificate(name, error.to_string()))?;
        // Those who know the authority by its digest alone are shown it.
        let chain = vec![made.der().clone(), self.certificate()];
        Ok(CertifiedKey::new(chain, signing))
    }

    /// What the member of the directory on the host with this address proves itself with from `now`
    /// on: to those who ask it, and to other members.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn directory_member(&self, address: IpAddr, now: SystemTime) -> Result<PemKey, KeyError> {
        let mut names = vec![address.to_string()];
        // Members look at where another one comes from: within one machine that is this address.
        let loopback = Ipv4Addr::LOCALHOST;
        if address.is_loopback() && address != loopback {
            names.push(loopback.to_string());
        }
        let subject = CertificateSubject {
            names,
            // A member asks itself too: as a client, with what it has as a server.
            uses: vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            algorithm: &PKCS_ECDSA_P256_SHA256,
        };
        self.pem(subject, terms(now, CERTIFICATE_LASTS))
    }

    /// What this process proves itself with to members of the directory, from `now` on. It is for
    /// as long as an authority is one: a process takes it once, and it is on no disk.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn directory_client(&self, now: SystemTime) -> Result<PemKey, KeyError> {
        let subject = CertificateSubject {
            names: vec!["directory-client.gabion".to_owned()],
            uses: vec![ExtendedKeyUsagePurpose::ClientAuth],
            algorithm: &PKCS_ECDSA_P256_SHA256,
        };
        self.pem(subject, terms(now, AUTHORITY_LASTS))
    }

    fn pem(
        &self,
        subject: CertificateSubject,
        terms: CertificateTerms,
    ) -> Result<PemKey, KeyError> {
        let (made, key) = self.issue(subject, terms)?;
        let ca = self.texts()?.0;
        Ok(PemKey { certificate: made.pem(), key: key.serialize_pem(), ca })
    }

    fn issue(
        &self,
        subject: CertificateSubject,
        terms: CertificateTerms,
    ) -> Result<(rcgen::Certificate, KeyPair), KeyError> {
        let name = subject.names.first().cloned().unwrap_or_default();
        let issuer = Issuer::new(authority_params(), &self.key);
        tls::issue(&issuer, subject, terms).map_err(|why| KeyError::Certificate(name, why))
    }
}

/// A key and its certificate, and the authority that others are known by, all of them as PEM.
#[derive(Clone)]
pub struct PemKey {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
    /// The authority's certificate.
    pub ca: String,
}

/// Clocks of hosts differ: what one issues is one at the others too.
fn terms(now: SystemTime, lasts: Duration) -> CertificateTerms {
    CertificateTerms { from: now - CLOCKS_APART, until: now + lasts, serial: None }
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

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    pub const DAY: Duration = Duration::from_secs(86_400);

    /// A folder, until the test is over.
    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("gkeys-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_authority_is_made_once_and_its_key_is_for_its_user_alone() {
        let here = Folder::new("once");
        let folder = here.0.clone();
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
    }
}
