// SPDX-License-Identifier: Apache-2.0
//! One rotten block in the middle of the log, while the group runs and before it is opened: it
//! costs what it held, and no header holds anything that is not known otherwise.

use super::campaign::Case;
use super::check::check_capacity;
use super::faults::Promise;
use super::scenarios::{Host, ONE, fresh, open, write, write_to};
use super::*;
use crate::log::build::to_usize;
use crate::{ComponentMeta, LogSegment, Tolerance};
use base::{Seat, Set, Version};
use format::{Commit, Summary, Superblock};
use sim::DiskFault;
use std::cell::Cell;

mod anew;

/// What a block of a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Header,
    Payload,
    Summary,
}

/// All blocks of a segment, by its headers.
fn blocks(world: &World, key: HostKey, segment: &LogSegment) -> Vec<(u64, Part)> {
    let bytes = world.read_raw(key, "cache", segment.start, segment.used as usize);
    let (mut all, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let Ok((commit, size, _)) = Commit::decode(segment.device, &bytes[at..]) else { break };
        for block in (at..at + commit.length as usize).step_by(4096) {
            let part = if block < at + size { Part::Header } else { Part::Payload };
            all.push((segment.start + block as u64, part));
        }
        at += commit.length as usize;
    }
    all.extend(segment.summary.clone().step_by(4096).map(|at| (at, Part::Summary)));
    all
}

/// Whether a summary of this segment is on the media.
fn has_summary(world: &World, key: HostKey, segment: &LogSegment) -> bool {
    let room = segment.summary.clone();
    let bytes = world.read_raw(key, "cache", room.start, (room.end - room.start) as usize);
    Summary::decode(segment.device, &bytes)
        .is_ok_and(|summary| summary.segment == segment.number && summary.used == segment.used)
}

fn rot(world: &World, key: HostKey, at: u64, rng: &mut Rng) {
    match rng.below(3) {
        0 => world.disk_error(key, "cache", DiskFault::BadRange { offset: at, len: 4096 }),
        1 => world.flip_bits(key, "cache", at, 4096),
        // In the fixed part of a header, or in the first sectors of a block of data.
        _ => world.flip_bits(key, "cache", at + rng.below(90), 1),
    }
}

/// What came of a case.
#[derive(Default, Debug)]
struct Outcome {
    headers: u64,
    payloads: u64,
    /// Groups that stopped, by the segment's name, or did not open.
    stopped: u64,
    refused: u64,
    /// Blocks that were bad afterwards.
    bad: u64,
}

impl Case {
    /// A closed segment of the log and one of its blocks.
    fn some_closed_block(&mut self) -> Option<(LogSegment, u64, Part)> {
        let closed = self.signs.group.borrow().as_ref()?.closed_segments();
        let segment = closed.get(self.rng.below(closed.len().max(1) as u64) as usize)?.clone();
        let all = blocks(&self.world, self.host, &segment);
        let headers = self.rng.below(2) == 0;
        let some: Vec<_> =
            all.into_iter().filter(|(_, part)| !headers || *part == Part::Header).collect();
        let (at, part) = *some.get(self.rng.below(some.len().max(1) as u64) as usize)?;
        Some((segment, at, part))
    }

    /// The newest segment on the media, and the oldest one that the last commit needs which is not
    /// torn.
    fn newest(&self, device: u64) -> Option<(u64, u64)> {
        let all = segments(&self.world, self.host, self.setup.segments);
        let (newest, ..) = *all.last()?;
        let headers = all.iter().rev().flat_map(|(_, start, headers)| {
            headers.iter().rev().map(move |at| (*at, start + SEGMENT - at))
        });
        let mut commits = headers.filter_map(|(at, room)| {
            let bytes = self.world.read_raw(self.host, "cache", at, to_usize(room));
            let (commit, ..) = Commit::decode(device, &bytes).ok()?;
            crate::recovery::payload_is_whole(&commit, &bytes, 0).then_some(commit)
        });
        commits.next().map(|commit| (newest, commit.oldest))
    }

