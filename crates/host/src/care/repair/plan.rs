// SPDX-License-Identifier: Apache-2.0
//! Which copies are made again elsewhere, and when: pure, from the directory's records, from who is
//! up, and from how long each copy has been missed.

use crate::cluster::room::Rooms;
use base::{ComponentId, HostId, Incarnation, Instant, Map, ObjectId, Set};
use directory::{ComponentRecord, ComponentState, ObjectRecord};
use std::fmt;
use std::time::Duration;

/// Copies that may be on their way to other hosts at a time, of all volumes together.
pub(super) const REPAIRS_MAX: usize = 32;
/// How long a copy may be missed at least whose host is up: it comes back by itself, after pauses
/// of ten minutes at most (rule 18).
const RETURNS_WITHIN: Duration = Duration::from_secs(15 * 60);
/// How long a copy may be missed at most that is known to be lost with its host, and one that is on
/// its way to a host that is down.
const LOST_FOR: Duration = Duration::from_secs(60);

/// What is to be done about one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RepairStep {
    pub(super) object: ObjectId,
    /// The component that is to be replaced, or that stays.
    pub(super) old: ComponentId,
    /// Where its copy is made again. `None`: what was to take its place is called off.
    pub(super) to: Option<HostId>,
}

/// Why a copy that is due is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// An operator wants it so.
    Off,
    /// More than a third of the hosts are missing: more likely a network is cut.
    TooManyMissing,
    /// Every host that is up has a copy.
    NoHost,
    /// There is no copy to make it from.
    NoSource,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "repair is off ('gabion cluster set repair-delay', 'gabion repair now')",
            Self::TooManyMissing => {
                "more than a third of the hosts are missing ('gabion repair now' does not wait)"
            }
            Self::NoHost => "every host that is up has a copy: add a host ('gabion host join')",
            Self::NoSource => "no copy is there to make it from: start the hosts that are down",
        })
    }
}

/// What an object may expect whose copy is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// It is made again from then on.
    At(Instant),
    /// It is not.
    Never(Hindrance),
}

/// What the plan is made from, besides the records.
#[derive(Clone)]
pub(super) struct Facts {
    pub(super) now: Instant,
    /// How long a copy may be missed; `None`: for ever.
    pub(super) delay: Option<Duration>,
    /// The hosts of the cluster that are up, each with its run, and how many there are in all.
    pub(super) alive: Map<HostId, Incarnation>,
    pub(super) hosts: usize,
    /// Hosts that were taken out of the cluster.
    pub(super) removed: Set<HostId>,
    pub(super) rooms: Rooms,
    /// An operator asks for it: no host that is down is waited for, however many are.
    pub(super) hurries: bool,
}

impl Facts {
    /// Whether more than a third of the hosts are missing.
    fn is_braked(&self) -> bool {
        self.hosts.saturating_sub(self.alive.len()) * 3 > self.hosts && !self.hurries
    }

    pub(super) fn is_missed(&self, component: &ComponentRecord) -> bool {
        // One that is to take the place of another begins as absent.
        let is_away = component.replaces.is_none()
            && matches!(component.state, ComponentState::Absent | ComponentState::Degraded);
        is_away || !self.alive.contains_key(&component.host)
    }

    fn is_source(&self, component: &ComponentRecord) -> bool {
        component.state == ComponentState::Active && self.alive.contains_key(&component.host)
    }

    /// Whether nobody owns an object, although there is something for its owner to do: to bring a
    /// component up to date whose host is up, or to have deleted what was taken out, or to take off
    /// the record what lay on a host that is no member any more.
    pub(super) fn lacks_owner(&self, record: &ObjectRecord) -> bool {
        let is_owned = record
            .owner
            .is_some_and(|owner| self.alive.get(&owner.host) == Some(&owner.incarnation));
        let is_up = |host: HostId| self.alive.contains_key(&host);
        let is_behind =
            |one: &ComponentRecord| one.state != ComponentState::Active && is_up(one.host);
        let has_work = record.components.iter().any(is_behind)
            || record.removed.iter().any(|one| is_up(one.host) || self.removed.contains(&one.host));
        !is_owned && has_work && record.components.iter().any(|one| self.is_source(one))
    }

