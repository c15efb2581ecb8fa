// SPDX-License-Identifier: Apache-2.0
//! Numbers that are cited must exist: `rule 9`, `rules 22-29`, `store rules 1, 2`, `trap 14`,
//! `promise 4` each lead to an anchor of their page. And product code and tests must cite each
//! rule. Rules that they do not cite yet stand in `xtask/uncited.txt`, which may only shrink.
//!
//! A citation in the singular has one number, one in the plural a list: `rule 4, 3 times` cites one
//! rule.
//! A switch that breaks a rule on purpose is a test of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

/// What is cited by number. The anchor of number N has the name, with dashes, before `-N`.
struct Kind {
    name: &'static str,
    page: &'static str,
    /// Whether product code and tests must each cite every number.
    is_owed: bool,
    /// Whether its page may be missing. While the page is missing nothing of this kind is checked.
    may_be_absent: bool,
}

const KINDS: [Kind; 4] = [
    Kind { name: "store rule", page: "docs/store.md", is_owed: true, may_be_absent: true },
    Kind { name: "rule", page: "docs/protocol.md", is_owed: true, may_be_absent: false },
    Kind { name: "trap", page: "docs/contract.md", is_owed: false, may_be_absent: false },
    Kind { name: "promise", page: "docs/contract.md", is_owed: false, may_be_absent: false },
];

const STORE: usize = 0;
const PROTOCOL: usize = 1;

/// Folders in which citations are checked.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "packaging/", "scripts/", "xtask/"];
/// Crates whose whole purpose is to test the others.
const TEST_CRATES: [&str; 5] =
    ["crates/chaos/", "crates/fuzz/", "crates/oracle/", "crates/sim/", "crates/storm/"];
/// The model is about the rules themselves. It counts neither as product code nor as a test.
const MODEL: &str = "crates/model/";
/// The comment of a switch may name the rule that it breaks: that is no citation of product code.
const SWITCHES: &str = "base::mutations! {";
/// The switches of the protocol stand here: `name: "N",`.
const PROTOCOL_SWITCHES: &str = "crates/object/src/mutations.rs";
/// The switches of the store stand here, alike. Some break a rule of the protocol: then N is a
/// number that the store's page does not have.
const STORE_SWITCHES: &str = "crates/diskgroup/src/mutations.rs";

const LIST: &str = "xtask/uncited.txt";

/// More numbers than any page has: a longer range is a slip.
const RANGE_MAX: u32 = 200;

/// One number that a text cites.
struct Citation {
    /// Its place in [`KINDS`].
    kind: usize,
    number: String,
    line: usize,
    /// A switch breaks it.
    is_switch: bool,
}

/// Anchor -> line on which it stands, for the kinds whose pages are there.
type Anchors = BTreeMap<String, usize>;

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let anchors: Vec<Option<Anchors>> =
        KINDS.iter().map(|kind| anchors(tree, kind, findings)).collect();
    let mut cited = BTreeSet::new();
    let is_looked_at =
        |path: &str| path != LIST && FOLDERS.iter().any(|folder| path.starts_with(folder));
    for (path, text) in tree.texts().filter(|(path, _)| is_looked_at(path)) {
        let switches = switches(path, text, anchors[STORE].as_ref());
        for citation in citations(text).into_iter().chain(switches) {
            let Citation { kind, number, line, is_switch } = citation;
            let Some(anchors) = &anchors[kind] else { continue };
            let kind = &KINDS[kind];
            if !anchors.contains_key(&anchor(kind, &number)) {
                let message =
                    format!("cites {} {number}: no such anchor in {}", kind.name, kind.page);
                findings.push(Finding::new(path, line, message));
                continue;
            }
            let place = if is_switch { Some("test") } else { place(path, text, line) };
            if let Some(place) = place {
                cited.insert(format!("{place} {} {number}", kind.name));
            }
        }
    }
    owed(tree, &anchors, &cited, findings);
}

fn anchor(kind: &Kind, number: &str) -> String {
    format!("{}-{number}", kind.name.replace(' ', "-"))
}

