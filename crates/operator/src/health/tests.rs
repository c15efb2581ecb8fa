// SPDX-License-Identifier: Apache-2.0
//! Each check turns by what it looks at, and turns back.

use super::*;
use crate::report::{CheckState, Health, StatusReport, TokenReport};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

mod lines;

const NOW: u64 = 1_800_000_000;

fn host(name: &str) -> Value {
    json!({ "name": name, "state": "up", "peer": "127.0.0.1:1", "level": 7 })
}

fn group(host: &str, id: &str) -> Value {
    let device = |role: &str| {
        json!({
            "path": format!("/dev/{host}-{role}"), "role": role, "kind": "ssd", "model": null,
            "size_bytes": 8_u64 << 30, "used_bytes": 0, "state": "ok", "space": null,
            "latency": {
                "health": "ok", "in_flight": 0, "oldest_seconds": null,
                "reads": class(), "writes": class(), "durable": class(),
            },
        })
    };
    json!({
        "host": host, "id": id, "is_open": true, "buffer_fill": 0.1, "used_bytes": 10,
        "capacity_bytes": 100, "state": "ok", "recovery_ms": 1.0, "limited_by": "nothing",
        "devices": [device("cache"), device("capacity")],
    })
}

fn class() -> Value {
    json!({ "operations": 9, "median_us": 100, "max_us": 200, "usual_us": 90, "is_slow": false })
}

fn volume() -> Value {
    let part = |host: &str, group: &str| {
        json!({
            "host": host, "group": group, "state": "active", "resync_bytes_left": 0,
        })
    };
    json!({
        "name": "web", "size_bytes": 1 << 30, "ftt": 1, "health": "green", "owner": "a",
        "term": 1, "nbd": [], "clients": 0, "components": [part("a", "1"), part("b", "2")],
    })
}

fn volumes(count: usize, health: &str) -> Value {
    let named = (0..count).map(|number| {
        let mut volume = volume();
        (volume["name"], volume["health"]) = (json!(format!("v{number}")), json!(health));
        volume
    });
    named.collect()
}

fn status() -> Value {
    json!({
        "host": "a", "health": "green", "directory": true, "level": 7,
        "hosts": [host("a"), host("b"), host("c")], "volumes": [volume()],
        "groups": [group("a", "1"), group("b", "2"), group("c", "3")],
        "turns": [{ "host": "a", "long": 0, "longest_ms": 0.0 }],
        "memory": [{
            "host": "a", "machine_bytes": 9, "total_bytes": 8,
            "parts": [{
                "name": "write-buffers", "budget_bytes": 5, "used_bytes": 4, "most_bytes": 4,
            }],
        }],
        "trash": [{
            "name": "old", "id": "1", "size_bytes": 1, "deleted": NOW - 9, "deleted_seconds_ago": 9,
            "goes_in_seconds": 9,
        }],
    })
}

fn metrics(host: &str) -> Value {
    let mut said = status();
    said["host"] = json!(host);
    let stage = |stage: &str| {
        json!({
            "stage": stage, "passed": 100_000, "measured": 1000, "took_us": 1_000_000,
        })
    };
    json!({
        "status": said, "volumes": { "green": 1, "yellow": 0, "red": 0, "deleted": 1 },
        "owned": [], "traffic": [], "left_out": 0,
        "stages": [stage("copy here"), stage("copy there")],
        "all_traffic": [{
            "operation": "write", "failed": 4, "bytes": 1, "took_us": 1, "latencies": [],
        }],
        "resync": { "copying": 0, "waiting": 0, "bytes_left": 0, "copied_bytes": 0 },
        "links": {
            "made": 4, "silent": 2, "refused": 0, "messages_sent": 1, "messages_received": 1,
            "bytes_received": 1, "waiting_bytes": 0,
        },
        "scrubs": [{
            "host": host, "device": format!("/dev/{host}-capacity"), "state": "idle",
            "progress": null, "bytes_per_second": 1, "verified_blocks": 1, "bad_blocks": 0,
            "repaired_blocks": 0, "unrepaired_blocks": 0, "read_errors": 0,
            "last_pass_seconds_ago": 9, "last_pass_seconds": 9, "oldest_unverified_seconds": 99,
            "next_pass_seconds": 9,
        }],
    })
}

