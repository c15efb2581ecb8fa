// SPDX-License-Identifier: Apache-2.0
//! What maintenance of a host means for each volume with a copy on one of its shards. Pure.

use crate::care::repair::{has_place, is_to_leave, left_without};
use crate::operations::hosts::named;
use base::{Map, ObjectId, SECTOR_SIZE, ShardId, VolumeId, format_size};
use directory::{ComponentState, MaintenanceMode, MaintenanceRecord, ObjectRecord, VolumeRecord};
use operator::{MaintenanceReport, VolumeWithoutHost};
use placement::HostDomains;

/// The hosts as they are once `stopped` are in maintenance.
pub(super) struct Situation {
    /// All shards of a host, or one of them; one at least.
    pub(super) stopped: Vec<ShardId>,
    /// The same mode for each of them.
    pub(super) maintenance: MaintenanceRecord,
    pub(super) mode: MaintenanceMode,
    /// Those that are up.
    pub(super) up: Vec<ShardId>,
    /// Those of them that may take copies.
    pub(super) takers: Vec<ShardId>,
    /// Which hosts count as one.
    pub(super) domains: HostDomains,
    /// Bytes that `stopped` may have more than they said last.
    pub(super) untold_bytes: u64,
}

/// What it means for the parts of one volume.
#[derive(Default)]
struct Effect<'a> {
    /// None: it is being made or deleted.
    volume: Option<&'a VolumeRecord>,
    copies: u64,
    to_move: u64,
    /// Copies that can be used without the host, of the part that has fewest.
    left: Option<u64>,
    /// Parts that could not be used without the host, and do not leave it.
    stops: u64,
    /// Parts that are to leave it, and that no other host can take.
    stays: u64,
}

impl Effect<'_> {
    /// Whether an operator keeps it on one host: it does not leave that one.
    fn is_kept(&self) -> bool {
        self.volume.is_some_and(|volume| volume.kept_on.is_some())
    }
}

impl Situation {
    fn is_stopped(&self, shard: ShardId) -> bool {
        self.stopped.contains(&shard)
    }

    fn is_up(&self, shard: ShardId) -> bool {
        self.up.contains(&shard)
    }

    /// Adds to `report` what `objects` say.
    pub(super) fn add_all(
        &self,
        objects: &[ObjectRecord],
        volumes: &[VolumeRecord],
        report: &mut MaintenanceReport,
    ) {
        let of = |volume: &VolumeRecord| volume.objects.clone();
        let names: Map<ObjectId, &VolumeRecord> =
            volumes.iter().flat_map(|v| of(v).into_iter().map(move |id| (id, v))).collect();
        let mut effects: Map<VolumeId, Effect<'_>> = Map::new();
        for record in objects {
            let gone = record.removed.iter().filter(|one| self.is_stopped(one.shard));
            report.to_delete += gone.map(|_| 1).sum::<u64>();
            if record.components.iter().any(|one| self.is_stopped(one.shard)) {
                let effect = effects.entry(record.volume).or_default();
                effect.volume = names.get(&record.id).copied();
                self.add(record, effect, report);
            }
        }
        // A thin volume takes less than its size, and the host has no more than it has.
        let used = report.used_bytes.unwrap_or(u64::MAX);
        let surely = report.move_bytes.min(used);
        report.move_bytes = report.move_bytes.min(used.saturating_add(self.untold_bytes));
        report.obstacles.extend(self.why_not(&effects, surely, report.free_bytes));
        report.volumes = effects.into_values().map(Effect::told).collect();
        report.volumes.sort_by(|a, b| (a.left, &a.volume).cmp(&(b.left, &b.volume)));
    }

    fn add(&self, record: &ObjectRecord, effect: &mut Effect<'_>, report: &mut MaintenanceReport) {
        let is_up = |shard| self.is_up(shard);
        let before = left_without(record, &self.maintenance, is_up);
        let mut left = before;
        let mut is_used = false;
        for one in record.components.iter().filter(|one| self.is_stopped(one.shard)) {
            effect.copies += 1;
            report.copies += 1;
            is_used |= one.state == ComponentState::Active;
            let is_begun = record.components.iter().any(|new| new.replaces == Some(one.id));
            let has_place = is_begun || has_place(record, one.shard, &self.takers, &self.domains);
            report.without_place += u64::from(!has_place);
            if !effect.is_kept() && is_to_leave(record, one, &self.maintenance, is_up) {
                effect.to_move += 1;
                effect.stays += u64::from(!has_place);
                report.to_move += 1;
                report.under_way += u64::from(is_begun);
                let bytes = record.sectors.saturating_mul(SECTOR_SIZE);
                report.move_bytes = report.move_bytes.saturating_add(bytes);
                left += usize::from(has_place);
            }
        }
        report.only += u64::from(is_used && before == 0);
        effect.stops += u64::from(is_used && left == 0);
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        effect.left = Some(effect.left.map_or(left, |fewest| fewest.min(left)));
    }

