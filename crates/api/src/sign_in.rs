// SPDX-License-Identifier: Apache-2.0
//! Commands that bring or make a secret: what a shard is asked instead, and what is answered.

use crate::access::ApiCaller;
use crate::joining::JoinDoor;
use crate::problem::Problem;
use crate::secrets::{Passwords, code, code_digest, digest, secret, token};
use operator::{AccessRole, AdmissionStep, Command, SessionReport, way_without_secrets};
use serde_json::{Value, json};

/// How long somebody stays signed in, seconds.
const SESSION_SECONDS: u64 = 12 * 3600;
/// What stands in the audit instead of a secret.
const NOT_KEPT: &str = "(not kept)";

/// Asks a shard.
type Ask<'a> = &'a dyn Fn(&Command) -> Result<Value, Problem>;

fn tell(ask: Ask<'_>, step: AdmissionStep) -> Result<Value, Problem> {
    ask(&Command::Admission(step))
}

/// Carries out a command, whose secrets `ask` never hears: a shard gets digests.
pub fn carry_out(
    command: Command,
    caller: &ApiCaller,
    (passwords, door): (&Passwords, Option<&JoinDoor>),
    ask: Ask<'_>,
) -> Result<Value, Problem> {
    match command {
        Command::HostInvite { seconds } => invite(seconds, door, ask),
        Command::HostJoin { invitation } => join(&invitation, door, ask),
        Command::TokenCreate { name, role, seconds } => {
            let token = token()?;
            let digest = digest(&token);
            let made = tell(ask, AdmissionStep::TokenPut { name, role, seconds, digest })?;
            Ok(with("token", token, made))
        }
        Command::UserCreate { name, role, seconds } => new_code(name, Some(role), seconds, ask),
        Command::UserCode { name, seconds } => new_code(name, None, seconds, ask),
        Command::UserPassword { name, password } => {
            let password = passwords.digest(&password)?;
            let session = caller.session_of(&name).map(str::to_owned);
            tell(ask, AdmissionStep::PasswordPut { name, password, session })
        }
        Command::SessionCreate { user, password, code } => {
            sign_in((user, password, code), passwords, ask)
        }
        Command::SessionShow => {
            serde_json::to_value(caller.report()).map_err(|e| Problem::internal(e.to_string()))
        }
        Command::SessionDelete => match caller.session() {
            Some(digest) => tell(ask, AdmissionStep::SessionEnd { digest: digest.to_owned() }),
            None => Err(Problem::usage(
                "who asks has not signed in: a token ends with 'gabion token delete NAME'",
            )),
        },
        command => ask(&command),
    }
}

/// The door for machines that are to become hosts.
fn join_door(door: Option<&JoinDoor>) -> Result<&JoinDoor, Problem> {
    door.ok_or_else(|| {
        Problem::failed(
            "no machine can join here: a cluster on one machine takes none in, and a host without \
             the CA's files or an address for the API cannot be asked by one",
        )
    })
}

fn invite(seconds: u64, door: Option<&JoinDoor>, ask: Ask<'_>) -> Result<Value, Problem> {
    let (door, secret) = (join_door(door)?, secret()?);
    let text = door.invitation(&secret).map_err(|error| Problem::failed(error.to_string()))?;
    let step = AdmissionStep::InvitePut { seconds, digest: digest(&secret) };
    Ok(json!({ "invitation": text, "expires": tell(ask, step)? }))
}

fn join(secret: &str, door: Option<&JoinDoor>, ask: Ask<'_>) -> Result<Value, Problem> {
    let door = join_door(door)?;
    // What is given is read first: an invitation is not used up for nothing.
    let given = door.given().map_err(|error| Problem::internal(error.to_string()))?;
    let is_good = tell(ask, AdmissionStep::InviteUse { digest: digest(secret) })?;
    match is_good == Value::Bool(true) {
        true => serde_json::to_value(given).map_err(|e| Problem::internal(e.to_string())),
        false => Err(Problem::not_invited()),
    }
}

fn new_code(
    name: String,
    role: Option<AccessRole>,
    seconds: u64,
    ask: Ask<'_>,
) -> Result<Value, Problem> {
    let code = code()?;
    let digest = code_digest(&code).ok_or_else(|| Problem::internal("a code that is none"))?;
    let made = tell(ask, AdmissionStep::CodePut { name, role, seconds, digest })?;
    Ok(with("code", code, made))
}

fn sign_in(
    (user, password, code): (Option<String>, Option<String>, Option<String>),
    passwords: &Passwords,
    ask: Ask<'_>,
) -> Result<Value, Problem> {
    let token = token()?;
    let (seconds, session) = (SESSION_SECONDS, digest(&token));
    let put = match (user, password, code) {
        (Some(user), Some(password), None) => {
            // A name that none can have is that of nobody.
            let known = tell(ask, AdmissionStep::PasswordGet { name: user.clone() })?;
            let known = known.as_str();
            if !passwords.is_of(&password, known) {
                return Err(Problem::not_signed_in());
            }
            let password = known.map(str::to_owned);
            let user = Some(user);
            AdmissionStep::SessionPut { user, password, code: None, seconds, digest: session }
        }
        (None, None, Some(code)) => {
            let code = Some(code_digest(&code).ok_or_else(Problem::not_signed_in)?);
            AdmissionStep::SessionPut { user: None, password: None, code, seconds, digest: session }
        }
        _ => {
            return Err(Problem::usage(
                "signing in needs the fields 'user' and 'password', or 'code'",
            ));
        }
    };
    match tell(ask, put)? {
        Value::Null => Err(Problem::not_signed_in()),
        begun => Ok(with("token", token, begun)),
    }
}