    fn drain_for_a_while(&mut self) {
        if let Some(group) = self.signs.group.borrow().as_ref() {
            group.drain_buffer(true);
        }
        self.world.run_for(Duration::from_millis(20));
    }

    fn is_fenced(&self) -> Option<String> {
        self.signs.group.borrow().as_ref().and_then(|group| group.status().fenced)
    }

    /// Lives, loses a block of a closed segment, lives on, perhaps to its rest; is opened twice.
    fn with_rot(mut self, outcome: &mut Outcome) {
        assert!(self.live_with(Promise::All));
        self.run_to_a_moment();
        let Some((segment, at, part)) = self.some_closed_block() else { return self.end() };
        rot(&self.world, self.host, at, &mut self.rng);
        let is_payload = part == Part::Payload;
        // A block of the log holds parts of at most eight blocks.
        let promise = if is_payload { Promise::Named(8) } else { Promise::All };
        self.signs.may_be_bad.set(is_payload);
        self.signs.may_fail.set(is_payload);
        outcome.headers += u64::from(part == Part::Header);
        outcome.payloads += u64::from(is_payload);
        match self.rng.below(3) {
            0 => {}
            1 => self.run_to_a_moment(),
            // A part of a block over a bad one never leaves the log.
            _ if is_payload => self.drain_for_a_while(),
            _ => self.rest(),
        }
        if let Some(cause) = self.is_fenced() {
            let name = format!("log segment {} is damaged: ", segment.number);
            assert!(is_payload && cause.contains(&name), "{part:?}: {cause}");
            outcome.stopped += 1;
            return self.end();
        }
        self.end();
        for _ in 0..2 {
            // Power loss in one of these may take what is looked at here.
            self.cut_off_openings();
            let newest = self.newest(segment.device);
            // A summary goes out without a flush: power loss may take it, also after rest.
            let is_needed = newest.is_none_or(|(_, oldest)| oldest <= segment.number);
            let is_known = !is_needed || has_summary(&self.world, self.host, &segment);
            if part == Part::Header && !is_known {
                // What it held may be known to nobody: not opened, or not by what is lost.
                outcome.refused += u64::from(!self.live_now(Promise::Named(0)));
                return self.world.kill(self.host);
            }
            // The ring has come round to the block, and no write has mended it yet: where the
            // device does not give it, it may be the newest commit, and nobody can tell.
            let count = self.setup.segments;
            let is_place = |at: u64| at != segment.number && at % count == segment.number % count;
            let may_be_newest = newest.is_some_and(|(at, _)| is_place(at) || is_place(at + 1));
            let promise = match promise {
                Promise::All if may_be_newest => Promise::Named(0),
                as_before => as_before,
            };
            if !self.live_now(promise) {
                let refused = self.signs.refused.borrow();
                let is_device = matches!(*refused, Some(GroupError::Device { .. }));
                assert!(may_be_newest && is_device, "{part:?}: {refused:?}");
                outcome.refused += 1;
                return;
            }
            outcome.bad += self.signs.bad.borrow().len() as u64;
            self.signs.may_fail.set(is_payload);
            match self.rng.below(2) {
                0 if is_payload => self.drain_for_a_while(),
                0 => self.rest(),
                _ => {}
            }
            if let Some(cause) = self.is_fenced() {
                assert!(is_payload && cause.contains("log segment"), "{part:?}: {cause}");
                outcome.stopped += 1;
                return self.end();
            }
            self.end();
        }
    }
}

#[test]
fn a_rotten_block_of_a_closed_segment_costs_what_it_held() {
    let mut outcome = Outcome::default();
    for seed in seeds() {
        Case::new(seed, Mutations::default()).with_rot(&mut outcome);
    }
    let is_enough = outcome.headers > 10 && outcome.payloads > 5 && outcome.bad > 0;
    assert!(is_enough || asked("DISKGROUP_SEEDS").is_some(), "{outcome:?}");
    // Where K stays behind, as it does in some of these loads.
    let is_rare = outcome.stopped * 2 <= outcome.payloads;
    assert!(is_rare || outcome.payloads <= 5, "{outcome:?}");
}

