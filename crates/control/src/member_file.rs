// SPDX-License-Identifier: Apache-2.0
//! A host's part in the directory: what an operator decided, in a file beside its configuration,
//! and what its daemon has to know after a restart of everything, in a file among what it keeps.

use crate::client::{Endpoints, is_encrypted};
use crate::error::ControlError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port at which members answer clients; they answer each other at the one that follows.
pub const PORT_DEFAULT: u16 = 7078;
/// Seconds after which a silent member's place goes to another host.
const MOVE_AFTER_S: u64 = 600;

/// In the folder of what a member keeps: where the directory is, and which member this is.
const STATE_FILE: &str = "state.toml";

/// A host's part in the directory, as its files have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberFile {
    /// The host's name.
    pub host: String,
    /// Its address towards the other hosts.
    pub address: IpAddr,
    /// Where a member on this host answers clients; other members reach it at the port that
    /// follows.
    pub port: u16,
    /// Folder of what a member on this host keeps.
    pub data: PathBuf,
    /// Seconds after which a silent member's place goes to another host.
    #[serde(default = "move_after_s")]
    pub move_after_s: u64,
    /// Whether members want to know who asks, and nobody else reads what passes: from the start of
    /// a cluster on, or never.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    encrypted: bool,
    /// Folder of the cluster's CA, where they do.
    #[serde(skip)]
    keys: Option<PathBuf>,
    /// What the daemon keeps.
    #[serde(skip)]
    pub state: MemberState,
}

/// What a host's daemon keeps of the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberState {
    /// Where the directory answers, as was last known: URLs of its members.
    pub endpoints: Vec<String>,
    /// The member on this host, hexadecimal; none where the directory is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

fn move_after_s() -> u64 {
    MOVE_AFTER_S
}

impl MemberFile {
    /// That of a host that is no member and knows of none.
    #[must_use]
    pub fn new(host: &str, address: IpAddr, port: u16, data: &Path) -> Self {
        let (host, data) = (host.to_owned(), data.to_owned());
        let (move_after_s, state) = (MOVE_AFTER_S, MemberState::default());
        Self { host, address, port, data, move_after_s, encrypted: false, keys: None, state }
    }

    /// The same, with members that want to know who asks. The cluster's CA is in the folder `keys`,
    /// beside this file.
    #[must_use]
    pub fn encrypted(mut self, keys: &Path) -> Self {
        (self.encrypted, self.keys) = (true, Some(keys.to_owned()));
        self
    }

    /// Where the file of a host is whose configuration is in the folder of `config`.
    #[must_use]
    pub fn beside(config: &Path, host: &str) -> PathBuf {
        config.with_file_name(format!("{host}.directory.toml"))
    }

    /// Reads it, and what the daemon keeps.
    ///
    /// # Errors
    /// [`ControlError::MemberFile`]: one of them cannot be read, or is not such a file.
    pub fn read(path: &Path) -> Result<Self, ControlError> {
        let mut file: Self = parse(path, &text(path)?)?;
        if file.port == 0 || file.port == u16::MAX {
            let source = invalid("port: it and the one that follows are needed");
            return Err(ControlError::MemberFile { path: path.to_owned(), source });
        }
        file.keys = file.encrypted.then(|| path.parent().unwrap_or(Path::new(".")).to_owned());
        let state = file.data.join(STATE_FILE);
        if state.exists() {
            file.state = parse(&state, &text(&state)?)?;
        }
        Ok(file)
    }

    /// Writes it, and what the daemon keeps.
    ///
    /// # Errors
    /// [`ControlError::MemberFile`].
    pub fn write(&self, path: &Path) -> Result<(), ControlError> {
        self.write_state()?;
        write(path, self)
    }

    /// Writes what the daemon keeps.
    ///
    /// # Errors
    /// [`ControlError::MemberFile`].
    pub fn write_state(&self) -> Result<(), ControlError> {
        let path = self.data.join(STATE_FILE);
        fs::create_dir_all(&self.data)
            .map_err(|source| ControlError::MemberFile { path: path.clone(), source })?;
        write(&path, &self.state)
    }

    /// Where a member on this host answers clients.
    #[must_use]
    pub fn for_clients(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Where it answers other members.
    #[must_use]
    pub fn for_members(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port.saturating_add(1))
    }

    /// The URL of it for clients.
    #[must_use]
    pub fn client_url(&self) -> String {
        self.url(self.for_clients())
    }

    /// Folder of the cluster's CA, where members want to know who asks.
    #[must_use]
    pub fn keys(&self) -> Option<&Path> {
        self.keys.as_deref()
    }

