// SPDX-License-Identifier: Apache-2.0
//! Policies, and whether volumes are as their rules ask for.

use super::{CachedReport, ComponentReport, VolumeReport};
use base::{Map, Set, format_size};
use directory::{Affinity, IoLimits, RepairDelay};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyReport {
    /// Its name.
    pub name: String,
    /// Rises by one with every change.
    pub version: u64,
    /// Failures that volumes tolerate.
    pub ftt: u8,
    /// Part of a volume's size that is kept for it, percent.
    pub reserve_percent: u8,
    /// For which part of a volume's size read cache is kept, percent.
    #[serde(default)]
    pub cache_percent: u8,
    /// Over how many parts volumes are striped.
    #[serde(default = "crate::command::one")]
    pub stripe_width: u8,
    /// Whether volumes are kept on one host.
    #[serde(default)]
    pub affinity: Affinity,
    /// Whether volumes are made also where there is no place for all of their copies.
    #[serde(default)]
    pub force: bool,
    /// How long a copy may be away before it is made again on another host.
    pub repair_delay: RepairDelay,
    /// What each volume may do in a second, at each host that it is used through.
    #[serde(default)]
    pub limits: IoLimits,
    /// Volumes that follow it, each with the version that was applied to it last.
    pub volumes: Vec<Follower>,
}

/// A volume that follows a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Follower {
    /// The volume.
    pub name: String,
    /// Version of the policy whose rules it has.
    pub version: u64,
}

/// What a change of rules means for one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectReport {
    /// The volume.
    pub volume: String,
    /// Bytes that are copied to other hosts.
    pub copied_bytes: u64,
    /// Bytes that are given back.
    pub freed_bytes: u64,
    /// Bytes that are kept for it on each of its hosts from then on, more than now.
    pub reserved_bytes: u64,
    /// Bytes of read cache that are kept for it then on all of its hosts together, more than now.
    #[serde(default)]
    pub cached_bytes: u64,
    /// `copied_bytes` and `freed_bytes` are what it may have at most: the host that was asked has
    /// no copy of all of it.
    pub at_most: bool,
}

/// What a policy, or a change of it, asks of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyCheckReport {
    /// The policy, as it would be.
    pub policy: PolicyReport,
    /// Why the cluster cannot do it now.
    pub impossible: Option<String>,
    /// What changes for volumes that follow it, or would; those for which nothing does are left
    /// out.
    pub effects: Vec<EffectReport>,
    /// Bytes that all hosts that are up may still be given together, once the volumes there have
    /// taken what they may.
    #[serde(default)]
    pub room_bytes: u64,
}

/// What became of a policy that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyEditReport {
    /// The policy, as it is now.
    pub policy: PolicyReport,
    /// Volumes that have its rules since.
    pub changed: Vec<String>,
    /// Volumes that keep the rules that they had.
    pub refused: Vec<NotFollowing>,
}

/// A volume that could not be given the rules of its policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotFollowing {
    /// The volume.
    pub volume: String,
    /// Why not.
    pub why: String,
}

/// The policy of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumePolicy {
    /// Its name.
    pub name: String,
    /// The version of it whose rules the volume has.
    pub version: u64,
    /// The version that it has now; none where there is no such policy any more.
    pub newest: Option<u64>,
    /// How long a copy of the volume may be away, by the version that it has.
    pub repair_delay: RepairDelay,
    /// What the volume may do in a second, by the version that it has.
    #[serde(default)]
    pub limits: IoLimits,
}

/// Requests for a volume that waited at one host, because it was above its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitedReport {
    /// Name of the host.
    pub host: String,
    /// How many, since the volume was opened there.
    pub requests: u64,
    /// How long they waited, added up, milliseconds.
    pub waited_ms: u64,
}

impl LimitedReport {
    /// Of the host of this name.
    #[must_use]
    pub fn new(host: String, limited: volume::Limited) -> Self {
        let waited_ms = u64::try_from(limited.waited.as_millis()).unwrap_or(u64::MAX);
        Self { host, requests: limited.requests, waited_ms }
    }
}