/// Writes blocks one by one, so that each is a commit: a header and a block of data.
pub(super) async fn commits(env: &Env, group: &DiskGroup, lsns: std::ops::RangeInclusive<u64>) {
    for lsn in lsns {
        write(env, group, lsn, lsn % 600 * 8, 8).await.expect("a write");
    }
}

pub(super) async fn value(group: &DiskGroup, sector: u64) -> Result<Option<u32>, GroupError> {
    let read = group.read(ONE, SectorRange::new(sector, 1)).await?;
    Ok(value_of(sector, &read.payload))
}

pub(super) async fn drain(env: &Env, group: &DiskGroup, lsn: u64) {
    group.advance_commit(ONE, Lsn::new(Term(1), lsn));
    group.drain_buffer(true);
    while group.status().buffer_fill > 0.0 && group.status().fenced.is_none() {
        env.sleep(Duration::from_millis(10)).await;
    }
    group.drain_buffer(false);
}

#[test]
fn every_header_of_a_segment_may_rot_while_the_group_runs() {
    let host = Host::new(71);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        commits(&env, &group, 1..=20).await;
        let closed = group.closed_segments();
        for (at, _) in blocks(&world, key, &closed[0]).iter().filter(|(_, p)| *p == Part::Header) {
            world.flip_bits(key, "cache", *at, 512);
        }
        drain(&env, &group, 20).await;
        let status = group.status();
        assert_eq!((status.fenced, status.rotten_log_blocks), (None, 1));
        for lsn in 1..=20 {
            assert_eq!(value(&group, lsn * 8).await.expect("a read"), Some(lsn as u32));
        }
    });
}

/// Twenty commits, of which the first seven are in segment 0; then `damage` while the group is
/// closed, and what opening it says.
fn after_damage(
    seed: u64,
    commits_made: u64,
    damage: impl FnOnce(&World, HostKey) + 'static,
    check: impl AsyncFnOnce(Env, Result<DiskGroup, GroupError>) + 'static,
) {
    let host = Host::new(seed);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        commits(&env, &group, 1..=commits_made).await;
        group.close().await;
    });
    damage(&world, key);
    host.run(move |env| async move {
        let opened = open(&env).await;
        check(env, opened).await;
    });
}

pub(super) const SEGMENT: u64 = 64 << 10;
pub(super) const LOG: u64 = 1 << 20;

fn is_segment(error: &GroupError, number: u64) -> bool {
    let is_it = |s: &crate::types::Structure| *s == crate::types::Structure::Segment(number);
    matches!(error, GroupError::Corrupt { structure, .. } if is_it(structure))
}

#[test]
fn the_first_header_of_a_closed_segment_is_known_by_its_summary() {
    for (seed, is_error) in [(72, false), (73, true)] {
        let damage = move |world: &World, key: HostKey| match is_error {
            true => {
                let bad = DiskFault::BadRange { offset: LOG + SEGMENT, len: 4096 };
                world.disk_error(key, "cache", bad);
            }
            false => world.flip_bits(key, "cache", LOG + SEGMENT, 512),
        };
        after_damage(seed, 20, damage, async |env: Env, opened: Result<DiskGroup, GroupError>| {
            let group = opened.expect("one rotten header in the middle of the log");
            assert_eq!(group.status().rotten_log_blocks, 1);
            for _ in 0..2 {
                for lsn in 1..=20 {
                    assert_eq!(value(&group, lsn * 8).await.expect("a read"), Some(lsn as u32));
                }
                drain(&env, &group, 20).await;
            }
            assert_eq!(group.status().fenced, None);
        });
    }
}

