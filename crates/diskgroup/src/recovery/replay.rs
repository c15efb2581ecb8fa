// SPDX-License-Identifier: Apache-2.0
//! Replay of the log at opening.
//!
//! 1. The first header of every segment tells which lap it holds; the highest number is the open
//!    segment. 2. That one is scanned with payload checksums; what does not fit is the end:
//!    torn, never acknowledged, dropped. A valid commit *behind* a bad one is rot, for a commit is
//!    submitted only when the one before is durable: where the header before it is whole, and the
//!    next chains to it, its data is taken as it is, and what of it does not match its checksum is
//!    bad for whoever reads it. Where a header is bad, what it said is not known, and the log does
//!    not open. 3. The segments before it, back to the oldest that the last header calls needed,
//!    must all be there: by their summaries, or scanned by headers where a summary was lost. Each
//!    must chain to the next. Of one whose first header is bad the summary alone tells, if the next
//!    segment follows its last commit. 4. Entries go into the index in log order, where the higher
//!    lsn wins.
//!
//! A block that the device does not give counts as a bad one. Where it may be of the newest commit,
//! or of one behind that, nobody can tell, and the log does not open.

use crate::keys::{block_key, chunk_key, serial_of};
use crate::log::build::to_usize;
use crate::log::index::LogView;
use crate::log::ring::OpenSegment;
use crate::memory::widened;
use crate::read::salvage::{Salvaged, UNREADABLE_MAX, is_bad_place, read_or_salvage};
use crate::state::{GroupInner, GroupState};
use crate::types::{GroupError, device_error};
use base::{BLOCK_SECTORS, CHUNK_BLOCKS, CHUNK_SECTORS, Incarnation, Map, SECTOR_SIZE, crc32c};
use env::{Buf, try_join_at_most};
use format::{
    Commit, EntryKind, FormatError, KnownCommit, LogEntry, PAGE_SIZE, Summary, looks_like_commit,
};
use std::cell::Cell;

/// Reads in flight.
const DEPTH: usize = 32;

/// A segment's content, from its summary or by scanning.
struct Content {
    first_sequence: u64,
    last_sequence: u64,
    previous: u32,
    last: u32,
    used: u32,
    /// Where the last commit stands, where it was scanned.
    last_at: u32,
    commits: u32,
    oldest: u64,
    known: Vec<KnownCommit>,
    /// Payload positions from the segment's start.
    entries: Vec<LogEntry>,
    crcs: Vec<u32>,
}

pub(super) async fn replay(inner: &GroupInner) -> Result<(), GroupError> {
    let firsts = read_firsts(inner).await?;
    let next = firsts.last_key_value().map_or(0, |(highest, _)| highest + 1);
    check_not_begun(inner, next, &firsts).await?;
    let Some((&highest, _)) = firsts.last_key_value() else {
        inner.state.borrow_mut().log.restore(0, 0);
        return Ok(());
    };
    let open = scan(inner, highest, None).await?;
    let last = open.as_ref().map(|open| {
        let start = inner.state.borrow().log.segment_start(highest);
        (start + u64::from(open.last_at), (open.used - open.last_at) as usize)
    });
    let before = match (&open, highest) {
        (Some(_), _) | (None, 0) => None,
        (None, _) => Some(load(inner, highest - 1, &firsts).await?),
    };
    let oldest = open.as_ref().or(before.as_ref()).map_or(highest, |content| content.oldest);
    // Nothing from there on can have been overwritten: see `Log::may_open_next`.
    let low = oldest.min(highest);
    let segments = u64::from(inner.state.borrow().log.layout.segments);
    if highest - low >= segments {
        // More than the ring holds: no header of ours names such a segment.
        return Err(inner.damaged_segment(highest, FormatError::Field { name: "oldest" }));
    }
    let loads = (low..highest).map(|segment| load(inner, segment, &firsts));
    let mut contents = try_join_at_most(DEPTH, loads).await?;
    let is_open_lost = open.is_none();
    contents.extend(open);
    check_chain(inner, low, &contents)?;
    install(inner, low, highest, contents, is_open_lost).await?;
    claim_staged(inner)?;
    crate::recovery::settle::settle_log(inner, last).await
}

