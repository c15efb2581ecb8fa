// SPDX-License-Identifier: Apache-2.0
//! The plan, over chosen and over random clusters. What owners make of it is tried in the storm.

use super::plan::{Hindrance, REPAIRS_MAX};
use super::*;
use crate::cluster::view::Wanted;
use crate::simulated::{component, object};
use base::{Incarnation, Rng, VolumeId};
use directory::{
    ComponentRecord, MaintenanceMode, MaintenanceRecord, OwnerRecord, RemovedComponent, RepairDelay,
};
use placement::HostDomains;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const SETTLED: Instant = Instant(1_000_000_000_000_000);

/// A copy on each of two hosts.
fn pair(id: u64, hosts: [u32; 2]) -> ObjectRecord {
    let components = (0..).zip(hosts);
    let active = |(n, host)| component(id * 10 + n, host, ComponentState::Active);
    object(id, VolumeId(1), components.map(active).collect())
}

fn facts(now: Instant, alive: &[u32], hosts: usize) -> Facts {
    let alive: Map<ShardId, Incarnation> =
        alive.iter().map(|host| (ShardId(*host), Incarnation(1))).collect();
    let domains = HostDomains::default();
    Facts {
        now,
        delay: Some(HOUR),
        machines: hosts,
        machines_missing: hosts.saturating_sub(alive.len()),
        removed: Set::default(),
        rooms: Rooms::with(alive.keys().map(|shard| (*shard, 1 << 40)), domains.clone()),
        alive,
        wanted: Map::new(),
        maintenance: MaintenanceRecord::default(),
        domains,
        hurries: false,
    }
}

/// What the one volume is to have.
fn wanted(copies: usize, repair_delay: RepairDelay) -> Map<VolumeId, Wanted> {
    [(VolumeId(1), Wanted { copies, repair_delay, home: None })].into_iter().collect()
}

/// The plan at `at`, of what has been so since [`SETTLED`].
fn planned(
    records: &[ObjectRecord],
    facts: &Facts,
    at: Instant,
) -> (Vec<RepairStep>, Map<ObjectId, Outlook>) {
    let mut missed = Missed::default();
    missed.look(records, &Facts { now: SETTLED, ..facts.clone() });
    let facts = Facts { now: at, ..facts.clone() };
    missed.look(records, &facts);
    let (steps, outlooks) = plan(records, &missed, facts, |_| false);
    (steps.into_iter().map(of_any_members).collect(), outlooks)
}

/// What [`replaced`] says, of a step that was decided by a record.
fn of_any_members(step: RepairStep) -> RepairStep {
    match step.change {
        MemberChange::Replace { old, to, .. } => replaced(step.object.0, old.0, to.0),
        _ => step,
    }
}

fn replaced(object: u64, old: u64, to: u32) -> RepairStep {
    let change = MemberChange::Replace { old: ComponentId(old), to: ShardId(to), members: 0 };
    RepairStep { object: ObjectId(object), change }
}

fn kept(object: u64, old: u64) -> RepairStep {
    RepairStep { object: ObjectId(object), change: MemberChange::Keep(ComponentId(old)) }
}

#[test]
fn a_copy_whose_host_is_down_is_made_again_after_the_delay() {
    let records = [pair(1, [1, 2])];
    let facts = facts(SETTLED, &[1, 3], 3);
    let due = SETTLED + HOUR;
    let (steps, outlooks) = planned(&records, &facts, due - MINUTE);
    assert_eq!((steps, outlooks[&ObjectId(1)]), (vec![], Outlook::At(due)));
    let (steps, outlooks) = planned(&records, &facts, due);
    assert_eq!(steps, [replaced(1, 11, 3)]);
    assert_eq!(outlooks[&ObjectId(1)], Outlook::At(due));
    let off = Facts { delay: None, ..facts.clone() };
    let (steps, outlooks) = planned(&records, &off, due);
    assert_eq!((steps, outlooks[&ObjectId(1)]), (vec![], Outlook::Never(Hindrance::Off)));
    let now = Facts { hurries: true, ..facts };
    assert_eq!(planned(&records, &now, SETTLED).0, [replaced(1, 11, 3)]);
}

