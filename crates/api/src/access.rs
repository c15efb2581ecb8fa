// SPDX-License-Identifier: Apache-2.0
//! Who asks, and what they may do. Whoever may connect to the Unix socket may do everything; over
//! the network the text of a token or of a session says it.

use crate::problem::Problem;
use crate::secrets::{digest, is_token};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use operator::{AccessRole, Command, SessionReport};
use std::time::Duration;

/// How long a wrong token, password or code waits for its answer.
pub const REFUSED_AFTER: Duration = Duration::from_secs(1);

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
    /// As the audit names it: the name of its token, `user` and a name, or `uid` and a number. No
    /// token has a name with a space.
    pub name: String,
    /// What it may do; none: nobody knows who it is.
    role: Option<AccessRole>,
    /// What opened the API, and the digest of its text.
    opened_by: Option<(SessionReport, String)>,
}

impl ApiCaller {
    /// A user of this machine whom the Unix socket lets in.
    pub fn local(uid: Option<u32>) -> Self {
        let uid = uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
        let role = Some(AccessRole::Administrator);
        Self { name: format!("uid {uid}"), role, opened_by: None }
    }

    /// Whoever brought the text of this digest.
    pub fn known(report: SessionReport, digest: String) -> Self {
        let name = match report.is_user {
            true => format!("user {}", report.name),
            false => report.name.clone(),
        };
        Self { name, role: Some(report.role), opened_by: Some((report, digest)) }
    }

    /// Somebody who wants to sign in.
    pub fn nobody() -> Self {
        Self { name: "nobody".to_owned(), role: None, opened_by: None }
    }

    /// An error where it may not do what needs this role.
    pub fn may(&self, needed: AccessRole) -> Result<(), Problem> {
        match self.role {
            None => Err(Problem::no_token()),
            Some(role) if role >= needed => Ok(()),
            Some(role) => Err(Problem::forbidden(&self.name, role.name(), needed.name())),
        }
    }

    /// An error where it may not ask this of somebody else, though of itself.
    pub fn may_ask(&self, command: &Command) -> Result<(), Problem> {
        match command {
            Command::UserPassword { name, .. } if self.session_of(name).is_none() => {
                self.may(AccessRole::Administrator)
            }
            _ => Ok(()),
        }
    }

    /// The digest of the session that it asks with, if it has signed in.
    pub fn session(&self) -> Option<&str> {
        let (report, digest) = self.opened_by.as_ref()?;
        report.is_user.then_some(digest)
    }

    /// The same, if it has signed in as this user.
    pub fn session_of(&self, user: &str) -> Option<&str> {
        let (report, _) = self.opened_by.as_ref()?;
        self.session().filter(|_| report.name == user)
    }

    /// Who it is.
    pub fn report(&self) -> SessionReport {
        self.opened_by.as_ref().map(|(report, _)| report.clone()).unwrap_or_else(|| SessionReport {
            name: self.name.clone(),
            role: self.role.unwrap_or(AccessRole::Viewer),
            is_user: false,
            lacks_password: false,
            expires: None,
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::token;

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
    fn each_role_may_do_what_those_before_it_may() {
        use AccessRole::{Administrator, Operator, Viewer};
        let all = [Viewer, Operator, Administrator];
        for (has, role) in all.into_iter().enumerate() {
            let caller = ApiCaller::known(report("x", role, false), String::new());
            for (needed, right) in all.into_iter().enumerate() {
                assert_eq!(caller.may(right).is_ok(), has >= needed, "{role:?} {right:?}");
            }
        }
    }

    fn report(name: &str, role: AccessRole, is_user: bool) -> SessionReport {
        let name = name.to_owned();
        SessionReport { name, role, is_user, lacks_password: false, expires: Some(1) }
    }

    #[test]
    fn nobody_may_nothing() {
        let nobody = ApiCaller::nobody();
        assert_eq!(nobody.may(AccessRole::Viewer).expect_err("refused").status, 401);
        assert_eq!(nobody.session(), None);
    }

    #[test]
    fn users_change_their_own_password_and_administrators_any() {
        let (name, password) = ("anna".to_owned(), "x".to_owned());
        let change = Command::UserPassword { name, password };
        let by = |name, role, is_user| {
            let caller = ApiCaller::known(report(name, role, is_user), String::new());
            caller.may_ask(&change).is_ok()
        };
        assert!(by("anna", AccessRole::Viewer, true));
        assert!(!by("anna", AccessRole::Operator, false), "a token of that name");
        assert!(!by("bert", AccessRole::Operator, true));
        assert!(by("bert", AccessRole::Administrator, true));
        assert!(ApiCaller::local(None).may_ask(&change).is_ok());
    }
}
