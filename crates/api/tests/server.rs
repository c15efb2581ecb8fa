// SPDX-License-Identifier: Apache-2.0
//! The listener, asked as `curl` would ask it, in front of shards that say what the test wants.

use api::{
    ApiOptions, ApiServer, BODY_MAX, LISTENERS_MAX, NoConfigs, REQUESTS_MAX, metrics, start,
};
use operator::{Command, CommandFailure, CommandReply, ErrorKind, LATENCY_BOUNDS_US};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A folder of this test's own, which ends with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gapi{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a shard of the test says to a command; nothing: it is silent for good.
type Say = fn(&Command) -> Option<CommandReply>;

/// A shard that answers; what it was asked comes out of the channel, but for looks whether it is
/// alive.
fn shard(socket: &Path, say: Say) -> Receiver<Command> {
    let listener = UnixListener::bind(socket).expect("a socket");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sender) = (stream.expect("a connection"), sender.clone());
            std::thread::spawn(move || {
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).expect("a question");
                let command: Command = serde_json::from_str(&line).expect("a command");
                if command != Command::ClusterShow {
                    // The test may be over.
                    let _ = sender.send(command.clone());
                }
                match say(&command) {
                    Some(reply) => {
                        let text = serde_json::to_string(&reply).expect("a reply");
                        let _ = writeln!(stream, "{text}");
                    }
                    None => drop(stream.read(&mut [0])), // until the other side ends
                }
            });
        }
    });
    receiver
}

fn yes(command: &Command) -> Option<CommandReply> {
    Some(CommandReply::Ok(serde_json::to_value(command).expect("a command")))
}

fn no(command: &Command) -> Option<CommandReply> {
    let kind = match command {
        Command::VolumeShow { name } if name == "bad" => ErrorKind::Usage,
        _ => ErrorKind::Failed,
    };
    Some(CommandReply::Error(CommandFailure { kind, message: "no: do this".to_owned() }))
}

/// Silent, but for looks whether it is alive.
fn stuck(command: &Command) -> Option<CommandReply> {
    if *command == Command::ClusterShow { yes(command) } else { None }
}

struct Said {
    status: u16,
    head: String,
    body: Value,
}

fn send(socket: &Path, head: &str, body: &str, more: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("the API");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{more}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("a request");
    stream
}

fn heard(mut stream: UnixStream) -> Said {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = serde_json::from_str(body).unwrap_or_default();
    Said { status, head: head.to_ascii_lowercase(), body }
}

fn ask(socket: &Path, head: &str, body: &str) -> Said {
    heard(send(socket, head, body, ""))
}

fn serve(folder: &Folder, names: &[&str]) -> (ApiServer, PathBuf) {
    let socket = folder.path("api.sock");
    let shards = names.iter().map(|name| ((*name).to_owned(), folder.path(name))).collect();
    let server = {
        let (socket, configs) = (socket.clone(), Arc::new(NoConfigs));
        start(ApiOptions {
            socket,
            shards,
            configs,
            machine: Arc::new(api::NoLook),
            network: None,
            joining: None,
            audit: None,
        })
        .expect("an API")
    };
    (server, socket)
}

/// Health is told also where no shard says anything that can be understood, and what is silenced
/// says so.
#[test]
fn health_is_told_whoever_answers() {
    let folder = Folder::new();
    let (_server, socket) = serve(&folder, &["host1"]);
    let said = ask(&socket, "GET /api/v1/health", "");
    assert_eq!((said.status, &said.body["state"]), (200, &json!("yellow")), "nobody can tell");
    let checks = said.body["checks"].as_array().expect("checks");
    assert!(checks.len() > 30, "{}", checks.len());
    for check in checks {
        assert_eq!((&check["state"], &check["silenced_until"]), (&json!("unknown"), &Value::Null));
        for field in ["id", "group", "title", "summary", "since", "means"] {
            assert!(check[field].is_string(), "{field}: {check}");
        }
        assert!(check["evidence"].is_array() && check["mend"].is_array(), "{check}");
    }
    let silence = "PUT /api/v1/health/hosts.answering/silence";
    let said = ask(&socket, silence, "{\"for_seconds\":60,\"reason\":\"known\"}");
    assert_eq!((said.status, &said.body["state"]), (200, &json!("silenced")));
    assert_eq!(said.body["actual"], "unknown");
    let said = ask(&socket, "DELETE /api/v1/health/hosts.answering/silence", "");
    assert_eq!((said.status, &said.body["state"]), (200, &json!("unknown")));
    let said = ask(&socket, "PUT /api/v1/health/nothing/silence", "{\"for_seconds\":60}");
    assert_eq!((said.status, &said.body["type"]), (404, &json!("/problems/no-such-check")));
    let said = ask(&socket, "GET /api/v1/health/history", "");
    assert_eq!(said.body, json!({ "items": [], "total": 0, "next": null }));
}

