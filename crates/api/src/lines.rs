// SPDX-License-Identifier: Apache-2.0
//! Entries as lines of JSON, in a file of this machine that does not grow for ever: one that is
//! large is put aside for a new one, and the one that was aside before goes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file. Each entry has a field `number`.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
    /// The number of the newest entry.
    newest: u64,
    /// A file of so many bytes is put aside.
    bytes_max: u64,
}

/// All that is needed of an entry to go on.
#[derive(Deserialize)]
struct Number {
    number: u64,
}

impl JsonLines {
    /// Goes on with the file at `path`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let newest = entries_in::<Number>(&path)?.map(|entry| entry.number).max().unwrap_or(0);
        let file = open(&path)?;
        Ok(Self { path, file, newest, bytes_max })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number that the next entry gets.
    pub fn next(&self) -> u64 {
        self.newest + 1
    }

    /// Adds the entry of the next number; it is durable then.
    ///
    /// # Errors
    /// Those of the file system: the entry is not there, or not whole.
    pub fn add(&mut self, entry: &impl Serialize) -> io::Result<()> {
        if self.file.metadata()?.len() >= self.bytes_max {
            fs::rename(&self.path, aside(&self.path))?;
            self.file = open(&self.path)?;
        }
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.newest += 1;
        Ok(())
    }
}

/// Where the file of before is.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

/// Opens a file to write behind its last line, which a loss of power may have cut off.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).read(true).append(true).mode(0o600).open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// All entries of the file at `path` and of the one of before, the oldest first. A line that was
/// cut off by a loss of power is none.
///
/// # Errors
/// Those of the file system.
pub fn entries_in<T: DeserializeOwned>(
    path: &Path,
) -> io::Result<impl Iterator<Item = T> + use<T>> {
    let mut files = Vec::new();
    for path in [aside(path), path.to_owned()] {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => files.push(opened?),
        }
    }
    let lines = files.into_iter().flat_map(|file| BufReader::new(file).split(b'\n'));
    Ok(lines.map_while(Result::ok).filter_map(|line| serde_json::from_slice(&line).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_is_old_goes_and_numbers_go_on() {
        let folder = std::env::temp_dir().join(format!("glines-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("all.jsonl");
        let mut lines = JsonLines::open(path.clone(), 100).expect("a file");
        for _ in 0..20 {
            let entry = json!({ "number": lines.next(), "text": "0123456789" });
            lines.add(&entry).expect("written");
        }
        let numbers = || {
            let entries = entries_in::<Value>(&path).expect("files");
            entries.map(|entry| entry["number"].as_u64().expect("a number")).collect::<Vec<_>>()
        };
        let there = numbers();
        assert!(there.len() < 10 && there.last() == Some(&20), "{there:?}");
        assert!(there.is_sorted(), "{there:?}");
        drop(lines);
        assert_eq!(JsonLines::open(path.clone(), 100).expect("a file").next(), 21);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