/// The anchors of `kind` on its page; `None` where there is no page and need not be.
fn anchors(tree: &Tree, kind: &Kind, findings: &mut Vec<Finding>) -> Option<Anchors> {
    let Some(text) = tree.text(kind.page) else {
        return (!kind.may_be_absent).then(Anchors::new);
    };
    let prefix = anchor(kind, "");
    let mut anchors = Anchors::new();
    for (index, line) in text.lines().enumerate() {
        for id in ids(line) {
            let number = id.strip_prefix(prefix.as_str()).unwrap_or("");
            let is_numbered = number.starts_with(|c: char| c.is_ascii_digit());
            if is_numbered && anchors.insert(id.to_string(), index + 1).is_some() {
                let message = format!("the anchor {id} stands here twice");
                findings.push(Finding::new(kind.page, index + 1, message));
            }
        }
    }
    Some(anchors)
}

/// The ids of explicit anchors in a line of Markdown.
pub fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next())
}

/// Whether a line of a file is product code or a test; `None` where it is neither.
fn place(path: &str, text: &str, line: usize) -> Option<&'static str> {
    if !path.starts_with("crates/") || path.starts_with(MODEL) {
        return None;
    }
    let is_test_file = path.contains("/tests/") || path.ends_with("/tests.rs");
    if is_test_file || TEST_CRATES.iter().any(|folder| path.starts_with(folder)) {
        return Some("test");
    }
    if !path.ends_with(".rs") {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let is_module = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{')
    };
    let tests = lines.windows(2).position(is_module).unwrap_or(lines.len());
    if line > tests {
        return Some("test");
    }
    let switches = lines.iter().position(|text| text.contains(SWITCHES));
    let is_switch = switches.is_some_and(|begin| {
        let length = lines[begin..].iter().position(|text| *text == "}").unwrap_or(0);
        (begin..=begin + length).contains(&(line - 1))
    });
    (!is_switch).then_some("product")
}

/// Each number that `text` cites, ranges written out.
fn citations(text: &str) -> Vec<Citation> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for word in ["rule", "trap", "promise"] {
        for (at, _) in lower.match_indices(word) {
            let before = &lower[..at];
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if before.ends_with(is_word) {
                continue;
            }
            let rest = &lower[at + word.len()..];
            let (rest, is_plural) = match rest.strip_prefix('s') {
                Some(rest) => (rest, true),
                None => (rest, false),
            };
            let Some(numbers) = numbers(rest, is_plural) else { continue };
            let is_store = word == "rule" && before.trim_end_matches(is_gap).ends_with("store");
            let name = if is_store { "store rule" } else { word };
            let Some(kind) = KINDS.iter().position(|kind| kind.name == name) else { continue };
            let line = 1 + before.matches('\n').count();
            let citation = |number| Citation { kind, number, line, is_switch: false };
            found.extend(numbers.into_iter().map(citation));
        }
    }
    found
}

/// The rules that switches break. `store`: the anchors of the store's page. Without that page
/// nobody knows whether a number of a store's switch is the store's.
fn switches(path: &str, text: &str, store: Option<&Anchors>) -> Vec<Citation> {
    let kind_of = |number: &str| match (path, store) {
        (PROTOCOL_SWITCHES, _) => Some(PROTOCOL),
        (STORE_SWITCHES, Some(store)) => {
            let is_stores = store.contains_key(&anchor(&KINDS[STORE], number));
            Some(if is_stores { STORE } else { PROTOCOL })
        }
        _ => None,
    };
    let rule = |(index, line): (usize, &str)| {
        let number = line.strip_suffix("\",")?.rsplit('"').next()?;
        let is_line = line.contains(": \"");
        let is_number = number.starts_with(|c: char| c.is_ascii_digit());
        let kind = kind_of(number).filter(|_| is_line && is_number)?;
        let number = number.to_string();
        Some(Citation { kind, number, line: index + 1, is_switch: true })
    };
    text.lines().enumerate().filter_map(rule).collect()
}

/// Blanks, line breaks, and the characters that begin a line of a comment.
fn is_gap(c: char) -> bool {
    c.is_whitespace() || "/!#".contains(c)
}

