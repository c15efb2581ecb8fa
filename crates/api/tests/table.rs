// SPDX-License-Identifier: Apache-2.0
//! The table of routes is whole: each command of an operator has a request, and the request says
//! the command.

use api::{
    ApiRequest, LISTS, Method, PREFIX, ROUTES, RequestParts, SHARD, WITHOUT_ROUTE, document,
};
use operator::{AccessRole, Command, NewVolume, PolicyRules};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use utoipa::PartialSchema;

/// The values of the field `command`, by the description of its type.
fn names() -> Vec<String> {
    let schema = serde_json::to_value(Command::schema()).expect("a schema");
    let name = |variant: &Value| {
        let parts = variant["allOf"].as_array().cloned().unwrap_or_default();
        let mut parts = std::iter::once(variant.clone()).chain(parts);
        parts.find_map(|part| Some(part["properties"]["command"]["enum"][0].as_str()?.to_owned()))
    };
    let variants = schema["oneOf"].as_array().expect("alternatives");
    variants.iter().map(|variant| name(variant).expect("a name")).collect()
}

#[test]
fn each_command_has_one_route() {
    let names = names();
    assert!(names.len() > 50, "{names:?}");
    for name in &names {
        let routes = ROUTES.iter().filter(|route| route.command == name).count();
        let without = WITHOUT_ROUTE.iter().filter(|(command, _)| command == name).count();
        assert_eq!(routes + without, 1, "{name}");
    }
    for route in ROUTES {
        assert!(names.iter().any(|name| name == route.command), "{} is no command", route.command);
    }
    for (command, why) in WITHOUT_ROUTE {
        assert!(names.iter().any(|name| name == command) && !why.is_empty(), "{command}");
    }
}

#[test]
fn no_two_routes_are_one_request() {
    let all: BTreeSet<_> = ROUTES.iter().map(|route| (route.method, route.path)).collect();
    assert_eq!(all.len(), ROUTES.len());
}

#[test]
fn what_only_looks_may_be_done_by_all_who_may_look() {
    for route in ROUTES.iter().filter(|route| route.method == Method::Get) {
        // Who may get in is for those to know who decide about it.
        let needed = match route.command {
            "token-list" | "user-list" => AccessRole::Administrator,
            _ => AccessRole::Viewer,
        };
        assert_eq!(route.right, needed, "{}", route.command);
    }
}

/// The same as [`samples`], about disk groups, tokens and users.
fn more_samples() -> Vec<Value> {
    let password = "correct horse battery";
    vec![
        json!({ "command": "health-show" }),
        json!({ "command": "health-history", "limit": 7, "after": "12" }),
        json!({
            "command": "health-silence", "check": "hosts.answering", "for_seconds": 60,
            "reason": "x",
        }),
        json!({ "command": "health-unsilence", "check": "hosts.answering" }),
        json!({
            "command": "performance-show", "kind": "volume", "name": "db/1", "from": 7, "to": 9,
            "points": 3,
        }),
        json!({ "command": "performance-top", "kind": "device", "seconds": 10, "limit": 5 }),
        json!({ "command": "user-list" }),
        json!({ "command": "host-invite", "seconds": 60 }),
        json!({ "command": "host-join", "invitation": "ab" }),
        json!({ "command": "user-create", "name": "anna", "role": "viewer", "seconds": 60 }),
        json!({ "command": "user-code", "name": "anna", "seconds": 60 }),
        json!({ "command": "user-role", "name": "anna", "role": "operator" }),
        json!({ "command": "user-password", "name": "anna", "password": password }),
        json!({ "command": "user-delete", "name": "anna" }),
        json!({ "command": "session-create", "user": "anna", "password": password }),
        json!({ "command": "session-show" }),
        json!({ "command": "session-delete" }),
        json!({ "command": "notify-list" }),
        json!({ "command": "notify-show", "name": "ops" }),
        json!({
            "command": "notify-add", "name": "ops", "from_state": "red", "groups": ["hosts"],
            "remind_seconds": 86400,
            "way": { "kind": "webhook", "url": "https://a.example/hook", "secret": "s" },
        }),
        json!({ "command": "notify-delete", "name": "ops" }),
        json!({ "command": "notify-test", "name": "ops" }),
        json!({ "command": "token-list" }),
        json!({ "command": "token-create", "name": "ci", "role": "viewer", "seconds": 60 }),
        json!({ "command": "token-delete", "name": "ci" }),
        json!({
            "command": "group-create", "cache": "/dev/sdb", "capacity": ["/dev/sdc"], "wipe": true,
        }),
        json!({ "command": "group-extend", "group": "/dev/sdb", "device": "/dev/sdd" }),
        json!({ "command": "group-remove", "group": "/dev/sdb" }),
    ]
}