    /// Why the host cannot be stopped, or emptied, with what to do.
    fn why_not(&self, effects: &Map<VolumeId, Effect<'_>>, bytes: u64, free: u64) -> Vec<String> {
        let mut why = Vec::new();
        let other = |mode: MaintenanceMode| format!("--mode {}", mode.name());
        let stays = effects.values().filter(|effect| effect.stays > 0);
        if let Some(names) = names(stays) {
            let or = match self.mode {
                MaintenanceMode::FullEvacuation => {
                    format!(", or choose {}", other(MaintenanceMode::EnsureAccessibility))
                }
                _ => String::new(),
            };
            why.push(format!(
                "no other host can take copies of {names}: each has one, is in a fault domain with \
                 one, or is down, without disk groups or in maintenance; add a host ('gabion host \
                 join'){or}"
            ));
        }
        let stops = || effects.values().filter(|effect| effect.stops > 0 && effect.stays == 0);
        if let Some(names) = names(stops().filter(|effect| effect.is_kept())) {
            why.push(format!(
                "{names} could not be used without it, and does not leave the host that it is kept \
                 on: move it ('gabion volume change --on HOST'), or let it go where there is room \
                 ('--anywhere')"
            ));
        }
        if let Some(names) = names(stops().filter(|effect| !effect.is_kept())) {
            why.push(format!(
                "{names} could not be used without it: no other copy is whole, on a host that is \
                 up and not in maintenance; choose {}",
                other(MaintenanceMode::EnsureAccessibility)
            ));
        }
        if bytes > free {
            let (bytes, free) = (format_size(bytes), format_size(free));
            why.push(format!(
                "{bytes} are to be copied to hosts that have {free} free together; add disk groups \
                 or a host, or delete what is not needed"
            ));
        }
        why
    }
}

impl Effect<'_> {
    fn told(self) -> VolumeWithoutHost {
        VolumeWithoutHost {
            volume: self.volume.map(VolumeRecord::title),
            copies: self.copies,
            to_move: self.to_move,
            left: self.left.unwrap_or(0),
            asked: self.volume.map_or(0, |volume| u64::from(volume.ftt) + 1),
        }
    }
}

