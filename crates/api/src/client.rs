// SPDX-License-Identifier: Apache-2.0
//! Asks the API: how the command line does what it does.

use crate::pinned::connect;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::routes::PREFIX;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// Longest answer that is read: a status of 12,800 volumes is a tenth of it.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Longest wait for what no shard is asked for.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// The server waits for shards as long as a route says. What it says then takes a while more.
const MARGIN: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens, or this user may not ask.
    #[error("{0}")]
    Away(#[source] io::Error),
    /// It did not answer in time.
    #[error("no answer in time")]
    Late,
    /// The request was not carried out.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// The answer is not what it should be, or the connection was lost.
    #[error("{0}")]
    Form(String),
}

/// A way to ask the API of a host.
#[derive(Clone, Debug)]
pub struct ApiClient {
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Socket(PathBuf),
    Pinned(SocketAddr, String),
}

impl ApiClient {
    /// Asks at a Unix socket.
    #[must_use]
    pub fn at(socket: &Path) -> Self {
        Self { way: Way::Socket(socket.to_owned()) }
    }

    /// Asks a host over the network, whose CA has a certificate of this digest.
    pub(crate) fn pinned(address: SocketAddr, ca: &str) -> Self {
        Self { way: Way::Pinned(address, ca.to_owned()) }
    }

    /// Its socket, if it asks at one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match &self.way {
            Way::Socket(path) => Some(path),
            Way::Pinned(..) => None,
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call<A: DeserializeOwned>(&self, request: &ApiRequest) -> Result<A, CallError> {
        self.ask(encoded(request)?, request.route.patience + MARGIN)
    }

    /// Reads what is at a path behind `/api/v1`.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, CallError> {
        let head = Request::builder().uri(format!("{PREFIX}{path}")).header(HOST, "gabion");
        let request = head.body(Body::empty());
        self.ask(request.map_err(|error| CallError::Form(error.to_string()))?, LOOK_MAX)
    }

    /// Reads the text that is at a path, which is not behind `/api/v1`.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn text(&self, path: &str) -> Result<String, CallError> {
        let head = Request::builder().uri(path).header(HOST, "gabion");
        let request = head.body(Body::empty());
        let request = request.map_err(|error| CallError::Form(error.to_string()))?;
        let bytes = self.bytes(request, LOOK_MAX)?;
        String::from_utf8(bytes).map_err(|_| CallError::Form("the answer is no text".to_owned()))
    }

    fn ask<A: DeserializeOwned>(
        &self,
        request: Request<Body>,
        patience: Duration,
    ) -> Result<A, CallError> {
        let bytes = self.bytes(request, patience)?;
        serde_json::from_slice(&bytes).map_err(|error| CallError::Form(error.to_string()))
    }

    /// What is answered to a request that is carried out.
    fn bytes(&self, request: Request<Body>, patience: Duration) -> Result<Vec<u8>, CallError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CallError::Away)?;
        let (status, bytes) = runtime.block_on(async {
            let answered = tokio::time::timeout(patience, self.exchange(request));
            answered.await.unwrap_or(Err(CallError::Late))
        })?;
        let form = |error: serde_json::Error| CallError::Form(error.to_string());
        match status {
            200..300 => Ok(bytes),
            _ => Err(CallError::Problem(serde_json::from_slice(&bytes).map_err(form)?)),
        }
    }

    /// One request on a connection of its own.
    async fn exchange(&self, request: Request<Body>) -> Result<(u16, Vec<u8>), CallError> {
        match &self.way {
            Way::Socket(path) => {
                send(UnixStream::connect(path).await.map_err(CallError::Away)?, request).await
            }
            Way::Pinned(address, ca) => {
                send(connect(*address, ca).await.map_err(CallError::Away)?, request).await
            }
        }
    }
}

async fn send<S>(stream: S, request: Request<Body>) -> Result<(u16, Vec<u8>), CallError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lost = |error: hyper::Error| CallError::Form(format!("the connection: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(lost)?;
    let (head, body) = Response::into_parts(response);
    let read = axum::body::to_bytes(Body::new(body), ANSWER_BYTES_MAX).await;
    driver.abort();
    let bytes = read.map_err(|error| CallError::Form(format!("the answer: {error}")))?;
    Ok((head.status.as_u16(), bytes.to_vec()))
}

fn encoded(request: &ApiRequest) -> Result<Request<Body>, CallError> {
    let head = Request::builder()
        .method(request.route.method.name())
        .uri(&request.target)
        .header(HOST, "gabion");
    let built = match &request.body {
        Some(body) => {
            head.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string()))
        }
        None => head.body(Body::empty()),
    };
    built.map_err(|error| CallError::Form(error.to_string()))
}