/// Where there is no summary, the header alone knows the segment.
#[test]
fn data_behind_a_long_first_header_does_not_take_it_along() {
    let host = Host::new(85);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        let range = SectorRange::new(8, 8);
        let payload = payload(&env, range, 1);
        let done = |n| RequestId::new(ShardId(1), Incarnation(1), 0, n);
        let marks: Vec<_> = (1..=100).filter_map(done).map(Mark::Done).collect();
        let (component, lsn, term) = (ONE, Lsn::new(Term(1), 1), Term(1));
        let (crcs, kind) = (wire::crcs_of(range, &payload), AppendKind::Data);
        let append =
            Append { component, lsn, term, range, kind, crcs: &crcs, payload, marks: &marks };
        group.append(append).await.expect("a write");
        commits(&env, &group, 2..=20).await;
        let segment = &group.closed_segments()[0];
        let parts = blocks(&world, key, segment);
        assert_eq!((parts[1].1, parts[2].1), (Part::Header, Part::Payload), "{parts:?}");
        world.flip_bits(key, "cache", segment.summary.start, 4096);
        world.disk_error(key, "cache", DiskFault::BadRange { offset: parts[2].0, len: 4096 });
        group.close().await;
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("one block of data that is not given");
        let bad = value(&group, 8).await;
        assert!(matches!(bad, Err(GroupError::BadCrc { .. })), "{bad:?}");
        for lsn in 2..=20 {
            let found = value(&group, u64::from(lsn) * 8).await;
            assert_eq!(found.expect("a read"), Some(lsn));
        }
    });
}

#[test]
fn a_deleted_component_leaves_nothing_where_a_header_is_rotten() {
    let host = Host::new(86);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        let two = ComponentId(2);
        group.create_component(two, ObjectId(7), SECTORS).await.expect("a component");
        write_to(&env, &group, two, 1, 0, 24).await.expect("a write");
        commits(&env, &group, 1..=20).await;
        world.flip_bits(key, "cache", group.closed_segments()[0].start, 512);
        group.delete_component(two).await.expect("it is there");
        drain(&env, &group, 20).await;
        assert_eq!(group.audit().expect("the books").indexed, 0);
        assert_eq!(group.status().rotten_log_blocks, 1);
    });
}

#[test]
fn an_open_segment_whose_first_header_rots_is_not_taken_for_none() {
    // 3 commits: segment 0 is open, and the first of all. 10 and more: a later one.
    for (seed, made, number) in [(74, 3, 0), (75, 10, 1), (76, 18, 2)] {
        for is_error in [false, true] {
            let at = LOG + number * SEGMENT;
            let damage = move |world: &World, key: HostKey| match is_error {
                true => {
                    let bad = DiskFault::BadRange { offset: at, len: 4096 };
                    world.disk_error(key, "cache", bad);
                }
                false => world.flip_bits(key, "cache", at, 512),
            };
            after_damage(seed, made, damage, async move |_, opened| {
                let error = opened.err().expect("acknowledged writes are not there");
                assert!(is_segment(&error, number), "{error}");
            });
        }
    }
}

#[test]
fn data_in_the_middle_of_the_open_segment_costs_its_block() {
    for (seed, is_error) in [(77, false), (78, true)] {
        // Of the second of three commits: two blocks each.
        let at = LOG + 3 * 4096;
        let damage = move |world: &World, key: HostKey| match is_error {
            true => {
                let bad = DiskFault::BadRange { offset: at, len: 4096 };
                world.disk_error(key, "cache", bad);
            }
            false => world.flip_bits(key, "cache", at + 100, 1),
        };
        after_damage(seed, 3, damage, async |env: Env, opened: Result<DiskGroup, GroupError>| {
            let group = opened.expect("one rotten block of data");
            let check = async |lsn: u64| value(&group, lsn * 8).await;
            for _ in 0..2 {
                assert_eq!(check(1).await.expect("a read"), Some(1));
                let bad = check(2).await;
                assert!(matches!(bad, Err(GroupError::BadCrc { .. })), "{bad:?}");
                assert_eq!(check(3).await.expect("a read"), Some(3));
                drain(&env, &group, 3).await;
            }
            assert_eq!(group.status().fenced, None);
            write(&env, &group, 4, 16, 8).await.expect("a repair");
            assert_eq!(check(2).await.expect("a read"), Some(4));
        });
    }
}