#[test]
fn a_volumes_policy_says_how_long_its_copies_may_be_away() {
    let records = [pair(1, [1, 2])];
    let with =
        |repair_delay| Facts { wanted: wanted(2, repair_delay), ..facts(SETTLED, &[1, 3], 3) };
    let steps = |facts: &Facts, at| planned(&records, facts, at).0;
    let soon = with(RepairDelay::Seconds(60));
    assert_eq!(steps(&soon, SETTLED + MINUTE - Duration::from_secs(1)), []);
    assert_eq!(steps(&soon, SETTLED + MINUTE), [replaced(1, 11, 3)]);
    let as_all = with(RepairDelay::Cluster);
    assert_eq!(steps(&as_all, SETTLED + HOUR - MINUTE), []);
    assert_eq!(steps(&as_all, SETTLED + HOUR), [replaced(1, 11, 3)]);
    let never = with(RepairDelay::Never);
    let (none, outlooks) = planned(&records, &never, SETTLED + HOUR * 1000);
    assert_eq!((none, outlooks[&ObjectId(1)]), (vec![], Outlook::Never(Hindrance::Off)));
    let off = Facts { delay: None, ..with(RepairDelay::Seconds(60)) };
    assert_eq!(steps(&off, SETTLED + MINUTE), [replaced(1, 11, 3)], "the cluster's is another's");
    let asked = Facts { hurries: true, ..never.clone() };
    assert_eq!(steps(&asked, SETTLED), [replaced(1, 11, 3)], "an operator does not wait");
    let gone = Facts { removed: [ShardId(2)].into_iter().collect(), ..never };
    assert_eq!(steps(&gone, SETTLED), [replaced(1, 11, 3)], "that host never comes back");
}

/// Host 3 is the home of a volume whose two objects are on hosts 1 and 3.
#[test]
fn what_is_not_on_the_host_that_its_volume_is_kept_on_moves_there_and_the_rest_stays() {
    let alone = |id, host| {
        let one = vec![component(id * 10, host, ComponentState::Active)];
        object(id, VolumeId(1), one)
    };
    let records = [alone(1, 1), alone(2, 3)];
    let home = Some(vec![ShardId(3)]);
    let kept = Wanted { copies: 1, repair_delay: RepairDelay::Cluster, home };
    let wanted: Map<VolumeId, Wanted> = [(VolumeId(1), kept)].into_iter().collect();
    let with = |alive: &[u32], mode: Option<MaintenanceMode>| {
        let maintenance = MaintenanceRecord::default().with(ShardId(3), mode);
        Facts { wanted: wanted.clone(), maintenance, ..facts(SETTLED, alive, 4) }
    };
    let steps = |facts: &Facts| planned(&records, facts, SETTLED).0;
    assert_eq!(steps(&with(&[1, 2, 3], None)), [replaced(1, 10, 3)]);
    assert_eq!(steps(&with(&[1, 2, 4], None)), [], "its home is down");
    let leaves = with(&[1, 2, 3], Some(MaintenanceMode::FullEvacuation));
    assert_eq!(steps(&leaves), [], "an operator keeps it there");
    let (none, outlooks) = planned(&records, &with(&[2, 4], None), SETTLED + HOUR);
    assert_eq!((none, outlooks[&ObjectId(1)]), (vec![], Outlook::Never(Hindrance::TooManyMissing)));
    let (none, outlooks) = planned(&records, &with(&[2, 3, 4], None), SETTLED + HOUR);
    assert_eq!((none, outlooks[&ObjectId(1)]), (vec![], Outlook::Never(Hindrance::NoSource)));
    // Of two copies the one at home stays, also the owner's own goes.
    let mut both = pair(1, [1, 3]);
    both.owner = Some(OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) });
    let change = planned(&[both], &with(&[1, 2, 3], None), SETTLED).0[0].change;
    assert!(matches!(change, MemberChange::TakeOut { component: ComponentId(10), .. }));
}

