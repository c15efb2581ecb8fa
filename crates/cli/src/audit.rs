// SPDX-License-Identifier: Apache-2.0
//! `gabion audit`: who changed what.

use crate::args::{AuditCommand, Cli};
use crate::client;
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::token::day;
use anyhow::Result;
use api::{AuditEntry, ENTRIES_MAX};
use serde_json::Value;

/// `gabion audit ...`.
pub fn audit(cli: &Cli, command: AuditCommand) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let page = |before: Option<u64>, limit: usize| -> Result<Vec<AuditEntry>> {
        let before = before.map(|before| format!("&before={before}")).unwrap_or_default();
        client::look(&target.door(), &format!("/audit?limit={limit}{before}"))
    };
    match command {
        AuditCommand::List { last } => {
            let entries = page(None, last.into())?;
            output::print(cli.output, &entries, |entries| {
                let heading = ["number", "when", "who", "from", "what", "came of it"];
                output::table(&heading, entries.iter().map(row).collect());
            })
        }
        AuditCommand::Export => {
            // From the newest page back, and then the other way round.
            let mut pages = vec![page(None, ENTRIES_MAX)?];
            while let Some(first) = pages.last().and_then(|page| page.first()) {
                pages.push(page(Some(first.number), ENTRIES_MAX)?);
            }
            for entry in pages.iter().rev().flatten() {
                say!("{}", serde_json::to_string(entry)?);
            }
            Ok(())
        }
    }
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let came = entry.problem.clone().unwrap_or_else(|| "done".to_owned());
    vec![
        entry.number.to_string(),
        day(entry.time),
        entry.caller.clone(),
        entry.from.clone(),
        entry.command.as_ref().map_or_else(|| entry.request.clone(), in_words),
        came,
    ]
}

/// A command and what it was told: `volume-grow name=db size_bytes=8192`.
fn in_words(command: &Value) -> String {
    let none = serde_json::Map::new();
    let fields = command.as_object().unwrap_or(&none);
    let name = fields.get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
    let said = fields.iter().filter(|(field, value)| *field != "command" && !value.is_null());
    let said = said.map(|(field, value)| match value {
        Value::String(text) => format!("{field}={text}"),
        value => format!("{field}={value}"),
    });
    std::iter::once(name).chain(said).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_is_said_with_what_it_was_told() {
        let grow = json!({"command": "volume-grow", "name": "db", "size_bytes": 8192, "x": null});
        assert_eq!(in_words(&grow), "volume-grow name=db size_bytes=8192");
        assert_eq!(in_words(&json!({"command": "cluster-show"})), "cluster-show");
    }
}
