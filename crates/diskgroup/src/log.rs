// SPDX-License-Identifier: Apache-2.0
//! The log as data: what is on its way into it, the commit under composition, the ring of segments,
//! the index over them, and what is held of each chunk.
//!
//! Nothing here does I/O, or knows of capacity. Fields that must agree are private, and change
//! together by methods: those of [`queue`] for appends and moved entries, of [`ring`] for segments,
//! of [`held`] for blocks and chunks. The others are for everybody to look at.

pub(crate) mod build;
pub(crate) mod held;
pub(crate) mod index;
pub(crate) mod lowest;
pub(crate) mod queue;
pub(crate) mod ring;

use crate::log::build::{Build, CommitLimits};
use crate::log::held::Overlay;
use crate::log::index::Index;
use crate::log::queue::{Behind, Deferred, Move, Waiter};
use crate::log::ring::{OpenSegment, SegmentInfo};
use crate::memory::log_blocks;
use crate::mutations::Mutations;
use base::{FixedMap, Incarnation, Instant};
use format::{CacheLayout, Superblock};
use std::collections::VecDeque;

/// See the module.
pub(crate) struct Log {
    /// Which entry is the newest of each block.
    pub(crate) index: Index,
    /// What is held of each chunk, keyed by [`crate::keys::chunk_key`].
    overlays: FixedMap<Overlay>,
    pub(crate) device: u64,
    pub(crate) layout: CacheLayout,
    pub(crate) incarnation: Incarnation,
    /// Absolute number of the open segment.
    pub(crate) head: u64,
    /// Bytes of it that are used or being written.
    pub(crate) offset: u32,
    /// Oldest segment that is needed.
    pub(crate) tail: u64,
    /// The next commit's.
    pub(crate) sequence: u64,
    previous: u32,
    open: OpenSegment,
    /// One per segment from `tail` to `head`.
    infos: VecDeque<SegmentInfo>,
    /// Segments that are free but that the last durable header may still call needed, and the
    /// chunks of components that they name as staged.
    leaving: VecDeque<(u64, Vec<u64>)>,
    /// Reads of each physical segment that are under way (store rule 11).
    pins: Vec<u32>,
    pub(crate) mutations: Mutations,
    pub(crate) limits: CommitLimits,
    pub(crate) build: Build,
    pub(crate) deferred: VecDeque<Deferred>,
    /// Appends of components that have a direct write under way, in order (store rule 16).
    behind: FixedMap<VecDeque<Behind>>,
    moves: VecDeque<Move>,
    pub(crate) is_writing: bool,
    /// The log's task waits for destage.
    pub(crate) is_pressed: bool,
    /// A commit of moved entries that found no room.
    pub(crate) stalled: Option<Build>,
    /// The commit in flight is one of moved entries.
    pub(crate) is_moving: bool,
    /// The last segment that holds a discard or zeros.
    last_discard: Option<u64>,
    pub(crate) last_append: Instant,
    pub(crate) ticket_last: u64,
    pub(crate) ticket_done: u64,
    /// One per ticket from the first that is not done on.
    waiters: VecDeque<Waiter>,
}

impl Log {
    /// An empty one.
    pub(crate) fn new(superblock: &Superblock, layout: CacheLayout, mutations: Mutations) -> Self {
        let usable = layout.segment_size - layout.summary_size;
        let limits = CommitLimits::new(usable as usize);
        let mut index = Index::new(log_blocks(&layout) as usize);
        index.mutations = mutations;
        Self {
            index,
            overlays: FixedMap::default(),
            device: superblock.device,
            layout,
            incarnation: superblock.incarnation,
            head: 0,
            offset: 0,
            tail: 0,
            sequence: 1,
            previous: 0,
            open: OpenSegment::default(),
            infos: VecDeque::new(),
            leaving: VecDeque::new(),
            pins: vec![0; layout.segments as usize],
            mutations,
            limits,
            build: Build::new(limits),
            deferred: VecDeque::new(),
            behind: FixedMap::default(),
            moves: VecDeque::new(),
            is_writing: false,
            is_pressed: false,
            stalled: None,
            is_moving: false,
            last_discard: None,
            last_append: Instant::default(),
            ticket_last: 0,
            ticket_done: 0,
            waiters: VecDeque::new(),
        }
    }
}
