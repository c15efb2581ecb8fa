// SPDX-License-Identifier: Apache-2.0
//! Devices that fail or come back while this host runs.
//!
//! A group that a capacity device fails is closed and opened without it: for the owners of what is
//! on it that is a host that was started anew. Nothing of the device that the group's log holds is
//! dropped before the directory says that none of this host's components that nobody finds here is
//! active: then others have all of it. What is not active becomes active by a resync alone, which
//! needs the component.
//!
//! A group that stopped because a device did not answer is opened again once it does: nothing
//! failed, and opening verifies what is there.
//!
//! A group whose log is damaged does not open. Once the directory says that none of its components
//! is active it is opened without its log, as with a new cache device: the others have all of it,
//! and what it lacks comes back. Where a component is the last one, or is in no record, the group
//! stays as it is, and an operator decides.
//!
//! Bounded: a device that failed is tried again only when an operator says so, or at the host's
//! next start; those that went away without an error come and go [`REOPENINGS_MAX`] times an hour,
//! those that do not answer fewer. One that goes on like that is left to a person.

use crate::storage::{AWAY_RETRY, Closed, Serving, Slot, State, Storage};
use base::{ComponentId, Instant, Map, ObjectId, Set, Version};
use directory::{ComponentState, Directory, OBJECT_PREFIX, ObjectRecord};
use diskgroup::{DevicePlace, DiskGroup, Failure, GroupError, OutDevice, Tolerance};
use env::{IoError, Task, TaskSet};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

/// Between two looks at all groups.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A group is closed and opened again by itself so many times an hour.
const REOPENINGS_MAX: usize = 8;
const REOPENINGS_IN: Duration = Duration::from_secs(3600);
/// After a device that did not answer only while it was opened less often: each time makes users
/// wait for half a minute. A path that fails over, a controller that is reset; more of them is a
/// device that is dying.
const REOPENINGS_AFTER_SILENCE: usize = 3;
/// A group whose write buffer is full of what a device needs that is out is closed after so long.
const FULL_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the directory, and for an object that nobody owned to be owned.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Longest look at a device that may be back: the group cannot be closed meanwhile.
const BACK_MAX: Duration = Duration::from_secs(2);

/// Objects that nobody owned, and who has them owned.
#[derive(Clone, Default)]
struct Owned(Rc<Owning>);

#[derive(Default)]
struct Owning {
    tasks: TaskSet,
    /// When they were last asked for.
    asked: RefCell<Map<ObjectId, Instant>>,
}

/// What is remembered of a group's devices until an operator opens it.
#[derive(Clone, Default)]
pub(crate) struct Care {
    /// Devices that failed, and how: they stay out.
    left_out: Vec<(usize, GroupError)>,
    /// It is not opened without a device any more.
    is_strict: bool,
    /// When it was closed and opened by itself.
    reopened: VecDeque<Instant>,
    full_since: Option<Instant>,
    looked_at: Instant,
    /// When it was last opened without a damaged log, and which components would have let it.
    begun_anew: Option<(Instant, Map<ComponentId, Version>)>,
}

impl Care {
    /// What the next opening does about devices that do not open.
    pub(crate) fn tolerance(&self) -> Tolerance {
        match self.is_strict {
            true => Tolerance::default(),
            false => Tolerance { left_out: self.left_out.clone(), ..Tolerance::whatever_opens() },
        }
    }

    fn may_reopen(&mut self, now: Instant, most: usize) -> bool {
        while self.reopened.front().is_some_and(|at| now.since(*at) > REOPENINGS_IN) {
            self.reopened.pop_front();
        }
        self.reopened.len() < most
    }
}

/// What is seen of a group that lacks a device.
enum Sight {
    Same,
    /// Its write buffer is full of what is held, for too long.
    Full,
    /// A device that was away is there.
    Back,
}

/// Whether a component is active, or may be at any moment.
fn counts(state: ComponentState) -> bool {
    matches!(state, ComponentState::Active | ComponentState::Resyncing)
}

