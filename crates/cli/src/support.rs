// SPDX-License-Identifier: Apache-2.0
//! `gabion support-bundle`: what somebody who helps wants to see, in one file, without secrets.
//!
//! What cannot be had is noted in the bundle, and is no reason to have none.

mod machine;

use crate::Fail;
use crate::args::{Cli, Output, SupportArgs};
use crate::client::{self, ApiDoor};
use crate::output::{self, say};
use crate::target::TargetHost;
use anyhow::Result;
use api::exchange;
use bundle::{BundleEntry, BundleError, BundleFile, Redactor};
use operator::{AdmissionStep, Command, CommandReply, ReceiverWay, ReceiversReport};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest wait for a shard that is asked for the secrets that are to be taken out.
const SHARD_MAX: Duration = Duration::from_secs(2);
/// Pages of the audit and of changes of health, a thousand entries each: as many as there can be.
const PAGES_MAX: usize = 100;
/// Parts of a URL that are shorter are words, not secrets.
const URL_PART_MIN: usize = 10;
/// What is asked of the API, and under which names it is kept.
const ANSWERS: [(&str, &str); 13] = [
    ("status", "/status"),
    ("cluster", "/cluster"),
    ("volumes", "/volumes?limit=1000"),
    ("deleted-volumes", "/deleted-volumes?limit=1000"),
    ("hosts", "/shards?limit=1000"),
    ("groups", "/groups?limit=1000"),
    ("resyncs", "/resyncs?limit=1000"),
    ("policies", "/policies"),
    ("domains", "/domains"),
    ("orphans", "/orphans"),
    ("users", "/users"),
    ("tokens", "/tokens"),
    ("receivers", "/receivers"),
];
/// What is asked of each shard.
const OF_SHARDS: [&str; 3] = ["metrics", "scrub", "directory-backups"];

/// What a program is told of a bundle.
#[derive(Serialize)]
struct BundleSaid {
    file: PathBuf,
    bytes: u64,
    entries: Vec<BundleEntry>,
}

/// `gabion support-bundle`.
pub fn support(cli: &Cli, args: &SupportArgs) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let since = now.saturating_sub(args.since.as_secs());
    let file = args.to.clone().unwrap_or_else(|| usual_file(now));
    let redactor = Redactor::knowing(secrets(&target));
    let bundle = BundleFile::create(&file, redactor, now).map_err(told)?;
    let mut gathered = Gathered { bundle, is_quiet: cli.output == Output::Json };
    gathered.all(&target, since)?;
    let head = format!(
        "Gabion {}, support bundle of {}\nsince {}\n\nWhat is in it, and what is not, stands in \
         contents.json.\nSecrets were taken out; '(removed)' stands where they were.\n",
        env!("CARGO_PKG_VERSION"),
        said(now),
        said(since),
    );
    let (entries, bytes) = gathered.bundle.finish(&head).map_err(told)?;
    let report = BundleSaid { file, bytes, entries };
    output::print(cli.output, &report, |report| {
        let removed: u64 = report.entries.iter().map(|entry| entry.removed).sum();
        let size = base::format_size(report.bytes);
        say!("{} has {} entries, {size}", report.file.display(), report.entries.len());
        say!("{removed} secrets were taken out; look through it before you give it away");
    })
}

fn told(error: BundleError) -> Fail {
    Fail::failed(error.to_string())
}