/// Absolute number and header of the first commit of each segment that has a valid one.
async fn read_firsts(inner: &GroupInner) -> Result<Map<u64, Commit>, GroupError> {
    let (device, segments, header) = {
        let state = inner.state.borrow();
        (state.log.device, u64::from(state.log.layout.segments), state.log.limits.header)
    };
    let read = |place: u64, bytes: usize| {
        let start = inner.state.borrow().log.segment_start(place);
        inner.cache.read(start, inner.env.buf(bytes))
    };
    let unreadable = Cell::new(0);
    let firsts = (0..segments).map(async |place| {
        // One page holds nearly every header.
        let mut bytes = match read(place, PAGE_SIZE).await {
            Ok(bytes) => bytes,
            Err(error) if is_bad_place(&error) && unreadable.get() < UNREADABLE_MAX => {
                unreadable.set(unreadable.get() + 1);
                return Ok(None);
            }
            Err(error) => return Err(device_error(&inner.cache_path)(error)),
        };
        if Commit::decode(device, &bytes).err() == Some(FormatError::Length) {
            // Data stands behind it: what the device does not give of that is not its concern.
            let start = inner.state.borrow().log.segment_start(place);
            bytes = read_or_salvage(inner, start, widened(header)).await?.bytes;
        }
        let Ok((mut commit, _, _)) = Commit::decode(device, &bytes) else { return Ok(None) };
        (commit.entries, commit.crcs) = (Vec::new(), Vec::new()); // not looked at again
        let is_here = commit.position == 0 && commit.segment % segments == place;
        Ok(is_here.then_some((commit.segment, commit)))
    });
    Ok(try_join_at_most(DEPTH, firsts).await?.into_iter().flatten().collect())
}

/// A closed segment, by its summary or else by its headers.
async fn load(
    inner: &GroupInner,
    segment: u64,
    firsts: &Map<u64, Commit>,
) -> Result<Content, GroupError> {
    let first = firsts.get(&segment);
    let (device, at, size) = {
        let state = inner.state.borrow();
        let log = &state.log;
        (log.device, log.segment_start(segment) + log.usable(), log.layout.summary_size)
    };
    let bytes = read_or_salvage(inner, at, size).await?.bytes;
    let mutations = inner.options.mutations;
    let begins = |summary: &Summary| match first {
        Some(first) => {
            summary.previous == first.previous
                && summary.last_sequence + 1 == first.sequence + u64::from(summary.commits)
        }
        // Somebody else has to vouch for it.
        None => firsts.contains_key(&(segment + 1)),
    };
    if let Ok(summary) = Summary::decode(device, &bytes)
        && u64::from(summary.used) <= inner.state.borrow().log.usable()
        && let Some(sequence) = (summary.last_sequence + 1).checked_sub(u64::from(summary.commits))
        && (mutations.trust_summary()
            || summary.segment == segment
                && begins(&summary)
                && leads_to(inner, firsts, segment, summary.last_sequence, summary.last))
    {
        if first.is_none() {
            base::hit(base::Probe::RecoveryUnheaded);
            inner.state.borrow_mut().counters.rotten += 1;
        }
        return Ok(Content {
            first_sequence: first.map_or(sequence, |first| first.sequence),
            last_sequence: summary.last_sequence,
            previous: summary.previous,
            last: summary.last,
            used: summary.used,
            last_at: 0,
            commits: summary.commits,
            oldest: summary.oldest,
            known: summary.known,
            entries: summary.entries,
            crcs: summary.crcs,
        });
    }
    drop(bytes);
    if first.is_none() {
        return Err(inner.damaged_segment(segment, FormatError::Magic));
    }
    base::hit(base::Probe::RecoveryScanned);
    inner.state.borrow_mut().report.scanned += 1;
    // The next segment's first commit went out when all before it were durable. What stands here
    // with its sequence or a later one was torn, dropped by a recovery, and not overwritten because
    // what came then did not fit behind the rest.
    let end = firsts.get(&(segment + 1)).map_or(u64::MAX, |next| next.sequence);
    let end = if mutations.follow_dropped() { u64::MAX } else { end };
    let scanned = scan(inner, segment, Some(end)).await?;
    scanned
        .filter(|content| leads_to(inner, firsts, segment, content.last_sequence, content.last))
        .ok_or_else(|| inner.damaged_segment(segment, FormatError::Checksum))
}

/// Whether the next segment's first commit, where there is one, follows the last one of this. A
/// summary may be stale: recovery opened the segment again, and when it was closed for the second
/// time no summary reached the media.
fn leads_to(
    inner: &GroupInner,
    firsts: &Map<u64, Commit>,
    segment: u64,
    last_sequence: u64,
    last: u32,
) -> bool {
    let may_differ = inner.options.mutations.ignore_chain();
    firsts.get(&(segment + 1)).is_none_or(|next| {
        next.sequence == last_sequence + 1 && (next.previous == last || may_differ)
    })
}

