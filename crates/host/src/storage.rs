// SPDX-License-Identifier: Apache-2.0
//! The disk groups of this host: which there are, and their coming and going while it runs.
//!
//! One change of a group at a time, each group on its own: a device that hangs holds up its group
//! and no other. A group that does not open, or that an operator closed, is out of service:
//! what is on it is served by other copies and is neither given up nor made anew. One whose device
//! was not there is tried again now and then, for devices come back.
//!
//! | file | what it is |
//! |---|---|
//! | `opening` | opening groups; those of a host that starts, side by side |
//! | `change` | what an operator changes |
//! | `claims` | devices that changes under way are about to take |
//! | `past` | what is remembered of a group's devices until an operator opens it |
//! | `error` | why a group is out of service, or did not do what was asked |
//! | `hardware` | what the operating system says of devices |
//! | `devices` | which devices fit a group by that |

mod change;
mod claims;
pub(crate) mod devices;
mod error;
pub(crate) mod hardware;
mod opening;
mod past;

use crate::cluster::alive::Room;
use crate::cluster::membership;
use base::{CHUNK_SIZE, ComponentId, GroupId, Map};
use claims::DeviceClaims;
use directory::{Directory, GroupRecord, ShardRecord};
use diskgroup::{
    ComponentInfo, DiskGroup, GroupError, GroupOptions, GroupSpec, StoreMemory, Tolerance,
};
use env::{Env, IoError, Notify, OpenDisk, Permit, Semaphore, Task, TaskSet};
pub use error::{Closed, StorageError};
use object::Objects;
pub(crate) use opening::{GroupOpening, Opening, open_all};
use opening::{LateOpening, open_group};
pub(crate) use past::Past;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

/// Longest wait for devices that somebody has open, and between two attempts.
const BUSY_MAX: Duration = Duration::from_secs(5);
const BUSY_RETRY: Duration = Duration::from_millis(50);
/// Between two attempts to open groups whose devices are away.
pub(crate) const AWAY_RETRY: Duration = Duration::from_secs(10);

/// A group that serves, and the task that attends to it for as long as it does.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) group: DiskGroup,
    _attendant: Rc<Task>,
}

/// What becomes of a group.
#[derive(Clone)]
pub(crate) enum SlotState {
    Open(Serving),
    Closed(Rc<Closed>),
}

/// One group of the configuration.
#[derive(Clone)]
pub(crate) struct GroupSlot {
    pub(crate) spec: GroupSpec,
    /// Known once it was open.
    pub(crate) id: Option<GroupId>,
    pub(crate) state: SlotState,
    pub(crate) past: Past,
    /// One change at a time.
    turn: Semaphore,
    /// No other slot has it.
    number: u64,
}

/// How groups are opened, and what goes with an open one.
#[derive(Clone)]
pub(crate) struct StorageOptions {
    pub(crate) group: GroupOptions,
    /// What all of them share.
    pub(crate) memory: StoreMemory,
    /// Starts the task that attends to a group that opened.
    pub(crate) attend: Rc<dyn Fn(&DiskGroup) -> Task>,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Storage(Rc<StorageInner>);

struct StorageInner {
    env: Env,
    objects: Objects,
    options: StorageOptions,
    /// What the directory is told of this host, but for its groups.
    record: ShardRecord,
    slots: RefCell<Vec<GroupSlot>>,
    /// Slots that there were.
    numbers: Cell<u64>,
    claims: DeviceClaims,
    /// Groups that were not open when the host had waited for them long enough.
    late: RefCell<Vec<LateOpening>>,
    /// The host's record is not what the directory has.
    changed: Notify,
}

/// Whether a device was not there, did not answer or was in use. Each of these may pass without an
/// operator's doing, so the group is tried again. A device is also in use while an earlier call of
/// this host hangs on it.
pub(crate) fn is_away(error: &GroupError) -> bool {
    let GroupError::Device { source, .. } = error else { return false };
    matches!(source, IoError::NotFound | IoError::NoAnswer | IoError::Busy)
}

/// What the directory is told of groups that are open.
pub(crate) fn group_records(groups: &[DiskGroup]) -> Vec<GroupRecord> {
    let of = |group: &DiskGroup| GroupRecord {
        id: group.id(),
        capacity_bytes: group.status().capacity_bytes,
    };
    groups.iter().map(of).collect()
}

impl Storage {
    /// With what [`open_all`] opened; `record` is this host's, `objects` knows the groups already.
    pub(crate) fn new(
        env: &Env,
        objects: &Objects,
        options: StorageOptions,
        record: ShardRecord,
        opened: Vec<GroupOpening>,
    ) -> Self {
        let storage = Self(Rc::new(StorageInner {
            env: env.clone(),
            objects: objects.clone(),
            options,
            record,
            slots: RefCell::default(),
            numbers: Cell::default(),
            claims: DeviceClaims::default(),
            late: RefCell::default(),
            changed: Notify::default(),
        }));
        for (spec, opening) in opened {
            let (id, state, pending) = match opening {
                Opening::Done(Ok(group)) => {
                    (Some(group.id()), SlotState::Open(storage.0.serve(group)), None)
                }
                Opening::Done(Err(error)) => (None, SlotState::closed(Closed::Failed(error)), None),
                Opening::UnderWay(pending) => {
                    (None, SlotState::closed(Closed::Changing), Some(pending))
                }
            };
            let turn = storage.0.add_slot(&spec, id, state);
            let late =
                pending.map(|pending| LateOpening { spec, pending, turn: turn.try_acquire(1) });
            storage.0.late.borrow_mut().extend(late);
        }
        storage
    }

