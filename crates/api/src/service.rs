// SPDX-License-Identifier: Apache-2.0
//! What is done with a request, whichever listener it came through.
//!
//! What a caller can hold is bounded: requests under way, the bytes of a body, and the time for a
//! head, a body and an answer.

use crate::access::{ApiCaller, Origin, REFUSED_AFTER};
use crate::audit::{AuditLog, AuditedDeed, ENTRIES_DEFAULT, ENTRIES_MAX};
use crate::configs::ShardConfigs;
use crate::events::{LAST_EVENT, Listeners};
use crate::gather::{ShardDoor, gather};
use crate::health::HealthWatch;
use crate::history::PerformanceWatch;
use crate::joining::JoinDoor;
use crate::lists::{LISTS, List};
use crate::mailbox::{MailboxError, exchange};
use crate::metrics::{self, Beside};
use crate::notifications::Teller;
use crate::once::{KEY_HEADER, KeyedCommand, Once, Outcome};
use crate::openapi::document;
use crate::page;
use crate::problem::{PROBLEM_JSON, Problem};
use crate::request::RequestParts;
use crate::routes::{AskedShards, Method, PREFIX, ROUTES, Route};
use crate::secrets::Passwords;
use crate::sign_in;
use axum::body::Body;
use axum::extract::{FromRequestParts, Query, RawPathParams, Request};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use axum::{Extension, Router, http};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use operator::{AccessRole, AdmissionStep, Command, CommandReply, SessionReport};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tower_service::Service;

/// Most requests that are carried out at once.
pub const REQUESTS_MAX: usize = 32;
/// Most tokens that are looked at at once. Further ones wait.
pub(crate) const ADMISSIONS_MAX: usize = 8;
/// Most who sign in or join at once. Further ones wait.
const LOGINS_MAX: usize = 4;
/// Largest body of a request, bytes.
pub const BODY_MAX: usize = 64 << 10;
/// Longest wait for the head of a request, also of the next one of a connection.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Longest wait for its body.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// A shard that has not said anything by then is not asked for more.
const ALIVE_MAX: Duration = Duration::from_secs(2);
/// What is said where a request ended in a panic.
const PANIC: &str = "the request ended in a panic: see the log";

/// Answers the requests of a connection, until it ends.
pub(crate) async fn serve<S>(stream: S, router: Router, origin: Origin)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut request = request.map(Body::new);
        if let Some(caller) = &origin.caller {
            request.extensions_mut().insert(caller.clone());
        }
        request.extensions_mut().insert(origin.clone());
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // How a connection ends is its caller's business.
    let _ = connection.await;
}

/// What all requests share.
pub(crate) struct Api {
    shards: Vec<ShardDoor>,
    configs: Arc<dyn ShardConfigs>,
    /// The shard that answered last, as an index.
    first: AtomicUsize,
    requests: Arc<Semaphore>,
    /// Places for those whose token is looked at. They take none of the others', so that a flood of
    /// wrong tokens shuts nobody out.
    admissions: Arc<Semaphore>,
    /// Places for those who sign in or join.
    logins: Arc<Semaphore>,
    passwords: Passwords,
    /// Where machines are let in that are to become hosts, if they are.
    door: Option<JoinDoor>,
    once: Once,
    listeners: Arc<Listeners>,
    audit: AuditLog,
    health: Arc<HealthWatch>,
    teller: Teller,
    performance: Arc<PerformanceWatch>,
}

pub(crate) fn router(api: &Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(&format!("{PREFIX}{}", route.path), handler(api, route));
    }
    for list in LISTS {
        let api = Arc::clone(api);
        let look = get(move |caller: Extension<ApiCaller>, request: Request| async move {
            if let Err(problem) = caller.may(AccessRole::Viewer) {
                return problem.into_response();
            }
            match api.look(list, request).await {
                Ok(value) => json(StatusCode::OK, value.to_string()),
                Err(problem) => problem.into_response(),
            }
        });
        router = router.route(&format!("{PREFIX}{}", list.path), look);
    }
    let listeners = Arc::clone(&api.listeners);
    let listen = get(move |caller: Extension<ApiCaller>, request: Request| async move {
        if let Err(problem) = caller.may(AccessRole::Viewer) {
            return problem.into_response();
        }
        let last = request.headers().get(LAST_EVENT).and_then(|last| last.to_str().ok());
        listeners.listen(last.map(str::to_owned)).unwrap_or_else(IntoResponse::into_response)
    });
    router = router.route(&format!("{PREFIX}/events"), listen);
    let noted = Arc::clone(api);
    let audit = get(move |caller: Extension<ApiCaller>, request: Request| async move {
        if let Err(problem) = caller.may(AccessRole::Administrator) {
            return problem.into_response();
        }
        match noted.audit(request).await {
            Ok(value) => json(StatusCode::OK, value.to_string()),
            Err(problem) => problem.into_response(),
        }
    });
    router = router.route(&format!("{PREFIX}/audit"), audit);
    let health = Arc::clone(&api.health);
    let states = move || health.states();
    let teller = api.teller.clone();
    let told = move || teller.counts();
    let performance = Arc::clone(&api.performance);
    let kept = move || performance.counts();
    let beside =
        Beside { checks: Arc::new(states), receivers: Arc::new(told), history: Arc::new(kept) };
    let describe =
        get(|_: Extension<ApiCaller>| async { json(StatusCode::OK, document().to_string()) });
    router
        .route("/metrics", metrics::endpoint(api.shards.clone(), beside))
        .route(&format!("{PREFIX}/openapi.json"), describe)
        .fallback(|request: Request| async move {
            let page = page::answer(&request);
            page.unwrap_or_else(|| Problem::no_such_path(request.uri().path()).into_response())
        })
        .method_not_allowed_fallback(|request: Request| async move {
            Problem::no_such_method(request.method().as_str()).into_response()
        })
}

