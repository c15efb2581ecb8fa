// SPDX-License-Identifier: Apache-2.0
//! The client asks, and the server carries out, over a real socket.

use api::{
    ApiClient, ApiOptions, ApiRequest, ApiServer, CallError, NoConfigs, ShardConfigs, start,
};
use operator::{Command, CommandFailure, CommandReply, ErrorKind, GroupConfig};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A shard that says what it was asked, or refuses what is named "bad" and "no".
fn shard(listener: UnixListener) {
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a question");
        let command: Command = serde_json::from_str(&line).expect("a command");
        let refused = |kind, message: &str| {
            CommandReply::Error(CommandFailure { kind, message: message.to_owned() })
        };
        let reply = match &command {
            Command::VolumeShow { name } if name == "bad" => refused(ErrorKind::Usage, "bad name"),
            Command::VolumeShow { name } if name == "no" => refused(ErrorKind::Failed, "none"),
            Command::VolumeShow { name } if name == "gone" => refused(ErrorKind::Missing, "gone"),
            Command::GroupRemove { .. } => CommandReply::Ok(json!({"cache": "/c", "capacity": []})),
            _ => CommandReply::Ok(serde_json::to_value(&command).expect("a command")),
        };
        let _ = writeln!(stream, "{}", serde_json::to_string(&reply).expect("a reply"));
    }
}

struct Served {
    folder: PathBuf,
    client: ApiClient,
    _server: ApiServer,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// An API for `host1`, which answers, and `host2`, which is not there.
fn serve(name: &str, configs: Arc<dyn ShardConfigs>) -> Served {
    let folder = std::env::temp_dir().join(format!("gapic-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let listener = UnixListener::bind(folder.join("host1")).expect("a socket");
    std::thread::spawn(move || shard(listener));
    let names = ["host1", "host2"].map(|name| (name.to_owned(), folder.join(name)));
    let socket = folder.join("api.sock");
    let options = ApiOptions {
        socket: socket.clone(),
        shards: names.to_vec(),
        configs,
        machine: Arc::new(api::NoLook),
        network: None,
        joining: None,
        audit: None,
    };
    let server = start(options).expect("an API");
    Served { folder, client: ApiClient::at(&socket), _server: server }
}

fn call(served: &Served, command: &Command, shard: Option<&str>) -> Result<Value, CallError> {
    served.client.call(&ApiRequest::of(command, shard).expect("a request"))
}

fn show(name: &str) -> Command {
    Command::VolumeShow { name: name.to_owned() }
}

#[test]
fn a_command_comes_to_its_shard_as_it_was_and_its_answer_back() {
    let served = serve("whole", Arc::new(NoConfigs));
    let odd = "a b/../%41?#\u{e9}";
    let label = Command::VolumeGrow { name: odd.to_owned(), size_bytes: 4096 };
    let said = call(&served, &label, None).expect("it is done");
    assert_eq!(said, json!({"command": "volume-grow", "name": odd, "size_bytes": 4096}));
    let said = call(&served, &Command::ScrubStatus, Some("host1")).expect("it is done");
    assert_eq!(said["command"], "scrub-status");
}

#[test]
fn why_a_command_is_not_carried_out_comes_back_by_name() {
    let served = serve("why", Arc::new(NoConfigs));
    let problem = |said| match said {
        Err(CallError::Problem(problem)) => (problem.status, problem.detail),
        other => panic!("{other:?}"),
    };
    assert_eq!(problem(call(&served, &show("bad"), None)), (400, "bad name".to_owned()));
    assert_eq!(problem(call(&served, &show("no"), None)), (409, "none".to_owned()));
    assert_eq!(problem(call(&served, &show("gone"), None)), (404, "gone".to_owned()));
    let (status, _) = problem(call(&served, &Command::ScrubStatus, Some("host2")));
    assert_eq!(status, 503, "a shard that is away");
    let (status, _) = problem(call(&served, &Command::ScrubStatus, Some("host9")));
    assert_eq!(status, 404, "a shard of another machine");
    let wrong: Result<Vec<u8>, _> =
        served.client.call(&ApiRequest::of(&show("a"), None).expect("a request"));
    assert!(matches!(wrong, Err(CallError::Form(_))), "an answer of another form");
    let away = ApiClient::at(&served.folder.join("nothing"));
    let away: Result<Value, _> = away.call(&ApiRequest::of(&show("a"), None).expect("a request"));
    assert!(matches!(away, Err(CallError::Away(_))), "{away:?}");
}

/// Says what is written, and refuses what is called "/refused".
#[derive(Default)]
struct Noted(Mutex<Vec<(String, Value)>>);

impl ShardConfigs for Noted {
    fn check(&self, _shard: &str, command: &Command) -> Result<(), CommandFailure> {
        match command {
            Command::GroupRemove { group } if group == "/refused" => {
                Err(CommandFailure { kind: ErrorKind::Failed, message: "not here".to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn keep(&self, shard: &str, _: &Command, done: &Value) -> Result<(), CommandFailure> {
        self.0.lock().expect("no panic").push((shard.to_owned(), done.clone()));
        Ok(())
    }
}

#[test]
fn what_a_shard_did_is_written_and_what_cannot_be_written_is_not_done() {
    let noted = Arc::new(Noted::default());
    let served = serve("files", Arc::clone(&noted) as Arc<dyn ShardConfigs>);
    let remove = |group: &str| Command::GroupRemove { group: group.to_owned() };
    let refused = call(&served, &remove("/refused"), Some("host1"));
    assert!(refused.is_err_and(|why| why.to_string() == "not here"));
    assert!(noted.0.lock().expect("no panic").is_empty());
    let request = ApiRequest::of(&remove("/c"), Some("host1")).expect("a request");
    let gone: GroupConfig = served.client.call(&request).expect("it is done");
    assert_eq!(gone.cache, "/c");
    let written = noted.0.lock().expect("no panic").clone();
    assert_eq!(written, [("host1".to_owned(), json!({"cache": "/c", "capacity": []}))]);
}
