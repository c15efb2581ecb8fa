// SPDX-License-Identifier: Apache-2.0
//! The listener: a thread of its own beside the shards, on a Unix socket that only its user may
//! connect to.
//!
//! What a caller can hold is bounded: connections, requests under way, the bytes of a body, and the
//! time for a head, a body and an answer.

use crate::events::{LAST_EVENT, Listeners};
use crate::gather::{ShardDoor, gather};
use crate::lists::{LISTS, List};
use crate::mailbox::{MailboxError, exchange};
use crate::metrics;
use crate::once::{KEY_HEADER, KeyedCommand, Once, Outcome};
use crate::openapi::document;
use crate::problem::{PROBLEM_JSON, Problem};
use crate::request::RequestParts;
use crate::routes::{AskedShards, Method, PREFIX, ROUTES, Route};
use axum::extract::{FromRequestParts, Query, RawPathParams, Request};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use axum::{Router, http};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use operator::{Command, CommandReply};
use serde_json::Value;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, oneshot};

/// Most connections at once. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// Most requests that are carried out at once.
pub const REQUESTS_MAX: usize = 32;
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
/// After a failure to accept a connection: the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no API.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The socket cannot be made.
    #[error("cannot listen on '{}': {source}", path.display())]
    Listen {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A running API. It ends when this is dropped.
#[derive(Debug)]
pub struct ApiServer {
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has said why, if it panicked.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Begins to answer at `socket` for shards.
///
/// # Errors
/// [`ApiError::Listen`].
pub fn start(socket: &Path, shards: Vec<ShardDoor>) -> Result<ApiServer, ApiError> {
    let failed = |source| ApiError::Listen { path: socket.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One more for the scrape of metrics that has its turn.
        .max_blocking_threads(REQUESTS_MAX + 1)
        .build()
        .map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        listen(socket).map_err(failed)?
    };
    let (stop, stopped) = oneshot::channel();
    let api = Arc::new(Api {
        shards,
        first: AtomicUsize::new(0),
        requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
        once: Once::default(),
        listeners: Arc::new(Listeners::new(run())),
    });
    let serve = move || {
        runtime.block_on(async {
            tokio::spawn(accept(listener, router(&api)));
            let (listeners, shards) = (Arc::clone(&api.listeners), api.shards.clone());
            tokio::spawn(async move { listeners.watch(move || gather(shards.clone())).await });
            let _ = stopped.await;
        });
        // Whoever waits for a shard does not hold up the end.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("api".to_owned()).spawn(serve).map_err(failed)?;
    Ok(ApiServer { socket: socket.to_owned(), stop: Some(stop), thread: Some(thread) })
}

/// A socket that nobody else may connect to, at no moment: it gets its name last.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    let mut new = socket.as_os_str().to_owned();
    new.push(".new");
    let _ = std::fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&new, socket)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, router: Router) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // How a connection ends is its caller's business.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// Tells this run of the program from others.
fn run() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}

/// What all requests share.
struct Api {
    shards: Vec<ShardDoor>,
    /// The shard that answered last, as an index.
    first: AtomicUsize,
    requests: Arc<Semaphore>,
    once: Once,
    listeners: Arc<Listeners>,
}

fn router(api: &Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(&format!("{PREFIX}{}", route.path), handler(api, route));
    }
    for list in LISTS {
        let api = Arc::clone(api);
        let look = get(move |request: Request| async move {
            match api.look(list, request).await {
                Ok(value) => json(StatusCode::OK, value.to_string()),
                Err(problem) => problem.into_response(),
            }
        });
        router = router.route(&format!("{PREFIX}{}", list.path), look);
    }
    let listeners = Arc::clone(&api.listeners);
    let listen = get(move |request: Request| async move {
        let last = request.headers().get(LAST_EVENT).and_then(|last| last.to_str().ok());
        listeners.listen(last.map(str::to_owned)).unwrap_or_else(IntoResponse::into_response)
    });
    router = router.route(&format!("{PREFIX}/events"), listen);
    let describe = get(|| async { json(StatusCode::OK, document().to_string()) });
    router
        .route("/metrics", metrics::endpoint(api.shards.clone()))
        .route(&format!("{PREFIX}/openapi.json"), describe)
        .fallback(|request: Request| async move {
            Problem::no_such_path(request.uri().path()).into_response()
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
    on(filter, move |request: Request| async move {
        let path = request.uri().path().to_owned();
        let answered = api.answer(route, request).await;
        if route.method != Method::Get {
            let status = answered.as_ref().map_or_else(|problem| problem.status, |_| 200);
            tracing::info!(method = route.method.name(), path, status, "asked through the API");
        }
        match answered {
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
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl Api {
    async fn answer(
        self: &Arc<Self>,
        route: &'static Route,
        request: Request,
    ) -> Result<Value, Problem> {
        let key = request.headers().get(KEY_HEADER).cloned();
        let said = read(request).await?;
        let wanted = route.command(&said)?;
        let Some(key) = key.filter(|_| route.method != Method::Get) else {
            return self.carry_out_in_turn(route, wanted).await;
        };
        let key = key.to_str().map_err(|_| Problem::usage("the idempotency key is no text"))?;
        let pending = self.once.pending(key, &wanted, Instant::now())?;
        // A caller that goes away takes no answer along.
        let api = Arc::clone(self);
        let first = tokio::spawn(async move {
            let begin = || async {
                match api.carry_out_in_turn(route, wanted).await {
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
        (command, shard): KeyedCommand,
    ) -> Outcome {
        let api = Arc::clone(self);
        self.begin(move || api.carry_out(route, &command, shard.as_deref())).await
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
            AskedShards::Any => self.any()?,
            AskedShards::Named => self.named(shard.unwrap_or_default())?,
        };
        let (name, socket) = asked;
        match exchange(socket, command, route.patience) {
            Ok(CommandReply::Ok(value)) => Ok(value),
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
