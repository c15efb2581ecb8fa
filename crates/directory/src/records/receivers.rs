// SPDX-License-Identifier: Apache-2.0
//! Who is told of what health checks find: receivers, and what each was told last.
//!
//! The secrets of receivers stand here in clear, for whoever tells them has to use them. Nothing
//! prints them: [`SecretText`].

use super::error::{RecordError, are_unique, ensure};
use super::json::{FORMAT, Stored, from_json, to_json};
use super::keys::{NAME_RULE, PREFIX, is_name};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Debug, Formatter};

/// Receivers that a cluster may have: each costs a message of every check that turns.
pub const RECEIVERS_MAX: usize = 16;
/// Groups of checks that a receiver names, at most, and bytes of the name of one.
pub const RECEIVER_GROUPS_MAX: usize = 16;
const GROUP_BYTES_MAX: usize = 32;
/// Checks of which is kept what a receiver was told: more than there are.
pub const TOLD_MAX: usize = 96;
/// Bytes of a check's name.
const CHECK_BYTES_MAX: usize = 64;
/// Times that are kept of a check: so many messages in a short while, and it flaps.
pub const TOLD_TIMES_MAX: usize = 5;
/// A URL, bytes.
const URL_BYTES_MAX: usize = 1024;
/// An address of mail, or a host and a port, bytes.
const ADDRESS_BYTES_MAX: usize = 320;
/// A secret, bytes.
const SECRET_BYTES_MAX: usize = 1024;
/// Certificates of a CA, bytes.
const CA_BYTES_MAX: usize = 16 << 10;
/// Why a receiver cannot be told, bytes. What is longer is cut.
pub const TROUBLE_BYTES_MAX: usize = 300;
/// The shortest and the longest time between two reminders, seconds.
pub const REMIND_SECONDS_MIN: u64 = 3600;
/// The longest one.
pub const REMIND_SECONDS_MAX: u64 = 30 * 86_400;

/// The key of the [`ReceiversRecord`].
#[must_use]
pub fn receivers_key() -> String {
    format!("{PREFIX}receivers")
}

/// A text that opens something. It is stored and sent, and never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
#[serde(transparent)]
pub struct SecretText(pub String);

impl Debug for SecretText {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("(not shown)")
    }
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NoticeLevel {
    /// Something is to be looked at.
    Yellow,
    /// I/O does not work, or data is at risk.
    Red,
}

impl NoticeLevel {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

/// How a connection to a mail server is kept from others' eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// It begins in clear and must go over to TLS.
    Starttls,
    /// TLS from its first byte on.
    Tls,
    /// Not at all.
    None,
}

/// On which way a receiver is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum ReceiverWay {
    /// JSON, posted to a URL.
    Webhook {
        /// Where: `https://` or `http://`.
        url: SecretText,
        /// With what messages are signed, as Standard Webhooks has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<SecretText>,
        /// Certificates of the CA that its server is of, PEM; none: those that the machine trusts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// Mail.
    Email {
        /// To whom.
        address: String,
        /// From whom.
        from: String,
        /// The mail server: a host and a port.
        smtp: String,
        /// How the connection to it is kept from others' eyes.
        tls: MailTls,
        /// Who signs in there; none: nobody does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// With which password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<SecretText>,
        /// Certificates of the CA that the server is of, PEM; none: those that the machine trusts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// A line of syslog, RFC 5424.
    Syslog {
        /// A host and a port; none: the syslog of the machine that tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// Over TCP, where not over UDP.
        #[serde(default)]
        tcp: bool,
    },
}

/// What a receiver was told last of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ToldCheck {
    /// The check.
    pub check: String,
    /// How bad it was said to be; none: it was said to be well.
    pub level: Option<NoticeLevel>,
    /// The number of that message: each of a check has one more than the one before.
    pub number: u64,
    /// When the last messages were sent, seconds since 1970, the newest last; at most
    /// [`TOLD_TIMES_MAX`].
    pub times: Vec<u64>,
    /// Whether it was said that it goes up and down: further changes wait until it stays as it is.
    #[serde(default)]
    pub is_flapping: bool,
}

