// SPDX-License-Identifier: Apache-2.0
//! Why a request was not carried out (RFC 9457, "Problem Details for HTTP APIs").

use operator::{CommandFailure, ErrorKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A problem, as an answer says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Which kind of problem it is: `/problems/` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind, for people.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What happened, to what, and what to do: one line.
    pub detail: String,
}

impl Problem {
    fn new(status: u16, kind: &str, title: &str, detail: impl Into<String>) -> Self {
        let kind = format!("/problems/{kind}");
        Self { kind, title: title.to_owned(), status, detail: detail.into() }
    }

    /// The request itself is wrong.
    #[must_use]
    pub fn usage(detail: impl Into<String>) -> Self {
        Self::new(400, "usage", "The request is wrong", detail)
    }

    /// Nobody knows who asks.
    #[must_use]
    pub fn no_token() -> Self {
        let detail = "this needs a token that opens something: 'Authorization: Bearer gbn_...'; \
                      'gabion token create' on a host makes one";
        Self::new(401, "no-token", "Who asks?", detail)
    }

    /// What somebody wants to sign in with opens nothing.
    #[must_use]
    pub fn not_signed_in() -> Self {
        let detail = "that name and password, or that code, opens nothing; a code is good once: \
                      'gabion user code NAME' on a host makes another";
        Self::new(401, "not-signed-in", "Who asks?", detail)
    }

    /// An invitation lets nobody in.
    #[must_use]
    pub fn not_invited() -> Self {
        let detail = "that invitation lets nobody in: it was used, or has expired; 'gabion host \
                      invite' on a host makes another";
        Self::new(401, "not-invited", "Who asks?", detail)
    }

    /// Whoever asks may not do it.
    #[must_use]
    pub fn forbidden(who: &str, role: &str, needed: &str) -> Self {
        let detail = format!("{who} has the role {role}, and this needs the role {needed}");
        Self::new(403, "forbidden", "Not allowed", detail)
    }

    /// What the request names is not there.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not-found", "Not there", detail)
    }

    /// There is nothing of this path.
    #[must_use]
    pub fn no_such_path(path: &str) -> Self {
        let detail = format!(
            "there is nothing at '{}': see /api/v1/openapi.json for what there is",
            path.escape_debug()
        );
        Self::new(404, "no-such-path", "No such path", detail)
    }

    /// There is no shard of this name here.
    #[must_use]
    pub fn no_such_shard(wanted: &str, known: &[&str]) -> Self {
        let wanted = wanted.escape_debug();
        let detail = format!("there is no shard '{wanted}' here; there are: {}", known.join(", "));
        Self::new(404, "no-such-shard", "No such shard", detail)
    }

    /// There is no check of this name.
    #[must_use]
    pub fn no_such_check(wanted: &str) -> Self {
        let wanted = wanted.escape_debug();
        let detail = format!("there is no check '{wanted}': see 'gabion health --all'");
        Self::new(404, "no-such-check", "No such check", detail)
    }

    /// Nothing is known of what this one did.
    #[must_use]
    pub fn no_performance(kind: &str, name: &str) -> Self {
        let name = name.escape_debug();
        let detail = format!(
            "there is no {kind} '{name}' here, and nothing was kept of one: 'gabion top' shows \
             what there is"
        );
        Self::new(404, "no-performance", "Nothing of this name", detail)
    }

    /// The path has no such method.
    #[must_use]
    pub fn no_such_method(method: &str) -> Self {
        let detail = format!(
            "this path has no method {}: see /api/v1/openapi.json for those that it has",
            method.escape_debug()
        );
        Self::new(405, "no-such-method", "No such method", detail)
    }

    /// The request is fine, but cannot be done now.
    #[must_use]
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::new(409, "failed", "It cannot be done now", detail)
    }

    /// The body is larger than any request needs.
    #[must_use]
    pub fn too_large(most: usize) -> Self {
        let detail = format!("the body is larger than {most} bytes: no request is");
        Self::new(413, "too-large", "The body is too large", detail)
    }

    /// The body is of another kind.
    #[must_use]
    pub fn not_json() -> Self {
        let detail = "the body is to be JSON: send 'Content-Type: application/json'";
        Self::new(415, "not-json", "The body is not JSON", detail)
    }

    /// The key of the request is that of another one.
    #[must_use]
    pub fn other_request() -> Self {
        let detail = "this idempotency key was used for another request: use a new one";
        Self::new(422, "other-request", "The key is taken", detail)
    }

    /// Whether asking again later may help, although nothing was changed about the request.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 503 | 504)
    }

    /// Something in here is wrong, and not the request.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(500, "internal", "A mistake of Gabion's", detail)
    }

    /// Nobody answers who could do it.
    #[must_use]
    pub fn no_host(detail: impl Into<String>) -> Self {
        Self::new(503, "no-host", "No host answers", detail)
    }

    /// So many requests are under way that this one is not begun.
    #[must_use]
    pub fn busy(most: usize) -> Self {
        let detail = format!("{most} requests are under way, which is the most: ask again soon");
        Self::new(503, "busy", "Too many requests", detail)
    }

    /// Others ask for the metrics so often that there is no turn for this one.
    #[must_use]
    pub fn other_scrape() -> Self {
        let detail = "the metrics are being asked for by others: ask again, or less often";
        Self::new(503, "busy", "Too many requests", detail)
    }

    /// The answer did not come in time. What was asked for may be done or not.
    #[must_use]
    pub fn late(who: &str) -> Self {
        let detail = format!(
            "{who} did not answer in time: it may be done or not; look before you ask again"
        );
        Self::new(504, "late", "No answer in time", detail)
    }
}

impl From<CommandFailure> for Problem {
    fn from(failure: CommandFailure) -> Self {
        match failure.kind {
            ErrorKind::Usage => Self::usage(failure.message),
            ErrorKind::Missing => Self::not_found(failure.message),
            ErrorKind::Failed => Self::failed(failure.message),
        }
    }
}
