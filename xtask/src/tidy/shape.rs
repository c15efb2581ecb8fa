// SPDX-License-Identifier: Apache-2.0
//! The shape of the crates, measured from their product code: how large they are, which files of a
//! crate import each other in a circle, and which of its rooms do, which types share a name, how
//! many `as` casts there are. What is over its limit stands in the ratchet.

use std::collections::{BTreeMap, BTreeSet};

use super::Tree;
use super::ratchet::{Measure, Measures};
use crate::rust::views;

/// One file of product code.
struct Room<'a> {
    path: &'a str,
    crate_name: &'a str,
    /// Its path as a module of its crate; the root is empty.
    module: Vec<&'a str>,
    /// Without comments, strings and tests.
    code: String,
}

/// What is measured of every crate.
pub fn measure(tree: &Tree, measures: &mut Measures) {
    let mut rooms: Vec<Room<'_>> =
        tree.texts().filter_map(|(path, text)| room(path, text)).collect();
    let tests: Vec<(String, Vec<String>)> = rooms.iter().flat_map(test_modules).collect();
    rooms.retain(|room| {
        let is_below = |(name, module): &(String, Vec<String>)| {
            name == room.crate_name
                && module.iter().zip(&room.module).all(|(a, b)| a == b)
                && module.len() <= room.module.len()
        };
        !tests.iter().any(is_below)
    });
    let mut crates: BTreeMap<&str, Vec<&Room<'_>>> = BTreeMap::new();
    for room in &rooms {
        crates.entry(room.crate_name).or_default().push(room);
    }
    for (name, rooms) in crates {
        let manifest = format!("crates/{name}/Cargo.toml");
        let mut put = |kind: &str, value: usize| {
            let measure = Measure { value, path: manifest.clone(), line: 1 };
            measures.insert(format!("{kind} {name}"), measure);
        };
        let lines = |room: &&Room<'_>| room.code.lines().filter(|l| !l.trim().is_empty()).count();
        put("crate", rooms.iter().map(lines).sum());
        put("casts", rooms.iter().map(|room| casts(&room.code)).sum());
        put("circle", largest_circle(&rooms, usize::MAX));
        put("rooms", largest_circle(&rooms, 1));
    }
    let mut types: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    // The protocol's model names what it models: its types have the names of the product's.
    for room in rooms.iter().filter(|room| room.crate_name != "model") {
        for (name, line) in wide_types(&room.code) {
            types.entry(name).or_default().push((room.path, line));
        }
    }
    for (name, places) in types {
        let Some((path, line)) = places.last() else { continue };
        let measure = Measure { value: places.len(), path: (*path).into(), line: *line };
        measures.insert(format!("type {name}"), measure);
    }
}

fn room<'a>(path: &'a str, text: &'a str) -> Option<Room<'a>> {
    let (crate_name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let file = file.strip_suffix(".rs")?;
    let mut module: Vec<&str> = file.split('/').collect();
    if module.contains(&"tests") {
        return None;
    }
    if matches!(module.last(), Some(&("mod" | "lib" | "main"))) {
        module.pop();
    }
    let code = views(text).code;
    let lines: Vec<&str> = code.lines().collect();
    let is_tests = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    Some(Room { path, crate_name, module, code: lines[..end].join("\n") })
}

/// The modules in files of their own that a room has for tests alone.
fn test_modules(room: &Room<'_>) -> Vec<(String, Vec<String>)> {
    let lines: Vec<&str> = room.code.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let names = pairs.filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod "));
    let path = |name: &str| room.module.iter().copied().chain([name]).map(String::from).collect();
    names.map(|(_, name)| (room.crate_name.to_string(), path(name))).collect()
}

/// Numeric conversions with `as`.
fn casts(code: &str) -> usize {
    const NUMBERS: &[&str] = &[
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64",
    ];
    let words: Vec<&str> = code.split_whitespace().collect();
    let is_number = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len());
        NUMBERS.contains(&&word[..end])
    };
    words.windows(2).filter(|pair| pair[0] == "as" && is_number(pair[1])).count()
}

/// The types that all of their crate or others can name: name and line.
fn wide_types(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")) else {
            continue;
        };
        let Some((kind, rest)) = rest.split_once(' ') else { continue };
        if matches!(kind, "struct" | "enum" | "trait" | "type") {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push((&rest[..end], index + 1));
        }
    }
    found
}

/// The size of the largest group in which each imports each other, directly or not. 1: no circle.
/// Its members are files, or what lies below so many names of the crate's module tree.
fn largest_circle(rooms: &[&Room<'_>], depth: usize) -> usize {
    let module = |at: usize| rooms[at].module.iter().take(depth).copied().collect::<Vec<_>>();
    let mut members: Vec<Vec<&str>> = (0..rooms.len()).map(module).collect();
    members.sort_unstable();
    members.dedup();
    let place = |path: &[&str]| rooms.iter().position(|room| room.module == path);
    let member = |at: usize| members.binary_search(&module(at)).ok();
    let mut reaches: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); members.len()];
    for (at, room) in rooms.iter().enumerate() {
        let Some(own) = member(at) else { continue };
        let named = imports(&room.code, &room.module);
        // The longest part of a path that is a file; what follows is an item in it.
        let file = |path: &Vec<&str>| (0..=path.len()).rev().find_map(|n| place(&path[..n]));
        let others = named.iter().filter_map(file).filter_map(member).filter(|to| *to != own);
        reaches[own].extend(others);
    }
    loop {
        let wider: Vec<BTreeSet<usize>> = reaches
            .iter()
            .map(|to| to.iter().flat_map(|at| &reaches[*at]).chain(to).copied().collect())
            .collect();
        if wider == reaches {
            break;
        }
        reaches = wider;
    }
    let circle = |at: usize| reaches[at].iter().filter(|to| reaches[**to].contains(&at)).count();
    (0..members.len()).map(circle).max().unwrap_or(0).max(1)
}