    /// Keeps the directory's record of this host true, and looks for devices that come back.
    pub(crate) async fn run(self, directory: Directory) {
        let late = TaskSet::default();
        for group in self.0.late.take() {
            late.spawn(&self.0.env, "open a late group", self.clone().finish_late(group));
        }
        let mut returning: Map<String, Task> = Map::new();
        let mut changed = self.0.changed.wait();
        loop {
            match env::select(&mut changed, self.0.env.sleep(AWAY_RETRY)).await {
                env::Either::First(()) => {
                    // What changes from here on, while the record is written, has it written again.
                    changed = self.0.changed.wait();
                    let record = self.record();
                    let published = membership::publish(&self.0.env, &directory, &record).await;
                    if let Err(error) = published {
                        warn!(%error, "the disk groups are not in the directory");
                    }
                }
                env::Either::Second(()) => self.open_what_came_back(&mut returning),
            }
        }
    }

    /// What the directory's record of this host is to say.
    pub(crate) fn record(&self) -> ShardRecord {
        ShardRecord { groups: group_records(&self.groups()), ..self.0.record.clone() }
    }

    /// Has the host's record written again.
    pub(crate) fn publish(&self) {
        self.0.changed.notify();
    }

    /// All groups, in the order of the configuration.
    pub(crate) fn slots(&self) -> Vec<GroupSlot> {
        self.0.slots.borrow().clone()
    }

    /// The open ones with their scrubbers.
    pub(crate) fn serving(&self) -> Vec<Serving> {
        let slots = self.0.slots.borrow();
        let open = slots.iter().filter_map(|slot| match &slot.state {
            SlotState::Open(serving) => Some(serving.clone()),
            SlotState::Closed(_) => None,
        });
        open.collect()
    }

    /// The open ones.
    pub(crate) fn groups(&self) -> Vec<DiskGroup> {
        self.serving().into_iter().map(|serving| serving.group).collect()
    }

    /// The open group that holds a component. A caller must not keep the group while it waits for
    /// something else: the devices of a closed group are free only when nobody has the group.
    pub(crate) fn holding(&self, component: ComponentId) -> Option<DiskGroup> {
        self.groups().into_iter().find(|group| group.component(component).is_some())
    }

    /// The components on all open groups.
    pub(crate) fn components(&self) -> Map<ComponentId, ComponentInfo> {
        let mut all = Map::new();
        for group in self.groups() {
            let of = |id| Some((id, group.component(id)?));
            all.extend(group.components().into_iter().filter_map(of));
        }
        all
    }

