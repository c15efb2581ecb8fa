// SPDX-License-Identifier: Apache-2.0
//! Tokens and users: who may ask the API over the network.

use super::life::HEARD;
use super::*;
use operator::{AccessRole, AdmissionStep, SessionReport, UserReport};

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
    fn admit(&self, host: usize, step: AdmissionStep) -> Result<serde_json::Value, String> {
        self.ask(host, Command::Admission(step))
    }

    fn put_token(&self, name: &str, digest: &str, seconds: u64) -> Result<(), String> {
        let (name, role, digest) = (name.to_owned(), AccessRole::Operator, digest.to_owned());
        self.admit(0, AdmissionStep::TokenPut { name, role, seconds, digest }).map(drop)
    }

    fn delete_token(&self, name: &str) -> Result<(), String> {
        self.ask(1, Command::TokenDelete { name: name.to_owned() }).map(drop)
    }

    /// What a token opens, by a host.
    fn opened(&self, host: usize, digest: &str) -> Option<AccessRole> {
        let said =
            self.admit(host, AdmissionStep::TokenCheck { digest: digest.to_owned() }).ok()?;
        Some(serde_json::from_value::<SessionReport>(said).expect("a token").role)
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

const PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2g";
const OTHER: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$b3RoZXJvdGhlcg";

/// A digest for tests: of a code or of a session.
fn text_of(number: u64) -> String {
    format!("{number:064x}")
}

impl Cluster {
    fn put_code(&self, name: &str, role: Option<AccessRole>, code: u64) -> Result<(), String> {
        let (name, digest) = (name.to_owned(), text_of(code));
        self.admit(0, AdmissionStep::CodePut { name, role, seconds: SECONDS, digest }).map(drop)
    }

    fn put_password(&self, name: &str, password: &str, session: Option<u64>) {
        let (name, password) = (name.to_owned(), password.to_owned());
        let session = session.map(text_of);
        self.admit(1, AdmissionStep::PasswordPut { name, password, session }).expect("it is there");
    }

    /// Whether a code, or a name and what it takes for the digest of its password, begin a session,
    /// on the host that made the code: clocks differ.
    fn signs_in(&self, by: Result<u64, (&str, &str)>, session: u64) -> bool {
        let (user, password, code) = match by {
            Ok(code) => (None, None, Some(text_of(code))),
            Err((user, password)) => (Some(user.to_owned()), Some(password.to_owned()), None),
        };
        let (seconds, digest) = (LONG / 365, text_of(session));
        let put = AdmissionStep::SessionPut { user, password, code, seconds, digest };
        !self.admit(0, put).expect("the directory answers").is_null()
    }
}

#[test]
fn a_code_signs_in_once_and_a_password_until_it_is_changed() {
    let cluster = start(404);
    cluster.put_code("anna", Some(AccessRole::Operator), 1).expect("she is new");
    let twice = cluster.put_code("anna", Some(AccessRole::Viewer), 2).expect_err("she is there");
    assert!(twice.contains("gabion user code anna"), "{twice}");
    cluster.run(HEARD);
    assert!(!cluster.signs_in(Ok(7), 100), "that is nobody's code");
    assert!(cluster.signs_in(Ok(1), 101));
    assert!(!cluster.signs_in(Ok(1), 102), "it is good once");
    cluster.run(HEARD);
    let opened = |session| cluster.opened(0, &text_of(session));
    assert_eq!((opened(101), opened(102)), (Some(AccessRole::Operator), None));

    assert!(!cluster.signs_in(Err(("anna", PASSWORD)), 103), "she has none yet");
    cluster.put_password("anna", PASSWORD, Some(101));
    assert!(cluster.signs_in(Err(("anna", PASSWORD)), 104));
    assert!(!cluster.signs_in(Err(("anna", OTHER)), 105), "it was changed since it was looked at");
    assert!(!cluster.signs_in(Err(("bert", PASSWORD)), 105), "there is no such user");
    cluster.run(HEARD);
    assert_eq!([opened(101), opened(104)], [Some(AccessRole::Operator); 2]);
    cluster.put_password("anna", OTHER, Some(104));
    cluster.run(HEARD);
    assert_eq!((opened(101), opened(104).is_some()), (None, true), "others have ended");
}

#[test]
fn what_a_user_may_do_changes_at_once_and_ends_with_it() {
    let cluster = start(405);
    cluster.put_code("anna", Some(AccessRole::Operator), 1).expect("she is new");
    assert!(cluster.signs_in(Ok(1), 101));
    let change = |command| cluster.ask(1, command).expect("she is there");
    let name = || "anna".to_owned();
    change(Command::UserRole { name: name(), role: AccessRole::Viewer });
    cluster.run(HEARD);
    assert_eq!(cluster.opened(0, &text_of(101)), Some(AccessRole::Viewer));
    change(Command::Admission(AdmissionStep::SessionEnd { digest: text_of(101) }));
    cluster.run(HEARD);
    assert_eq!(cluster.opened(0, &text_of(101)), None);

    cluster.put_code("anna", None, 2).expect("she is there");
    cluster.run(Duration::from_secs(SECONDS + 1));
    assert!(!cluster.signs_in(Ok(2), 102), "the code has expired");
    cluster.put_code("anna", None, 3).expect("she is there");
    assert!(cluster.signs_in(Ok(3), 103));
    change(Command::UserDelete { name: name() });
    cluster.run(HEARD);
    assert_eq!(cluster.opened(0, &text_of(103)), None);
    let gone = cluster.put_code("anna", None, 4).expect_err("nobody");
    assert!(gone.contains("gabion user list"), "{gone}");
}

#[test]
fn the_oldest_session_of_a_user_goes_for_one_too_many() {
    let cluster = start(406);
    for name in ["anna", "bert"] {
        cluster.put_code(name, Some(AccessRole::Viewer), 1).expect("new");
        cluster.put_password(name, PASSWORD, None);
    }
    assert!(cluster.signs_in(Err(("bert", PASSWORD)), 50));
    for session in 100..117 {
        assert!(cluster.signs_in(Err(("anna", PASSWORD)), session));
    }
    cluster.run(HEARD);
    let opened = |session| cluster.opened(0, &text_of(session)).is_some();
    assert!(!opened(100) && (101..117).all(opened) && opened(50));
    let users = cluster.ask(0, Command::UserList).expect("a list");
    let users: Vec<UserReport> = serde_json::from_value(users).expect("users");
    let sessions: Vec<_> = users.iter().map(|user| (user.name.as_str(), user.sessions)).collect();
    assert_eq!(sessions, [("anna", 16), ("bert", 1)]);
}
