// SPDX-License-Identifier: Apache-2.0
//! Which line goes when room is needed: S3-FIFO.
//!
//! A new line begins in the small queue. At the end of it a line that was asked for again goes to
//! the main queue, any other goes, and its key is remembered for a while: what comes back in that
//! time begins in the main queue. There a line goes round as often as it was asked for, up to three
//! times. So a scan passes through the small queue alone. No I/O, no clock; nothing is iterated but
//! from the ends of the queues.

use crate::index::FixedMap;
use std::collections::VecDeque;

/// Part of the lines that the small queue has.
const SMALL_SHARE: u32 = 10;
/// Rounds that a line may have before it.
const USES_MAX: u8 = 3;
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    None,
    Small,
    Main,
}

#[derive(Clone, Copy)]
struct Node {
    before: u32,
    behind: u32,
    queue: Queue,
    uses: u8,
}

/// The ends of one queue.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    length: u32,
}

const EMPTY: Ends = Ends { first: NOBODY, last: NOBODY, length: 0 };

/// See the module.
pub(crate) struct Fifo {
    nodes: Vec<Node>,
    small: Ends,
    main: Ends,
    small_most: u32,
    ghosts: Ghosts,
}

/// Keys of lines that went from the small queue.
struct Ghosts {
    order: VecDeque<(u64, u64)>,
    at: FixedMap<u64>,
    count: u64,
    most: usize,
}

impl Ghosts {
    fn add(&mut self, key: u64) {
        while self.order.len() >= self.most {
            let Some((old, count)) = self.order.pop_front() else { break };
            if self.at.get(&old) == Some(&count) {
                self.at.remove(&old);
            }
        }
        self.count += 1;
        self.order.push_back((key, self.count));
        self.at.insert(key, self.count);
    }

    fn take(&mut self, key: u64) -> bool {
        self.at.remove(&key).is_some()
    }
}

impl Fifo {
    pub(crate) fn new(lines: u32) -> Self {
        let none = Node { before: NOBODY, behind: NOBODY, queue: Queue::None, uses: 0 };
        let small_most = (lines / SMALL_SHARE).max(1);
        let most = (lines - small_most.min(lines)).max(1) as usize;
        let ghosts = Ghosts { order: VecDeque::new(), at: FixedMap::default(), count: 0, most };
        Self { nodes: vec![none; lines as usize], small: EMPTY, main: EMPTY, small_most, ghosts }
    }

    /// Lines that are queued.
    pub(crate) fn len(&self) -> usize {
        (self.small.length + self.main.length) as usize
    }

    /// A line for a key that none has.
    pub(crate) fn insert(&mut self, line: u32, key: u64) {
        let queue = if self.ghosts.take(key) { Queue::Main } else { Queue::Small };
        self.push(line, queue, 0);
    }

    /// A line that was there before a restart.
    pub(crate) fn insert_old(&mut self, line: u32) {
        self.push(line, Queue::Main, 0);
    }

    /// What a line holds was asked for again.
    pub(crate) fn touch(&mut self, line: u32) {
        let node = &mut self.nodes[line as usize];
        node.uses = USES_MAX.min(node.uses + 1);
    }

    /// The line holds nothing any more.
    pub(crate) fn remove(&mut self, line: u32) {
        self.unlink(line);
    }

    /// The key means something else from now on.
    pub(crate) fn forget(&mut self, key: u64) {
        self.ghosts.take(key);
    }

    /// Takes out the line that goes first; none where all that may go are pinned.
    pub(crate) fn evict(
        &mut self,
        is_pinned: impl Fn(u32) -> bool,
        key_of: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let has_small = self.small.length >= self.small_most || self.main.length == 0;
        if has_small && let Some(line) = self.evict_small(&is_pinned, &key_of) {
            return Some(line);
        }
        self.evict_main(&is_pinned).or_else(|| self.evict_small(&is_pinned, &key_of))
    }

    fn evict_small(
        &mut self,
        is_pinned: &impl Fn(u32) -> bool,
        key_of: &impl Fn(u32) -> u64,
    ) -> Option<u32> {
        for _ in 0..self.small.length {
            let line = self.small.first;
            let uses = self.nodes[line as usize].uses;
            self.unlink(line);
            if is_pinned(line) {
                self.push(line, Queue::Small, uses);
            } else if uses > 0 {
                self.push(line, Queue::Main, 0);
            } else {
                self.ghosts.add(key_of(line));
                return Some(line);
            }
        }
        None
    }

    fn evict_main(&mut self, is_pinned: &impl Fn(u32) -> bool) -> Option<u32> {
        // Each line is passed once per use that it has: long only where everything is hot.
        for _ in 0..u64::from(self.main.length) * u64::from(USES_MAX + 1) {
            let line = self.main.first;
            let uses = self.nodes[line as usize].uses;
            self.unlink(line);
            if is_pinned(line) {
                self.push(line, Queue::Main, uses);
            } else if uses > 0 {
                self.push(line, Queue::Main, uses - 1);
            } else {
                return Some(line);
            }
        }
        None
    }

    fn push(&mut self, line: u32, queue: Queue, uses: u8) {
        let ends = match queue {
            Queue::Main => &mut self.main,
            Queue::Small | Queue::None => &mut self.small,
        };
        let last = std::mem::replace(&mut ends.last, line);
        ends.length += 1;
        if last == NOBODY {
            ends.first = line;
        } else {
            self.nodes[last as usize].behind = line;
        }
        let node = &mut self.nodes[line as usize];
        assert!(node.queue == Queue::None, "a line is in one queue");
        *node = Node { before: last, behind: NOBODY, queue, uses };
    }

    fn unlink(&mut self, line: u32) {
        let Node { before, behind, queue, .. } = self.nodes[line as usize];
        let ends = match queue {
            Queue::None => return,
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        };
        ends.length -= 1;
        match before {
            NOBODY => ends.first = behind,
            before => self.nodes[before as usize].behind = behind,
        }
        match behind {
            NOBODY => ends.last = before,
            behind => self.nodes[behind as usize].before = before,
        }
        self.nodes[line as usize].queue = Queue::None;
    }
}
