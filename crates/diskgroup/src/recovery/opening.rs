// SPDX-License-Identifier: Apache-2.0
//! Opening a group: superblocks, the capacity devices each on its own, then the log.
//!
//! A capacity device that does not open may be left out ([`crate::devices::out`]): what was read of
//! it until then is forgotten, and the others are read anew.

use super::capacity::recover_capacity;
use crate::devices::guard::{guarded, guarded_by};
use crate::devices::out::{Named, Tolerance, open_or_leave};
use crate::devices::readback::hold;
use crate::devices::replace::{Rows, mark_partial};
use crate::devices::superblock::{open_disk, read_superblock, settle_slot, write_superblock};
use crate::latency::Watched;
use crate::log::Log;
use crate::memory::{MemoryParts, MemoryPlace, StoreMemory};
use crate::pace::Pace;
use crate::readcache::ReadCache;
use crate::standing::DestageState;
use crate::state::{CapacityDevice, GroupCounters, GroupInner, GroupState};
use crate::store::CapacityStore;
use crate::store::capacity::PAGES_IN_FLIGHT;
use crate::types::{GroupError, GroupOptions, GroupSpec, RecoveryReport, device_error};
use base::{CHUNK_BLOCKS, ComponentId, Incarnation};
use env::{Disk, Durability, Env, IoError, Notify, Semaphore, try_join_at_most};
use format::{CacheLayout, DeviceKind, ReadCacheLayout, Superblock};
use std::cell::RefCell;
use std::rc::Rc;

/// Opens and recovers a group; its tasks are not started yet.
pub(crate) async fn open(
    env: &Env,
    spec: &GroupSpec,
    options: GroupOptions,
    tolerance: &Tolerance,
    memory: &StoreMemory,
) -> Result<GroupInner, GroupError> {
    options.limits.check();
    let started = env.now();
    let cache = open_disk(env, &spec.cache).await?;
    let stuck_after = options.stuck_after;
    let read = read_superblock(env, &spec.cache, &cache, "cache");
    let (superblock, slot) = guarded_by(env, (&spec.cache, &cache), stuck_after, read).await?;
    let mut label = Label::of(superblock, slot, spec)?;
    if options.limits.direct_blocks <= CHUNK_BLOCKS {
        label.superblock.kind = superblock.kind.with_direct();
    }
    let skip = options.mutations.skip_incarnation();
    label.superblock.incarnation = Incarnation(superblock.incarnation.0 + u64::from(!skip));
    let devices = open_devices(env, spec, &label, &options, tolerance).await;
    let place = place_of(spec, &label, &devices, &options, memory)?;
    let mut inner = inner_of(env, spec, options, (cache, &label), (devices, place));
    inner.check_outs(tolerance)?;
    let disks: Vec<Disk> = inner.all_disks().map(|(_, disk)| disk.clone()).collect();
    let recovery = recover(env, spec, &mut inner, label, tolerance);
    guarded(env, &disks.iter().collect::<Vec<_>>(), stuck_after, recovery).await?;
    inner.check_answers()?;
    let mut state = inner.state.borrow_mut();
    state.report.duration = env.now().since(started);
    drop(state);
    Ok(inner)
}

/// Reads what the devices say, brings the log's content in and begins a new incarnation.
async fn recover(
    env: &Env,
    spec: &GroupSpec,
    inner: &mut GroupInner,
    mut label: Label,
    tolerance: &Tolerance,
) -> Result<(), GroupError> {
    if !inner.options.mutations.trust_what_is_read() {
        let newest = format::SUPERBLOCK_SLOTS[label.slot];
        settle_slot(env, &spec.cache, &inner.cache, newest).await?;
    }
    recover_devices(inner, &label, tolerance).await?;
    // What is in again has marked rows by now (step 3 of `out`).
    label.given_up &= inner.outs();
    if inner.options.mutations.give_up_unasked() {
        label.given_up |= inner.outs();
    }
    inner.state.borrow_mut().store.given_up = label.given_up;
    if let Err(error) = crate::recovery::replay::replay(inner).await {
        begin_log(env, spec, inner, &mut label, tolerance, error).await?;
        inner.state = RefCell::new(first_state(&label, inner.devices.len(), &inner.options));
        recover_devices(inner, &label, tolerance).await?;
        inner.state.borrow_mut().store.given_up = label.given_up;
        crate::recovery::replay::replay(inner).await?;
        inner.state.borrow_mut().counters.rotten += 1;
    }
    if !inner.options.mutations.skip_incarnation() {
        begin_incarnation(env, spec, inner, &mut label).await?;
    }
    let mut state = inner.state.borrow_mut();
    state.store.is_recovering = false;
    state.store.components.forget_erased();
    state.log.last_append = env.now();
    state.report.incarnation = label.superblock.incarnation;
    Ok(())
}

