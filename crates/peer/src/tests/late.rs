// SPDX-License-Identifier: Apache-2.0
//! Renewals and grants that are late by their kind.

use super::*;
use base::LateFrame;

const LATE: Duration = Duration::from_secs(3);
/// A host reads its clock when it has something to do, at least four times a second.
const PROMPT: Duration = Duration::from_millis(500);

fn renew(number: u64) -> Request {
    Request::Renew { sent: Instant(number) }
}

fn at(outcome: &Outcome) -> Instant {
    let outcome = outcome.borrow();
    let (result, at) = outcome.as_ref().expect("it was answered");
    assert!(result.is_ok(), "{result:?}");
    *at
}

#[test]
fn a_late_renewal_holds_up_its_lane_and_nothing_else() {
    let mut latest = Duration::ZERO;
    for seed in 0..20 {
        let (world, a, b) = pair(seed);
        let env = world.env(a.key).expect("it runs");
        let (peers, tasks) = (a.peers(), TaskSet::default());
        world.late_frames(b.key, LateFrame::Renewal, LATE);
        let begun = env.now();
        let ask = |request| follow(&env, &tasks, peers.call(ShardId(2), request));
        let renewals: Vec<_> = (1..=5).map(|number| ask(renew(number))).collect();
        let release = ask(Request::Release);
        let written = ask(write(&env, 9, 8));
        world.run_for(LATE * 5 + Duration::from_secs(1));
        let ends: Vec<_> = renewals.iter().chain([&release]).map(at).collect();
        assert!(ends.is_sorted(), "seed {seed}: {ends:?}");
        assert!(at(&written).since(begun) < PROMPT, "seed {seed}: a write waits");
        latest = latest.max(ends[0].since(begun));
        world.late_frames(b.key, LateFrame::Renewal, Duration::ZERO);
        let begun = env.now();
        let prompt = ask(renew(6));
        world.run_for(Duration::from_secs(1));
        assert!(at(&prompt).since(begun) < PROMPT, "seed {seed}: it goes on");
    }
    assert!(latest > LATE / 2, "no renewal was late: {latest:?}");
}

#[test]
fn a_late_grant_was_decided_in_time() {
    for seed in 0..20 {
        let (world, a, b) = pair(seed);
        let env = world.env(a.key).expect("it runs");
        let tasks = TaskSet::default();
        world.late_frames(b.key, LateFrame::Grant, LATE);
        let begun = env.now();
        let calls: Vec<_> = (1..=8)
            .map(|number| follow(&env, &tasks, a.peers().call(ShardId(2), renew(number))))
            .collect();
        world.run_for(Duration::from_millis(50));
        assert_eq!(b.seen.borrow().len(), 8, "seed {seed}: all were handled");
        world.run_for(LATE);
        let late = calls.iter().filter(|call| at(call).since(begun) > LATE / 4).count();
        assert!(late > 0, "seed {seed}: no answer was late");
    }
}

/// Once a request of a new link has arrived, none of an earlier link does any more.
#[test]
fn what_is_held_back_ends_with_its_link() {
    let mut dropped = 0;
    for seed in 0..20 {
        let (world, a, b) = pair(seed);
        let env = world.env(a.key).expect("it runs");
        world.late_frames(b.key, LateFrame::Renewal, LATE);
        (1..=3).for_each(|number| drop(a.peers().call(ShardId(2), renew(number))));
        world.run_for(Duration::from_millis(env.random() % 2000));
        world.reset_links(a.key, b.key);
        let handled = b.seen.borrow().len();
        world.late_frames(b.key, LateFrame::Renewal, Duration::ZERO);
        assert!(world.run_until(MINUTE, || a.is_up(2)), "seed {seed}");
        world.run_for(LATE * 4);
        assert_eq!(b.seen.borrow().len(), handled, "seed {seed}: a renewal of a dead link");
        dropped += 3 - handled;
        drop(a.peers().call(ShardId(2), renew(4)));
        world.run_for(Duration::from_secs(1));
        assert_eq!(b.seen.borrow().len(), handled + 1, "seed {seed}: the new link works");
    }
    assert!(dropped > 20, "nothing was held back: {dropped}");
}