#[test]
fn a_part_of_a_block_that_rots_makes_the_block_bad_and_moves_nowhere() {
    for is_error in [false, true] {
        let host = Host::new(79);
        let (world, key) = (host.world.clone(), host.key);
        host.run(move |env| async move {
            let group = fresh(&env).await;
            // Parts of three blocks, each in a commit of its own, and something behind them.
            for lsn in 1..=3 {
                write(&env, &group, lsn, lsn * 8 + 2, 3).await.expect("a write");
            }
            commits(&env, &group, 4..=20).await;
            let at = LOG + 3 * 4096;
            match is_error {
                true => {
                    let bad = DiskFault::BadRange { offset: at, len: 4096 };
                    world.disk_error(key, "cache", bad);
                }
                false => world.flip_bits(key, "cache", at + 100, 1),
            }
            drain(&env, &group, 20).await;
            assert_eq!(group.status().fenced, None);
            for lsn in [1, 3] {
                assert_eq!(value(&group, lsn * 8 + 3).await.expect("a read"), Some(lsn as u32));
            }
            let bad = value(&group, 2 * 8 + 3).await;
            assert!(matches!(bad, Err(GroupError::BadCrc { .. })), "{bad:?}");
            write(&env, &group, 21, 16, 8).await.expect("a repair");
            drain(&env, &group, 21).await;
            assert_eq!(value(&group, 2 * 8 + 3).await.expect("a read"), Some(21));
            group.close().await;
        });
        host.run(|env| async move {
            let group = open(&env).await.expect("nothing is torn");
            assert_eq!(value(&group, 2 * 8 + 3).await.expect("a read"), Some(21));
            assert_eq!(value(&group, 3 * 8 + 3).await.expect("a read"), Some(3));
        });
    }
}

/// The whole block stands in an older segment, or in the part's own. While the part cannot be read
/// it is moved behind the part, whole; it must not be taken for the newest once the part is gone.
#[test]
fn what_a_part_that_rots_covered_does_not_come_back() {
    for (seed, part) in [(83, 11), (84, 2)] {
        let host = Host::new(seed);
        let (world, key) = (host.world.clone(), host.key);
        host.run(move |env| async move {
            let group = fresh(&env).await;
            write(&env, &group, 1, 800, 8).await.expect("a write");
            commits(&env, &group, 2..=part - 1).await;
            write(&env, &group, part, 802, 3).await.expect("a write");
            commits(&env, &group, part + 1..=24).await;
            let is_part = |at: &u64| {
                let sector = world.read_raw(key, "cache", *at, 512);
                value_of(802, &sector) == Some(part as u32)
            };
            let at = (LOG..world.disk_size(key, "cache"))
                .step_by(4096)
                .find(is_part)
                .expect("the part is in the log");
            world.flip_bits(key, "cache", at + 100, 1);
            drain(&env, &group, 24).await;
            let found = value(&group, 803).await;
            assert!(found.as_ref().map_or(true, |v| *v == Some(part as u32)), "{found:?}");
            group.close().await;
        });
        host.run(|env| async move {
            let group = open(&env).await.expect("nothing is torn");
            let found = value(&group, 803).await;
            assert!(matches!(found, Err(GroupError::BadCrc { .. })), "{found:?}");
            assert_eq!(value(&group, 800).await.ok().flatten().unwrap_or(1), 1);
        });
    }
}

