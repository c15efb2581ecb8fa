// SPDX-License-Identifier: Apache-2.0
//! The listener on the network: nobody gets anything without a token, and nobody more than theirs
//! allows.

use api::{
    ApiClient, ApiOptions, ApiRequest, ApiServer, Invitation, JoinDoor, JoinError, NetworkDoor,
    NoConfigs, start,
};
use keys::{Authority, ListenerKey};
use operator::{AdmissionStep, Command, CommandFailure, CommandReply, ErrorKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const VIEWER: &str = "gbn_1111111111111111111111111111111111111111111111111111111111111111";
const OPERATOR: &str = "gbn_2222222222222222222222222222222222222222222222222222222222222222";
const SESSION: &str = "gbn_4444444444444444444444444444444444444444444444444444444444444444";
const CODE: &str = "ABCDE-FGH2J-KMN34-PQRST";
const STRANGER: &str = "gbn_3333333333333333333333333333333333333333333333333333333333333333";

fn digest(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A shard that knows two tokens, and says what else it was asked. It deletes nothing while
/// somebody has `held`.
fn shard(listener: UnixListener, asked: Arc<Mutex<Vec<Command>>>, held: Arc<Mutex<()>>) {
    let mut invited = None;
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a question");
        let command: Command = serde_json::from_str(&line).expect("a command");
        let token = |name: &str, role: &str| {
            CommandReply::Ok(json!({"name": name, "role": role, "is_user": false,
                                    "lacks_password": false, "expires": 2}))
        };
        let session = |is_it: bool| {
            let anna = json!({"name": "anna", "role": "operator", "is_user": true,
                              "lacks_password": true, "expires": 2});
            CommandReply::Ok(if is_it { anna } else { Value::Null })
        };
        let reply = match &command {
            Command::Admission(AdmissionStep::TokenCheck { digest: it })
                if *it == digest(VIEWER) =>
            {
                token("v", "viewer")
            }
            Command::Admission(AdmissionStep::TokenCheck { digest: it })
                if *it == digest(OPERATOR) =>
            {
                token("o", "operator")
            }
            Command::Admission(AdmissionStep::TokenCheck { digest: it })
                if *it == digest(SESSION) =>
            {
                session(true)
            }
            Command::Admission(AdmissionStep::SessionPut { code, .. }) => {
                session(code.as_deref() == Some(&digest(&CODE.replace('-', ""))))
            }
            Command::Admission(AdmissionStep::InvitePut { digest, .. }) => {
                invited = Some(digest.clone());
                CommandReply::Ok(json!(2))
            }
            Command::Admission(AdmissionStep::InviteUse { digest }) => {
                CommandReply::Ok(json!(invited.take_if(|it| it == digest).is_some()))
            }
            Command::Admission(AdmissionStep::PasswordGet { .. }) => CommandReply::Ok(Value::Null),
            Command::Admission(AdmissionStep::TokenCheck { .. }) => {
                CommandReply::Error(CommandFailure {
                    kind: ErrorKind::Failed,
                    message: "none".to_owned(),
                })
            }
            Command::Admission(AdmissionStep::TokenPut { name, .. }) => token(name, "viewer"),
            _ => CommandReply::Ok(serde_json::to_value(&command).expect("a command")),
        };
        // What health checks look at by themselves is nobody's question.
        let looks = matches!(command, Command::Status | Command::Metrics | Command::TokenList);
        let is_check = matches!(
            command,
            Command::Admission(AdmissionStep::TokenCheck { .. }) | Command::ClusterShow
        );
        let deletes = matches!(command, Command::VolumeDelete { .. });
        if !looks && !is_check {
            asked.lock().expect("no panic").push(command);
        }
        if deletes {
            drop(held.lock().expect("no panic"));
        }
        let _ = writeln!(stream, "{}", serde_json::to_string(&reply).expect("a reply"));
    }
}

struct Served {
    folder: PathBuf,
    server: ApiServer,
    asked: Arc<Mutex<Vec<Command>>>,
    held: Arc<Mutex<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn serve(name: &str) -> Served {
    let folder = std::env::temp_dir().join(format!("gnet-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let listener = UnixListener::bind(folder.join("host1")).expect("a socket");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let held = Arc::new(Mutex::new(()));
    let (seen, holds) = (Arc::clone(&asked), Arc::clone(&held));
    std::thread::spawn(move || shard(listener, seen, holds));
    let authority = Authority::create(&folder).expect("an authority");
    let names = vec!["127.0.0.1".to_owned(), "host1".to_owned()];
    let key = Arc::new(ListenerKey::new(authority, names).expect("a key"));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = start(ApiOptions {
        socket: folder.join("api.sock"),
        shards: vec![("host1".to_owned(), folder.join("host1"))],
        configs: Arc::new(NoConfigs),
        machine: Arc::new(api::NoLook),
        network: Some(NetworkDoor { address, key }),
        joining: Some(JoinDoor {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            keys: folder.clone(),
            directory: Arc::new(|| vec!["http://10.0.0.1:7078".to_owned()]),
        }),
        audit: Some(folder.join("audit.jsonl")),
    });
    Served { folder, server: server.expect("an API"), asked, held }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn connect(served: &Served, ca: &Path, name: &str) -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(served.server.network().expect("a port")).expect("a port");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    StreamOwned::new(client, stream)
}

fn ask(served: &Served, head: &str, token: Option<&str>, body: &str) -> (u16, Value) {
    let mut stream = connect(served, &served.folder.join(keys::CA_FILE), "127.0.0.1");
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let (token, length) = (token.unwrap_or_default(), body.len());
    let text = format!(
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{token}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("a request");
    let mut text = String::new();
    // Where the server ends without a farewell of TLS, what came before it counts.
    let _ = stream.read_to_string(&mut text);
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Every route, every list, and what is no route.
fn everything() -> Vec<String> {
    let closed = api::ROUTES.iter().filter(|route| !route.is_open);
    let routes = closed.map(|route| format!("{} {}", route.method.name(), route.path));
    let lists = api::LISTS.iter().map(|list| format!("GET {}", list.path));
    let more = ["GET /events", "GET /openapi.json", "GET /nothing", "POST /status"];
    let all = routes.chain(lists).chain(more.map(str::to_owned));
    let under = |text: String| {
        let (method, path) = text.split_once(' ').expect("a method");
        format!("{method} {}{}", api::PREFIX, path.replace(['{', '}'], ""))
    };
    let outside = [
        "POST /",
        "GET /assets/none.js",
        "GET /metrics",
        "GET /api/v1/../../etc/passwd",
        "OPTIONS *",
    ];
    all.map(under).chain(outside.map(str::to_owned)).collect()
}

#[test]
fn without_a_token_there_is_nothing_to_see() {
    let served = serve("nothing");
    let all = everything();
    assert!(all.len() > 60);
    let ask_all = |token: Option<&'static str>| {
        // All at once: each waits a second for its answer.
        let served = &served;
        std::thread::scope(|scope| {
            let one = |head: &String| (head.clone(), ask(served, head, token, ""));
            let asked = all.iter().map(|head| scope.spawn(move || one(head)));
            for one in asked.collect::<Vec<_>>() {
                let (head, (status, body)) = one.join().expect("no panic");
                assert_eq!((status, &body["type"]), (401, &json!("/problems/no-token")), "{head}");
            }
        });
    };
    let begun = Instant::now();
    ask_all(None);
    assert!(begun.elapsed() >= Duration::from_secs(1), "a wrong token waits");
    ask_all(Some(STRANGER));
    assert!(served.asked.lock().expect("no panic").is_empty(), "no shard was asked for anything");
}

/// They are the same for everybody, and say nothing of the cluster.
#[test]
fn the_files_of_the_page_need_no_token() {
    let served = serve("page");
    let mut stream = connect(&served, &served.folder.join(keys::CA_FILE), "127.0.0.1");
    let head = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("a request");
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    // 404 says how to build it, where this program was built without it.
    assert!(["HTTP/1.1 200", "HTTP/1.1 404"].iter().any(|ok| said.starts_with(ok)), "{said}");
    assert!(said.contains("default-src 'self'"), "{said}");
    assert!(served.asked.lock().expect("no panic").is_empty(), "no shard was asked");
}

#[test]
fn a_token_opens_what_its_role_may_and_no_more() {
    let served = serve("roles");
    let show = "GET /api/v1/volumes/db";
    let (status, said) = ask(&served, show, Some(VIEWER), "");
    assert_eq!((status, &said["name"]), (200, &json!("db")));
    let grow = ("PUT /api/v1/volumes/db/size", "{\"size_bytes\":8192}");
    let (status, said) = ask(&served, grow.0, Some(VIEWER), grow.1);
    assert_eq!((status, &said["type"]), (403, &json!("/problems/forbidden")));
    assert_eq!(said["detail"], "v has the role viewer, and this needs the role operator");
    let (status, _) = ask(&served, grow.0, Some(OPERATOR), grow.1);
    assert_eq!(status, 200);
    for (head, body) in [
        ("GET /api/v1/tokens", ""),
        ("POST /api/v1/tokens", "{\"name\":\"x\",\"role\":\"administrator\",\"seconds\":60}"),
        ("DELETE /api/v1/hosts/host1", ""),
    ] {
        let (status, _) = ask(&served, head, Some(OPERATOR), body);
        assert_eq!(status, 403, "{head}");
    }
    let asked = served.asked.lock().expect("no panic").len();
    assert_eq!(asked, 2, "what was refused came to no shard");
}

#[test]
fn the_text_of_a_new_token_is_told_once_and_no_shard_hears_it() {
    let served = serve("token");
    let client = api::ApiClient::at(&served.folder.join("api.sock"));
    let create: Command = serde_json::from_value(
        json!({"command": "token-create", "name": "ci", "role": "viewer", "seconds": 60}),
    )
    .expect("a command");
    let request = api::ApiRequest::of(&create, None).expect("a request");
    let said: Value = client.call(&request).expect("a token");
    let token = said["token"].as_str().expect("its text").to_owned();
    assert!(token.starts_with("gbn_") && said["name"] == "ci", "{said}");
    let asked = served.asked.lock().expect("no panic").clone();
    let [Command::Admission(AdmissionStep::TokenPut { digest: told, .. })] = asked.as_slice()
    else {
        panic!("{asked:?}")
    };
    assert_eq!(*told, digest(&token));
}

/// A listener of another cluster, or of another name, is not believed.
#[test]
fn a_listener_proves_that_it_is_of_the_cluster() {
    let served = serve("proof");
    let own = served.folder.join(keys::CA_FILE);
    let agreed = |ca: &Path, name: &str| {
        let mut stream = connect(&served, ca, name);
        stream.write_all(b"GET / HTTP/1.1\r\n").and_then(|()| stream.flush()).is_ok()
    };
    assert!(agreed(&own, "127.0.0.1") && agreed(&own, "host1"));
    assert!(!agreed(&own, "host2"), "another name");
    let other = served.folder.join("other");
    std::fs::create_dir_all(&other).expect("a folder");
    Authority::create(&other).expect("an authority");
    assert!(!agreed(&other.join(keys::CA_FILE), "127.0.0.1"), "another cluster's");
}

#[test]
fn what_does_not_speak_tls_gets_no_answer() {
    let served = serve("plain");
    let address = served.server.network().expect("a port");
    let mut stream = TcpStream::connect(address).expect("a port");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|part| part == b"HTTP"), "{answer:?}");
}

/// Who changed what is noted, also where it was refused, and where the caller did not wait.
#[test]
fn what_would_change_something_is_noted_with_its_caller() {
    let served = serve("noted");
    let grow = ("PUT /api/v1/volumes/db/size", "{\"size_bytes\":8192}");
    assert_eq!(ask(&served, grow.0, Some(OPERATOR), grow.1).0, 200);
    assert_eq!(ask(&served, grow.0, Some(VIEWER), grow.1).0, 403);
    assert_eq!(ask(&served, grow.0, Some(OPERATOR), "{}").0, 400);
    assert_eq!(ask(&served, grow.0, Some(STRANGER), grow.1).0, 401, "nobody knows who");
    assert_eq!(ask(&served, "GET /api/v1/volumes/db", Some(OPERATOR), "").0, 200, "a look");
    assert_eq!(ask(&served, "GET /api/v1/audit", Some(OPERATOR), "").0, 403);
    let mut local = UnixStream::connect(served.folder.join("api.sock")).expect("the API");
    let head = b"DELETE /api/v1/volumes/db HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    let held = served.held.lock().expect("no panic");
    let begun = Instant::now();
    local.write_all(head).expect("sent");
    // A caller that leaves before its request was read has asked for nothing.
    let deletes = |asked: &Command| matches!(asked, Command::VolumeDelete { .. });
    while !served.asked.lock().expect("no panic").iter().any(deletes) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it was not asked");
        std::thread::yield_now();
    }
    drop(local);
    let client = api::ApiClient::at(&served.folder.join("api.sock"));
    let _: Value = client.get("/openapi.json").expect("the API goes on");
    drop(held);
    let begun = Instant::now();
    let entries = loop {
        let entries: Vec<api::AuditEntry> = client.get("/audit?limit=10").expect("entries");
        if entries.len() == 4 {
            break entries;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{entries:?}");
        std::thread::yield_now();
    };
    let said = |at: usize| (entries[at].number, entries[at].caller.as_str(), entries[at].status);
    assert_eq!([said(0), said(1), said(2)], [(1, "o", 200), (2, "v", 403), (3, "o", 400)]);
    let grown = json!({"command": "volume-grow", "name": "db", "size_bytes": 8192});
    assert_eq!(entries[0].command, Some(grown));
    assert_eq!(entries[1].request, grow.0);
    assert!(entries[1].from.starts_with("127.0.0.1:"), "{}", entries[1].from);
    let last = &entries[3];
    assert!(last.caller.starts_with("uid ") && last.from == "unix", "{last:?}");
    let before: Vec<api::AuditEntry> = client.get("/audit?limit=1&before=3").expect("entries");
    assert_eq!(before, entries[1..2]);
}

const SIGN_IN: &str = "POST /api/v1/sessions";

#[test]
fn a_code_signs_in_and_nothing_else_is_open() {
    let served = serve("session");
    let code = json!({ "code": CODE.to_lowercase() }).to_string();
    let (status, made) = ask(&served, SIGN_IN, None, &code);
    assert_eq!((status, &made["name"]), (200, &json!("anna")), "{made}");
    assert!(made["token"].as_str().is_some_and(|token| token.starts_with("gbn_")), "{made}");

    let begun = Instant::now();
    for wrong in [
        json!({ "code": "AAAAA-AAAAA-AAAAA-AAAAA" }),
        json!({ "code": "x" }),
        json!({ "user": "anna", "password": "correct horse battery" }),
    ] {
        let (status, problem) = ask(&served, SIGN_IN, None, &wrong.to_string());
        assert_eq!((status, &problem["type"]), (401, &json!("/problems/not-signed-in")));
    }
    assert!(begun.elapsed() >= Duration::from_secs(3), "a second each");

    for (head, body) in [
        ("GET /api/v1/sessions", ""),
        ("DELETE /api/v1/sessions", ""),
        ("POST /api/v1/sessions/", "{}"),
        ("POST /api/v1//sessions", "{}"),
        ("POST /api/v1/./sessions", "{}"),
        ("PUT /api/v1/sessions", "{}"),
        ("POST /api/v1/sessions/../volumes", "{}"),
        ("GET /api/v1/users", ""),
        ("POST /api/v1/users", "{}"),
    ] {
        assert_eq!(ask(&served, head, None, body).0, 401, "{head}");
    }
}

#[test]
fn who_has_signed_in_changes_its_own_password_and_signs_out() {
    let served = serve("own");
    let (status, me) = ask(&served, "GET /api/v1/sessions", Some(SESSION), "");
    assert_eq!((status, &me["is_user"], &me["role"]), (200, &json!(true), &json!("operator")));
    let password = json!({ "password": "correct horse battery" }).to_string();
    let change = |whose: &str| {
        ask(&served, &format!("PUT /api/v1/users/{whose}/password"), Some(SESSION), &password)
    };
    assert_eq!(change("anna").0, 200);
    assert_eq!(change("bert").0, 403);
    assert_eq!(ask(&served, "DELETE /api/v1/sessions", Some(SESSION), "").0, 200);
    assert_eq!(ask(&served, "DELETE /api/v1/sessions", Some(VIEWER), "").0, 400, "a token");
    let asked = served.asked.lock().expect("no panic").clone();
    let session = digest(SESSION);
    let [
        Command::Admission(AdmissionStep::PasswordPut { name, session: spared, .. }),
        Command::Admission(AdmissionStep::SessionEnd { digest }),
    ] = asked.as_slice()
    else {
        panic!("{asked:?}")
    };
    assert_eq!((name.as_str(), spared.as_ref(), digest), ("anna", Some(&session), &session));
    let audit = std::fs::read_to_string(served.folder.join("audit.jsonl")).expect("an audit");
    assert!(audit.contains("\"user anna\"") && !audit.contains("correct horse"), "{audit}");
}

#[test]
fn an_invitation_brings_what_a_host_needs_once() {
    let served = serve("invitation");
    let client = ApiClient::at(&served.folder.join("api.sock"));
    let command = Command::HostInvite { seconds: 60 };
    let request = ApiRequest::of(&command, None).expect("a request");
    let made: Value = client.call(&request).expect("an invitation");
    let text = made["invitation"].as_str().expect("its text");
    let invitation: Invitation = text.parse().expect("an invitation");
    let asked = format!("{:?}", served.asked.lock().expect("no panic"));
    assert!(!asked.contains(&text[4..68]), "the shard hears a digest alone: {asked}");

    let at = |name: &str| {
        let folder = served.folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    };
    // Of another CA: the secret is not told.
    let (secret, rest) = text.split_at(69);
    let other = format!("{secret}{}{}", "0".repeat(64), &rest[64..]);
    let stranger: Invitation = other.parse().expect("an invitation");
    let refused = stranger.accept(&at("stranger")).expect_err("another CA");
    assert!(matches!(refused, JoinError::Away(..)), "{refused}");

    // Into a folder of another cluster's CA: that one stays.
    let taken = at("taken");
    Authority::create(&taken).expect("an authority");
    let refused = invitation.accept(&taken).expect_err("another cluster's");
    assert!(refused.to_string().contains("CA of another cluster"), "{refused}");

    let joined = at("joined");
    let directory = invitation.accept(&joined).expect("it is let in");
    assert_eq!(directory, ["http://10.0.0.1:7078"]);
    for file in [keys::CA_FILE, "ca-key.pem"] {
        let read = |folder: &Path| std::fs::read(folder.join(file)).expect("a file");
        assert_eq!(read(&joined), read(&served.folder), "{file}");
        assert_ne!(read(&taken), read(&served.folder), "{file}");
    }
    let again = invitation.accept(&at("again")).expect_err("it is good once");
    assert!(again.to_string().contains("gabion host invite"), "{again}");
    assert!(!served.folder.join("again/ca-key.pem").exists());
    let audit = std::fs::read_to_string(served.folder.join("audit.jsonl")).expect("an audit");
    assert!(audit.contains("an invitation") && !audit.contains(&text[4..68]), "{audit}");
}
