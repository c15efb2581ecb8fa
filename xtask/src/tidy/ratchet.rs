// SPDX-License-Identifier: Apache-2.0
//! What is over a limit today stands in `xtask/ratchet.txt` with its exact value: it can only
//! become smaller, and nothing new can join it unseen.

use std::collections::BTreeMap;

use super::source::is_source;
use super::{Finding, Tree, shape};
use crate::rust::{functions, views};

/// The line of a crate may stand this much above its size, so that not every correction has to
/// touch it.
const CRATE_SLACK: usize = 250;

/// What has a limit: the first word of a line of the list, the limit, and what is counted.
const KINDS: &[(&str, usize, &str)] = &[
    // Longer ones hide two subjects.
    ("file", 600, "lines"),
    // What fits on one screen.
    ("function", 70, "lines"),
    // More is no room any more, it is a city.
    ("crate", 5000, "lines of product code"),
    // Whoever reads a larger one must hold all of it in mind at once.
    ("circle", 4, "files that import each other"),
    // What stands below what can be said, and drawn.
    ("rooms", 1, "top-level modules that import each other"),
    // One meaning per name.
    ("type", 1, "types of that name that are public or seen in all of their crate"),
    // `try_from` says what happens to what does not fit.
    ("casts", 0, "numeric casts with `as`"),
];

const LIST: &str = "xtask/ratchet.txt";

/// One value that has a limit, and where it is found.
pub struct Measure {
    pub value: usize,
    pub path: String,
    pub line: usize,
}

/// `KIND NAME` -> the value; of two functions of one name in one file, the longer one's.
pub type Measures = BTreeMap<String, Measure>;

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let over = over(tree);
    let listed = listed(tree, findings);
    for (key, Measure { value, path, line }) in &over {
        let Some((_, limit, what)) = kind(key) else { continue };
        match listed.get(key) {
            None => {
                let message = format!("{key}: {value} {what}, at most {limit}");
                findings.push(Finding::new(path, *line, message));
            }
            Some(&(allowed, _)) if *value > allowed => {
                let message = format!("{key} grew from {allowed} to {value} {what}");
                findings.push(Finding::new(path, *line, message));
            }
            Some(&(allowed, at)) if *value + slack(key) < allowed => {
                let message = format!("{key} shrank: write {value}, not {allowed}");
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

fn kind(key: &str) -> Option<(&'static str, usize, &'static str)> {
    let (word, name) = key.split_once(' ')?;
    KINDS.iter().copied().find(|(kind, ..)| *kind == word && !name.is_empty())
}

fn slack(key: &str) -> usize {
    if key.starts_with("crate ") { CRATE_SLACK } else { 0 }
}

/// Everything that has a limit, whether over it or not.
pub fn measures(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    lengths(tree, &mut measures);
    shape::measure(tree, &mut measures);
    measures
}

fn over(tree: &Tree) -> Measures {
    let mut measures = measures(tree);
    measures.retain(|key, measure| kind(key).is_some_and(|(_, limit, _)| measure.value > limit));
    measures
}

fn lengths(tree: &Tree, measures: &mut Measures) {
    for (path, text) in tree.texts() {
        let mut put = |key: String, value: usize, line: usize| {
            if measures.get(&key).is_none_or(|before| before.value < value) {
                measures.insert(key, Measure { value, path: path.into(), line });
            }
        };
        if is_source(path, text) {
            put(format!("file {path}"), text.lines().count(), 1);
        }
        if path.ends_with(".rs") {
            for function in functions(&views(text).code) {
                let key = format!("function {path}::{}", function.name);
                put(key, function.lines, function.line);
            }
        }
    }
}

/// `KIND NAME` -> (value, line of the list).
fn listed(tree: &Tree, findings: &mut Vec<Finding>) -> BTreeMap<String, (usize, usize)> {
    let mut list = BTreeMap::new();
    for (index, line) in tree.text(LIST).unwrap_or("").lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.rsplit_once(' ').and_then(|(key, n)| Some((key, n.parse().ok()?)));
        match parsed.filter(|(key, _)| kind(key).is_some()) {
            Some((key, value)) => drop(list.insert(key.to_string(), (value, index + 1))),
            None => {
                let kinds: Vec<&str> = KINDS.iter().map(|(kind, ..)| *kind).collect();
                let message = format!("not `KIND NAME VALUE` with one of {}", kinds.join(", "));
                findings.push(Finding::new(LIST, index + 1, message));
            }
        }
    }
    list
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
        assert!(messages(&function(71), "")[0].contains("71 lines, at most 70"));
        assert!(messages(&"// x\n".repeat(601), "")[0].contains("601 lines"));
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
    fn a_listed_crate_may_grow_a_little() {
        let source = "    step();\n".repeat(5100);
        let of = |list: &str| {
            let tree = Tree::of(&[("crates/a/src/lib.rs", &source), (LIST, list)]);
            let mut findings = Vec::new();
            check(&tree, &mut findings);
            let said = findings.into_iter().map(|f| f.to_string());
            said.filter(|said| said.contains("crate a")).collect::<Vec<_>>()
        };
        assert_eq!(of("crate a 5350\n").len() + of("crate a 5100\n").len(), 0);
        assert!(of("")[0].contains("at most 5000"));
        assert!(of("crate a 5099\n")[0].contains("grew"));
        assert!(of("crate a 5351\n")[0].contains("shrank"));
    }

    #[test]
    fn a_malformed_list_is_found() {
        assert_eq!(messages("", "function a.rs::long\n").len(), 1);
        assert_eq!(messages("", "nonsense 3\n").len(), 1);
        assert_eq!(messages("", "colour red 3\n").len(), 1);
    }
}
