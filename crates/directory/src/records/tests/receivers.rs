// SPDX-License-Identifier: Apache-2.0
//! Receivers of notifications.

use super::*;
use crate::{
    MailTls, NoticeLevel, NoticeReceiver, RECEIVERS_MAX, ReceiverTrouble, ReceiverWay,
    ReceiversRecord, SecretText, ToldCheck, is_host_and_port, is_mail_address, is_webhook_url,
};

const RECEIVERS_JSON: &str = include_str!("../../../fixtures/receivers-1.json");

fn told(check: &str, level: Option<NoticeLevel>, number: u64, times: &[u64]) -> ToldCheck {
    ToldCheck { check: check.to_owned(), level, number, times: times.to_vec(), is_flapping: false }
}

fn secret(text: &str) -> SecretText {
    SecretText(text.to_owned())
}

fn receiver(name: &str, created: u64, way: ReceiverWay) -> NoticeReceiver {
    NoticeReceiver {
        name: name.to_owned(),
        created,
        way,
        from_state: NoticeLevel::Yellow,
        groups: Vec::new(),
        remind_seconds: Some(3600),
        told: Vec::new(),
        trouble: None,
    }
}

fn record() -> ReceiversRecord {
    let url = secret("https://hooks.example.com/in/7");
    let hook = ReceiverWay::Webhook { url, secret: Some(secret("whsec_c2VjcmV0")), ca: None };
    let mail = ReceiverWay::Email {
        address: "ops@example.com".to_owned(),
        from: "gabion@example.com".to_owned(),
        smtp: "mail.example.com:587".to_owned(),
        tls: MailTls::Starttls,
        user: Some("gabion".to_owned()),
        password: Some(secret("secret")),
        ca: None,
    };
    let log = ReceiverWay::Syslog { address: Some("[2001:db8::1]:514".to_owned()), tcp: true };
    let why = "from host1: no answer within 30 s".to_owned();
    ReceiversRecord {
        receivers: vec![
            NoticeReceiver {
                remind_seconds: Some(86_400),
                told: vec![
                    told(
                        "hosts.answering",
                        Some(NoticeLevel::Yellow),
                        3,
                        &[1_764_400_100, 1_764_400_200],
                    ),
                    told("capacity.hosts", None, 2, &[1_764_400_300]),
                ],
                trouble: Some(ReceiverTrouble { since: 1_764_400_400, why }),
                ..receiver("hook", 1_764_400_000, hook)
            },
            NoticeReceiver {
                from_state: NoticeLevel::Red,
                groups: vec!["hosts".to_owned()],
                remind_seconds: None,
                ..receiver("mail", 1_764_400_001, mail)
            },
            receiver("log", 1_764_400_002, log),
        ],
    }
}

#[test]
fn receivers_are_stored_with_what_they_were_told() {
    let record = record();
    assert_eq!(String::from_utf8(record.encode()).unwrap(), RECEIVERS_JSON.trim_end());
    assert_eq!(ReceiversRecord::decode(RECEIVERS_JSON.as_bytes()).unwrap(), record);
    let refuse = |from, to| assert_refused(RECEIVERS_JSON, ReceiversRecord::decode, from, to);
    refuse("\"mail\",\"created\"", "\"hook\",\"created\"");
    refuse("\"mail\",\"created\"", "\"m ail\",\"created\"");
    refuse("\"starttls\"", "\"none\""); // a password in clear
    refuse("\"starttls\"", "\"ssl\"");
    refuse("ops@example.com", "ops@example.com\\r\\nBcc: x@y.z");
    refuse("https://hooks", "ftp://hooks");
    refuse("\"red\"", "\"green\"");
    refuse("[\"hosts\"]", "[\"hosts\",\"hosts\"]");
    refuse("86400", "60");
    refuse("[1764400100,1764400200]", "[1764400200,1764400100]");
    refuse("capacity.hosts", "hosts.answering");
    refuse("no answer", "no\\nanswer");
    refuse("\"format\":1", "\"format\":2");
    let mut full = record;
    full.receivers = (0..=RECEIVERS_MAX)
        .map(|at| NoticeReceiver { name: format!("r{at}"), ..full.receivers[2].clone() })
        .collect();
    assert!(full.check().is_err());
    full.receivers.pop();
    assert!(full.check().is_ok());
}

#[test]
fn the_largest_record_fits_in_a_value_of_the_directory() {
    let long = |length: usize| "x".repeat(length);
    let url = secret(&format!("https://a.example/{}", long(1000)));
    let ca = format!("-----BEGIN CERTIFICATE-----{}", long(16_000));
    let way = ReceiverWay::Webhook { url, secret: Some(secret(&long(1024))), ca: Some(ca) };
    let mut one = receiver("hook", 1, way);
    let times = [u64::MAX; 5];
    let check = |at: usize| format!("{at:02}{}", long(62));
    one.told = (0..96).map(|at| told(&check(at), None, u64::MAX, &times)).collect();
    one.trouble = Some(ReceiverTrouble { since: 1, why: long(300) });
    let name = |at: usize| NoticeReceiver { name: format!("r{at}"), ..one.clone() };
    let record = ReceiversRecord { receivers: (0..RECEIVERS_MAX).map(name).collect() };
    assert!(record.encode().len() < crate::VALUE_BYTES_MAX, "{}", record.encode().len());
}

#[test]
fn secrets_are_not_printed() {
    let printed = format!("{:?}", record());
    for secret in ["whsec_", "in/7", "\"secret\""] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn the_newest_that_was_told_counts() {
    let mut one = receiver("log", 1, ReceiverWay::Syslog { address: None, tcp: false });
    one.take(&told("hosts.answering", Some(NoticeLevel::Red), 2, &[5]));
    one.take(&told("hosts.answering", None, 1, &[4]));
    one.take(&told("hosts.answering", None, 2, &[6]));
    assert_eq!(one.told_of("hosts.answering").and_then(|told| told.level), Some(NoticeLevel::Red));
    one.take(&told("hosts.answering", None, 3, &[7]));
    assert_eq!(one.told_of("hosts.answering").and_then(|told| told.level), None);
    assert_eq!(one.told.len(), 1);
}

#[test]
fn addresses_are_those_that_may_be_used() {
    for good in ["https://a.example", "http://127.0.0.1:8080/x?y=z", "https://[::1]:1/", "http://a"]
    {
        assert!(is_webhook_url(good), "{good}");
    }
    for bad in [
        "",
        "a.example",
        "ftp://a.example",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "https://anna:x@a.example",
        "https://a.example/\r\nHost: b",
        "https://a.example/ x",
        "https://a.example/#x",
        "https://a.example:0",
        "https://a.example:99999",
        "https://[::g]/",
    ] {
        assert!(!is_webhook_url(bad), "{bad}");
    }
    for good in ["a:1", "mail.example.com:587", "[::1]:514", "192.0.2.1:25"] {
        assert!(is_host_and_port(good), "{good}");
    }
    for bad in ["a", "a:", ":1", "a:0", "a:+1", "a b:1", "a:65536", "::1:1", "a\n:1"] {
        assert!(!is_host_and_port(bad), "{bad}");
    }
    for good in ["a@b", "anna.smith+x@example.com"] {
        assert!(is_mail_address(good), "{good}");
    }
    for bad in ["", "a", "@b", "a@", "a b@c", "a@b\nc", "a@b@c", "<a@b>", "\"a\"@b", "a@b,c@d"] {
        assert!(!is_mail_address(bad), "{bad}");
    }
}
