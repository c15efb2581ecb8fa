// SPDX-License-Identifier: Apache-2.0
//! Tokens: who may ask the API over the network.

use super::life::HEARD;
use super::*;
use operator::{AccessRole, TokenReport};

const DIGEST: [&str; 2] = [
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
];
/// That of no token.
const NOBODYS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// A minute.
const SECONDS: u64 = 60;
/// A year: clocks of hosts may be days apart here.
const LONG: u64 = 365 * 86_400;

impl Cluster {
    fn put_token(&self, name: &str, digest: &str, seconds: u64) -> Result<(), String> {
        let (name, role, digest) = (name.to_owned(), AccessRole::Operator, digest.to_owned());
        self.ask(0, Command::TokenPut { name, role, seconds, digest }).map(drop)
    }

    fn delete_token(&self, name: &str) -> Result<(), String> {
        self.ask(1, Command::TokenDelete { name: name.to_owned() }).map(drop)
    }

    /// What a token opens, by a host.
    fn opened(&self, host: usize, digest: &str) -> Option<AccessRole> {
        let said = self.ask(host, Command::TokenCheck { digest: digest.to_owned() }).ok()?;
        Some(serde_json::from_value::<TokenReport>(said).expect("a token").role)
    }
}

#[test]
fn every_host_knows_a_token_until_it_expires_or_is_deleted() {
    let cluster = start(401);
    cluster.put_token("short", DIGEST[0], SECONDS).expect("it is made");
    cluster.put_token("long", DIGEST[1], LONG).expect("it is made");
    assert_eq!(
        cluster.opened(0, DIGEST[0]),
        Some(AccessRole::Operator),
        "at once where it is made"
    );
    cluster.run(HEARD);
    let all = |digest| (0..3).map(|host| cluster.opened(host, digest)).collect::<Vec<_>>();
    assert_eq!(all(DIGEST[1]), [Some(AccessRole::Operator); 3]);
    assert_eq!(all(NOBODYS), [None; 3]);
    cluster.run(Duration::from_secs(SECONDS));
    assert_eq!(cluster.opened(0, DIGEST[0]), None, "it has expired");
    assert_eq!(all(DIGEST[1]), [Some(AccessRole::Operator); 3]);
    cluster.delete_token("long").expect("it is there");
    cluster.run(HEARD);
    assert_eq!(all(DIGEST[1]), [None; 3]);
    cluster.restart();
    assert_eq!(all(DIGEST[1]), [None; 3]);
}

#[test]
fn a_directory_that_is_away_shuts_nobody_out() {
    let cluster = start(402);
    cluster.put_token("ci", DIGEST[0], LONG).expect("it is made");
    cluster.run(HEARD);
    cluster.world.kill(cluster.directory);
    cluster.run(HEARD);
    assert_eq!(cluster.opened(2, DIGEST[0]), Some(AccessRole::Operator));
    let why = cluster.put_token("other", DIGEST[1], SECONDS).expect_err("nobody writes it down");
    assert!(why.contains("directory"), "{why}");
}

#[test]
fn what_no_token_may_be_is_refused() {
    let cluster = start(403);
    let why = |name: &str, digest: &str, seconds| {
        cluster.put_token(name, digest, seconds).expect_err("refused")
    };
    cluster.put_token("ci", DIGEST[0], SECONDS).expect("it is made");
    assert!(why("ci", DIGEST[1], SECONDS).contains("gabion token delete ci"));
    assert!(why("other", DIGEST[0], SECONDS).contains("digest"));
    assert!(why("a b", DIGEST[1], SECONDS).contains("name"));
    assert!(why("other", "12", SECONDS).contains("SHA-256"));
    assert!(why("other", DIGEST[1], 0).contains("one second"));
    assert!(why("other", DIGEST[1], u64::MAX).contains("ten years"));
    assert!(cluster.delete_token("other").expect_err("none").contains("no token 'other'"));
    let (name, role) = ("x".to_owned(), AccessRole::Administrator);
    let create = Command::TokenCreate { name, role, seconds: SECONDS };
    assert!(cluster.ask(0, create).expect_err("its text is the API's").contains("the API"));
    // The name is free again when the token has expired.
    cluster.run(Duration::from_secs(SECONDS + 1));
    cluster.put_token("ci", DIGEST[1], SECONDS).expect("it is made");
}
