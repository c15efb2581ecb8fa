// SPDX-License-Identifier: Apache-2.0
//! Devices that fail or come back while this host runs: what the host does by itself.
//!
//! **A capacity device fails.** Its group is closed, and opened without that device. To the owners
//! of the components on it this looks as if the host had been started anew.
//!
//! The group's log may still hold writes for the missing device. They are dropped only when the
//! other copies have them. That is the case when the directory calls none of the missing components
//! active: such a component can only become active again by a resync, and no resync can run
//! without it.
//!
//! **A device does not answer.** Its group stops, and is opened again once the device answers.
//! Nothing failed, and opening verifies what is there.
//!
//! **The log is damaged.** Its group does not open. When the directory calls none of its components
//! active, the group is opened without its log, as if it had a new cache device: the other copies
//! have everything, and a resync brings back what this one lacks. Where a component is the last
//! one, or is in no record, the group stays closed and an operator decides.
//!
//! **Bounds.** A device that failed is tried again only when an operator says so, or when the host
//! starts. A device that went away without an error may come back [`REOPENINGS_MAX`] times an hour,
//! one that did not answer [`REOPENINGS_AFTER_SILENCE`] times. After that an operator decides.

use crate::cluster::view::View;
use crate::storage::{AWAY_RETRY, Closed, GroupSlot, Past, Serving, SlotState, Storage, is_away};
use base::{ComponentId, Instant, Map, ObjectId, Set, ShardId, Version};
use directory::{ComponentState, Directory, OBJECT_PREFIX, ObjectRecord};
use diskgroup::{DevicePlace, DiskGroup, GroupError, GroupFailure, OutDevice, Tolerance};
use env::{Env, Task, TaskSet};
use object::Objects;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

/// Between two looks at all groups.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How many times an hour a host closes a group and opens it again by itself.
const REOPENINGS_MAX: usize = 8;
/// The same after a device that did not answer. It is fewer, because each time makes users wait for
/// half a minute. A path that fails over or a controller that is reset explains one or two; a
/// device that does it more often is dying.
const REOPENINGS_AFTER_SILENCE: usize = 3;
/// The write buffer of a group may be full of writes for a device that is out. The group is closed
/// when that lasts for so long.
const FULL_MAX: Duration = Duration::from_secs(10);
/// Longest wait for an answer of the directory, and for taking an object over that has no owner.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Longest look at a device that may be back. The group cannot be closed during the look.
const BACK_MAX: Duration = Duration::from_secs(2);

/// Objects without an owner that this host takes over, so that somebody marks the components that
/// are gone.
#[derive(Clone, Default)]
struct Owned(Rc<Owning>);

#[derive(Default)]
struct Owning {
    tasks: TaskSet,
    /// When each was last tried.
    asked: RefCell<Map<ObjectId, Instant>>,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outs {
    env: Env,
    me: ShardId,
    directory: Directory,
    objects: Objects,
    view: View,
    storage: Storage,
    owned: Owned,
}

/// What a look at a group that lacks a device finds.
enum Sight {
    Same,
    /// Its write buffer has been full of writes for that device for [`FULL_MAX`].
    Full,
    /// A device that was away is there again.
    Back,
}

/// Whether a component is active, or may be at any moment.
fn counts(state: ComponentState) -> bool {
    matches!(state, ComponentState::Active | ComponentState::Resyncing)
}

impl Outs {
    pub(crate) fn new(
        env: &Env,
        me: ShardId,
        directory: &Directory,
        objects: &Objects,
        view: &View,
        storage: &Storage,
    ) -> Self {
        Self {
            env: env.clone(),
            me,
            directory: directory.clone(),
            objects: objects.clone(),
            view: view.clone(),
            storage: storage.clone(),
            owned: Owned::default(),
        }
    }