/// The numbers behind a word, if any. In the singular one number, in the plural a list with ranges.
fn numbers(rest: &str, is_plural: bool) -> Option<Vec<String>> {
    let begin = rest.trim_start_matches(is_gap);
    if begin.len() == rest.len() {
        return None;
    }
    let (first, mut rest) = number(begin)?;
    let mut all = vec![first];
    while let Some((is_range, after)) = separator(rest).filter(|_| is_plural) {
        let Some((next, after)) = number(after) else { break };
        if is_range {
            let last = all.last().map_or("", String::as_str);
            all.extend(between(last, &next));
        }
        all.push(next);
        rest = after;
    }
    Some(all)
}

/// A number, perhaps with a letter behind it, and the rest of the text.
fn number(text: &str) -> Option<(String, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 {
        return None;
    }
    let is_end = |text: &str| !text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let rest = &text[digits..];
    let letters = usize::from(rest.starts_with(|c: char| c.is_ascii_lowercase()));
    is_end(&rest[letters..]).then(|| (text[..digits + letters].to_string(), &rest[letters..]))
}

/// The separator between two numbers of a list: whether it makes a range, and the rest of the text.
fn separator(text: &str) -> Option<(bool, &str)> {
    if let Some(rest) = text.strip_prefix('-') {
        return Some((true, rest));
    }
    let (rest, has_comma) = match text.strip_prefix(',') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let word = rest.trim_start_matches(is_gap);
    if word.len() == rest.len() {
        return None;
    }
    for (name, is_range) in [("and", false), ("or", false), ("to", true)] {
        let after = word.strip_prefix(name).filter(|after| after.starts_with(is_gap));
        if let Some(after) = after {
            return Some((is_range, after.trim_start_matches(is_gap)));
        }
    }
    has_comma.then_some((false, word))
}

/// The numbers between `first` and `last`, without these two.
fn between(first: &str, last: &str) -> Vec<String> {
    let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
        return Vec::new();
    };
    let last = last.min(first.saturating_add(RANGE_MAX));
    (first.saturating_add(1)..last).map(|number| number.to_string()).collect()
}

/// Reports rules that nobody cites and that the list does not have, and lines of the list that are
/// outdated.
fn owed(
    tree: &Tree,
    anchors: &[Option<Anchors>],
    cited: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let listed = listed(tree, findings);
    let mut missing = BTreeSet::new();
    let kinds = KINDS.iter().zip(anchors).filter(|(kind, _)| kind.is_owed);
    for (kind, anchors) in kinds {
        let Some(anchors) = anchors else { continue };
        let prefix = anchor(kind, "");
        for (id, &line) in anchors {
            let number = id.strip_prefix(prefix.as_str()).unwrap_or(id);
            for (place, hint) in [("product", "where it is kept"), ("test", "in a test of it")] {
                let key = format!("{place} {} {number}", kind.name);
                if cited.contains(&key) {
                    continue;
                }
                if !listed.contains_key(&key) {
                    let message = format!("{} {number} is cited nowhere {hint}", kind.name);
                    findings.push(Finding::new(kind.page, line, message));
                }
                missing.insert(key);
            }
        }
    }
    let is_absent = |key: &str| {
        let name = key.split_once(' ').map_or("", |(_, name)| name);
        let of = KINDS.iter().zip(anchors).find(|(kind, _)| name.starts_with(kind.name));
        of.is_some_and(|(_, anchors)| anchors.is_none())
    };
    for (key, &line) in listed.iter().filter(|(key, _)| !missing.contains(*key)) {
        if !is_absent(key) {
            let message = format!("`{key}` is cited now, or gone: remove this line");
            findings.push(Finding::new(LIST, line, message));
        }
    }
}

