// SPDX-License-Identifier: Apache-2.0
//! What is on capacity, as data: components, chunks, checksums, space, the memory of what changed.
//!
//! Nothing here does I/O or knows of the log's task and of destage.

pub(crate) mod capacity;
pub(crate) mod chunks;
pub(crate) mod components;
pub(crate) mod deletion;
pub(crate) mod history;
pub(crate) mod rows;
pub(crate) mod space;

use crate::mutations::Mutations;
use crate::store::capacity::CapacityState;
use crate::store::chunks::Chunks;
use crate::store::components::Components;
use crate::store::deletion::Deletion;
use crate::store::history::History;
use format::CacheLayout;
use std::collections::VecDeque;

/// See the module.
pub(crate) struct CapacityStore {
    pub(crate) chunks: Chunks,
    pub(crate) components: Components,
    /// Components that are gone, of which chunks are still to come back.
    pub(crate) deletions: VecDeque<Deletion>,
    pub(crate) history: History,
    /// One per device.
    pub(crate) capacity: Vec<CapacityState>,
    pub(crate) serial_next: u32,
    /// One bit per device that was out when entries that it needs were dropped, and still is.
    pub(crate) given_up: u16,
}

impl CapacityStore {
    /// Of so many devices, of which nothing is known yet, below a log of that layout.
    pub(crate) fn new(log: &CacheLayout, devices: usize, mutations: Mutations) -> Self {
        Self {
            chunks: Chunks::default(),
            components: Components::default(),
            deletions: VecDeque::new(),
            history: History::new(log, mutations),
            capacity: (0..devices).map(|_| CapacityState::default()).collect(),
            serial_next: 1,
            given_up: 0,
        }
    }
}