/// The paths that begin at the crate, at a module above or at a module below, as modules and items
/// from the crate's root. A path that ends in a brace is taken apart.
fn imports<'a>(code: &'a str, module: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut starts = vec!["crate", "super", "self"];
    // The root only hands on the names of what is below it.
    if !module.is_empty() {
        let below = |line: &'a str| line.trim().strip_suffix(';')?.rsplit_once("mod ");
        starts.extend(code.lines().filter_map(below).map(|(_, name)| name));
    }
    for start in starts {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            let Some(mut rest) = code[at + start.len()..].strip_prefix("::") else { continue };
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut base: Vec<&str> = match start {
                "crate" => Vec::new(),
                "super" => module[..module.len().saturating_sub(1)].to_vec(),
                "self" => module.to_vec(),
                below => module.iter().copied().chain([below]).collect(),
            };
            while let Some(above) = rest.strip_prefix("super::") {
                base.pop();
                rest = above;
            }
            spread(&base, rest, &mut found);
        }
    }
    found
}

/// Adds each path of `a::b::{c, d::e}` behind `base`.
fn spread<'a>(base: &[&'a str], text: &'a str, found: &mut Vec<Vec<&'a str>>) {
    let mut path = base.to_vec();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(inside) = rest.strip_prefix('{') {
            let (mut depth, mut begin) = (0_usize, 0);
            for (at, c) in inside.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth > 0 => depth -= 1,
                    ',' | '}' if depth == 0 => {
                        spread(&path, &inside[begin..at], found);
                        begin = at + 1;
                        if c == '}' {
                            return;
                        }
                    }
                    _ => {}
                }
            }
            return;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(&rest[..end]);
        }
        match rest[end..].strip_prefix("::") {
            Some(further) if end > 0 => rest = further,
            _ => break,
        }
    }
    found.push(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(files: &[(&str, &str)], key: &str) -> usize {
        let mut measures = Measures::new();
        measure(&Tree::of(files), &mut measures);
        measures.get(key).map_or(0, |measure| measure.value)
    }

    #[test]
    fn product_code_is_counted_without_comments_and_tests() {
        let text =
            "// a\n\nfn f() {\n    g(1 as u8)\n}\n#[cfg(test)]\nmod tests {\n    2 as u8\n}\n";
        let files = [("crates/a/src/f.rs", text), ("crates/a/src/f/tests.rs", "3 as u8\n")];
        assert_eq!((measured(&files, "crate a"), measured(&files, "casts a")), (3, 1));
        let apart = [
            ("crates/a/src/f.rs", "#[cfg(test)]\nmod model;\n"),
            ("crates/a/src/f/model.rs", "4 as u8\n"),
        ];
        assert_eq!(measured(&apart, "casts a"), 0);
        let other = [("crates/a/src/f.rs", "use b as c;\nlet d = e as f64;\n// 1 as u8\n")];
        assert_eq!(measured(&other, "casts a"), 1);
    }

    #[test]
    fn types_that_others_can_name_share_no_name() {
        let files = [
            ("crates/a/src/f.rs", "pub struct One;\npub(crate) enum Two {}\nstruct Three;\n"),
            ("crates/b/src/f.rs", "pub(crate) type One<T> = T;\npub trait Three {}\n"),
            ("crates/model/src/f.rs", "pub struct One;\npub struct Two;\n"),
        ];
        assert_eq!(measured(&files, "type One"), 2);
        assert_eq!((measured(&files, "type Two"), measured(&files, "type Three")), (1, 1));
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let line = [
            ("crates/a/src/lib.rs", "mod b;\npub use b::B;\n"),
            ("crates/a/src/b.rs", "use crate::c::{C, d::D};\n"),
            ("crates/a/src/c.rs", "struct C;\n"),
            ("crates/a/src/c/d.rs", "use super::C;\n"),
        ];
        assert_eq!(measured(&line, "circle a"), 1);
        let mut round = line;
        round[2].1 = "use crate::b;\n";
        assert_eq!(measured(&round, "circle a"), 3, "b uses d, which uses c, which uses b");
        let mut below = line;
        below[2].1 = "mod d;\nuse d::D;\n";
        assert_eq!(measured(&below, "circle a"), 2, "c and d");
        let rooms = |files: &[(&str, &str)]| measured(files, "rooms a");
        assert_eq!((rooms(&line), rooms(&round), rooms(&below)), (1, 2, 1), "b and c with its d");
    }
}
