// SPDX-License-Identifier: Apache-2.0
//! The answers of several hosts, merged into one report: each host knows its own disk groups and
//! clients best, and the owner of a volume knows most of the volume's copies. Pure.

use crate::report::{
    ComponentReport, Health, HostReport, HostState, ResyncSum, StatusReport, VolumeReport,
};
use base::Map;

/// Whether somebody says that a host which did not answer is up: what is said is older than the
/// time in which that host was silent.
#[must_use]
pub fn is_silent_taken_for_up(answers: &[StatusReport], silent: &[String]) -> bool {
    let taken_for_up = |name: &String| {
        let of = |status: &StatusReport| status.hosts.iter().any(|h| is_up(h, name));
        answers.iter().any(of)
    };
    silent.iter().any(taken_for_up)
}

/// Begins with the answer of the host that knows most, and adds what only others know. Hosts in
/// `silent` did not answer, whatever the others say. `None` where nobody answered.
#[must_use]
pub fn merge(mut statuses: Vec<StatusReport>, silent: &[String]) -> Option<StatusReport> {
    if statuses.is_empty() {
        return None;
    }
    let unsaved = no_backup(&statuses);
    let lead = statuses.iter().position(|s| s.directory).unwrap_or(0);
    let mut merged = statuses.remove(lead);
    // Thousands of volumes, each looked for in the answer of each shard.
    let names = merged.volumes.iter().enumerate();
    let places: Map<String, usize> = names.map(|(at, one)| (one.name.clone(), at)).collect();
    for status in statuses {
        merged.groups.extend(status.groups);
        merged.turns.extend(status.turns);
        merged.resyncs.extend(status.resyncs);
        merged.writes.extend(status.writes);
        merged.memory.extend(status.memory);
        merged.alarms.extend(status.alarms);
        for theirs in status.volumes {
            let Some(at) = places.get(&theirs.name) else { continue };
            let ours = &mut merged.volumes[*at];
            ours.clients += theirs.clients;
            ours.limited.extend(theirs.limited);
            ours.cached.extend(theirs.cached);
            // A host that was started lately did not see when the reduction began.
            if ours.reduced_seconds.is_some() {
                ours.reduced_seconds = ours.reduced_seconds.max(theirs.reduced_seconds);
            }
            // The host that missed the copy first has it made again first, or says why not.
            ours.not_repaired = ours.not_repaired.take().or(theirs.not_repaired);
            let both = [ours.repair_in_seconds, theirs.repair_in_seconds];
            ours.repair_in_seconds = both.into_iter().flatten().min();
            if ours.owner.as_deref() == Some(status.host.as_str()) {
                ours.components = theirs.components;
            }
        }
    }
    merged.groups.sort_by(|a, b| a.host.cmp(&b.host));
    merged
        .resyncs
        .sort_by(|a, b| (&a.volume, a.object, &a.host).cmp(&(&b.volume, b.object, &b.host)));
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
    for volume in &mut merged.volumes {
        // They are sorted by the name of their volume.
        let first = merged.resyncs.partition_point(|one| one.volume < volume.name);
        let of_it = merged.resyncs[first..].iter().take_while(|one| one.volume == volume.name);
        volume.copied_in_seconds = ResyncSum::of(of_it).seconds_left;
        volume.compliance = volume.find_compliance();
    }
    Some(merged)
}

fn is_up(host: &HostReport, name: &str) -> bool {
    host.name == name && host.state == HostState::Up
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

/// Sums over the components on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All of them.
    pub components: u64,
    /// Those that serve.
    pub active: u64,
    /// Active in the record, but their host does not answer.
    pub not_answering: u64,
    /// Bytes still to copy.
    pub resync_bytes_left: u64,
}

/// What the components of a volume come to on each host, by its name.
#[must_use]
pub fn totals(components: &[ComponentReport]) -> Map<&str, Totals> {
    let mut hosts: Map<&str, Totals> = Map::new();
    for part in components {
        let host = hosts.entry(&part.host).or_default();
        let is_active = part.state == "active";
        host.components += 1;
        host.active += u64::from(is_active && part.why.is_none());
        host.not_answering += u64::from(is_active && part.why.is_some());
        host.resync_bytes_left += part.resync_bytes_left;
    }
    hosts
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn volume(name: &str, components: &[(u64, &str, &str)]) -> VolumeReport {
        let component = |(object, host, state): &(u64, &str, &str)| ComponentReport {
            object: *object,
            host: (*host).to_owned(),
            domain: None,
            group: "1".to_owned(),
            state: (*state).to_owned(),
            resync_bytes_left: 0,
            writes_waiting: 0,
            why: None,
            replaces: None,
        };
        VolumeReport {
            name: name.to_owned(),
            size_bytes: 1 << 30,
            ftt: 1,
            reserve_percent: 0,
            cache_percent: 0,
            cached: Vec::new(),
            stripe_width: 1,
            home: None,
            otherwise_striped_bytes: 0,
            connections: directory::Connections::Shared,
            writer: crate::report::WriterReport::default(),
            policy: None,
            labels: directory::Labels::new(),
            compliance: crate::report::ComplianceReport::default(),
            health: Health::Green,
            reduced_seconds: None,
            repair_in_seconds: None,
            not_repaired: None,
            copied_in_seconds: None,
            owner: Some("a".to_owned()),
            term: 1,
            nbd: Vec::new(),
            components: components.iter().map(component).collect(),
            clients: 1,
            limited: Vec::new(),
            note: None,
        }
    }

    fn status(host: &str, volumes: Vec<VolumeReport>) -> StatusReport {
        let up = |name: &str| HostReport {
            host: None,
            domains: Vec::new(),
            maintenance: None,
            name: name.to_owned(),
            state: HostState::Up,
            peer: String::new(),
            silent_seconds: None,
            level: None,
        };
        StatusReport {
            level: None,
            turns: Vec::new(),
            resyncs: Vec::new(),
            writes: Vec::new(),
            memory: Vec::new(),
            alarms: Vec::new(),
            backups: None,
            host: host.to_owned(),
            health: Health::Green,
            directory: true,
            hosts: ["a", "b", "c"].map(up).into(),
            removed: Vec::new(),
            trash: Vec::new(),
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
    fn many_components_come_to_a_line_for_each_host() {
        let mut parts = Vec::new();
        (0..249).for_each(|at| parts.extend([(at, "a", "active"), (at, "b", "active")]));
        (parts[3].2, parts[5].2) = ("resyncing", "absent");
        let mut volume = volume("archive", &parts);
        volume.components[3].resync_bytes_left = 7;
        volume.components[7].why = Some("b does not answer".to_owned());
        let all = totals(&volume.components);
        let a = Totals { components: 249, active: 249, not_answering: 0, resync_bytes_left: 0 };
        let b = Totals { components: 249, active: 246, not_answering: 1, resync_bytes_left: 7 };
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [("a", a), ("b", b)]);
    }
}
