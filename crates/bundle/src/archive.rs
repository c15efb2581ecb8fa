// SPDX-License-Identifier: Apache-2.0
//! The file: a tar archive, compressed with gzip. It is for nobody else on the machine, and has its
//! name once it is whole.

use crate::redact::Redactor;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Largest entry: of a longer text the newest lines are kept. It is held in memory a few times.
pub const ENTRY_BYTES_MAX: usize = 32 << 20;
/// All entries together, before they are compressed. What is added when it is full is left out, and
/// said to be.
pub const BUNDLE_BYTES_MAX: u64 = 256 << 20;
/// Kept free for the list of what is in the bundle.
const LIST_BYTES: u64 = 1 << 20;
/// Longest name of an entry: what every reader of tar files takes.
const NAME_BYTES_MAX: usize = 100;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be made or written.
    #[error("cannot write the bundle '{path}': {source}; choose another place with --to")]
    Write {
        /// Its path.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// There is one of this name.
    #[error("'{path}' exists: choose another name with --to")]
    Exists {
        /// Its path.
        path: String,
    },
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleEntry {
    /// Its name in the bundle.
    pub name: String,
    /// Its bytes, before they are compressed.
    pub bytes: u64,
    /// Secrets that were taken out of it.
    pub removed: u64,
    /// What is not in it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A bundle that is being written.
pub struct BundleFile {
    path: PathBuf,
    part: PathBuf,
    tar: Builder<GzEncoder<BufWriter<File>>>,
    redactor: Redactor,
    entries: Vec<BundleEntry>,
    bytes: u64,
    /// When it is made, seconds since 1970.
    now: u64,
}

impl BundleFile {
    /// Begins one.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn create(path: &Path, redactor: Redactor, now: u64) -> Result<Self, BundleError> {
        if path.exists() {
            return Err(BundleError::Exists { path: path.display().to_string() });
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let _ = fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        let file = file.map_err(|source| failed(path, source))?;
        let packed = GzEncoder::new(BufWriter::new(file), Compression::default());
        let tar = Builder::new(packed);
        let (path, entries) = (path.to_owned(), Vec::new());
        Ok(Self { path, part, tar, redactor, entries, bytes: 0, now })
    }

    /// Adds a text without its secrets. `note`: what is not in it, and why.
    ///
    /// # Errors
    /// [`BundleError::Write`].
    pub fn add(
        &mut self,
        name: &str,
        text: &str,
        note: Option<String>,
    ) -> Result<&BundleEntry, BundleError> {
        let (name, _) = self.redactor.clean(name);
        let (kept, is_cut) = newest(text, ENTRY_BYTES_MAX);
        let (cleaned, removed) = self.redactor.clean(kept);
        let (cleaned, is_cut_again) = newest(&cleaned, ENTRY_BYTES_MAX);
        let mut note = note.map(|note| self.redactor.clean(&note).0);
        if is_cut || is_cut_again {
            let older = "the older lines are left out: an entry has 32 MiB at most";
            note = Some(note.map_or_else(|| older.to_owned(), |note| format!("{note}; {older}")));
        }
        self.put(&name, cleaned, removed, note)
    }

    /// Notes what could not be gathered.
    pub fn lacks(&mut self, name: &str, why: &str) -> &BundleEntry {
        let note = Some(self.redactor.clean(why).0);
        self.noted(BundleEntry { name: name.to_owned(), bytes: 0, removed: 0, note })
    }

    /// Ends it: with the list of what is in it. Returns that list, and the size of the file.
    ///
    /// # Errors
    /// [`BundleError::Write`].
    pub fn finish(mut self, head: &str) -> Result<(Vec<BundleEntry>, u64), BundleError> {
        let list = serde_json::to_string_pretty(&self.entries).unwrap_or_default();
        let (head, _) = self.redactor.clean(head);
        self.append("README.txt", head.as_bytes())?;
        self.append("contents.json", list.as_bytes())?;
        let path = self.path.clone();
        let wrote = |source| failed(&path, source);
        let packed = self.tar.into_inner().map_err(wrote)?;
        let mut file = packed.finish().map_err(wrote)?;
        file.flush().map_err(wrote)?;
        let file = file.into_inner().map_err(|error| wrote(error.into_error()))?;
        file.sync_all().map_err(wrote)?;
        let size = file.metadata().map_err(wrote)?.len();
        fs::rename(&self.part, &self.path).map_err(wrote)?;
        Ok((self.entries, size))
    }

    fn put(
        &mut self,
        name: &str,
        text: &str,
        removed: u64,
        note: Option<String>,
    ) -> Result<&BundleEntry, BundleError> {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let is_too_much = self.bytes.saturating_add(bytes) > BUNDLE_BYTES_MAX - LIST_BYTES;
        if is_too_much || name.len() > NAME_BYTES_MAX {
            let why = "left out: the bundle has 256 MiB already; ask for less with --since";
            return Ok(self.lacks(name, why));
        }
        self.append(name, text.as_bytes())?;
        self.bytes += bytes;
        Ok(self.noted(BundleEntry { name: name.to_owned(), bytes, removed, note }))
    }

    fn noted(&mut self, entry: BundleEntry) -> &BundleEntry {
        self.entries.push(entry);
        // It was pushed in the line before.
        let last = self.entries.len() - 1;
        &self.entries[last]
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(self.now);
        header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let place = format!("gabion-support/{name}");
        let added = self.tar.append_data(&mut header, place, bytes);
        added.map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> BundleError {
    BundleError::Write { path: path.display().to_string(), source }
}

/// The newest lines of a text that fit, and whether others do not.
fn newest(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most {
        return (text, false);
    }
    let mut begin = text.len() - most;
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let line = text[begin..].find('\n').map_or(text.len(), |end| begin + end + 1);
    (&text[line..], true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    fn read(path: &Path) -> BTreeMap<String, String> {
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).expect("a file")));
        let entries = archive.entries().expect("entries").map(|entry| {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a path").display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            (name, text)
        });
        entries.collect()
    }

    #[test]
    fn a_bundle_has_what_was_added_without_secrets() {
        let folder = std::env::temp_dir().join(format!("gbundle-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("one.tar.gz");
        let redactor = Redactor::knowing(["open sesame".to_owned()]);
        let mut bundle = BundleFile::create(&path, redactor.clone(), 1).expect("a file");
        let entry = bundle.add("logs/a.log", "it said open sesame\n", None).expect("added");
        assert_eq!((entry.removed, entry.note.as_deref()), (1, None));
        bundle.lacks("logs/b.log", "no such file, says open sesame");
        assert!(!path.exists(), "it has its name once it is whole");
        let (entries, size) = bundle.finish("made of open sesame").expect("finished");
        assert_eq!((entries.len(), size > 100), (2, true));
        let there = read(&path);
        assert_eq!(there["gabion-support/logs/a.log"], "it said (removed)\n");
        assert!(there["gabion-support/contents.json"].contains("no such file"));
        assert!(there.values().all(|text| !text.contains("sesame")), "{there:?}");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(BundleFile::create(&path, redactor, 1), Err(BundleError::Exists { .. })));
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn the_newest_lines_of_a_long_text_are_kept() {
        assert_eq!(newest("one\ntwo\nthree\n", 8), ("three\n", true));
        assert_eq!(newest("one\n", 8), ("one\n", false));
        assert_eq!(newest("\u{e9}\u{e9}\u{e9}", 3), ("", true));
    }
}