#[test]
fn a_request_is_carried_out_by_a_shard_that_answers() {
    let folder = Folder::new();
    let asked = shard(&folder.path("host2"), yes);
    // Nobody listens for the first one.
    let (server, socket) = serve(&folder, &["host1", "host2"]);
    let said = ask(&socket, "PUT /api/v1/volumes/a%20b/size", "{\"size_bytes\":8192}");
    assert_eq!(said.status, 200, "{}", said.body);
    let grown = json!({ "command": "volume-grow", "name": "a b", "size_bytes": 8192 });
    assert_eq!(said.body, grown);
    let command = Command::VolumeGrow { name: "a b".to_owned(), size_bytes: 8192 };
    assert_eq!(asked.recv().expect("asked"), command);

    let said = ask(&socket, "DELETE /api/v1/volumes/a?for_good=true", "");
    assert_eq!(said.body["for_good"], true);
    let said = ask(&socket, "GET /api/v1/shards/host2/groups/%2Fdev%2Fsdb", "");
    assert_eq!((said.status, &said.body["group"]), (200, &json!("/dev/sdb")));

    let mode = std::fs::metadata(&socket).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is for its user alone");
    drop(server);
    assert!(!socket.exists() && UnixStream::connect(&socket).is_err());
}

/// A problem has its media type, its kind, and what is to be done.
fn is_problem(said: &Said, status: u16, kind: &str) {
    assert_eq!((said.status, &said.body["status"]), (status, &json!(status)), "{}", said.body);
    assert!(said.head.contains("application/problem+json"), "{}", said.head);
    assert_eq!(said.body["type"], format!("/problems/{kind}"));
    assert!(said.body["detail"].as_str().is_some_and(|detail| detail.len() > 10));
}

#[test]
fn what_is_not_carried_out_is_a_problem_with_a_name() {
    let folder = Folder::new();
    let _asked = shard(&folder.path("host1"), no);
    let (_server, socket) = serve(&folder, &["host1", "gone"]);
    let ask = |head: &str, body: &str| ask(&socket, head, body);
    is_problem(&ask("GET /api/v1/volumes/bad", ""), 400, "usage");
    let failed = ask("GET /api/v1/volumes/a", "");
    is_problem(&failed, 409, "failed");
    assert_eq!(failed.body["detail"], "no: do this");
    is_problem(&ask("PUT /api/v1/volumes/a/size", "{}"), 400, "usage");
    is_problem(&ask("PUT /api/v1/volumes/a%FF/size", "{}"), 400, "usage");
    is_problem(&ask("GET /api/v1/volumes/a/b", ""), 404, "no-such-path");
    is_problem(&ask("GET /api/v1/shards/host9/scrub", ""), 404, "no-such-shard");
    is_problem(&ask("POST /api/v1/status", ""), 405, "no-such-method");
    let large = format!("{{\"size_bytes\":{}}}", "1".repeat(BODY_MAX));
    is_problem(&ask("PUT /api/v1/volumes/a/size", &large), 413, "too-large");
    let gone = ask("GET /api/v1/shards/gone/scrub", "");
    is_problem(&gone, 503, "no-host");
    assert!(gone.head.contains("retry-after"), "{}", gone.head);
}

#[test]
fn a_body_that_does_not_say_that_it_is_json_is_refused() {
    let folder = Folder::new();
    let (_server, socket) = serve(&folder, &["host1"]);
    let mut stream = UnixStream::connect(&socket).expect("the API");
    let form = "POST /api/v1/repairs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(form.as_bytes()).expect("a request");
    is_problem(&heard(stream), 415, "not-json");
}

#[test]
fn without_a_shard_that_answers_that_is_said() {
    let folder = Folder::new();
    let (_server, socket) = serve(&folder, &["host1", "host2"]);
    is_problem(&ask(&socket, "GET /api/v1/policies", ""), 503, "no-host");
    is_problem(&ask(&socket, "GET /api/v1/status", ""), 503, "no-host");
    let document = ask(&socket, "GET /api/v1/openapi.json", "");
    assert_eq!((document.status, &document.body["openapi"]), (200, &json!("3.1.0")));
}

