// SPDX-License-Identifier: Apache-2.0
//! The description of the API (OpenAPI 3.1), made from the table of routes and from the types of
//! commands and answers.

use crate::audit::{AuditEntry, ENTRIES_MAX};
use crate::events::LAST_EVENT;
use crate::fields::{CommandShape, commands, json};
use crate::lists::{LISTS, List, PAGING};
use crate::once::{KEY_HEADER, KEY_MAX};
use crate::problem::{PROBLEM_JSON, Problem};
use crate::routes::{PREFIX, ROUTES, Route, RouteAnswer, Shape};
use operator::AccessRole;
use operator::{AdmissionStep, Command, NewVolume};
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};

/// All of it.
#[must_use]
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(format!("{PREFIX}{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.name().to_ascii_lowercase()] = operation(route);
    }
    for list in LISTS {
        let path = paths.entry(format!("{PREFIX}{}", list.path)).or_insert_with(|| json!({}));
        path["get"] = listing(list);
    }
    paths.insert(format!("{PREFIX}/events"), json!({ "get": listening() }));
    paths.insert(format!("{PREFIX}/audit"), json!({ "get": audited() }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gabion",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What an operator may ask a cluster. Sizes are bytes, times seconds, \
                            unless a name says otherwise.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "Any host of the cluster" }],
        // Whoever may connect to the socket on a host needs none.
        "security": [{ "token": [] }],
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "parameters": {
                "IdempotencyKey": parameter(
                    KEY_HEADER,
                    "header",
                    false,
                    &json!({ "type": "string", "minLength": 1, "maxLength": KEY_MAX }),
                    "The same request with the same key is carried out once, and answered as the \
                     first time, for ten minutes.",
                ),
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made by `gabion token create`. On the Unix socket of a host \
                                    none is needed.",
                },
            },
            "responses": {
                "Problem": {
                    "description": "Why it was not carried out, and what to do",
                    "content": { PROBLEM_JSON: { "schema": reference("Problem") } },
                },
            },
        },
    })
}

