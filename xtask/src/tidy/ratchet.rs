// SPDX-License-Identifier: Apache-2.0
//! Length of files and functions. What is over a limit stands in `xtask/ratchet.txt` with its
//! exact length: it can only become shorter, and nothing new can join it unseen.

use std::collections::BTreeMap;

use super::source::is_source;
use super::{Finding, Tree};
use crate::rust::{functions, views};

/// Lines of a file: longer ones hide two subjects.
const FILE_LINES_MAX: usize = 600;

/// Lines of a function: what fits on one screen.
const FUNCTION_LINES_MAX: usize = 70;

const LIST: &str = "xtask/ratchet.txt";

/// `file PATH` or `function PATH::NAME` -> (lines, line on which it begins).
type Lengths = BTreeMap<String, (usize, usize)>;

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let over = over(tree);
    let listed = listed(tree, findings);
    for (key, &(lines, at)) in &over {
        let path = key_path(key);
        match listed.get(key) {
            None => {
                let message = format!("{key} is {lines} lines, at most {}", limit(key));
                findings.push(Finding::new(path, at, message));
            }
            Some(&(allowed, _)) if lines > allowed => {
                let message = format!("{key} grew from {allowed} to {lines} lines: split it");
                findings.push(Finding::new(path, at, message));
            }
            Some(&(allowed, at)) if lines < allowed => {
                let message = format!("{key} shrank: write {lines}, not {allowed}");
                findings.push(Finding::new(LIST, at, message));
            }
            Some(_) => {}
        }
    }
    for (key, &(_, at)) in listed.iter().filter(|(key, _)| !over.contains_key(*key)) {
        let message = format!("{key} is within its limit or gone: remove this line");
        findings.push(Finding::new(LIST, at, message));
    }
}

fn limit(key: &str) -> usize {
    if key.starts_with("file ") { FILE_LINES_MAX } else { FUNCTION_LINES_MAX }
}

fn key_path(key: &str) -> &str {
    let name = key.split_once(' ').map_or(key, |(_, name)| name);
    name.split("::").next().unwrap_or(name)
}

/// Everything over a limit; of functions of one name in one file, the longest.
fn over(tree: &Tree) -> Lengths {
    let mut lengths = Lengths::new();
    for (path, text) in tree.texts() {
        let lines = text.lines().count();
        if is_source(path, text) && lines > FILE_LINES_MAX {
            lengths.insert(format!("file {path}"), (lines, 1));
        }
        if !path.ends_with(".rs") {
            continue;
        }
        for function in functions(&views(text).code) {
            if function.lines > FUNCTION_LINES_MAX {
                let key = format!("function {path}::{}", function.name);
                let entry = lengths.entry(key).or_default();
                *entry = (*entry).max((function.lines, function.line));
            }
        }
    }
    lengths
}

fn listed(tree: &Tree, findings: &mut Vec<Finding>) -> Lengths {
    let mut lengths = Lengths::new();
    for (index, line) in tree.text(LIST).unwrap_or("").lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.rsplit_once(' ').and_then(|(key, n)| Some((key, n.parse().ok()?)));
        let parsed = parsed.filter(|(key, _)| key.starts_with("file ") || key.contains("::"));
        match parsed {
            Some((key, lines)) => drop(lengths.insert(key.into(), (lines, index + 1))),
            None => {
                let message = "not `file PATH LINES` or `function PATH::NAME LINES`";
                findings.push(Finding::new(LIST, index + 1, message));
            }
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(source: &str, list: &str) -> Vec<String> {
        let tree = Tree::of(&[("a.rs", source), (LIST, list)]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.into_iter().map(|f| f.to_string()).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn the_limits_themselves_pass() {
        assert!(messages(&function(70), "").is_empty());
        assert!(messages(&"// x\n".repeat(600), "").is_empty());
    }

    #[test]
    fn longer_ones_are_found() {
        assert!(messages(&function(71), "")[0].contains("is 71 lines"));
        assert!(messages(&"// x\n".repeat(601), "")[0].contains("is 601 lines"));
    }

    #[test]
    fn a_listed_one_may_stay_but_neither_grow_nor_shrink_unseen() {
        let list = "# why\nfunction a.rs::long 80\n";
        assert!(messages(&function(80), list).is_empty());
        assert!(messages(&function(81), list)[0].contains("grew"));
        assert!(messages(&function(79), list)[0].contains("write 79"));
        assert!(messages(&function(70), list)[0].contains("remove this line"));
    }

    #[test]
    fn a_malformed_list_is_found() {
        assert_eq!(messages("", "function a.rs::long\n").len(), 1);
        assert_eq!(messages("", "nonsense 3\n").len(), 1);
    }
}