#[test]
fn a_copy_that_is_back_is_missed_from_the_beginning_the_next_time() {
    let records = [pair(1, [1, 2])];
    let (down, up) = (facts(SETTLED, &[1, 3], 3), facts(SETTLED + HOUR - MINUTE, &[1, 2, 3], 3));
    let mut missed = Missed::default();
    missed.look(&records, &down);
    missed.look(&records, &up);
    let again = Facts { now: SETTLED + HOUR, ..down };
    missed.look(&records, &again);
    let (steps, outlooks) = plan(&records, &missed, again, |_| false);
    let steps: Vec<RepairStep> = steps.into_iter().map(of_any_members).collect();
    assert_eq!((steps, outlooks[&ObjectId(1)]), (vec![], Outlook::At(SETTLED + HOUR + HOUR)));
}

#[test]
fn what_is_known_to_be_lost_waits_a_minute_and_what_may_return_a_quarter_of_an_hour() {
    let mut records = [pair(1, [1, 2])];
    records[0].components[1].state = ComponentState::Degraded;
    let down = facts(SETTLED, &[1, 3], 3);
    assert_eq!(planned(&records, &down, SETTLED + MINUTE).0, [replaced(1, 11, 3)]);
    let mut up = facts(SETTLED, &[1, 2, 3], 3);
    up.delay = Some(Duration::from_secs(10));
    records[0].components[1].state = ComponentState::Absent;
    assert_eq!(planned(&records, &up, SETTLED + 14 * MINUTE).0, []);
    assert_eq!(planned(&records, &up, SETTLED + 15 * MINUTE).0, [replaced(1, 11, 3)]);
    records[0].components[1].state = ComponentState::Resyncing;
    assert_eq!(planned(&records, &up, SETTLED + HOUR).0, [], "it is on its way");
}

#[test]
fn nothing_is_made_again_where_it_cannot_be() {
    let of = |alive: &[u32], hosts, records: &[ObjectRecord]| {
        let (steps, outlooks) = planned(records, &facts(SETTLED, alive, hosts), SETTLED + HOUR);
        assert_eq!(steps, []);
        outlooks[&ObjectId(1)]
    };
    let one = [pair(1, [1, 2])];
    assert_eq!(of(&[1, 3], 4, &one), Outlook::Never(Hindrance::TooManyMissing));
    assert_eq!(of(&[3, 4, 5], 5, &one), Outlook::Never(Hindrance::TooManyMissing));
    assert_eq!(of(&[3, 4, 5, 6], 6, &one), Outlook::Never(Hindrance::NoSource));
    assert_eq!(of(&[1], 1, &one), Outlook::Never(Hindrance::NoHost));
}

#[test]
fn a_replacement_ends_if_the_old_copy_is_back_or_the_new_one_is_gone_too() {
    let mut records = [pair(1, [1, 2])];
    let new = ComponentRecord {
        replaces: Some(ComponentId(11)),
        ..component(12, 3, ComponentState::Resyncing)
    };
    records[0].components.push(new);
    let stays = kept(1, 11);
    let mut missed = Missed::default();
    let all = facts(SETTLED, &[1, 2, 3, 4], 4);
    missed.look(&records, &all);
    assert_eq!(plan(&records, &missed, all.clone(), |_| true).0, [stays]);
    assert_eq!(plan(&records, &missed, all, |_| false).0, [], "an operator's move");
    let gone = facts(SETTLED, &[1, 4, 5, 6], 6);
    assert_eq!(planned(&records, &gone, SETTLED + MINUTE - Duration::from_secs(1)).0, []);
    assert_eq!(planned(&records, &gone, SETTLED + MINUTE).0, [stays]);
}

#[test]
fn nobody_waits_for_a_copy_whose_host_was_taken_out_of_the_cluster() {
    let mut records = [pair(1, [1, 2])];
    let off = Facts { delay: None, ..facts(SETTLED, &[1, 3], 2) };
    assert_eq!(planned(&records, &off, SETTLED).0, []);
    let removed: Set<ShardId> = [ShardId(2)].into_iter().collect();
    let without = Facts { removed: removed.clone(), ..off };
    assert_eq!(planned(&records, &without, SETTLED).0, [replaced(1, 11, 3)]);
    // One that was on its way there is called off at once, whoever began it.
    let new = ComponentRecord {
        replaces: Some(ComponentId(10)),
        ..component(12, 2, ComponentState::Resyncing)
    };
    records[0].components[1] = new;
    assert_eq!(planned(&records, &without, SETTLED).0, [kept(1, 10)]);
    // What lies there needs an owner to take it off the record.
    let mut record = pair(1, [1, 3]);
    record.removed = vec![RemovedComponent { id: ComponentId(9), shard: ShardId(2) }];
    assert!(without.lacks_owner(&record));
    assert!(!Facts { removed: Set::default(), ..without }.lacks_owner(&record));
}

