// SPDX-License-Identifier: Apache-2.0
//! A request and the command that it stands for: the server goes one way, clients go the other.

use crate::fields::{CommandShape, commands, is_of};
use crate::problem::Problem;
use crate::routes::{PREFIX, ROUTES, Route, SHARD};
use operator::Command;
use serde_json::{Map, Value};

/// What a request of a route says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestParts {
    /// The values of the names in its path, decoded.
    pub path: Vec<(String, String)>,
    /// The pairs of its query, decoded.
    pub query: Vec<(String, String)>,
    /// Its body; empty where it has none.
    pub body: Vec<u8>,
}

/// A request as a client sends it.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// What is asked for.
    pub route: &'static Route,
    /// The path with its values, and the query, both encoded.
    pub target: String,
    /// The body; none where the method has none.
    pub body: Option<Value>,
}

impl Route {
    /// The shape of its command.
    fn shape(&self) -> Result<&'static CommandShape, Problem> {
        commands().get(self.command).ok_or_else(|| Problem::internal("a route of no command"))
    }

    /// The command that a request says, and the shard that it names, if it does.
    ///
    /// # Errors
    /// What is wrong with the request, for its sender.
    pub fn command(&self, said: &RequestParts) -> Result<(Command, Option<String>), Problem> {
        let shape = self.shape()?;
        let (mut object, mut shard) = (Map::new(), None);
        for (name, value) in &said.path {
            match name == SHARD {
                true => shard = Some(value.clone()),
                false => drop(object.insert(name.clone(), Value::String(value.clone()))),
            }
        }
        match self.method.has_body() {
            true if !said.query.is_empty() => {
                return Err(Problem::usage("this request has no query: its body says all"));
            }
            true => self.add_body(shape, &said.body, &mut object)?,
            false if !said.body.is_empty() => {
                return Err(Problem::usage("this request has no body: its query says all"));
            }
            false => self.add_query(shape, &said.query, &mut object)?,
        }
        if let Some(missing) = shape.required.iter().find(|field| !object.contains_key(*field)) {
            return Err(Problem::usage(format!("the field '{missing}' is missing")));
        }
        object.insert("command".to_owned(), Value::from(self.command));
        let command = serde_json::from_value(Value::Object(object));
        let command = command.map_err(|error| Problem::usage(error.to_string()))?;
        Ok((command, shard))
    }

    /// An error where a request may not say this field.
    fn check_field(&self, shape: &CommandShape, name: &str) -> Result<(), Problem> {
        let is_free = |field: &str| self.path_fields().all(|own| own != field);
        if shape.fields.contains_key(name) && is_free(name) {
            return Ok(());
        }
        let known: Vec<&str> =
            shape.fields.keys().map(String::as_str).filter(|field| is_free(field)).collect();
        let known = match known.is_empty() {
            true => "this request has none".to_owned(),
            false => format!("there are: {}", known.join(", ")),
        };
        Err(Problem::usage(format!("there is no field '{}' here; {known}", name.escape_debug())))
    }

    fn add_body(
        &self,
        shape: &CommandShape,
        body: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), Problem> {
        if body.is_empty() {
            return Ok(());
        }
        let read: Result<Map<String, Value>, _> = serde_json::from_slice(body);
        let fields =
            read.map_err(|error| Problem::usage(format!("the body is no JSON object: {error}")))?;
        for (name, value) in fields {
            self.check_field(shape, &name)?;
            object.insert(name, value);
        }
        Ok(())
    }

    fn add_query(
        &self,
        shape: &CommandShape,
        query: &[(String, String)],
        object: &mut Map<String, Value>,
    ) -> Result<(), Problem> {
        for (name, text) in query {
            self.check_field(shape, name)?;
            if object.contains_key(name) {
                return Err(Problem::usage(format!("the field '{name}' is there twice")));
            }
            let wrong = |what| Problem::usage(format!("'{name}' is {what}, not '{text}'"));
            let schema = &shape.fields[name];
            let value = match () {
                () if is_of(schema, "boolean") => {
                    Value::Bool(text.parse().map_err(|_| wrong("true or false"))?)
                }
                () if is_of(schema, "integer") => {
                    Value::from(text.parse::<u64>().map_err(|_| wrong("a whole number"))?)
                }
                () => Value::String(text.clone()),
            };
            object.insert(name.clone(), value);
        }
        Ok(())
    }
}

impl ApiRequest {
    /// The request that stands for a command, and for the shard that is to be asked where the route
    /// names one. `None` where no route carries the command out, or it needs a shard and there is
    /// none.
    #[must_use]
    pub fn of(command: &Command, shard: Option<&str>) -> Option<Self> {
        let Ok(Value::Object(mut object)) = serde_json::to_value(command) else { return None };
        let name = object.remove("command")?;
        let route = ROUTES.iter().find(|route| name == route.command)?;
        let mut target = PREFIX.to_owned();
        for part in route.path.split('/').skip(1) {
            let field = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let value = match field {
                None => part.to_owned(),
                Some(SHARD) => encoded(shard?),
                Some(field) => encoded(object.remove(field)?.as_str()?),
            };
            target = format!("{target}/{value}");
        }
        object.retain(|_, value| !value.is_null());
        if route.method.has_body() {
            return Some(Self { route, target, body: Some(Value::Object(object)) });
        }
        for (at, (field, value)) in object.iter().enumerate() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let sign = if at == 0 { '?' } else { '&' };
            target = format!("{target}{sign}{field}={}", encoded(&text));
        }
        Some(Self { route, target, body: None })
    }
}

/// A text as a part of a path or a value of a query (RFC 3986, section 2.1). A part that is only
/// dots would be taken for a step upwards, so dots are encoded as well.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