/// Why a receiver cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiverTrouble {
    /// Since when, seconds since 1970.
    pub since: u64,
    /// Why, and from which host.
    pub why: String,
}

/// Somebody who is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NoticeReceiver {
    /// Its name.
    pub name: String,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// How it is told.
    pub way: ReceiverWay,
    /// What is less bad is not told.
    pub from_state: NoticeLevel,
    /// The groups of checks that it is told of; empty: of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// After so many seconds it is reminded of what is still wrong; none: never.
    pub remind_seconds: Option<u64>,
    /// What it was told, each check once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<ToldCheck>,
    /// Why it cannot be told; none: nothing is known to be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ReceiverTrouble>,
}

/// All receivers, at [`receivers_key`]; without a record there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiversRecord {
    /// At most [`RECEIVERS_MAX`], each name once.
    pub receivers: Vec<NoticeReceiver>,
}

/// Whether a text has no characters that end a line or a header, nor others that nobody sees.
fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// Whether a text is one word of ASCII that can be seen.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether it is a host and a port: `mail.example.com:587`, `192.0.2.1:514`, `[2001:db8::1]:514`.
#[must_use]
pub fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|it| it.is_ascii_alphanumeric() || b".-_".contains(&it))
        }
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with('+');
    text.len() <= ADDRESS_BYTES_MAX && is_host && is_port
}

/// Whether it is an address of mail that needs no quotes: `anna@example.com`.
#[must_use]
pub fn is_mail_address(text: &str) -> bool {
    let Some((who, host)) = text.rsplit_once('@') else { return false };
    let is_inner =
        |byte: u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte);
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    text.len() <= ADDRESS_BYTES_MAX
        && !who.is_empty()
        && !host.is_empty()
        && who.bytes().all(is_inner)
        && host.bytes().all(is_of_host)
}

/// Whether it is a URL of a webhook: `http` or `https`, a host, no name or password before it, no
/// fragment, nothing that is not seen.
#[must_use]
pub fn is_webhook_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return false };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = &rest[..end];
    let is_host = is_host_and_port(host) || is_host_and_port(&format!("{host}:1"));
    let is_odd = |byte: u8| b"#\\\"<>^`{|}".contains(&byte);
    text.len() <= URL_BYTES_MAX && is_word(text) && is_host && !text.bytes().any(is_odd)
}

impl SecretText {
    fn check(&self) -> Result<(), RecordError> {
        let is_right = !self.0.is_empty() && self.0.len() <= SECRET_BYTES_MAX && is_plain(&self.0);
        ensure(is_right, "secret", "is not one line of 1 to 1024 bytes")
    }
}

impl ReceiverWay {
    /// As it is written.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Email { .. } => "email",
            Self::Syslog { .. } => "syslog",
        }
    }

    /// The secret that it has beside its address.
    #[must_use]
    pub fn secret(&self) -> Option<&SecretText> {
        match self {
            Self::Webhook { secret, .. } => secret.as_ref(),
            Self::Email { password, .. } => password.as_ref(),
            Self::Syslog { .. } => None,
        }
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        self.secret().map_or(Ok(()), SecretText::check)?;
        let ca = match self {
            Self::Webhook { ca, .. } | Self::Email { ca, .. } => ca.as_ref(),
            Self::Syslog { .. } => None,
        };
        let is_pem =
            |ca: &String| ca.len() <= CA_BYTES_MAX && ca.contains("-----BEGIN CERTIFICATE");
        ensure(ca.is_none_or(is_pem), "ca", "is not a certificate as PEM, of 16 KiB at most")?;
        match self {
            Self::Webhook { url, .. } => ensure(
                is_webhook_url(&url.0),
                "url",
                "is not http:// or https:// and a host, with a port, a path and a query if need be",
            ),
            Self::Email { address, from, smtp, tls, user, password, .. } => {
                let rule = "is not an address as anna@example.com";
                ensure(is_mail_address(address), "address", rule)?;
                ensure(is_mail_address(from), "from", rule)?;
                ensure(is_host_and_port(smtp), "smtp", "is not a host and a port")?;
                let both = user.is_some() == password.is_some();
                ensure(both, "user", "and 'password' go together")?;
                let is_user = |user: &String| {
                    !user.is_empty() && user.len() <= ADDRESS_BYTES_MAX && is_plain(user)
                };
                ensure(user.as_ref().is_none_or(is_user), "user", "is not one line of 320 bytes")?;
                let is_safe = user.is_none() || *tls != MailTls::None;
                ensure(is_safe, "tls", "is to be 'starttls' or 'tls' where somebody signs in")
            }
            Self::Syslog { address, tcp } => {
                let is_right = |address: &String| is_host_and_port(address);
                ensure(
                    address.as_ref().is_none_or(is_right),
                    "address",
                    "is not a host and a port",
                )?;
                ensure(!tcp || address.is_some(), "tcp", "needs an address")
            }
        }
    }
}

