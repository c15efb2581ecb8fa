// SPDX-License-Identifier: Apache-2.0
//! What is planted is not found again, and what is no secret stays.

use super::*;
use proptest::prelude::*;

/// Each kind of secret: what must not be there afterwards, and a text that has it.
fn planted() -> Vec<(String, String)> {
    let hex = "0123456789abcdef".repeat(4);
    let pem = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";
    let key = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
    let rsa = key.replace("PRIVATE", "RSA PRIVATE");
    let code = "7ZK4M-0QWER-TY1AB-CDEF2";
    let pair = |secret: &str, text: String| (secret.to_owned(), text);
    vec![
        pair(pem, key.clone()),
        pair(pem, rsa),
        pair(pem, format!("{{\"ca_key\":{}}}", serde_json::to_string(&key).expect("JSON"))),
        pair(pem, key.split_once("-----END").expect("an end").0.to_owned()),
        pair(pem, key.split_once('\n').expect("a line").1.to_owned()),
        pair(&hex, format!("token gbn_{hex} was used")),
        pair(&hex, format!("gabion host join --invitation gbj_{hex}.{hex}.10.0.0.1:7443")),
        pair("c2FsdHNhbHQ", "\"$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA\"".to_owned()),
        pair("MfKQ9r8G", "secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()),
        pair("MfKQ9r8G", "got whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw from a file".to_owned()),
        pair("hunter2hunter2", "password = \"hunter2hunter2\"".to_owned()),
        pair("hunter2\\\"x", r#"{"password":"hunter2\"x","a":1}"#.to_owned()),
        pair("hunter2", r#"line with {\"smtp_password\":\"hunter2\",\"a\":1}"#.to_owned()),
        pair("hunter2", "smtp-password=hunter2 next".to_owned()),
        pair("hunter2", "--password hunter2".to_owned()),
        pair("dXNlcjpwYXNz", "Authorization: Basic dXNlcjpwYXNz".to_owned()),
        pair("abcdefgh1234", "\"authorization\":\"Bearer abcdefgh1234\"".to_owned()),
        pair("abcdefgh1234", "used bearer abcdefgh1234".to_owned()),
        pair("AHVzZXIAcGFzcw", "C: AUTH PLAIN AHVzZXIAcGFzcw==".to_owned()),
        pair("s3cr3t", "https://anna:s3cr3t@example.com/x".to_owned()),
        pair(code, format!("the code {code} opens")),
        pair(&code.to_lowercase(), format!("the code {} opens", code.to_lowercase())),
        pair(&hex, format!("\"digest\":\"{hex}\"")),
        pair("eyJhbGciOi", "t=eyJhbGciOi.eyJzdWIi.c2ln".to_owned()),
    ]
}

#[test]
fn what_is_planted_is_gone() {
    let redactor = Redactor::default();
    for (secret, text) in planted() {
        let (cleaned, count) = redactor.clean(&text);
        assert!(!cleaned.contains(&secret), "{text} -> {cleaned}");
        assert!(count > 0 && cleaned.contains(REMOVED), "{cleaned}");
        assert_eq!(redactor.clean(&cleaned).0, cleaned, "twice is as once");
    }
}

#[test]
fn forms_can_all_be_read() {
    assert_eq!(FORMS_READ.len(), FORMS.len());
    assert!(FIELD_READ.is_some() && KEY_END.is_some());
}

#[test]
fn what_is_known_is_gone_wherever_it_stands() {
    let redactor = Redactor::knowing(["Tr0ub4dor&\"3".to_owned(), "abc".to_owned()]);
    let base64 = STANDARD.encode("Tr0ub4dor&\"3");
    let text = format!("a Tr0ub4dor&\"3 b {{\"x\":\"Tr0ub4dor&\\\"3\"}} c {base64} abc");
    let (cleaned, count) = redactor.clean(&text);
    assert!(!cleaned.contains("Tr0ub4dor") && !cleaned.contains(&base64), "{cleaned}");
    assert_eq!((count, cleaned.ends_with(" abc")), (3, true), "{cleaned}");
}

#[test]
fn what_is_no_secret_stays() {
    let redactor = Redactor::default();
    for text in [
        "2026-11-29T10:00:00Z  INFO host::node: host is ready name=\"host1\" incarnation=1",
        "volume web has 3 copies on host1, host2, host3; 64 MiB; id 3fa29c12ab77de01",
        "{\"has_secret\":true,\"password\":null,\"secret\":\"\"}",
        "the token expires soon",
        "a password has 12 characters or more",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "https://host1:7443/#/health tcp:127.0.0.1:7070 nbd+unix:///web?socket=/run/x",
        "level=7 term=12 lsn=3.44 exit code 3",
    ] {
        assert_eq!(redactor.clean(text), (text.to_owned(), 0));
    }
}

proptest! {
    /// Whatever stands around a secret, it goes; and no text is too odd.
    #[test]
    fn secrets_go_out_of_any_text(
        before in "\\PC{0,40}",
        after in "\\PC{0,40}",
        at in 0_usize..24,
    ) {
        let (secret, text) = planted()[at % planted().len()].clone();
        // Between words: inside of one a form may be another one.
        let (cleaned, _) = Redactor::default().clean(&format!("{before}\n{text}\n{after}"));
        prop_assert!(!cleaned.contains(&secret), "{cleaned}");
    }
}
