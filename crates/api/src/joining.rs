// SPDX-License-Identifier: Apache-2.0
//! How a machine becomes a host: an invitation, good once, which a host of the cluster gives out.
//!
//! An invitation says where to ask, by which digest the cluster's CA is known, and a secret. So a
//! machine that knows nothing of the cluster tells its hosts from anybody else, and they tell it
//! from anybody else. What it gets is what a host needs: the CA's files, and where the directory
//! answers.

use crate::client::{ApiClient, CallError};
use crate::request::ApiRequest;
use crate::secrets::{digest_of_bytes, is_digest};
use keys::{Authority, KeyError};
use operator::{Command, JoinReport};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Before the parts of an invitation.
const MARK: &str = "gbj_";

/// What an API tells those who come with an invitation.
pub struct JoinDoor {
    /// Where it is on the network.
    pub address: SocketAddr,
    /// The folder of the cluster's CA.
    pub keys: PathBuf,
    /// Where the directory answers now: URLs.
    pub directory: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl JoinDoor {
    /// The text of an invitation with this secret.
    ///
    /// # Errors
    /// [`KeyError`]: the CA's files cannot be read.
    pub(crate) fn invitation(&self, secret: &str) -> Result<String, KeyError> {
        let ca = digest_of_bytes(&Authority::open(&self.keys)?.certificate());
        let invitation = Invitation { secret: secret.to_owned(), ca, address: self.address };
        Ok(invitation.to_string())
    }

    /// What a host needs.
    ///
    /// # Errors
    /// [`KeyError`]: the CA's files cannot be read.
    pub(crate) fn given(&self) -> Result<JoinReport, KeyError> {
        let (ca, ca_key) = Authority::open(&self.keys)?.texts()?;
        Ok(JoinReport { ca, ca_key, directory: (self.directory)() })
    }
}

/// What lets a machine join: `gbj_`, a secret, the SHA-256 of the CA's certificate, and where to
/// ask, with dots between them.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    secret: String,
    ca: String,
    address: SocketAddr,
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}.{}.{}", self.secret, self.ca, self.address)
    }
}

/// Without its secret.
impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Invitation").field(&self.address).finish()
    }
}

/// A text is no invitation.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("is no invitation: 'gabion host invite' on a host of the cluster makes one")]
pub struct NoInvitation;

impl FromStr for Invitation {
    type Err = NoInvitation;

    fn from_str(text: &str) -> Result<Self, NoInvitation> {
        let mut parts = text.strip_prefix(MARK).ok_or(NoInvitation)?.splitn(3, '.');
        let mut next = || parts.next().ok_or(NoInvitation);
        let (secret, ca, address) = (next()?.to_owned(), next()?.to_owned(), next()?);
        let address = address.parse().map_err(|_| NoInvitation)?;
        match is_digest(&secret) && is_digest(&ca) {
            true => Ok(Self { secret, ca, address }),
            false => Err(NoInvitation),
        }
    }
}

/// Why an invitation led to nothing.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The host that gave it out does not answer, or is none of the cluster's.
    #[error(
        "the host at {0} that gave out the invitation does not answer ({1}): see that it runs, and \
         that this machine reaches it"
    )]
    Away(SocketAddr, CallError),
    /// It does not let this machine in.
    #[error("{0}")]
    Refused(String),
    /// What it answered cannot be kept.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It answered with the CA of another cluster.
    #[error("the host at {0} answered with another CA than its invitation names")]
    OtherAuthority(SocketAddr),
}

impl Invitation {
    /// Asks the host that gave it out, and keeps the CA's files in `keys`. Returns where the
    /// directory answers. The invitation is used up then.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn accept(&self, keys: &Path) -> Result<Vec<String>, JoinError> {
        let is_ours = |there: Authority| digest_of_bytes(&there.certificate()) == self.ca;
        match Authority::open(keys).map(is_ours) {
            Ok(true) | Err(KeyError::NoAuthority(_)) => {}
            Ok(false) => return Err(KeyError::OtherAuthority(keys.to_owned()).into()),
            Err(error) => return Err(error.into()),
        }
        let command = Command::HostJoin { invitation: self.secret.clone() };
        let request = ApiRequest::of(&command, None);
        let request = request.ok_or_else(|| JoinError::Refused("no such request".to_owned()))?;
        let asked = ApiClient::pinned(self.address, &self.ca).call::<JoinReport>(&request);
        let given = asked.map_err(|error| match error {
            CallError::Problem(problem) => JoinError::Refused(problem.detail),
            error => JoinError::Away(self.address, error),
        })?;
        let authority = Authority::install(keys, (&given.ca, &given.ca_key))?;
        match digest_of_bytes(&authority.certificate()) == self.ca {
            true => Ok(given.directory),
            false => Err(JoinError::OtherAuthority(self.address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_read_as_it_is_written() {
        let (secret, ca) = ("ab".repeat(32), "01".repeat(32));
        for address in ["10.0.0.1:7443", "[fd00::1]:7443"] {
            let address: SocketAddr = address.parse().expect("an address");
            let one = Invitation { secret: secret.clone(), ca: ca.clone(), address };
            let text = one.to_string();
            assert_eq!(text.parse::<Invitation>().ok(), Some(one.clone()));
            assert!(!format!("{one:?}").contains(&secret));
            let (short, other) = (&text[..text.len() - 5], text.replace("gbj_", "gbn_"));
            for wrong in [short, &other, &text.replace("ab", "AB"), "", "gbj_", "gbj_.."] {
                assert!(wrong.parse::<Invitation>().is_err(), "{wrong}");
            }
        }
    }
}