/// Facts as JSON, to be changed by pointers.
#[derive(Clone)]
struct Case {
    status: Value,
    metrics: [Value; 3],
    token: Value,
    receiver: Value,
    members: Vec<String>,
    wear: u8,
}

fn well() -> Case {
    Case {
        status: status(),
        metrics: ["a", "b", "c"].map(metrics),
        token: json!({
            "name": "ci", "role": "viewer", "created": NOW - 10, "expires": NOW + 90 * 86_400,
        }),
        receiver: lines::receiver(),
        members: Vec::new(),
        wear: 79,
    }
}

impl Case {
    fn facts(&self) -> HealthFacts {
        let before = ["a", "b", "c"].map(|shard| ShardCounts {
            shard: shard.to_owned(),
            silent_links: 2,
            failed: 4,
            there: (900, 900_000),
            here: (900, 900_000),
        });
        let status: StatusReport = serde_json::from_value(self.status.clone()).expect("a status");
        let token: TokenReport = serde_json::from_value(self.token.clone()).expect("a token");
        let metrics = self.metrics.clone();
        HealthFacts {
            now: NOW,
            status: Some(status),
            metrics: metrics.map(|one| serde_json::from_value(one).expect("metrics")).into(),
            tokens: Some(vec![token]),
            receivers: serde_json::from_value(json!([self.receiver])).ok(),
            before: before.into(),
            members: Some(self.members.clone()),
            wear: vec![DeviceWear { device: "/dev/a-cache".to_owned(), percent: self.wear }],
        }
    }

    fn set(mut self, pointer: &str, value: Value) -> Self {
        put(&mut self.status, pointer, value);
        self
    }

    /// Of the first shard.
    fn says(mut self, pointer: &str, value: Value) -> Self {
        put(&mut self.metrics[0], pointer, value);
        self
    }

    fn receiver(mut self, pointer: &str, value: Value) -> Self {
        put(&mut self.receiver, pointer, value);
        self
    }

    fn token(mut self, pointer: &str, value: Value) -> Self {
        put(&mut self.token, pointer, value);
        self
    }
}

fn put(whole: &mut Value, pointer: &str, value: Value) {
    if let Some(place) = whole.pointer_mut(pointer) {
        *place = value;
        return;
    }
    let (above, name) = pointer.rsplit_once('/').expect("a pointer");
    let object = whole.pointer_mut(above).and_then(Value::as_object_mut);
    object.expect(pointer).insert(name.to_owned(), value);
}

fn states(facts: &HealthFacts) -> BTreeMap<&'static str, Found> {
    checks().map(|check| (check.id, check.look(facts))).collect()
}

/// Which checks are not green.
fn wrong(facts: &HealthFacts) -> Vec<(&'static str, CheckState)> {
    let found = states(facts).into_values().filter(|found| found.state != CheckState::Green);
    found.map(|found| (found.id, found.state)).collect()
}

/// Whether a command is one of the templates of a check, with names for capital words.
fn is_of(check: &HealthCheck, command: &str) -> bool {
    let is_name = |word: &str| word.len() > 1 && word.chars().all(|one| one.is_ascii_uppercase());
    let fits = |template: &&str| {
        let (wanted, there): (Vec<&str>, Vec<&str>) =
            (template.split(' ').collect(), command.split(' ').collect());
        wanted.len() == there.len()
            && wanted.iter().zip(&there).all(|(wanted, there)| wanted == there || is_name(wanted))
    };
    check.mend.iter().any(fits)
}

const LOST: &str = "scrub could not repair 1 block(s) of 4 KiB on /dev/a-capacity: no other copy";
const STOOD: &str = "nothing was destaged from the write buffer of disk group 1 for 30 s";

