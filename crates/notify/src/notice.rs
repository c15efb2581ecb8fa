// SPDX-License-Identifier: Apache-2.0
//! A message: what it says, as JSON for programs and as text for people.

use crate::due::{DueNotice, NoticeKind};
use directory::{NoticeLevel, NoticeReceiver};
use operator::CheckReport;
use serde::Serialize;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Lines of evidence and commands in a text: a check gives no more.
const LINES_MAX: usize = 20;
/// Most characters of a subject.
const SUBJECT_MAX: usize = 120;

/// Whose health it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterName {
    /// The cluster's name.
    pub name: String,
    /// The host that tells.
    pub host: String,
    /// Where its page is, where that is known.
    pub link: Option<String>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What it is: `health.` and why it is told, or `test`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was made: a time of RFC 3339, UTC.
    pub timestamp: String,
    /// What it says.
    pub data: NoticeData,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoticeData {
    /// The same for the same message, whichever host sends it and however often.
    pub id: String,
    /// The cluster's name.
    pub cluster: String,
    /// The host that sends it.
    pub host: String,
    /// The check.
    pub check: String,
    /// What the check is called.
    pub title: String,
    /// How it is: `green`, `yellow` or `red`.
    pub state: &'static str,
    /// What was told of it before.
    pub before: &'static str,
    /// The worst that it was since then.
    pub worst: &'static str,
    /// Since when it is so, RFC 3339.
    pub since: String,
    /// How often it changed since the last message.
    pub changes: u64,
    /// In one sentence.
    pub summary: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What it means for the user's data; empty where nothing is wrong.
    pub means: String,
    /// Commands that mend it, or show what to mend.
    pub mend: Vec<String>,
    /// Where the page is that shows it; none: nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

fn said(level: Option<NoticeLevel>) -> &'static str {
    level.map_or("green", NoticeLevel::name)
}

/// A time as RFC 3339 writes it.
pub(crate) fn time(seconds: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST));
    humantime::format_rfc3339_seconds(time).to_string()
}

impl Notice {
    /// A message about a check.
    #[must_use]
    pub fn of(
        cluster: &ClusterName,
        receiver: &NoticeReceiver,
        due: &DueNotice,
        check: &CheckReport,
        now: u64,
    ) -> Self {
        let level = said(due.told.level);
        let what = format!("{}.{}.{level}", due.check, due.told.number);
        Self {
            kind: format!("health.{}", due.kind.name()),
            timestamp: time(now),
            data: NoticeData {
                id: id(cluster, receiver, &what),
                cluster: cluster.name.clone(),
                host: cluster.host.clone(),
                check: due.check.clone(),
                title: check.title.clone(),
                state: level,
                before: said(due.before),
                worst: said(due.worst),
                since: check.since.clone(),
                changes: due.changes,
                summary: check.summary.clone(),
                evidence: check.evidence.clone(),
                means: due.told.level.map_or_else(String::new, |_| check.means.clone()),
                mend: check.mend.clone(),
                link: cluster.link.clone(),
            },
        }
    }

    /// A message that says that it is a test.
    #[must_use]
    pub fn test(cluster: &ClusterName, receiver: &NoticeReceiver, now: u64, unique: u64) -> Self {
        Self {
            kind: NoticeKind::Test.name().to_owned(),
            timestamp: time(now),
            data: NoticeData {
                id: id(cluster, receiver, &format!("test.{unique:x}")),
                cluster: cluster.name.clone(),
                host: cluster.host.clone(),
                check: "test".to_owned(),
                title: "A test".to_owned(),
                state: "green",
                before: "green",
                worst: "green",
                since: time(now),
                changes: 0,
                summary: "somebody wants to see whether messages arrive here".to_owned(),
                evidence: Vec::new(),
                means: "Nothing is wrong.".to_owned(),
                mend: Vec::new(),
                link: cluster.link.clone(),
            },
        }
    }

    /// One line: what a mail is called, and what syslog keeps.
    #[must_use]
    pub fn subject(&self) -> String {
        let data = &self.data;
        let news = match self.kind.as_str() {
            "health.well" => format!("{} is well again", data.check),
            "health.over" => format!("{} was {}, and is well again", data.check, data.worst),
            "health.reminder" => format!("{} is still {}", data.check, data.state),
            "health.flapping" => format!("{} goes up and down, now {}", data.check, data.state),
            "health.calm" => format!("{} is calm again: {}", data.check, data.state),
            "test" => "a test message".to_owned(),
            _ => format!("{} is {}", data.check, data.state),
        };
        let line = format!("[{}] {news}: {}", data.cluster, data.summary);
        let line = line.chars().map(|it| if it.is_control() { ' ' } else { it });
        line.take(SUBJECT_MAX).collect()
    }

