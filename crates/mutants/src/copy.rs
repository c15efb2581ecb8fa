// SPDX-License-Identifier: Apache-2.0
//! The copy of the workspace that is changed and built.

use crate::render::{Rendered, render};
use crate::scan::{Mutant, Site, scan, test_modules};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const RUNTIME: &str = include_str!("runtime.rs");
/// Files that break rules on purpose, or look at what others did: no product.
const LEFT_OUT: [&str; 4] = ["/mutations.rs", "/detours", "/verify/audit.rs", "/samples.rs"];

/// One file with sites.
pub struct ChangedFile {
    pub source: String,
    pub sites: Vec<Site>,
    pub rendered: Rendered,
}

/// The copy.
pub struct Copy {
    pub root: PathBuf,
    /// By path from the root.
    pub files: BTreeMap<String, ChangedFile>,
    /// Labels of mutants that do not compile, or stand in a site that does not.
    pub not_viable: BTreeSet<String>,
}

impl Copy {
    /// Reads the tree at `from` and finds the sites in the product code of `crates`; then writes
    /// the copy to `root`.
    ///
    /// Errors: git, a file, or a source that is not Rust.
    pub fn make(
        from: &Path,
        root: &Path,
        crates: &[String],
        not_viable: BTreeSet<String>,
    ) -> Result<Copy> {
        let mut copy = Copy { root: root.into(), files: BTreeMap::new(), not_viable };
        let names = tracked(from)?;
        let mut next = 1;
        for (path, source) in product(from, &names, crates)? {
            let sites = scan(&path, &source, &mut next).with_context(|| path.clone())?;
            let rendered = render(&source, &[], |_| true);
            copy.files.insert(path, ChangedFile { source, sites, rendered });
        }
        std::fs::create_dir_all(root)?;
        for name in &names {
            if !copy.files.contains_key(name) && name != "crates/base/src/lib.rs" {
                let Ok(bytes) = std::fs::read(from.join(name)) else { continue };
                write(&root.join(name), &bytes)?;
            }
        }
        let mut lib = std::fs::read_to_string(from.join("crates/base/src/lib.rs"))?;
        lib.push_str("\n#[allow(missing_docs)]\npub mod mutants;\n");
        write(&root.join("crates/base/src/lib.rs"), lib.as_bytes())?;
        write(&root.join("crates/base/src/mutants.rs"), RUNTIME.as_bytes())?;
        remove_strangers(root, &names)?;
        copy.write()?;
        Ok(copy)
    }

    fn is_alive(&self, site: &Site) -> bool {
        !site.mutants.iter().any(|mutant| self.not_viable.contains(&mutant.label()))
    }

    /// Writes the changed files, without the sites that do not compile.
    pub fn write(&mut self) -> Result<()> {
        for path in self.files.keys().cloned().collect::<Vec<_>>() {
            let Some(file) = self.files.get(&path) else { continue };
            let rendered = render(&file.source, &file.sites, |site| self.is_alive(site));
            write(&self.root.join(&path), rendered.text.as_bytes())?;
            if let Some(file) = self.files.get_mut(&path) {
                file.rendered = rendered;
            }
        }
        Ok(())
    }

    /// Every mutant, with whether it is part of the build.
    pub fn mutants(&self) -> impl Iterator<Item = (&Mutant, bool)> {
        let sites = self.files.values().flat_map(|file| &file.sites);
        sites.flat_map(|site| {
            let is_alive = self.is_alive(site);
            site.mutants.iter().map(move |mutant| (mutant, is_alive))
        })
    }
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    anyhow::ensure!(output.status.success(), "git ls-files failed: not a git checkout?");
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(String::from).collect())
}

/// The files of product code, with their text.
fn product(from: &Path, names: &[String], crates: &[String]) -> Result<Vec<(String, String)>> {
    let (mut files, mut tests) = (Vec::new(), Vec::new());
    for name in names {
        let Some((own, file)) = name.strip_prefix("crates/").and_then(|n| n.split_once("/src/"))
        else {
            continue;
        };
        let is_test = file == "tests.rs" || file.ends_with("/tests.rs") || file.contains("tests/");
        let is_left_out = is_test || LEFT_OUT.iter().any(|part| name.contains(part));
        if !crates.iter().any(|one| one == own) || !name.ends_with(".rs") || is_left_out {
            continue;
        }
        let Ok(source) = std::fs::read_to_string(from.join(name)) else { continue };
        let folder = match name.strip_suffix("/lib.rs").or(name.strip_suffix("/main.rs")) {
            Some(folder) => folder.to_owned(),
            None => name.trim_end_matches(".rs").to_owned(),
        };
        let modules = test_modules(&source).with_context(|| name.clone())?;
        tests.extend(modules.iter().map(|module| format!("{folder}/{module}")));
        files.push((name.clone(), source));
    }
    let is_below = |path: &str, test: &String| {
        path.strip_prefix(test.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']))
    };
    files.retain(|(path, _)| !tests.iter().any(|test| is_below(path, test)));
    Ok(files)
}

/// Writes what differs alone: cargo builds what is newer.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// A source that the tree does not have any more would still be built.
fn remove_strangers(root: &Path, names: &[String]) -> Result<()> {
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !known.contains(name.as_str()) && name != "crates/base/src/mutants.rs" {
                std::fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}
