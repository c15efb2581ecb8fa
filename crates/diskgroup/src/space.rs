// SPDX-License-Identifier: Apache-2.0
//! Who has the space of a capacity device, and who may still take some.
//!
//! A chunk is allocated, or set aside for what the log holds, or promised to a component with a
//! reserve, or free. A component takes chunks of its own reserve first; what is promised to others
//! it never gets. A chunk that it gives back is promised to it again while it has less than its
//! reserve.

mod delete;
mod reclaim;

pub(crate) use delete::give_back;

use crate::latency::DeviceLatency;
use crate::state::{DiskGroup, GroupInner, GroupState};
use crate::store::capacity::CapacityState;
use crate::store::space::Space;
use crate::types::GroupError;
use base::{ComponentId, ObjectId};
use format::ComponentRow;
use std::cmp::Reverse;

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRole {
    /// Holds the write buffer; so many of its bytes are in use.
    Cache {
        /// Bytes of the write buffer in use.
        used_bytes: u64,
    },
    /// Holds components.
    Capacity(Space),
}

/// One device of an open group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Its path.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it is a file, not a block device.
    pub is_file: bool,
    /// Bytes that were written to it since the group was opened, the store's own included.
    pub written_bytes: u64,
    /// Why it is out of the group; nothing else is known of it then.
    pub out: Option<String>,
    /// What it is for.
    pub role: DeviceRole,
    /// How it answers.
    pub latency: DeviceLatency,
}

/// Whether a reserve may be more than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Refused where not all of it is free and promised to nobody.
    IfFree,
    /// Taken over as it is: it was promised elsewhere before.
    Anyway,
}

impl GroupInner {
    /// The device on which most is likely to stay free, among those with a free row and less than
    /// so many percent taken, and the row.
    pub(crate) fn roomiest(
        &self,
        state: &GroupState,
        percent: Option<u8>,
    ) -> Option<(usize, usize)> {
        let fits = |at: usize, c: &CapacityState| {
            let device = &self.devices[at];
            let taken = c.space(&device.layout, device.disk().info().size).taken_percent();
            percent.is_none_or(|percent| taken < u64::from(percent))
        };
        let prospects = state.store.prospects();
        let rooms = state.store.capacity.iter().enumerate().filter(|(at, c)| fits(*at, c));
        let free_row = |c: &CapacityState| c.rows.iter().position(|row| row.serial == 0);
        let rooms = rooms.filter_map(|(at, c)| Some((prospects[at], Reverse(at), free_row(c)?)));
        rooms.max().map(|(_, Reverse(at), row)| (at, row))
    }
}

impl GroupState {
    /// Whether the log holds discards or staged chunks that would give space back to a device that
    /// is short of it: then they do not wait for the log to fill or for appends to pause.
    pub(crate) fn wants_space(&self) -> bool {
        let is_short = self.store.capacity.iter().any(CapacityState::is_short);
        self.log.has_discards() && is_short || self.store.wants_staged_back()
    }
}

