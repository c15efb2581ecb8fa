// SPDX-License-Identifier: Apache-2.0
//! The answers of all hosts, merged into one report. All hosts are asked at once. So a host that
//! stands still costs only the second after which it counts as not answering.

use crate::client;
use crate::commands::no_host;
use crate::target::Target;
use anyhow::Result;
use host::{Health, HostState, StatusReport, VolumeReport};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A host that has not answered by then counts as not answering.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the first answer. Where all hosts are slow, a late answer is better than none.
const FIRST_MAX: Duration = Duration::from_secs(5);

/// Statuses of all hosts that answer, merged into one picture.
pub fn gather(target: &Target) -> Result<StatusReport> {
    let hosts = target.hosts();
    let (answers, mut silent) = ask(&hosts);
    let taken_for_up = |name: &String| {
        let of = |status: &StatusReport| status.hosts.iter().any(|h| is_up(h, name));
        answers.iter().any(of)
    };
    // These answers are older than the second in which the silent hosts did not answer.
    let answers = match silent.iter().any(taken_for_up) {
        true => {
            let again: Vec<_> =
                hosts.into_iter().filter(|(name, _)| !silent.contains(name)).collect();
            let (newer, gone) = ask(&again);
            silent.extend(gone);
            if newer.is_empty() { answers } else { newer }
        }
        false => answers,
    };
    merge(answers, &silent).ok_or_else(|| no_host(target))
}

fn is_up(host: &host::HostReport, name: &str) -> bool {
    host.name == name && host.state == HostState::Up
}

/// Asks hosts side by side. Returns the answers that came in time, in the order of the hosts, and
/// the names of the others.
fn ask(hosts: &[(String, PathBuf)]) -> (Vec<StatusReport>, Vec<String>) {
    let (sender, receiver) = channel();
    for (index, (_, socket)) in hosts.iter().enumerate() {
        let (sender, socket) = (sender.clone(), socket.clone());
        // The thread of a host that never answers ends with its time-out.
        std::thread::spawn(move || {
            // If the answer is too late, nobody waits for it any more.
            let _ = sender.send((index, client::status_within(&socket, FIRST_MAX)));
        });
    }
    drop(sender);
    let mut answers = collect(&receiver, Instant::now());
    answers.sort_by_key(|(index, _)| *index);
    let has_answered = |at: usize| answers.iter().any(|(index, _)| *index == at);
    let names = hosts.iter().enumerate().filter(|(at, _)| !has_answered(*at));
    let silent = names.map(|(_, (name, _))| name.clone()).collect();
    (answers.into_iter().map(|(_, status)| status).collect(), silent)
}