#[test]
fn what_nobody_uses_gets_an_owner_only_where_one_has_something_to_do() {
    let facts = facts(SETTLED, &[1, 2, 3], 4);
    let mut record = pair(1, [1, 2]);
    assert!(!facts.lacks_owner(&record));
    record.removed = vec![RemovedComponent { id: ComponentId(9), shard: ShardId(4) }];
    assert!(!facts.lacks_owner(&record), "its host is down");
    record.removed[0].shard = ShardId(3);
    assert!(facts.lacks_owner(&record));
    let owner = |run| Some(OwnerRecord { shard: ShardId(1), incarnation: Incarnation(run) });
    record.owner = owner(1);
    assert!(!facts.lacks_owner(&record));
    record.owner = owner(7);
    assert!(facts.lacks_owner(&record), "that run is over");
    record.removed.clear();
    assert!(!facts.lacks_owner(&record));
    record.components[1].state = ComponentState::Absent;
    assert!(facts.lacks_owner(&record), "it was away, and its host is back");
    record.components[0].shard = ShardId(4);
    assert!(!facts.lacks_owner(&record), "there is nothing to fill it from");
}

#[test]
fn objects_get_as_many_copies_as_their_volume_is_to_have() {
    let asked = |copies| Facts {
        wanted: wanted(copies, RepairDelay::Cluster),
        ..facts(SETTLED, &[1, 2, 3, 4], 4)
    };
    let step = |change| RepairStep { object: ObjectId(1), change };
    let mut records = [pair(1, [1, 2])];
    let of = |facts: &Facts, records: &[ObjectRecord]| planned(records, facts, SETTLED).0;
    assert_eq!(of(&asked(2), &records), []);
    assert_eq!(
        of(&asked(3), &records),
        [step(MemberChange::Add { to: ShardId(3), version: records[0].version })]
    );
    let few = Facts { wanted: asked(3).wanted, ..facts(SETTLED, &[1, 2], 2) };
    let (steps, outlooks) = planned(&records, &few, SETTLED);
    assert_eq!((steps, outlooks[&ObjectId(1)]), (vec![], Outlook::Never(Hindrance::NoHost)));

    // Fewer: not the owner's own.
    records[0].owner = Some(OwnerRecord { shard: ShardId(2), incarnation: Incarnation(1) });
    let version = records[0].version;
    let out = |id| [step(MemberChange::TakeOut { component: ComponentId(id), version })];
    assert_eq!(of(&asked(1), &records), out(10));
    records[0].components.push(component(12, 3, ComponentState::Resyncing));
    assert_eq!(of(&asked(2), &records), out(12), "it does not count yet");
    records[0].components.push(component(13, 4, ComponentState::Absent));
    assert_eq!(of(&asked(2), &records), out(13), "nor does that, and it is not on its way");
    records[0].components[1].shard = ShardId(9);
    assert_eq!(of(&asked(2), &records), out(11), "its host is down");
    records[0].components[0].shard = ShardId(8);
    assert_eq!(of(&asked(2), &records), [], "nothing that counts is there");
    // While one is on its way in another's place, and where the volume is not known.
    let mut records = [pair(1, [1, 2])];
    records[0].components[1].replaces = Some(ComponentId(10));
    records[0].components[1].state = ComponentState::Resyncing;
    assert_eq!(asked(1).lacks(&records[0]), 0);
    assert_eq!(facts(SETTLED, &[1, 2, 3, 4], 4).lacks(&records[0]), 0);
}

#[test]
fn the_object_with_the_fewest_copies_goes_first_and_not_all_at_once() {
    let three = |id: u64, hosts: [u32; 3]| {
        let mut record = pair(id, [hosts[0], hosts[1]]);
        record.components.push(component(id * 10 + 2, hosts[2], ComponentState::Active));
        record
    };
    let mut records: Vec<ObjectRecord> = (1..=40).map(|id| three(id, [1, 2, 9])).collect();
    records.push(pair(41, [1, 9]));
    let (steps, outlooks) = planned(&records, &facts(SETTLED, &[1, 2, 3], 4), SETTLED + HOUR);
    assert_eq!(steps.len(), REPAIRS_MAX);
    assert_eq!(steps[0], replaced(41, 411, 2));
    assert_eq!(outlooks.len(), 41);
}