    /// How long a component may be missed; `None`: for ever. One whose host was taken out of the
    /// cluster never comes back: an operator said so.
    fn patience(&self, component: &ComponentRecord) -> Option<Duration> {
        if self.removed.contains(&component.host) {
            return Some(Duration::ZERO);
        }
        let delay = self.delay?;
        Some(match self.alive.contains_key(&component.host) {
            true => delay.max(RETURNS_WITHIN),
            false if self.hurries => Duration::ZERO,
            false if component.state == ComponentState::Degraded => delay.min(LOST_FOR),
            false => delay,
        })
    }

    /// Where a copy that is due is made again.
    fn place(&mut self, due: &Due) -> Result<HostId, Hindrance> {
        match due.sources {
            _ if self.is_braked() => Err(Hindrance::TooManyMissing),
            0 => Err(Hindrance::NoSource),
            _ => self.rooms.take(due.record, None).ok_or(Hindrance::NoHost),
        }
    }
}

/// Since when each component is missed.
#[derive(Default)]
pub(super) struct Missed(Map<ComponentId, Instant>);

impl Missed {
    /// Looks at all records: what is missed now, and what is there again.
    pub(super) fn look(&mut self, records: &[ObjectRecord], facts: &Facts) {
        let before = std::mem::take(&mut self.0);
        let components = records.iter().flat_map(|record| &record.components);
        for component in components.filter(|component| facts.is_missed(component)) {
            let since = before.get(&component.id).copied().unwrap_or(facts.now);
            self.0.insert(component.id, since);
        }
    }

    fn since(&self, component: ComponentId) -> Option<Instant> {
        self.0.get(&component).copied()
    }
}

/// A component that was missed for long enough.
struct Due<'a> {
    /// Copies that are there.
    sources: usize,
    record: &'a ObjectRecord,
    old: ComponentId,
}

/// What is to be done now, and what each object may expect that misses a copy. A component that is
/// back before the one that `is_ours`, which was to take its place, stays.
pub(super) fn plan(
    records: &[ObjectRecord],
    missed: &Missed,
    mut facts: Facts,
    is_ours: impl Fn(ComponentId) -> bool,
) -> (Vec<RepairStep>, Map<ObjectId, Outlook>) {
    let mut outlooks: Map<ObjectId, Outlook> = Map::new();
    let (mut steps, mut due, mut under_way) = (Vec::new(), Vec::new(), 0);
    for record in records {
        let components = &record.components;
        for old in components.iter().filter(|component| component.replaces.is_none()) {
            if let Some(new) = components.iter().find(|c| c.replaces == Some(old.id)) {
                under_way += 1;
                if is_called_off((old, new), missed, &facts, &is_ours) {
                    steps.push(RepairStep { object: record.id, old: old.id, to: None });
                }
                continue;
            }
            let Some(since) = missed.since(old.id) else { continue };
            let Some(patience) = facts.patience(old) else {
                outlooks.insert(record.id, Outlook::Never(Hindrance::Off));
                continue;
            };
            let at = since + patience;
            if at <= facts.now {
                let sources = components.iter().filter(|c| facts.is_source(c)).count();
                due.push(Due { sources, record, old: old.id });
            } else if !matches!(outlooks.get(&record.id), Some(Outlook::At(sooner)) if *sooner < at)
            {
                outlooks.insert(record.id, Outlook::At(at));
            }
        }
    }
    // The fewer copies are left, the sooner.
    due.sort_by_key(|due| (due.sources, due.record.id, due.old));
    for due in due {
        let object = due.record.id;
        let outlook = match facts.place(&due) {
            Ok(to) if under_way < REPAIRS_MAX => {
                under_way += 1;
                steps.push(RepairStep { object, old: due.old, to: Some(to) });
                Outlook::At(facts.now)
            }
            Ok(_) => Outlook::At(facts.now),
            Err(hindrance) => Outlook::Never(hindrance),
        };
        outlooks.insert(object, outlook);
    }
    (steps, outlooks)
}

/// Whether a replacement is to end: the old component is back, or the new one's host is gone too.
fn is_called_off(
    (old, new): (&ComponentRecord, &ComponentRecord),
    missed: &Missed,
    facts: &Facts,
    is_ours: impl Fn(ComponentId) -> bool,
) -> bool {
    if facts.removed.contains(&new.host) {
        return true;
    }
    match missed.since(old.id) {
        None => old.state == ComponentState::Active && is_ours(old.id),
        Some(_) => missed.since(new.id).is_some_and(|since| facts.now.since(since) >= LOST_FOR),
    }
}
