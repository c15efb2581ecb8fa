// SPDX-License-Identifier: Apache-2.0
//! Addresses as they are written in records and configuration: `unix:/path` or `tcp:ip:port`.

use env::Address;
use thiserror::Error;

/// Longest path of a Unix socket, bytes (`sockaddr_un` less its final zero).
const UNIX_PATH_MAX: usize = 107;

/// Why an address was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    /// neither form
    #[error(
        "'{}' is not an address: write unix:/path/to/socket or tcp:192.0.2.1:7000",
        .0.escape_debug()
    )]
    Form(String),
    /// kernel limit
    #[error(
        "the socket path '{}' is longer than 107 bytes: use a shorter folder",
        .0.escape_debug()
    )]
    TooLong(String),
}

/// Reads an address.
///
/// # Errors
/// [`AddressError`] with the text.
pub fn parse_address(text: &str) -> Result<Address, AddressError> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.len() > UNIX_PATH_MAX {
            return Err(AddressError::TooLong(path.to_owned()));
        }
        // The system would take a zero for the path's end.
        if path.starts_with('/') && !path.contains('\0') {
            return Ok(Address::Unix(path.to_owned()));
        }
    } else if let Some(Ok(address)) = text.strip_prefix("tcp:").map(str::parse) {
        return Ok(Address::Tcp(address));
    }
    Err(AddressError::Form(text.to_owned()))
}

/// Writes an address so that [`parse_address`] reads it.
#[must_use]
pub fn format_address(address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("unix:{path}"),
        Address::Tcp(address) => format!("tcp:{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_refuses_the_rest() {
        for text in ["unix:/run/gabion/peer.sock", "tcp:10.0.0.1:7000", "tcp:[::1]:7000"] {
            assert_eq!(parse_address(text).map(|a| format_address(&a)), Ok(text.to_owned()));
        }
        for text in
            ["", "unix:relative", "unix:/a\0b", "tcp:host:1", "10.0.0.1:7000", "tcp:10.0.0.1"]
        {
            assert_eq!(parse_address(text), Err(AddressError::Form(text.to_owned())));
        }
        let long = format!("unix:/{}", "a".repeat(120));
        assert!(matches!(parse_address(&long), Err(AddressError::TooLong(_))));
    }
}