    /// All of it, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let data = &self.data;
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<9} {value}");
        };
        line("cluster", &data.cluster);
        line("check", &format!("{} ({})", data.check, data.title));
        line("state", &format!("{}, before {}", data.state, data.before));
        line("since", &data.since);
        if data.changes > 1 {
            let worst = data.worst;
            line("changes", &format!("{} since the last message, {worst} at worst", data.changes));
        }
        line("found", &data.summary);
        for evidence in data.evidence.iter().take(LINES_MAX) {
            line("", &format!("- {evidence}"));
        }
        if !data.means.is_empty() {
            line("means", &data.means);
        }
        for (at, command) in data.mend.iter().take(LINES_MAX).enumerate() {
            line(if at == 0 { "next" } else { "" }, &format!("$ {command}"));
        }
        if let Some(link) = &data.link {
            line("page", link);
        }
        line("sent by", &format!("{}, {}", data.host, self.timestamp));
        line("id", &data.id);
        text
    }
}

/// Without a cluster's number: the names of two that one receiver knows are to differ.
fn id(cluster: &ClusterName, receiver: &NoticeReceiver, what: &str) -> String {
    let NoticeReceiver { name, created, .. } = receiver;
    format!("{}.{name}.{created:x}.{what}", cluster.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use directory::{ReceiverWay, ToldCheck};

    fn notice(summary: &str) -> Notice {
        let cluster = ClusterName {
            name: "demo".to_owned(),
            host: "host1".to_owned(),
            link: Some("https://host1:7443/".to_owned()),
        };
        let receiver = NoticeReceiver {
            name: "ops".to_owned(),
            created: 255,
            way: ReceiverWay::Syslog { address: None, tcp: false },
            from_state: NoticeLevel::Yellow,
            groups: Vec::new(),
            remind_seconds: None,
            told: Vec::new(),
            trouble: None,
        };
        let told = ToldCheck {
            check: "hosts.answering".to_owned(),
            level: Some(NoticeLevel::Yellow),
            number: 7,
            times: vec![1],
            is_flapping: false,
        };
        let due = DueNotice {
            check: told.check.clone(),
            kind: NoticeKind::Worse,
            before: None,
            worst: told.level,
            changes: 1,
            told,
        };
        let check = CheckReport {
            id: "hosts.answering".to_owned(),
            group: "hosts".to_owned(),
            title: "Hosts answer".to_owned(),
            state: operator::CheckState::Yellow,
            actual: None,
            summary: summary.to_owned(),
            evidence: vec!["host3 is down".to_owned()],
            since: "2026-11-29T10:00:00Z".to_owned(),
            means: "Copies are missing.".to_owned(),
            mend: vec!["gabion host start host3".to_owned()],
            silenced_until: None,
            silenced_because: None,
        };
        Notice::of(&cluster, &receiver, &due, &check, 1_764_410_400)
    }

    #[test]
    fn a_message_says_what_is_wrong_and_what_to_do() {
        let notice = notice("host3 is down");
        assert_eq!(notice.data.id, "demo.ops.ff.hosts.answering.7.yellow");
        assert_eq!(notice.subject(), "[demo] hosts.answering is yellow: host3 is down");
        let text = notice.text();
        for part in ["- host3 is down", "next      $ gabion host start host3", "means     Copies"] {
            assert!(text.contains(part), "{text}");
        }
        let json = serde_json::to_value(&notice).expect("JSON");
        assert_eq!(json["type"], "health.worse");
        assert_eq!(json["data"]["mend"][0], "gabion host start host3");
        assert_eq!(json["data"]["before"], "green");
    }

    #[test]
    fn a_subject_is_one_line_whatever_a_check_says() {
        let subject = notice("a\r\nBcc: everybody@example.com").subject();
        assert!(!subject.contains(['\r', '\n']), "{subject:?}");
        assert!(notice(&"x".repeat(1000)).subject().len() <= SUBJECT_MAX);
    }
}
