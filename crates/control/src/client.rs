// SPDX-License-Identifier: Apache-2.0
//! Clients of etcd.

use crate::error::ControlError;
use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use keys::{Authority, PemKey};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A member of etcd that accepts no connection within this time is not used until it does.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection to etcd is tested, also an idle one: a watch must notice a dead member.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A test not answered in this time ends the connection.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where etcd is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// URLs of its members, `http://host:port`, or `https://host:port` where they want to know who
    /// asks.
    pub urls: Vec<String>,
    /// The file of a host that keeps them up to date, where Gabion runs etcd by itself.
    pub file: Option<PathBuf>,
    /// Folder of the cluster's CA, where there is one.
    pub keys: Option<PathBuf>,
}

impl From<Vec<String>> for Endpoints {
    fn from(urls: Vec<String>) -> Self {
        Self { urls, file: None, keys: None }
    }
}

/// How this process comes to members of the directory: without proof, or with one of its own.
#[derive(Clone, Default)]
pub struct DirectoryDoor(Option<TlsOptions>);

impl DirectoryDoor {
    /// The one to these members.
    ///
    /// # Errors
    /// [`ControlError::NoKeys`], [`ControlError::Keys`]: the members are at https, and the key of
    /// the cluster's CA is not here.
    pub fn to(endpoints: &Endpoints) -> Result<Self, ControlError> {
        if !endpoints.urls.iter().any(|url| is_encrypted(url)) {
            return Ok(Self::default());
        }
        let no_keys = || ControlError::NoKeys { endpoints: endpoints.urls.join(", ") };
        let folder = endpoints.keys.as_ref().ok_or_else(no_keys)?;
        let authority = Authority::open(folder)?;
        let PemKey { certificate, key, ca } = authority.directory_client(SystemTime::now())?;
        let options = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(ca))
            .identity(Identity::from_pem(certificate, key));
        Ok(Self(Some(options)))
    }

    /// A client of etcd. `needs_leader`: it leaves a member that knows no leader.
    pub async fn connect(
        &self,
        endpoints: &[String],
        needs_leader: bool,
    ) -> Result<Client, ControlError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_keep_alive(KEEP_ALIVE_EVERY, KEEP_ALIVE_TIMEOUT)
            .with_keep_alive_while_idle(true)
            .with_require_leader(needs_leader);
        if let Some(proof) = &self.0 {
            options = options.with_tls(proof.clone());
        }
        let client = Client::connect(endpoints, Some(options)).await;
        client.map_err(|source| ControlError::Endpoints { source })
    }
}

/// Whether what passes to the member at a URL is encrypted.
pub fn is_encrypted(url: &str) -> bool {
    url.starts_with("https://")
}

/// Lets `client`, which uses the endpoints `used`, use `wanted`.
pub async fn follow_to(client: &Client, used: &mut BTreeSet<String>, wanted: &BTreeSet<String>) {
    let (new, old): (Vec<_>, Vec<_>) =
        (wanted.difference(used).cloned().collect(), used.difference(wanted).cloned().collect());
    for url in new {
        if client.add_endpoint(&url).await.is_ok() {
            used.insert(url);
        }
    }
    for url in old {
        if client.remove_endpoint(&url).await.is_ok() {
            used.remove(&url);
        }
    }
}
