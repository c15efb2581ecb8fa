// SPDX-License-Identifier: Apache-2.0
//! Ids of checks are promises: the page has those of the code.
//!
//! `API_HEALTH_TABLE=write cargo test -p api --test health` writes the tables of the page anew.

use operator::health::{HealthCheck, checks};
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/operations/health.md";
const BEGINS: &str = "## All of them\n";

fn path(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

fn row(check: &HealthCheck) -> String {
    let HealthCheck { id, looks_at, limits, means, .. } = check;
    let mend: Vec<String> = check.mend.iter().map(|command| format!("`{command}`")).collect();
    format!("| `{id}` | {looks_at} | {limits} | {means} | {} |\n", mend.join("<br>"))
}

fn tables() -> String {
    let (mut text, mut group) = (String::new(), "");
    for check in checks() {
        if check.group() != group {
            group = check.group();
            text.push_str(&format!(
                "\n### {group}\n\n| check | looks at | states | what it means | what mends it |\n\
                 |---|---|---|---|---|\n"
            ));
        }
        text.push_str(&row(check));
    }
    text
}

#[test]
fn the_page_has_the_checks_of_the_code() {
    let page = std::fs::read_to_string(path(PAGE)).expect(PAGE);
    let (before, there) = page.split_once(BEGINS).expect("a heading");
    if std::env::var("API_HEALTH_TABLE").is_ok_and(|what| what == "write") {
        std::fs::write(path(PAGE), format!("{before}{BEGINS}{}", tables())).expect("the page");
        return;
    }
    for (wanted, there) in tables().lines().zip(there.lines()) {
        assert_eq!(wanted, there, "{PAGE} is behind the code: write it anew");
    }
    assert_eq!(tables(), there, "{PAGE} is behind the code: write it anew");
}
