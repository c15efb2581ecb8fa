// SPDX-License-Identifier: Apache-2.0
//! Tokens: who may ask the API over the network (docs/operations/access.md). People who sign in:
//! `users`.
//!
//! The API makes a token's text, and the directory gets its digest alone. So a host can tell
//! whether a token opens something, and neither a host, nor the directory, nor a backup of it can
//! say the text.

use super::{Operations, Outcome, failed, missing, reply, usage};
use directory::{AccessRecord, AccessRole, AccessToken, Level, TOKENS_MAX, access_key, digest_of};
use operator::{AdmissionStep, Command, CommandReply, SessionReport, TokenReport};

/// A token is for ten years at most, seconds.
const TOKEN_SECONDS_MAX: u64 = 3653 * 86_400;

impl Operations {
    /// Carries out what is asked about tokens, users and sessions.
    pub(super) async fn access_command(&self, command: Command) -> CommandReply {
        match command {
            Command::TokenList => reply(Ok(self.tokens())),
            Command::TokenDelete { name } => reply(self.delete_token(&name).await),
            Command::Admission(step) => self.admission(step).await,
            Command::UserList => reply(Ok(self.user_reports())),
            Command::UserRole { name, role } => reply(self.change_role(&name, role).await),
            Command::UserDelete { name } => reply(self.delete_user(&name).await),
            _ => reply::<()>(Err(usage("the API makes secrets, and asks by their digests"))),
        }
    }

    /// What the API asks about a secret.
    async fn admission(&self, step: AdmissionStep) -> CommandReply {
        match step {
            AdmissionStep::TokenPut { name, role, seconds, digest } => {
                reply(self.put_token(name, role, (seconds, &digest)).await)
            }
            AdmissionStep::TokenCheck { digest } => reply(self.check_token(&digest)),
            AdmissionStep::CodePut { name, role, seconds, digest } => {
                reply(self.put_code(name, role, (seconds, &digest)).await)
            }
            AdmissionStep::PasswordPut { name, password, session } => {
                reply(self.put_password(&name, password, session.as_deref()).await)
            }
            AdmissionStep::PasswordGet { name } => {
                let users = self.view.users();
                reply(Ok(users.user(&name).and_then(|user| user.password.clone())))
            }
            AdmissionStep::SessionPut { user, password, code, seconds, digest } => {
                reply(self.put_session((user, password, code), (seconds, &digest)).await)
            }
            AdmissionStep::SessionEnd { digest } => reply(self.end_session(&digest).await),
            AdmissionStep::InvitePut { seconds, digest } => {
                reply(self.put_invite((seconds, &digest)).await)
            }
            AdmissionStep::InviteUse { digest } => reply(self.use_invite(&digest).await),
            AdmissionStep::ReceiversGet => reply(Ok(self.receivers_with_secrets())),
            AdmissionStep::ReceiverNote { name, created, told, trouble } => {
                reply(self.note_receiver((&name, created), &told, trouble).await)
            }
        }
    }

    pub(super) fn seconds(&self) -> u64 {
        self.env.wall().0 / 1_000_000_000
    }

    async fn put_token(
        &self,
        name: String,
        role: AccessRole,
        (seconds, digest): (u64, &str),
    ) -> Outcome<TokenReport> {
        if !directory::is_name(&name) {
            return Err(usage("that is not a name for a token"));
        }
        if !(1..=TOKEN_SECONDS_MAX).contains(&seconds) {
            return Err(usage("a token is for one second to ten years"));
        }
        let digest = digest_of(digest).ok_or_else(|| usage("that is no SHA-256"))?;
        self.need(Level::ACCESS, "tokens")?;
        let (mut record, expect) = self.only_record(&access_key(), AccessRecord::decode).await?;
        let now = self.seconds();
        record.tokens.retain(|token| now < token.expires);
        if record.tokens.iter().any(|token| token.name == name) {
            return Err(failed(format!(
                "there is a token '{name}' already: choose another name, or delete it ('gabion \
                 token delete {name}')"
            )));
        }
        if record.tokens.len() >= TOKENS_MAX {
            return Err(failed(format!(
                "there are {TOKENS_MAX} tokens, the most that there can be: delete one"
            )));
        }
        let token = AccessToken { name, role, digest, created: now, expires: now + seconds };
        let report = token_report(&token);
        record.tokens.push(token);
        if record.check().is_err() {
            return Err(usage("there is a token of this digest already"));
        }
        self.put_access(&record, expect, &format!("token '{}' was made", report.name)).await?;
        Ok(report)
    }

    async fn delete_token(&self, name: &str) -> Outcome<TokenReport> {
        let (mut record, expect) = self.only_record(&access_key(), AccessRecord::decode).await?;
        let Some(at) = record.tokens.iter().position(|token| token.name == name) else {
            return Err(missing(format!(
                "there is no token '{}': see 'gabion token list'",
                name.escape_debug()
            )));
        };
        let gone = record.tokens.remove(at);
        self.put_access(&record, expect, &format!("token '{name}' was deleted")).await?;
        Ok(token_report(&gone))
    }

    /// Writes the record, and waits a moment until this host has it.
    async fn put_access(
        &self,
        record: &AccessRecord,
        expect: directory::Expect,
        what: &str,
    ) -> Outcome<()> {
        let put = self.put_at(access_key(), expect, record.encode()).await;
        put.map_err(|undecided| match undecided {
            None => failed("somebody else changed the tokens meanwhile: try again"),
            Some(undecided) => undecided.told(what),
        })?;
        self.until(|| self.view.access() == *record).await;
        Ok(())
    }

    /// By what this host last heard of the directory, so that a directory that is away shuts nobody
    /// out.
    fn check_token(&self, digest: &str) -> Outcome<SessionReport> {
        let access = self.view.access();
        let found = digest_of(digest).and_then(|digest| access.opens(&digest, self.seconds()));
        let of_token = |token: &AccessToken| SessionReport {
            name: token.name.clone(),
            role: token.role,
            is_user: false,
            lacks_password: false,
            expires: Some(token.expires),
        };
        let found = found.map(of_token).or_else(|| self.session_of(digest));
        found.ok_or_else(|| failed("no token of this text opens anything"))
    }

    fn tokens(&self) -> Vec<TokenReport> {
        let mut tokens: Vec<_> = self.view.access().tokens.iter().map(token_report).collect();
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        tokens
    }
}

fn token_report(token: &AccessToken) -> TokenReport {
    let AccessToken { name, role, created, expires, .. } = token.clone();
    TokenReport { name, role, created, expires }
}