    /// Looks after all groups, for ever. Each has a task of its own, so that a device that hangs
    /// holds up its own group only.
    pub(crate) async fn run(self) {
        let mut under_way: Map<String, Task> = Map::new();
        loop {
            self.env.sleep(LOOK_EVERY).await;
            under_way.retain(|_, task| !task.is_finished());
            for slot in self.storage.slots() {
                let is_due = match &slot.state {
                    SlotState::Open(Serving { group, .. }) => {
                        group.failure().is_some() || group.is_any_out()
                    }
                    SlotState::Closed(why) => why.is_rotten_log(),
                };
                let cache = slot.spec.cache;
                if is_due && !under_way.contains_key(&cache) {
                    let step = self.clone().care_for(cache.clone());
                    under_way.insert(cache, self.env.spawn("care for a group", step));
                }
            }
        }
    }

    /// One step for one group. It keeps no [`DiskGroup`] across a wait: the devices of a group can
    /// be opened again only when nobody holds it any more.
    async fn care_for(self, cache: String) {
        let Some((_, group)) = self.open_slot(&cache) else {
            return self.begin_log_or_not(&cache).await;
        };
        let (failure, is_any_out) = (group.failure(), group.is_any_out());
        drop(group);
        match failure {
            Some(failure) => self.go_on(&cache, &failure).await,
            None if is_any_out => {
                if let Some(active) = self.give_up_or_not(&cache).await {
                    self.have_owned(active);
                }
                match self.look_at(&cache).await {
                    Sight::Full => self.close_full(&cache).await,
                    Sight::Back => self.take_in(&cache).await,
                    Sight::Same => {}
                }
            }
            None => {}
        }
    }

    /// The group as it is now, if it is open.
    fn open_slot(&self, cache: &str) -> Option<(GroupSlot, DiskGroup)> {
        let slot = self.storage.slots().into_iter().find(|slot| slot.spec.cache == cache)?;
        let SlotState::Open(serving) = &slot.state else { return None };
        let group = serving.group.clone();
        Some((slot, group))
    }

    /// A device failed. Where it is a capacity device beside others, the group goes on without it.
    /// Where it did not answer but does now, the group goes on with it.
    async fn go_on(&self, cache: &str, failure: &GroupFailure) {
        let Ok((_turn, _)) = self.storage.turn(cache).await else { return };
        let Some((slot, group)) = self.open_slot(cache) else { return };
        let outs = group.out_devices();
        let is_same = group.failure().as_ref() == Some(failure);
        let has_answered = group.has_answered();
        drop(group);
        let now = self.env.now();
        let others = slot.spec.capacity.len().saturating_sub(outs.len() + 1);
        let mut past = slot.past.clone();
        if !is_same || !past.may_reopen(now, REOPENINGS_MAX) {
            return;
        }
        match failure.device {
            DevicePlace::Capacity(at) if others > 0 && !past.is_strict => {
                if !failure.is_away {
                    let device = slot.spec.capacity.get(at).cloned().unwrap_or_default();
                    let text = failure.text.clone();
                    past.left_out.push((at, GroupError::Failed { device, text }));
                }
                let what = &failure.text;
                warn!(cache, what, "a capacity device failed: the group goes on without it");
            }
            _ if has_answered && past.may_reopen(now, REOPENINGS_AFTER_SILENCE) => {
                info!(
                    cache,
                    "a device that did not answer has answered: its group is opened again"
                );
                base::hit(base::Probe::DeviceAnswered);
            }
            _ => return,
        }
        self.reopen(slot, past).await;
    }

    /// Closes a group and opens it again.
    async fn reopen(&self, slot: GroupSlot, mut past: Past) {
        past.reopened.push_back(self.env.now());
        past.full_since = None;
        self.storage.past_of(&slot.spec.cache, |own| *own = past);
        drop(self.storage.stop(&slot, Closed::Changing).await);
        let spec = slot.spec.clone();
        drop(slot);
        // If it does not open, `gabion status` shows why.
        drop(self.storage.start(&spec, &spec).await);
    }