    /// A group by its id, the first digits of it, or a device.
    ///
    /// # Errors
    /// [`StorageError::Unknown`], [`StorageError::Ambiguous`].
    pub(crate) fn find(&self, wanted: &str) -> Result<GroupSlot, StorageError> {
        let slots = self.0.slots.borrow();
        let has = |slot: &&GroupSlot| {
            let id = slot.id.map(|id| id.to_string());
            let is_device =
                slot.spec.cache == wanted || slot.spec.capacity.iter().any(|path| path == wanted);
            is_device || !wanted.is_empty() && id.is_some_and(|id| id.starts_with(wanted))
        };
        let mut found = slots.iter().filter(has);
        let host = self.0.record.name.clone();
        let wanted = wanted.escape_debug().to_string();
        match (found.next(), found.next()) {
            (Some(slot), None) => Ok(slot.clone()),
            (None, _) => Err(StorageError::Unknown { host, wanted }),
            (Some(_), Some(_)) => Err(StorageError::Ambiguous { host, wanted }),
        }
    }

    /// Waits until nobody else changes a group. Returns the turn to change it, and the group as it
    /// is then. The caller must not keep the handle of an open group across a wait.
    ///
    /// # Errors
    /// As [`Storage::find`].
    pub(crate) async fn turn(&self, wanted: &str) -> Result<(Permit, GroupSlot), StorageError> {
        loop {
            let GroupSlot { turn, number, .. } = self.find(wanted)?;
            let permit = turn.acquire(1).await;
            let slot = self.find(wanted)?;
            if slot.number == number {
                return Ok((permit, slot));
            }
        }
    }

    /// Nothing of a group is served any more when this returns.
    pub(crate) async fn stop(&self, slot: &GroupSlot, why: Closed) -> Option<DiskGroup> {
        self.0.set(&slot.spec, &slot.spec, SlotState::closed(why));
        let group = self.0.objects.take_group(slot.id?)?;
        // A device that does not answer keeps it busy: opening it says so.
        let _ = self.0.env.timeout(BUSY_MAX, group.close()).await;
        Some(group)
    }

    /// Opens a group that is out of service.
    pub(crate) async fn start(
        &self,
        old: &GroupSpec,
        spec: &GroupSpec,
    ) -> Result<(), StorageError> {
        self.start_with(old, spec, self.0.tolerance(old)).await
    }

    /// The same, with what it does about devices and a log that are damaged.
    pub(crate) async fn start_with(
        &self,
        old: &GroupSpec,
        spec: &GroupSpec,
        tolerance: Tolerance,
    ) -> Result<(), StorageError> {
        let options = &self.0.options;
        let (group, memory) = (&options.group, &options.memory);
        let opened = open_group(&self.0.env, spec, group, memory, tolerance).await;
        self.0.started(old, spec, opened)
    }

    /// Reads or changes what is remembered of a group.
    pub(crate) fn past_of<T>(&self, cache: &str, act: impl FnOnce(&mut Past) -> T) -> Option<T> {
        let mut slots = self.0.slots.borrow_mut();
        slots.iter_mut().find(|slot| slot.spec.cache == cache).map(|slot| act(&mut slot.past))
    }

    /// Tries groups whose devices were away, each in a task of its own.
    fn open_what_came_back(&self, returning: &mut Map<String, Task>) {
        returning.retain(|_, task| !task.is_finished());
        for slot in self.slots() {
            let SlotState::Closed(why) = &slot.state else { continue };
            let cache = slot.spec.cache.clone();
            let is_due = matches!(&**why, Closed::Failed(error) if is_away(error));
            if is_due && !returning.contains_key(&cache) {
                let come_back = self.clone().come_back(cache.clone(), Rc::clone(why));
                returning.insert(cache, self.0.env.spawn("open a group", come_back));
            }
        }
    }

    async fn come_back(self, cache: String, why: Rc<Closed>) {
        // An operator may have changed the group before this turn came. Then it is left alone.
        let Ok((_turn, slot)) = self.turn(&cache).await else { return };
        if matches!(&slot.state, SlotState::Closed(now) if Rc::ptr_eq(now, &why)) {
            // Not there yet: it says so where it is shown.
            drop(self.start(&slot.spec, &slot.spec).await);
        }
    }
}

impl SlotState {
    fn closed(why: Closed) -> Self {
        Self::Closed(Rc::new(why))
    }
}

impl StorageInner {
    /// One more group; its turn.
    fn add_slot(&self, spec: &GroupSpec, id: Option<GroupId>, state: SlotState) -> Semaphore {
        let (turn, number) = (Semaphore::new(1), self.numbers.get());
        self.numbers.set(number + 1);
        let (spec, past) = (spec.clone(), Past::default());
        let slot = GroupSlot { spec, id, state, past, turn: turn.clone(), number };
        self.slots.borrow_mut().push(slot);
        turn
    }

