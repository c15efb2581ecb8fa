// SPDX-License-Identifier: Apache-2.0
//! Manifests: dependency lists are sorted, and dependencies point downwards only.

use std::path::Path;

use super::{Finding, Tree};

/// The layers, lowest first (docs/architecture.md): a crate may depend only on crates of a lower
/// number.
const LAYERS: [(&str, u8); 32] = [
    ("base", 0),
    ("bundle", 0),
    ("env", 1),
    ("devicemodel", 2),
    ("format", 2),
    ("tls", 2),
    ("wire", 2),
    ("keys", 3),
    ("ring", 3),
    ("sim", 3),
    ("directory", 4),
    ("diskgroup", 4),
    ("peer", 4),
    ("oracle", 4),
    ("placement", 4),
    ("object", 5),
    ("volume", 6),
    ("nbd", 7),
    ("operator", 7),
    ("notify", 8),
    ("history", 8),
    ("nbdclient", 8),
    ("control", 8),
    ("host", 8),
    ("api", 9),
    ("cli", 10),
    ("storm", 10),
    ("fuzz", 11),
    ("chaos", 11),
    ("model", 11),
    ("mutants", 11),
    ("xtask", 11),
];

/// The two drivers. Product code sees `Env`, never a driver. Below this layer only tests use them.
const DRIVERS: [&str; 2] = ["ring", "sim"];
const DRIVER_USER_LAYER: u8 = 8;

/// For tests alone. The crate below that it is built on may use it in its own tests: cargo permits
/// that circle.
const TEST_SUPPORT: [&str; 1] = ["nbdclient"];

struct Dependency {
    name: String,
    line: usize,
    /// It stands in `[dependencies]`, so it is not only for tests.
    is_product: bool,
    /// Dependencies of one block (no blank line, comment or heading between) share a number.
    block: usize,
}

pub fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    if path != "Cargo.toml" && !path.ends_with("/Cargo.toml") {
        return;
    }
    let dependencies = dependencies(text);
    for pair in dependencies.windows(2) {
        let [before, after] = pair else { continue };
        if before.block == after.block && before.name > after.name {
            let message = format!("`{}` belongs before `{}` (or --fix)", after.name, before.name);
            findings.push(Finding::new(path, after.line, message));
        }
    }
    if let Some(own) = package_name(text) {
        for dependency in &dependencies {
            if let Some(message) = direction(own, dependency) {
                findings.push(Finding::new(path, dependency.line, message));
            }
        }
        if layer(own).is_none() {
            let message = format!("`{own}` has no layer: add it to xtask and docs/architecture.md");
            findings.push(Finding::new(path, 1, message));
        }
    }
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(crate_name, _)| *crate_name == name).map(|&(_, layer)| layer)
}

fn direction(own: &str, dependency: &Dependency) -> Option<String> {
    let mine = layer(own)?;
    let name = dependency.name.as_str();
    let theirs = layer(name)?;
    let is_test_support = !dependency.is_product && TEST_SUPPORT.contains(&name);
    // A crate's tests ask the crate itself for a feature.
    if theirs >= mine && own != name && !is_test_support {
        return Some(format!("`{own}` (layer {mine}) may not depend on `{name}` (layer {theirs})"));
    }
    let is_driver = dependency.is_product && DRIVERS.contains(&name);
    (is_driver && mine < DRIVER_USER_LAYER)
        .then(|| format!("`{own}` may use `{name}` in tests only: product code sees Env"))
}

fn package_name(text: &str) -> Option<&str> {
    let mut is_package = false;
    for line in text.lines() {
        if line.starts_with('[') {
            is_package = line == "[package]";
        } else if is_package && let Some(rest) = line.strip_prefix("name = ") {
            return Some(rest.trim().trim_matches('"'));
        }
    }
    None
}

fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = "";
    let mut block = 0;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let name = entry_name(line).filter(|_| section.ends_with("dependencies"));
        match name {
            None => block += 1,
            Some(name) => found.push(Dependency {
                name: name.into(),
                line: index + 1,
                is_product: !section.ends_with("dev-dependencies"),
                block,
            }),
        }
    }
    found
}

/// The key of `key = ...` or `key.workspace = ...`; `None` for any other line.
fn entry_name(line: &str) -> Option<&str> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)))?;
    let rest = line[end..].trim_start();
    (end > 0 && (rest.starts_with('=') || rest.starts_with('.'))).then(|| &line[..end])
}

/// Sorts the dependency blocks of every manifest under `root`; returns what it changed.
pub fn sort_manifests(root: &Path) -> std::io::Result<Vec<String>> {
    let mut changed = Vec::new();
    for (path, text) in Tree::load(root)?.texts().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let sorted = sorted(text);
        if sorted != text {
            std::fs::write(root.join(path), sorted)?;
            changed.push(path.into());
        }
    }
    Ok(changed)
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let dependencies = dependencies(text);
    for block in dependencies.chunk_by(|a, b| a.block == b.block) {
        let [first, .., last] = block else { continue };
        lines[first.line - 1..last.line].sort_by_key(|line| entry_name(line));
    }
    let mut sorted = lines.join("\n");
    sorted.push('\n');
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n\n{rest}")
    }

    fn messages(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check("crates/x/Cargo.toml", text, &mut findings);
        findings.into_iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn downwards_and_sorted_passes() {
        let text = "[dependencies]\nbase = { workspace = true }\nenv.workspace = true\n\n\
                    [dev-dependencies]\nproptest = \"1\"\nsim = { workspace = true }\n";
        assert!(messages(&manifest("object", text)).is_empty());
    }

    #[test]
    fn upwards_and_sideways_are_found() {
        let up = messages(&manifest("wire", "[dependencies]\nobject = { path = \"x\" }\n"));
        assert!(up[0].contains("may not depend on `object`"), "{up:?}");
        let beside = messages(&manifest("peer", "[dependencies]\ndirectory = \"1\"\n"));
        assert!(beside[0].contains("may not depend on `directory`"), "{beside:?}");
        let tests = messages(&manifest("env", "[dev-dependencies]\nsim = \"1\"\n"));
        assert_eq!(tests.len(), 1, "{tests:?}");
    }

    #[test]
    fn a_driver_below_the_host_is_for_tests_only() {
        let product = messages(&manifest("volume", "[dependencies]\nring = \"1\"\n"));
        assert!(product[0].contains("tests only"), "{product:?}");
        assert!(messages(&manifest("storm", "[dependencies]\nsim = \"1\"\n")).is_empty());
    }

    #[test]
    fn test_support_above_a_crate_is_for_its_tests_only() {
        let tests = messages(&manifest("nbd", "[dev-dependencies]\nnbdclient = \"1\"\n"));
        assert!(tests.is_empty(), "{tests:?}");
        let product = messages(&manifest("nbd", "[dependencies]\nnbdclient = \"1\"\n"));
        assert!(product[0].contains("may not depend on `nbdclient`"), "{product:?}");
    }

    #[test]
    fn a_crate_without_layer_is_found() {
        assert!(messages(&manifest("attic", ""))[0].contains("no layer"));
    }

    #[test]
    fn an_unsorted_list_is_found_and_can_be_sorted() {
        let text = "[dependencies]\nenv = \"1\"\nbase = \"1\"\n\nzz = \"1\"\naa = \"1\"\n";
        let text = manifest("object", text);
        assert_eq!(messages(&text).len(), 2);
        let sorted = sorted(&text);
        assert!(messages(&sorted).is_empty(), "{sorted}");
        assert!(sorted.contains("base = \"1\"\nenv = \"1\"\n\naa = \"1\"\nzz = \"1\"\n"));
    }
}
