// SPDX-License-Identifier: Apache-2.0
//! The sizes of a checkout in a table, to be laid beside those of another one. [`super::check`]
//! says only what is over its limit.

use std::fmt::Write;

use super::ratchet::{Measures, measures};
use super::{Tree, citations, links};

/// How many of the longest files and functions are named.
const LONGEST: usize = 3;

/// What is shown of each crate: the measure's kind and the title of its column.
const COLUMNS: &[(&str, &str)] = &[
    ("crate", "lines"),
    ("circle", "files in a circle"),
    ("rooms", "rooms in a circle"),
    ("casts", "casts"),
];

/// A table of all crates, largest first, and a line for each thing that is measured of the whole.
/// A circle of 1 is none. Lines are those of product code, without blanks and comments.
pub fn sizes(tree: &Tree) -> String {
    let measures = measures(tree);
    let of = |kind: &str, name: &str| {
        measures.get(&format!("{kind} {name}")).map_or(0, |measure| measure.value)
    };
    let mut text = format!("{:<12}", "crate");
    for (_, title) in COLUMNS {
        let _ = write!(text, "{title:>20}");
    }
    text.push('\n');
    for (name, _) in largest(&measures, "crate") {
        let _ = write!(text, "{name:<12}");
        for (kind, _) in COLUMNS {
            let _ = write!(text, "{:>20}", of(kind, name));
        }
        text.push('\n');
    }
    for (kind, title) in [("file", "longest files"), ("function", "longest functions")] {
        let named = largest(&measures, kind).into_iter().take(LONGEST);
        let named: Vec<_> = named.map(|(name, lines)| format!("{name} {lines}")).collect();
        let _ = writeln!(text, "{title}: {}", named.join(", "));
    }
    let shared: Vec<_> = largest(&measures, "type").into_iter().filter(|(_, n)| *n > 1).collect();
    let types: usize = shared.iter().map(|(_, n)| n).sum();
    let _ = writeln!(text, "names that several types share: {}, by {types} types", shared.len());
    let _ = writeln!(text, "citations and links that lead nowhere: {}", dead(tree));
    text
}

/// Names and values of all measures of one kind, the largest first.
fn largest<'a>(measures: &'a Measures, kind: &str) -> Vec<(&'a str, usize)> {
    let name = |key: &'a str| key.strip_prefix(kind)?.strip_prefix(' ');
    let mut found: Vec<_> =
        measures.iter().filter_map(|(key, m)| Some((name(key)?, m.value))).collect();
    found.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
    found
}

fn dead(tree: &Tree) -> usize {
    let mut findings = Vec::new();
    tree.texts().for_each(|(path, text)| links::check(tree, path, text, &mut findings));
    citations::check(tree, &mut findings);
    let is_dead = |message: &str| message.contains("no such") || message.contains("dead link");
    findings.iter().filter(|finding| is_dead(&finding.message)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_has_a_row_and_what_leads_nowhere_is_counted() {
        let text = "pub struct A;\n// rule 7 and rule 8\n";
        let tree = Tree::of(&[
            ("crates/small/src/lib.rs", "pub struct A;\n"),
            ("crates/large/src/lib.rs", &format!("{text}fn f() {{}}\n")),
            ("docs/protocol.md", "<a id=\"rule-7\"></a>\n[x](gone.md)\n"),
        ]);
        let shown = sizes(&tree);
        let rows: Vec<_> = shown.lines().map(|row| row.split(' ').next().unwrap()).collect();
        assert_eq!(rows[..3], ["crate", "large", "small"]);
        assert!(shown.contains("names that several types share: 1, by 2 types"), "{shown}");
        assert!(shown.contains("lead nowhere: 2\n"), "{shown}");
    }
}