#[test]
fn no_plan_of_a_random_cluster_puts_two_copies_on_a_host_or_moves_what_is_there() {
    let mut begun = 0;
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let hosts = 3 + rng.below(8) as u32;
        let alive: Vec<u32> = (1..=hosts).filter(|_| rng.below(4) > 0).collect();
        let records: Vec<ObjectRecord> =
            (1..=1 + rng.below(20)).map(|id| random_object(&mut rng, id, hosts)).collect();
        let facts = in_racks(facts(SETTLED, &alive, hosts as usize), 2 + rng.below(9) as u32);
        let at = SETTLED + Duration::from_secs(rng.below(7200));
        let (steps, outlooks) = planned(&records, &facts, at);
        let is_braked = (hosts as usize - alive.len()) * 3 > hosts as usize;
        for step in &steps {
            let record = records.iter().find(|r| r.id == step.object).expect("one of them");
            let MemberChange::Replace { old, to, .. } = step.change else { continue };
            let old = record.components.iter().find(|c| c.id == old).expect("one of its");
            begun += 1;
            assert!(!is_braked && alive.contains(&to.0));
            assert!(record.components.iter().all(|c| c.shard != to && c.replaces != Some(old.id)));
            assert!(old.replaces.is_none());
            assert!(facts.is_missed(old) && at >= SETTLED + MINUTE || facts.leaves(record, old));
            let mut others = record.components.iter().filter(|c| c.id != old.id);
            assert!(others.all(|c| !facts.domains.is_shared(c.shard, to)), "seed {seed}");
        }
        let is_whole = |id: &ObjectId| {
            let record = records.iter().find(|record| record.id == *id).expect("one of them");
            record.components.iter().all(|c| !facts.is_missed(c))
        };
        assert!(!outlooks.keys().any(is_whole));
        let mut objects: Vec<ObjectId> = steps.iter().map(|step| step.object).collect();
        objects.dedup();
        assert!(objects.len() == steps.len() || steps.iter().any(is_kept), "one each");
        let is_begun = |step: &&RepairStep| !is_kept(step);
        assert!(steps.iter().filter(is_begun).count() <= REPAIRS_MAX);
    }
    assert!(begun > 1000, "{begun}");
}

/// Hosts in racks, one after the other: every `racks`-th is in the same.
fn in_racks(facts: Facts, racks: u32) -> Facts {
    let rack = |shard: ShardId| (shard, vec![format!("rack{}", shard.0 % racks)]);
    let domains = HostDomains::new((1..20).map(|host| rack(ShardId(host))));
    let rooms = Rooms::with(facts.alive.keys().map(|shard| (*shard, 1 << 40)), domains.clone());
    Facts { domains, rooms, ..facts }
}

fn is_kept(step: &RepairStep) -> bool {
    matches!(step.change, MemberChange::Keep(_))
}

fn random_object(rng: &mut Rng, id: u64, hosts: u32) -> ObjectRecord {
    let states = [ComponentState::Active, ComponentState::Absent, ComponentState::Degraded];
    let mut components: Vec<ComponentRecord> = Vec::new();
    for n in 0..2 + rng.below(2) {
        let host = 1 + rng.below(hosts.into()) as u32;
        if components.iter().any(|one| one.shard.0 == host) {
            continue;
        }
        let mut new = component(id * 10 + n, host, states[rng.below(3) as usize]);
        if n > 0 && rng.below(4) == 0 {
            new.replaces = components.first().map(|first| first.id);
        }
        components.push(new);
    }
    object(id, VolumeId(1), components)
}

fn maintenance(hosts: &[(u32, MaintenanceMode)]) -> MaintenanceRecord {
    let with = |all: MaintenanceRecord, (host, mode): &(u32, MaintenanceMode)| {
        all.with(ShardId(*host), Some(*mode))
    };
    hosts.iter().fold(MaintenanceRecord::default(), with)
}