/// An answer with a secret that was made for it.
fn with(field: &str, secret: String, mut answer: Value) -> Value {
    if let Some(object) = answer.as_object_mut() {
        object.insert(field.to_owned(), Value::String(secret));
    }
    answer
}

/// A command as the audit keeps it.
pub fn without_secrets(mut command: Command) -> Command {
    let hide = |secret: &mut Option<String>| {
        if secret.is_some() {
            *secret = Some(NOT_KEPT.to_owned());
        }
    };
    match &mut command {
        Command::UserPassword { password, .. } => NOT_KEPT.clone_into(password),
        Command::SessionCreate { password, code, .. } => {
            hide(password);
            hide(code);
        }
        Command::HostJoin { invitation } => NOT_KEPT.clone_into(invitation),
        Command::NotifyAdd { way, .. } => *way = way_without_secrets(way),
        _ => {}
    }
    command
}

/// Who came in without a token, by the answer that it got.
pub fn let_in(answer: &Value) -> ApiCaller {
    let report = serde_json::from_value::<SessionReport>(answer.clone());
    report.map_or_else(|_| ApiCaller::invited(), |it| ApiCaller::known(it, String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// What a shard hears of a command, and what comes back where it answers `{}`.
    fn carried_out(command: Command, answer: Value) -> (Vec<Command>, Result<Value, Problem>) {
        let heard = RefCell::new(Vec::new());
        let ask = |command: &Command| {
            heard.borrow_mut().push(command.clone());
            Ok(answer.clone())
        };
        let caller = ApiCaller::local(Some(0));
        let outcome = carry_out(command, &caller, (&Passwords::default(), None), &ask);
        (heard.into_inner(), outcome)
    }

    #[test]
    fn a_shard_never_hears_a_secret() {
        let (name, role, seconds) = ("ci".to_owned(), AccessRole::Viewer, 60);
        let create = Command::TokenCreate { name: name.clone(), role, seconds };
        let (heard, made) = carried_out(create, json!({}));
        let made = made.expect("random bytes");
        let digest = digest(made["token"].as_str().expect("its text"));
        let put = AdmissionStep::TokenPut { name, role, seconds, digest };
        assert_eq!(heard, [Command::Admission(put)]);

        let name = "anna".to_owned();
        let create = Command::UserCreate { name: name.clone(), role, seconds };
        let (heard, made) = carried_out(create, json!({}));
        let made = made.expect("random bytes");
        let digest = code_digest(made["code"].as_str().expect("its text")).expect("a code");
        let role = Some(role);
        let put = AdmissionStep::CodePut { name: name.clone(), role, seconds, digest };
        assert_eq!(heard, [Command::Admission(put)]);

        let password = "correct horse battery".to_owned();
        let change = Command::UserPassword { name, password: password.clone() };
        let (heard, changed) = carried_out(change.clone(), json!({}));
        assert!(changed.is_ok());
        assert!(!format!("{heard:?}").contains(&password), "{heard:?}");
        assert!(!format!("{:?}", without_secrets(change)).contains(&password));
    }

    /// What a receiver of notifications is told with is for the directory, and not for the audit.
    #[test]
    fn the_audit_has_no_secret_of_a_receiver() {
        let ways = [
            json!({
                "kind": "webhook", "url": "https://a.example/planted", "secret": "planted",
                "ca": "planted",
            }),
            json!({
                "kind": "email", "address": "a@b.c", "from": "a@b.c", "smtp": "m:25",
                "tls": "tls", "user": "u", "password": "planted", "ca": "planted",
            }),
        ];
        for way in ways {
            let add = json!({ "command": "notify-add", "name": "ops", "way": way });
            let add: Command = serde_json::from_value(add).expect("a command");
            assert!(serde_json::to_string(&add).expect("JSON").contains("planted"));

            let kept = serde_json::to_string(&without_secrets(add)).expect("JSON");
            assert!(!kept.contains("planted") && kept.contains(NOT_KEPT), "{kept}");
        }
    }

    #[test]
    fn only_the_right_password_is_signed_in_with() {
        let right = Passwords::default().digest("correct horse battery").expect("long enough");
        let sign_in = |password: &str, known: Value| {
            let (user, password) = (Some("anna".to_owned()), Some(password.to_owned()));
            carried_out(Command::SessionCreate { user, password, code: None }, known)
        };
        let (heard, _) = sign_in("correct horse battery", json!(right));
        assert!(
            matches!(heard.as_slice(), [_, Command::Admission(AdmissionStep::SessionPut { .. })]),
            "{heard:?}"
        );
        assert!(!format!("{heard:?}").contains("correct"), "{heard:?}");
        for (password, known) in [("wrong horse battery", json!(right)), ("", json!(null))] {
            let (heard, outcome) = sign_in(password, known);
            assert_eq!(heard.len(), 1, "no session is made");
            assert_eq!(outcome.expect_err("refused").status, 401);
        }
        let (user, password) = (Some("anna".to_owned()), Some("correct horse battery".to_owned()));
        let both = Command::SessionCreate { user, password, code: Some("x".to_owned()) };
        assert_eq!(carried_out(both, json!(null)).1.expect_err("both").status, 400);
    }

    #[test]
    fn a_code_that_opens_nothing_signs_nobody_in() {
        let (code, known) = (code().expect("random bytes"), json!(null));
        for code in [code, "nonsense".to_owned()] {
            let create = Command::SessionCreate { user: None, password: None, code: Some(code) };
            let kept = without_secrets(create.clone());
            assert!(format!("{kept:?}").contains(NOT_KEPT), "{kept:?}");
            assert_eq!(carried_out(create, known.clone()).1.expect_err("refused").status, 401);
        }
    }
}