/// Whether a device may be there again without anybody's doing.
pub(crate) fn may_return(error: &GroupError) -> bool {
    let GroupError::Device { source, .. } = error else { return false };
    matches!(source, IoError::NotFound | IoError::Busy | IoError::NoAnswer)
}

impl Storage {
    /// Looks after devices that fail, come back or are to be given up; for ever. Each group on its
    /// own: a device that hangs holds up nobody else's.
    pub(crate) async fn care(self, directory: Directory) {
        let owned = Owned::default();
        let mut under_way: Map<String, Task> = Map::new();
        loop {
            self.0.env.sleep(LOOK_EVERY).await;
            under_way.retain(|_, task| !task.is_finished());
            for slot in self.slots() {
                let is_due = match &slot.state {
                    State::Open(Serving { group, .. }) => {
                        group.failure().is_some() || group.is_any_out()
                    }
                    State::Closed(why) => why.is_rotten_log(),
                };
                let cache = slot.spec.cache;
                if is_due && !under_way.contains_key(&cache) {
                    let step =
                        self.clone().care_for(cache.clone(), directory.clone(), owned.clone());
                    under_way.insert(cache, self.0.env.spawn("care for a group", step));
                }
            }
        }
    }

    /// No group is kept across a wait: its devices are free only once nobody has it.
    async fn care_for(self, cache: String, directory: Directory, owned: Owned) {
        let Some((_, group)) = self.open_slot(&cache) else {
            return self.begin_log_or_not(&cache, &directory, &owned).await;
        };
        let (failure, is_any_out) = (group.failure(), group.is_any_out());
        drop(group);
        match failure {
            Some(failure) => self.go_on(&cache, &failure).await,
            None if is_any_out => {
                if let Some(active) = self.give_up_or_not(&cache, &directory).await {
                    self.have_owned(&owned, active);
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

    fn care_of<T>(&self, cache: &str, act: impl FnOnce(&mut Care) -> T) -> Option<T> {
        let mut slots = self.0.slots.borrow_mut();
        slots.iter_mut().find(|slot| slot.spec.cache == cache).map(|slot| act(&mut slot.care))
    }

    /// The group as it is now, if it is open.
    fn open_slot(&self, cache: &str) -> Option<(Slot, DiskGroup)> {
        let slot = self.slots().into_iter().find(|slot| slot.spec.cache == cache)?;
        let State::Open(serving) = &slot.state else { return None };
        let group = serving.group.clone();
        Some((slot, group))
    }

    /// A device failed: where it is a capacity device the group goes on with the others, and where
    /// it did not answer but does now, with it.
    async fn go_on(&self, cache: &str, failure: &Failure) {
        let Ok((_turn, _)) = self.turn(cache).await else { return };
        let Some((slot, group)) = self.open_slot(cache) else { return };
        let outs = group.out_devices();
        let is_same = group.failure().as_ref() == Some(failure);
        let has_answered = group.has_answered();
        drop(group);
        let now = self.0.env.now();
        let others = slot.spec.capacity.len().saturating_sub(outs.len() + 1);
        let mut care = slot.care.clone();
        if !is_same || !care.may_reopen(now, REOPENINGS_MAX) {
            return;
        }
        match failure.device {
            DevicePlace::Capacity(at) if others > 0 && !care.is_strict => {
                if !failure.is_away {
                    let device = slot.spec.capacity.get(at).cloned().unwrap_or_default();
                    let text = failure.text.clone();
                    care.left_out.push((at, GroupError::Failed { device, text }));
                }
                let what = &failure.text;
                warn!(cache, what, "a capacity device failed: the group goes on without it");
            }
            _ if has_answered && care.may_reopen(now, REOPENINGS_AFTER_SILENCE) => {
                info!(
                    cache,
                    "a device that did not answer has answered: its group is opened again"
                );
                base::hit(base::Probe::DeviceAnswered);
            }
            _ => return,
        }
        self.reopen(slot, care).await;
    }

    /// Closes and opens.
    async fn reopen(&self, slot: Slot, mut care: Care) {
        care.reopened.push_back(self.0.env.now());
        care.full_since = None;
        self.care_of(&slot.spec.cache, |own| *own = care);
        drop(self.0.stop(&slot, Closed::Changing).await);
        let spec = slot.spec.clone();
        drop(slot);
        // Where it does not open, that is shown.
        drop(self.0.start(&spec, &spec).await);
    }

    /// Gives the devices that are out up, if something is held for them and nobody needs it. Those
    /// objects of which a component may be there that is, where it may not.
    async fn give_up_or_not(
        &self,
        cache: &str,
        directory: &Directory,
    ) -> Option<Vec<ObjectRecord>> {
        let opening = |group: &DiskGroup| group.recovery().incarnation;
        let was = {
            let (_, group) = self.open_slot(cache)?;
            group.holds_for_out().then(|| opening(&group))?
        };
        // It may lag, but will say so once others do without what is out; a listing is dear.
        let seen = self.needed_gone();
        if !seen.is_empty() {
            return Some(seen);
        }
        if self.listed(directory).await?.iter().any(|record| self.needs_gone(record)) {
            return None;
        }
        // What the directory said holds for as long as what is out was out, from before it said so.
        let (_, group) = self.open_slot(cache).filter(|(_, group)| opening(group) == was)?;
        match group.give_up_out().await {
            Ok(()) => info!("what a capacity device that is out lacks from now on is elsewhere"),
            Err(error) => warn!(%error, "a capacity device is not given up"),
        }
        None
    }

    /// Objects as the directory has them now; `None` where it does not answer.
    async fn listed(&self, directory: &Directory) -> Option<Vec<ObjectRecord>> {
        let listing = self.0.env.timeout(WAIT_MAX, directory.list(OBJECT_PREFIX)).await;
        let entries = listing.ok()?.ok()?.entries;
        entries.iter().map(|(_, entry)| ObjectRecord::decode(&entry.value).ok()).collect()
    }

    /// Objects that need a component of this host that is not found, as far as is seen.
    fn needed_gone(&self) -> Vec<ObjectRecord> {
        self.0.view.objects().into_iter().filter(|record| self.needs_gone(record)).collect()
    }

    /// Components of this host of which others have all: only a resync makes them active again, and
    /// that needs them; or nothing was ever written, and there are others.
    fn spared(&self, records: &[ObjectRecord]) -> Map<ComponentId, Version> {
        let me = self.0.record.id;
        let mut spared = Map::new();
        for record in records {
            let all = &record.components;
            let is_elsewhere = all.iter().any(|c| c.host != me && counts(c.state));
            let is_unwritten = record.term.0 == 0 && is_elsewhere;
            let own = all.iter().filter(|c| c.host == me && (is_unwritten || !counts(c.state)));
            spared.extend(own.map(|c| (c.id, record.version)));
        }
        spared
    }

    /// A group is closed, for its log is damaged: opens it without, if others have all that its
    /// components are to hold. It knows itself which those are.
    async fn begin_log_or_not(&self, cache: &str, directory: &Directory, owned: &Owned) {
        let closed = |slot: &Slot| match &slot.state {
            State::Closed(why) if why.is_rotten_log() => Some(Rc::clone(why)),
            _ => None,
        };
        let slot = self.slots().into_iter().find(|slot| slot.spec.cache == cache);
        let Some(was) = slot.as_ref().and_then(closed) else { return };
        let now = self.0.env.now();
        let tried = slot.and_then(|slot| slot.care.begun_anew);
        if tried.as_ref().is_some_and(|(at, _)| now.since(*at) < AWAY_RETRY) {
            return;
        }
        self.have_owned(owned, self.needed_gone());
        // It may lag; a listing is dear, and so is an attempt.
        let seen = self.spared(&self.0.view.objects());
        if seen.is_empty() || tried.is_some_and(|(_, spared)| spared == seen) {
            return;
        }
        let Some(records) = self.listed(directory).await else { return };
        let spared = self.spared(&records);
        let Ok((_turn, slot)) = self.turn(cache).await else { return };
        // What the directory said holds for as long as the group was closed from before it said so.
        if !closed(&slot).is_some_and(|why| Rc::ptr_eq(&why, &was)) {
            return;
        }
        self.care_of(cache, |care| care.begun_anew = Some((now, spared.clone())));
        let tolerance = Tolerance { may_lose_log: spared, ..slot.care.tolerance() };
        let spec = slot.spec.clone();
        drop(slot);
        // Where a component is needed it stays closed, and that is shown.
        if self.0.start_with(&spec, &spec, tolerance).await.is_ok() {
            warn!(cache, "a damaged log was begun anew: what it held comes back from other copies");
        }
    }

    /// Whether a component of this host that is not found counts, or is about to. What nobody ever
    /// owned was never written.
    fn needs_gone(&self, record: &ObjectRecord) -> bool {
        let is_used = record.term.0 > 0;
        is_used
            && record.components.iter().any(|component| {
                counts(component.state)
                    && component.host == self.0.record.id
                    && self.holding(component.id).is_none()
            })
    }

    /// An object that nobody owns has nobody who says that a component of it is gone.
    fn have_owned(&self, owned: &Owned, records: Vec<ObjectRecord>) {
        let mut asked = owned.0.asked.borrow_mut();
        let now = self.0.env.now();
        let ids: Set<ObjectId> = records.iter().map(|record| record.id).collect();
        asked.retain(|id, _| ids.contains(id));
        for record in records {
            let is_owned = record.owner.is_some_and(|owner| {
                let alive = self.0.view.alive(owner.host);
                alive.is_some_and(|alive| alive.incarnation == owner.incarnation)
            });
            let last = asked.entry(record.id).or_insert(now);
            if is_owned || now.since(*last) < WAIT_MAX {
                continue;
            }
            *last = now;
            let (env, objects) = (self.0.env.clone(), self.0.objects.clone());
            owned.0.tasks.spawn(&self.0.env, "own what lost a device", async move {
                let _ = env.timeout(WAIT_MAX, objects.acquire(record.id)).await;
            });
        }
    }

    /// What became of a group that lacks a device.
    async fn look_at(&self, cache: &str) -> Sight {
        let Some((_, group)) = self.open_slot(cache) else { return Sight::Same };
        let now = self.0.env.now();
        let is_full = group.is_held() && group.status().is_pressed;
        let since = self.care_of(cache, |care| {
            care.full_since = if is_full { care.full_since.or(Some(now)) } else { None };
            care.full_since
        });
        if since.flatten().is_some_and(|since| now.since(since) >= FULL_MAX) {
            return Sight::Full;
        }
        let is_due = self.care_of(cache, |care| {
            let is_due = now.since(care.looked_at) >= AWAY_RETRY;
            let is_due = is_due && care.may_reopen(now, REOPENINGS_MAX);
            care.looked_at = if is_due { now } else { care.looked_at };
            is_due
        });
        if is_due == Some(true) {
            for out in group.out_devices().into_iter().filter(|out| may_return(&out.cause)) {
                // One that hangs is none that is back.
                let is_back = self.0.env.timeout(BACK_MAX, group.is_back(out.at)).await;
                if is_back == Ok(true) {
                    return Sight::Back;
                }
            }
        }
        Sight::Same
    }

    /// Nothing can be destaged any more, and what is in the way nobody else has: the operator
    /// decides.
    async fn close_full(&self, cache: &str) {
        let Ok((_turn, _)) = self.turn(cache).await else { return };
        let Some((slot, group)) = self.open_slot(cache) else { return };
        let first = group.out_devices().into_iter().next();
        drop(group);
        let Some(OutDevice { cause, .. }) = first else { return };
        warn!(cache, %cause, "the write buffer is full of what only a device that is out takes");
        self.care_of(cache, |care| care.is_strict = true);
        drop(self.0.stop(&slot, Closed::Failed(cause)).await);
        self.0.changed.notify();
    }

    /// A device that was away is there again.
    async fn take_in(&self, cache: &str) {
        let Ok((_turn, _)) = self.turn(cache).await else { return };
        let Some((slot, group)) = self.open_slot(cache) else { return };
        drop(group);
        info!(cache, "a capacity device is back");
        let care = slot.care.clone();
        self.reopen(slot, care).await;
    }
}
