// SPDX-License-Identifier: Apache-2.0
//! What an earlier lap left in the log's ring is not taken for what this one wrote.

use super::rotten::{LOG, SEGMENT, commits, drain, segments, value};
use super::scenarios::{Host, fresh, open};
use super::*;

/// Segments of the ring.
const PLACES: u64 = 16;
/// Commits of one block that a segment holds.
const PER_SEGMENT: u64 = 7;

/// Writes commits with these lsns; what they wrote leaves the log a few segments later.
async fn laps(env: &Env, group: &DiskGroup, lsns: std::ops::RangeInclusive<u64>) {
    let end = *lsns.end();
    for first in lsns.step_by(10) {
        let last = end.min(first + 9);
        commits(env, group, first..=last).await;
        if last < end {
            drain(env, group, last).await;
        }
    }
}

/// A power loss tears the first commit of a segment. Behind it stand commits of the lap before,
/// whole ones of this device.
#[test]
fn a_torn_first_header_before_commits_of_an_earlier_lap_is_no_damage() {
    let last = PLACES * PER_SEGMENT * 2;
    let host = Host::new(85);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        laps(&env, &group, 1..=last).await;
        group.close().await;
    });
    let all = segments(&host.world, host.key, PLACES);
    let (highest, ..) = *all.last().expect("a segment");
    let next = LOG + (highest + 1) % PLACES * SEGMENT;
    let left = all.iter().find(|(_, start, _)| *start == next).expect("an earlier lap was there");
    assert!(highest >= PLACES && left.2.len() > 1, "{left:?} is not of an earlier lap");
    host.world.flip_bits(host.key, "cache", next, 512);
    host.run(move |env| async move {
        let group = open(&env).await.expect("nothing of this lap was there");
        for lsn in 1..=last {
            assert_eq!(value(&group, lsn * 8).await.expect("a read"), Some(lsn as u32));
        }
    });
}

/// A device loses the write of a header: in its place stands one of the lap before, which is whole,
/// of this device, and says the same position.
#[test]
fn a_header_that_an_earlier_lap_left_in_a_closed_segment_counts_as_a_bad_one() {
    let host = Host::new(86);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        let old = PLACES * PER_SEGMENT;
        laps(&env, &group, 1..=old).await;
        let before = world.read_raw(key, "cache", 0, world.disk_size(key, "cache") as usize);
        drain(&env, &group, old).await;
        let last = old + 4 * PER_SEGMENT;
        commits(&env, &group, old + 1..=last).await;
        // The third commit of a closed segment; the others of it are those of this lap.
        let closed = group.closed_segments();
        let place = closed.last().expect("a closed segment").start + 4 * 4096;
        let lost = &before[place as usize..][..4096];
        let decoded = format::Commit::decode(closed[0].device, lost).expect("an earlier header");
        assert_eq!(u64::from(decoded.0.position), 4 * 4096);
        world.write_raw(key, "cache", place, lost);
        drain(&env, &group, last).await;
        let status = group.status();
        assert_eq!((status.fenced, status.rotten_log_blocks), (None, 1));
        for lsn in 1..=last {
            assert_eq!(value(&group, lsn * 8).await.expect("a read"), Some(lsn as u32));
        }
    });
}
