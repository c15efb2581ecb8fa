// SPDX-License-Identifier: Apache-2.0
//! The names of metrics are promises: the page, the alerts and the dashboard say what the code has.
//!
//! `API_METRICS_TABLE=write cargo test -p api --test metrics` writes the table of the page anew.

use api::{MetricKind, metrics};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/operations/metrics.md";
const TABLE_BEGINS: &str = "| metric | kind | labels | what it says |\n|---|---|---|---|\n";

fn path(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

fn text(of: &str) -> String {
    std::fs::read_to_string(path(of)).unwrap_or_else(|error| panic!("{of}: {error}"))
}

fn table() -> String {
    let row = |metric: &api::Metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind) = (metric.name, metric.kind.name());
        format!("| `{name}` | {kind} | {} | {} |\n", labels.join(", "), metric.help)
    };
    metrics().map(row).collect()
}

#[test]
fn the_page_has_the_metrics_of_the_code_and_no_others() {
    let page = text(PAGE);
    let (before, rest) = page.split_once(TABLE_BEGINS).expect("a table");
    let is_row = |line: &&str| line.starts_with('|');
    let there: String = rest.split_inclusive('\n').take_while(is_row).collect();
    if std::env::var("API_METRICS_TABLE").is_ok_and(|what| what == "write") {
        let page = format!("{before}{TABLE_BEGINS}{}{}", table(), &rest[there.len()..]);
        std::fs::write(path(PAGE), page).expect("the page");
        return;
    }
    let (wanted, there): (BTreeSet<_>, BTreeSet<_>) =
        (table().lines().map(str::to_owned).collect(), there.lines().map(str::to_owned).collect());
    let (lacks, more): (Vec<_>, Vec<_>) =
        (wanted.difference(&there).collect(), there.difference(&wanted).collect());
    assert!(lacks.is_empty() && more.is_empty(), "{PAGE} lacks {lacks:#?} and has {more:#?}");
}

#[test]
fn names_are_as_monitoring_systems_want_them() {
    let mut names = BTreeSet::new();
    for metric in metrics() {
        let name = metric.name;
        assert!(names.insert(name), "{name} is there twice");
        let is_plain = |text: &str| {
            let is_word = |one: char| one.is_ascii_lowercase() || one == '_';
            !text.is_empty() && text.chars().all(is_word)
        };
        assert!(is_plain(name) && name.starts_with("gabion_"), "{name}");
        assert!(metric.labels.iter().all(|label| is_plain(label)), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
        let is_sentence = !metric.help.is_empty() && !metric.help.ends_with('.');
        assert!(is_sentence && !metric.help.contains(['|', '\n']), "{name}: {}", metric.help);
    }
}

/// Words of a text that look like metrics.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let words = text.split(|one| !is_part(one));
    words.filter(|word| word.starts_with("gabion_")).map(str::to_owned).collect()
}

fn is_known(name: &str) -> bool {
    metrics().any(|metric| match metric.kind {
        MetricKind::Histogram => ["_bucket", "_sum", "_count"]
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(|base| base == metric.name)),
        MetricKind::Counter | MetricKind::Gauge => metric.name == name,
    })
}

#[test]
fn alerts_and_dashboard_name_only_what_there_is() {
    for file in [
        "packaging/prometheus/gabion-alerts.yaml",
        "packaging/prometheus/gabion-alerts-test.yaml",
        "packaging/grafana/gabion.json",
    ] {
        let named = named(&text(file));
        assert!(named.len() > 15, "{file} names {named:?}");
        let unknown: Vec<_> = named.iter().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
    assert!(!is_known("gabion_request_duration_seconds") && !is_known("gabion_nothing"));
}

#[test]
fn each_alert_is_tested_and_says_what_to_do() {
    let (rules, tests) = (
        text("packaging/prometheus/gabion-alerts.yaml"),
        text("packaging/prometheus/gabion-alerts-test.yaml"),
    );
    let alerts: Vec<_> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 15, "{} alerts", alerts.len());
    for alert in alerts {
        let name = alert.lines().next().unwrap_or_default();
        assert!(tests.contains(&format!("alertname=\"{name}\"")), "{name} has no test");
        assert!(alert.contains("summary: "), "{name}");
        assert!(alert.contains("command: \"gabion "), "{name}");
    }
}

#[test]
fn the_dashboard_is_whole() {
    let board: Value = serde_json::from_str(&text("packaging/grafana/gabion.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: an id twice");
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().expect("queries");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let query = target["expr"].as_str().expect("a query");
            assert!(!named(query).is_empty(), "{title}: {query}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    assert!(ids.len() > 20, "{} panels", ids.len());
}