fn collect<T>(receiver: &Receiver<(usize, Option<T>)>, begun: Instant) -> Vec<(usize, T)> {
    let mut answers = Vec::new();
    loop {
        let most = if answers.is_empty() { FIRST_MAX } else { ANSWER_MAX };
        match receiver.recv_timeout(most.saturating_sub(begun.elapsed())) {
            Ok((index, Some(status))) => answers.push((index, status)),
            Ok((_, None)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return answers,
        }
    }
}

/// Begins with the answer of the host that knows most, and adds what only others know. Hosts in
/// `silent` did not answer, whatever the others say.
fn merge(mut statuses: Vec<StatusReport>, silent: &[String]) -> Option<StatusReport> {
    if statuses.is_empty() {
        return None;
    }
    let unsaved = no_backup(&statuses);
    let lead = statuses.iter().position(|s| s.directory).unwrap_or(0);
    let mut merged = statuses.remove(lead);
    for status in statuses {
        merged.groups.extend(status.groups);
        merged.turns.extend(status.turns);
        merged.alarms.extend(status.alarms);
        for theirs in status.volumes {
            let Some(ours) = merged.volumes.iter_mut().find(|v| v.name == theirs.name) else {
                continue;
            };
            ours.clients += theirs.clients;
            // A host that was started lately did not see when the reduction began.
            if ours.reduced_seconds.is_some() {
                ours.reduced_seconds = ours.reduced_seconds.max(theirs.reduced_seconds);
            }
            if ours.owner.as_deref() == Some(status.host.as_str()) {
                ours.components = theirs.components;
            }
        }
    }
    merged.groups.sort_by(|a, b| a.host.cmp(&b.host));
    // All hosts look at one directory, so most alarms are the same.
    merged.alarms.sort();
    merged.alarms.dedup();
    if let Some(line) = &unsaved {
        merged.alarms.push(format!("{line}; see 'gabion directory backups'"));
        merged.health = merged.health.max(Health::Yellow);
    }
    merged.backups = unsaved;
    for name in silent {
        mark_silent(&mut merged, name);
    }
    Some(merged)
}

/// What is wrong with backups of the directory. `None` where at least one host with disk groups has
/// good ones.
fn no_backup(statuses: &[StatusReport]) -> Option<String> {
    let with_groups = || statuses.iter().filter(|status| !status.groups.is_empty());
    let all_lack = with_groups().all(|status| status.backups.is_some());
    with_groups().find_map(|status| status.backups.clone()).filter(|_| all_lack)
}

/// Marks a host that did not answer just now, although others still take it for up.
fn mark_silent(status: &mut StatusReport, name: &str) {
    let Some(host) = status.hosts.iter_mut().find(|host| is_up(host, name)) else { return };
    (host.state, host.silent_seconds) = (HostState::NotAnswering, Some(0));
    status.health = status.health.max(Health::Yellow);
    for volume in &mut status.volumes {
        let mut parts = volume.components.iter_mut();
        let is_concerned = parts.any(|part| part.host == name && part.state == "active");
        if is_concerned {
            let parts = volume.components.iter_mut().filter(|part| part.host == name);
            parts.for_each(|part| part.why = Some(format!("{name} does not answer")));
            volume.reduced_seconds.get_or_insert(0);
            volume.health = volume.health.max(Health::Yellow);
        }
    }
    let away: Vec<&str> =
        status.hosts.iter().filter(|h| h.state != HostState::Up).map(|h| h.name.as_str()).collect();
    for volume in &mut status.volumes {
        if has_none_left(volume, &away) {
            volume.health = Health::Red;
            status.health = Health::Red;
        }
    }
}

/// Whether an object of the volume has no active component on a host that answers.
fn has_none_left(volume: &VolumeReport, away: &[&str]) -> bool {
    let objects = volume.components.iter().map(|part| part.object).max().map_or(0, |last| last + 1);
    let mut has_one = vec![false; usize::try_from(objects).unwrap_or(0)];
    for part in &volume.components {
        if part.state == "active" && !away.contains(&part.host.as_str()) {
            has_one[usize::try_from(part.object).unwrap_or(0)] = true;
        }
    }
    has_one.contains(&false)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use host::{ComponentReport, HostReport};

    pub fn volume(name: &str, components: &[(u64, &str, &str)]) -> VolumeReport {
        let component = |(object, host, state): &(u64, &str, &str)| ComponentReport {
            object: *object,
            host: (*host).to_owned(),
            group: "1".to_owned(),
            state: (*state).to_owned(),
            resync_bytes_left: 0,
            writes_waiting: 0,
            why: None,
        };
        VolumeReport {
            name: name.to_owned(),
            size_bytes: 1 << 30,
            ftt: 1,
            reserve_percent: 0,
            connections: host::Connections::Shared,
            health: Health::Green,
            reduced_seconds: None,
            owner: Some("a".to_owned()),
            term: 1,
            nbd: Vec::new(),
            components: components.iter().map(component).collect(),
            clients: 1,
            note: None,
        }
    }

    fn status(host: &str, volumes: Vec<VolumeReport>) -> StatusReport {
        let up = |name: &str| HostReport {
            name: name.to_owned(),
            state: HostState::Up,
            peer: String::new(),
            silent_seconds: None,
        };
        StatusReport {
            turns: Vec::new(),
            alarms: Vec::new(),
            backups: None,
            host: host.to_owned(),
            health: Health::Green,
            directory: true,
            hosts: ["a", "b", "c"].map(up).into(),
            volumes,
            groups: Vec::new(),
        }
    }

    fn volumes() -> Vec<VolumeReport> {
        vec![
            volume("mirror", &[(0, "a", "active"), (0, "b", "active")]),
            volume("other", &[(0, "a", "active"), (0, "c", "active")]),
            volume("single", &[(0, "a", "active"), (1, "b", "active")]),
            volume("away", &[(0, "a", "active"), (0, "b", "absent")]),
        ]
    }

    #[test]
    fn a_host_that_did_not_answer_is_told_of_before_others_know() {
        let merged = merge(vec![status("a", volumes()), status("c", volumes())], &[]).expect("two");
        assert_eq!((merged.health, merged.volumes[0].clients), (Health::Green, 2));
        let silent = ["b".to_owned()];
        let merged = merge(vec![status("a", volumes()), status("c", volumes())], &silent);
        let merged = merged.expect("two");
        assert_eq!(merged.hosts[1].state, HostState::NotAnswering);
        let healths: Vec<_> =
            merged.volumes.iter().map(|v| (v.health, v.reduced_seconds)).collect();
        let green = (Health::Green, None);
        let expected = [(Health::Yellow, Some(0)), green, (Health::Red, Some(0)), green];
        assert_eq!(healths, expected);
        assert_eq!(merged.health, Health::Red);
        let why = merged.volumes[0].components[1].why.as_deref();
        assert_eq!(why, Some("b does not answer"));
    }

    #[test]
    fn who_saw_a_volume_reduced_for_longest_is_believed() {
        let since = |host: &str, seconds| {
            let mut status = status(host, volumes());
            status.volumes[3].reduced_seconds = seconds;
            status
        };
        let told = |a, c| {
            let merged = merge(vec![since("a", a), since("c", c)], &[]).expect("two");
            merged.volumes[3].reduced_seconds
        };
        assert_eq!(told(Some(3), Some(70)), Some(70));
        assert_eq!(told(Some(70), None), Some(70));
        assert_eq!(told(None, Some(70)), None, "the lead knows that it is over");
    }

    #[test]
    fn backups_are_missed_where_no_host_with_disks_has_a_good_one() {
        let group = r#"{"host": "a", "id": "1", "is_open": true, "buffer_fill": 0.0,
            "used_bytes": 0, "capacity_bytes": 1, "state": "online", "recovery_ms": 1.0}"#;
        let with = |host: &str, said: Option<&str>| StatusReport {
            groups: vec![serde_json::from_str(group).expect("a group")],
            backups: said.map(str::to_owned),
            ..status(host, Vec::new())
        };
        let told = |statuses| {
            let merged = merge(statuses, &[]).expect("some");
            (merged.health, merged.backups, merged.alarms)
        };
        let well = (Health::Green, None, Vec::new());
        assert_eq!(told(vec![with("a", Some("old")), with("b", None)]), well);
        assert_eq!(told(vec![status("a", Vec::new())]), well, "it has no disks to keep one on");
        let bad = told(vec![status("a", Vec::new()), with("b", Some("old"))]);
        let line = "old; see 'gabion directory backups'".to_owned();
        assert_eq!(bad, (Health::Yellow, Some("old".to_owned()), vec![line]));
    }

    #[test]
    fn a_late_answer_counts_where_there_is_no_other() {
        let (sender, receiver) = channel();
        sender.send((1, Some("late"))).expect("a listener");
        let long_ago = Instant::now() - ANSWER_MAX * 2;
        assert_eq!(collect(&receiver, long_ago), [(1, "late")]);
        assert_eq!(collect::<&str>(&receiver, long_ago - FIRST_MAX), []);
    }
}
