// SPDX-License-Identifier: Apache-2.0
//! The listener on the network: TLS 1.3, and a token for everything but the files of the page.
//! Whoever has none learns that it needs one, a second later, and nothing else.

use crate::access::{ApiCaller, Origin, REFUSED_AFTER, digest_in};
use crate::page;
use crate::problem::Problem;
use crate::routes::{PREFIX, ROUTES, Route};
use crate::service::{Api, serve};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use keys::ListenerKey;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::version::TLS13;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Most connections at once, beside those of the Unix socket. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How fast new connections are accepted, once as many came at once as fit in a second. Agreeing on
/// TLS costs a tenth of a millisecond of CPU: a flood of connections costs a few hundredths of a
/// core, and delays those on the network alone.
const ACCEPTED_EVERY: Duration = Duration::from_millis(5);
/// Longest wait until TLS is agreed on.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// After a failure to accept a connection: the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Between two looks whether a certificate is to be made anew.
const RENEWAL_EVERY: Duration = Duration::from_secs(3600);

/// Where the API is on the network, and what it proves itself with there.
#[derive(Debug)]
pub struct NetworkDoor {
    /// Its address; port 0: any that is free.
    pub address: SocketAddr,
    /// Its key.
    pub key: Arc<ListenerKey>,
}

pub(crate) struct NetworkListener {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    key: Arc<ListenerKey>,
}

/// Begins to listen; connections are not accepted before [`NetworkListener::accept`].
pub(crate) fn listen(door: NetworkDoor, runtime: &Runtime) -> io::Result<NetworkListener> {
    let listener = runtime.block_on(TcpListener::bind(door.address))?;
    let address = listener.local_addr()?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&door.key) as _);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(NetworkListener { listener, address, acceptor, key: door.key })
}

impl NetworkListener {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections for ever.
    pub(crate) async fn accept(self, router: Router) {
        let Self { listener, acceptor, key, .. } = self;
        tokio::spawn(renew(key));
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut pace = Pace::new(Instant::now());
        loop {
            tokio::time::sleep(pace.wait(Instant::now())).await;
            let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // An answer is one or two small packets: the second must not wait for the first.
            let _ = stream.set_nodelay(true);
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let agreed = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream));
                match agreed.await {
                    Ok(Ok(stream)) => {
                        let origin = Origin { from: from.to_string(), caller: None };
                        serve(stream, router, origin).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%from, %error, "no TLS was agreed on"),
                    Err(_) => tracing::debug!(%from, "TLS was not agreed on in time"),
                }
                drop(place);
            });
        }
    }
}

/// How fast connections are accepted.
struct Pace {
    /// When all that were accepted would have come, one after the other.
    busy_until: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { busy_until: now }
    }

    /// How long to wait before one is accepted at `now`. A second's worth may come at once.
    fn wait(&mut self, now: Instant) -> Duration {
        let ahead = self.busy_until.saturating_duration_since(now);
        self.busy_until = now.max(self.busy_until) + ACCEPTED_EVERY;
        ahead.saturating_sub(Duration::from_secs(1))
    }
}

async fn renew(key: Arc<ListenerKey>) {
    loop {
        tokio::time::sleep(RENEWAL_EVERY).await;
        if let Err(error) = key.renew(SystemTime::now()) {
            tracing::error!(%error, "the certificate of the API is not renewed; tried again");
        }
    }
}

/// A router that answers those who bring a token. Handlers hear whose it is. The files of the page
/// are for all: they say nothing of the cluster.
pub(crate) fn guarded(router: Router, api: &Arc<Api>) -> Router {
    let api = Arc::clone(api);
    router.layer(from_fn(move |request: Request, next: Next| {
        let api = Arc::clone(&api);
        async move {
            if let Some(file) = page::answer(&request) {
                return file;
            }
            if is_open(&request) {
                return admitted(ApiCaller::nobody(), request, next).await;
            }
            // What else is said without a token is not read, but for its head.
            let digest = digest_in(request.headers());
            match caller(&api, digest).await {
                Ok(caller) => admitted(caller, request, next).await,
                Err(problem) => {
                    tokio::time::sleep(REFUSED_AFTER).await;
                    problem.into_response()
                }
            }
        }
    }))
}

/// Whether a request is for those whom nobody knows yet. The paths of such routes have no names.
fn is_open(request: &Request) -> bool {
    let path = request.uri().path().strip_prefix(PREFIX);
    let is_it = |route: &&Route| {
        route.is_open
            && route.method.name() == request.method().as_str()
            && Some(route.path) == path
    };
    ROUTES.iter().any(|route| is_it(&route))
}

async fn caller(api: &Arc<Api>, digest: Result<String, Problem>) -> Result<ApiCaller, Problem> {
    api.admit(digest?).await
}

async fn admitted(caller: ApiCaller, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(caller);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_in_and_a_flood_is_paced() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let burst: Vec<Duration> = (0..=200).map(|_| pace.wait(begun)).collect();
        assert!(burst.iter().all(Duration::is_zero), "{burst:?}");
        assert_eq!(pace.wait(begun), ACCEPTED_EVERY);
        assert_eq!(pace.wait(begun + ACCEPTED_EVERY), ACCEPTED_EVERY, "as fast as they are let in");
        assert!(pace.wait(begun + Duration::from_secs(9)).is_zero(), "the flood is over");
    }
}
