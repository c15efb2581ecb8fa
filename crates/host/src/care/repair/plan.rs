// SPDX-License-Identifier: Apache-2.0
//! Which copies are made again elsewhere, and when; which objects get more copies, or fewer. Pure:
//! from the directory's records, from who is up, and from how long each copy has been missed.

use super::leaving::{is_away, is_to_leave, is_too_close};
use crate::cluster::room::{NoPlace, Rooms};
use crate::cluster::view::Wanted;
use base::{ComponentId, Incarnation, Instant, Map, ObjectId, Seat, Set, ShardId, VolumeId};
use directory::{ComponentRecord, ComponentState, MaintenanceRecord, ObjectRecord, RepairDelay};
use object::MemberChange;
use placement::HostDomains;
use std::cmp::Reverse;
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

/// What is to be done about one component: replaced by one on another host, or kept where its
/// replacement is called off; or an object gets one more, or one less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RepairStep {
    pub(super) object: ObjectId,
    pub(super) change: MemberChange,
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
    /// Every host that is up has a copy, or is in a fault domain with one that has.
    DomainsTaken,
    /// The host that the volume is kept on has one, is down, or is in maintenance.
    NotAtHome,
    /// There is no copy to make it from.
    NoSource,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => {
                "repair is off, by the volume's policy or for the cluster ('gabion policy show', \
                 'gabion cluster show'; 'gabion repair now' makes it)"
            }
            Self::TooManyMissing => {
                "more than a third of the hosts are missing ('gabion repair now' does not wait)"
            }
            Self::NoHost => {
                "every host that is up has a copy, or is in maintenance: add a host ('gabion host \
                 join')"
            }
            Self::DomainsTaken => {
                "every host that is up has a copy, or is in a fault domain with one that has \
                 ('gabion domain list'): add a host in another one"
            }
            Self::NotAtHome => {
                "the host that it is kept on is down or in maintenance ('gabion volume show'; \
                 'gabion volume change --anywhere' lets it be made elsewhere)"
            }
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
    /// How long a copy may be missed whose volume's policy does not say so; `None`: for ever.
    pub(super) delay: Option<Duration>,
    /// The hosts of the cluster that are up, each with its run.
    pub(super) alive: Map<ShardId, Incarnation>,
    /// How many machines the hosts of the cluster are on.
    pub(super) machines: usize,
    /// On how many of them no host is up.
    pub(super) machines_missing: usize,
    /// Hosts that were taken out of the cluster.
    pub(super) removed: Set<ShardId>,
    pub(super) rooms: Rooms,
    /// What the objects of each volume are to have.
    pub(super) wanted: Map<VolumeId, Wanted>,
    /// Hosts in maintenance.
    pub(super) maintenance: MaintenanceRecord,
    /// Which hosts count as one.
    pub(super) domains: HostDomains,
    /// An operator asks for it: no host that is down is waited for, however many are.
    pub(super) hurries: bool,
}

impl Facts {
    /// Whether more than a third of the machines are missing.
    fn is_braked(&self) -> bool {
        self.machines_missing * 3 > self.machines && !self.hurries
    }

    pub(super) fn is_missed(&self, component: &ComponentRecord) -> bool {
        // One that is to take the place of another begins as absent.
        let is_away = component.replaces.is_none()
            && matches!(component.state, ComponentState::Absent | ComponentState::Degraded);
        is_away || !self.alive.contains_key(&component.shard)
    }

    /// Whether a component is to leave its host, which is in maintenance, or counts as one with
    /// another that has a component. One of a volume that is kept on one host leaves for that
    /// alone.
    pub(super) fn leaves(&self, record: &ObjectRecord, component: &ComponentRecord) -> bool {
        let is_up = |shard| self.alive.contains_key(&shard);
        match self.home(record.volume) {
            Some(home) => is_away(component, home, is_up, |shard| self.takes(shard)),
            None => {
                is_to_leave(record, component, &self.maintenance, is_up)
                    || is_too_close(record, component, &self.domains, is_up)
            }
        }
    }

    /// The shards of the host that all of a volume is kept on.
    fn home(&self, volume: VolumeId) -> Option<&[ShardId]> {
        self.wanted.get(&volume)?.home.as_deref()
    }

    /// Whether a host is up and gets something new.
    fn takes(&self, shard: ShardId) -> bool {
        self.alive.contains_key(&shard) && self.maintenance.mode(shard).is_none()
    }