/// What each check turns by, and to which state.
fn turns() -> Vec<(&'static str, CheckState, Case)> {
    turns_of_hosts().into_iter().chain(turns_of_volumes()).collect()
}

fn at(pointer: &str, value: Value) -> Case {
    well().set(pointer, value)
}

const DAY: u64 = 86_400;

/// Of hosts, devices and disk groups.
fn turns_of_hosts() -> Vec<(&'static str, CheckState, Case)> {
    use CheckState::{Red, Yellow};
    let maintenance = json!({
        "host": "b", "mode": "ensure-accessibility", "entered": true, "ready": true, "copies": 0,
        "to_move": 0, "under_way": 0, "to_delete": 0, "only": 0, "without_place": 0,
        "used_bytes": null, "move_bytes": 0, "free_bytes": 0,
    });
    let late =
        json!({ "stage": "copy there", "passed": 1, "measured": 1000, "took_us": 9_000_000 });
    vec![
        ("hosts.answering", Yellow, at("/hosts/2/state", json!("not answering"))),
        ("hosts.answering", Red, {
            at("/hosts/2/state", json!("down")).set("/hosts/1/state", json!("down"))
        }),
        ("hosts.maintenance", Yellow, at("/hosts/1/maintenance", maintenance)),
        ("hosts.threads", Yellow, {
            at("/turns/0/longest_ms", json!(1000.0)).set("/turns/0/longest_seconds_ago", json!(3.0))
        }),
        ("network.pairs", Yellow, well().says("/status/hosts/2/silent_seconds", json!(9))),
        ("network.links", Yellow, well().says("/links/silent", json!(6))),
        ("network.latency", Yellow, well().says("/stages/1", late)),
        ("clocks.records", Yellow, at("/trash/0/deleted", json!(NOW + 6))),
        ("clocks.records", Yellow, well().token("/created", json!(NOW + 6))),
        ("devices.working", Red, at("/groups/0/devices/1/state", json!("out"))),
        ("devices.working", Red, at("/groups/0/devices/1/state", json!("stuck"))),
        ("devices.working", Red, at("/groups/0/devices/0/state", json!("takes no writes"))),
        ("devices.latency", Yellow, at("/groups/0/devices/1/latency/health", json!("slow"))),
        ("devices.blocks", Red, at("/groups/0/attention", json!([LOST]))),
        ("devices.blocks", Red, well().says("/scrubs/0/unrepaired_blocks", json!(1))),
        ("devices.blocks", Yellow, at("/groups/0/attention", json!(["scrub found 1 bad"]))),
        ("devices.scrub", Yellow, well().says("/scrubs/0/state", json!("paused"))),
        ("devices.scrub", Yellow, {
            well().says("/scrubs/0/oldest_unverified_seconds", json!(28 * DAY + 1))
        }),
        ("devices.wear", Yellow, Case { wear: 80, ..well() }),
        ("devices.wear", Red, Case { wear: 100, ..well() }),
        ("groups.serving", Yellow, {
            at("/groups/0/is_open", json!(false)).set("/groups/0/state", json!("out of service"))
        }),
        ("groups.serving", Yellow, at("/groups/0/state", json!("takes no writes"))),
        ("groups.destage", Red, at("/groups/0/attention", json!([STOOD]))),
        ("groups.writes", Yellow, at("/groups/0/limited_by", json!("cache device"))),
        ("groups.writes", Yellow, at("/groups/0/buffer_fill", json!(0.96))),
        ("groups.log", Yellow, at("/groups/0/rotten_log_blocks", json!(1))),
    ]
}

