// SPDX-License-Identifier: Apache-2.0
//! Relative links in Markdown lead somewhere: to a file of the tree, and to a heading in it.

use super::{Finding, Tree};

pub fn check(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    if !path.ends_with(".md") {
        return;
    }
    for (line, target) in targets(text) {
        if let Some(message) = fault(tree, path, &target) {
            findings.push(Finding::new(path, line, message));
        }
    }
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
    let is_here = |text: &str| headings(text).any(|heading| heading == anchor);
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
    fn code_is_not_a_link() {
        assert_eq!(count("`[b](c.md)`\n```\n[b](c.md)\n```\n"), 0);
    }
}
