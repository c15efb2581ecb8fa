// SPDX-License-Identifier: Apache-2.0
//! Users and their sessions (docs/operations/access.md).
//!
//! The API looks at passwords and makes the texts of codes and sessions; the directory gets digests
//! alone. What a session may do is what its user may do now.

use super::{Operations, Outcome, failed, usage};
use directory::{
    AccessRole, Expect, Level, SESSIONS_MAX, SignInCode, USERS_MAX, UserAccount, UserSession,
    UsersRecord, digest_of, users_key,
};
use operator::{CommandFailure, SessionReport, UserReport};

/// A code or a session is good for thirty days at most, seconds.
const SECONDS_MAX: u64 = 30 * 86_400;
/// Sessions of one user at a time: the oldest goes for one more.
const SESSIONS_OF_USER: usize = 16;

type Digest = [u8; 32];

impl Operations {
    /// By what this host last heard of the directory.
    pub(super) fn session_of(&self, digest: &str) -> Option<SessionReport> {
        let users = self.view.users();
        let (user, session) = users.opens(&digest_of(digest)?, self.seconds())?;
        Some(session_report(user, session))
    }

    pub(super) fn user_reports(&self) -> Vec<UserReport> {
        let (record, now) = (self.view.users(), self.seconds());
        let report = |user: &UserAccount| user_report(&record, &user.name, now);
        let mut users: Vec<_> = record.users.iter().filter_map(report).collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        users
    }

    pub(super) async fn put_code(
        &self,
        name: String,
        role: Option<AccessRole>,
        (seconds, digest): (u64, &str),
    ) -> Outcome<UserReport> {
        if !directory::is_name(&name) {
            return Err(usage("that is not a name for a user"));
        }
        let (created, expires, digest) = self.span(seconds, digest)?;
        self.need(Level::ACCESS, "users")?;
        let (mut record, expect) = self.users_now().await?;
        let code = Some(SignInCode { digest, expires });
        let what = match role {
            None => {
                user_in(&mut record, &name)?.code = code;
                format!("user '{name}' got a code")
            }
            Some(_) if record.user(&name).is_some() => {
                return Err(failed(format!(
                    "there is a user '{name}' already: 'gabion user code {name}' lets it in again"
                )));
            }
            Some(_) if record.users.len() >= USERS_MAX => {
                return Err(failed(format!(
                    "there are {USERS_MAX} users, the most that there can be: delete one"
                )));
            }
            Some(role) => {
                let user = UserAccount { name: name.clone(), role, created, password: None, code };
                record.users.push(user);
                format!("user '{name}' was made")
            }
        };
        self.put_users(record, expect, &what).await?.of(&name)
    }

    pub(super) async fn change_role(&self, name: &str, role: AccessRole) -> Outcome<UserReport> {
        let (mut record, expect) = self.users_now().await?;
        user_in(&mut record, name)?.role = role;
        let what = format!("user '{name}' has another role");
        self.put_users(record, expect, &what).await?.of(name)
    }

    pub(super) async fn put_password(
        &self,
        name: &str,
        password: String,
        session: Option<&str>,
    ) -> Outcome<UserReport> {
        let spared = session.map(digest).transpose()?;
        let (mut record, expect) = self.users_now().await?;
        let user = user_in(&mut record, name)?;
        (user.password, user.code) = (Some(password), None);
        record.end_sessions(name, spared.as_ref().map(|digest| digest.as_slice()));
        if record.check().is_err() {
            return Err(usage("that is no digest of a password"));
        }
        let what = format!("user '{name}' got a password");
        self.put_users(record, expect, &what).await?.of(name)
    }

    pub(super) async fn delete_user(&self, name: &str) -> Outcome<UserReport> {
        let (mut record, expect) = self.users_now().await?;
        user_in(&mut record, name)?;
        let gone = user_report(&record, name, self.seconds());
        record.end_sessions(name, None);
        record.users.retain(|user| user.name != name);
        self.put_users(record, expect, &format!("user '{name}' was deleted")).await?;
        gone.ok_or_else(|| nobody(name))
    }