/// Reads a segment and follows its headers; `None` where not even the first commit is whole. A
/// closed one has no commit with the sequence `end` or a later one.
async fn scan(
    inner: &GroupInner,
    segment: u64,
    end: Option<u64>,
) -> Result<Option<Content>, GroupError> {
    let is_open = end.is_none();
    let (device, start, usable) = {
        let state = inner.state.borrow();
        (state.log.device, state.log.segment_start(segment), state.log.usable())
    };
    let Salvaged { bytes, unreadable, error } = read_or_salvage(inner, start, usable).await?;
    let mut content: Option<Content> = None;
    let (mut at, mut incarnation) = (0, Incarnation(0));
    while at < bytes.len() {
        let Some((commit, crc)) =
            fitting(inner, segment, &bytes, at, content.as_ref(), incarnation)
        else {
            break;
        };
        let is_dropped = end.is_some_and(|end| commit.sequence >= end);
        if is_dropped {
            break;
        }
        if is_open && !payload_is_whole(&commit, &bytes, at) {
            if !is_followed(inner, &bytes, (&commit, crc)) {
                break;
            }
            base::hit(base::Probe::RecoveryRotten);
            inner.state.borrow_mut().counters.rotten += 1;
        }
        incarnation = commit.incarnation;
        at += commit.length as usize;
        add(&mut content, commit, crc);
    }
    if is_open {
        // Where the first commit is torn, its own header still tells its sequence.
        let torn = || Commit::decode(device, &bytes).map_or(u64::MAX, |(c, _, _)| c.sequence);
        let next = content.as_ref().map_or_else(torn, |content| content.last_sequence + 1);
        find_later(inner, device, segment, &bytes, at, next)?;
        // What is not given there may be a commit that was acknowledged.
        if let Some(error) = error.filter(|_| unreadable.last().is_some_and(|last| *last >= at)) {
            return Err(device_error(&inner.cache_path)(error));
        }
    }
    Ok(content)
}

/// The commit at `at`, if it is the one that follows.
fn fitting(
    inner: &GroupInner,
    segment: u64,
    bytes: &Buf,
    at: usize,
    before: Option<&Content>,
    incarnation: Incarnation,
) -> Option<(Commit, u32)> {
    let device = inner.state.borrow().log.device;
    let may_differ = inner.options.mutations.ignore_chain();
    let (commit, _, crc) = Commit::decode(device, &bytes[at..]).ok()?;
    let follows = before.is_none_or(|content| {
        commit.sequence == content.last_sequence + 1
            && (commit.previous == content.last || may_differ)
    });
    let fits = commit.segment == segment
        && commit.position as usize == at
        && at + commit.length as usize <= bytes.len()
        && commit.incarnation >= incarnation;
    (follows && fits).then_some((commit, crc))
}

/// Whether the commit behind this one chains to it: it was submitted when this one was durable.
fn is_followed(inner: &GroupInner, bytes: &Buf, (commit, crc): (&Commit, u32)) -> bool {
    let device = inner.state.borrow().log.device;
    let at = (commit.position + commit.length) as usize;
    let next = bytes.get(at..).and_then(|rest| Commit::decode(device, rest).ok());
    let follows = next.is_some_and(|(next, _, _)| {
        next.segment == commit.segment
            && next.position as usize == at
            && next.sequence == commit.sequence + 1
            && next.previous == crc
            && next.incarnation >= commit.incarnation
    });
    follows && !inner.options.mutations.truncate_damage()
}

pub(crate) fn payload_is_whole(commit: &Commit, bytes: &[u8], at: usize) -> bool {
    let mut crcs = commit.crcs.iter();
    commit.entries.iter().all(|entry| {
        if entry.kind != EntryKind::Data {
            // Its data, if any, was durable before (store rule 15).
            crcs.by_ref().take(entry.crc_count()).for_each(drop);
            return true;
        }
        let mut from = at + to_usize(u64::from(entry.payload) * SECTOR_SIZE);
        entry.range.split_at_multiples(base::BLOCK_SECTORS).all(|part| {
            let end = from + to_usize(part.bytes());
            let is_right = crcs.next().is_some_and(|crc| crc32c(&bytes[from..end]) == *crc);
            from = end;
            is_right
        })
    })
}

