// SPDX-License-Identifier: Apache-2.0
//! Certificates.

use crate::identity::shard_name;
use base::ShardId;
use rcgen::{
    Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, SerialNumber, SignatureAlgorithm, SigningKey,
};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;
use std::time::SystemTime;

/// For what time a certificate is one.
#[derive(Clone, Copy, Debug)]
pub struct CertificateTerms {
    /// Not before.
    pub from: SystemTime,
    /// Not after.
    pub until: SystemTime,
    /// Its number; `None`: a random one.
    pub serial: Option<u64>,
}

/// Whose a certificate is, and what for.
pub struct CertificateSubject {
    /// Names and addresses. The first one is the common name too.
    pub names: Vec<String>,
    /// As which end of a link it proves its holder.
    pub uses: Vec<ExtendedKeyUsagePurpose>,
    /// What the key is made for.
    pub algorithm: &'static SignatureAlgorithm,
}

/// A new key, and a certificate by `authority` that says whose it is.
///
/// # Errors
/// What is wrong, for people.
pub fn issue(
    authority: &Issuer<'_, impl SigningKey>,
    subject: CertificateSubject,
    terms: CertificateTerms,
) -> Result<(Certificate, KeyPair), String> {
    let failed = |error: rcgen::Error| error.to_string();
    let common = subject.names.first().cloned().unwrap_or_default();
    let mut params = CertificateParams::new(subject.names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, common);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = subject.uses;
    params.use_authority_key_identifier_extension = true;
    params.not_before = terms.from.into();
    params.not_after = terms.until.into();
    params.serial_number = terms.serial.map(SerialNumber::from);
    let key = KeyPair::generate_for(subject.algorithm).map_err(failed)?;
    let made = params.signed_by(&key, authority).map_err(failed)?;
    Ok((made, key))
}

/// A new key, and a certificate by `authority` that says whose it is: that of all of `shards`,
/// those of one host.
///
/// The key is of Ed25519: its signatures are all of one length. So are then the messages of a
/// handshake, and a simulation goes the same way each time.
///
/// # Errors
/// What is wrong, for people.
pub fn issue_for_shards(
    authority: &Issuer<'_, impl SigningKey>,
    shards: &[ShardId],
    terms: CertificateTerms,
) -> Result<CertifiedKey, String> {
    let subject = CertificateSubject {
        names: shards.iter().map(|shard| shard_name(*shard)).collect(),
        uses: vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        algorithm: &PKCS_ED25519,
    };
    let (made, key) = issue(authority, subject, terms)?;
    let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(key.serialize_der()))
        .map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(vec![made.der().clone()], signing))
}
