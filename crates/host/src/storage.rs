// SPDX-License-Identifier: Apache-2.0
//! The disk groups of this host: which there are, and their coming and going while it runs.
//!
//! One change at a time. A group that does not open, or that an operator closed, is out of service:
//! what is on it is served by other copies and is neither given up nor made anew. One whose device
//! was not there is tried again now and then, for devices come back.

use crate::alive::Room;
use crate::config::{CAPACITY_DEVICES_MAX, HostConfig};
use crate::membership;
use crate::outs::Care;
use crate::scrub::{Helpers, Marks, ScrubOptions, Scrubber};
use crate::view::View;
use base::{CHUNK_SIZE, ComponentId, GroupId, Map};
use directory::{Directory, GROUPS_MAX, GroupRecord, HostRecord};
use diskgroup::{
    ComponentInfo, CreateSizes, DiskGroup, GroupError, GroupKind, GroupOptions, GroupSpec,
    Tolerance,
};
use env::{Env, IoError, Notify, OpenDisk, Semaphore, Task, join_all};
use object::Objects;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

mod error;

pub use error::{Closed, StorageError};

/// Longest wait for devices that somebody has open, and between two attempts.
const BUSY_MAX: Duration = Duration::from_secs(5);
const BUSY_RETRY: Duration = Duration::from_millis(50);
/// Between two attempts to open groups whose devices are away.
pub(crate) const AWAY_RETRY: Duration = Duration::from_secs(10);

/// A group that serves, and who scrubs it.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) group: DiskGroup,
    pub(crate) scrubber: Scrubber,
    _scrub: Rc<Task>,
}

/// What becomes of a group.
#[derive(Clone)]
pub(crate) enum State {
    Open(Serving),
    Closed(Rc<Closed>),
}

/// One group of the configuration.
#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) spec: GroupSpec,
    /// Known once it was open.
    pub(crate) id: Option<GroupId>,
    pub(crate) state: State,
    pub(crate) care: Care,
}

/// How groups are opened and scrubbed.
#[derive(Clone)]
pub(crate) struct StorageOptions {
    pub(crate) group: GroupOptions,
    /// What all groups of the cluster are.
    pub(crate) kind: GroupKind,
    pub(crate) scrub: ScrubOptions,
    pub(crate) marks: Marks,
    /// Most bytes per second of scrub.
    pub(crate) scrub_rate: u64,
    pub(crate) scrub_period: Duration,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Storage(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) objects: Objects,
    pub(crate) view: View,
    options: StorageOptions,
    /// What the directory is told of this host, but for its groups.
    pub(crate) record: HostRecord,
    pub(crate) slots: RefCell<Vec<Slot>>,
    /// One change at a time.
    pub(crate) turn: Semaphore,
    /// The host's record is not what the directory has.
    pub(crate) changed: Notify,
}

/// A group of the configuration, opened or not.
pub(crate) type Opened = (GroupSpec, Result<DiskGroup, GroupError>);

/// Opens all groups of a configuration, each on its own.
pub(crate) async fn open_all(
    env: &Env,
    config: &HostConfig,
    options: &GroupOptions,
) -> Vec<Opened> {
    let kind = config.group_kind();
    let opening = config.groups.iter().map(|group| {
        let spec = GroupSpec::from(group.clone());
        let (env, options) = (env.clone(), options.clone());
        async move {
            let tolerance = Tolerance::whatever_opens();
            let opened = open_group(&env, &spec, &options, kind, tolerance).await;
            (spec, opened)
        }
    });
    join_all(opening.collect()).await
}

/// Opens a group. The kernel lets go of a killed process's devices only when their I/O has ended,
/// a moment after the process; so does this host with reads of a group that was closed. Some of its
/// capacity devices may be left out.
async fn open_group(
    env: &Env,
    spec: &GroupSpec,
    options: &GroupOptions,
    kind: GroupKind,
    mut tolerance: Tolerance,
) -> Result<DiskGroup, GroupError> {
    let begun = env.now();
    loop {
        tolerance.leaves_busy = env.now().since(begun) >= BUSY_MAX;
        match DiskGroup::open_without(env, spec, options.clone(), &tolerance).await {
            Err(GroupError::Device { source: IoError::Busy, .. }) if !tolerance.leaves_busy => {
                env.sleep(BUSY_RETRY).await;
            }
            Ok(group) if !kind.is_same(group.status().kind) => {
                let device = spec.cache.clone();
                return Err(GroupError::WrongKind { device, wanted: kind.name() });
            }
            opened => return opened,
        }
    }
}