    /// How many copies an object is to have more than it has, or less (below zero), where none is
    /// on its way in another's place. The volumes of objects that are being made, or deleted, are
    /// not known. What a doubted record says is not believed.
    pub(super) fn lacks(&self, record: &ObjectRecord) -> i64 {
        let Some(asked) = self.wanted.get(&record.volume) else { return 0 };
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let is_changing = record.components.iter().any(|one| one.replaces.is_some());
        if is_changing || record.is_doubted {
            0
        } else {
            count(asked.copies) - count(record.components.len())
        }
    }

    /// Whether a component is being filled, or was just added, on a host that is up.
    fn is_on_its_way(&self, component: &ComponentRecord) -> bool {
        let is_new = component.state == ComponentState::Absent && component.seat == Seat(0);
        (is_new || component.state == ComponentState::Resyncing)
            && self.alive.contains_key(&component.shard)
    }

    /// Which component leaves an object that has more than it is to have: one whose host is down,
    /// else one that does not count, else one that does, of a fault domain with another one or a
    /// host in maintenance before others, but not the owner's own; of a volume that is kept on one
    /// host one that is elsewhere. `None` while no copy is there that counts.
    fn surplus(&self, record: &ObjectRecord) -> Option<ComponentId> {
        if !record.components.iter().any(|one| self.is_source(one)) {
            return None;
        }
        let is_owners = |one: &ComponentRecord| record.owner.is_some_and(|o| o.shard == one.shard);
        let is_up = |shard| self.alive.contains_key(&shard);
        let worth = |one: &&ComponentRecord| {
            let is_coming = one.state == ComponentState::Resyncing;
            let stays = match self.home(record.volume) {
                Some(home) => home.contains(&one.shard),
                None => {
                    self.maintenance.mode(one.shard).is_none()
                        && !is_too_close(record, one, &self.domains, is_up)
                }
            };
            let (is_source, is_up) = (self.is_source(one), is_up(one.shard));
            (is_source, is_up, is_coming, stays, is_owners(one), Reverse(one.shard))
        };
        record.components.iter().min_by_key(worth).map(|one| one.id)
    }

    /// One component less of an object that has more than it is to have.
    fn taken_out(&self, record: &ObjectRecord) -> Option<RepairStep> {
        let (component, version) = (self.surplus(record)?, record.version);
        let change = MemberChange::TakeOut { component, version };
        Some(RepairStep { object: record.id, change })
    }

    fn is_source(&self, component: &ComponentRecord) -> bool {
        component.state == ComponentState::Active && self.alive.contains_key(&component.shard)
    }

    /// Whether nobody owns an object, although there is something for its owner to do: to bring a
    /// component up to date whose host is up, or to have deleted what was taken out, or to take off
    /// the record what lay on a host that is no member any more.
    pub(super) fn lacks_owner(&self, record: &ObjectRecord) -> bool {
        let is_owned = record
            .owner
            .is_some_and(|owner| self.alive.get(&owner.shard) == Some(&owner.incarnation));
        let is_up = |shard: ShardId| self.alive.contains_key(&shard);
        let is_behind =
            |one: &ComponentRecord| one.state != ComponentState::Active && is_up(one.shard);
        let has_work = record.components.iter().any(is_behind)
            || record
                .removed
                .iter()
                .any(|one| is_up(one.shard) || self.removed.contains(&one.shard));
        !is_owned && has_work && record.components.iter().any(|one| self.is_source(one))
    }

    /// How long a copy of a volume may be missed; `None`: for ever.
    fn delay_of(&self, volume: VolumeId) -> Option<Duration> {
        let asked = self.wanted.get(&volume).map_or(RepairDelay::Cluster, |w| w.repair_delay);
        let delay = match asked {
            RepairDelay::Cluster => self.delay,
            RepairDelay::Never => None,
            RepairDelay::Seconds(seconds) => Some(Duration::from_secs(seconds)),
        };
        if self.hurries { delay.or(Some(Duration::MAX)) } else { delay }
    }

    /// How long a component may be missed; `None`: for ever. One whose host was taken out of the
    /// cluster never comes back: an operator said so.
    fn patience(&self, volume: VolumeId, component: &ComponentRecord) -> Option<Duration> {
        if self.removed.contains(&component.shard) {
            return Some(Duration::ZERO);
        }
        let delay = self.delay_of(volume)?;
        Some(match self.alive.contains_key(&component.shard) {
            true => delay.max(RETURNS_WITHIN),
            false if self.hurries => Duration::ZERO,
            false if component.state == ComponentState::Degraded => delay.min(LOST_FOR),
            false => delay,
        })
    }

