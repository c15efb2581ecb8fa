// SPDX-License-Identifier: Apache-2.0
//! Webhooks: JSON, posted to a URL and signed as Standard Webhooks has it (version 1): HMAC-SHA256
//! over id, time and body.

use crate::notice::Notice;
use crate::reach::{DeliveryError, dial};
use crate::trust;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use directory::SecretText;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sha2::Sha256;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// Before a secret that is written in base 64.
const SECRET_MARK: &str = "whsec_";

/// The signature of a message: `v1,` and base 64.
///
/// A secret that begins with `whsec_` is base 64 behind it; any other is taken as it is.
#[must_use]
pub fn sign(secret: &SecretText, id: &str, timestamp: u64, body: &[u8]) -> String {
    let decoded = secret.0.strip_prefix(SECRET_MARK).and_then(|text| STANDARD.decode(text).ok());
    let key = decoded.unwrap_or_else(|| secret.0.as_bytes().to_vec());
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else {
        unreachable!("HMAC takes keys of any length");
    };
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Where a URL leads.
#[derive(Debug)]
struct Target {
    is_tls: bool,
    host: String,
    /// Host and port.
    to: String,
    /// As the header `Host` has it.
    authority: String,
    path: String,
}

fn target(url: &str) -> Result<Target, DeliveryError> {
    let wrong = || DeliveryError::Form { why: "the URL is none of a webhook".to_owned() };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let is_tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(wrong()),
    };
    let host = uri.host().ok_or_else(wrong)?;
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(Target {
        is_tls,
        host: host.trim_matches(['[', ']']).to_owned(),
        to: format!("{host}:{port}"),
        authority: uri.authority().ok_or_else(wrong)?.to_string(),
        path: path.to_owned(),
    })
}

/// Posts a message to a URL, whose server is of the CA `ca`. Returns the status of the answer.
pub(crate) async fn post(
    (url, ca): (&str, Option<&str>),
    secret: Option<&SecretText>,
    notice: &Notice,
) -> Result<String, DeliveryError> {
    let target = target(url)?;
    let request = request(&target, secret, notice)?;
    let stream = dial(&target.to).await?;
    let status = match target.is_tls {
        false => exchange(stream, request, &target.to).await?,
        true => {
            let to = target.to.clone();
            let tls = |source| DeliveryError::Tls { to, source };
            let config = Arc::new(trust::client(ca)?);
            let name = ServerName::try_from(target.host.clone())
                .map_err(|error| DeliveryError::Form { why: error.to_string() })?;
            let stream = TlsConnector::from(config).connect(name, stream).await.map_err(tls)?;
            exchange(stream, request, &target.to).await?
        }
    };
    match status {
        200..300 => Ok(format!("status {status}")),
        _ => Err(DeliveryError::Status { to: target.to, status }),
    }
}

fn request(
    target: &Target,
    secret: Option<&SecretText>,
    notice: &Notice,
) -> Result<Request<Full<Bytes>>, DeliveryError> {
    let form = |why: String| DeliveryError::Form { why };
    let body = serde_json::to_vec(notice).map_err(|error| form(error.to_string()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let id = notice.data.id.as_str();
    let mut head = Request::builder()
        .method(Method::POST)
        .uri(&target.path)
        .header(HOST, &target.authority)
        .header(USER_AGENT, concat!("gabion/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", now);
    if let Some(secret) = secret {
        head = head.header("webhook-signature", sign(secret, id, now, &body));
    }
    // A name or an id that is no header is refused here.
    head.body(Full::new(Bytes::from(body))).map_err(|error| form(error.to_string()))
}

/// One request on a connection of its own. Of the answer only the status counts: what else it says
/// is not read.
async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    to: &str,
) -> Result<u16, DeliveryError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken =
        |error: hyper::Error| DeliveryError::Broken { to: to.to_owned(), why: error.to_string() };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driver = Driver(tokio::spawn(async move {
        // How it ends is told to whoever waits for the answer.
        let _ = connection.await;
    }));
    let response = sender.send_request(request).await.map_err(broken)?;
    drop(driver);
    Ok(response.status().as_u16())
}

/// Ends a connection's task with whoever waits for it.
struct Driver(tokio::task::JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example made with another program: Python's `hmac` and `base64`.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let secret = SecretText("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let body = br#"{"test": 2432232314}"#;
        let signed = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let plain = SecretText("not base 64".to_owned());
        assert_ne!(sign(&plain, "a", 1, body), sign(&plain, "a", 2, body));
        assert_ne!(sign(&plain, "a", 1, body), sign(&secret, "a", 1, body));
    }

    #[test]
    fn a_url_is_taken_apart() {
        let said = target("https://[2001:db8::1]:8443/a?b=c").expect("a URL");
        assert_eq!((said.host.as_str(), said.to.as_str()), ("2001:db8::1", "[2001:db8::1]:8443"));
        assert_eq!((said.path.as_str(), said.authority.as_str()), ("/a?b=c", "[2001:db8::1]:8443"));
        let said = target("http://a.example").expect("a URL");
        assert_eq!(
            (said.to.as_str(), said.path.as_str(), said.is_tls),
            ("a.example:80", "/", false)
        );
        for wrong in ["ftp://a.example", "a.example", "file:///etc/passwd", "https://"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
