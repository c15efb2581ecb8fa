// SPDX-License-Identifier: Apache-2.0
//! What is told to a component that was away (rule 30).

use super::scenarios::{Host, ONE, fresh, fresh_with, open, write};
use super::*;
use crate::GroupLimits;
use std::cell::Cell;

async fn discard(env: &Env, group: &DiskGroup, lsn: Lsn, range: SectorRange) {
    let append = Append {
        component: ONE,
        lsn,
        term: Term(1),
        range,
        kind: AppendKind::Discard,
        crcs: &wire::Crcs::NONE,
        payload: env.buf(0).freeze(),
        marks: &[],
    };
    group.append(append).await.expect("a discard");
}

#[test]
fn zeros_beside_a_chunks_first_data_stay_known_as_changed() {
    let host = Host::new(16);
    host.run(|env| async move {
        let group = fresh(&env).await;
        write(&env, &group, 1, 0, 8).await.expect("a write");
        let (lsn, range) = (Lsn::new(Term(1), 2), SectorRange::new(16, 8));
        discard(&env, &group, lsn, range).await;
        group.advance_commit(ONE, lsn);
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.status().destaged_blocks, 1, "both are on capacity");
        // Rule 30: who was away since lsn 1 may still hold what was discarded.
        let changed = group.changed_since(ONE, Lsn::new(Term(1), 1), 0);
        let is_known = changed.ranges.iter().any(|changed| changed.contains(range));
        assert!(is_known, "forgotten: {:?}", changed.ranges);
        assert!(group.changed_since(ONE, lsn, 0).ranges.is_empty(), "and nothing else");
    });
}

/// A component that lost its write buffer lists its own changes as well: of what it has on capacity
/// only what is as new as that.
#[test]
fn a_chunk_that_was_written_once_is_as_old_as_that_after_a_restart() {
    let host = Host::new(18);
    host.run(|env| async move {
        let group = fresh(&env).await;
        for lsn in 1..=6 {
            let chunk = lsn % 3;
            write(&env, &group, lsn, chunk * base::CHUNK_SECTORS, 8).await.expect("a write");
        }
        group.advance_commit(ONE, Lsn::new(Term(1), 6));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        group.close().await;
        drop(group);
        let group = open(&env).await.expect("again");
        let changed = group.changed_since(ONE, Lsn::new(Term(1), 4), 0).ranges;
        let chunks: Vec<u64> = changed.iter().map(|r| r.start / base::CHUNK_SECTORS).collect();
        assert_eq!(chunks, [0, 2], "{changed:?}");
    });
}

#[test]
fn a_discard_that_left_the_log_is_known_beside_later_data() {
    let ways = [(true, true), (true, false), (false, true), (false, false)];
    for (is_on_capacity, is_whole, is_reopened) in
        ways.into_iter().flat_map(|(a, b)| [(a, b, false), (a, b, true)])
    {
        let host = Host::new(17);
        host.run(move |env| async move {
            let mut group = fresh(&env).await;
            group.drain_buffer(true);
            write(&env, &group, 1, 0, 8).await.expect("a write");
            if is_on_capacity {
                group.advance_commit(ONE, Lsn::new(Term(1), 1));
                env.sleep(Duration::from_secs(10)).await;
                assert_eq!(group.status().destaged_blocks, 1, "a chunk on capacity");
            }
            let count = if is_whole { base::CHUNK_SECTORS } else { 8 };
            let (range, lsn) = (SectorRange::new(0, count), Lsn::new(Term(1), 2));
            discard(&env, &group, lsn, range).await;
            group.advance_commit(ONE, lsn);
            env.sleep(Duration::from_secs(10)).await;
            // A chunk that was emptied is freed with the next batch.
            let (other, next) = (base::CHUNK_SECTORS, Lsn::new(Term(1), 3));
            write(&env, &group, 3, other, 8).await.expect("a write elsewhere");
            group.advance_commit(ONE, next);
            env.sleep(Duration::from_secs(10)).await;
            write(&env, &group, 4, 16, 8).await.expect("a write");
            if is_reopened {
                env.sleep(Duration::from_secs(10)).await;
                group.close().await;
                drop(group);
                group = open(&env).await.expect("again");
            }
            // Above K: the log alone holds the chunk, and does not hold the discard.
            let changed = group.changed_since(ONE, Lsn::new(Term(1), 1), 0);
            let is_known = changed.ranges.iter().any(|changed| changed.contains(range));
            assert!(is_known, "forgotten: {:?}", changed.ranges);
            if !is_reopened {
                let later = group.changed_since(ONE, next, 0).ranges;
                assert_eq!(later, [SectorRange::new(16, 8)], "and what is known stays exact");
            }
        });
    }
}