/// Sends a request with a key.
fn keyed(socket: &Path, key: &str, head: &str, body: &str) -> UnixStream {
    send(socket, head, body, &format!("Idempotency-Key: {key}\r\n"))
}

#[test]
fn a_request_with_a_key_is_carried_out_once() {
    let folder = Folder::new();
    let asked = shard(&folder.path("host1"), no);
    let (_server, socket) = serve(&folder, &["host1"]);
    let grow = |key: &str, size: u64| {
        let body = format!("{{\"size_bytes\":{size}}}");
        heard(keyed(&socket, key, "PUT /api/v1/volumes/a/size", &body))
    };
    is_problem(&grow("k", 1), 409, "failed");
    is_problem(&grow("k", 1), 409, "failed");
    is_problem(&grow("k", 2), 422, "other-request");
    is_problem(&grow("l", 1), 409, "failed");
    is_problem(&grow(&"k".repeat(129), 1), 400, "usage");
    assert_eq!(asked.try_iter().count(), 2, "once for each key");
    // Nothing is kept of what only looks.
    for _ in 0..2 {
        is_problem(&heard(keyed(&socket, "m", "GET /api/v1/volumes/bad", "")), 400, "usage");
    }
    assert_eq!(asked.try_iter().count(), 2);
}

/// Also where the first caller goes away before there is an answer.
#[test]
fn a_request_that_comes_meanwhile_gets_the_same_answer() {
    let folder = Folder::new();
    static MAY_ANSWER: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    let say: Say = |command| {
        let (may, changed) = &MAY_ANSWER;
        if *command != Command::ClusterShow {
            let may = may.lock().expect("nobody panicked");
            drop(changed.wait_while(may, |may| !*may).expect("nobody panicked"));
        }
        yes(command)
    };
    let asked = shard(&folder.path("host1"), say);
    let (_server, socket) = serve(&folder, &["host1"]);
    let begin = || keyed(&socket, "k", "POST /api/v1/repairs", "");
    let first = begin();
    asked.recv().expect("it is under way");
    drop(first);
    let (second, third) = (begin(), begin());
    *MAY_ANSWER.0.lock().expect("nobody panicked") = true;
    MAY_ANSWER.1.notify_all();
    let (second, third) = (heard(second), heard(third));
    assert_eq!((second.status, third.status), (200, 200), "{}", second.body);
    assert_eq!(asked.try_iter().count(), 0, "nobody was asked again");
}

/// What may be otherwise in a moment is not kept.
#[test]
fn a_key_may_be_used_again_where_no_host_answered() {
    let folder = Folder::new();
    let (_server, socket) = serve(&folder, &["host1"]);
    let repair = || heard(keyed(&socket, "k", "POST /api/v1/repairs", ""));
    is_problem(&repair(), 503, "no-host");
    let _asked = shard(&folder.path("host1"), yes);
    assert_eq!(repair().status, 200);
}

/// Begins to listen; reads the head.
fn listen(socket: &Path, more: &str) -> BufReader<UnixStream> {
    let mut reader = BufReader::new(send(socket, "GET /api/v1/events", "", more));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("a head");
    }
    reader
}

/// The next event: its name, its id, its data.
fn event(reader: &mut BufReader<UnixStream>) -> (String, String, Value) {
    let mut fields = BTreeMap::new();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).expect("an event") > 0, "the stream ended");
        let line = line.trim_end();
        if let Some((name, value)) = line.split_once(": ") {
            fields.insert(name.to_owned(), value.to_owned());
        }
        // An empty line may also end a chunk of HTTP.
        if line.is_empty()
            && let Some(name) = fields.remove("event")
        {
            let data = serde_json::from_str(&fields["data"]).expect("data");
            return (name, fields["id"].clone(), data);
        }
    }
}

