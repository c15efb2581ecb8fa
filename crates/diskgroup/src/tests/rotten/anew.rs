// SPDX-License-Identifier: Apache-2.0
//! A log that nobody can read any more, and whose content others have, is begun anew.

use super::*;

impl Case {
    /// Damages the log where nothing but the damaged place knows what it said; whether it was the
    /// open segment's, which is surely needed. `None` where there is too little of it.
    fn rot_what_nobody_knows(&mut self) -> Option<bool> {
        let all = segments(&self.world, self.host, self.setup.segments);
        let is_open = self.rng.below(2) == 0;
        let chosen = match is_open {
            true => all.last()?,
            false => {
                let closed = all.len().checked_sub(1).filter(|closed| *closed > 0)?;
                &all[self.rng.below(closed as u64) as usize]
            }
        };
        let (_, start, headers) = chosen.clone();
        let some = if is_open { headers.len().checked_sub(1)? } else { headers.len() };
        let at = *headers.get(self.rng.below(some.max(1) as u64) as usize).filter(|_| some > 0)?;
        if !is_open {
            self.world.flip_bits(self.host, "cache", start + SEGMENT - 4096, 4096);
        }
        // As a whole: a later bit of a header that is not in use changes nothing.
        match self.rng.below(2) {
            0 => self.world.disk_error(
                self.host,
                "cache",
                DiskFault::BadRange { offset: at, len: 4096 },
            ),
            _ => self.world.flip_bits(self.host, "cache", at + self.rng.below(90), 1),
        }
        Some(is_open)
    }

    /// Opens the group as somebody does who knows that others have all of it; until power fails, if
    /// it does.
    fn begin_log_anew(&mut self, cut_off: Option<Duration>, tolerance: Tolerance) {
        let (oracle, setup) = (Rc::clone(&self.oracle), self.setup);
        self.world.boot(self.host, move |env| {
            Box::pin(async move {
                let options = direct_options(Mutations::default(), setup.pages);
                let spec = spec(setup.devices);
                let group = DiskGroup::open_without(&env, &spec, options, &tolerance).await;
                let group = group.expect("others have all that it had");
                let audit = group.audit().unwrap_or_else(|error| panic!("begun anew: {error}"));
                assert_eq!(audit.in_transit, 0, "chunks with no place");
                check_capacity(&group, &oracle).await;
                group.close().await;
            })
        });
        match cut_off {
            Some(after) => {
                self.world.run_for(after);
                self.world.crash(self.host);
            }
            None => {
                let (world, host) = (&self.world, self.host);
                assert!(world.run_until(HOUR, || world.is_finished(host)), "opening ends");
                world.kill(host);
            }
        }
    }

    /// All that a group with these devices holds.
    fn components_on_media(&mut self) -> Set<ComponentId> {
        let (found, setup) = (Rc::new(RefCell::new(Set::new())), self.setup);
        let place = Rc::clone(&found);
        self.world.boot(self.host, move |env| {
            Box::pin(async move {
                let options = direct_options(Mutations::default(), setup.pages);
                let group = DiskGroup::open(&env, &spec(setup.devices), options).await;
                place.borrow_mut().extend(group.expect("nothing has rotted").components());
            })
        });
        let (world, host) = (&self.world, self.host);
        assert!(world.run_until(HOUR, || world.is_finished(host)), "opening ends");
        // What was not flushed is settled: else a summary could come back from its rot.
        world.crash(host);
        found.take()
    }

    fn with_a_lost_header(mut self, outcome: &mut Outcome) {
        assert!(self.live_with(Promise::All));
        self.run_to_a_moment();
        self.end();
        // The load makes components of its own: those of the media, not of the last moment.
        let found = self.components_on_media().into_iter();
        let may_lose_log = found.map(|id| (id, Version(u64::MAX))).collect();
        let all = Tolerance { may_lose_log, ..Tolerance::default() };
        let Some(is_open) = self.rot_what_nobody_knows() else { return };
        outcome.headers += 1;
        if self.live_with(Promise::Named(0)) {
            assert!(!is_open, "a header that was acknowledged is taken for none");
            return self.world.kill(self.host);
        }
        let refused = self.signs.refused.borrow().clone().expect("it did not open");
        if !is_open && matches!(refused, GroupError::Device { .. }) {
            // Its place is the next segment's: nobody can tell whether that was begun.
            return;
        }
        assert!(refused.is_rotten_log(), "{refused}");
        outcome.refused += 1;
        while self.rng.below(2) == 0 {
            let after = Duration::from_micros(self.rng.below(8000));
            self.begin_log_anew(Some(after), all.clone());
        }
        self.begin_log_anew(None, all);
        // Nothing of the old log is found again, by whomever.
        self.begin_log_anew(None, Tolerance::default());
    }
}

#[test]
fn a_log_that_others_do_not_need_is_begun_anew() {
    let mut outcome = Outcome::default();
    for seed in seeds() {
        Case::new(seed, Mutations::default()).with_a_lost_header(&mut outcome);
    }
    let is_enough = outcome.refused > 10 && outcome.headers > 20;
    assert!(is_enough || asked("DISKGROUP_SEEDS").is_some(), "{outcome:?}");
}
