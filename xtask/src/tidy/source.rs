// SPDX-License-Identifier: Apache-2.0
//! Checks of single lines: width, licence header, characters, banned words, machine paths.

use super::Finding;
use crate::rust::views;

/// Columns of a source line, as rustfmt has it.
const WIDTH_MAX: usize = 100;

/// Columns of a script line. No formatter breaks scripts, and long commands read better whole.
const SCRIPT_WIDTH_MAX: usize = 120;

const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0";

/// Crates that live outside the data path and may block a thread.
const SLEEPERS: [&str; 5] =
    ["crates/ring/", "crates/control/", "crates/chaos/", "crates/cli/", "xtask/"];

/// Folders of the machine on which someone happened to work.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/tar", "get")];

/// What never merges: the text in code, and why not.
const BANNED: [(&str, &str); 4] = [
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("dbg!", "remove the debugging aid"),
    ("#[ignore", "a test that does not run protects nothing"),
];

pub fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    machine_paths(path, text, findings);
    if !is_source(path, text) {
        return;
    }
    licence(path, text, findings);
    let width_max = if path.ends_with(".rs") { WIDTH_MAX } else { SCRIPT_WIDTH_MAX };
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let width = line.chars().count();
        if width > width_max {
            let message = format!("{width} columns, at most {width_max}");
            findings.push(Finding::new(path, number, message));
        }
        if let Some(character) = line.chars().find(|c| !c.is_ascii()) {
            let message = format!("{character:?} is not ASCII");
            findings.push(Finding::new(path, number, message));
        }
    }
    if path.ends_with(".rs") {
        banned(path, text, findings);
        safety(path, text, findings);
    }
}

/// Whether a file is Rust, Python or shell. A first line `#!/` marks a script without extension.
pub fn is_source(path: &str, text: &str) -> bool {
    path.ends_with(".rs")
        || path.ends_with(".py")
        || path.ends_with(".sh")
        || text.starts_with("#!/")
}

fn licence(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let is_script = text.starts_with("#!/");
    let line = text.lines().nth(usize::from(is_script)).unwrap_or("");
    let mark = if path.ends_with(".rs") { "//" } else { "#" };
    if line != format!("{mark} {LICENCE}") {
        let message = format!("must begin with `{mark} {LICENCE}`");
        findings.push(Finding::new(path, 1, message));
    }
}

fn machine_paths(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (index, line) in text.lines().enumerate() {
        for machine in MACHINE_PATHS {
            let is_root = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_ascii_alphanumeric() || "._-}/".contains(c))
            };
            if line.match_indices(machine).any(|(at, _)| is_root(at)) {
                let message = format!("`{machine}` is a path of one machine");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
}

fn banned(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let views = views(text);
    let may_sleep = SLEEPERS.iter().any(|prefix| path.starts_with(prefix));
    for (index, line) in views.code.lines().enumerate() {
        let number = index + 1;
        for (word, reason) in BANNED {
            if line.contains(word) {
                findings.push(Finding::new(path, number, format!("`{word}`: {reason}")));
            }
        }
        if !may_sleep && line.contains("thread::sleep") {
            let message = "`thread::sleep`: use env.sleep(), time is simulated";
            findings.push(Finding::new(path, number, message));
        }
    }
    for (index, line) in views.comments.lines().enumerate() {
        if line.contains("FIXME") {
            findings.push(Finding::new(path, index + 1, "`FIXME`: fix it"));
        }
        if line.match_indices("TODO").any(|(at, _)| !line[at + 4..].starts_with("(#")) {
            let message = "`TODO` needs an issue number: `TODO(#12)`";
            findings.push(Finding::new(path, index + 1, message));
        }
    }
}

/// Every crate root but `ring`'s forbids unsafe code; the workspace lint alone could be lifted by
/// an attribute.
fn safety(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let is_root = is_root || path.contains("/src/bin/");
    let is_free = path.starts_with("crates/ring/");
    if is_root && !is_free && !views(text).code.contains("#![forbid(unsafe_code)]") {
        findings.push(Finding::new(path, 1, "must have `#![forbid(unsafe_code)]`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "// SPDX-License-Identifier: Apache-2.0\n";

    fn messages(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(path, text, &mut findings);
        findings.into_iter().map(|f| format!("{}: {}", f.line, f.message)).collect()
    }

    fn one(path: &str, body: &str, expected: &str) {
        let messages = messages(path, &format!("{HEADER}{body}\n"));
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("2: ") && messages[0].contains(expected), "{messages:?}");
    }

    #[test]
    fn a_plain_file_is_tidy() {
        assert!(messages("crates/base/src/x.rs", &format!("{HEADER}fn f() {{}}\n")).is_empty());
        let script = "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\necho\n";
        assert!(messages("dev", script).is_empty());
    }

    #[test]
    fn a_long_line_is_found() {
        one("a.rs", &format!("// {}", "x".repeat(98)), "101 columns");
        assert!(messages("a.rs", &format!("{HEADER}// {}\n", "x".repeat(97))).is_empty());
        let script = |width| format!("#!/bin/sh\n# {LICENCE}\n{}\n", "x".repeat(width));
        assert!(messages("a.sh", &script(120)).is_empty());
        assert!(messages("a.sh", &script(121))[0].contains("121 columns"));
    }

    #[test]
    fn a_character_outside_ascii_is_found() {
        one("a.rs", "// \u{b5}s", "not ASCII");
        assert!(messages("a.md", "\u{b5}s").is_empty());
    }

    #[test]
    fn a_missing_licence_is_found() {
        assert!(messages("a.rs", "fn f() {}\n")[0].contains("must begin with"));
        assert!(messages("dev", "#!/bin/sh\necho\n")[0].contains("must begin with"));
    }

    #[test]
    fn banned_words_are_found_in_code_and_not_in_strings() {
        one("a.rs", "fn f() { todo!() }", "todo!");
        one("a.rs", "fn f() { unimplemented!() }", "unimplemented!");
        one("a.rs", "fn f() { dbg!(1); }", "dbg!");
        one("a.rs", "#[ignore] fn f() {}", "#[ignore");
        one("a.rs", "// FIXME later", "FIXME");
        one("a.rs", "// TODO later", "issue number");
        assert!(messages("a.rs", &format!("{HEADER}// TODO(#7): x\n")).is_empty());
        assert!(messages("a.rs", &format!("{HEADER}const A: &str = \"todo!\";\n")).is_empty());
    }

    #[test]
    fn sleeping_is_for_the_excepted_crates() {
        one("crates/object/src/a.rs", "fn f() { std::thread::sleep(d) }", "thread::sleep");
        let text = format!("{HEADER}fn f() {{ std::thread::sleep(d) }}\n");
        assert!(messages("crates/control/src/a.rs", &text).is_empty());
    }

    #[test]
    fn a_crate_root_without_forbid_is_found() {
        let root = messages("crates/base/src/lib.rs", HEADER);
        assert!(root[0].contains("forbid"), "{root:?}");
        assert_eq!(messages("crates/storm/src/bin/storm.rs", HEADER).len(), 1);
        assert!(messages("crates/ring/src/lib.rs", HEADER).is_empty());
        assert!(messages("crates/base/src/size.rs", HEADER).is_empty());
    }

    #[test]
    fn machine_paths_are_found_in_any_file() {
        for machine in MACHINE_PATHS {
            let found = messages("docs/a.md", &format!("see {machine}x\n"));
            assert_eq!(found.len(), 1, "{found:?}");
        }
        assert!(messages("docs/a.md", concat!("see docs/wo", "rk/x\n")).is_empty());
    }
}
