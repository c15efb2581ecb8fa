// SPDX-License-Identifier: Apache-2.0
//! Who changed what, from where, and what came of it: lines of JSON, in a file of this machine.
//!
//! There is an entry for each request that would change something and whose caller is known, also
//! where it was refused. Callers that nobody knows leave none: they could fill the file.

use crate::access::ApiCaller;
use crate::lines::{JsonLines, entries_in};
use crate::problem::Problem;
use operator::Command;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// A file that is larger is put aside for a new one; the one that was aside before goes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Entries of one answer, at most.
pub const ENTRIES_MAX: usize = 1000;
/// Entries of one answer, if it does not say how many.
pub const ENTRIES_DEFAULT: usize = 100;

/// A request that would change something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number on this machine, from 1 on.
    pub number: u64,
    /// When it was answered, seconds since 1970.
    pub time: u64,
    /// Whose token it came with; `uid` and a number: a user of this machine.
    pub caller: String,
    /// Where it came from: an address, or `unix`.
    pub from: String,
    /// What was asked for, as this release or one of before says it. None where the request said
    /// nothing that could be.
    #[schema(value_type = Option<Object>)]
    pub command: Option<Value>,
    /// The shard that was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The method and the path of the request.
    pub request: String,
    /// The status of its answer.
    pub status: u16,
    /// Why it was not carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What an entry is made of.
pub struct AuditedDeed<'a> {
    pub caller: &'a ApiCaller,
    pub from: &'a str,
    pub request: String,
    pub wanted: Option<(Command, Option<String>)>,
    pub problem: Option<&'a Problem>,
}

/// The file, where there is one.
pub struct AuditLog(Option<Mutex<JsonLines>>);

impl AuditLog {
    /// Goes on with the file at `path`; without a path nothing is kept.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        Ok(Self(Some(Mutex::new(JsonLines::open(path, FILE_BYTES_MAX)?))))
    }

    /// Notes what was asked for and what came of it. Where it cannot be written, the log says so,
    /// and the change stands.
    pub fn note(&self, deed: AuditedDeed<'_>) {
        let Some(lines) = &self.0 else { return };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entry(lines.next(), deed);
        if let Err(error) = lines.add(&entry) {
            tracing::error!(%error, path = %lines.path().display(), "a change is not in the audit");
        }
    }

    /// The newest entries with numbers below `before`, the oldest of them first.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn entries(&self, before: u64, limit: usize) -> io::Result<Vec<AuditEntry>> {
        let Some(lines) = &self.0 else { return Ok(Vec::new()) };
        let path = lines.lock().unwrap_or_else(PoisonError::into_inner).path().to_owned();
        let mut found = std::collections::VecDeque::new();
        for entry in entries_in(&path)?.filter(|entry: &AuditEntry| entry.number < before) {
            if found.len() == limit {
                found.pop_front();
            }
            found.push_back(entry);
        }
        Ok(found.into())
    }
}

fn entry(number: u64, deed: AuditedDeed<'_>) -> AuditEntry {
    let (command, shard) = deed.wanted.unzip();
    AuditEntry {
        number,
        time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        caller: deed.caller.name.clone(),
        from: deed.from.to_owned(),
        command: command.and_then(|command| serde_json::to_value(command).ok()),
        shard: shard.flatten(),
        request: deed.request,
        status: deed.problem.map_or(200, |problem| problem.status),
        problem: deed.problem.map(|problem| problem.detail.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gaudit-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    fn grow(log: &AuditLog, size_bytes: u64, problem: Option<&Problem>) {
        let caller = ApiCaller::local(Some(7));
        let command = Command::VolumeGrow { name: "db".to_owned(), size_bytes };
        let wanted = Some((command, None));
        let request = "PUT /api/v1/volumes/db/size".to_owned();
        log.note(AuditedDeed { caller: &caller, from: "10.0.0.1:1", request, wanted, problem });
    }

    #[test]
    fn what_was_noted_is_found_again_and_numbers_go_on() {
        let folder = folder("again");
        let path = folder.join("audit.jsonl");
        let open = || AuditLog::open(Some(path.clone())).expect("a file");
        let log = open();
        grow(&log, 1, None);
        grow(&log, 2, Some(&Problem::forbidden("ci", "viewer", "operator")));
        // A loss of power cut the next one off.
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{\"number\":3,\"ti"))
            .expect("written");
        drop(log);
        let log = open();
        grow(&log, 3, None);
        grow(&log, 4, None);
        let numbers = |before, limit| {
            let entries = log.entries(before, limit).expect("a file");
            entries.into_iter().map(|entry| entry.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(u64::MAX, 10), [1, 2, 3, 4]);
        assert_eq!((numbers(u64::MAX, 2), numbers(4, 1)), (vec![3, 4], vec![3]));
        let second = &log.entries(3, 1).expect("a file")[0];
        assert_eq!((second.status, second.caller.as_str()), (403, "uid 7"));
        assert!(second.problem.as_ref().is_some_and(|why| why.contains("viewer")));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