impl DiskGroup {
    /// The cache device, then the capacity devices, as they are now.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceStatus> {
        let inner = self.shared();
        let state = inner.state.borrow();
        let cache = DeviceStatus {
            path: inner.cache_path.clone(),
            size_bytes: inner.cache.info().size,
            is_file: inner.cache.info().is_file,
            written_bytes: inner.cache.written(),
            out: None,
            role: DeviceRole::Cache { used_bytes: state.log.used_bytes() },
            latency: inner.latency(0),
        };
        let capacity = inner.devices.iter().zip(&state.store.capacity).enumerate();
        let capacity = capacity.map(|(at, (device, capacity))| {
            if let Err(error) = &device.opened {
                return DeviceStatus {
                    path: device.path.clone(),
                    size_bytes: 0,
                    is_file: false,
                    written_bytes: 0,
                    out: Some(error.to_string()),
                    role: DeviceRole::Capacity(Space::default()),
                    latency: DeviceLatency::default(),
                };
            }
            let info = device.disk().info();
            DeviceStatus {
                path: device.path.clone(),
                size_bytes: info.size,
                is_file: info.is_file,
                written_bytes: device.disk().written(),
                out: None,
                role: DeviceRole::Capacity(capacity.space(&device.layout, info.size)),
                latency: inner.latency(at + 1),
            }
        });
        std::iter::once(cache).chain(capacity).collect()
    }

    /// Chunks of all devices that any component may take.
    #[must_use]
    pub fn free_chunks(&self) -> u64 {
        let state = self.shared().state.borrow();
        state.store.capacity.iter().map(CapacityState::available).sum()
    }

    /// Chunks of its device with the most of them that are likely to stay free when the components
    /// there have grown: where new ones go. Less than none where more was given away than there is.
    #[must_use]
    pub fn prospect(&self) -> i64 {
        self.shared().state.borrow().store.prospects().into_iter().max().unwrap_or(i64::MIN)
    }

    /// Chunks that this component may still take: of its device, its own reserve included; 0 where
    /// there is no such component.
    #[must_use]
    pub fn free_chunks_of(&self, id: ComponentId) -> u64 {
        let state = self.shared().state.borrow();
        let component = state.store.components.by_id(id);
        component.map_or(0, |c| state.store.capacity[c.device].available_to(c.promised()))
    }

    /// Chunks that a component without a reserve may still take of the fullest device.
    #[must_use]
    pub fn least_free(&self) -> u64 {
        let state = self.shared().state.borrow();
        state.store.capacity.iter().map(CapacityState::available).min().unwrap_or(0)
    }

    /// Chunks that one without a reserve may still take of the device that a component is on;
    /// `None` where there is no such component.
    #[must_use]
    pub fn free_beside(&self, id: ComponentId) -> Option<u64> {
        let state = self.shared().state.borrow();
        let component = state.store.components.by_id(id)?;
        Some(state.store.capacity[component.device].available())
    }

    /// The most chunks that [`DiskGroup::reserve_space`] keeps for a component now, those that it
    /// has included; `None` where there is no such component.
    #[must_use]
    pub fn reserve_limit(&self, id: ComponentId) -> Option<u32> {
        let state = self.shared().state.borrow();
        let component = state.store.components.by_id(id)?;
        let free = state.store.capacity[component.device].available() + component.promised();
        u32::try_from(u64::from(component.held) + free).ok()
    }

    /// As [`DiskGroup::create_component`], for a volume that is being created: refused where every
    /// device has [`crate::GroupOptions::full_percent`] of its chunks taken or more.
    ///
    /// # Errors
    /// As there; [`GroupError::Full`] also where the devices are too full.
    pub async fn admit_component(
        &self,
        id: ComponentId,
        object: ObjectId,
        sectors: u64,
    ) -> Result<(), GroupError> {
        self.create_below(id, object, sectors, Some(self.shared().options.full_percent)).await
    }

    /// Keeps `chunks` for a component, those that it has included; 0 ends it. In force at once,
    /// durable on return.
    ///
    /// # Errors
    /// [`GroupError::Full`] where they are not there ([`Reserve::IfFree`]): nothing has changed;
    /// [`GroupError::UnknownComponent`], [`GroupError::Fenced`].
    pub async fn reserve_space(
        &self,
        id: ComponentId,
        chunks: u32,
        reserve: Reserve,
    ) -> Result<(), GroupError> {
        let inner = self.shared();
        let _permit = inner.table.acquire(1).await;
        inner.check_open()?;
        let (row, device, place) = {
            let mut state = inner.state.borrow_mut();
            let Some(component) = state.store.components.by_id(id) else {
                return Err(GroupError::UnknownComponent { component: id });
            };
            if component.row.reserve == chunks {
                return Ok(());
            }
            let (serial, device, place) = (component.row.serial, component.device, component.place);
            let after = u64::from(chunks.saturating_sub(component.held));
            let free = state.store.capacity[device].available() + component.promised();
            if reserve == Reserve::IfFree && after > free {
                return Err(GroupError::Full { free });
            }
            let row = ComponentRow { reserve: chunks, ..component.row.clone() };
            state.store.promise(serial, chunks);
            (row, device, place)
        };
        // Both pages: what was promised outlives the rot of either.
        for _ in 0..2 {
            inner.write_row(device, place, row.clone()).await?;
        }
        Ok(())
    }
}
