// SPDX-License-Identifier: Apache-2.0
//! Components that no record accounts for give up their space where a device would otherwise
//! refuse writes: the oldest first, each only where another host says, asked now, that it has all
//! of it on its own disks, and never before its quarantine is over.
//!
//! In this order:
//! 1. The choice, by what this host knows ([`choose`]).
//! 2. A linearizable read: no record accounts for the component, and the directory says of it what
//!    is so. Where its record went back in time it stays: it may be what an operator adopts.
//! 3. From now on this host does not vouch for its copy. It asks the hosts that had a copy of the
//!    object whether they vouch for theirs (`object::Objects::vouched`, where it is argued that the
//!    last copy stays).
//! 4. The directory is told that it is given up, if it still says what step 2 read. An adoption
//!    compares the same keys: one of the two comes first.
//! 5. It is deleted.
//!
//! A crash before step 4 changed nothing; one between 4 and 5 leaves a component that its host
//! tells of again. What stays is asked for again after a while.

use crate::care::cleanup::{Cleanup, ComponentBook, is_empty};
use crate::cluster::membership;
use base::{CHUNK_SIZE, ComponentId, GroupId, Instant, Map, Set, ShardId};
use directory::{Expect, Missing, OrphanRecord, Transaction, orphan_key};
use diskgroup::{ComponentInfo, Description};
use object::{FREE_CHUNKS_RESERVE, Vouched};
use std::time::Duration;
use tracing::{info, warn};
use wire::{Holding, OwnerId};

/// Most components of one group that are tried in one look, one after the other. The others wait
/// for the next look, a second later.
const TRIES_MAX: usize = 16;
/// The pause before a component is tried again that no other host has all of: hosts come back. It
/// is long enough for all other components of the group to have their turn.
const REST_ALONE: Duration = Duration::from_secs(300);
/// The pause after a refusal that passes soon, such as a copy elsewhere that was about to be given
/// up too. A random time of up to the same length is added, so that two hosts do not refuse each
/// other for ever.
const REST_BUSY: Duration = Duration::from_secs(5);

/// What could not be given up, until it is tried again.
pub(crate) type Resting = Map<ComponentId, Instant>;

/// One component, for the choice.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: ComponentId,
    /// The device that it is on.
    device: (GroupId, usize),
    /// Chunks that may still be taken there.
    free: u64,
    /// Since when no record accounts for it, seconds of the wall clock.
    orphaned: Option<u64>,
    /// It has space to give, and nothing else speaks for keeping it.
    can_go: bool,
}

/// Why a component stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// It changed, or the directory does not answer, or does not say yet what is so.
    Unsettled,
    /// No host that answers has all of it: it may be the last copy.
    Alone,
    /// Its copy is about to be given up too.
    Busy,
    /// Nobody knows whether it was deleted: its group took a device error.
    Unknown,
}

/// The components to try, oldest first, of each group with a device that is too full to take
/// writes. A device counts only if it holds a component that a record accounts for: nobody writes
/// to the others.
fn choose(
    held: &[Held],
    wall_seconds: u64,
    keep: Duration,
    resting: &Resting,
) -> Map<GroupId, Vec<ComponentId>> {
    let is_full = |one: &&Held| one.free < u64::from(FREE_CHUNKS_RESERVE);
    let used = held.iter().filter(is_full).filter(|one| one.orphaned.is_none());
    let used: Set<(GroupId, usize)> = used.map(|one| one.device).collect();
    let mut old: Vec<(u64, &Held)> = held
        .iter()
        .filter(|one| one.can_go && used.contains(&one.device) && !resting.contains_key(&one.id))
        .filter_map(|one| Some((one.orphaned?, one)))
        .filter(|(since, _)| wall_seconds.saturating_sub(*since) >= keep.as_secs())
        .collect();
    old.sort_by_key(|(since, one)| (*since, one.id));
    let mut chosen: Map<GroupId, Vec<ComponentId>> = Map::new();
    for (_, one) in old {
        let tries = chosen.entry(one.device.0).or_default();
        if tries.len() < TRIES_MAX {
            tries.push(one.id);
        }
    }
    chosen
}

impl Cleanup {
    /// Gives up one component of each group that needs it. Whether there was any.
    pub(crate) async fn relieve(&self, resting: &mut Resting) -> bool {
        let now = self.env.now();
        resting.retain(|_, until| *until > now);
        let choice = self.choice(resting);
        let is_ours = async || membership::is_cluster(&self.directory, self.cluster).await;
        if choice.is_empty() || is_ours().await != Some(true) {
            return false;
        }
        let mut gave_up = false;
        for tries in choice.into_values() {
            for component in tries {
                let rest = match self.give_up(component).await {
                    Ok(()) => {
                        gave_up = true;
                        break;
                    }
                    Err(Kept::Unsettled | Kept::Busy) => {
                        let most = u64::try_from(REST_BUSY.as_millis()).unwrap_or(u64::MAX);
                        REST_BUSY + Duration::from_millis(self.env.random() % most)
                    }
                    Err(Kept::Alone | Kept::Unknown) => REST_ALONE,
                };
                resting.insert(component, self.env.now() + rest);
            }
        }
        gave_up
    }

