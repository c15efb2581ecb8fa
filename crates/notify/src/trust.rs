// SPDX-License-Identifier: Apache-2.0
//! Which certificates are believed: those of the CA that a receiver names, else those of the CAs
//! that the machine trusts.

use crate::reach::DeliveryError;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

fn failed(why: impl ToString) -> DeliveryError {
    DeliveryError::Trust { why: why.to_string() }
}

/// The certificates of a text.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, DeliveryError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.map_err(failed)
}

/// How a receiver's server proves itself, whose CA this is; none: one that the machine trusts.
pub(crate) fn client(ca: Option<&str>) -> Result<ClientConfig, DeliveryError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => {
            for certificate in certificates(pem)? {
                roots.add(certificate).map_err(failed)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    if roots.is_empty() {
        return Err(failed("there is none: install ca-certificates, or give --ca-file"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