#[test]
fn listeners_are_told_what_changes_and_go_on_where_they_were() {
    static SIZE: AtomicU32 = AtomicU32::new(1);
    let folder = Folder::new();
    let say: Say = |_| {
        let status = json!({
            "host": "host1", "health": "green", "directory": true, "alarms": [], "groups": [],
            "hosts": [{ "name": "host1", "state": "up", "peer": "" }],
            "volumes": [{
                "name": "a", "size_bytes": SIZE.load(Ordering::Relaxed), "ftt": 0, "term": 1,
                "health": "green", "owner": null, "clients": 0, "nbd": [], "components": [],
            }],
        });
        Some(CommandReply::Ok(status))
    };
    let _asked = shard(&folder.path("host1"), say);
    let (_server, socket) = serve(&folder, &["host1"]);
    let mut first = listen(&socket, "");
    let (name, begin, _) = event(&mut first);
    assert_eq!(name, "ready");
    SIZE.store(2, Ordering::Relaxed);
    let (name, id, data) = event(&mut first);
    assert_eq!(
        (name.as_str(), &data["list"], &data["key"]),
        ("change", &json!("/volumes"), &json!("a"))
    );
    assert_eq!(data["item"]["size_bytes"], 2);
    drop(first);
    // What happened meanwhile is told to one that comes back.
    SIZE.store(3, Ordering::Relaxed);
    let mut back = listen(&socket, &format!("Last-Event-ID: {id}\r\n"));
    assert_eq!(event(&mut back).0, "ready");
    assert_eq!(event(&mut back).2["item"]["size_bytes"], 3);
    let mut behind = listen(&socket, &format!("Last-Event-ID: {begin}\r\n"));
    assert_eq!(event(&mut behind).0, "ready");
    assert_eq!(
        (event(&mut behind).1, event(&mut behind).2["item"]["size_bytes"].clone()),
        (id, json!(3))
    );
    let mut lost = listen(&socket, "Last-Event-ID: 1-1\r\n");
    assert_eq!(event(&mut lost).0, "reset");
}

#[test]
fn there_are_no_more_listeners_than_there_may_be() {
    let folder = Folder::new();
    let (_server, socket) = serve(&folder, &["host1"]);
    let listeners: Vec<_> = (0..LISTENERS_MAX).map(|_| listen(&socket, "")).collect();
    is_problem(&ask(&socket, "GET /api/v1/events", ""), 503, "busy");
    drop(listeners);
}

/// Requests beyond the most are refused at once, and do not wait behind those that are stuck.
#[test]
fn more_requests_than_there_may_be_are_refused() {
    let folder = Folder::new();
    let asked = shard(&folder.path("host1"), stuck);
    let (server, socket) = serve(&folder, &["host1"]);
    let waiting: Vec<UnixStream> = (0..REQUESTS_MAX)
        .map(|_| {
            let stream = send(&socket, "GET /api/v1/shards/host1/scrub", "", "");
            asked.recv().expect("it came through");
            stream
        })
        .collect();
    is_problem(&ask(&socket, "GET /api/v1/policies", ""), 503, "busy");
    // The end does not wait for them.
    drop(server);
    drop(waiting);
}

/// What a shard says of itself that has a volume, a disk group, and nothing else.
fn measured(command: &Command) -> Option<CommandReply> {
    if *command != Command::Metrics {
        return stuck(command);
    }
    let mut latencies = vec![0; LATENCY_BOUNDS_US.len() + 1];
    (latencies[1], latencies[17]) = (3, 1);
    let write = json!({
        "operation": "write", "failed": 1, "bytes": 12288, "took_us": 7_500_000,
        "latencies": latencies,
    });
    let device = json!({
        "path": "/dev/a\"b\\c", "role": "cache", "kind": "ssd", "model": null, "size_bytes": 1,
        "used_bytes": 0, "state": "ok", "space": null,
    });
    Some(CommandReply::Ok(json!({
        "status": {
            "host": "host2", "health": "yellow", "directory": true, "alarms": ["a", "b"],
            "hosts": [{ "name": "host2", "host": "rack-7", "state": "up", "peer": "" }],
            "volumes": [], "groups": [{
                "host": "host2", "id": "g", "is_open": true, "buffer_fill": 0.25, "used_bytes": 7,
                "capacity_bytes": 9, "state": "ok", "recovery_ms": 1500.0, "devices": [device],
            }],
        },
        "volumes": { "green": 1, "yellow": 2, "red": 0, "deleted": 4 },
        "owned": [], "left_out": 0, "all_traffic": [write], "stages": [], "scrubs": [],
        "traffic": [{
            "volume": "db", "clients": 2, "limited_requests": 0, "limited_ms": 0,
            "operations": [write],
        }],
        "resync": { "copying": 0, "waiting": 0, "bytes_left": 0, "copied_bytes": 0 },
        "links": {
            "made": 2, "silent": 0, "refused": 0, "messages_sent": 5, "messages_received": 6,
            "bytes_received": 77, "waiting_bytes": 0,
        },
    })))
}

/// An answer that is no JSON: its head, and its lines.
fn lines(mut stream: UnixStream) -> (String, Vec<String>) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.to_ascii_lowercase(), body.lines().map(str::to_owned).collect())
}