/// Whether a volume is as its rules ask for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ComplianceState {
    /// It is.
    #[default]
    Compliant,
    /// It is not, and something is under way that makes it so.
    Changing,
    /// It is not, and stays so until somebody does something, or until a repair is due.
    NotCompliant,
}

impl ComplianceState {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compliant => "compliant",
            Self::Changing => "being made compliant",
            Self::NotCompliant => "not compliant",
        }
    }
}

/// Whether a volume is as its rules ask for, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComplianceReport {
    /// The worst of what is said in `why`.
    pub state: ComplianceState,
    /// What is missing, and what is done about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

impl ComplianceReport {
    fn add(&mut self, state: ComplianceState, why: String) {
        self.state = self.state.max(state);
        self.why.push(why);
    }
}

/// Copies of one object.
#[derive(Clone, Copy, Default)]
struct Copies {
    /// They have everything, and their hosts answer.
    whole: usize,
    /// All that are not to take another's place.
    all: usize,
}

/// A fault domain with two of these copies of one part.
fn shared_domain<'a>(parts: impl Iterator<Item = &'a ComponentReport>) -> Option<&'a str> {
    let mut taken = Set::new();
    let mut placed = parts.filter_map(|part| Some((part.object, part.domain.as_deref()?)));
    placed.find(|place| !taken.insert(*place)).map(|(_, domain)| domain)
}

impl VolumeReport {
    /// Whether two copies of one part are in one fault domain.
    fn look_at_domains(&self, found: &mut ComplianceReport) {
        let is_leaving = |part: &ComponentReport| {
            let mut others = self.components.iter().filter(|new| new.object == part.object);
            others.any(|new| new.replaces.as_ref() == Some(&part.host))
        };
        let parts = self.components.iter().filter(|part| part.replaces.is_none());
        if let Some(domain) = shared_domain(parts.clone().filter(|part| !is_leaving(part))) {
            let why = format!(
                "two copies are in fault domain {domain}: one of them moves as soon as a host in \
                 another one can take it (gabion domain list)"
            );
            found.add(ComplianceState::NotCompliant, why);
        } else if let Some(domain) = shared_domain(parts) {
            let why = format!("two copies are in fault domain {domain}: one of them moves");
            found.add(ComplianceState::Changing, why);
        }
    }

    /// Whether it is as its rules ask for, by what else is said here.
    #[must_use]
    pub fn find_compliance(&self) -> ComplianceReport {
        let mut found = ComplianceReport::default();
        self.look_at_policy(&mut found);
        self.look_at_stripes(&mut found);
        self.look_at_home(&mut found);
        self.look_at_cache(&mut found);
        self.look_at_copies(&mut found);
        found
    }

    fn look_at_policy(&self, found: &mut ComplianceReport) {
        let Some(policy) = &self.policy else { return };
        let (volume, name, version) = (&self.name, &policy.name, policy.version);
        match policy.newest {
            Some(newest) if newest == version => {}
            Some(newest) => found.add(
                ComplianceState::NotCompliant,
                format!(
                    "it has the rules of version {version} of policy {name}, whose version is \
                     {newest}: gabion volume set-policy {volume} {name}"
                ),
            ),
            None => found.add(
                ComplianceState::NotCompliant,
                format!(
                    "there is no policy {name} any more: give it another one (gabion volume \
                     set-policy {volume} POLICY)"
                ),
            ),
        }
    }

    fn look_at_stripes(&self, found: &mut ComplianceReport) {
        if self.otherwise_striped_bytes == 0 {
            return;
        }
        let (bytes, width) = (format_size(self.otherwise_striped_bytes), self.stripe_width);
        let why = format!(
            "{bytes} of it were made before it was to be striped over {width}, and stay as they \
             are: copy it into a new volume"
        );
        found.add(ComplianceState::NotCompliant, why);
    }