    fn choice(&self, resting: &Resting) -> Map<GroupId, Vec<ComponentId>> {
        let mut held = Vec::new();
        for group in self.storage.groups() {
            if group.failure().is_some() || group.least_free() >= u64::from(FREE_CHUNKS_RESERVE) {
                continue;
            }
            held.extend(group.components().into_iter().filter_map(|id| {
                let (info, device) = (group.component(id)?, group.device_of(id)?);
                let free = group.free_beside(id)?;
                let can_go = !info.went_back && info.held > 0 && !is_empty(&info);
                let (device, orphaned) = ((group.id(), device), info.orphaned);
                Some(Held { id, device, free, orphaned, can_go })
            }));
        }
        choose(&held, self.wall_seconds(), self.keep, resting)
    }

    async fn give_up(&self, component: ComponentId) -> Result<(), Kept> {
        // From here on this host stands for it no more.
        self.objects.begin_giving_up(component);
        let done = self.give_up_if_elsewhere(component).await;
        if done != Err(Kept::Unknown) {
            self.objects.end_giving_up(component);
        }
        done
    }

    async fn give_up_if_elsewhere(&self, component: ComponentId) -> Result<(), Kept> {
        let (info, about, record) = self.orphan(component)?;
        let object_key = directory::object_key(info.object);
        let read = async |key: &str| self.directory.get(key).await.map_err(|_| Kept::Unsettled);
        let entry = read(&object_key).await?;
        let known = ComponentBook { component, info: &info, about: Some(&about) };
        let missing = known.missing_in(entry.as_ref()).ok_or(Kept::Unsettled)?;
        if !matches!(missing, Missing::Object | Missing::Component) {
            return Err(Kept::Unsettled);
        }
        let record = OrphanRecord { missing, ..record };
        let key = orphan_key(component);
        let told = read(&key).await?.ok_or(Kept::Unsettled)?;
        if OrphanRecord::decode(&told.value).ok().as_ref() != Some(&record) {
            return Err(Kept::Unsettled);
        }
        let shard = self.standing_for(component, &info, &about).await?;
        // Nothing was written to it meanwhile.
        let now = self.orphan(component)?.0;
        if (now.meta, now.durable) != (info.meta, info.durable) {
            return Err(Kept::Unsettled);
        }
        let gone = OrphanRecord { given_up: Some(self.wall_seconds()), ..record };
        let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        let write = Transaction::new()
            .expect(object_key, expect)
            .expect(&key, Expect::Revision(told.revision))
            .put(&key, gone.encode());
        let done = self.directory.transact(write).await;
        if !done.is_ok_and(|done| done.succeeded) {
            return Err(Kept::Unsettled);
        }
        let group = self.storage.holding(component).ok_or(Kept::Unknown)?;
        if let Err(error) = group.delete_component(component).await {
            warn!(%component, %error, "could not be given up");
            return Err(Kept::Unknown);
        }
        base::hit(base::Probe::OrphanGivenUp);
        warn!(
            volume = about.name, %component, object = %info.object, group = %group.id(),
            bytes = u64::from(info.held) * CHUNK_SIZE, kept_by = shard.0,
            "its device was full and no record accounts for it: given up"
        );
        Ok(())
    }

    /// What this host knows of a component, and the record to tell the directory. The caller has
    /// to fill in the record's `missing`.
    fn orphan(
        &self,
        component: ComponentId,
    ) -> Result<(ComponentInfo, Description, OrphanRecord), Kept> {
        let group = self.storage.holding(component).ok_or(Kept::Unsettled)?;
        let info = group.component(component).ok_or(Kept::Unsettled)?;
        // One that says nothing of itself cannot say who else has a copy.
        let about = group.description(component).ok_or(Kept::Alone)?;
        let record = self.record(&group, component, &info, Missing::Object);
        Ok((info, about, record))
    }