/// `product rule N` or `test rule N` -> line on which it stands.
fn listed(tree: &Tree, findings: &mut Vec<Finding>) -> BTreeMap<String, usize> {
    let mut listed = BTreeMap::new();
    for (index, line) in tree.text(LIST).unwrap_or("").lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_known = line.starts_with("product ") || line.starts_with("test ");
        if !is_known || listed.insert(line.to_string(), index + 1).is_some() {
            let message = "not `product rule N` or `test rule N`, each once";
            findings.push(Finding::new(LIST, index + 1, message));
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written so that the check does not take this file's examples for citations.
    const RULE: &str = concat!("ru", "le");
    const TRAP: &str = concat!("tr", "ap");

    fn numbers_of(text: &str) -> Vec<String> {
        let shown = |c: Citation| format!("{} {}", KINDS[c.kind].name.replace(RULE, "r"), c.number);
        citations(text).into_iter().map(shown).collect()
    }

    fn page(name: &str, numbers: &[&str]) -> String {
        let line = |number: &&str| format!("<a id=\"{name}-{number}\"></a>**{number}** is so.\n");
        numbers.iter().map(line).collect()
    }

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::of(files), &mut findings);
        findings.into_iter().map(|f| f.to_string()).collect()
    }

    /// The messages about `text` in a product file. Rules 1 to 9 and 52a exist, and the list
    /// excuses that nobody cites them.
    fn said_of(text: &str) -> Vec<String> {
        let numbers = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "52a"];
        let list: String = numbers
            .iter()
            .map(|number| format!("product {RULE} {number}\ntest {RULE} {number}\n"))
            .collect();
        let protocol = page(RULE, &numbers);
        let contract = page(TRAP, &["14"]);
        let files = [
            ("docs/protocol.md", protocol.as_str()),
            ("docs/contract.md", &contract),
            (LIST, &list),
        ];
        let said = messages(&[&files[..], &[("docs/a.md", text)]].concat());
        said.into_iter().filter(|message| message.starts_with("docs/a.md")).collect()
    }

    #[test]
    fn numbers_are_read_in_every_form() {
        assert_eq!(numbers_of(&format!("({RULE} 9)")), ["r 9"]);
        assert_eq!(numbers_of(&format!("{RULE}s 8, 9 and 52a; 3")), ["r 8", "r 9", "r 52a"]);
        assert_eq!(numbers_of(&format!("{RULE}s 1-4")), ["r 1", "r 2", "r 3", "r 4"]);
        assert_eq!(numbers_of(&format!("{RULE}s 7 to 9.")), ["r 7", "r 8", "r 9"]);
        assert_eq!(numbers_of(&format!("{RULE}s 1-2, 41 or 5")), ["r 1", "r 2", "r 41", "r 5"]);
        assert_eq!(numbers_of(&format!("The store {RULE} 3")), ["store r 3"]);
        assert_eq!(
            numbers_of(&format!("{TRAP}s 1, 14")),
            [format!("{TRAP} 1"), format!("{TRAP} 14")]
        );
    }

    #[test]
    fn numbers_go_on_across_lines_of_a_comment() {
        let text =
            format!("//! as ({RULE}s 8,\n//! 9) say\n/// by store\n/// {RULE} 3, {RULE}\n// 7");
        assert_eq!(numbers_of(&text), ["r 8", "r 9", "store r 3", "r 7"]);
    }

    #[test]
    fn what_only_looks_like_a_citation_is_none() {
        assert_eq!(numbers_of(&format!("{RULE} 4, 3 times")), ["r 4"]);
        let none = format!("ferrule 4, my_{RULE} 4, {RULE}4, {RULE}: 4, {RULE}-4, {RULE} 4x4");
        assert!(numbers_of(&none).is_empty(), "{:?}", numbers_of(&none));
    }

    #[test]
    fn a_made_up_number_is_reported_where_it_stands() {
        let said = said_of(&format!("so.\nSee {RULE} 999.\n"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(&format!("docs/a.md:2: cites {RULE} 999")), "{said:?}");
        assert_eq!(said_of(&format!("{RULE}s 7 to 12")).len(), 3);
        assert_eq!(said_of(&format!("{TRAP} 15")).len(), 1);
        assert_eq!(said_of(&format!("{RULE} 52b")).len(), 1);
        assert!(said_of(&format!("{RULE}s 1-9, 52a, {TRAP} 14")).is_empty());
    }

    #[test]
    fn the_store_is_not_checked_without_its_page() {
        assert!(said_of(&format!("store {RULE} 99")).is_empty());
        let store = page(&format!("store-{RULE}"), &["1"]);
        let cites = format!("store {RULE} 99");
        let said = messages(&[("docs/store.md", &store), ("scripts/a.sh", &cites)]);
        assert!(said.iter().any(|message| message.starts_with("scripts/a.sh:1")), "{said:?}");
    }

    #[test]
    fn a_number_that_stands_twice_is_found() {
        let said = messages(&[("docs/contract.md", &page(TRAP, &["1", "1"]))]);
        assert!(said[0].contains("twice"), "{said:?}");
    }

    #[test]
    fn each_rule_is_owed_a_citation_by_product_and_test() {
        let protocol = page(RULE, &["1"]);
        let cites = format!("// {RULE} 1\n");
        let said = |path: &str, text: &str, list: &str| {
            let page = ("docs/protocol.md", protocol.as_str());
            messages(&[page, (path, text), (LIST, list)])
        };
        assert_eq!(said("docs/a.md", &cites, "").len(), 2, "a document keeps no rule");
        assert_eq!(said("crates/model/src/a.rs", &cites, "").len(), 2, "nor does a model");
        let product = said("crates/a/src/a.rs", &cites, "");
        assert!(product.len() == 1 && product[0].contains("test of it"), "{product:?}");
        for path in ["crates/a/tests/a.rs", "crates/a/src/a/tests.rs", "crates/storm/src/a.rs"] {
            let test = said(path, &cites, "");
            assert!(test.len() == 1 && test[0].contains("kept"), "{test:?}");
        }
        let both = format!("{cites}#[cfg(test)]\nmod tests {{\n{cites}}}\n");
        assert!(said("crates/a/src/a.rs", &both, "").is_empty());
        let switch = format!("base::mutations! {{\n{cites}}}\n");
        assert_eq!(said("crates/a/src/a.rs", &switch, "").len(), 2, "a switch keeps no rule");
        assert_eq!(said("crates/a/src/a.rs", &format!("{switch}{cites}"), "").len(), 1);
    }

    #[test]
    fn a_switch_is_a_test_of_the_rule_that_it_breaks() {
        let protocol = page(RULE, &["52a"]);
        let said = |number: &str| {
            let table = format!("    any_grant: \"{number}\",\n");
            messages(&[("docs/protocol.md", &protocol), (PROTOCOL_SWITCHES, &table)])
        };
        assert_eq!(said("52a").len(), 1, "product code owes one still");
        assert!(said("999").iter().any(|message| message.starts_with(PROTOCOL_SWITCHES)));
    }

    #[test]
    fn a_switch_of_the_store_breaks_a_rule_of_the_store_or_else_of_the_protocol() {
        let protocol = page(RULE, &["3", "46"]);
        let store = page(&format!("store-{RULE}"), &["3"]);
        let table = "    a: \"3\",\n    b: \"46\",\n    c: \"leak\",\n    d: \"99\",\n";
        let pages = [("docs/protocol.md", protocol.as_str()), (STORE_SWITCHES, table)];
        let untested = |said: &[String]| {
            said.iter().filter(|message| message.ends_with("in a test of it")).count()
        };
        let alone = messages(&pages);
        assert_eq!((alone.len(), untested(&alone)), (4, 2), "{alone:?}");
        let said = messages(&[&pages[..], &[("docs/store.md", &store)]].concat());
        assert!(said[0].starts_with(&format!("{STORE_SWITCHES}:4")), "{said:?}");
        assert_eq!((said.len(), untested(&said)), (5, 1), "{said:?}");
    }

    #[test]
    fn the_list_of_what_is_not_cited_can_only_shrink() {
        let protocol = page(RULE, &["1"]);
        let said = |text: &str, list: &str| {
            let page = ("docs/protocol.md", protocol.as_str());
            messages(&[page, ("crates/a/src/a.rs", text), (LIST, list)])
        };
        let product = format!("product {RULE} 1\n");
        let test = format!("test {RULE} 1\n");
        let cites = format!("// {RULE} 1\n");
        assert!(said("", &format!("# why\n{product}{test}")).is_empty());
        let is_over = said(&cites, &format!("{product}{test}"));
        assert!(is_over.len() == 1 && is_over[0].contains("remove"), "{is_over:?}");
        assert!(said(&cites, &format!("{test}test {RULE} 9\n"))[0].contains("remove"));
        assert_eq!(said(&cites, &format!("{test}{test}")).len(), 1, "each once");
        let absent = format!("{test}test store {RULE} 9\n");
        assert!(said(&cites, &absent).is_empty(), "its page is not there");
        assert_eq!(said(&cites, &format!("{test}nonsense\n")).len(), 1);
    }
}