fn add(content: &mut Option<Content>, commit: Commit, crc: u32) {
    let content = content.get_or_insert_with(|| Content {
        first_sequence: commit.sequence,
        last_sequence: commit.sequence,
        previous: commit.previous,
        last: crc,
        used: 0,
        last_at: 0,
        commits: 0,
        oldest: commit.oldest,
        known: Vec::new(),
        entries: Vec::new(),
        crcs: Vec::new(),
    });
    let base = commit.position / SECTOR_SIZE as u32;
    let entries = commit.entries.into_iter();
    content.entries.extend(entries.map(|e| LogEntry { payload: e.payload + base, ..e }));
    content.crcs.extend(commit.crcs);
    for new in commit.known {
        match content.known.iter_mut().find(|known| known.serial == new.serial) {
            Some(known) => known.lsn = known.lsn.max(new.lsn),
            None => content.known.push(new),
        }
    }
    content.last_sequence = commit.sequence;
    content.last = crc;
    content.last_at = commit.position;
    content.used = commit.position + commit.length;
    content.commits += 1;
    content.oldest = commit.oldest;
}

/// Behind the end of the open segment no later commit may stand: the commit at the end was then
/// durable once, and the log is damaged, not torn.
fn find_later(
    inner: &GroupInner,
    device: u64,
    segment: u64,
    bytes: &Buf,
    end: usize,
    next: u64,
) -> Result<(), GroupError> {
    let sees_nothing = inner.options.mutations.truncate_damage();
    for at in (end..bytes.len()).step_by(4096) {
        if !looks_like_commit(device, &bytes[at..]) {
            continue;
        }
        if let Ok((commit, _, _)) = Commit::decode(device, &bytes[at..])
            && commit.segment == segment
            && commit.position as usize == at
            && commit.sequence > next
            && !sees_nothing
        {
            return Err(inner.damaged_segment(segment, FormatError::Checksum));
        }
        if at == end {
            base::hit(base::Probe::RecoveryTorn);
            inner.state.borrow_mut().report.dropped_torn = true;
        }
    }
    Ok(())
}

/// The segment behind the highest whose first header is whole: if it holds a later commit, or a
/// summary, its own first header is rotten, and all that it holds was acknowledged. A header of an
/// earlier lap says that it was not begun: the first commit would have overwritten it.
async fn check_not_begun(
    inner: &GroupInner,
    next: u64,
    firsts: &Map<u64, Commit>,
) -> Result<(), GroupError> {
    let (device, start, segments, size, usable) = {
        let state = inner.state.borrow();
        let log = &state.log;
        let segments = u64::from(log.layout.segments);
        (log.device, log.segment_start(next), segments, log.layout.segment_size, log.usable())
    };
    let is_earlier = next.checked_sub(segments).is_some_and(|old| firsts.contains_key(&old));
    if is_earlier || inner.options.mutations.truncate_damage() {
        return Ok(());
    }
    let Salvaged { bytes, unreadable, error } = read_or_salvage(inner, start, size).await?;
    let usable = to_usize(usable);
    let is_later = |at: usize| {
        looks_like_commit(device, &bytes[at..])
            && Commit::decode(device, &bytes[at..]).is_ok_and(|(commit, _, _)| {
                commit.segment == next && commit.position as usize == at
            })
    };
    let is_closed = Summary::decode(device, &bytes[usable..]).is_ok_and(|s| s.segment == next);
    if is_closed || (4096..usable).step_by(4096).any(is_later) {
        return Err(inner.damaged_segment(next, FormatError::Checksum));
    }
    // Whether it was begun cannot be told where its first header is not given, or is bad and what
    // is behind it is not given.
    let was_written = bytes[..4096].iter().any(|byte| *byte != 0);
    match error.filter(|_| was_written || unreadable.first() == Some(&0)) {
        Some(error) => Err(device_error(&inner.cache_path)(error)),
        None => Ok(()),
    }
}

fn check_chain(inner: &GroupInner, low: u64, contents: &[Content]) -> Result<(), GroupError> {
    for (number, pair) in contents.windows(2).enumerate() {
        let [first, second] = pair else { continue };
        let is_chained = second.first_sequence == first.last_sequence + 1
            && (second.previous == first.last || inner.options.mutations.ignore_chain());
        if !is_chained {
            return Err(inner.damaged_segment(low + number as u64, FormatError::Checksum));
        }
    }
    Ok(())
}