/// Commands in which every field that a route must carry is said, as JSON.
fn samples() -> Vec<Value> {
    let rules = json!({ "ftt": 2, "reserve_percent": 10 });
    vec![
        json!({ "command": "metrics" }),
        json!({ "command": "volume-create", "name": "a b", "size_bytes": 4096, "ftt": 1 }),
        json!({ "command": "volume-show", "name": "x/../y?z=%41&#" }),
        json!({ "command": "volume-show", "name": ".." }),
        json!({ "command": "volume-show", "name": "Ger\u{e4}t" }),
        json!({ "command": "volume-delete", "name": "a", "for_good": true }),
        json!({ "command": "volume-rename", "name": "a", "new": "b" }),
        json!({ "command": "volume-grow", "name": "a", "size_bytes": 1_u64 << 40 }),
        json!({ "command": "volume-change", "name": "a", "reserve_percent": 7 }),
        json!({ "command": "volume-redundancy", "name": "a", "ftt": 2, "force": true }),
        json!({ "command": "volume-set-policy", "name": "a", "policy": "gold" }),
        json!({ "command": "volume-set-policy", "name": "a" }),
        json!({ "command": "volume-cache", "name": "a", "cache_percent": 5 }),
        json!({ "command": "volume-keep", "name": "a", "host": "host1" }),
        json!({ "command": "volume-connections", "name": "a", "connections": "shared" }),
        json!({ "command": "volume-writers", "name": "a", "writers": "any" }),
        json!({ "command": "volume-take-over", "name": "a", "host": "host2" }),
        json!({ "command": "volume-label", "name": "a", "set": { "k": "v" }, "remove": ["x"] }),
        json!({ "command": "volume-move", "name": "a", "from": "host1", "to": "host2" }),
        json!({ "command": "volume-stay", "name": "a" }),
        json!({ "command": "volume-explain", "name": "a" }),
        json!({ "command": "volume-recover", "name": "a", "check": true }),
        json!({ "command": "volume-undelete", "volume": "a", "name": "b" }),
        json!({ "command": "volume-purge", "volume": "a" }),
        json!({ "command": "policy-list" }),
        json!({ "command": "policy-create", "name": "gold", "rules": rules }),
        json!({ "command": "policy-edit", "name": "gold", "rules": rules }),
        json!({ "command": "policy-check", "name": "gold", "rules": rules }),
        json!({ "command": "policy-what-if", "name": "gold", "volumes": ["a", "b"] }),
        json!({ "command": "policy-delete", "name": "gold" }),
        json!({ "command": "status" }),
        json!({ "command": "cluster-show" }),
        json!({ "command": "cluster-set", "repair_delay_seconds": 10 }),
        json!({ "command": "cluster-set" }),
        json!({ "command": "rebalance", "on": false }),
        json!({ "command": "rebuild-reserve", "on": true }),
        json!({ "command": "cluster-kind", "kind": "hybrid" }),
        json!({ "command": "cluster-upgrade", "check": true }),
        json!({ "command": "resync-limit", "bytes_per_second": 1000 }),
        json!({ "command": "host-remove", "host": "host3", "lost": true }),
        json!({ "command": "maintenance-check", "host": "host3", "mode": "full-evacuation" }),
        json!({ "command": "maintenance-check", "host": "host3" }),
        json!({ "command": "maintenance-enter", "host": "host3", "mode": "none" }),
        json!({ "command": "maintenance-exit", "host": "host3" }),
        json!({ "command": "encrypt-links", "on": true }),
        json!({ "command": "domain-list" }),
        json!({ "command": "domain-create", "name": "rack1", "within": "room" }),
        json!({ "command": "domain-delete", "name": "rack1" }),
        json!({ "command": "domain-assign", "hosts": ["host1"], "domain": "r", "check": true }),
        json!({ "command": "repair-now", "volume": "a" }),
        json!({ "command": "directory-backups" }),
        json!({ "command": "directory-restore", "number": 3, "replace": true }),
        json!({ "command": "orphan-list" }),
        json!({ "command": "orphan-adopt", "volume": "a", "name": "b", "force": true }),
        json!({ "command": "orphan-delete", "volume": "a" }),
        json!({ "command": "group-show", "group": "12ab" }),
        json!({ "command": "group-close", "group": "/dev/sdb", "stop_volumes": true }),
        json!({ "command": "group-open", "group": "/dev/sdb" }),
        json!({ "command": "scrub-status" }),
        json!({ "command": "scrub-start", "bytes_per_second": 5 }),
        json!({ "command": "scrub-pause" }),
    ]
}