#[test]
fn all_copies_leave_a_host_that_is_emptied_after_those_that_are_missing() {
    let entered = maintenance(&[(2, MaintenanceMode::FullEvacuation)]);
    let emptied = Facts { maintenance: entered, ..facts(SETTLED, &[1, 2, 3], 4) };
    let records = [pair(1, [1, 2]), pair(2, [1, 3]), pair(3, [2, 3]), pair(4, [1, 4])];
    // Host 4 is down for long enough.
    let (steps, outlooks) = planned(&records, &emptied, SETTLED + HOUR);
    assert_eq!(steps[0].object, ObjectId(4), "{steps:?}");
    assert_eq!(steps[1..], [replaced(1, 11, 3), replaced(3, 30, 1)]);
    assert_eq!(outlooks.len(), 1, "what leaves is not missed");
    // Nowhere to go: it stays, and nobody is told that it is missed.
    let full = Facts { rooms: Rooms::default(), ..emptied.clone() };
    assert_eq!(planned(&records[..1], &full, SETTLED), (vec![], Map::new()));
    // A host that is down waits as any other does.
    let down = Facts { alive: facts(SETTLED, &[1, 3, 4], 4).alive, ..emptied };
    assert_eq!(planned(&records[..1], &down, SETTLED + MINUTE).0, []);
}

#[test]
fn only_what_could_not_be_used_without_it_leaves_a_host_that_keeps_the_rest() {
    use MaintenanceMode::{EnsureAccessibility, None as Stay};
    let with = |hosts: &[(u32, MaintenanceMode)]| Facts {
        maintenance: maintenance(hosts),
        ..facts(SETTLED, &[1, 2, 3], 3)
    };
    let mut records = [pair(1, [1, 2]), pair(2, [2, 3])];
    let of = |facts: &Facts, records: &[ObjectRecord]| planned(records, facts, SETTLED).0;
    let gentle = with(&[(2, EnsureAccessibility)]);
    assert_eq!(of(&gentle, &records), []);
    records[0].components[0].state = ComponentState::Absent;
    assert_eq!(of(&gentle, &records), [replaced(1, 11, 3)]);
    assert_eq!(of(&with(&[(2, Stay)]), &records), []);
    // The other one may be stopped too.
    let both = with(&[(2, EnsureAccessibility), (3, Stay)]);
    assert_eq!(of(&both, &records[1..]), [replaced(2, 20, 1)]);
    records[1].components[0].state = ComponentState::Absent;
    assert_eq!(of(&gentle, &records[1..]), [], "it does not count");
}

#[test]
fn a_copy_that_need_not_leave_any_more_stays() {
    let mut records = [pair(1, [1, 2])];
    records[0].components.push(ComponentRecord {
        replaces: Some(ComponentId(11)),
        ..component(12, 3, ComponentState::Resyncing)
    });
    let entered = maintenance(&[(2, MaintenanceMode::FullEvacuation)]);
    let all = facts(SETTLED, &[1, 2, 3, 4], 4);
    let emptied = Facts { maintenance: entered, ..all.clone() };
    let steps = |facts: &Facts, missed: &Missed| plan(&records, missed, facts.clone(), |_| true).0;
    assert_eq!(steps(&emptied, &Missed::default()), [], "it goes on");
    assert_eq!(steps(&all, &Missed::default()), [kept(1, 11)], "maintenance is over");
    // The new one's host is gone: another one is chosen once that is called off.
    let gone = Facts { alive: facts(SETTLED, &[1, 2, 4], 4).alive, ..emptied };
    assert_eq!(planned(&records, &gone, SETTLED + MINUTE).0, [kept(1, 11)]);
}

#[test]
fn a_copy_too_many_is_taken_out_where_maintenance_is() {
    let mut record = pair(1, [1, 2]);
    record.components.push(component(12, 3, ComponentState::Active));
    let fewer = Facts {
        wanted: wanted(2, RepairDelay::Cluster),
        maintenance: maintenance(&[(1, MaintenanceMode::None)]),
        ..facts(SETTLED, &[1, 2, 3], 3)
    };
    let change = MemberChange::TakeOut { component: ComponentId(10), version: record.version };
    let steps = planned(&[record], &fewer, SETTLED).0;
    assert_eq!(steps, [RepairStep { object: ObjectId(1), change }]);
}