/// Puts what was found into the state; appends go on behind it.
async fn install(
    inner: &GroupInner,
    low: u64,
    highest: u64,
    contents: Vec<Content>,
    is_open_lost: bool,
) -> Result<(), GroupError> {
    let holds_unknown = inner.holds_unknown();
    inner.state.borrow_mut().log.restore(low, highest);
    for content in &contents {
        {
            let mut state = inner.state.borrow_mut();
            for known in &content.known {
                if let Some(component) = state.store.components.get_mut(known.serial) {
                    let _ = component.advance(known.lsn);
                }
            }
        }
        inner.env.spend_steps(content.known.len() as u64).await;
    }
    for (number, content) in contents.iter().enumerate() {
        let number = number as u64;
        let installed =
            inner.state.borrow_mut().install_segment(low + number, content, holds_unknown);
        installed.map_err(|source| inner.damaged_segment(low + number, source))?;
        // One segment is about 1,000 blocks.
        inner.env.spend_steps(content.crcs.len() as u64).await;
    }
    let mut state = inner.state.borrow_mut();
    let state = &mut *state;
    if let Some(last) = contents.last() {
        state.log.go_on_behind(last.last_sequence, last.last);
    }
    if let Some(open) = contents.into_iter().next_back().filter(|_| !is_open_lost) {
        let Content { entries, crcs, known, commits, previous, .. } = open;
        let direct = entries.iter().filter(|e| matches!(e.kind, EntryKind::Direct { .. }));
        let direct = direct.map(|entry| entry.range.bytes()).sum();
        let open_segment = OpenSegment { entries, crcs, known, commits, previous, direct };
        state.log.reopen(open.used, open_segment);
    }
    for serial in state.store.components.serials() {
        if let Some(component) = state.store.components.get_mut(serial) {
            // An entry that was moved is there twice.
            let tail = component.tail.make_contiguous();
            tail.sort_by_key(|tail| (tail.lsn, tail.range.start, tail.id.is_none()));
            let mut tail: Vec<_> = component.tail.drain(..).collect();
            tail.dedup_by_key(|tail| (tail.lsn, tail.range, tail.id));
            component.tail.extend(tail);
        }
    }
    Ok(())
}

/// What the log names as staged gets its chunk, if the map gives that to nobody else.
fn claim_staged(inner: &GroupInner) -> Result<(), GroupError> {
    let mut state = inner.state.borrow_mut();
    let state = &mut *state;
    let index = &state.log.index;
    let is_live = |chunk: u64| {
        let first = (chunk & u64::from(u32::MAX)) * CHUNK_BLOCKS;
        let mut blocks = (first..first + CHUNK_BLOCKS).map(|b| block_key(serial_of(chunk), b));
        blocks.any(|block| match index.get(block) {
            None => false,
            Some(LogView::Whole(piece)) => piece.place.is_direct(),
            Some(LogView::Parts(parts)) => parts.pieces.iter().any(|p| p.place.is_direct()),
        })
    };
    let claimed = state.store.claim_staged(is_live);
    claimed.map_err(|segment| {
        inner.damaged_segment(segment, FormatError::Field { name: "chunk of a direct write" })
    })
}

impl GroupState {
    /// Puts what a segment holds into the index.
    fn install_segment(
        &mut self,
        segment: u64,
        content: &Content,
        holds_unknown: bool,
    ) -> Result<(), FormatError> {
        self.log.segment_mut(segment).used = content.used;
        let base = self.log.sector(segment, 0);
        let mut crcs = content.crcs.as_slice();
        for entry in &content.entries {
            let (mine, rest) = crcs.split_at(entry.crc_count());
            crcs = rest;
            self.store.note_serial(entry.serial);
            let is_unknown = self.store.components.get(entry.serial).is_none();
            self.log.segment_mut(segment).is_held |= holds_unknown && is_unknown;
            self.find_staged(entry)?;
            self.apply(segment, entry, mine, base + entry.payload);
        }
        self.report.entries += content.entries.len() as u64;
        self.report.segments += 1;
        Ok(())
    }

    /// An entry of a direct write names a chunk of its component's device, and no other than the
    /// entries before it.
    fn find_staged(&mut self, entry: &LogEntry) -> Result<(), FormatError> {
        let EntryKind::Direct { chunk } = entry.kind else { return Ok(()) };
        let Some(component) = self.store.components.get(entry.serial) else { return Ok(()) };
        let (device, sectors) = (component.device, component.row.sectors);
        let chunks = self.store.capacity[device].map.len();
        let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
        let is_sound = self.read_cache.is_none()
            && entry.range.end() <= sectors.next_multiple_of(BLOCK_SECTORS)
            && to_usize(chunk.into()) < chunks
            && self.store.staged_is_found(key, (device, chunk), entry.range.blocks());
        match is_sound {
            true => Ok(()),
            false => Err(FormatError::Field { name: "chunk of a direct write" }),
        }
    }
}