    /// Where a copy that is due is made.
    fn place(&mut self, due: &Due) -> Result<ShardId, Hindrance> {
        let home = self.home(due.record.volume);
        let home = home.map(|home| home.iter().copied().filter(|shard| self.takes(*shard)));
        let home: Option<Vec<ShardId>> = home.map(Iterator::collect);
        match due.sources {
            _ if self.is_braked() => Err(Hindrance::TooManyMissing),
            0 => Err(Hindrance::NoSource),
            _ => self.rooms.take(due.record, due.old, home.as_deref()).map_err(|why| match why {
                _ if home.is_some() => Hindrance::NotAtHome,
                NoPlace::NoHost => Hindrance::NoHost,
                NoPlace::DomainsTaken => Hindrance::DomainsTaken,
            }),
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

/// A component that was missed for long enough, or leaves its host.
struct Due<'a> {
    /// It leaves its host, which is up.
    leaves: bool,
    /// Copies that are there.
    sources: usize,
    record: &'a ObjectRecord,
    /// `None`: one that the object is to have more.
    old: Option<ComponentId>,
}

impl Due<'_> {
    /// One more component on the host `to`.
    fn step(&self, to: ShardId) -> RepairStep {
        let change = match self.old {
            Some(old) => MemberChange::Replace { old, to, members: self.record.members() },
            None => MemberChange::Add { to, version: self.record.version },
        };
        RepairStep { object: self.record.id, change }
    }
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
        let sources = components.iter().filter(|c| facts.is_source(c)).count();
        match facts.lacks(record) {
            1.. => due.push(Due { leaves: false, sources, record, old: None }),
            0 => {}
            _ => {
                let is_too_many = steps.len() >= REPAIRS_MAX;
                steps.extend(facts.taken_out(record).filter(|_| !is_too_many));
                continue; // what leaves need not be made again
            }
        }
        for old in components.iter().filter(|component| component.replaces.is_none()) {
            if let Some(new) = components.iter().find(|c| c.replaces == Some(old.id)) {
                under_way += 1;
                if is_called_off(record, (old, new), missed, &facts, &is_ours) {
                    let change = MemberChange::Keep(old.id);
                    steps.push(RepairStep { object: record.id, change });
                }
                continue;
            }
            under_way += usize::from(facts.is_on_its_way(old));
            if facts.leaves(record, old) {
                due.push(Due { leaves: true, sources, record, old: Some(old.id) });
                continue;
            }
            let Some(since) = missed.since(old.id) else { continue };
            let Some(patience) = facts.patience(record.volume, old) else {
                outlooks.insert(record.id, Outlook::Never(Hindrance::Off));
                continue;
            };
            let at = since + patience;
            if at <= facts.now {
                due.push(Due { leaves: false, sources, record, old: Some(old.id) });
            } else if !matches!(outlooks.get(&record.id), Some(Outlook::At(sooner)) if *sooner < at)
            {
                outlooks.insert(record.id, Outlook::At(at));
            }
        }
    }
    // What is missed before what leaves; the fewer copies are left, the sooner.
    due.sort_by_key(|due| (due.leaves, due.sources, due.record.id, due.old));
    for due in due {
        // One at a time of each object: where the next one may go depends on it.
        if steps.iter().any(|step| step.object == due.record.id) {
            continue;
        }
        let place = facts.place(&due);
        if let Ok(to) = place
            && under_way < REPAIRS_MAX
        {
            under_way += 1;
            steps.push(due.step(to));
        }
        if !due.leaves {
            let outlook = place.map_or_else(Outlook::Never, |_| Outlook::At(facts.now));
            outlooks.insert(due.record.id, outlook);
        }
    }
    (steps, outlooks)
}

/// Whether a replacement is to end: the old component is back, or need not leave its host any more,
/// or the new one's host is gone too.
fn is_called_off(
    record: &ObjectRecord,
    (old, new): (&ComponentRecord, &ComponentRecord),
    missed: &Missed,
    facts: &Facts,
    is_ours: impl Fn(ComponentId) -> bool,
) -> bool {
    if facts.removed.contains(&new.shard) {
        return true;
    }
    let is_wanted = missed.since(old.id).is_some() || facts.leaves(record, old);
    match is_wanted {
        false => old.state == ComponentState::Active && is_ours(old.id),
        true => missed.since(new.id).is_some_and(|since| facts.now.since(since) >= LOST_FOR),
    }
}
