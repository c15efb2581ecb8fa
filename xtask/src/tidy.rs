// SPDX-License-Identifier: Apache-2.0
//! The checks of `xtask tidy`. Each takes the tree as text and returns findings, so that a test can
//! show it fail on a tree of two lines.

mod citations;
mod licences;
mod links;
mod manifest;
mod ratchet;
mod shape;
mod sizes;
mod source;

use std::fmt;
use std::path::Path;
use std::process::Command;

pub use manifest::sort_manifests;
pub use sizes::sizes;

/// A file that git tracks, or would track once added.
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its content; `None` when it is not UTF-8.
    pub text: Option<String>,
}

/// What is checked.
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
    /// Everything that any crate of the workspace is built of.
    packages: Vec<licences::Package>,
}

/// Something that must change before the tree is tidy.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, message: message.into() }
    }
}

impl Tree {
    /// Reads every file that git tracks or would track, and asks cargo for the dependencies.
    /// Errors: git or cargo is missing or fails.
    pub fn load(root: &Path) -> std::io::Result<Tree> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        if !output.status.success() {
            return Err(std::io::Error::other("git ls-files failed: not a git checkout?"));
        }
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut files = Vec::new();
        for path in names.split('\0').filter(|name| !name.is_empty()) {
            // A tracked file that was deleted but not yet committed is not there to be read.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            files.push(File { path: path.into(), text: String::from_utf8(bytes).ok() });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Tree { files, packages: licences::packages(root)? })
    }

    /// The text files with their paths.
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|f| Some((f.path.as_str(), f.text.as_deref()?)))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(p, _)| *p == path).map(|(_, text)| text)
    }

    fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|f| f.path == path || f.path.starts_with(&folder))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Tree {
        let file =
            |&(path, text): &(&str, &str)| File { path: path.into(), text: Some(text.into()) };
        Tree { files: files.iter().map(file).collect(), packages: Vec::new() }
    }
}

/// Every check on the whole tree, findings in order of path and line.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        source::check(path, text, &mut findings);
        manifest::check(path, text, &mut findings);
        links::check(tree, path, text, &mut findings);
    }
    ratchet::check(tree, &mut findings);
    citations::check(tree, &mut findings);
    licences::check(tree, &mut findings);
    findings.sort();
    findings
}
