// SPDX-License-Identifier: Apache-2.0
//! Tests with calls that hang for as long as the test likes.

use super::*;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::mpsc::SyncSender;

fn waker() -> RingWaker {
    RingWaker(Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()))
}

/// A call that ends when something is sent to its gate, or the gate is dropped.
fn gated(number: u64) -> (SyncSender<()>, HelperCall) {
    let (gate, closed) = std::sync::mpsc::sync_channel(1);
    let call = move || {
        let _ = closed.recv();
        HelperAnswer::Size(Ok(number))
    };
    (gate, Box::new(call))
}

fn at_once(number: u64) -> HelperCall {
    Box::new(move || HelperAnswer::Size(Ok(number)))
}

/// Waits for the next answer: its token, and the number that the call was made with.
fn next(helpers: &mut Helpers, waker: &RingWaker) -> (Option<u64>, u64) {
    loop {
        match helpers.next(waker) {
            Some((token, HelperAnswer::Size(Ok(number)))) => {
                return (token.map(|token| token.0), number);
            }
            Some(_) => unreachable!("calls of this test bring numbers"),
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_device_that_hangs_keeps_its_own_calls_waiting_and_no_others() {
    let (mut helpers, waker) = (Helpers::default(), waker());
    let (gate, call) = gated(1);
    assert!(helpers.submit("hangs", Token(1), &waker, call));
    assert!(helpers.submit("hangs", Token(2), &waker, at_once(2)));
    for token in 10..200 {
        assert!(helpers.submit(
            &format!("well {}", token % 7),
            Token(token),
            &waker,
            at_once(token)
        ));
    }
    let mut seen: Vec<u64> = (10..200).map(|_| next(&mut helpers, &waker).1).collect();
    let of = |lane: u64| seen.iter().copied().filter(move |token| token % 7 == lane);
    assert!((0..7).all(|lane| of(lane).is_sorted()), "calls of one device keep their order");
    seen.sort_unstable();
    assert_eq!(seen, (10..200).collect::<Vec<_>>());
    assert!(helpers.next(&waker).is_none(), "what waits behind the one that hangs has not run");
    drop(gate);
    assert_eq!(next(&mut helpers, &waker), (Some(1), 1));
    assert_eq!(next(&mut helpers, &waker), (Some(2), 2));
    assert!(helpers.is_idle() && helpers.lanes.is_empty());
    assert!(helpers.threads <= 8, "a thread for each device that is in use: {}", helpers.threads);
}

#[test]
fn what_has_not_begun_is_taken_back_and_what_has_ends() {
    let (mut helpers, waker) = (Helpers::default(), waker());
    let (gate, call) = gated(1);
    assert!(helpers.submit("disk", Token(1), &waker, call));
    for token in 2..5 {
        assert!(helpers.submit("disk", Token(token), &waker, at_once(token)));
    }
    assert!(helpers.cancel(Token(3)));
    assert!(!helpers.cancel(Token(3)), "once");
    assert!(!helpers.cancel(Token(1)), "it is under way");
    drop(gate);
    let seen = [(); 3].map(|()| next(&mut helpers, &waker).1);
    assert_eq!(seen, [1, 2, 4]);
    assert!(helpers.is_idle());
}

#[test]
fn more_devices_that_hang_than_threads_wait_for_each_other_and_calls_are_bounded() {
    let (mut helpers, waker) = (Helpers::default(), waker());
    let mut gates = Vec::new();
    for token in 0..THREADS_MAX as u64 + 10 {
        let (gate, call) = gated(token);
        gates.push(gate);
        assert!(helpers.submit(&format!("disk {token}"), Token(token), &waker, call));
    }
    assert_eq!((helpers.threads, helpers.running.len()), (THREADS_MAX, THREADS_MAX));
    for token in 1000..1000 + WAITING_MAX as u64 - 10 {
        assert!(helpers.submit("disk 0", Token(token), &waker, at_once(token)));
    }
    assert!(!helpers.submit("disk 1", Token(9999), &waker, at_once(0)), "no room");
    helpers.submit_detached("disk 2", &waker, at_once(5000)); // a closing always has
    gates.clear();
    let all = THREADS_MAX + 10 + WAITING_MAX - 10 + 1;
    let mut seen: Vec<_> = (0..all).map(|_| next(&mut helpers, &waker).1).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), all, "each once");
    assert!(helpers.is_idle());
}

#[test]
fn an_end_waits_for_what_is_under_way_but_not_for_ever() {
    let (mut helpers, waker) = (Helpers::default(), waker());
    let (gate, call) = gated(1);
    assert!(helpers.submit("hangs", Token(1), &waker, call));
    assert!(helpers.submit("hangs", Token(2), &waker, at_once(2)));
    let (closed, is_closed) = std::sync::mpsc::channel();
    let close = move || {
        let _ = closed.send(());
        HelperAnswer::Unit(Ok(()))
    };
    helpers.submit_detached("well", &waker, Box::new(close));
    helpers.drain(&waker, Duration::from_millis(20));
    is_closed.try_recv().expect("a closing is carried out");
    assert_eq!((helpers.running.len(), helpers.waiting), (1, 0), "one hangs, none waits behind it");
    drop(gate);
    helpers.drain(&waker, Duration::from_secs(60));
    assert!(helpers.is_idle());
}
