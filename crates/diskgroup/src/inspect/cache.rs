// SPDX-License-Identifier: Apache-2.0
//! The log of a cache device.

use super::{CacheContent, Look, SegmentContent, length};
use crate::recovery::payload_is_whole;
use crate::types::Structure;
use base::Map;
use format::{
    COMMIT_HEADER_MAX, CacheLayout, Commit, EntryKind, LogEntry, PAGE_SIZE, Summary,
    looks_like_commit,
};

const NOT_OPEN: &str = "the group may not open: its components come back from their other copies";

/// What goes on from one segment to the next.
struct Chain {
    sequence: u64,
    crc: u32,
}

impl Look<'_> {
    pub(super) async fn cache(&mut self, device: u64, layout: &CacheLayout) -> CacheContent {
        let mut content = CacheContent { segments_total: layout.segments, ..Default::default() };
        let firsts = self.first_commits(device, layout).await;
        let Some((&highest, first)) = firsts.last_key_value() else { return content };
        // The last whole commit says which segments are needed: it is in the open one, or, where
        // not even the first there is whole, in the one before.
        let mut oldest = first.oldest.min(highest);
        if highest - oldest >= u64::from(layout.segments) {
            let at = self.offset_of(layout, highest);
            self.damage(
                Structure::Segment(highest),
                at,
                "needs more than the ring holds",
                NOT_OPEN,
            );
            oldest = highest;
        }
        let mut chain: Option<Chain> = None;
        for number in oldest..=highest {
            let offset = self.offset_of(layout, number);
            let segment = SegmentContent { number, offset, ..SegmentContent::default() };
            let is_open = number == highest;
            let (segment, end) =
                self.segment(device, layout, segment, is_open, chain.as_ref()).await;
            if segment.commits == 0 && !is_open {
                self.damage(
                    Structure::Segment(number),
                    offset,
                    "no commit where one stood",
                    NOT_OPEN,
                );
            }
            chain = end;
            content.segments.push(segment);
        }
        content
    }

    fn offset_of(&self, layout: &CacheLayout, segment: u64) -> u64 {
        layout.start + segment % u64::from(layout.segments) * layout.segment_size
    }

    /// The first commit of each segment that begins with one.
    async fn first_commits(&mut self, device: u64, layout: &CacheLayout) -> Map<u64, Commit> {
        let mut firsts = Map::new();
        for place in 0..u64::from(layout.segments) {
            let offset = self.offset_of(layout, place);
            let read = self.read(Structure::Segment(place), offset, COMMIT_HEADER_MAX, NOT_OPEN);
            let Some(bytes) = read.await else { continue };
            if let Ok((commit, _, _)) = Commit::decode(device, &bytes)
                && commit.position == 0
                && commit.segment % u64::from(layout.segments) == place
            {
                firsts.insert(commit.segment, commit);
            }
        }
        firsts
    }

    /// Follows the commits of a segment, and says where the chain stands behind it.
    async fn segment(
        &mut self,
        device: u64,
        layout: &CacheLayout,
        mut segment: SegmentContent,
        is_open: bool,
        before: Option<&Chain>,
    ) -> (SegmentContent, Option<Chain>) {
        let name = Structure::Segment(segment.number);
        let usable = length(layout.segment_size - layout.summary_size);
        let read = self.read(name, segment.offset, usable, NOT_OPEN).await;
        let Some(bytes) = read else { return (segment, None) };
        let mut chain: Option<Chain> = None;
        let mut at = 0;
        while at < usable {
            let Ok((commit, _, crc)) = Commit::decode(device, &bytes[at..]) else { break };
            let expected = chain.as_ref().or(before);
            let follows = expected.is_none_or(|before| {
                commit.sequence == before.sequence + 1 && commit.previous == before.crc
            });
            let end = at + length(u64::from(commit.length));
            let fits = commit.segment == segment.number
                && usize::try_from(commit.position) == Ok(at)
                && end <= usable;
            if !fits {
                break;
            }
            let offset = segment.offset + at as u64;
            if !follows {
                self.damage(name, offset, "a commit that does not follow the last one", NOT_OPEN);
            }
            if (is_open || self.check_data) && !payload_is_whole(&commit, &bytes, at) {
                if is_open && !self.has_later(device, &bytes, end, &commit) {
                    let effect = "what power loss tore: it was never acknowledged, and is dropped";
                    self.remark(name, offset, "the last commit is torn", effect);
                } else {
                    let what = "data of a commit fails its checksum";
                    let effect = "its blocks read as damaged until repaired from another copy";
                    self.damage(name, offset, what, effect);
                }
                if is_open {
                    break;
                }
            }
            segment.commits += 1;
            segment.entries += commit.entries.len() as u64;
            let is_direct = |entry: &&LogEntry| matches!(entry.kind, EntryKind::Direct { .. });
            segment.direct_entries += commit.entries.iter().filter(is_direct).count() as u64;
            chain = Some(Chain { sequence: commit.sequence, crc });
            at = end;
        }
        segment.used = at as u64;
        self.behind(device, &bytes, at, &segment, is_open, chain.as_ref());
        if !is_open {
            self.summary(device, layout, &mut segment, chain.as_ref()).await;
        }
        (segment, chain)
    }

    /// Whether a commit stands behind `end` that came after `commit`.
    fn has_later(&self, device: u64, bytes: &[u8], end: usize, commit: &Commit) -> bool {
        (end.next_multiple_of(PAGE_SIZE)..bytes.len()).step_by(PAGE_SIZE).any(|at| {
            looks_like_commit(device, &bytes[at..])
                && Commit::decode(device, &bytes[at..]).is_ok_and(|(later, _, _)| {
                    later.segment == commit.segment && later.sequence > commit.sequence
                })
        })
    }

    /// Behind the last commit of the open segment no later one may stand.
    fn behind(
        &mut self,
        device: u64,
        bytes: &[u8],
        end: usize,
        segment: &SegmentContent,
        is_open: bool,
        chain: Option<&Chain>,
    ) {
        let next = chain.map_or(0, |chain| chain.sequence + 1);
        for at in (end..bytes.len()).step_by(PAGE_SIZE).filter(|_| is_open) {
            if looks_like_commit(device, &bytes[at..])
                && let Ok((later, _, _)) = Commit::decode(device, &bytes[at..])
                && later.segment == segment.number
                && later.sequence > next
            {
                let what = "a commit is damaged that others stand behind";
                let offset = segment.offset + end as u64;
                return self.damage(Structure::Segment(segment.number), offset, what, NOT_OPEN);
            }
        }
    }

    /// A summary is a cache: without it, opening reads the segment.
    async fn summary(
        &mut self,
        device: u64,
        layout: &CacheLayout,
        segment: &mut SegmentContent,
        chain: Option<&Chain>,
    ) {
        let effect = "opening reads the whole segment instead";
        let name = Structure::Segment(segment.number);
        let at = segment.offset + layout.segment_size - layout.summary_size;
        let bytes = self.read(name, at, length(layout.summary_size), effect).await;
        let summary = bytes.and_then(|bytes| Summary::decode(device, &bytes).ok());
        segment.has_summary = summary.is_some_and(|summary| {
            summary.segment == segment.number
                && chain.is_some_and(|chain| {
                    (summary.last_sequence, summary.last) == (chain.sequence, chain.crc)
                })
        });
        if !segment.has_summary {
            self.remark(name, at, "no summary", effect);
        }
    }
}