    fn look_at_home(&self, found: &mut ComplianceReport) {
        let Some(home) = self.home.as_ref().filter(|home| home.elsewhere > 0) else { return };
        let (host, parts) = (&home.host, home.elsewhere);
        let are = if parts == 1 { "1 part of it is" } else { &format!("{parts} parts of it are") };
        match &home.not_moved {
            Some(why) => found.add(
                ComplianceState::NotCompliant,
                format!("{are} not on {host}, where it is kept: {why}"),
            ),
            None => {
                found.add(ComplianceState::Changing, format!("{are} moving to {host}"));
            }
        }
    }

    fn look_at_cache(&self, found: &mut ComplianceReport) {
        for at in self.cached.iter().filter(|at| at.kept_bytes < at.asked_bytes) {
            let CachedReport { host, asked_bytes, kept_bytes, .. } = at;
            let why = format!(
                "{host} keeps {} of {} of read cache for it: volumes ask for more together than \
                 its disk groups may keep (gabion group show); ask for less, or give them larger \
                 cache devices",
                format_size(*kept_bytes),
                format_size(*asked_bytes)
            );
            found.add(ComplianceState::NotCompliant, why);
        }
    }

    fn look_at_copies(&self, found: &mut ComplianceReport) {
        let asked = usize::from(self.ftt) + 1;
        let mut objects: Map<u64, Copies> = Map::new();
        for part in self.components.iter().filter(|part| part.replaces.is_none()) {
            let copies = objects.entry(part.object).or_default();
            copies.all += 1;
            copies.whole += usize::from(part.state == "active" && part.why.is_none());
        }
        let few = objects.values().filter(|copies| copies.whole < asked).count();
        let surplus = objects.values().filter(|copies| copies.all > asked).count();
        if surplus > 0 {
            found.add(ComplianceState::Changing, "it has more copies than asked".to_owned());
        }
        self.look_at_domains(found);
        if few == 0 {
            return;
        }
        let of = if objects.len() > 1 {
            format!("{few} of {} parts have fewer than {asked} copies", objects.len())
        } else {
            format!("it has fewer than {asked} copies")
        };
        let left: u64 = self.components.iter().map(|part| part.resync_bytes_left).sum();
        let is_filled = |part: &ComponentReport| part.state == "resyncing";
        let (state, next) = if left > 0 {
            let within = self.copied_in_seconds.map(|left| format!(", which takes {left} s now"));
            let (left, within) = (format_size(left), within.unwrap_or_default());
            (ComplianceState::Changing, format!("{left} are still to be copied{within}"))
        } else if self.components.iter().any(is_filled) {
            (ComplianceState::Changing, "one is being filled".to_owned())
        } else if let Some(why) = &self.not_repaired {
            (ComplianceState::NotCompliant, why.clone())
        } else {
            match self.repair_in_seconds {
                Some(0) => (ComplianceState::Changing, "one is about to be made".to_owned()),
                Some(seconds) => {
                    let next = format!("one is made on another host in {seconds} s");
                    (ComplianceState::NotCompliant, next)
                }
                None => (ComplianceState::NotCompliant, "nothing is done about it yet".to_owned()),
            }
        };
        found.add(state, format!("{of}: {next}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::tests::volume;

    /// State, and whether one reason says `word`.
    fn found(report: &VolumeReport, word: &str) -> (ComplianceState, bool) {
        let found = report.find_compliance();
        (found.state, found.why.iter().any(|why| why.contains(word)))
    }

    #[test]
    fn a_volume_is_compliant_with_all_copies_and_the_newest_rules() {
        use ComplianceState::{Changing, Compliant, NotCompliant};
        let mut report = volume("v", &[(0, "a", "active"), (0, "b", "active")]);
        assert_eq!(report.find_compliance(), ComplianceReport::default());
        report.ftt = 2;
        assert_eq!(found(&report, "fewer than 3 copies"), (NotCompliant, true));
        report.repair_in_seconds = Some(70);
        assert_eq!(found(&report, "in 70 s"), (NotCompliant, true));
        report.repair_in_seconds = Some(0);
        assert_eq!(found(&report, "about to be made"), (Changing, true));
        report.not_repaired = Some("add a host".to_owned());
        assert_eq!(found(&report, "add a host"), (NotCompliant, true));
        report.components.push(ComponentReport {
            state: "resyncing".to_owned(),
            resync_bytes_left: 5 << 20,
            ..report.components[0].clone()
        });
        assert_eq!(found(&report, "are still to be copied"), (Changing, true));
        report.copied_in_seconds = Some(12);
        assert_eq!(found(&report, "which takes 12 s now"), (Changing, true));
        report.components[2].state = "active".to_owned();
        assert_eq!(report.find_compliance().state, Compliant);
        report.components[2].why = Some("its host is down".to_owned());
        assert_ne!(report.find_compliance().state, Compliant);
        report.ftt = 0;
        assert_eq!(found(&report, "more copies"), (Changing, true));
    }

    #[test]
    fn a_volume_for_which_less_read_cache_is_kept_than_asked_is_not_compliant() {
        let mut report = volume("v", &[(0, "a", "active"), (0, "b", "active")]);
        let at = |host: &str, kept_bytes| CachedReport {
            host: host.to_owned(),
            held_bytes: 0,
            asked_bytes: 3 << 20,
            kept_bytes,
        };
        report.cached = vec![at("a", 3 << 20), at("b", 3 << 20)];
        assert_eq!(report.find_compliance(), ComplianceReport::default());
        report.cached[1] = at("b", 2 << 20);
        let word = "b keeps 2MiB of 3MiB of read cache";
        assert_eq!(found(&report, word), (ComplianceState::NotCompliant, true));
    }

    #[test]
    fn a_volume_with_the_rules_of_another_version_is_not_compliant() {
        use ComplianceState::{Compliant, NotCompliant};
        let mut report = volume("v", &[(0, "a", "active"), (0, "b", "active")]);
        let with = |newest| {
            let (repair_delay, limits) = (RepairDelay::Cluster, IoLimits::default());
            Some(VolumePolicy { name: "gold".to_owned(), version: 3, newest, repair_delay, limits })
        };
        report.policy = with(Some(3));
        assert_eq!(report.find_compliance().state, Compliant);
        report.policy = with(Some(4));
        assert_eq!(found(&report, "set-policy v gold"), (NotCompliant, true));
        report.policy = with(None);
        assert_eq!(found(&report, "no policy gold"), (NotCompliant, true));
    }

    #[test]
    fn a_volume_with_two_copies_in_one_domain_is_not_compliant() {
        use ComplianceState::{Changing, Compliant, NotCompliant};
        let mut report = volume("v", &[(0, "a", "active"), (0, "b", "active"), (1, "a", "active")]);
        report
            .components
            .push(ComponentReport { host: "c".to_owned(), ..report.components[2].clone() });
        for (component, rack) in report.components.iter_mut().zip(["r1", "r2", "r1", "r2"]) {
            component.domain = Some(rack.to_owned());
        }
        assert_eq!(report.find_compliance().state, Compliant);
        report.components[3].domain = Some("r1".to_owned());
        assert_eq!(found(&report, "two copies are in fault domain r1"), (NotCompliant, true));
        let new = ComponentReport {
            host: "d".to_owned(),
            replaces: Some("c".to_owned()),
            domain: Some("r3".to_owned()),
            ..report.components[3].clone()
        };
        report.components.push(new);
        assert_eq!(found(&report, "one of them moves"), (Changing, true));
        report.components.iter_mut().for_each(|component| component.domain = None);
        assert_eq!(report.find_compliance().state, Compliant, "hosts are domains of their own");
    }

    #[test]
    fn a_volume_of_many_parts_says_how_many_lack_a_copy() {
        let parts =
            [(0, "a", "active"), (0, "b", "active"), (1, "a", "active"), (1, "b", "absent")];
        let report = volume("v", &parts);
        assert!(found(&report, "1 of 2 parts").1);
        let mut moving = volume("v", &parts[..2]);
        let new = ComponentReport {
            replaces: Some("b".to_owned()),
            state: "resyncing".to_owned(),
            ..moving.components[1].clone()
        };
        moving.components.push(new);
        assert_eq!(moving.find_compliance().state, ComplianceState::Compliant, "it moves");
    }
}
