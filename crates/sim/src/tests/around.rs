// SPDX-License-Identifier: Apache-2.0
//! Code of hosts and the simulator's own are told apart, and nothing else changes.

use super::{at, echo, hosts, world};
use crate::{Around, HostKey, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

#[derive(Default)]
struct Counts {
    turning: Cell<Option<HostKey>>,
    is_called: Cell<bool>,
    turns: RefCell<Vec<HostKey>>,
    calls: Cell<u64>,
}

impl Around for Counts {
    fn turn(&self, host: HostKey, turn: &mut dyn FnMut()) {
        assert_eq!(self.turning.replace(Some(host)), None, "a turn within a turn");
        self.turns.borrow_mut().push(host);
        turn();
        self.turning.set(None);
    }

    fn call(&self, call: &mut dyn FnMut()) {
        assert!(!self.is_called.replace(true), "a call within a call");
        self.calls.set(self.calls.get() + 1);
        call();
        self.is_called.set(false);
    }
}

/// A server and a client; what the client's code finds itself in.
fn ask_once(world: &World, counts: &Rc<Counts>) {
    let hosts = hosts(world, 2);
    world.boot(hosts[0], |env| Box::pin(echo(env, 7)));
    let (client, counts) = (hosts[1], Rc::clone(counts));
    world.boot(client, move |env| {
        Box::pin(async move {
            env.sleep(Duration::from_millis(5)).await;
            let link = env.dial(at(1, 7)).await.expect("the server is there");
            super::ask(&env, &link, 50_000).await.expect("an answer");
            let is_watched = counts.calls.get() > 0;
            assert_eq!(counts.turning.get(), is_watched.then_some(client), "in its own turn");
            assert!(!counts.is_called.get(), "not in a call");
        })
    });
    assert!(world.run_until(Duration::from_secs(1), || world.is_finished(client)));
}

#[test]
fn what_runs_within_something_runs_as_it_does_without() {
    let (plain, watched) = (world(3), world(3));
    let counts = Rc::new(Counts::default());
    ask_once(&plain, &counts);
    assert_eq!((counts.turns.borrow().len(), counts.calls.get()), (0, 0), "nobody asked for it");
    watched.run_within(Rc::clone(&counts) as Rc<dyn Around>);
    ask_once(&watched, &counts);
    assert_eq!(watched.digest(), plain.digest());
    assert_eq!(watched.stats(), plain.stats());
    let turns = counts.turns.borrow();
    assert_eq!(turns.len() as u64, watched.stats().turns, "every turn");
    let of = |index| turns.iter().filter(|host| host.index() == index).count();
    assert!(of(0) > 3 && of(1) > 3, "of both hosts");
    // A turn parks and asks for the time, at least once each.
    assert!(counts.calls.get() >= 2 * turns.len() as u64, "every call");
}
