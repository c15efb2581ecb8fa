// SPDX-License-Identifier: Apache-2.0
//! The story of a rotten block in the middle of the log of one host.
//!
//! Other hosts have whole copies of what the block held, and nothing acknowledged may be lost. If
//! the block is of a header, that must cost nothing: the group goes on, and opens again if the
//! segment's summary is on the media. If the block is data, it costs what it held. The group may
//! then stop, or not open. Such a group gets new devices, as after any other damage.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::script::Roles;
use diskgroup::LogSegment;
use format::{Commit, PAGE_SIZE, Summary};
use sim::DiskFault;

const PAGE: u64 = PAGE_SIZE as u64;

/// How often the log is searched for a closed segment. Slow clients take long to fill one.
const LOOKS_MAX: u32 = 40;

/// Which block rots.
struct Rotten {
    cache: String,
    segment: LogSegment,
    is_header: bool,
}

impl SeedRun {
    /// A block of a closed segment rots while clients go on. Half of the time the host is then
    /// started again. A group that lost only a header must go on.
    pub(crate) fn rotten_log(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        self.pass(0, 4000)?;
        self.whole_before_damage()?;
        let mut planted = None;
        for _ in 0..LOOKS_MAX {
            if planted.is_some() || !self.is_spare(host) {
                break;
            }
            planted = self.rot_log(host);
            if planted.is_none() {
                self.pass(0, 400)?;
            }
        }
        let Some(rotten) = planted else { return Ok(()) };
        self.excuse(host);
        let most = [0, 50, 1000, 8000][usize::try_from(self.one_of(4)).unwrap_or(0)];
        self.pass(0, most)?;
        self.goes_on(host, &rotten)?;
        self.decisive();
        if self.one_of(2) == 0 {
            self.take_down_somehow(host);
            self.pass(0, 200)?;
            let is_known = rotten.is_header && self.has_summary(host, &rotten);
            self.boot_if_down(host);
            self.pass(0, 4000)?;
            if is_known {
                self.goes_on(host, &rotten)?;
            }
        }
        self.pass(0, 4000)
    }

    /// Rots a random block of a random closed segment. `None` if there is no such block.
    fn rot_log(&mut self, host: usize) -> Option<Rotten> {
        let node = self.cluster.node(host)?;
        let mut all = Vec::new();
        for group in node.groups() {
            let cache = group.cache_path().to_owned();
            all.extend(group.closed_segments().into_iter().map(|closed| (cache.clone(), closed)));
        }
        drop(node);
        if all.is_empty() {
            return None;
        }
        let chosen = usize::try_from(self.one_of(all.len() as u64)).unwrap_or(0);
        let (cache, segment) = all.swap_remove(chosen);
        let (key, world) = (self.key(host), self.cluster.world.clone());
        let used = usize::try_from(segment.used).unwrap_or(0);
        let bytes = world.read_raw(key, &cache, segment.start, used);
        let (mut pages, mut at) = (Vec::new(), 0);
        while let Some(Ok((commit, size, _))) = bytes
            .get(at..)
            .filter(|rest| !rest.is_empty())
            .map(|r| Commit::decode(segment.device, r))
        {
            let end = at + usize::try_from(commit.length).unwrap_or(0);
            pages.extend((at..end).step_by(PAGE_SIZE).map(|page| (page, page < at + size)));
            at = end;
        }
        let wants_header = self.one_of(2) == 0;
        pages.retain(|(_, is_header)| *is_header == wants_header);
        let chosen = usize::try_from(self.one_of(pages.len().max(1) as u64)).unwrap_or(0);
        let (page, is_header) = *pages.get(chosen)?;
        let offset = segment.start + page as u64;
        tracing::info!(host = host + 1, cache, segment.number, is_header, offset, "rotten log");
        if self.one_of(2) == 0 {
            self.faults.add(Fault::LatentError);
            self.disk_fault(host, &cache, DiskFault::BadRange { offset, len: PAGE });
        } else {
            self.faults.add(Fault::BitRot);
            // If the page is the first one of a header, the bit is in the header's fixed part.
            let byte = self.one_of(90);
            world.flip_bits(key, &cache, offset + byte, 1);
        }
        Some(Rotten { cache, segment, is_header })
    }

    /// Whether the media hold a summary of the whole segment.
    fn has_summary(&self, host: usize, rotten: &Rotten) -> bool {
        let (room, device) = (rotten.segment.summary.clone(), rotten.segment.device);
        let length = usize::try_from(room.end - room.start).unwrap_or(0);
        let world = &self.cluster.world;
        let bytes = world.read_raw(self.key(host), &rotten.cache, room.start, length);
        Summary::decode(device, &bytes).is_ok_and(|summary| {
            summary.segment == rotten.segment.number && summary.used == rotten.segment.used
        })
    }

    /// Checks that the group serves, if it lost no more than a header.
    fn goes_on(&self, host: usize, rotten: &Rotten) -> Result<(), Violation> {
        let Some(node) = self.cluster.node(host).filter(|_| rotten.is_header) else {
            return Ok(());
        };
        let is_closed = node.closed_groups().contains(&rotten.cache);
        let groups = node.groups();
        let stopped = groups.iter().filter(|group| group.cache_path() == rotten.cache);
        let cause = stopped.filter_map(|group| group.status().fenced).next();
        match (cause, is_closed) {
            (None, false) => Ok(()),
            (cause, _) => {
                let name = format!("segment {} of host {}", rotten.segment.number, host + 1);
                Err(Violation::Stuck(format!("a rotten header of {name} cost a group: {cause:?}")))
            }
        }
    }
}
