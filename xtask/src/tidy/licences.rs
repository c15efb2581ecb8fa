// SPDX-License-Identifier: Apache-2.0
//! Licences of dependencies: each must be allowed by the list in `deny.toml`, which cargo-deny
//! reads as well (`./dev deny`). What a manifest claims is believed here; cargo-deny also reads the
//! files.

use std::path::Path;
use std::process::Command;

use super::{Finding, Tree};

const LIST: &str = "deny.toml";

/// A crate that something of the workspace is built of.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Name and version.
    name: String,
    /// An SPDX expression, or what older manifests have for one; empty where there is none.
    licence: String,
}

/// All packages, ours included. Errors: cargo is missing or fails.
pub fn packages(root: &Path) -> std::io::Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--all-features", "--edges", "normal,build,dev"])
        .args(["--locked", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}|"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(std::io::Error::other(format!("cargo tree failed: {}", said.trim())));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

fn parse(lines: &str) -> Vec<Package> {
    let parsed = lines.lines().filter_map(|line| {
        let mut fields = line.split('|');
        let (package, licence) = (fields.next()?, fields.next()?);
        // Behind the version may stand a path, or that it is a macro; behind the licence, that the
        // rest of the line was told before.
        let name = package.split(' ').take(2).collect::<Vec<_>>().join(" ");
        Some(Package { name, licence: licence.into() })
    });
    let mut packages: Vec<Package> = parsed.collect();
    packages.sort();
    packages.dedup();
    packages
}

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let allowed = allowed(tree.text(LIST).unwrap_or(""));
    for Package { name, licence } in &tree.packages {
        let message = match permits(licence, &|id| allowed.iter().any(|(_, known)| known == id)) {
            Some(true) => continue,
            Some(false) => format!("{name} has a licence that is not allowed: {licence}"),
            None => format!("{name} has no licence that can be read: `{licence}`"),
        };
        findings.push(Finding::new(LIST, 1, message));
    }
    for (line, id) in &allowed {
        let names =
            |package: &Package| spaced(&package.licence).split_whitespace().any(|w| w == id);
        if !tree.packages.iter().any(names) {
            let message = format!("no dependency has the licence {id}: remove this line");
            findings.push(Finding::new(LIST, *line, message));
        }
    }
}

/// Line and name of each licence of the list: the strings between `allow = [` and `]`.
fn allowed(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != "allow = [");
    let inside = lines.skip(1).take_while(|(_, line)| *line != "]");
    inside.filter_map(|(at, line)| Some((at + 1, line.split('"').nth(1)?.into()))).collect()
}

/// The expression with each word by itself; `/` is how older manifests write OR.
fn spaced(expression: &str) -> String {
    expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ")
}

/// Whether `expression` is true where exactly the licences that `is_allowed` knows are. `None`
/// where it is no expression.
fn permits(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = spaced(expression);
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let is_permitted = any_of(&mut rest, is_allowed)?;
    rest.is_empty().then_some(is_permitted)
}

fn any_of(rest: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut is_permitted = all_of(rest, is_allowed)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        is_permitted |= all_of(rest, is_allowed)?;
    }
    Some(is_permitted)
}

fn all_of(rest: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut is_permitted = one(rest, is_allowed)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        is_permitted &= one(rest, is_allowed)?;
    }
    Some(is_permitted)
}

/// A licence, one with an exception, or an expression in parentheses.
fn one(rest: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let is_permitted = any_of(rest, is_allowed)?;
            let [")", tail @ ..] = *rest else { return None };
            *rest = tail;
            Some(is_permitted)
        }
        [")" | "OR" | "AND" | "WITH", ..] | [] => None,
        // An exception permits more than the licence does.
        [id, "WITH", _, tail @ ..] | [id, tail @ ..] => {
            *rest = tail;
            Some(is_allowed(id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(list: &str, packages: &str) -> Vec<String> {
        let mut tree = Tree::of(&[(LIST, list)]);
        tree.packages = parse(packages);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.into_iter().map(|f| f.to_string()).collect()
    }

    const MIT: &str = "[licenses]\nallow = [\n  \"MIT\",\n]\n";

    #[test]
    fn a_crate_with_another_licence_is_named() {
        let packages = "base v0.1.0 (/x/base)|MIT| (*)\nnew v1.2.0 (proc-macro)|GPL-3.0-only\n\
                        new v1.2.0 (proc-macro)|GPL-3.0-only\n\nold v1.0.0|\n";
        assert_eq!(
            messages(MIT, packages),
            [
                "deny.toml:1: new v1.2.0 has a licence that is not allowed: GPL-3.0-only",
                "deny.toml:1: old v1.0.0 has no licence that can be read: ``",
            ]
        );
    }

    #[test]
    fn a_licence_that_nothing_has_is_removed_from_the_list() {
        let found = messages("allow = [\n  \"MIT\",\n  \"ISC\",\n]\n", "a v1|MIT");
        assert_eq!(found, ["deny.toml:3: no dependency has the licence ISC: remove this line"]);
    }

    #[test]
    fn expressions_mean_what_spdx_says() {
        let is_permitted = |expression| permits(expression, &|id| ["A", "B"].contains(&id));
        for fine in ["A", "C OR A", "A/C", "C / B", "A AND B", "C AND X OR A", "(C OR A) AND B"] {
            assert_eq!(is_permitted(fine), Some(true), "{fine}");
        }
        for fine in ["A WITH e OR C", "C WITH e OR A"] {
            assert_eq!(is_permitted(fine), Some(true), "{fine}");
        }
        for refused in ["C", "A AND C", "(A OR B) AND C", "C WITH e", "C/D"] {
            assert_eq!(is_permitted(refused), Some(false), "{refused}");
        }
        for wrong in ["", "A B", "(A", "A OR", "A)", "AND A"] {
            assert_eq!(is_permitted(wrong), None, "{wrong}");
        }
    }
}
