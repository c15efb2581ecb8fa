// SPDX-License-Identifier: Apache-2.0
//! How long lists and metrics take in front of a large cluster: 64 hosts of 5 shards, 12,800
//! volumes, each with two copies. The shards of one host are asked; they are threads that say what
//! such a shard says.
//!
//! `cargo run --release -p api --example large`

use operator::{Command, CommandReply, LATENCY_BOUNDS_US};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOSTS: usize = 64;
const SHARDS: usize = 5;
const VOLUMES: usize = 12_800;
/// The volumes that a shard has series for.
const TOLD: usize = 500;
const TIMES: usize = 20;

fn name(number: usize) -> String {
    format!("host{}.{}", number / SHARDS % HOSTS + 1, number % SHARDS + 1)
}

fn volume(number: usize) -> Value {
    let copy = |place: usize| {
        json!({
            "id": format!("{:016x}", number * 3 + place), "host": name(number * 7 + place * SHARDS),
            "group": format!("{:016x}", number + place), "state": "active", "is_served": true,
            "resync_bytes_left": 0,
        })
    };
    json!({
        "name": format!("volume{number:05}"), "size_bytes": 1_u64 << 40, "ftt": 1,
        "health": "green", "owner": name(number), "term": 3, "clients": 1, "labels": {},
        "nbd": [format!("nbd+unix:///volume{number:05}?socket=/run/gabion/nbd.sock")],
        "components": [copy(0), copy(1)],
    })
}

fn answer(shard: usize) -> String {
    let hosts: Vec<Value> = (0..HOSTS * SHARDS)
        .map(|number| {
            let host = format!("host{}", number / SHARDS + 1);
            json!({ "name": name(number), "host": host, "state": "up", "peer": "10.0.0.1:7430" })
        })
        .collect();
    let status = json!({
        "host": name(shard), "health": "green", "directory": true, "alarms": [], "groups": [],
        "hosts": hosts, "volumes": (0..VOLUMES).map(volume).collect::<Vec<_>>(),
    });
    serde_json::to_string(&CommandReply::Ok(status)).expect("JSON")
}

/// As many volumes as a shard tells of, each read and written.
fn metrics(shard: usize) -> String {
    let counted = |operation: &str| {
        let latencies: Vec<u64> = (0..=u64::try_from(LATENCY_BOUNDS_US.len()).expect("a few"))
            .map(|at| at * 77_777)
            .collect();
        json!({
            "operation": operation, "failed": 0, "bytes": 1_u64 << 44, "took_us": 1_u64 << 36,
            "latencies": latencies,
        })
    };
    let volume = |number: usize| {
        json!({
            "volume": format!("volume{number:05}"), "clients": 1, "limited_requests": 0,
            "limited_ms": 0, "operations": [counted("read"), counted("write")],
        })
    };
    let owned = |number: usize| {
        json!({
            "volume": format!("volume{number:05}"), "health": "green", "size_bytes": 1_u64 << 40,
            "resync_bytes_left": 0,
        })
    };
    let mut status: Value = serde_json::from_str(&answer(shard)).expect("JSON");
    let mut status = status["ok"].take();
    status["volumes"] = json!([]);
    let said = json!({
        "status": status, "volumes": { "green": VOLUMES, "yellow": 0, "red": 0, "deleted": 0 },
        "owned": (0..TOLD).map(owned).collect::<Vec<_>>(),
        "traffic": (0..TOLD).map(volume).collect::<Vec<_>>(),
        "all_traffic": [counted("read"), counted("write")], "left_out": 0, "stages": [],
        "scrubs": [], "resync": { "copying": 0, "waiting": 0, "bytes_left": 0, "copied_bytes": 0 },
        "links": {
            "made": 638, "silent": 0, "refused": 0, "messages_sent": 1, "messages_received": 1,
            "bytes_received": 1, "waiting_bytes": 0,
        },
    });
    serde_json::to_string(&CommandReply::Ok(said)).expect("JSON")
}

fn serve(socket: &Path, status: String, metrics: String) {
    let listener = UnixListener::bind(socket).expect("a socket");
    let (status, metrics) = (Arc::new(status), Arc::new(metrics));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (status, metrics) = (Arc::clone(&status), Arc::clone(&metrics));
            std::thread::spawn(move || {
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).expect("a question");
                let asked: Command = serde_json::from_str(&line).expect("a command");
                let text = if asked == Command::Metrics { metrics } else { status };
                // Who asked may be gone.
                let _ = writeln!(stream, "{text}");
            });
        }
    });
}

fn ask(socket: &Path, path: &str) -> (Duration, usize) {
    let begun = Instant::now();
    let mut stream = UnixStream::connect(socket).expect("the API");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200"), "{}", &said[..200.min(said.len())]);
    (begun.elapsed(), said.len())
}

fn main() {
    let folder = std::env::temp_dir().join(format!("gapi-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let shards: Vec<_> = (0..SHARDS)
        .map(|shard| {
            let socket = folder.join(name(shard));
            let (status, metrics) = (answer(shard), metrics(shard));
            let (bytes, more) = (status.len(), metrics.len());
            println!("{}: a status of {bytes} bytes, metrics of {more} bytes", name(shard));
            serve(&socket, status, metrics);
            (name(shard), socket)
        })
        .collect();
    let socket = folder.join("api.sock");
    let server = api::start(api::ApiOptions {
        socket: socket.clone(),
        shards,
        configs: std::sync::Arc::new(api::NoConfigs),
        machine: std::sync::Arc::new(api::NoLook),
        network: None,
        joining: None,
        audit: None,
    })
    .expect("an API");
    let lists =
        ["/volumes", "/volumes?limit=1000", "/volumes?name=*77", "/shards", "/status", "/health"];
    let paths = lists.into_iter().map(|path| format!("/api/v1{path}"));
    for path in paths.chain(["/metrics".to_owned()]) {
        let mut took: Vec<(Duration, usize)> = (0..TIMES).map(|_| ask(&socket, &path)).collect();
        took.sort();
        let ms = |at: usize| took[at].0.as_secs_f64() * 1e3;
        let bytes = took[0].1;
        println!(
            "{path}: median {:.1} ms, longest {:.1} ms, {bytes} bytes",
            ms(TIMES / 2),
            ms(TIMES - 1)
        );
    }
    drop(server);
    std::fs::remove_dir_all(&folder).expect("the folder");
}
