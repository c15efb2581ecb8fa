// SPDX-License-Identifier: Apache-2.0
//! References to files of the tree must lead somewhere. Checked are links in Markdown (to a file,
//! and to a heading or an anchor in it), paths in its `code spans`, and pages of `docs/` that
//! comments and scripts name.

use super::citations::ids;
use super::source::is_source;
use super::{Finding, Tree};
use crate::rust::views;

/// A code span that begins with one of these folders is taken for a path from the root.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "packaging/", "scripts/", "xtask/"];

/// A code span with one of these endings is taken for a file.
const ENDINGS: [&str; 6] = [".md", ".py", ".rs", ".service", ".sh", ".toml"];

pub fn check(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    if path.ends_with(".md") {
        for (line, target) in targets(text) {
            if let Some(message) = fault(tree, path, &target) {
                findings.push(Finding::new(path, line, message));
            }
        }
        for (line, span) in spans(text).filter(|(_, span)| is_dead(tree, span)) {
            let message = format!("`{span}`: no such file");
            findings.push(Finding::new(path, line, message));
        }
    } else if is_source(path, text) {
        for (line, page) in pages(path, text) {
            if let Some(message) = fault(tree, "", &page) {
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

/// Whether a code span is a path that leads nowhere. A path may leave out its beginning, as
/// `owner/read.rs` does.
fn is_dead(tree: &Tree, span: &str) -> bool {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_relative = !span.starts_with(['/', '.']) && span.contains('/');
    if !is_relative || !span.chars().all(is_path) {
        return false;
    }
    if FOLDERS.iter().any(|folder| span.starts_with(folder)) {
        return !tree.has(span.trim_end_matches('/'));
    }
    let ending = format!("/{span}");
    let is_file = ENDINGS.iter().any(|ending| span.ends_with(ending));
    is_file && !tree.files.iter().any(|file| file.path.ends_with(&ending))
}

/// The pages of `docs/` that a comment or a script names, with the heading where one is named, each
/// with its line.
fn pages(path: &str, text: &str) -> Vec<(usize, String)> {
    let comments = path.ends_with(".rs").then(|| views(text).comments);
    let text = comments.as_deref().unwrap_or(text);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-#".contains(c);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("docs/") {
            let end = line[at..].find(|c| !is_part(c)).map_or(line.len(), |end| at + end);
            let page = line[at..end].trim_end_matches('.');
            let is_root = !line[..at].ends_with(is_part);
            if is_root && (page.ends_with(".md") || page.contains(".md#")) {
                found.push((index + 1, page.to_string()));
            }
        }
    }
    found
}

/// What is wrong with a link from `path` to `target`, if anything.
fn fault(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(resolved) = resolve(path, file) else {
        return Some(format!("`{target}` leads out of the repository"));
    };
    if !tree.has(&resolved) {
        return Some(format!("dead link `{target}`: no file {resolved}"));
    }
    let is_here = |text: &str| {
        headings(text).any(|heading| heading == anchor)
            || text.lines().flat_map(ids).any(|id| id == anchor)
    };
    match tree.text(&resolved) {
        Some(text) if !anchor.is_empty() && resolved.ends_with(".md") && !is_here(text) => {
            Some(format!("dead link `{target}`: no such heading in {resolved}"))
        }
        _ => None,
    }
}

/// `[text](target)` outside code, with the line it stands on.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        for (at, _) in content.match_indices("](") {
            let rest = &content[at + 2..];
            let Some(end) = rest.find(')') else { continue };
            let target = rest[..end].split_whitespace().next().unwrap_or("");
            found.push((line, target.trim_matches(['<', '>']).to_string()));
        }
    }
    found
}

/// Lines outside fenced blocks, without their `code spans`.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let spans: Vec<&str> = line.split('`').step_by(2).collect();
            lines.push((index + 1, spans.join("")));
        }
    }
    lines
}

/// The code spans outside fenced blocks, with the line.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    });
    lines.flat_map(|(index, line)| {
        line.split('`').skip(1).step_by(2).map(move |span| (index + 1, span))
    })
}

/// `file` as seen from the file `path`; `None` when it leaves the tree.
fn resolve(path: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(path.into());
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that a Markdown viewer gives to the headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let lines = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code && line.starts_with('#')
    });
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# The Title (1)\n\n```\n# not one\n```\n"),
            ("README.md", ""),
        ]);
        let mut findings = Vec::new();
        check(&tree, "docs/a.md", text, &mut findings);
        findings.len()
    }

    #[test]
    fn living_links_pass() {
        assert_eq!(count("[b](b.md) [r](../README.md) [w](https://x.y/z) [d](../docs)"), 0);
        assert_eq!(count("[b](b.md#the-title-1) and [me](#here)\n# Here\n"), 0);
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(count("[b](c.md)\n[r](README.md)"), 2);
        assert_eq!(count("[out](../../x.md)"), 1);
        assert_eq!(count("[b](b.md#no) [b](b.md#not-one) [me](#there)"), 3);
    }

    #[test]
    fn an_anchor_is_a_place_to_lead_to() {
        assert_eq!(count("[me](#here)\n<a id=\"here\"></a>**Here.**\n"), 0);
        assert_eq!(count("[me](#there)\n<a id=\"here\"></a>**Here.**\n"), 1);
    }

    #[test]
    fn paths_in_code_spans_lead_somewhere() {
        let tree = Tree::of(&[("crates/object/src/owner/read.rs", "")]);
        let dead = |span| is_dead(&tree, span);
        assert!(!dead("crates/object") && !dead("crates/object/") && !dead("owner/read.rs"));
        assert!(dead("crates/attic") && dead("owner/write.rs") && dead("er/read.rs"));
        assert!(!dead("/etc/gabion/host.toml") && !dead("a/b") && !dead("./dev test/x.sh"));
        assert_eq!(count("`docs/b.md` and `docs/c.md`\n```\n`docs/d.md`\n```\n"), 1);
    }

    #[test]
    fn pages_that_comments_name_are_there() {
        let page = ("docs/b.md", "# Why\n");
        let count = |path: &str, text: &str| {
            let mut findings = Vec::new();
            check(&Tree::of(&[page]), path, text, &mut findings);
            findings.len()
        };
        assert_eq!(count("a.rs", "// see docs/b.md.\n//! (docs/b.md#why)\n"), 0);
        assert_eq!(count("a.rs", "// docs/c.md, docs/b.md#how\nlet a = \"docs/d.md\";\n"), 2);
        assert_eq!(count("a.sh", "# docs/c.md\n# https://x.y/docs/d.md\n"), 1);
    }

    #[test]
    fn code_is_not_a_link() {
        assert_eq!(count("`[b](c.md)`\n```\n[b](c.md)\n```\n"), 0);
    }
}