/// Whether a device was not there: it may be some day.
fn is_away(error: &GroupError) -> bool {
    matches!(error, GroupError::Device { source: IoError::NotFound, .. })
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
        view: &View,
        options: StorageOptions,
        record: HostRecord,
        opened: Vec<Opened>,
    ) -> Self {
        let storage = Self(Rc::new(Inner {
            env: env.clone(),
            objects: objects.clone(),
            view: view.clone(),
            options,
            record,
            slots: RefCell::default(),
            turn: Semaphore::new(1),
            changed: Notify::default(),
        }));
        for (spec, opened) in opened {
            let (id, state) = match opened {
                Ok(group) => (Some(group.id()), State::Open(storage.0.serve(group))),
                Err(error) => (None, State::Closed(Rc::new(Closed::Failed(error)))),
            };
            let care = Care::default();
            storage.0.slots.borrow_mut().push(Slot { spec, id, state, care });
        }
        storage
    }

    /// Keeps the directory's record of this host true, and looks for devices that come back.
    pub(crate) async fn run(self, directory: Directory) {
        loop {
            let changed = self.0.changed.wait();
            match env::select(changed, self.0.env.sleep(AWAY_RETRY)).await {
                env::Either::First(()) => {
                    let groups = group_records(&self.groups());
                    let record = HostRecord { groups, ..self.0.record.clone() };
                    membership::publish(&self.0.env, &directory, &record).await;
                }
                env::Either::Second(()) => self.open_what_came_back().await,
            }
        }
    }

    /// All groups, in the order of the configuration.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.0.slots.borrow().clone()
    }

    /// The open ones with their scrubbers.
    pub(crate) fn serving(&self) -> Vec<Serving> {
        let slots = self.0.slots.borrow();
        let open = slots.iter().filter_map(|slot| match &slot.state {
            State::Open(serving) => Some(serving.clone()),
            State::Closed(_) => None,
        });
        open.collect()
    }

    /// The open ones.
    pub(crate) fn groups(&self) -> Vec<DiskGroup> {
        self.serving().into_iter().map(|serving| serving.group).collect()
    }

    /// The open group that holds a component. Whoever waits for something else must not keep it:
    /// its devices are free only once nobody has it.
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
    pub(crate) fn find(&self, wanted: &str) -> Result<Slot, StorageError> {
        let slots = self.0.slots.borrow();
        let has = |slot: &&Slot| {
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

    /// Takes a group out of service. Its devices are free when this returns, but for one that does
    /// not answer.
    ///
    /// # Errors
    /// [`StorageError`] of the search; [`StorageError::IsClosed`].
    pub(crate) async fn close(&self, wanted: &str) -> Result<(), StorageError> {
        let _turn = self.0.turn.acquire(1).await;
        let slot = self.find(wanted)?;
        let State::Open(_) = slot.state else {
            self.0.set(&slot.spec, &slot.spec, State::closed(Closed::Asked));
            return Ok(());
        };
        drop(self.0.stop(&slot, Closed::Asked).await);
        let spec = self.0.let_go(slot).await;
        info!(cache = spec.cache, "a disk group was closed");
        self.0.changed.notify();
        Ok(())
    }

    /// Opens a group that is out of service, takes no writes or lacks a device, and tries all of
    /// them; with other devices where `spec` says so.
    ///
    /// # Errors
    /// [`StorageError`]: it stays out of service.
    pub(crate) async fn open(
        &self,
        wanted: &str,
        spec: Option<GroupSpec>,
    ) -> Result<GroupSpec, StorageError> {
        let _turn = self.0.turn.acquire(1).await;
        let slot = self.find(wanted)?;
        if let State::Open(serving) = &slot.state {
            if serving.group.failure().is_none() && !serving.group.is_any_out() {
                return Err(StorageError::IsOpen { cache: slot.spec.cache });
            }
            self.0.stop(&slot, Closed::Changing).await;
        }
        let spec = spec.unwrap_or_else(|| slot.spec.clone());
        drop(slot.state);
        self.0.forget_care(&slot.spec);
        self.0.start(&slot.spec, &spec).await?;
        Ok(spec)
    }

    /// Makes a group of empty devices and opens it.
    ///
    /// # Errors
    /// [`StorageError`]: there is no such group then.
    pub(crate) async fn create(
        &self,
        spec: &GroupSpec,
        sizes: Option<CreateSizes>,
        wipe: bool,
    ) -> Result<(), StorageError> {
        let _turn = self.0.turn.acquire(1).await;
        if self.0.slots.borrow().len() >= GROUPS_MAX {
            let (what, things) = ("a host", "disk groups");
            return Err(StorageError::TooMany { what, most: GROUPS_MAX, things });
        }
        for path in std::iter::once(&spec.cache).chain(&spec.capacity) {
            self.0.check_unused(path)?;
        }
        let env = &self.0.env;
        let id = GroupId(env.random());
        DiskGroup::format_with(env, spec, sizes, wipe, id, self.0.options.kind).await?;
        let state = State::closed(Closed::Changing);
        let (spec_, care) = (spec.clone(), Care::default());
        self.0.slots.borrow_mut().push(Slot { spec: spec_, id: None, state, care });
        self.0.objects.expect_group();
        if let Err(error) = self.0.start(spec, spec).await {
            self.0.slots.borrow_mut().retain(|slot| slot.spec.cache != spec.cache);
            self.0.objects.forget_group();
            return Err(error);
        }
        Ok(())
    }

    /// Gives up a group that holds nothing.
    ///
    /// # Errors
    /// [`StorageError::NotEmpty`]: it stays as it is; [`StorageError::IsClosed`].
    pub(crate) async fn remove(&self, wanted: &str) -> Result<GroupSpec, StorageError> {
        let _turn = self.0.turn.acquire(1).await;
        let slot = self.find(wanted)?;
        let cache = slot.spec.cache.clone();
        let State::Open(serving) = &slot.state else {
            return Err(StorageError::IsClosed { cache });
        };
        let held = |group: &DiskGroup| match group.components().len() {
            0 => Ok(()),
            components => Err(StorageError::NotEmpty { cache: cache.clone(), components }),
        };
        if serving.group.is_any_out() {
            return Err(StorageError::DeviceOut { cache });
        }
        held(&serving.group)?;
        // What was being made there when it was asked for is made by now, or never will be.
        let group = self.0.stop(&slot, Closed::Changing).await;
        let empty = group.as_ref().map_or(Ok(()), held);
        drop((group, slot.state));
        if let Err(error) = empty {
            self.0.start(&slot.spec, &slot.spec).await?;
            return Err(error);
        }
        let spec = self.0.wait_until_free(slot.spec).await;
        self.0.slots.borrow_mut().retain(|other| other.spec.cache != spec.cache);
        self.0.objects.forget_group();
        self.0.changed.notify();
        info!(cache = spec.cache, "a disk group was removed");
        Ok(spec)
    }

    /// Adds an empty capacity device to a group: for a moment it is out of service.
    ///
    /// # Errors
    /// [`StorageError`]: it stays as it is.
    pub(crate) async fn extend(
        &self,
        wanted: &str,
        path: &str,
        size: Option<u64>,
        wipe: bool,
    ) -> Result<GroupSpec, StorageError> {
        let _turn = self.0.turn.acquire(1).await;
        let slot = self.find(wanted)?;
        self.0.check_unused(path)?;
        if slot.spec.capacity.len() >= CAPACITY_DEVICES_MAX {
            let (what, most) = ("a disk group", CAPACITY_DEVICES_MAX);
            return Err(StorageError::TooMany { what, most, things: "capacity devices" });
        }
        let State::Open(_) = slot.state else {
            return Err(StorageError::IsClosed { cache: slot.spec.cache });
        };
        drop(self.0.stop(&slot, Closed::Changing).await);
        let old = self.0.let_go(slot).await;
        let mut spec = old.clone();
        spec.capacity.push(path.to_owned());
        if let Err(error) = DiskGroup::add_capacity(&self.0.env, &spec, size, wipe).await {
            self.0.start(&old, &old).await?;
            return Err(error.into());
        }
        self.0.start(&old, &spec).await?;
        Ok(spec)
    }

    async fn open_what_came_back(&self) {
        for slot in self.slots() {
            let State::Closed(why) = &slot.state else { continue };
            if !matches!(&**why, Closed::Failed(error) if is_away(error)) {
                continue;
            }
            // Its turn may come when an operator has had his.
            let _turn = self.0.turn.acquire(1).await;
            let now = self.find(&slot.spec.cache).map(|slot| slot.state);
            if matches!(now, Ok(State::Closed(now)) if Rc::ptr_eq(&now, why)) {
                // Not there yet: it says so where it is shown.
                drop(self.0.start(&slot.spec, &slot.spec).await);
            }
        }
    }
}

impl State {
    fn closed(why: Closed) -> Self {
        Self::Closed(Rc::new(why))
    }
}

impl Inner {
    /// A scrubber for a group that opened.
    fn serve(&self, group: DiskGroup) -> Serving {
        let StorageOptions { scrub, scrub_rate, scrub_period, .. } = self.options;
        let scrubber = Scrubber::new(&self.env, &group, scrub_rate, scrub_period, scrub);
        let marks = self.options.marks.clone();
        let helpers = Helpers { objects: self.objects.clone(), view: self.view.clone(), marks };
        let run = scrubber.clone().run(helpers);
        let scrub = Rc::new(self.env.spawn("scrub", run));
        Serving { group, scrubber, _scrub: scrub }
    }

    /// An operator had his say: every device is tried again.
    fn forget_care(&self, spec: &GroupSpec) {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.iter_mut().find(|slot| slot.spec.cache == spec.cache);
        slot.into_iter().for_each(|slot| slot.care = Care::default());
    }

    fn tolerance(&self, spec: &GroupSpec) -> Tolerance {
        let slots = self.slots.borrow();
        let slot = slots.iter().find(|slot| slot.spec.cache == spec.cache);
        slot.map_or_else(Tolerance::default, |slot| slot.care.tolerance())
    }

    fn set(&self, old: &GroupSpec, spec: &GroupSpec, state: State) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.iter_mut().find(|slot| slot.spec.cache == old.cache) else { return };
        if let State::Open(serving) = &state {
            slot.id = Some(serving.group.id());
        }
        slot.spec = spec.clone();
        slot.state = state;
    }

    /// Nothing of a group is served any more when this returns.
    pub(crate) async fn stop(&self, slot: &Slot, why: Closed) -> Option<DiskGroup> {
        self.set(&slot.spec, &slot.spec, State::closed(why));
        let group = self.objects.take_group(slot.id?)?;
        // A device that does not answer keeps it busy: opening it says so.
        let _ = self.env.timeout(BUSY_MAX, group.close()).await;
        Some(group)
    }

    /// Waits until the devices of a group that was stopped are free: what was in flight when it was
    /// closed must have ended. One that does not answer is waited for no longer than others.
    async fn let_go(&self, slot: Slot) -> GroupSpec {
        drop(slot.state);
        self.wait_until_free(slot.spec).await
    }

    async fn wait_until_free(&self, spec: GroupSpec) -> GroupSpec {
        let begun = self.env.now();
        for path in std::iter::once(&spec.cache).chain(&spec.capacity) {
            let options = OpenDisk { path: path.clone(), create: None };
            while let Err(IoError::Busy) = self.env.open_disk(options.clone()).await
                && self.env.now().since(begun) < BUSY_MAX
            {
                base::hit(base::Probe::DeviceLetGoLate);
                self.env.sleep(BUSY_RETRY).await;
            }
        }
        spec
    }

    /// Opens a group that is out of service.
    pub(crate) async fn start(
        &self,
        old: &GroupSpec,
        spec: &GroupSpec,
    ) -> Result<(), StorageError> {
        let (options, tolerance) = (&self.options, self.tolerance(old));
        let opening = open_group(&self.env, spec, &options.group, options.kind, tolerance);
        let opened = opening.await;
        let result = match opened {
            Ok(group) => {
                self.objects.add_group(group.clone());
                info!(cache = spec.cache, "a disk group is open");
                self.set(old, spec, State::Open(self.serve(group)));
                Ok(())
            }
            Err(error) => {
                warn!(cache = spec.cache, %error, "a disk group does not open");
                self.set(old, spec, State::closed(Closed::Failed(error.clone())));
                Err(error.into())
            }
        };
        self.changed.notify();
        result
    }

    fn check_unused(&self, path: &str) -> Result<(), StorageError> {
        let slots = self.slots.borrow();
        let has =
            |slot: &Slot| slot.spec.cache == path || slot.spec.capacity.contains(&path.to_owned());
        if slots.iter().any(has) { Err(StorageError::Taken(path.to_owned())) } else { Ok(()) }
    }
}

/// Bytes that new components may take on groups, and all that they have.
pub(crate) fn room(groups: &[DiskGroup]) -> Room {
    let whole = groups.iter().filter(|group| !group.is_any_out());
    Room {
        free_bytes: whole.map(|group| group.free_chunks() * CHUNK_SIZE).sum(),
        capacity_bytes: groups.iter().map(|group| group.status().capacity_bytes).sum(),
    }
}