/// The first part of a path: what it is about.
fn tag(path: &'static str) -> &'static str {
    path.split('/').nth(1).unwrap_or_default()
}

/// What the first parts of paths are about.
const TAGS: [(&str, &str); 21] = [
    ("audit", "Who changed what"),
    ("cluster", "Settings of the cluster"),
    ("deleted-volumes", "Volumes that were deleted and can be brought back"),
    ("events", "What changes"),
    ("domains", "Fault domains: racks, rooms, whatever fails as a whole"),
    ("groups", "Disk groups of all hosts"),
    ("health", "How everything is: checks, each with what mends it"),
    ("performance", "What volumes, hosts, disk groups and devices do and did"),
    ("hosts", "Hosts, their maintenance and their removal"),
    ("invitations", "Machines that may become hosts"),
    ("tokens", "Programs that may ask over the network"),
    ("users", "People who may ask over the network"),
    ("receivers", "Who is told of what health checks find"),
    ("sessions", "Those who have signed in"),
    ("orphans", "Components that the directory does not account for"),
    ("policies", "Policies: rules that volumes follow"),
    ("repairs", "Copies that are made again"),
    ("resyncs", "Copies that get what they lack"),
    ("shards", "Shards, each with the disk groups that it has"),
    ("status", "Everything that the hosts know"),
    ("volumes", "Volumes"),
];

fn tags() -> Vec<Value> {
    TAGS.iter().map(|(name, what)| json!({ "name": name, "description": what })).collect()
}

fn operation(route: &Route) -> Value {
    let nothing = CommandShape::default();
    let shape = commands().get(route.command).unwrap_or(&nothing);
    let is_in_path = |name: &str| route.path_fields().any(|field| field == name);
    let free = || shape.fields.iter().filter(|(name, _)| !is_in_path(name));
    let mut parameters: Vec<Value> =
        route.names().map(|name| path_parameter(name, shape)).collect();
    let mut operation = json!({
        "operationId": route.command.replace('-', "_"),
        "summary": shape.description.trim_end_matches('.'),
        "description": match route.is_open {
            true => "Needs no token.".to_owned(),
            false => format!("Needs the role {} or more.", route.right.name()),
        },
        "tags": [tag(route.path)],
        "responses": responses(&answer(route.answer)),
    });
    if route.is_open {
        operation["security"] = json!([]);
    }
    if route.method.has_body() {
        let fields: Map<String, Value> = free().map(|(n, s)| (n.clone(), s.clone())).collect();
        let required: Vec<&String> =
            shape.required.iter().filter(|name| !is_in_path(name)).collect();
        operation["requestBody"] = json!({
            "required": !required.is_empty(),
            "content": { "application/json": { "schema": {
                "type": "object",
                "properties": fields,
                "required": required,
                "additionalProperties": false,
            }}},
        });
    } else {
        parameters.extend(free().map(|(name, schema)| {
            parameter(name, "query", shape.required.contains(name), schema, description(schema))
        }));
    }
    if route.has_keys() {
        parameters.push(json!({ "$ref": "#/components/parameters/IdempotencyKey" }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    operation
}

fn listening() -> Value {
    json!({
        "operationId": "event_stream",
        "summary": "What changes, as server-sent events",
        "description": "First `ready`: what changes from then on is told, so read the lists now. \
                        Then `change`, with `list`, `key` and `item` (null: it is gone). `reset`: \
                        events are missing, read the lists anew. Needs the role viewer or more.",
        "tags": ["events"],
        "parameters": [parameter(
            LAST_EVENT,
            "header",
            false,
            &json!({ "type": "string" }),
            "The id of the last event that the listener has.",
        )],
        "responses": responses(&json!({
            "description": "Events, without an end",
            "content": { "text/event-stream": { "schema": { "type": "string" } } },
        })),
    })
}

fn audited() -> Value {
    let number = json!({ "type": "integer", "format": "int64", "minimum": 1 });
    json!({
        "operationId": "audit_list",
        "summary": "Who changed what through this host, from where, and what came of it",
        "description": format!(
            "The newest entries, the oldest of them first; at most {ENTRIES_MAX}. Needs the \
             role {}.",
            AccessRole::Administrator.name()
        ),
        "tags": ["audit"],
        "parameters": [
            parameter("limit", "query", false, &number, "How many, at most."),
            parameter("before", "query", false, &number, "Only those of lower numbers."),
        ],
        "responses": responses(&json!({
            "description": "Entries",
            "content": { "application/json": { "schema": {
                "type": "array",
                "items": reference("AuditEntry"),
            }}},
        })),
    })
}

fn listing(list: &List) -> Value {
    let asked = list.filters.iter().chain(&PAGING).map(|(name, what)| {
        let kind = if *name == "limit" { "integer" } else { "string" };
        parameter(name, "query", false, &json!({ "type": kind }), what)
    });
    json!({
        "operationId": list.id,
        "summary": list.summary,
        "description": format!("Needs the role {} or more.", AccessRole::Viewer.name()),
        "tags": [tag(list.path)],
        "parameters": asked.collect::<Vec<_>>(),
        "responses": responses(&json!({
            "description": "A page",
            "content": { "application/json": { "schema": {
                "type": "object",
                "required": ["items", "total", "next"],
                "properties": {
                    "items": {
                        "type": "array",
                        "description": "The items of this page, in order.",
                        "items": reference(&(list.item.name)()),
                    },
                    "total": {
                        "type": "integer",
                        "description": "How many there are on all pages together.",
                    },
                    "next": {
                        "type": ["string", "null"],
                        "description": "Where the next page begins; null behind the last.",
                    },
                },
            }}},
        })),
    })
}

/// What a field is, also where that is said of one of its alternatives.
fn description(schema: &Value) -> &str {
    let parts = schema["oneOf"].as_array().into_iter().flatten();
    let mut all = std::iter::once(schema).chain(parts);
    all.find_map(|schema| schema["description"].as_str()).unwrap_or_default()
}

fn path_parameter(name: &str, shape: &CommandShape) -> Value {
    match shape.fields.get(name) {
        Some(schema) => parameter(name, "path", true, schema, description(schema)),
        // `{shard}`, the only name that is no field.
        None => {
            parameter(name, "path", true, &json!({ "type": "string" }), "The shard that is asked.")
        }
    }
}

fn parameter(name: &str, place: &str, required: bool, schema: &Value, what: &str) -> Value {
    json!({ "name": name, "in": place, "required": required, "description": what,
            "schema": schema })
}

/// The answer to a request that was carried out, and that to any other.
fn responses(answer: &Value) -> Value {
    let problem = json!({ "$ref": "#/components/responses/Problem" });
    json!({ "200": answer, "4XX": problem, "5XX": problem })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn answer(answer: RouteAnswer) -> Value {
    let (schema, description) = match answer {
        RouteAnswer::Nothing => (json!({ "type": "null" }), "Done".to_owned()),
        RouteAnswer::One(shape) => (reference(&(shape.name)()), (shape.name)().into_owned()),
        RouteAnswer::Many(shape) => (
            json!({ "type": "array", "items": reference(&(shape.name)()) }),
            format!("A list of {}", (shape.name)()),
        ),
    };
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

/// All named types.
fn schemas() -> Map<String, Value> {
    let shape = |answer| match answer {
        RouteAnswer::Nothing => None,
        RouteAnswer::One(shape) | RouteAnswer::Many(shape) => Some(shape),
    };
    let mut named = vec![
        ("Problem".to_owned(), Problem::schema()),
        ("AuditEntry".to_owned(), AuditEntry::schema()),
    ];
    Command::schemas(&mut named);
    // The fields of the one are those of the request. The other is nobody's but the API's.
    named.retain(|(name, _)| *name != NewVolume::name() && *name != AdmissionStep::name());
    let answers = ROUTES.iter().filter_map(|route| shape(route.answer));
    for Shape { name, schema, parts } in answers.chain(LISTS.iter().map(|list| list.item)) {
        named.push((name().into_owned(), schema()));
        parts(&mut named);
    }
    let mut all = Map::new();
    for (name, schema) in named {
        let mut schema = json(&schema);
        name_alternatives(&name, &mut schema, &mut all);
        all.insert(name, schema);
    }
    all
}

fn alternatives_of(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let all = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    all.into_iter().flatten()
}

/// Gives what an alternative of a type holds a name of its own: generators of clients have to make
/// one up otherwise, and some make up the same one twice.
fn name_alternatives(name: &str, schema: &mut Value, all: &mut Map<String, Value>) {
    for alternative in alternatives_of(schema) {
        let fields = alternative.get_mut("properties").and_then(Value::as_object_mut);
        let Some(fields) = fields else { continue };
        for (field, held) in fields.iter_mut().filter(|(_, held)| held["properties"].is_object()) {
            let mut letters = field.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            let own: String = name.chars().chain(first).chain(letters).collect();
            let reference = reference(&own);
            all.insert(own, std::mem::replace(held, reference));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_a_path_is_about_is_described() {
        let paths = ROUTES.iter().map(|route| route.path).chain(LISTS.iter().map(|list| list.path));
        let used: BTreeSet<&str> = paths.chain(["/events", "/audit"]).map(tag).collect();
        let known: BTreeSet<&str> = TAGS.iter().map(|(name, _)| *name).collect();
        assert_eq!(used, known);
    }
}