/// A time as RFC 3339 writes it.
fn said(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

fn usual_file(now: u64) -> PathBuf {
    let name = machine::host_name().unwrap_or_else(|| "host".to_owned());
    let time = said(now).replace(['-', ':'], "");
    PathBuf::from(format!("gabion-support-{name}-{time}.tar.gz"))
}

/// What receivers of notifications are told with, so that it is found wherever it stands. Nothing
/// where no shard answers: forms and names of fields are looked for even so.
fn secrets(target: &TargetHost) -> Vec<String> {
    let command = Command::Admission(AdmissionStep::ReceiversGet);
    let ask = |socket: &Path| match exchange(socket, &command, SHARD_MAX).ok()? {
        CommandReply::Ok(value) => serde_json::from_value::<ReceiversReport>(value).ok(),
        CommandReply::Error(_) => None,
    };
    let found = target.control_sockets().iter().find_map(|(_, socket)| ask(socket));
    let mut secrets = Vec::new();
    for receiver in found.into_iter().flat_map(|found| found.receivers) {
        secrets.extend(receiver.way.secret().map(|secret| secret.0.clone()));
        if let ReceiverWay::Webhook { url, .. } = receiver.way {
            secrets.extend(secrets_of_url(&url.0));
        }
    }
    secrets
}

/// What may let somebody in behind the host of a URL: all of it, and each of its longer parts,
/// which may stand somewhere by themselves.
fn secrets_of_url(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let Some(at) = rest.find(['/', '?']) else { return Vec::new() };
    let all = rest[at..].to_owned();
    let parts = all.split(['/', '?', '&', '=']).filter(|part| part.len() >= URL_PART_MIN);
    let parts: Vec<String> = parts.map(str::to_owned).collect();
    std::iter::once(all).chain(parts).collect()
}

/// A bundle that is being made.
struct Gathered {
    bundle: BundleFile,
    /// Nothing is said while it is made.
    is_quiet: bool,
}

impl Gathered {
    fn all(&mut self, target: &TargetHost, since: u64) -> Result<()> {
        self.add("versions.txt", Ok(machine::versions()))?;
        for (name, text) in machine::facts() {
            self.add(&format!("machine/{name}"), text)?;
        }
        for path in target.config_files() {
            self.add(&entry_name("config", &path), machine::tail(&path))?;
        }
        for (name, text) in machine::logs(target.log_file().as_deref(), since) {
            self.add(&format!("logs/{name}"), text)?;
        }
        self.answers(target, since)
    }

    /// What the API answers.
    fn answers(&mut self, target: &TargetHost, since: u64) -> Result<()> {
        let door = target.door();
        for (name, path) in ANSWERS {
            self.add(&format!("api/{name}.json"), look(&door, path))?;
        }
        let health = client::ask::<Value>(&door, &Command::HealthShow);
        self.add("api/health.json", health.and_then(|value| in_lines(&value)))?;
        self.add("api/health-history.json", history(&door, since))?;
        self.add("api/audit.json", audit(&door, since))?;
        self.add("api/metrics.txt", client::text(&door, "/metrics"))?;
        for (shard, _) in target.shards() {
            for what in OF_SHARDS {
                let name = format!("api/shards/{shard}/{what}.json");
                self.add(&name, look(&door, &format!("/shards/{shard}/{what}")))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: Result<String>) -> Result<()> {
        let entry = match text {
            Ok(text) => self.bundle.add(name, &text, None).map_err(told)?,
            Err(error) => self.bundle.lacks(name, &format!("{error:#}")),
        };
        if !self.is_quiet {
            let size = base::format_size(entry.bytes);
            let removed = match entry.removed {
                0 => String::new(),
                count => format!(", {count} secrets taken out"),
            };
            match &entry.note {
                Some(note) => say!("{}  {size}{removed}: {note}", entry.name),
                None => say!("{}  {size}{removed}", entry.name),
            }
        }
        Ok(())
    }
}

/// The name of an entry for a file.
fn entry_name(folder: &str, path: &Path) -> String {
    let parts: Vec<String> = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|it| it != "/")
        .collect();
    let last = parts.len().saturating_sub(2);
    format!("{folder}/{}", parts[last..].join("-"))
}

fn in_lines(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

fn look(door: &ApiDoor, path: &str) -> Result<String> {
    in_lines(&client::look::<Value>(door, path)?)
}

/// The changes of health since a time, the newest first.
fn history(door: &ApiDoor, since: u64) -> Result<String> {
    let begin = said(since);
    let (mut all, mut after) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let page: Value = client::look(door, &format!("/health/history?limit=1000{after}"))?;
        let items = page["items"].as_array().cloned().unwrap_or_default();
        let is_new = |item: &Value| item["time"].as_str().is_some_and(|time| time >= &begin[..]);
        let count = items.len();
        all.extend(items.into_iter().take_while(is_new));
        let Some(next) = page["next"].as_str().filter(|_| all.len() % 1000 == 0 && count > 0)
        else {
            break;
        };
        after = format!("&after={next}");
    }
    in_lines(&Value::Array(all))
}

/// The entries of the audit since a time, the newest page first.
fn audit(door: &ApiDoor, since: u64) -> Result<String> {
    let (mut all, mut before) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let page: Vec<Value> = client::look(door, &format!("/audit?limit=1000{before}"))?;
        let Some(first) = page.first().cloned() else { break };
        let is_new = |entry: &Value| entry["time"].as_u64().is_some_and(|time| time >= since);
        let is_done = !is_new(&first);
        all.extend(page.into_iter().filter(is_new));
        let Some(number) = first["number"].as_u64().filter(|_| !is_done) else { break };
        before = format!("&before={number}");
    }
    in_lines(&Value::Array(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_named_by_the_end_of_its_path() {
        assert_eq!(
            entry_name("config", Path::new("/etc/gabion/host.toml")),
            "config/gabion-host.toml"
        );
        assert_eq!(entry_name("config", Path::new("host.toml")), "config/host.toml");
        assert_eq!(said(0), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn what_lets_somebody_in_is_found_in_a_url() {
        let url = "https://a.example/services/T0123456789?key=abcdefghijk";
        let all = ["/services/T0123456789?key=abcdefghijk", "T0123456789", "abcdefghijk"];
        assert_eq!(secrets_of_url(url), all);
        assert_eq!(secrets_of_url("https://a.example"), [""; 0]);
    }
}