/// Of volumes, and of the cluster as a whole.
fn turns_of_volumes() -> Vec<(&'static str, CheckState, Case)> {
    use CheckState::{Red, Yellow};
    let resync = |left: u64, rate: u64, waits: Value| {
        json!([{
            "volume": "web", "object": 0, "host": "b", "by": "a", "reason": "returns",
            "waits": waits, "bytes_left": 5 << 20, "bytes_copied": 0, "bytes_per_second": rate,
            "seconds": 70, "seconds_left": left, "writes_waiting": 0,
        }])
    };
    let stale = json!({ "name": "gold", "version": 1, "newest": 2, "repair_delay": "cluster" });
    let not_compliant = json!({ "state": "not-compliant", "why": ["2 parts are not on host1"] });
    let parts = vec![well().status["volumes"][0]["components"][0].clone(); 1000];
    let waits = json!({ "writers": "one", "host": "b", "epoch": 2, "waits_for": ["a"] });
    vec![
        ("objects.accessible", Red, at("/volumes/0/health", json!("red"))),
        ("objects.redundancy", Yellow, at("/volumes/0/health", json!("yellow"))),
        ("objects.compliance", Yellow, at("/volumes/0/compliance", not_compliant.clone())),
        ("objects.compliance", Yellow, {
            at("/volumes/0/compliance", not_compliant).set("/volumes/0/policy", stale)
        }),
        ("objects.resync", Yellow, at("/resyncs", resync(2 * DAY, 9, Value::Null))),
        ("objects.resync", Yellow, at("/resyncs", resync(0, 0, Value::Null))),
        ("objects.resync", Yellow, at("/resyncs", resync(0, 0, json!("others")))),
        ("objects.failures", Yellow, well().says("/all_traffic/0/failed", json!(5))),
        ("objects.writers", Yellow, at("/volumes/0/writer", waits)),
        ("capacity.hosts", Yellow, at("/groups/0/used_bytes", json!(80))),
        ("capacity.hosts", Red, at("/groups/0/used_bytes", json!(95))),
        ("capacity.devices", Yellow, at("/groups/0/devices/1/state", json!("filling up"))),
        ("capacity.devices", Red, at("/groups/0/devices/1/state", json!("full"))),
        ("capacity.after-loss", Yellow, well().says("/not_rebuilt", json!("b: 5 GiB are missing"))),
        ("limits.components", Yellow, { at("/volumes/0/components", json!(parts[..820])) }),
        ("limits.components", Red, at("/volumes/0/components", json!(parts))),
        ("limits.memory", Yellow, at("/memory/0/parts/0/used_bytes", json!(6))),
        ("directory.reachable", Yellow, well().says("/status/directory", json!(false))),
        ("directory.members", Yellow, {
            Case { members: vec!["host2 does not answer".to_owned()], ..well() }
        }),
        ("directory.alarms", Red, at("/alarms", json!(["1 component(s) are kept"]))),
        ("directory.backups", Yellow, at("/backups", json!("none is good"))),
        ("balance.hosts", Yellow, at("/groups/0/used_bytes", json!(41))),
        ("certificates.tokens", Yellow, {
            well().token("/created", json!(NOW - 80 * DAY)).token("/expires", json!(NOW + 9 * DAY))
        }),
        ("certificates.tokens", Yellow, {
            well().token("/created", json!(NOW - 9 * DAY)).token("/expires", json!(NOW - 1))
        }),
        ("notifications.delivery", Yellow, {
            well().receiver("/trouble_since", json!(NOW - 60)).receiver("/trouble", json!("away"))
        }),
        ("versions.hosts", Yellow, at("/hosts/1/level", json!(6))),
        ("versions.cluster", Yellow, at("/level", json!(6))),
    ]
}

#[test]
fn where_all_is_well_all_checks_are_green() {
    assert_eq!(wrong(&well().facts()), []);
    let said = states(&well().facts());
    assert!(said.values().all(|found| found.evidence.is_empty() && found.mend.is_empty()));
}