#[test]
fn a_scrape_says_what_the_shards_counted() {
    let folder = Folder::new();
    shard(&folder.path("host2"), measured);
    // Nobody listens for the first one.
    let (_server, socket) = serve(&folder, &["host1", "host2"]);
    let (head, said) = lines(send(&socket, "GET /metrics", "", ""));
    assert!(head.contains("200 ok") && head.contains("application/openmetrics-text"), "{head}");
    assert_eq!(said.last().map(String::as_str), Some("# EOF"));
    for line in [
        "# TYPE gabion_volume_request_bytes counter",
        "gabion_shard_up{shard=\"host1\"} 0",
        "gabion_shard_up{shard=\"host2\"} 1",
        "gabion_shard_info{shard=\"host2\",host=\"rack-7\"} 1",
        "gabion_cluster_health{shard=\"host2\"} 1",
        "gabion_cluster_alarms{shard=\"host2\"} 2",
        "gabion_cluster_volumes{shard=\"host2\",health=\"yellow\"} 2",
        "gabion_cluster_shards{shard=\"host2\",state=\"up\"} 1",
        "gabion_cluster_rebuild_possible{shard=\"host2\"} 1",
        "gabion_directory_backup_usable{shard=\"host2\"} 1",
        "gabion_volume_clients{shard=\"host2\",volume=\"db\"} 2",
        "gabion_request_failures_total{shard=\"host2\",operation=\"write\"} 1",
        "gabion_volume_request_bytes_total{shard=\"host2\",volume=\"db\",operation=\"write\"} \
         12288",
        "gabion_request_duration_seconds_sum{shard=\"host2\",operation=\"write\"} 7.5",
        "gabion_request_duration_seconds_count{shard=\"host2\",operation=\"write\"} 4",
        "gabion_request_duration_seconds_bucket{le=\"0.000128\",shard=\"host2\",\
         operation=\"write\"} 3",
        "gabion_request_duration_seconds_bucket{le=\"4.194304\",shard=\"host2\",\
         operation=\"write\"} 3",
        "gabion_request_duration_seconds_bucket{le=\"+Inf\",shard=\"host2\",\
         operation=\"write\"} 4",
        "gabion_group_write_buffer_fill_ratio{shard=\"host2\",group=\"g\"} 0.25",
        "gabion_group_recovery_seconds{shard=\"host2\",group=\"g\"} 1.5",
        "gabion_device_size_bytes{shard=\"host2\",group=\"g\",device=\"/dev/a\\\"b\\\\c\",\
         role=\"cache\"} 1",
        "gabion_link_received_bytes_total{shard=\"host2\"} 77",
    ] {
        assert!(said.iter().any(|one| one == line), "no {line} in {said:#?}");
    }
    let is_said = |name: &str| said.iter().any(|line| line.starts_with(name));
    assert!(!is_said("gabion_read_cache_bytes{"), "what is not known has no series");
    for metric in metrics() {
        let named = metric.name.trim_end_matches("_total");
        assert!(is_said(&format!("# HELP {named} {}", metric.help)), "{named}");
    }

    let accept = "Accept: text/plain;version=0.0.4\r\n";
    let (head, said) = lines(send(&socket, "GET /metrics", "", accept));
    assert!(head.contains("content-type: text/plain"), "{head}");
    assert!(said.contains(&"# TYPE gabion_request_bytes_total counter".to_owned()));
}

/// Requests that are stuck do not hold up a scrape. A shard that is stuck costs the time that it is
/// waited for, and whoever comes meanwhile is refused before that is over.
#[test]
fn scrapes_take_turns_and_end() {
    let folder = Folder::new();
    let asked = shard(&folder.path("host1"), stuck);
    shard(&folder.path("host2"), measured);
    let (_server, socket) = serve(&folder, &["host1", "host2"]);
    let requests: Vec<UnixStream> = (0..REQUESTS_MAX)
        .map(|_| {
            let stream = send(&socket, "GET /api/v1/shards/host1/scrub", "", "");
            asked.recv().expect("it came through");
            stream
        })
        .collect();
    let first = send(&socket, "GET /metrics", "", "");
    assert_eq!(asked.recv().expect("it came through"), Command::Metrics);
    is_problem(&ask(&socket, "GET /metrics", ""), 503, "busy");
    let (head, said) = lines(first);
    assert!(head.contains("200 ok"), "{head}");
    for line in ["gabion_shard_up{shard=\"host1\"} 0", "gabion_shard_up{shard=\"host2\"} 1"] {
        assert!(said.iter().any(|one| one == line), "no {line} in {said:#?}");
    }
    drop(requests);
}