    /// A host that has all of it, by its own word of now.
    async fn standing_for(
        &self,
        component: ComponentId,
        info: &ComponentInfo,
        about: &Description,
    ) -> Result<ShardId, Kept> {
        let meta = info.meta;
        let holding = Holding {
            object: info.object,
            component,
            sectors: info.sectors,
            term: meta.term,
            owner: OwnerId { shard: meta.owner_shard, incarnation: meta.owner_incarnation },
            version: meta.version.max(about.version),
            durable: info.durable,
        };
        // One that is known to be down is not waited for.
        let hosts = about.siblings.iter().map(|sibling| sibling.shard);
        let shards: Set<ShardId> =
            hosts.filter(|shard| self.view.alive(*shard).is_some()).collect();
        match self.objects.vouched(shards.into_iter().collect(), holding).await {
            Vouched::By(shard) => Ok(shard),
            Vouched::Busy => Err(Kept::Busy),
            Vouched::ByNobody => {
                info!(
                    volume = about.name, %component, object = %info.object,
                    "its device is full, and no host that answers has all of it: kept"
                );
                Err(Kept::Alone)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    const NOW: u64 = 100 * 24 * 3600;

    fn orphan(id: u64, days: u64) -> Held {
        let orphaned = Some(NOW - days * 24 * 3600);
        Held { orphaned, can_go: true, ..served(id) }
    }

    fn served(id: u64) -> Held {
        let (id, device) = (ComponentId(id), (GroupId(1), 0));
        Held { id, device, free: 15, orphaned: None, can_go: true }
    }

    fn chosen(held: &[Held], resting: &[u64]) -> Vec<u64> {
        let until = |id: &u64| (ComponentId(*id), Instant(1));
        let resting = resting.iter().map(until).collect();
        let chosen = choose(held, NOW, WEEK, &resting);
        chosen.into_values().flatten().map(|id| id.0).collect()
    }

    #[test]
    fn the_oldest_on_a_full_device_come_first_and_none_before_its_quarantine_is_over() {
        let held = [served(1), orphan(2, 8), orphan(3, 30), orphan(4, 6), orphan(5, 7)];
        assert_eq!(chosen(&held, &[]), [3, 2, 5]);
        assert_eq!(chosen(&held, &[3]), [2, 5], "what was tried a moment ago waits");
        let many: Vec<_> = [served(1)].into_iter().chain((2..40).map(|id| orphan(id, 9))).collect();
        assert_eq!(chosen(&many, &[]), (2..18).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_goes_from_a_device_with_room_or_without_writes_or_with_nothing_to_give() {
        let room = |one: Held| Held { free: 16, ..one };
        assert!(chosen(&[room(served(1)), room(orphan(2, 9))], &[]).is_empty());
        assert!(chosen(&[orphan(1, 9), orphan(2, 9)], &[]).is_empty(), "who would write?");
        assert!(chosen(&[served(1), Held { can_go: false, ..orphan(2, 9) }], &[]).is_empty());
        assert!(chosen(&[served(1), served(2)], &[]).is_empty());
    }

    #[test]
    fn each_device_counts_for_itself_and_each_group_gives_up_one_at_a_time() {
        let on =
            |group: u64, device: usize, one: Held| Held { device: (GroupId(group), device), ..one };
        let room = |one: Held| Held { free: 100, ..one };
        let held = [served(1), room(on(1, 1, served(2))), room(on(1, 1, orphan(3, 9)))];
        assert!(chosen(&held, &[]).is_empty(), "what is on the other device does not help");
        let held = [served(1), orphan(2, 9), on(2, 0, served(3)), on(2, 0, orphan(4, 20))];
        let by_group = choose(&held, NOW, WEEK, &Resting::new());
        assert_eq!(by_group.len(), 2);
        assert_eq!(by_group[&GroupId(2)], [ComponentId(4)]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_there_is_only_orphans_that_may_go_are_tried_and_the_oldest_of_all_first(
            all in proptest::collection::vec((0_u64..3, 0_u64..32, 0_u64..20, 0_u8..8), 0..40)
        ) {
            let held: Vec<Held> = (0..).zip(&all).map(|(id, (group, free, days, kind))| Held {
                id: ComponentId(id),
                device: (GroupId(*group), 0),
                free: *free,
                orphaned: (*kind > 1).then_some(NOW - days * 24 * 3600),
                can_go: *kind != 2,
            }).collect();
            let is_old = |one: &Held| {
                one.can_go && one.orphaned.is_some_and(|since| NOW - since >= WEEK.as_secs())
            };
            for (group, tries) in choose(&held, NOW, WEEK, &Resting::new()) {
                let of_group: Vec<_> = held.iter().filter(|one| one.device.0 == group).collect();
                proptest::prop_assert!(tries.len() <= TRIES_MAX);
                proptest::prop_assert!(
                    of_group.iter().any(|one| one.free < 16 && one.orphaned.is_none())
                );
                let age = |id: &ComponentId| held[id.0 as usize].orphaned;
                proptest::prop_assert!(tries.iter().all(|id| is_old(&held[id.0 as usize])));
                proptest::prop_assert!(tries.is_sorted_by_key(age));
                let old = of_group.iter().filter(|one| is_old(one));
                let oldest = old.map(|one| one.orphaned).min();
                proptest::prop_assert_eq!(oldest, tries.first().map(age));
            }
        }
    }
}