#[test]
fn each_check_turns_by_what_it_looks_at_and_names_what_mends_it() {
    let mut turned = BTreeSet::new();
    for (id, state, case) in turns() {
        let check = check_of(id).expect(id);
        let found = check.look(&case.facts());
        assert_eq!(found.state, state, "{found:?}");
        assert!(!found.evidence.is_empty() && !found.mend.is_empty(), "{found:?}");
        assert!(found.evidence.iter().all(|line| !line.contains('\n')), "{found:?}");
        for command in &found.mend {
            assert!(is_of(check, command), "{id}: '{command}' is none of its table");
        }
        turned.insert(id);
        // Nothing else turns but what sees the same thing from another side.
        for (other, _) in wrong(&case.facts()).into_iter().filter(|(other, _)| *other != id) {
            let both = [id, other];
            let is_known =
                [["devices.working", "groups.serving"], ["capacity.hosts", "balance.hosts"]];
            assert!(is_known.contains(&both), "{id} also turns {other}");
        }
    }
    let all: BTreeSet<_> = checks().map(|check| check.id).collect();
    assert_eq!(turned, all, "each check has a case");
}

#[test]
fn where_nobody_says_anything_only_that_is_wrong() {
    let found = wrong(&HealthFacts { now: NOW, ..HealthFacts::default() });
    for (id, state) in found {
        let expected = match id {
            "hosts.answering" => CheckState::Red,
            _ => CheckState::Unknown,
        };
        assert_eq!(state, expected, "{id}");
    }
}

/// What `gabion status` calls yellow or red is so here too.
#[test]
fn the_state_is_no_better_than_the_status_says() {
    for (pointer, value, health) in [
        ("/volumes/0/health", json!("red"), Health::Red),
        ("/volumes/0/health", json!("yellow"), Health::Yellow),
        ("/groups/0/devices/0/state", json!("slow"), Health::Yellow),
        ("/groups/0/devices/1/state", json!("full"), Health::Yellow),
        ("/groups/0/attention", json!([STOOD]), Health::Yellow),
        ("/groups/0/attention", json!([LOST]), Health::Yellow),
        ("/alarms", json!(["the directory is empty"]), Health::Red),
        ("/backups", json!("none"), Health::Yellow),
        ("/hosts/0/state", json!("down"), Health::Yellow),
    ] {
        let mut case = well().set(pointer, value);
        if case.status["groups"][0]["devices"][0]["state"] == "slow" {
            case = case.set("/groups/0/devices/0/latency/health", json!("slow"));
        }
        let worst = states(&case.facts()).into_values().map(|found| found.state).max();
        assert!(worst >= Some(health.into()), "{pointer}: {worst:?}");
    }
}

#[test]
fn ids_are_words_of_a_group_and_texts_are_sentences() {
    let mut ids = BTreeSet::new();
    for check in checks() {
        assert!(ids.insert(check.id), "{} is there twice", check.id);
        let is_word = |one: char| one.is_ascii_lowercase() || one == '-';
        let (group, word) = check.id.split_once('.').expect(check.id);
        assert!(group.chars().all(is_word) && word.chars().all(is_word), "{}", check.id);
        assert!(check.means.ends_with('.') && !check.well.ends_with('.'), "{}", check.id);
        assert!(!check.mend.is_empty() && !check.limits.contains(['|', '\n']), "{}", check.id);
        let is_plain = |text: &str| !text.contains("  ") && !text.contains('|');
        for text in [check.means, check.looks_at, check.limits, check.well, check.title] {
            assert!(is_plain(text) && !text.is_empty(), "{}: {text}", check.id);
        }
    }
    assert!(ids.len() > 30, "{}", ids.len());
}

#[test]
fn many_volumes_are_repaired_by_one_command() {
    let mend = |count: usize| {
        let case = at("/volumes", volumes(count, "yellow")).set("/hosts/1/state", json!("down"));
        check_of("objects.redundancy").expect("a check").look(&case.facts()).mend
    };
    let start = "gabion host start b";
    assert_eq!(mend(2), [start, "gabion repair now v0", "gabion repair now v1"]);
    assert_eq!(mend(4), [start, "gabion repair now"]);
}

