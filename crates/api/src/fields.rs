// SPDX-License-Identifier: Apache-2.0
//! The fields of the commands, as the description of their type says.

use operator::{Command, NewVolume};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::PartialSchema;

/// A command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandShape {
    /// What it does.
    pub description: String,
    /// Its fields: name and schema.
    pub fields: BTreeMap<String, Value>,
    /// Those that must be there.
    pub required: Vec<String>,
}

/// All commands, by the value of their field `command`.
pub fn commands() -> &'static BTreeMap<String, CommandShape> {
    static ALL: LazyLock<BTreeMap<String, CommandShape>> = LazyLock::new(|| {
        let schema = json(&Command::schema());
        let variants = schema["oneOf"].as_array().cloned().unwrap_or_default();
        variants.iter().filter_map(command).collect()
    });
    &ALL
}

/// A schema as JSON.
pub fn json(schema: &impl serde::Serialize) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn command(variant: &Value) -> Option<(String, CommandShape)> {
    let mut shape = CommandShape {
        description: variant["description"].as_str().unwrap_or_default().to_owned(),
        ..CommandShape::default()
    };
    let empty = Vec::new();
    let parts = variant["allOf"].as_array().unwrap_or(&empty);
    for part in std::iter::once(variant).chain(parts) {
        // The only command of a route whose fields are a type of their own.
        match part["$ref"].as_str() {
            Some(of) if of.ends_with("/NewVolume") => shape.add(&json(&NewVolume::schema())),
            Some(_) => {}
            None => shape.add(part),
        }
    }
    let name = shape.fields.remove("command")?["enum"][0].as_str()?.to_owned();
    shape.required.retain(|field| field != "command");
    Some((name, shape))
}

impl CommandShape {
    fn add(&mut self, object: &Value) {
        let none = Map::new();
        let fields = object["properties"].as_object().unwrap_or(&none);
        self.fields.extend(fields.iter().map(|(name, schema)| (name.clone(), schema.clone())));
        let required = object["required"].as_array().into_iter().flatten();
        self.required.extend(required.filter_map(|name| Some(name.as_str()?.to_owned())));
    }
}

/// Whether a schema is of values of this JSON type, or of none.
pub fn is_of(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::String(name) => name == wanted,
        Value::Array(names) => names.iter().any(|name| name == wanted),
        _ => false,
    }
}