    /// Signs in with what is true at this moment: a password that was changed since it was looked
    /// at opens nothing (`None`), and a code opens once.
    pub(super) async fn put_session(
        &self,
        (user, password, code): (Option<String>, Option<String>, Option<String>),
        (seconds, text): (u64, &str),
    ) -> Outcome<Option<SessionReport>> {
        let (created, expires, digest_now) = self.span(seconds, text)?;
        self.need(Level::ACCESS, "sessions")?;
        let code = code.as_deref().map(digest).transpose()?;
        let (mut record, expect) = self.users_now().await?;
        let found = match (user, password, code) {
            (Some(name), Some(password), None) => {
                let user = record.user(&name);
                user.filter(|user| user.password.as_ref() == Some(&password))
            }
            (None, None, Some(code)) => record.of_code(&code, created),
            _ => return Err(usage("a name and a password are needed, or a code")),
        };
        let Some(user) = found.map(|user| user.name.clone()) else { return Ok(None) };
        if code.is_some() {
            user_in(&mut record, &user)?.code = None;
        }
        record.sessions.retain(|session| created < session.expires);
        let of_user = record.sessions.iter().filter(|session| session.user == user).count();
        let oldest = match () {
            () if of_user >= SESSIONS_OF_USER => {
                record.sessions.iter().position(|session| session.user == user)
            }
            () => (record.sessions.len() >= SESSIONS_MAX).then_some(0),
        };
        if let Some(oldest) = oldest {
            record.sessions.remove(oldest);
        }
        let session = UserSession { user: user.clone(), digest: digest_now, created, expires };
        record.sessions.push(session.clone());
        if record.check().is_err() {
            return Err(usage("there is a session of this digest already"));
        }
        let put = self.put_users(record, expect, &format!("user '{user}' signed in")).await?;
        Ok(put.record.user(&user).map(|user| session_report(user, &session)))
    }

    pub(super) async fn end_session(&self, text: &str) -> Outcome<()> {
        let ended = digest(text)?;
        let (mut record, expect) = self.users_now().await?;
        record.sessions.retain(|session| session.digest != ended);
        self.put_users(record, expect, "the session was ended").await.map(drop)
    }

    /// From when to when something is good, and its digest.
    fn span(&self, seconds: u64, text: &str) -> Outcome<(u64, u64, Digest)> {
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(usage("that is for one second to thirty days"));
        }
        let now = self.seconds();
        Ok((now, now + seconds, digest(text)?))
    }

    async fn users_now(&self) -> Outcome<(UsersRecord, Expect)> {
        self.only_record(&users_key(), UsersRecord::decode).await
    }

    /// Writes the record, and waits a moment until this host has it.
    async fn put_users(&self, record: UsersRecord, expect: Expect, what: &str) -> Outcome<Put> {
        let put = self.put_at(users_key(), expect, record.encode()).await;
        put.map_err(|undecided| match undecided {
            None => failed("somebody else changed the users meanwhile: try again"),
            Some(undecided) => undecided.told(what),
        })?;
        self.until(|| self.view.users() == record).await;
        Ok(Put { record, now: self.seconds() })
    }
}

/// A record that was written.
struct Put {
    record: UsersRecord,
    now: u64,
}

impl Put {
    fn of(&self, name: &str) -> Outcome<UserReport> {
        user_report(&self.record, name, self.now).ok_or_else(|| nobody(name))
    }
}

fn digest(text: &str) -> Outcome<Digest> {
    digest_of(text).ok_or_else(|| usage("that is no SHA-256"))
}

fn nobody(name: &str) -> CommandFailure {
    let name = name.escape_debug();
    failed(format!("there is no user '{name}': see 'gabion user list'"))
}

fn user_in<'a>(record: &'a mut UsersRecord, name: &str) -> Outcome<&'a mut UserAccount> {
    record.users.iter_mut().find(|user| user.name == name).ok_or_else(|| nobody(name))
}

fn user_report(record: &UsersRecord, name: &str, now: u64) -> Option<UserReport> {
    let user = record.user(name)?;
    let code = user.code.as_ref().filter(|code| now < code.expires);
    let is_open = |session: &&UserSession| session.user == name && now < session.expires;
    Some(UserReport {
        name: user.name.clone(),
        role: user.role,
        created: user.created,
        has_password: user.password.is_some(),
        code_expires: code.map(|code| code.expires),
        sessions: u64::try_from(record.sessions.iter().filter(is_open).count()).unwrap_or(u64::MAX),
    })
}

fn session_report(user: &UserAccount, session: &UserSession) -> SessionReport {
    SessionReport {
        name: user.name.clone(),
        role: user.role,
        is_user: true,
        lacks_password: user.password.is_none(),
        expires: Some(session.expires),
    }
}
