// SPDX-License-Identifier: Apache-2.0
//! Who is told of what health checks find.

use directory::{MailTls, NoticeLevel, NoticeReceiver, ReceiverWay, SecretText};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Somebody who is told, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiverReport {
    /// Its name.
    pub name: String,
    /// `webhook`, `email` or `syslog`.
    pub kind: String,
    /// Where it is told. Of a webhook's URL only the part before the path: others are secrets.
    pub target: String,
    /// What is less bad is not told.
    pub from_state: NoticeLevel,
    /// The groups of checks that it is told of; empty: of all.
    pub groups: Vec<String>,
    /// After so many seconds it is reminded of what is still wrong; none: never.
    pub remind_seconds: Option<u64>,
    /// Whether it has a secret or a password: it is never shown again.
    pub has_secret: bool,
    /// Whether others on the way can read what it is told.
    pub is_in_clear: bool,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// When it was told something last, seconds since 1970; none: never.
    pub told_at: Option<u64>,
    /// How many checks it knows to be wrong.
    pub open: u64,
    /// Since when it cannot be told, seconds since 1970; none: nothing is known to be wrong.
    pub trouble_since: Option<u64>,
    /// Why it cannot be told.
    pub trouble: Option<String>,
}

impl ReceiverReport {
    /// What may be said of a receiver.
    #[must_use]
    pub fn of(receiver: &NoticeReceiver) -> Self {
        let open = receiver.told.iter().filter(|told| told.level.is_some()).count();
        let times = receiver.told.iter().filter_map(|told| told.times.last().copied());
        Self {
            name: receiver.name.clone(),
            kind: receiver.way.kind().to_owned(),
            target: target(&receiver.way),
            from_state: receiver.from_state,
            groups: receiver.groups.clone(),
            remind_seconds: receiver.remind_seconds,
            has_secret: receiver.way.secret().is_some(),
            is_in_clear: is_in_clear(&receiver.way),
            created: receiver.created,
            told_at: times.max(),
            open: u64::try_from(open).unwrap_or(u64::MAX),
            trouble_since: receiver.trouble.as_ref().map(|trouble| trouble.since),
            trouble: receiver.trouble.as_ref().map(|trouble| trouble.why.clone()),
        }
    }
}

fn target(way: &ReceiverWay) -> String {
    match way {
        ReceiverWay::Webhook { url, .. } => without_path(&url.0),
        ReceiverWay::Email { address, smtp, .. } => format!("{address} by {smtp}"),
        ReceiverWay::Syslog { address: None, .. } => "the syslog of the host that tells".to_owned(),
        ReceiverWay::Syslog { address: Some(address), tcp } => {
            format!("{address}/{}", if *tcp { "tcp" } else { "udp" })
        }
    }
}

/// A URL up to its path: what follows may be what lets somebody in there.
fn without_path(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |at| begin + at);
    let rest = &url[end..];
    let more = if rest.is_empty() || rest == "/" { rest } else { "/..." };
    format!("{}{more}", &url[..end])
}

fn is_in_clear(way: &ReceiverWay) -> bool {
    match way {
        ReceiverWay::Webhook { url, .. } => url.0.starts_with("http://"),
        ReceiverWay::Email { tls, .. } => *tls == MailTls::None,
        ReceiverWay::Syslog { address, .. } => address.is_some(),
    }
}

/// Receivers as they are stored, for whoever tells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiversReport {
    /// What the cluster is called in messages.
    pub cluster: String,
    /// All receivers, with their secrets.
    pub receivers: Vec<NoticeReceiver>,
}

/// A way as the audit keeps it.
#[must_use]
pub fn way_without_secrets(way: &ReceiverWay) -> ReceiverWay {
    let hidden = || SecretText("(not kept)".to_owned());
    let mut way = way.clone();
    match &mut way {
        ReceiverWay::Webhook { url, secret, ca } => {
            *url = SecretText(without_path(&url.0));
            *secret = secret.as_ref().map(|_| hidden());
            *ca = ca.as_ref().map(|_| "(not kept)".to_owned());
        }
        ReceiverWay::Email { password, ca, .. } => {
            *password = password.as_ref().map(|_| hidden());
            *ca = ca.as_ref().map(|_| "(not kept)".to_owned());
        }
        ReceiverWay::Syslog { .. } => {}
    }
    way
}

/// A test message arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyTestReport {
    /// The receiver.
    pub name: String,
    /// What it answered.
    pub answer: String,
    /// The message's id, by which the receiver knows it.
    pub id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_host_of_a_url_is_not_shown() {
        for (url, shown) in [
            ("https://a.example", "https://a.example"),
            ("https://a.example/", "https://a.example/"),
            ("https://a.example:8443/services/T0/secret", "https://a.example:8443/..."),
            ("http://a.example?token=secret", "http://a.example/..."),
        ] {
            assert_eq!(without_path(url), shown);
        }
    }
}
