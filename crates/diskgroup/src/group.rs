// SPDX-License-Identifier: Apache-2.0
//! The public handle.

pub(crate) mod cached;
mod describe;
pub(crate) mod kept;
mod memory;

use crate::devices::out::Tolerance;
use crate::group::describe::WENT_BACK;
use crate::memory::{StoreMemory, widened};
use crate::readcache::ReadCache;
use crate::state::DiskGroup;
use crate::store::capacity::CapacityState;
use crate::store::components::{Component, Tail};
use crate::types::{
    ComponentInfo, ComponentMeta, CreateSizes, GroupError, GroupKind, GroupOptions, GroupShape,
    GroupSpec, GroupStatus, ReadData, RecoveryReport,
};
use base::{
    BLOCK_SIZE, CHUNK_SIZE, ClientTable, ComponentId, GroupId, Lsn, ObjectId, RequestId,
    SectorRange,
};
use env::channel::oneshot;
use env::{Boxed, Env, TaskSet};
use format::{COMPONENT_SECTORS_MAX, ComponentRow};
use std::rc::Rc;
use std::task::Waker;

impl DiskGroup {
    /// Makes an all-flash group of devices. Existing content is never overwritten unless `wipe` is
    /// set; with `sizes` files are created where nothing stands.
    ///
    /// # Errors
    /// [`GroupError::ForeignData`], [`GroupError::TooSmall`], [`GroupError::Device`].
    pub async fn format(
        env: &Env,
        spec: &GroupSpec,
        sizes: Option<CreateSizes>,
        wipe: bool,
        id: GroupId,
    ) -> Result<(), GroupError> {
        let shape = GroupShape::default();
        crate::devices::superblock::format(env, spec, sizes, wipe, (id, shape), None).await
    }

    /// As [`DiskGroup::format`], of another kind, or with segments of another size.
    ///
    /// # Errors
    /// As there. [`GroupError::TooSmall`] also where the read cache gets not one line, or is to
    /// have a part of the cache device that it cannot have.
    pub async fn format_with(
        env: &Env,
        spec: &GroupSpec,
        sizes: Option<CreateSizes>,
        wipe: bool,
        id: GroupId,
        shape: impl Into<GroupShape>,
    ) -> Result<(), GroupError> {
        let shape = shape.into();
        crate::devices::superblock::format(env, spec, sizes, wipe, (id, shape), None).await
    }

    /// As [`DiskGroup::format`], where its tables have room in the memory that a host's groups
    /// share.
    ///
    /// # Errors
    /// As [`DiskGroup::format_with`], and [`GroupError::NoMemory`]: then nothing was written.
    pub async fn format_within(
        env: &Env,
        spec: &GroupSpec,
        sizes: Option<CreateSizes>,
        wipe: bool,
        (id, shape): (GroupId, GroupShape),
        memory: &StoreMemory,
    ) -> Result<(), GroupError> {
        crate::devices::superblock::format(env, spec, sizes, wipe, (id, shape), Some(memory)).await
    }

    /// Opens a group with exclusive locks and recovers it.
    ///
    /// # Errors
    /// [`GroupError::Corrupt`] names a structure that is damaged where no crash can damage it.
    pub async fn open(
        env: &Env,
        spec: &GroupSpec,
        options: GroupOptions,
    ) -> Result<Self, GroupError> {
        Self::open_without(env, spec, options, &Tolerance::default()).await
    }

    /// Opens a group, with some of its capacity devices where not all of them open
    /// ([`DiskGroup::out_devices`]). What is on the others is not known then, and nothing that the
    /// log holds of it is dropped before [`DiskGroup::give_up_out`].
    ///
    /// # Errors
    /// As [`DiskGroup::open`], where that is not tolerated or no capacity device is left.
    pub async fn open_without(
        env: &Env,
        spec: &GroupSpec,
        options: GroupOptions,
        tolerance: &Tolerance,
    ) -> Result<Self, GroupError> {
        let devices = widened(spec.capacity.len());
        let memory = StoreMemory::new(widened(options.crc_cache_bytes) * devices, u64::MAX);
        Self::open_within(env, spec, options, tolerance, &memory).await
    }