/// Begins the log anew where `error` says that it is damaged and others have all that the group's
/// components are to hold. What follows is what follows a new cache device (docs/store.md, "A lost
/// cache device"), on the same one.
///
/// 1. Both pages of each component's row say that it is partial, read back. Power loss behind that
///    leaves the log as it was, and components that claim to be worse than they are.
/// 2. The first page of each segment becomes zeros, durably: a block that the device does not give
///    could else be a header of the new log, for all that the next opening knows. Power loss from
///    here on leaves a log that ends early, or is found damaged again; the rows tell.
/// 3. The cache device gets another id. No header, no summary and no line of the read cache is of
///    it. Both slots get it before the first append: an old one would find the old log, partly
///    overwritten.
///
/// # Errors
/// `error` itself, where it says something else or a component has not all of it elsewhere; also
/// where a device is out that the log holds something for.
async fn begin_log(
    env: &Env,
    spec: &GroupSpec,
    inner: &GroupInner,
    label: &mut Label,
    tolerance: &Tolerance,
    error: GroupError,
) -> Result<(), GroupError> {
    let may_go = {
        let state = inner.state.borrow();
        let ids = state.store.components.ids();
        let mut held = ids.into_iter().filter(|id| *id != crate::store::components::KEPT);
        let is_spared = |id: ComponentId| {
            let row = state.store.components.by_id(id).map(|component| &component.row);
            // A directory that went back in time says of it what is not so any more.
            let seen = row.map(|row| {
                let described = row.description.as_ref().map(|description| description.version);
                row.meta.version.max(described.unwrap_or_default())
            });
            tolerance.may_lose_log.get(&id).is_some_and(|said| Some(*said) >= seen)
        };
        held.all(is_spared) && !tolerance.may_lose_log.is_empty()
    };
    if !error.is_rotten_log() || !may_go || inner.holds_unknown() {
        return Err(error);
    }
    base::hit(base::Probe::RecoveryLogBegun);
    for device in inner.devices.iter().filter(|device| !device.is_out()) {
        let (path, disk, layout) = (device.path.as_str(), device.disk(), &device.layout);
        mark_partial(env, &Rows { path, disk, device: device.id, layout }).await?;
    }
    forget_segments(inner).await.map_err(device_error(&spec.cache))?;
    label.superblock.device = env.random() | 1;
    for _ in format::SUPERBLOCK_SLOTS {
        label.slot = 1 - label.slot;
        label.superblock = label.next();
        let (slot, superblock) = (label.slot, label.superblock);
        write_superblock(env, &spec.cache, &inner.cache, slot, &superblock).await?;
        let mut page = env.buf(format::PAGE_SIZE);
        superblock.encode(&mut page);
        let (at, page) = (format::SUPERBLOCK_SLOTS[slot], page.freeze());
        hold(env, &spec.cache, &inner.cache, at, &page).await?;
    }
    Ok(())
}

/// Step 2 of [`begin_log`].
async fn forget_segments(inner: &GroupInner) -> Result<(), IoError> {
    let segments = u64::from(inner.state.borrow().log.layout.segments);
    let zeros = inner.env.pool().zeroed(format::PAGE_SIZE).freeze();
    let starts: Vec<u64> = {
        let log = &inner.state.borrow().log;
        (0..segments).map(|place| log.segment_start(place)).collect()
    };
    let write = |at| inner.cache.write(at, zeros.clone(), Durability::Cached);
    try_join_at_most(PAGES_IN_FLIGHT, starts.into_iter().map(write)).await?;
    inner.cache.flush().await
}

/// Writes the superblock of this run; where the other slot is of a build that believes headers of
/// before, or that knows no direct writes, that one too, so that no such build finds a slot to open
/// the group by.
async fn begin_incarnation(
    env: &Env,
    spec: &GroupSpec,
    inner: &mut GroupInner,
    label: &mut Label,
) -> Result<(), GroupError> {
    for _ in format::SUPERBLOCK_SLOTS {
        label.slot = 1 - label.slot;
        label.superblock = label.next();
        let (slot, superblock) = (label.slot, label.superblock);
        write_superblock(env, &spec.cache, &inner.cache, slot, &superblock).await?;
        *inner.label.borrow_mut() = (superblock, slot);
        let other = format::SUPERBLOCK_SLOTS[1 - slot];
        let page = inner.cache.read(other, env.buf(format::PAGE_SIZE)).await;
        let is_direct = matches!(label.superblock.kind, DeviceKind::Cache { has_direct: true, .. });
        let is_misleading = |page: &[u8]| {
            Superblock::is_before_slots(page) || is_direct && Superblock::is_before_direct(page)
        };
        if !page.is_ok_and(|page| is_misleading(&page)) {
            break;
        }
    }
    Ok(())
}

/// What the cache device's superblock says.
struct Label {
    superblock: Superblock,
    slot: usize,
    layout: CacheLayout,
    read_cache: Option<ReadCacheLayout>,
    capacity: Vec<u64>,
    given_up: u16,
}

