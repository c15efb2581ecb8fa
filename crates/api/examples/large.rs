// SPDX-License-Identifier: Apache-2.0
//! How long lists take in front of a large cluster: 64 hosts of 5 shards, 12,800 volumes, each with
//! two copies. The shards of one host are asked; they are threads that say what such a shard says.
//!
//! `cargo run --release -p api --example large`

use operator::{Command, CommandReply};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOSTS: usize = 64;
const SHARDS: usize = 5;
const VOLUMES: usize = 12_800;
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

fn serve(socket: &Path, text: String) {
    let listener = UnixListener::bind(socket).expect("a socket");
    let text = Arc::new(text);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, text) = (stream.expect("a connection"), Arc::clone(&text));
            std::thread::spawn(move || {
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).expect("a question");
                let _: Command = serde_json::from_str(&line).expect("a command");
                // Who asked may be gone.
                let _ = writeln!(stream, "{text}");
            });
        }
    });
}

fn ask(socket: &Path, path: &str) -> (Duration, usize) {
    let begun = Instant::now();
    let mut stream = UnixStream::connect(socket).expect("the API");
    let head = format!("GET /api/v1{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
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
            let text = answer(shard);
            println!("{}: a status of {} bytes", name(shard), text.len());
            serve(&socket, text);
            (name(shard), socket)
        })
        .collect();
    let socket = folder.join("api.sock");
    let server = api::start(api::ApiOptions {
        socket: socket.clone(),
        shards,
        configs: std::sync::Arc::new(api::NoConfigs),
        network: None,
        audit: None,
    })
    .expect("an API");
    let paths = ["/volumes", "/volumes?limit=1000", "/volumes?name=*77", "/shards", "/status"];
    for path in paths {
        let mut took: Vec<(Duration, usize)> = (0..TIMES).map(|_| ask(&socket, path)).collect();
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
