// SPDX-License-Identifier: Apache-2.0
//! Who asks, and what they may do. Whoever may connect to the Unix socket may do everything; over
//! the network a token says it.

use crate::problem::Problem;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use operator::{AccessRole, Command};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Before the digits of a token, so that one that is found somewhere can be told for what it is.
const MARK: &str = "gbn_";
/// Random bytes of a token.
const SECRET_BYTES: usize = 32;

/// Where a request came from, and who asks, where the connection says that already.
#[derive(Clone, Debug)]
pub struct Origin {
    /// An address, or `unix`.
    pub from: String,
    /// Who is at its other end.
    pub caller: Option<ApiCaller>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCaller {
    /// The name of its token.
    pub name: String,
    /// What it may do.
    pub role: AccessRole,
}

impl ApiCaller {
    /// A user of this machine whom the Unix socket lets in. No token has a name with a space.
    pub fn local(uid: Option<u32>) -> Self {
        let uid = uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
        Self { name: format!("uid {uid}"), role: AccessRole::Administrator }
    }

    /// An error where it may not do what needs this role.
    pub fn may(&self, needed: AccessRole) -> Result<(), Problem> {
        match self.role >= needed {
            true => Ok(()),
            false => Err(Problem::forbidden(&self.name, self.role.name(), needed.name())),
        }
    }
}

/// The digest of the token that a request brings.
pub fn digest_in(headers: &HeaderMap) -> Result<String, Problem> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(said), None) = (all.next(), all.next()) else {
        return Err(Problem::no_token());
    };
    let said = said.to_str().unwrap_or_default();
    let token = said.split_once(' ').filter(|(how, _)| how.eq_ignore_ascii_case("bearer"));
    let token = token.map(|(_, token)| token.trim()).filter(|token| is_token(token));
    token.map(digest).ok_or_else(Problem::no_token)
}

fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix(MARK);
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.is_some_and(|digits| digits.len() == 2 * SECRET_BYTES && digits.bytes().all(is_digit))
}

fn digest(token: &str) -> String {
    hex(&Sha256::digest(token))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new token's text.
fn token() -> Result<String, Problem> {
    let mut secret = [0; SECRET_BYTES];
    let read = getrandom(&mut secret, GetRandomFlags::empty());
    if read != Ok(SECRET_BYTES) {
        return Err(Problem::internal("the system gives no random bytes"));
    }
    Ok(format!("{MARK}{}", hex(&secret)))
}

/// What a shard is asked for a command: of a new token it gets the digest alone. Returns the
/// token's text as well.
pub fn with_secret(command: Command) -> Result<(Command, Option<String>), Problem> {
    let Command::TokenCreate { name, role, seconds } = command else { return Ok((command, None)) };
    let token = token()?;
    let digest = digest(&token);
    Ok((Command::TokenPut { name, role, seconds, digest }, Some(token)))
}

/// An answer with the text of the token that it is about.
pub fn with_token(mut answer: Value, token: Option<String>) -> Value {
    if let (Some(token), Some(object)) = (token, answer.as_object_mut()) {
        object.insert("token".to_owned(), Value::String(token));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(values: &[&str]) -> Result<String, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().expect("a value"));
        }
        digest_in(&headers)
    }

    #[test]
    fn only_one_whole_token_is_one() {
        let token = token().expect("random bytes");
        assert_eq!(said(&[&format!("Bearer {token}")]), Ok(digest(&token)));
        assert_eq!(said(&[&format!("bearer  {token}")]), Ok(digest(&token)));
        let bearer = format!("Bearer {token}");
        let (short, upper) = (&bearer[..bearer.len() - 1], bearer.to_uppercase());
        let basic = bearer.replace("Bearer", "Basic");
        let long = format!("{bearer}0");
        for wrong in [short, &upper, &basic, &long, &token, "", "Bearer", "Bearer gbn_"] {
            assert_eq!(said(&[wrong]).expect_err(wrong).status, 401, "{wrong}");
        }
        assert_eq!(said(&[]).expect_err("none").status, 401);
        assert_eq!(said(&[&bearer, &bearer]).expect_err("two").status, 401);
    }

    #[test]
    fn the_directory_never_hears_the_text_of_a_token() {
        let (name, role) = ("ci".to_owned(), AccessRole::Viewer);
        let create = Command::TokenCreate { name: name.clone(), role, seconds: 60 };
        let (asked, token) = with_secret(create.clone()).expect("random bytes");
        let token = token.expect("a token");
        let digest = digest(&token);
        assert_eq!(asked, Command::TokenPut { name, role, seconds: 60, digest });
        let (_, other) = with_secret(create).expect("random bytes");
        assert_ne!(other, Some(token), "each is another one");
        assert_eq!(with_secret(Command::TokenList), Ok((Command::TokenList, None)));
    }

    #[test]
    fn each_role_may_do_what_those_before_it_may() {
        use AccessRole::{Administrator, Operator, Viewer};
        let all = [Viewer, Operator, Administrator];
        for (has, role) in all.into_iter().enumerate() {
            let caller = ApiCaller { name: "x".to_owned(), role };
            for (needed, right) in all.into_iter().enumerate() {
                assert_eq!(caller.may(right).is_ok(), has >= needed, "{role:?} {right:?}");
            }
        }
    }
}