fn handler(api: &Arc<Api>, route: &'static Route) -> MethodRouter {
    let filter = match route.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    };
    let api = Arc::clone(api);
    on(filter, move |caller: Extension<ApiCaller>, request: Request| async move {
        let outcome = match route.is_open {
            true => api.let_in(route, request).await,
            false => api.answer_noted(route, &caller, request).await,
        };
        match outcome {
            Ok(value) => json(StatusCode::OK, value.to_string()),
            Err(problem) => problem.into_response(),
        }
    })
}

fn json(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, PROBLEM_JSON)], text).into_response();
        let header = match status {
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "1")),
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl Api {
    /// Answers for shards, whose configuration files `configs` writes.
    pub(crate) fn new(
        shards: Vec<ShardDoor>,
        configs: Arc<dyn ShardConfigs>,
        (audit, run): (AuditLog, u64),
        (health, performance, teller): (Arc<HealthWatch>, Arc<PerformanceWatch>, Teller),
        door: Option<JoinDoor>,
    ) -> Self {
        Self {
            audit,
            health,
            teller,
            performance,
            shards,
            configs,
            first: AtomicUsize::new(0),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            admissions: Arc::new(Semaphore::new(ADMISSIONS_MAX)),
            logins: Arc::new(Semaphore::new(LOGINS_MAX)),
            passwords: Passwords::default(),
            door,
            once: Once::default(),
            listeners: Arc::new(Listeners::new(run)),
        }
    }

    /// Asks what changes, for those who listen; for ever.
    pub(crate) async fn watch(&self) {
        let shards = self.shards.clone();
        self.listeners.watch(move || gather(shards.clone())).await;
    }

    /// Answers a request, and notes it where it would change something. What a caller may not do
    /// is not read to its end.
    async fn answer_noted(
        self: &Arc<Self>,
        route: &'static Route,
        caller: &ApiCaller,
        request: Request,
    ) -> Outcome {
        let from = request.extensions().get::<Origin>().map(|origin| origin.from.clone());
        let path = request.uri().path().to_owned();
        let key = request.headers().get(KEY_HEADER).cloned();
        let wanted = match caller.may(route.right) {
            Ok(()) => read(request).await.and_then(|said| {
                let wanted = route.command(&said)?;
                caller.may_ask(&wanted.0).map(|()| wanted)
            }),
            Err(problem) => Err(problem),
        };
        if route.method == Method::Get {
            return self.answer(route, caller, (key, wanted?)).await;
        }
        // A caller that goes away takes no entry along.
        let (api, caller) = (Arc::clone(self), caller.clone());
        let request = format!("{} {path}", route.method.name());
        let noted = tokio::spawn(async move {
            let said = wanted.as_ref().ok().cloned();
            let said = said.map(|(said, shard)| (sign_in::without_secrets(said), shard));
            let outcome = match wanted {
                Ok(wanted) => api.answer(route, &caller, (key, wanted)).await,
                Err(problem) => Err(problem),
            };
            let note = move || {
                let from = from.as_deref().unwrap_or_default();
                let problem = outcome.as_ref().err();
                api.audit.note(AuditedDeed {
                    caller: &caller,
                    from,
                    request,
                    wanted: said,
                    problem,
                });
                outcome
            };
            tokio::task::spawn_blocking(note).await
        });
        noted.await.flatten().unwrap_or_else(|_| Err(Problem::internal(PANIC)))
    }

    /// The entries of the audit that a query asks for.
    async fn audit(self: &Arc<Self>, request: Request) -> Outcome {
        let said = read(request).await?;
        let (mut before, mut limit) = (u64::MAX, ENTRIES_DEFAULT);
        for (name, value) in &said.query {
            let wrong = || Problem::usage(format!("'{name}' is not '{}'", value.escape_debug()));
            match name.as_str() {
                "before" => before = value.parse().map_err(|_| wrong())?,
                "limit" => {
                    let read = value.parse().ok().filter(|read| (1..=ENTRIES_MAX).contains(read));
                    limit = read.ok_or_else(wrong)?;
                }
                _ => return Err(Problem::usage("there are the fields 'before' and 'limit' here")),
            }
        }
        let api = Arc::clone(self);
        self.begin(move || {
            let entries = api.audit.entries(before, limit);
            let entries = entries.and_then(|entries| Ok(serde_json::to_value(entries)?));
            entries.map_err(|error| Problem::internal(error.to_string()))
        })
        .await
    }

    async fn answer(
        self: &Arc<Self>,
        route: &'static Route,
        caller: &ApiCaller,
        (key, wanted): (Option<HeaderValue>, KeyedCommand),
    ) -> Result<Value, Problem> {
        let Some(key) = key.filter(|_| route.has_keys()) else {
            return self.carry_out_in_turn(route, caller, wanted).await;
        };
        let key = key.to_str().map_err(|_| Problem::usage("the idempotency key is no text"))?;
        // One caller's keys say nothing of another's.
        let pending = self.once.pending((&caller.name, key), &wanted, Instant::now())?;
        // A caller that goes away takes no answer along.
        let (api, caller) = (Arc::clone(self), caller.clone());
        let first = tokio::spawn(async move {
            let begin = || async {
                match api.carry_out_in_turn(route, &caller, wanted).await {
                    Err(problem) if problem.is_passing() => Err(problem),
                    outcome => Ok(outcome),
                }
            };
            pending.get_or_try_init(begin).await.cloned()
        });
        first.await.unwrap_or_else(|_| Err(Problem::internal(PANIC)))?
    }

    async fn carry_out_in_turn(
        self: &Arc<Self>,
        route: &'static Route,
        caller: &ApiCaller,
        (command, shard): KeyedCommand,
    ) -> Outcome {
        let (api, caller) = (Arc::clone(self), caller.clone());
        self.begin(move || {
            let ask = |command: &Command| api.carry_out(route, command, shard.as_deref());
            let means = (&api.passwords, api.door.as_ref());
            sign_in::carry_out(command, &caller, means, &ask)
        })
        .await
    }

    /// Lets somebody in, or not: a second later then, and few at a time, so that nobody tries many.
    async fn let_in(self: &Arc<Self>, route: &'static Route, request: Request) -> Outcome {
        let from = request.extensions().get::<Origin>().map(|origin| origin.from.clone());
        let what = format!("{} {}", route.method.name(), request.uri().path());
        let wanted = read(request).await.and_then(|said| route.command(&said))?;
        let place = Arc::clone(&self.logins).acquire_owned();
        let Ok(Ok(_place)) = tokio::time::timeout(HEAD_MAX, place).await else {
            return Err(Problem::busy(LOGINS_MAX));
        };
        let said = (sign_in::without_secrets(wanted.0.clone()), wanted.1.clone());
        let outcome = self.carry_out_in_turn(route, &ApiCaller::nobody(), wanted).await;
        match outcome.as_ref().map(sign_in::let_in) {
            // Those whom nobody knows leave no entry: they could fill the file.
            Err(problem) => {
                tracing::warn!(?from, problem = problem.title, "somebody was not let in");
                tokio::time::sleep(REFUSED_AFTER).await;
            }
            Ok(caller) => {
                let api = Arc::clone(self);
                let note = move || {
                    let from = from.as_deref().unwrap_or_default();
                    let (caller, wanted) = (&caller, Some(said));
                    let deed = AuditedDeed { caller, from, request: what, wanted, problem: None };
                    api.audit.note(deed);
                };
                let noted = tokio::task::spawn_blocking(note).await;
                noted.map_err(|_| Problem::internal(PANIC))?;
            }
        }
        outcome
    }

    /// Who brings the token of this digest.
    pub(crate) async fn admit(self: &Arc<Self>, digest: String) -> Result<ApiCaller, Problem> {
        let place = Arc::clone(&self.admissions).acquire_owned();
        let Ok(Ok(place)) = tokio::time::timeout(HEAD_MAX, place).await else {
            return Err(Problem::busy(ADMISSIONS_MAX));
        };
        let api = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let _place = place;
            let (_, socket) = api.any()?;
            let command = Command::Admission(AdmissionStep::TokenCheck { digest: digest.clone() });
            match exchange(socket, &command, ALIVE_MAX) {
                Ok(CommandReply::Ok(value)) => serde_json::from_value::<SessionReport>(value)
                    .map_err(|error| Problem::internal(error.to_string()))
                    .map(|report| ApiCaller::known(report, digest)),
                Ok(CommandReply::Error(_)) => Err(Problem::no_token()),
                Err(_) => Err(no_host()),
            }
        });
        asked.await.unwrap_or_else(|_| Err(Problem::internal(PANIC)))
    }

    async fn look(
        self: &Arc<Self>,
        list: &'static List,
        request: Request,
    ) -> Result<Value, Problem> {
        let said = read(request).await?;
        if !said.body.is_empty() {
            return Err(Problem::usage("this request has no body: its query says all"));
        }
        let api = Arc::clone(self);
        self.begin(move || {
            let report = gather(api.shards.clone()).ok_or_else(no_host)?;
            list.page(&report, &said.query)
        })
        .await
    }

    /// Does what waits for shards, if there is a place. The caller has the request's body by then:
    /// one that is sent slowly takes no place.
    async fn begin(
        &self,
        work: impl FnOnce() -> Result<Value, Problem> + Send + 'static,
    ) -> Result<Value, Problem> {
        let Ok(place) = Arc::clone(&self.requests).try_acquire_owned() else {
            return Err(Problem::busy(REQUESTS_MAX));
        };
        // The place is taken until the work is done, also where its caller is gone by then.
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.unwrap_or_else(|_| Err(Problem::internal(PANIC)))
    }

    /// Waits for shards.
    fn carry_out(
        &self,
        route: &Route,
        command: &Command,
        shard: Option<&str>,
    ) -> Result<Value, Problem> {
        let asked = match route.asked {
            AskedShards::All => {
                let report = gather(self.shards.clone()).ok_or_else(no_host)?;
                let report = serde_json::to_value(report);
                return report.map_err(|error| Problem::internal(error.to_string()));
            }
            AskedShards::Health => return self.health.answer(command),
            AskedShards::Receiver => return self.teller.answer(command),
            AskedShards::Performance => return self.performance.answer(command),
            AskedShards::Any => self.any()?,
            AskedShards::Named => self.named(shard.unwrap_or_default())?,
        };
        let (name, socket) = asked;
        self.configs.check(name, command)?;
        match exchange(socket, command, route.patience) {
            Ok(CommandReply::Ok(value)) => {
                self.configs.keep(name, command, &value)?;
                Ok(value)
            }
            Ok(CommandReply::Error(failure)) => Err(failure.into()),
            Err(MailboxError::Away(error)) => Err(Problem::no_host(format!(
                "{name} does not answer ({error}): is it running? see 'gabion host list'"
            ))),
            Err(MailboxError::Late(_) | MailboxError::Closed) => Err(Problem::late(name)),
            Err(error @ MailboxError::Form(_)) => Err(Problem::internal(error.to_string())),
        }
    }

    /// The first shard that answers, beginning with the one that did last.
    fn any(&self) -> Result<&ShardDoor, Problem> {
        let first = self.first.load(Ordering::Relaxed);
        let count = self.shards.len();
        let mut places = (0..count).map(|at| (first + at) % count);
        let is_alive = |at: &usize| {
            let (_, socket) = &self.shards[*at];
            exchange::<_, CommandReply>(socket, &Command::ClusterShow, ALIVE_MAX).is_ok()
        };
        let found = places.find(is_alive).ok_or_else(no_host)?;
        self.first.store(found, Ordering::Relaxed);
        Ok(&self.shards[found])
    }

    fn named(&self, wanted: &str) -> Result<&ShardDoor, Problem> {
        let known = || self.shards.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        let found = self.shards.iter().find(|(name, _)| name == wanted);
        found.ok_or_else(|| Problem::no_such_shard(wanted, &known()))
    }
}

fn no_host() -> Problem {
    Problem::no_host("no host answers: start the cluster with 'gabion up'")
}

/// What a request says, within bounds.
async fn read(request: Request) -> Result<RequestParts, Problem> {
    let (mut head, body) = request.into_parts();
    let path = RawPathParams::from_request_parts(&mut head, &()).await;
    let path = path.map_err(|error| Problem::usage(error.to_string()))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = Query::<Vec<(String, String)>>::try_from_uri(&head.uri);
    let Query(query) = query.map_err(|error| Problem::usage(error.to_string()))?;
    let body = match tokio::time::timeout(BODY_TIME_MAX, axum::body::to_bytes(body, BODY_MAX)).await
    {
        Ok(Ok(body)) => body.to_vec(),
        Ok(Err(_)) => return Err(Problem::too_large(BODY_MAX)),
        Err(_) => return Err(Problem::usage("the body did not come in time")),
    };
    if !body.is_empty() && !is_json(&head) {
        return Err(Problem::not_json());
    }
    Ok(RequestParts { path, query, body })
}

fn is_json(head: &http::request::Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}
