// SPDX-License-Identifier: Apache-2.0
//! Tokens.

use super::*;
use crate::{AccessRecord, AccessRole, AccessToken, TOKENS_MAX, digest_of};

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