    /// Where the directory is, as was last known.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints {
        Endpoints { urls: self.state.endpoints.clone(), file: None, keys: self.keys.clone() }
    }

    /// The URL of it for other members.
    #[must_use]
    pub fn member_url(&self) -> String {
        self.url(self.for_members())
    }

    fn url(&self, address: SocketAddr) -> String {
        url(self.encrypted, address)
    }

    /// The number of the member on this host.
    #[must_use]
    pub fn member(&self) -> Option<u64> {
        u64::from_str_radix(self.state.member.as_deref()?, 16).ok()
    }

    /// The same with another member on this host, or none.
    #[must_use]
    pub fn with_member(mut self, member: Option<u64>) -> Self {
        self.state.member = member.map(|id| format!("{id:x}"));
        self
    }

    /// The same with the directory at these URLs.
    #[must_use]
    pub fn with_endpoints(mut self, endpoints: Vec<String>) -> Self {
        self.state.endpoints = endpoints;
        self
    }

    /// Where the directory is, as the file at `path` knows and keeps up to date; at `otherwise`
    /// where it knows nothing yet.
    ///
    /// # Errors
    /// [`ControlError::MemberFile`].
    pub fn followed(path: PathBuf, otherwise: Vec<String>) -> Result<Endpoints, ControlError> {
        let mut known = Self::read(&path)?.endpoints();
        if known.urls.is_empty() {
            known.urls = otherwise;
        }
        Ok(Endpoints { file: Some(path), ..known })
    }

    /// The same as a further host of the directory at these URLs: with members that want to know
    /// who asks where those do. The cluster's CA is in the folder `keys` then.
    #[must_use]
    pub fn joining(self, endpoints: Vec<String>, keys: &Path) -> Self {
        let is_encrypted = endpoints.iter().any(|url| is_encrypted(url));
        let file = if is_encrypted { self.encrypted(keys) } else { self };
        file.with_endpoints(endpoints)
    }

    /// How long a member may be silent before another host gets its place.
    #[must_use]
    pub fn move_after(&self) -> Duration {
        Duration::from_secs(self.move_after_s)
    }
}

/// Who keeps the directory.
pub enum Keeping {
    /// The hosts: this one's part.
    Own(MemberFile),
    /// An etcd at these URLs, which is run by hand, or by a cluster on one machine.
    Given(Vec<String>),
}

impl Keeping {
    /// Where it answers.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints {
        match self {
            Self::Own(file) => file.endpoints(),
            Self::Given(urls) => urls.clone().into(),
        }
    }
}

/// The URL of an address.
pub fn url(encrypted: bool, address: SocketAddr) -> String {
    format!("{}://{address}", if encrypted { "https" } else { "http" })
}

fn text(path: &Path) -> Result<String, ControlError> {
    let wrap = |source| ControlError::MemberFile { path: path.to_owned(), source };
    fs::read_to_string(path).map_err(wrap)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ControlError> {
    let wrap = |source| ControlError::MemberFile { path: path.to_owned(), source };
    toml::from_str(text).map_err(|error| wrap(invalid(error.message())))
}

fn write<T: Serialize>(path: &Path, content: &T) -> Result<(), ControlError> {
    write_toml(path, content)
        .map_err(|source| ControlError::MemberFile { path: path.to_owned(), source })
}

/// Writes a TOML file: the old one or the new one is there afterwards, whole.
///
/// # Errors
/// Those of the file system; what cannot be said in TOML.
pub fn write_toml<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    let text = toml::to_string_pretty(content).map_err(io::Error::other)?;
    keys::write_durably(path, text.as_bytes(), 0o644)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_anything_else_is_refused() {
        let folder = std::env::temp_dir().join(format!("gabion-member-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = MemberFile::beside(&folder.join("host.toml"), "host1");
        assert_eq!(path, folder.join("host1.directory.toml"));
        let address = "10.0.0.1".parse().expect("an address");
        let file = MemberFile::new("host1", address, PORT_DEFAULT, &folder.join("data"));
        let here = vec![file.client_url()];
        let file = file.with_member(Some(0xabc)).with_endpoints(here);
        file.write(&path).expect("written");
        assert_eq!(MemberFile::read(&path).expect("read"), file);
        assert_eq!(file.member(), Some(0xabc));
        assert_eq!(file.member_url(), "http://10.0.0.1:7079");
        let encrypted = file.clone().encrypted(&folder);
        encrypted.write(&path).expect("written");
        assert_eq!(MemberFile::read(&path).expect("read"), encrypted);
        assert_eq!(encrypted.member_url(), "https://10.0.0.1:7079");
        let text = fs::read_to_string(&path).expect("the file");
        for (from, to) in [("port = 7078", "port = 65535"), ("host1", "host1\"\nother = \"x")] {
            fs::write(&path, text.replace(from, to)).expect("written");
            assert!(MemberFile::read(&path).is_err(), "{to}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