/// What a server reads of a request: by hand, so that nothing of the client is taken for granted.
fn received(request: &ApiRequest) -> RequestParts {
    let (path, query) = match request.target.split_once('?') {
        Some((path, query)) => (path, query),
        None => (request.target.as_str(), ""),
    };
    let path = path.strip_prefix(PREFIX).expect("the prefix");
    assert!(!path.contains(['.', ' ', '#']), "{path} means something else to somebody");
    let parts: Vec<&str> = path.split('/').collect();
    let template: Vec<&str> = request.route.path.split('/').collect();
    assert_eq!(parts.len(), template.len(), "{path}");
    let named = template.iter().zip(&parts).filter_map(|(name, value)| {
        let name = name.strip_prefix('{')?.strip_suffix('}')?;
        Some((name.to_owned(), decoded(value)))
    });
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    RequestParts {
        path: named.collect(),
        query: pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
        body: request.body.as_ref().map_or_else(Vec::new, |body| body.to_string().into_bytes()),
    }
}

fn decoded(text: &str) -> String {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).expect("two digits"));
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).expect("text")
}

#[test]
fn a_request_says_its_command() {
    let mut seen = BTreeSet::new();
    for sample in samples().into_iter().chain(more_samples()) {
        let command: Command = serde_json::from_value(sample.clone()).expect("a command");
        let request = ApiRequest::of(&command, Some("host1")).expect("a request");
        let (heard, shard) = request.route.command(&received(&request)).expect("the command");
        assert_eq!(heard, command, "{sample}");
        let names_shard = request.route.names().any(|name| name == SHARD);
        assert_eq!(shard.is_some(), names_shard, "{sample}");
        seen.insert(request.route.command);
    }
    for route in ROUTES {
        assert!(seen.contains(route.command), "no sample of {}", route.command);
    }
}

#[test]
fn a_command_without_a_route_has_no_request() {
    let stop: Command = serde_json::from_value(json!({ "command": "stop" })).expect("a command");
    assert!(ApiRequest::of(&stop, Some("host1")).is_none());
    let scrub = ApiRequest::of(&Command::ScrubStatus, None);
    assert!(scrub.is_none(), "nobody says which shard is asked");
}

/// What is wrong with a request of a route.
fn refused(command: &str, said: &RequestParts) -> String {
    let route = ROUTES.iter().find(|route| route.command == command).expect("a route");
    let problem = route.command(said).expect_err("it is wrong");
    assert_eq!(problem.status, 400);
    problem.detail
}

#[test]
fn what_is_wrong_is_said_by_name() {
    let name = |name: &str| vec![("name".to_owned(), name.to_owned())];
    let body =
        |text: &str| RequestParts { path: name("a"), body: text.into(), ..RequestParts::default() };
    let query = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        RequestParts { path: name("a"), query: pairs.collect(), ..RequestParts::default() }
    };
    let size = "'size_bytes' is missing";
    assert!(refused("volume-grow", &body("")).contains(size));
    assert!(refused("volume-grow", &body("[]")).contains("no JSON object"));
    assert!(refused("volume-grow", &body("{\"size_bytes\":-1}")).contains("-1"));
    let known = refused("volume-grow", &body("{\"size\":1}"));
    assert!(known.contains("no field 'size'") && known.contains("size_bytes"), "{known}");
    // What the path says, the body does not say otherwise.
    assert!(refused("volume-grow", &body("{\"name\":\"b\",\"size_bytes\":1}")).contains("'name'"));
    assert!(refused("volume-grow", &body("{\"command\":\"stop\"}")).contains("'command'"));
    assert!(refused("volume-delete", &query(&[("for_good", "1")])).contains("true or false"));
    let twice = query(&[("for_good", "true"), ("for_good", "false")]);
    assert!(refused("volume-delete", &twice).contains("twice"));
    assert!(refused("volume-delete", &query(&[("name", "b")])).contains("there are: for_good"));
    assert!(refused("volume-delete", &body("{}")).contains("no body"));
    assert!(refused("volume-grow", &query(&[("size_bytes", "1")])).contains("no query"));
    let made = Command::VolumeCreate(NewVolume::new("a", 1, 1));
    assert!(ApiRequest::of(&made, None).is_some());
    let rules = PolicyRules::default();
    assert!(ApiRequest::of(&Command::PolicyEdit { name: "a".to_owned(), rules }, None).is_some());
}

/// All references of the description lead somewhere, and operations are told apart.
#[test]
fn the_description_is_whole() {
    let document = document();
    let mut pending = vec![&document];
    let mut references = 0;
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').expect("of this document");
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                    references += 1;
                }
                pending.extend(fields.values());
            }
            Value::Array(values) => pending.extend(values),
            _ => {}
        }
    }
    assert!(references > 100, "{references}");
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.values().flat_map(|path| path.as_object().expect("methods").values());
    let ids: BTreeSet<&str> =
        operations.map(|operation| operation["operationId"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), ROUTES.len() + LISTS.len() + 2);
    let grow = &document["paths"]["/api/v1/volumes/{name}/size"]["put"];
    assert_eq!(grow["summary"], "Makes a volume larger, while it is in use");
    let schema = &grow["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["required"], json!(["size_bytes"]));
    assert!(schema["properties"]["name"].is_null(), "that stands in the path");
}
