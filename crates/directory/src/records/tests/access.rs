// SPDX-License-Identifier: Apache-2.0
//! Tokens, users and their sessions.

use super::*;
use crate::{
    AccessRecord, AccessRole, AccessToken, SESSIONS_MAX, SignInCode, TOKENS_MAX, USERS_MAX,
    UserAccount, UserSession, UsersRecord, digest_of,
};

const ACCESS_JSON: &str = include_str!("../../../fixtures/access-1.json");

fn token(name: &str, role: AccessRole, byte: u8, (created, expires): (u64, u64)) -> AccessToken {
    AccessToken { name: name.to_owned(), role, digest: [byte; 32], created, expires }
}

#[test]
fn tokens_are_stored_by_their_digest() {
    let record = AccessRecord {
        tokens: vec![
            token("backup", AccessRole::Viewer, 0xab, (1_764_400_000, 1_772_176_000)),
            token("ci", AccessRole::Administrator, 1, (1_764_400_001, 1_764_486_401)),
        ],
    };
    assert_eq!(String::from_utf8(record.encode()).unwrap(), ACCESS_JSON.trim_end());
    assert_eq!(AccessRecord::decode(ACCESS_JSON.as_bytes()).unwrap(), record);
    let refuse = |from, to| assert_refused(ACCESS_JSON, AccessRecord::decode, from, to);
    refuse("\"ci\"", "\"backup\"");
    refuse("\"ci\"", "\"c i\"");
    refuse("administrator", "root");
    refuse("ab\"", "a\"");
    refuse("ab\"", "AB\"");
    refuse("ab\"", "ag\"");
    refuse("\"format\":1", "\"format\":2");
    let twice = ACCESS_JSON.replace(&"01".repeat(32), &"ab".repeat(32));
    assert!(AccessRecord::decode(twice.as_bytes()).is_err());
    let mut full = record;
    full.tokens = (0..=TOKENS_MAX)
        .map(|at| AccessToken {
            name: format!("t{at}"),
            digest: digest_of(&format!("{at:064x}")).expect("a digest"),
            ..full.tokens[0].clone()
        })
        .collect();
    assert!(full.check().is_err());
    full.tokens.pop();
    assert!(full.check().is_ok());
}

#[test]
fn a_token_opens_until_it_expires() {
    let record = AccessRecord { tokens: vec![token("ci", AccessRole::Operator, 7, (100, 200))] };
    let opened = |byte: u8, now| record.opens(&[byte; 32], now).map(|token| token.role);
    assert_eq!(opened(7, 199), Some(AccessRole::Operator));
    assert_eq!((opened(7, 200), opened(8, 150)), (None, None));
    assert!(AccessRole::Administrator > AccessRole::Operator);
    assert!(AccessRole::Operator > AccessRole::Viewer);
}

const USERS_JSON: &str = include_str!("../../../fixtures/users-1.json");
const PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2g";

fn users() -> UsersRecord {
    let user = |name: &str, role, password: Option<&str>, code| UserAccount {
        name: name.to_owned(),
        role,
        created: 1_764_400_000,
        password: password.map(str::to_owned),
        code,
    };
    let code = SignInCode { digest: [0xcd; 32], expires: 1_764_486_400 };
    let session = |user: &str, byte, created| UserSession {
        user: user.to_owned(),
        digest: [byte; 32],
        created,
        expires: created + 43_200,
    };
    UsersRecord {
        users: vec![
            user("admin", AccessRole::Administrator, None, Some(code)),
            user("anna", AccessRole::Operator, Some(PASSWORD), None),
        ],
        sessions: vec![session("anna", 1, 1_764_400_001), session("anna", 2, 1_764_400_002)],
    }
}

#[test]
fn users_are_stored_with_digests_alone() {
    let record = users();
    assert_eq!(String::from_utf8(record.encode()).unwrap(), USERS_JSON.trim_end());
    assert_eq!(UsersRecord::decode(USERS_JSON.as_bytes()).unwrap(), record);
    let refuse = |from, to| assert_refused(USERS_JSON, UsersRecord::decode, from, to);
    refuse("\"name\":\"anna\"", "\"name\":\"admin\"");
    refuse("\"name\":\"anna\"", "\"name\":\"an na\"");
    refuse("\"name\":\"anna\"", "\"name\":\"bert\""); // sessions of nobody
    refuse("operator", "root");
    refuse("$argon2id$", "$argon2i$");
    refuse("cdcd\"", "cdc\"");
    refuse("cdcd\"", "CDCD\"");
    refuse("\"format\":1", "\"format\":2");
    let twice = USERS_JSON.replace(&"01".repeat(32), &"02".repeat(32));
    assert!(UsersRecord::decode(twice.as_bytes()).is_err());
    let mut full = users();
    full.users = (0..=USERS_MAX)
        .map(|at| UserAccount { name: format!("u{at}"), ..full.users[0].clone() })
        .collect();
    full.sessions.clear();
    assert!(full.check().is_err());
    full.users.pop();
    assert!(full.check().is_ok());
    let session = UserSession { user: "u0".to_owned(), ..users().sessions[0].clone() };
    full.sessions = (0..=SESSIONS_MAX)
        .map(|at| UserSession {
            digest: digest_of(&format!("{at:064x}")).expect("a digest"),
            ..session.clone()
        })
        .collect();
    assert!(full.check().is_err());
    full.sessions.pop();
    assert!(full.check().is_ok());
    assert!(full.encode().len() < 256 << 10, "it fits in a value of the directory");
}

#[test]
fn codes_and_sessions_open_until_they_expire_or_end() {
    let mut record = users();
    let begun = 1_764_400_002;
    let opened = |record: &UsersRecord, byte: u8, now| {
        record.opens(&[byte; 32], now).map(|(user, _)| user.role)
    };
    assert_eq!(opened(&record, 2, begun), Some(AccessRole::Operator));
    assert_eq!(opened(&record, 2, begun + 43_200), None);
    assert_eq!(opened(&record, 3, begun), None);
    record.end_sessions("anna", Some(&[2; 32]));
    assert_eq!(opened(&record, 1, begun), None);
    assert_eq!(opened(&record, 2, begun), Some(AccessRole::Operator));
    record.end_sessions("anna", None);
    assert_eq!(opened(&record, 2, begun), None);
    let of = |now| record.of_code(&[0xcd; 32], now).map(|user| user.name.as_str());
    assert_eq!((of(1_764_486_399), of(1_764_486_400)), (Some("admin"), None));
    assert_eq!(record.of_code(&[1; 32], 0), None);
}