    /// A group that opened, with its attendant.
    fn serve(&self, group: DiskGroup) -> Serving {
        let attendant = Rc::new((self.options.attend)(&group));
        Serving { group, _attendant: attendant }
    }

    /// An operator had his say: every device is tried again.
    fn forget_past(&self, spec: &GroupSpec) {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.iter_mut().find(|slot| slot.spec.cache == spec.cache);
        slot.into_iter().for_each(|slot| slot.past = Past::default());
    }

    fn tolerance(&self, spec: &GroupSpec) -> Tolerance {
        let slots = self.slots.borrow();
        let slot = slots.iter().find(|slot| slot.spec.cache == spec.cache);
        slot.map_or_else(Tolerance::default, |slot| slot.past.tolerance())
    }

    fn set(&self, old: &GroupSpec, spec: &GroupSpec, state: SlotState) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.iter_mut().find(|slot| slot.spec.cache == old.cache) else { return };
        if let SlotState::Open(serving) = &state {
            slot.id = Some(serving.group.id());
        }
        slot.spec = spec.clone();
        slot.state = state;
    }

    /// Waits until the devices of a group that was stopped are free: what was in flight when it was
    /// closed must have ended. One that does not answer is waited for no longer than others.
    async fn let_go(&self, slot: GroupSlot) -> GroupSpec {
        drop(slot.state);
        self.wait_until_free(slot.spec).await
    }

    async fn wait_until_free(&self, spec: GroupSpec) -> GroupSpec {
        let begun = self.env.now();
        for path in std::iter::once(&spec.cache).chain(&spec.capacity) {
            let options = OpenDisk { path: path.clone(), create: None };
            let left = || BUSY_MAX.saturating_sub(self.env.now().since(begun));
            let open = || self.env.timeout(left(), self.env.open_disk(options.clone()));
            while let Ok(Err(IoError::Busy)) = open().await
                && !left().is_zero()
            {
                base::hit(base::Probe::DeviceLetGoLate);
                self.env.sleep(BUSY_RETRY).await;
            }
        }
        spec
    }

    /// What came of opening a group.
    fn started(
        &self,
        old: &GroupSpec,
        spec: &GroupSpec,
        opened: Result<DiskGroup, GroupError>,
    ) -> Result<(), StorageError> {
        let result = match opened {
            Ok(group) => {
                self.objects.add_group(group.clone());
                info!(cache = spec.cache, "a disk group is open");
                self.set(old, spec, SlotState::Open(self.serve(group)));
                Ok(())
            }
            Err(error) => {
                let error = self.unanswered(old, error);
                warn!(cache = spec.cache, %error, "a disk group does not open");
                self.set(old, spec, SlotState::closed(Closed::Failed(error.clone())));
                Err(error.into())
            }
        };
        self.changed.notify();
        result
    }

    /// The error to show for a group that did not open. A device that did not answer the attempt
    /// before, and is in use now, still has not answered: that stays the error.
    fn unanswered(&self, old: &GroupSpec, error: GroupError) -> GroupError {
        let GroupError::Device { device, source: IoError::Busy } = &error else { return error };
        let slots = self.slots.borrow();
        let slot = slots.iter().find(|slot| slot.spec.cache == old.cache);
        let before = slot.and_then(|slot| match &slot.state {
            SlotState::Closed(why) => Some(Rc::clone(why)),
            SlotState::Open(_) => None,
        });
        match before.as_deref() {
            Some(Closed::Failed(GroupError::Device {
                device: same,
                source: IoError::NoAnswer,
            })) if same == device => {
                let (device, source) = (device.clone(), IoError::NoAnswer);
                GroupError::Device { device, source }
            }
            _ => error,
        }
    }
}

/// Space of `groups`: the bytes that new components may take, and all bytes of capacity. A group
/// that lacks a device takes no new components.
pub(crate) fn room(groups: &[DiskGroup]) -> Room {
    let whole = groups.iter().filter(|group| !group.is_any_out());
    Room {
        free_bytes: whole.map(|group| group.free_chunks() * CHUNK_SIZE).sum(),
        capacity_bytes: groups.iter().map(|group| group.status().capacity_bytes).sum(),
    }
}