    /// The same, of a host whose groups share memory. It has a place there for as long as it is
    /// open, and until all that it was asked for has ended.
    ///
    /// # Errors
    /// As there, and [`GroupError::NoMemory`].
    pub fn open_within<'a>(
        env: &'a Env,
        spec: &'a GroupSpec,
        options: GroupOptions,
        tolerance: &'a Tolerance,
        memory: &'a StoreMemory,
    ) -> Boxed<'a, Result<Self, GroupError>> {
        Box::pin(Self::open_and_run(env, spec, options, tolerance, memory))
    }

    async fn open_and_run(
        env: &Env,
        spec: &GroupSpec,
        options: GroupOptions,
        tolerance: &Tolerance,
        memory: &StoreMemory,
    ) -> Result<Self, GroupError> {
        let inner = Rc::new(crate::recovery::open(env, spec, options, tolerance, memory).await?);
        let group = Rc::downgrade(&inner);
        inner.memory.on_less(move || {
            if let Some(group) = group.upgrade() {
                group.give_up_pages();
            }
        });
        inner.state.borrow_mut().begin(env.now());
        let tasks = TaskSet::default();
        tasks.spawn(env, "log", crate::commit::write_log(Rc::clone(&inner)));
        tasks.spawn(env, "destage", crate::destage::destage(Rc::clone(&inner)));
        tasks.spawn(env, "give back", crate::space::give_back(Rc::clone(&inner)));
        tasks.spawn(env, "watch devices", crate::devices::watch(Rc::clone(&inner)));
        for device in (0..inner.devices.len()).filter(|at| !inner.devices[*at].is_out()) {
            let keep = crate::journal::keep_checkpoints(Rc::clone(&inner), device);
            tasks.spawn(env, "checkpoints", keep);
        }
        if inner.is_hybrid {
            tasks.spawn(env, "read cache", crate::caching::keep(Rc::clone(&inner)));
        }
        Ok(Self::of(inner, tasks))
    }

    /// The group's id.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.shared().id
    }

    /// What opening found.
    #[must_use]
    pub fn recovery(&self) -> RecoveryReport {
        self.shared().state.borrow().report
    }

    /// Adds a component, empty: all of it reads as zeros. Durable on return; done already where it
    /// exists with the same object and length.
    ///
    /// # Errors
    /// [`GroupError::Exists`], [`GroupError::Full`] (no free row), [`GroupError::Fenced`].
    pub async fn create_component(
        &self,
        id: ComponentId,
        object: ObjectId,
        sectors: u64,
    ) -> Result<(), GroupError> {
        self.create_below(id, object, sectors, None).await
    }

    /// Makes a component, on a device of which less than so many percent are taken.
    pub(crate) async fn create_below(
        &self,
        id: ComponentId,
        object: ObjectId,
        sectors: u64,
        percent: Option<u8>,
    ) -> Result<(), GroupError> {
        let inner = self.shared();
        let _permit = inner.table.acquire(1).await;
        inner.check_open()?;
        if inner.outs() != 0 {
            return Err(GroupError::DeviceOut);
        }
        if sectors == 0 || sectors > COMPONENT_SECTORS_MAX {
            return Err(GroupError::Range { range: SectorRange { start: 0, count: sectors } });
        }
        let (row, device, place) = {
            let mut state = inner.state.borrow_mut();
            if let Some(old) = state.store.components.by_id(id) {
                let is_same = old.row.object == object && old.row.sectors == sectors;
                return if is_same { Ok(()) } else { Err(GroupError::Exists { component: id }) };
            }
            let Some((device, place)) = inner.roomiest(&state, percent) else {
                return Err(GroupError::Full { free: 0 });
            };
            let Some(serial) = state.store.take_serial(device, place) else {
                return Err(GroupError::Full { free: state.store.capacity[device].available() });
            };
            let row = ComponentRow::new(serial, id, object, sectors);
            (row, device, u32::try_from(place).unwrap_or(u32::MAX))
        };
        inner.write_row_twice(device, place, &row).await?;
        inner.state.borrow_mut().store.components.insert(Component::new(row, device, place));
        Ok(())
    }

    /// All components of objects, by id. What the group keeps beside them ([`DiskGroup::kept`]) is
    /// none.
    #[must_use]
    pub fn components(&self) -> Vec<ComponentId> {
        let mut ids = self.shared().state.borrow().store.components.ids();
        ids.retain(|id| *id != crate::store::components::KEPT);
        ids
    }

    /// One component.
    #[must_use]
    pub fn component(&self, id: ComponentId) -> Option<ComponentInfo> {
        let state = self.shared().state.borrow();
        let component = state.store.components.by_id(id)?;
        let row = &component.row;
        Some(ComponentInfo {
            object: row.object,
            sectors: row.sectors,
            meta: row.meta,
            durable: row.durable,
            commit: row.commit,
            destaged: row.destaged,
            held: component.held,
            reserve: row.reserve,
            damaged: component.is_damaged,
            partial: row.lost_at.is_some(),
            orphaned: row.orphaned.map(|since| since & !WENT_BACK),
            went_back: row.orphaned.is_some_and(|since| since & WENT_BACK != 0),
        })
    }

    /// Remembers term, owner, seat and version. Durable on return, without the log.
    ///
    /// # Errors
    /// [`GroupError::UnknownComponent`], [`GroupError::Fenced`].
    pub async fn set_meta(&self, id: ComponentId, meta: ComponentMeta) -> Result<(), GroupError> {
        let inner = self.shared();
        let _permit = inner.table.acquire(1).await;
        inner.check_open()?;
        let (row, device, place) = {
            let mut state = inner.state.borrow_mut();
            let Some(component) = state.store.components.by_id_mut(id) else {
                return Err(GroupError::UnknownComponent { component: id });
            };
            (ComponentRow { meta, ..component.row.clone() }, component.device, component.place)
        };
        inner.write_row_twice(device, place, &row).await?;
        if let Some(component) = inner.state.borrow_mut().store.components.by_id_mut(id) {
            component.row.meta = meta;
        }
        Ok(())
    }

    /// The requests whose effect a component has (rule 46).
    #[must_use]
    pub fn clients(&self, id: ComponentId) -> ClientTable {
        let state = self.shared().state.borrow();
        state.store.components.by_id(id).map(|c| c.row.clients.clone()).unwrap_or_default()
    }

    /// Those of them above K that were the last of their slots, and what they wrote.
    #[must_use]
    pub fn open_requests(&self, id: ComponentId) -> Vec<(SectorRange, Lsn, RequestId)> {
        let state = self.shared().state.borrow();
        let Some(component) = state.store.components.by_id(id) else { return Vec::new() };
        let mut open: Vec<(SectorRange, Lsn, RequestId)> = Vec::new();
        for tail in component.tail.iter().filter(|tail| tail.lsn > component.row.commit) {
            let Some(request) = tail.id.filter(|id| component.row.clients.is_last(*id)) else {
                continue;
            };
            match open.last_mut() {
                // The parts of one write, as it was cut for the log.
                Some((last, _, same)) if *same == request && last.end() == tail.range.start => {
                    last.count += tail.range.count;
                }
                _ => open.push((tail.range, tail.lsn, request)),
            }
        }
        open
    }

    /// Replaces what is known of requests, for a component that got their effect by copies. In
    /// force at once; durable on return. Appends before this call must be of requests in it.
    ///
    /// # Errors
    /// [`GroupError::UnknownComponent`], [`GroupError::Fenced`].
    pub fn set_clients(
        &self,
        id: ComponentId,
        clients: ClientTable,
    ) -> impl Future<Output = Result<(), GroupError>> + use<> {
        if let Some(component) = self.shared().state.borrow_mut().store.components.by_id_mut(id) {
            component.row.clients = clients;
        }
        let group = self.clone();
        async move {
            // The row holds for all entries up to its highest durable lsn: those that were under
            // way must be in it.
            group.drain(id).await;
            let inner = group.shared();
            let _permit = inner.table.acquire(1).await;
            inner.check_open()?;
            let (row, device, place) = {
                let state = inner.state.borrow();
                let component = state.store.components.by_id(id);
                let component = component.ok_or(GroupError::UnknownComponent { component: id })?;
                (component.row.clone(), component.device, component.place)
            };
            inner.write_row(device, place, row).await
        }
    }

    /// Reads a range within one chunk. What the log holds of it is decided at this call; what was
    /// never written comes back as zeros without device I/O.
    ///
    /// # Errors
    /// [`GroupError::BadCrc`] with the part that failed, [`GroupError::UnknownComponent`],
    /// [`GroupError::Range`].
    pub fn read(
        &self,
        id: ComponentId,
        range: SectorRange,
    ) -> impl Future<Output = Result<ReadData, GroupError>> + use<> {
        crate::read::read(Rc::clone(self.shared()), id, range)
    }

    /// Raises K. A lower value, or an unknown component, is ignored.
    pub fn advance_commit(&self, id: ComponentId, commit: Lsn) {
        let inner = self.shared();
        let mut state = inner.state.borrow_mut();
        let has_risen = state.store.components.by_id_mut(id).is_some_and(|c| c.advance(commit));
        let must_kick = has_risen && state.destage.waits_for_commit();
        if has_risen {
            state.destage.moved_in_row = 0; // segments may be freed by writing again
        }
        drop(state);
        if must_kick {
            inner.destage_kick.notify();
        }
    }

    /// Ranges with lsn above K, in commit order.
    #[must_use]
    pub fn tail(&self, id: ComponentId) -> Vec<(SectorRange, Lsn)> {
        let state = self.shared().state.borrow();
        let Some(component) = state.store.components.by_id(id) else { return Vec::new() };
        let commit = component.row.commit;
        let mut tail: Vec<(SectorRange, Lsn)> = Vec::new();
        for Tail { range, lsn, .. } in component.tail.iter().filter(|tail| tail.lsn > commit) {
            match tail.last_mut() {
                // The parts of one write, as it was cut for the log.
                Some((last, same)) if same == lsn && last.end() == range.start => {
                    last.count += range.count;
                }
                // Marks of the same write.
                Some((last, same)) if same == lsn && last.contains(*range) => {}
                _ => tail.push((*range, *lsn)),
            }
        }
        tail
    }

    /// Waits until all appends before this call are durable or failed.
    pub async fn drain(&self, id: ComponentId) {
        let _ = id; // the log is one for all components
        let inner = self.shared();
        let last = inner.state.borrow().log.ticket_last;
        inner.until(|state| state.log.ticket_done >= last || state.is_over()).await;
    }

    /// How the group is.
    #[must_use]
    pub fn status(&self) -> GroupStatus {
        let state = self.shared().state.borrow();
        let layout = &state.log.layout;
        let chunks: usize = state.store.capacity.iter().map(|c| c.map.len()).sum();
        let free: u64 = state.store.capacity.iter().map(CapacityState::unallocated).sum();
        let total = u64::from(layout.segments) * layout.segment_size;
        GroupStatus {
            buffer_fill: state.log.used_bytes() as f64 / total as f64,
            buffer_bytes: total,
            capacity_bytes: chunks as u64 * CHUNK_SIZE,
            used_bytes: (chunks as u64).saturating_sub(free) * CHUNK_SIZE,
            fenced: state.fenced.as_ref().map(|failure| failure.text.clone()),
            commits: state.counters.requests.commits,
            appends: state.counters.appends,
            appended_bytes: state.counters.appended_bytes,
            unaligned_writes: state.counters.unaligned_writes,
            direct_bytes: state.counters.direct_bytes,
            mapped_bytes: state.counters.mapped_blocks * BLOCK_SIZE,
            destaged_blocks: state.counters.destaged_blocks,
            moved_entries: state.counters.moved_entries,
            bad_blocks: state.counters.bad_blocks,
            rotten_log_blocks: state.counters.rotten,
            requests: state.counters.requests,
            is_pressed: state.pace.is_pressed(state.fill()),
            pressure: state.pressure(self.shared().env.now()),
            kind: match state.read_cache.as_deref() {
                Some(cache) => GroupKind::Hybrid { read_cache_percent: cache.layout.percent },
                None => GroupKind::AllFlash,
            },
            read_cache: state.read_cache.as_deref().map(ReadCache::status).unwrap_or_default(),
        }
    }

    /// Path of the cache device.
    #[must_use]
    pub fn cache_path(&self) -> &str {
        &self.shared().cache_path
    }

    /// Destages everything that may be, however little it is; for tests and benchmarks.
    #[doc(hidden)]
    pub fn drain_buffer(&self, is_wanted: bool) {
        self.shared().state.borrow_mut().destage.drains_all = is_wanted;
        self.shared().destage_kick.notify();
    }

    /// Waits for the commit in flight, then stops: what is not durable by then fails. Closing goes
    /// on where the future is dropped: a device that does not answer keeps the group until it does.
    pub async fn close(&self) {
        let (done, end) = oneshot();
        let group = self.clone();
        self.spawn_closing(async move {
            group.end().await;
            done.send(());
        });
        let _ = end.recv().await;
    }

    async fn end(&self) {
        let inner = self.shared();
        inner.state.borrow_mut().is_closed = true;
        inner.kick_all();
        inner
            .until(|state| {
                let is_still = !state.log.is_writing && state.direct_under_way == 0;
                is_still || state.fenced.is_some()
            })
            .await;
        self.end_tasks();
        crate::caching::close(inner).await;
        let wakers = inner.state.borrow_mut().log.take_all_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }
}