impl Label {
    fn of(superblock: Superblock, slot: usize, spec: &GroupSpec) -> Result<Self, GroupError> {
        let DeviceKind::Cache { layout, read_cache, capacity, count, given_up, .. } =
            superblock.kind
        else {
            return Err(GroupError::NotFormatted { device: spec.cache.clone(), wanted: "cache" });
        };
        if count as usize != spec.capacity.len() {
            return Err(GroupError::WrongGroup { device: spec.cache.clone() });
        }
        let capacity = capacity.into_iter().take(count as usize).collect();
        Ok(Self { superblock, slot, layout, read_cache, capacity, given_up })
    }

    /// What is written next.
    fn next(&self) -> Superblock {
        let mut next = self.superblock;
        next.sequence += 1;
        if let DeviceKind::Cache { given_up, .. } = &mut next.kind {
            *given_up = self.given_up;
        }
        next
    }
}

async fn open_devices(
    env: &Env,
    spec: &GroupSpec,
    label: &Label,
    options: &GroupOptions,
    tolerance: &Tolerance,
) -> Vec<CapacityDevice> {
    let mut devices = Vec::new();
    for (at, (path, id)) in spec.capacity.iter().zip(&label.capacity).enumerate() {
        let left_out = tolerance.left_out.iter().find(|(left, _)| *left == at);
        let was_given_up = label.given_up >> at & 1 == 1;
        let named = Named {
            id: *id,
            group: label.superblock.group,
            is_given_up: was_given_up && !options.mutations.return_whole(),
        };
        let left_out = left_out.map(|(_, error)| error.clone());
        devices.push(open_or_leave(env, path, named, left_out).await);
    }
    devices
}

/// Reads what each capacity device says; from the beginning where one turns out to be damaged.
async fn recover_devices(
    inner: &mut GroupInner,
    label: &Label,
    tolerance: &Tolerance,
) -> Result<(), GroupError> {
    let mut at = 0;
    while at < inner.devices.len() {
        if !inner.devices[at].is_out()
            && let Err(error) = recover_capacity(inner, at).await
        {
            inner.leave_out(at, error, tolerance)?;
            inner.state = RefCell::new(first_state(label, inner.devices.len(), &inner.options));
            at = 0;
            continue;
        }
        at += 1;
    }
    Ok(())
}

fn first_state(label: &Label, devices: usize, options: &GroupOptions) -> GroupState {
    let mut state = empty_state(&label.superblock, label.layout, devices, options);
    state.read_cache = label.read_cache.map(|layout| Box::new(ReadCache::new(layout)));
    if let Some(cache) = state.read_cache.as_deref_mut() {
        cache.slots.mutations = options.mutations;
    }
    state
}

/// The group's place in the host's memory, by the layouts of the devices that are there.
fn place_of(
    spec: &GroupSpec,
    label: &Label,
    devices: &[CapacityDevice],
    options: &GroupOptions,
    memory: &StoreMemory,
) -> Result<Rc<MemoryPlace>, GroupError> {
    let layouts: Vec<_> = devices.iter().map(|device| device.layout).collect();
    let needed = MemoryParts::needed(&label.layout, label.read_cache.as_ref(), &layouts, options);
    memory.admit(&spec.cache, needed, layouts.iter().map(|layout| layout.chunks))
}

fn inner_of(
    env: &Env,
    spec: &GroupSpec,
    options: GroupOptions,
    (cache, label): (Disk, &Label),
    (devices, memory): (Vec<CapacityDevice>, Rc<MemoryPlace>),
) -> GroupInner {
    let state = first_state(label, devices.len(), &options);
    GroupInner {
        memory,
        env: env.clone(),
        id: label.superblock.group,
        cache_path: spec.cache.clone(),
        cache,
        label: RefCell::new((label.superblock, label.slot)),
        devices,
        options,
        state: RefCell::new(state),
        log_kick: Notify::default(),
        destage_kick: Notify::default(),
        delete_kick: Notify::default(),
        checkpoint_kick: Notify::default(),
        progress: Notify::default(),
        pacing: Semaphore::new(1),
        table: Semaphore::new(1),
        direct_room: Semaphore::new(crate::memory::DIRECT_BLOCKS_MAX),
        directs: env::TaskSet::default(),
        summaries: env::TaskSet::default(),
        is_hybrid: label.read_cache.is_some(),
        fills: env::TaskSet::default(),
        headers: Semaphore::new(1),
        cache_kick: Notify::default(),
        latency: RefCell::new(Watched::of_group(label.read_cache.is_some(), spec.capacity.len())),
    }
}

fn empty_state(
    superblock: &Superblock,
    layout: CacheLayout,
    devices: usize,
    options: &GroupOptions,
) -> GroupState {
    let mutations = options.mutations;
    GroupState {
        log: Log::new(superblock, layout, mutations),
        store: CapacityStore::new(&layout, devices, &options.limits, mutations),
        pace: Pace::new(layout.segments),
        read_cache: None,
        fenced: None,
        is_closed: false,
        destage: DestageState::default(),
        counters: GroupCounters::default(),
        direct_under_way: 0,
        report: RecoveryReport::default(),
        mutations,
    }
}