#[test]
fn a_delta_is_made_of_blocks_also_of_those_that_left_the_log() {
    let host = Host::new(18);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let blocks = [0, 48, base::CHUNK_SECTORS + 16];
        for (lsn, start) in (1..).zip(blocks) {
            write(&env, &group, lsn, start, 8).await.expect("a write");
        }
        group.advance_commit(ONE, Lsn::new(Term(1), 3));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.status().destaged_blocks, 3, "all are on capacity");
        let since = |count| group.changed_since(ONE, Lsn::new(Term(1), count), 0).ranges;
        let ranges = blocks.map(|start| SectorRange::new(start, 8));
        assert_eq!((since(0), since(1)), (ranges.to_vec(), ranges[1..].to_vec()));
        group.close().await;
        drop(group);
        // The journal tells a new run; a chunk's first data counts for all of it.
        let mut group = open(&env).await.expect("again");
        let chunk = base::CHUNK_SECTORS;
        let first = |group: &DiskGroup| group.changed_since(ONE, Lsn::new(Term(1), 3), 0).ranges;
        let bytes = |ranges: &[SectorRange]| ranges.iter().map(|range| range.count).sum::<u64>();
        assert_eq!(bytes(&first(&group)), 0);
        write(&env, &group, 4, 64, 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), 4));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        group.close().await;
        drop(group);
        group = open(&env).await.expect("once more");
        assert_eq!(first(&group), [SectorRange::new(64, 8)]);
        let all = group.changed_since(ONE, Lsn::ZERO, 0).ranges;
        assert_eq!(bytes(&all), 2 * chunk);
    });
}

/// All pages of the list of changes: their ranges one after the other, neighbours joined, and the
/// chunks that are held; and how many pages there were.
fn all_pages(group: &DiskGroup, since: Lsn) -> (Vec<SectorRange>, Vec<u64>, u64) {
    let (mut ranges, mut held, mut pages) = (Vec::<SectorRange>::new(), Vec::new(), 0);
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let page = group.changed_since(ONE, since, from);
        assert!(page.next.is_none_or(|next| next > from), "a page that does not move on");
        for range in page.ranges {
            match ranges.last_mut() {
                Some(last) if last.end() == range.start => last.count += range.count,
                _ => ranges.push(range),
            }
        }
        for (word, bits) in (0..).zip(page.held) {
            let bits = (0..64).filter(|bit| bits >> bit & 1 == 1);
            held.extend(bits.map(|bit| from + word * 64 + bit));
        }
        (cursor, pages) = (page.next, pages + 1);
    }
    (ranges, held, pages)
}

/// Writes a few blocks and lists them with these limits: how many pages it takes.
fn pages_by(limits: GroupLimits) -> u64 {
    let host = Host::new(19);
    let out = Rc::new(Cell::new(0));
    let count = Rc::clone(&out);
    host.run(move |env| async move {
        let options = GroupOptions { limits, ..GroupOptions::default() };
        let group = fresh_with(&env, options).await;
        let last = SECTORS / 8 * 8;
        let places = [(0, 8), (64, 8), (base::CHUNK_SECTORS + 8, 8), (last, SECTORS - last)];
        for (lsn, (start, count)) in (1..).zip(places) {
            write(&env, &group, lsn, start, count).await.expect("a write");
        }
        let (ranges, held, pages) = all_pages(&group, Lsn::ZERO);
        assert_eq!(ranges, places.map(|(start, count)| SectorRange::new(start, count)));
        assert_eq!(held, [0, 1, 2], "by {limits:?}");
        count.set(pages);
    });
    out.get()
}

#[test]
fn pages_of_any_size_tell_the_same() {
    let production = GroupLimits::default();
    assert_eq!(pages_by(production), 1);
    assert_eq!(pages_by(GroupLimits { list_chunks: 1, ..production }), 3);
    assert_eq!(pages_by(GroupLimits { list_chunks: 2, ..production }), 2);
    assert_eq!(pages_by(GroupLimits { list_ranges: 1, ..production }), 3);
    assert_eq!(pages_by(GroupLimits { list_looks: 1, ..production }), 3);
}