/// The names of those volumes; `None` where there are none.
fn names<'a>(effects: impl Iterator<Item = &'a Effect<'a>>) -> Option<String> {
    let mut effects = effects.peekable();
    effects.peek()?;
    Some(named(effects.filter_map(|effect| Some(effect.volume?.title())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{component, object};
    use MaintenanceMode::{EnsureAccessibility, FullEvacuation, None as Stay};
    use directory::Connections;

    fn volume(id: u64, name: &str, ftt: u8, objects: &[u64]) -> VolumeRecord {
        VolumeRecord {
            id: VolumeId(id),
            name: name.to_owned(),
            size_bytes: 4096,
            ftt,
            reserve_percent: 0,
            cache_percent: 0,
            stripe_width: 1,
            kept_on: None,
            connections: Connections::Shared,
            writing: directory::Writing::default(),
            policy: None,
            labels: directory::Labels::new(),
            trashed: None,
            runs: Vec::new(),
            objects: objects.iter().map(|id| ObjectId(*id)).collect(),
        }
    }

    fn on(id: u64, volume: u64, hosts: &[u32]) -> ObjectRecord {
        let copies = (0..).zip(hosts);
        let active = |(n, host): (u64, &u32)| component(id * 10 + n, *host, ComponentState::Active);
        object(id, VolumeId(volume), copies.map(active).collect())
    }

    /// Host 1 of three enters; 4096 bytes are free elsewhere.
    fn report(
        mode: MaintenanceMode,
        others: &[(u32, MaintenanceMode)],
        objects: &[ObjectRecord],
        volumes: &[VolumeRecord],
    ) -> MaintenanceReport {
        let all = others.iter().copied().chain([(1, mode)]);
        let maintenance = all.fold(MaintenanceRecord::default(), |all, (host, mode)| {
            all.with(ShardId(host), Some(mode))
        });
        let up: Vec<ShardId> = (1..=3).map(ShardId).collect();
        let takers =
            up.iter().copied().filter(|shard| maintenance.mode(*shard).is_none()).collect();
        let (stopped, domains) = (vec![ShardId(1)], HostDomains::default());
        let situation =
            Situation { stopped, maintenance, mode, up, takers, domains, untold_bytes: 1000 };
        let mut report = MaintenanceReport {
            free_bytes: 8192,
            used_bytes: Some(12_288),
            ..MaintenanceReport::new("a", mode)
        };
        situation.add_all(objects, volumes, &mut report);
        report
    }

    fn told(report: &MaintenanceReport, name: &str) -> (u64, u64) {
        let of = report.volumes.iter().find(|one| one.volume.as_deref() == Some(name));
        of.map(|one| (one.to_move, one.left)).expect("it has a copy on the host")
    }

    #[test]
    fn a_host_is_emptied_where_others_can_take_all_that_it_has() {
        let volumes =
            [volume(1, "two", 1, &[1]), volume(2, "one", 0, &[2]), volume(3, "far", 1, &[3])];
        let objects = [on(1, 1, &[1, 2]), on(2, 2, &[1]), on(3, 3, &[2, 3])];
        let all = report(FullEvacuation, &[], &objects, &volumes);
        assert_eq!((all.copies, all.to_move, all.move_bytes), (2, 2, 8192));
        assert_eq!((told(&all, "two"), told(&all, "one"), all.volumes.len()), ((1, 2), (1, 1), 2));
        assert_eq!((all.obstacles.len(), all.without_place, all.only), (0, 0, 1));
        let some = report(EnsureAccessibility, &[], &objects, &volumes);
        assert_eq!((some.copies, some.to_move, some.move_bytes), (2, 1, 4096));
        assert_eq!((told(&some, "two"), told(&some, "one")), ((0, 1), (1, 1)));
        let full = [on(1, 1, &[1, 2]), on(2, 2, &[1]), on(4, 4, &[1]), on(5, 5, &[1])];
        let full = report(FullEvacuation, &[], &full, &volumes);
        assert!(
            full.obstacles[0].contains("12KiB are to be copied"),
            "not 16: {:?}",
            full.obstacles
        );
        assert_eq!(full.move_bytes, 13_288, "it may have more than it said");
    }

    #[test]
    fn it_is_refused_what_no_other_host_can_take_or_do_without() {
        let volumes = [volume(1, "three", 2, &[1]), volume(2, "one", 0, &[2])];
        let objects = [on(1, 1, &[1, 2, 3]), on(2, 2, &[1])];
        let all = report(FullEvacuation, &[], &objects, &volumes);
        let why = &all.obstacles;
        assert!(why.len() == 1 && why[0].contains("of volume three: each has one"), "{why:?}");
        assert!(why[0].contains("--mode ensure-accessibility"), "{why:?}");
        assert_eq!((all.without_place, told(&all, "three")), (1, (1, 2)));
        assert_eq!(report(EnsureAccessibility, &[], &objects, &volumes).obstacles, [""; 0]);
        let none = report(Stay, &[], &objects, &volumes);
        let why = &none.obstacles;
        assert!(why.len() == 1 && why[0].starts_with("volume one could not be used"), "{why:?}");
        assert_eq!((none.to_move, told(&none, "three"), told(&none, "one")), (0, (0, 2), (0, 0)));
    }

    #[test]
    fn what_is_kept_on_one_host_does_not_leave_it() {
        let kept = VolumeRecord { kept_on: Some("a".to_owned()), ..volume(2, "one", 0, &[2]) };
        let volumes = [volume(1, "two", 1, &[1]), kept];
        let objects = [on(1, 1, &[1, 2]), on(2, 2, &[1])];
        for mode in [FullEvacuation, EnsureAccessibility, Stay] {
            let report = report(mode, &[], &objects, &volumes);
            let why = &report.obstacles;
            assert!(
                why.len() == 1 && why[0].starts_with("volume one could not be used"),
                "{why:?}"
            );
            assert!(why[0].contains("--on HOST"), "{why:?}");
            assert_eq!(told(&report, "one"), (0, 0));
        }
    }

    #[test]
    fn hosts_in_maintenance_do_not_count_on_each_other() {
        let volumes = [volume(1, "two", 1, &[1])];
        let objects = [on(1, 1, &[1, 2])];
        let with = |mode| report(mode, &[(2, Stay)], &objects, &volumes);
        assert_eq!(with(Stay).obstacles.len(), 1);
        assert_eq!(
            (with(EnsureAccessibility).to_move, with(EnsureAccessibility).obstacles),
            (1, vec![])
        );
        let all = report(EnsureAccessibility, &[(2, Stay), (3, Stay)], &objects, &volumes);
        assert!(all.obstacles[0].contains("in maintenance; add a host"), "{:?}", all.obstacles);
    }

    #[test]
    fn what_is_on_its_way_and_what_is_to_be_deleted_is_counted() {
        let volumes = [volume(1, "two", 1, &[1])];
        let mut objects = [on(1, 1, &[1, 2]), on(2, 2, &[2])];
        let new = directory::ComponentRecord {
            replaces: Some(base::ComponentId(10)),
            ..component(12, 3, ComponentState::Resyncing)
        };
        objects[0].components.push(new);
        let gone = directory::RemovedComponent { id: base::ComponentId(77), shard: ShardId(1) };
        objects[1].removed.push(gone);
        let all = report(FullEvacuation, &[], &objects, &volumes);
        assert_eq!((all.to_move, all.under_way, all.to_delete), (1, 1, 1));
        assert_eq!((all.obstacles.len(), told(&all, "two")), (0, (1, 2)));
    }
}