    /// Drops the writes that the log holds for devices that are out, if the other copies have them.
    /// If not, returns the objects that still count on a component there.
    async fn give_up_or_not(&self, cache: &str) -> Option<Vec<ObjectRecord>> {
        let opening = |group: &DiskGroup| group.recovery().incarnation;
        let was = {
            let (_, group) = self.open_slot(cache)?;
            group.holds_for_out().then(|| opening(&group))?
        };
        // The host's own view may lag, and a listing is dear. So the listing is asked for only when
        // the view has seen that nobody counts on the missing components.
        let seen = self.needed_gone();
        if !seen.is_empty() {
            return Some(seen);
        }
        if self.listed().await?.iter().any(|record| self.needs_gone(record)) {
            return None;
        }
        // The listing speaks of these devices only if they were out before it was made, and still
        // are: the group must not have been opened again meanwhile.
        let (_, group) = self.open_slot(cache).filter(|(_, group)| opening(group) == was)?;
        match group.give_up_out().await {
            Ok(()) => info!("what a capacity device that is out lacks from now on is elsewhere"),
            Err(error) => warn!(%error, "a capacity device is not given up"),
        }
        None
    }

    /// All objects, as the directory has them now. `None` where it does not answer.
    async fn listed(&self) -> Option<Vec<ObjectRecord>> {
        let listing = self.env.timeout(WAIT_MAX, self.directory.list(OBJECT_PREFIX)).await;
        let entries = listing.ok()?.ok()?.entries;
        entries.iter().map(|(_, entry)| ObjectRecord::decode(&entry.value).ok()).collect()
    }

    /// Objects that count on a component of this host which is not found here, by the host's own
    /// view of the directory.
    fn needed_gone(&self) -> Vec<ObjectRecord> {
        self.view.objects().into_iter().filter(|record| self.needs_gone(record)).collect()
    }

    /// Components of this host that may lose what the log held, by these records. Either they are
    /// not active, so that the others have everything and only a resync makes them active again; or
    /// nothing was ever written to the object, and it has other components.
    fn spared(&self, records: &[ObjectRecord]) -> Map<ComponentId, Version> {
        let me = self.me;
        let mut spared = Map::new();
        for record in records {
            let all = &record.components;
            let is_elsewhere = all.iter().any(|c| c.shard != me && counts(c.state));
            let is_unwritten = record.term.0 == 0 && is_elsewhere;
            let own = all.iter().filter(|c| c.shard == me && (is_unwritten || !counts(c.state)));
            spared.extend(own.map(|c| (c.id, record.version)));
        }
        spared
    }

    /// Opens a group without its damaged log, if the other copies have everything. The group knows
    /// which components it holds, and refuses where one is missing from those that may lose it.
    async fn begin_log_or_not(&self, cache: &str) {
        let closed = |slot: &GroupSlot| match &slot.state {
            SlotState::Closed(why) if why.is_rotten_log() => Some(Rc::clone(why)),
            _ => None,
        };
        let slot = self.storage.slots().into_iter().find(|slot| slot.spec.cache == cache);
        let Some(was) = slot.as_ref().and_then(closed) else { return };
        let now = self.env.now();
        let tried = slot.and_then(|slot| slot.past.begun_anew);
        if tried.as_ref().is_some_and(|(at, _)| now.since(*at) < AWAY_RETRY) {
            return;
        }
        self.have_owned(self.needed_gone());
        // A listing is dear, and so is an attempt: only when the host's own view has changed.
        let seen = self.spared(&self.view.objects());
        if seen.is_empty() || tried.is_some_and(|(_, spared)| spared == seen) {
            return;
        }
        let Some(records) = self.listed().await else { return };
        let spared = self.spared(&records);
        let Ok((_turn, slot)) = self.storage.turn(cache).await else { return };
        // The listing speaks of this group only if it was closed before it was made, and still is.
        if !closed(&slot).is_some_and(|why| Rc::ptr_eq(&why, &was)) {
            return;
        }
        self.storage.past_of(cache, |past| past.begun_anew = Some((now, spared.clone())));
        let tolerance = Tolerance { may_lose_log: spared, ..slot.past.tolerance() };
        let spec = slot.spec.clone();
        drop(slot);
        // If a component is still needed the group stays closed, and `gabion status` shows why.
        if self.storage.start_with(&spec, &spec, tolerance).await.is_ok() {
            warn!(cache, "a damaged log was begun anew: what it held comes back from other copies");
        }
    }

