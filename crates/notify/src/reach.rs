// SPDX-License-Identifier: Apache-2.0
//! Hosts and ports on the network, and why a message does not arrive there.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// Longest time for one message: mail servers take seconds over a greeting.
pub(crate) const DELIVERY_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a connection to one address: one that is away leaves time for the next.
const CONNECT_MAX: Duration = Duration::from_secs(8);
/// Addresses of one name that are tried, at most.
const ADDRESSES_MAX: usize = 4;

/// Why a message did not arrive. No text has a secret of the receiver's.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The name has no address, or nobody listens there.
    #[error("cannot connect to {to}: {source}; see that it runs, and that this host may reach it")]
    Connect {
        /// Host and port.
        to: String,
        /// What the system says.
        source: io::Error,
    },
    /// TLS was not agreed on.
    #[error("no TLS with {to}: {source}; for a CA of your own give its certificate (--ca-file)")]
    Tls {
        /// Host and port.
        to: String,
        /// Why.
        source: io::Error,
    },
    /// The certificates that this host trusts cannot be used.
    #[error("no certificate of a CA can be used: {why}")]
    Trust {
        /// Why.
        why: String,
    },
    /// It answered something else than that it has it.
    #[error("{to} answered {status}: see its log; a redirect is not followed")]
    Status {
        /// Host and port.
        to: String,
        /// The status of HTTP.
        status: u16,
    },
    /// The conversation broke off.
    #[error("{to} broke off: {why}")]
    Broken {
        /// Host and port.
        to: String,
        /// Why.
        why: String,
    },
    /// The mail server does not take it.
    #[error("the mail server {to}: {why}")]
    Mail {
        /// Host and port.
        to: String,
        /// What it said.
        why: String,
    },
    /// It cannot be written as a message.
    #[error("no message can be made of it: {why}")]
    Form {
        /// Why.
        why: String,
    },
    /// It took too long.
    #[error("no answer within {} s", DELIVERY_MAX.as_secs())]
    Late,
}

/// Connects to a host and a port (`host:port`), to the first of its addresses that answers.
pub(crate) async fn dial(to: &str) -> Result<TcpStream, DeliveryError> {
    let failed = |source| DeliveryError::Connect { to: to.to_owned(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses(to).await? {
        match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed(last))
}

/// The addresses of a host and a port that may be spoken to.
pub(crate) async fn addresses(to: &str) -> Result<Vec<SocketAddr>, DeliveryError> {
    let failed = |source| DeliveryError::Connect { to: to.to_owned(), source };
    let found = tokio::net::lookup_host(to).await.map_err(failed)?;
    let found: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
    if found.iter().any(|address| is_forbidden(address.ip())) {
        let why = "an address of the link alone, where clouds keep credentials of machines, is not \
                   spoken to";
        return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    Ok(found)
}

/// Addresses at which no receiver is, but things that must not be asked for somebody else.
fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified() || v4.is_multicast(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_forbidden(IpAddr::V4(v4)),
            None => v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_link_are_not_spoken_to() {
        for address in
            ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "0.0.0.0", "ff02::1"]
        {
            assert!(is_forbidden(address.parse().expect("an address")), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "192.0.2.1", "::1", "2001:db8::1"] {
            assert!(!is_forbidden(address.parse().expect("an address")), "{address}");
        }
    }
}