/// Hosts 1 and 4 are in one rack, 2 and 5, 3 and 6.
#[test]
fn a_copy_is_made_in_no_rack_with_another_one_and_leaves_a_rack_that_has_one() {
    let racks = |alive: &[u32]| in_racks(facts(SETTLED, alive, 6), 3);
    let of = |facts: &Facts, records: &[ObjectRecord], at| planned(records, facts, at);
    // Host 2 is down: nobody but its neighbour may have what it had, or one of the third rack.
    let records = [pair(1, [1, 2])];
    assert_eq!(of(&racks(&[1, 3, 4, 5]), &records, SETTLED + HOUR).0, [replaced(1, 11, 3)]);
    assert_eq!(of(&racks(&[1, 4, 5, 6]), &records, SETTLED + HOUR).0, [replaced(1, 11, 5)]);
    let few = Facts { machines_missing: 1, ..racks(&[1, 4]) };
    let (steps, outlooks) = of(&few, &records, SETTLED + HOUR);
    assert_eq!((steps, outlooks[&ObjectId(1)]), (vec![], Outlook::Never(Hindrance::DomainsTaken)));
    // Two in one rack: the one leaves that is not the owner's.
    let mut records = [pair(1, [1, 4])];
    let all = racks(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(of(&all, &records, SETTLED).0, [replaced(1, 11, 2)]);
    records[0].owner = Some(OwnerRecord { shard: ShardId(4), incarnation: Incarnation(1) });
    assert_eq!(of(&all, &records, SETTLED), (vec![replaced(1, 10, 2)], Map::new()));
    records[0].components[1].state = ComponentState::Absent;
    assert_eq!(of(&all, &records, SETTLED).0, [replaced(1, 11, 2)], "it does not count");
    let stuck = racks(&[1, 4]);
    assert_eq!(of(&stuck, &records, SETTLED).0, [], "it has nowhere to go");
    // Once it is on its way, nothing else is.
    let new = ComponentRecord {
        replaces: Some(ComponentId(11)),
        ..component(12, 2, ComponentState::Resyncing)
    };
    records[0].components.push(new);
    assert_eq!(of(&all, &records, SETTLED + MINUTE).0, []);
    let nobodys = in_racks(facts(SETTLED, &[1, 2, 3, 4, 5, 6], 6), 7);
    let mut missed = Missed::default();
    records[0].components[1].state = ComponentState::Active;
    missed.look(&records, &nobodys);
    assert_eq!(plan(&records, &missed, nobodys, |_| true).0, [kept(1, 11)], "the racks changed");
}

#[test]
fn three_copies_in_one_rack_leave_it_one_after_the_other() {
    let mut record = pair(1, [1, 4]);
    record.components.push(component(12, 7, ComponentState::Active));
    let all = in_racks(facts(SETTLED, &[1, 2, 3, 4, 5, 6, 7], 7), 3);
    assert_eq!(planned(&[record.clone()], &all, SETTLED).0, [replaced(1, 11, 2)]);
    // One too many: one of those goes, and not the owner's.
    let fewer = Facts { wanted: wanted(2, RepairDelay::Cluster), ..all };
    record.components[0].shard = ShardId(2);
    let change = MemberChange::TakeOut { component: ComponentId(12), version: record.version };
    let steps = planned(&[record], &fewer, SETTLED).0;
    assert_eq!(steps, [RepairStep { object: ObjectId(1), change }]);
}

#[test]
fn of_two_copies_on_one_host_one_leaves_it_or_is_taken_out() {
    let mut record = pair(1, [2, 2]);
    let facts = Facts { wanted: wanted(2, RepairDelay::Cluster), ..facts(SETTLED, &[1, 2, 3], 3) };
    assert_eq!(planned(&[record.clone()], &facts, SETTLED).0, [replaced(1, 11, 1)]);
    // As after an adoption of all that was found.
    record.components.push(component(12, 3, ComponentState::Active));
    let version = record.version;
    let step = |component| MemberChange::TakeOut { component: ComponentId(component), version };
    let steps = planned(&[record], &facts, SETTLED).0;
    assert_eq!(steps.iter().map(|step| step.change).collect::<Vec<_>>(), [step(11)]);
}