    /// Whether an object counts on a component of this host which is not found here. An object that
    /// never had an owner was never written, and counts on none.
    fn needs_gone(&self, record: &ObjectRecord) -> bool {
        let is_used = record.term.0 > 0;
        is_used
            && record.components.iter().any(|component| {
                counts(component.state)
                    && component.shard == self.me
                    && self.storage.holding(component.id).is_none()
            })
    }

    /// Takes objects over that have no owner: only an owner can say that a component is gone.
    fn have_owned(&self, records: Vec<ObjectRecord>) {
        let mut asked = self.owned.0.asked.borrow_mut();
        let now = self.env.now();
        let ids: Set<ObjectId> = records.iter().map(|record| record.id).collect();
        asked.retain(|id, _| ids.contains(id));
        for record in records {
            let is_owned = record.owner.is_some_and(|owner| {
                let alive = self.view.alive(owner.shard);
                alive.is_some_and(|alive| alive.incarnation == owner.incarnation)
            });
            let last = asked.entry(record.id).or_insert(now);
            if is_owned || now.since(*last) < WAIT_MAX {
                continue;
            }
            *last = now;
            let (env, objects) = (self.env.clone(), self.objects.clone());
            self.owned.0.tasks.spawn(&self.env, "own what lost a device", async move {
                let _ = env.timeout(WAIT_MAX, objects.acquire(record.id)).await;
            });
        }
    }

    /// Looks at a group that lacks a device.
    async fn look_at(&self, cache: &str) -> Sight {
        let Some((_, group)) = self.open_slot(cache) else { return Sight::Same };
        let now = self.env.now();
        let is_full = group.is_held() && group.status().is_pressed;
        let since = self.storage.past_of(cache, |past| {
            past.full_since = if is_full { past.full_since.or(Some(now)) } else { None };
            past.full_since
        });
        if since.flatten().is_some_and(|since| now.since(since) >= FULL_MAX) {
            return Sight::Full;
        }
        let is_due = self.storage.past_of(cache, |past| {
            let is_due = now.since(past.looked_at) >= AWAY_RETRY;
            let is_due = is_due && past.may_reopen(now, REOPENINGS_MAX);
            past.looked_at = if is_due { now } else { past.looked_at };
            is_due
        });
        if is_due == Some(true) {
            for out in group.out_devices().into_iter().filter(|out| is_away(&out.cause)) {
                // A device that does not answer this look is not back.
                let is_back = self.env.timeout(BACK_MAX, group.is_back(out.at)).await;
                if is_back == Ok(true) {
                    return Sight::Back;
                }
            }
        }
        Sight::Same
    }

    /// Closes a group that cannot destage any more: its log is full of writes that only the missing
    /// device can take and no other copy has. An operator decides.
    async fn close_full(&self, cache: &str) {
        let Ok((_turn, _)) = self.storage.turn(cache).await else { return };
        let Some((slot, group)) = self.open_slot(cache) else { return };
        let first = group.out_devices().into_iter().next();
        drop(group);
        let Some(OutDevice { cause, .. }) = first else { return };
        warn!(cache, %cause, "the write buffer is full of what only a device that is out takes");
        self.storage.past_of(cache, |past| past.is_strict = true);
        drop(self.storage.stop(&slot, Closed::Failed(cause)).await);
        self.storage.publish();
    }

    /// Opens a group again with a device that is back.
    async fn take_in(&self, cache: &str) {
        let Ok((_turn, _)) = self.storage.turn(cache).await else { return };
        let Some((slot, group)) = self.open_slot(cache) else { return };
        drop(group);
        info!(cache, "a capacity device is back");
        let past = slot.past.clone();
        self.reopen(slot, past).await;
    }
}
