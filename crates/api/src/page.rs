// SPDX-License-Identifier: Apache-2.0
//! The page: files that are made from `page/` and are a part of the program. They hold no data of
//! the cluster, so they need no token: what the page shows it asks the API for, with one.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

// `FILES`: path and bytes, sorted by path; what has a twin in `.gz` is in it compressed, too.
include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

const INDEX: &str = "/index.html";
/// Their names change with their bytes.
const ASSETS: &str = "/assets/";
const NOT_BUILT: &str = "This gabion was built without its page. `./dev up` builds both; by hand:\n\
                         npm --prefix page ci && npm --prefix page run build, then cargo build.\n\
                         The API is below /api/v1 all the same.\n";
/// Nothing but what this program serves is loaded, nothing inline is run, and nobody shows it in a
/// frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

/// The answer to a request for a part of the page. `None`: it asks for something else.
pub(crate) fn answer(request: &Request) -> Option<Response> {
    let path = request.uri().path();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    if FILES.is_empty() {
        return (path == "/").then(|| shown((StatusCode::NOT_FOUND, NOT_BUILT).into_response()));
    }
    let path = if path == "/" { INDEX } else { path };
    let plain = file(path).filter(|_| path == INDEX || path.starts_with(ASSETS))?;
    let kind = kind_of(path)?;
    let packed = file(&format!("{path}.gz")).filter(|_| takes_gzip(request));
    let mut response = shown(Response::new(Body::from(packed.unwrap_or(plain))));
    let keep = match path == INDEX {
        true => "no-cache",
        false => "public, max-age=31536000, immutable",
    };
    let mut set = |name: HeaderName, value: &'static str| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_TYPE, kind);
    set(CACHE_CONTROL, keep);
    set(VARY, "accept-encoding");
    if packed.is_some() {
        set(CONTENT_ENCODING, "gzip");
    }
    Some(response)
}

fn file(path: &str) -> Option<&'static [u8]> {
    let found = FILES.binary_search_by(|(name, _)| (*name).cmp(path)).ok()?;
    Some(FILES[found].1)
}

/// What browsers may do with it.
fn shown(mut response: Response) -> Response {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn takes_gzip(request: &Request) -> bool {
    let said = request.headers().get(ACCEPT_ENCODING).and_then(|said| said.to_str().ok());
    let is_gzip = |one: &str| one.split(';').next().is_some_and(|name| name.trim() == "gzip");
    said.is_some_and(|said| said.split(',').any(is_gzip))
}

/// The type of a file that the page may have; others are not served.
fn kind_of(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('.')?;
    match end {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, path: &str) -> Option<Response> {
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        answer(&request.expect("a request"))
    }

    #[test]
    fn only_what_is_of_the_page_is_answered() {
        let page = ask(Method::GET, "/").expect("the page, or how to build it");
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(page.headers()[name], value);
        }
        assert!(!POLICY.contains("unsafe"), "nothing inline is run");
        for path in ["/api/v1/status", "/assets/", "/assets/../index.html", "/index.html.gz", "/x"]
        {
            assert!(ask(Method::GET, path).is_none(), "{path}");
        }
        assert!(ask(Method::POST, "/").is_none() && ask(Method::DELETE, "/").is_none());
    }

    #[test]
    fn what_has_a_name_of_its_own_is_kept_and_the_rest_is_asked_for_again() {
        for (name, _) in FILES.iter().filter(|(name, _)| !name.ends_with(".gz")) {
            let response = ask(Method::GET, name).unwrap_or_else(|| panic!("{name} is not served"));
            let keep = response.headers()[CACHE_CONTROL].to_str().expect("text");
            assert_eq!(keep.contains("immutable"), name.starts_with(ASSETS), "{name}");
        }
    }
}