#[test]
fn a_token_that_was_made_for_days_is_told_of_in_its_last_quarter() {
    let state = |left: u64| {
        let case = well().token("/created", json!(NOW + left - 8 * 86_400));
        let case = case.token("/expires", json!(NOW + left));
        check_of("certificates.tokens").expect("a check").look(&case.facts()).state
    };
    assert_eq!(state(3 * 86_400), CheckState::Green);
    assert_eq!(state(86_400), CheckState::Yellow);
}

fn found(id: &str, state: CheckState) -> Vec<Found> {
    let check = check_of(id).expect(id);
    let evidence = vec![format!("it is {}", state.name())];
    vec![Found { id: check.id, state, summary: String::new(), evidence, mend: Vec::new() }]
}

/// Not in its first seconds.
fn running() -> HealthBook {
    let mut book = HealthBook::new(0, Vec::new(), &BTreeMap::new());
    for check in checks() {
        book.take(1, found(check.id, CheckState::Green));
    }
    book
}

fn shown(book: &HealthBook, id: &str) -> CheckState {
    book.states().find(|(_, known, _)| *known == id).expect(id).2
}

#[test]
fn one_lost_answer_is_no_news_and_neither_is_one_good_one() {
    use CheckState::{Green, Yellow};
    let id = "hosts.answering";
    let mut book = running();
    assert_eq!(book.take(101, found(id, Green)), []);
    assert_eq!(book.take(102, found(id, Yellow)), []);
    assert!(book.is_settling() && shown(&book, id) == Green);
    assert_eq!(book.take(103, found(id, Green)), []);
    assert!(!book.is_settling());
    assert_eq!(book.take(110, found(id, Yellow)), []);
    let change = book.take(113, found(id, Yellow));
    let expected = StateChange {
        check: check_of(id).expect(id).id,
        from: Green,
        to: Yellow,
        at: 113,
        evidence: vec!["it is yellow".to_owned()],
    };
    assert_eq!(change, [expected]);
    assert_eq!((book.state(), shown(&book, id)), (Health::Yellow, Yellow));
    assert_eq!(book.take(114, found(id, Green)), []);
    assert_eq!(book.take(118, found(id, Green)), []);
    assert_eq!(book.take(119, found(id, Green)).len(), 1);
    assert_eq!(book.state(), Health::Green);
    let report = book.report(|at| at.to_string());
    let check = report.checks.iter().find(|check| check.id == id).expect(id);
    assert_eq!((check.since.as_str(), check.actual), ("119", None));
}

/// Yellow and red in turn are worse than green all the time.
#[test]
fn what_changes_its_colour_is_told_all_the_same() {
    use CheckState::{Green, Red, Yellow};
    let id = "hosts.answering";
    let mut book = running();
    book.take(101, found(id, Green));
    for (at, state) in [(102, Yellow), (103, Red), (104, Yellow)] {
        assert_eq!(book.take(at, found(id, state)), []);
    }
    assert_eq!(book.take(105, found(id, Red)).len(), 1);
}

#[test]
fn a_silenced_check_does_not_count_and_says_what_it_is() {
    use CheckState::{Green, Red, Silenced, Yellow};
    let id = "capacity.hosts";
    let mut book = running();
    book.take(101, found(id, Green));
    assert_eq!(book.take(102, found(id, Red)).len(), 1);
    let silence = HealthSilence { check: id.to_owned(), until: 200, reason: "known".to_owned() };
    let changes = book.silence(103, silence);
    assert_eq!((changes[0].from, changes[0].to), (Red, Silenced));
    assert_eq!(book.state(), Health::Green);
    assert_eq!(book.take(150, found(id, Yellow)), [], "it is silenced");
    book.take(160, found(id, Yellow));
    let report = book.report(|at| at.to_string());
    let check = report.checks.iter().find(|check| check.id == id).expect(id);
    assert_eq!((check.state, check.actual), (Silenced, Some(Yellow)));
    assert_eq!(check.silenced_until.as_deref(), Some("200"));
    assert_eq!(check.silenced_because.as_deref(), Some("known"));
    // Its end.
    let changes = book.take(200, found(id, Yellow));
    assert_eq!((changes[0].from, changes[0].to), (Silenced, Yellow));
    assert!(book.silences().is_empty() && book.state() == Health::Yellow);
    let silence = HealthSilence { check: id.to_owned(), until: 990, reason: String::new() };
    book.silence(210, silence);
    assert_eq!(book.unsilence(211, id)[0].to, Yellow);
}