impl NoticeReceiver {
    /// What it was told last of a check.
    #[must_use]
    pub fn told_of(&self, check: &str) -> Option<&ToldCheck> {
        self.told.iter().find(|told| told.check == check)
    }

    /// Takes what it was told, unless something newer of that check is known.
    pub fn take(&mut self, told: &ToldCheck) {
        let has_room = self.told.len() < TOLD_MAX;
        match self.told.iter_mut().find(|known| known.check == told.check) {
            Some(known) if known.number >= told.number => {}
            Some(known) => known.clone_from(told),
            None if has_room => self.told.push(told.clone()),
            None => {}
        }
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(is_name(&self.name), "name", NAME_RULE)?;
        self.way.check()?;
        ensure(self.groups.len() <= RECEIVER_GROUPS_MAX, "groups", "has too many entries")?;
        let is_group = |group: &String| is_word(group) && group.len() <= GROUP_BYTES_MAX;
        ensure(self.groups.iter().all(is_group), "groups", "has one that is no name of a group")?;
        ensure(are_unique(self.groups.iter()), "groups", "has one twice")?;
        let times = REMIND_SECONDS_MIN..=REMIND_SECONDS_MAX;
        let is_time = self.remind_seconds.is_none_or(|time| times.contains(&time));
        ensure(is_time, "remind_seconds", "is not from an hour to thirty days, or none")?;
        ensure(self.told.len() <= TOLD_MAX, "told", "has too many entries")?;
        let is_told = |told: &ToldCheck| {
            is_word(&told.check)
                && told.check.len() <= CHECK_BYTES_MAX
                && told.times.len() <= TOLD_TIMES_MAX
                && told.times.is_sorted()
        };
        ensure(self.told.iter().all(is_told), "told", "has an entry that is none")?;
        ensure(are_unique(self.told.iter().map(|told| &told.check)), "told", "has a check twice")?;
        let is_why = |trouble: &ReceiverTrouble| {
            trouble.why.len() <= TROUBLE_BYTES_MAX && is_plain(&trouble.why)
        };
        ensure(self.trouble.as_ref().is_none_or(is_why), "trouble", "is no line of 300 bytes")
    }
}

impl ReceiversRecord {
    /// The receiver of a name.
    #[must_use]
    pub fn receiver(&self, name: &str) -> Option<&NoticeReceiver> {
        self.receivers.iter().find(|receiver| receiver.name == name)
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.receivers.len() <= RECEIVERS_MAX, "receivers", "has too many entries")?;
        let names = self.receivers.iter().map(|receiver| &receiver.name);
        ensure(are_unique(names), "receivers", "has a name twice")?;
        self.receivers.iter().try_for_each(NoticeReceiver::check)
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        to_json(&StoredReceivers { format: FORMAT, receivers: self.receivers.clone() })
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let record = Self { receivers: from_json::<StoredReceivers>(bytes)?.receivers };
        record.check()?;
        Ok(record)
    }
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReceivers {
    format: u32,
    receivers: Vec<NoticeReceiver>,
}

impl Stored for StoredReceivers {
    fn format(&self) -> u32 {
        self.format
    }
}