/// Of each segment on the media with a first header: its absolute number, its place, and where
/// its headers do.
pub(super) fn segments(world: &World, key: HostKey, count: u64) -> Vec<(u64, u64, Vec<u64>)> {
    let slots = format::SUPERBLOCK_SLOTS.map(|at| world.read_raw(key, "cache", at, 4096));
    let labels = slots.iter().filter_map(|page| Superblock::decode(page).ok());
    let device = labels.max_by_key(|label| label.sequence).expect("a superblock").device;
    let mut all = Vec::new();
    for place in 0..count {
        let start = LOG + place * SEGMENT;
        let bytes = world.read_raw(key, "cache", start, (SEGMENT - 4096) as usize);
        let (mut headers, mut at, mut last) = (Vec::new(), 0, None);
        while let Some(Ok((commit, _, crc))) =
            bytes.get(at..).filter(|b| !b.is_empty()).map(|b| Commit::decode(device, b))
        {
            let follows = last.is_none_or(|(segment, sequence, before)| {
                commit.segment == segment
                    && commit.sequence == sequence + 1
                    && commit.previous == before
            });
            if commit.position as usize != at || !follows {
                break;
            }
            headers.push(start + at as u64);
            last = Some((commit.segment, commit.sequence, crc));
            at += commit.length as usize;
        }
        if let Some((segment, ..)) = last {
            all.push((segment, start, headers));
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn a_rotten_header_of_the_open_segment_costs_what_was_in_the_write_buffer() {
    let known = |ids: &[ComponentId]| Tolerance {
        may_lose_log: ids.iter().map(|id| (*id, Version(5))).collect(),
        ..Tolerance::default()
    };
    let open_with = async |env: &Env, tolerance: Tolerance| {
        DiskGroup::open_without(env, &spec(1), GroupOptions::default(), &tolerance).await
    };
    let two = ComponentId(2);
    // The second of three commits; those of the first segment are on capacity.
    let host = Host::new(80);
    let (world, key) = (host.world.clone(), host.key);
    let at = Rc::new(Cell::new(0));
    let found = Rc::clone(&at);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        group.create_component(two, ObjectId(7), SECTORS).await.expect("a component");
        let meta = group.component(two).expect("it is there").meta;
        let meta = ComponentMeta { version: Version(5), ..meta };
        group.set_meta(two, meta).await.expect("a record that its host saw");
        commits(&env, &group, 1..=3).await;
        drain(&env, &group, 3).await;
        commits(&env, &group, 4..=6).await;
        let (_, _, headers) = segments(&world, key, 4).pop().expect("an open segment");
        assert_eq!(headers.len(), 3);
        found.set(headers[1]);
        group.close().await;
    });
    host.world.flip_bits(host.key, "cache", at.get(), 512);
    host.run(move |env| async move {
        let mut of_before = known(&[ONE, two]);
        of_before.may_lose_log.insert(two, Version(4));
        // Nobody says that it may lose anything, or not of all that it has, or a directory of
        // before does.
        for tolerance in [Tolerance::default(), known(&[ONE]), known(&[two]), of_before] {
            let error = open_with(&env, tolerance).await.err().expect("acknowledged writes");
            assert!(error.is_rotten_log(), "{error}");
        }
        let group = open_with(&env, known(&[ONE, two])).await.expect("all of it is elsewhere");
        assert_eq!(group.status().rotten_log_blocks, 1);
        for id in [ONE, two] {
            assert!(group.component(id).expect("it is on capacity").partial);
        }
        let kept = group.component(ONE).expect("it is there").destaged;
        assert!(kept < Lsn::new(Term(1), 4), "{kept:?} is more than it has");
        for lsn in 1..=6 {
            let there = if lsn <= 3 { lsn as u32 } else { 0 };
            assert_eq!(value(&group, lsn * 8).await.expect("a read"), Some(there));
        }
        // What it lacks comes back, into a log like any other.
        commits(&env, &group, 7..=12).await;
        group.close().await;
    });
    host.run(move |env| async move {
        let group = open(&env).await.expect("a log like any other");
        assert_eq!(group.status().rotten_log_blocks, 0);
        for lsn in 7..=12 {
            assert_eq!(value(&group, lsn * 8).await.expect("a read"), Some(lsn as u32));
        }
        assert!(group.component(ONE).expect("it is there").partial, "until it is active again");
        group.is_whole_at(ONE, Seat(9)).await.expect("a later seat");
        assert!(!group.component(ONE).expect("it is there").partial);
        group.close().await;
    });
}