#[test]
fn a_run_goes_on_where_the_last_one_ended() {
    use CheckState::{Green, Red, Yellow};
    let id = "capacity.hosts";
    let before = BTreeMap::from([(id.to_owned(), (Yellow, 5))]);
    let mut book = HealthBook::new(1000, Vec::new(), &before);
    assert_eq!(book.take(1001, found(id, Yellow)), [], "nothing changed");
    let report = book.report(|at| at.to_string());
    assert!(report.checks.iter().any(|check| check.id == id && check.since == "5"));
    // Of what was not known before nothing is told in the first seconds: hosts start.
    let mut book = HealthBook::new(1000, Vec::new(), &BTreeMap::new());
    assert_eq!(book.state(), Health::Yellow, "nobody can tell");
    assert_eq!(book.take(1001, found(id, Red)), []);
    assert_eq!(book.take(1005, found(id, Green)), []);
    assert_eq!((book.state(), shown(&book, id)), (Health::Green, Green));
    let before = BTreeMap::from([(id.to_owned(), (Green, 5))]);
    let mut book = HealthBook::new(1000, Vec::new(), &before);
    book.take(1001, found(id, Red));
    assert_eq!(book.take(1010, found(id, Red)), []);
    assert_eq!(book.take(1011, found(id, Red)).len(), 1);
}

proptest! {
    /// Whatever is found when: what is shown was found, and each change is from what was shown.
    #[test]
    fn what_is_shown_was_found(looks in prop::collection::vec((0_u64..9, 0_u8..4), 1..60)) {
        let id = "hosts.answering";
        let mut book = HealthBook::new(0, Vec::new(), &BTreeMap::new());
        let (mut now, mut last) = (0, CheckState::Unknown);
        let mut seen = BTreeSet::from([CheckState::Unknown]);
        for (wait, state) in looks {
            now += wait;
            let state = match state {
                0 => CheckState::Green,
                1 => CheckState::Unknown,
                2 => CheckState::Yellow,
                _ => CheckState::Red,
            };
            seen.insert(state);
            for change in book.take(now, found(id, state)) {
                prop_assert_eq!(change.from, last);
                prop_assert_ne!(change.from, change.to);
            }
            last = shown(&book, id);
            prop_assert!(seen.contains(&last));
        }
        // What stays is told.
        for _ in 0..3 {
            now += 10;
            book.take(now, found(id, CheckState::Yellow));
        }
        prop_assert_eq!(shown(&book, id), CheckState::Yellow);
        prop_assert!(!book.is_settling());
    }

    /// Facts of any kind end in no panic, and a check that is not green says what it saw.
    #[test]
    fn any_numbers_are_taken(used in any::<u64>(), all in any::<u64>(), time in any::<u64>()) {
        let case = well()
            .set("/groups/0/used_bytes", json!(used))
            .set("/groups/0/capacity_bytes", json!(all))
            .set("/trash/0/deleted", json!(time))
            .token("/created", json!(time))
            .token("/expires", json!(used))
            .says("/links/silent", json!(all))
            .says("/stages/1/took_us", json!(time));
        for found in states(&case.facts()).into_values() {
            let is_wrong = matches!(found.state, CheckState::Yellow | CheckState::Red);
            prop_assert_eq!(is_wrong, !found.evidence.is_empty());
        }
    }
}
