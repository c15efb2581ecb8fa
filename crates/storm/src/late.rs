// SPDX-License-Identifier: Apache-2.0
//! A story about frames that are late by their kind, each within the time for which it counts.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::script::Roles;
use base::LateFrame;
use std::time::Duration;

/// The random numbers of this story.
const STREAM: u64 = 17;
/// A frame is late by so much at most, milliseconds.
const LATE_MAX_MS: u64 = 5000;

impl SeedRun {
    /// Grants and the directory's answers come late, and the owner is cut off: a grant that has
    /// just come may end soon. Clients elsewhere go on under a new owner; the old one must not
    /// answer any more by then (rules 12, 48, 52a).
    pub(crate) fn late_grants(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.while_they_meet(STREAM, |run| run.late_and_alone(roles))
    }

    fn late_and_alone(&mut self, roles: &Roles) -> Result<(), Violation> {
        let term = self.term();
        self.be_late(roles);
        // Some renewals, so that grants are about to end at any moment.
        self.pass(500, 9000)?;
        self.cut_off(roles);
        if self.one_of(4) > 0 {
            self.until_term(term)?;
            self.pass(0, 6000)?;
        } else {
            self.pass(2000, 15_000)?;
        }
        self.decisive();
        match self.one_of(4) {
            // It reaches its replicas again, but not yet the directory.
            0 => {
                for other in (0..self.cluster.machines.len()).filter(|at| *at != roles.owner) {
                    self.cut(roles.owner, other, false);
                }
            }
            1 => self.take_down_somehow(roles.replica),
            _ => {}
        }
        self.pass(0, 5000)
    }

    /// Makes some kinds of frames late. Who grants holds back what it is asked or what it answers.
    fn be_late(&mut self, roles: &Roles) {
        self.faults.add(Fault::LateFrames);
        let world = self.cluster.world.clone();
        let directory = self.cluster.directory;
        for host in (0..self.cluster.machines.len()).filter(|host| *host != roles.owner) {
            for frame in [LateFrame::Renewal, LateFrame::Grant] {
                world.late_frames(self.key(host), frame, self.lateness());
            }
        }
        for frame in [LateFrame::DirectoryAnswer, LateFrame::WatchEvents] {
            let most = if self.one_of(2) == 0 { self.lateness() } else { Duration::ZERO };
            world.late_frames(directory, frame, most);
        }
    }

    /// Half of the kinds are on time, the others late by up to 5 s.
    fn lateness(&mut self) -> Duration {
        let most = [0, 0, LATE_MAX_MS / 8, LATE_MAX_MS];
        let most = most[usize::try_from(self.one_of(4)).unwrap_or(0)];
        Duration::from_millis(self.one_of(most + 1))
    }

    /// The owner hears nobody; or it hears only a client's host that has no copy; or others hear
    /// it, and it hears nobody.
    fn cut_off(&mut self, roles: &Roles) {
        match self.one_of(4) {
            0 | 1 => self.isolate(roles.owner),
            2 => {
                self.isolate(roles.owner);
                self.cut(roles.owner, roles.rest, false);
            }
            _ => {
                let owner = self.key(roles.owner);
                let world = self.cluster.world.clone();
                for other in (0..self.cluster.machines.len()).filter(|at| *at != roles.owner) {
                    world.cut_one_way(self.key(other), owner, true);
                }
                world.cut_one_way(self.cluster.directory, owner, true);
            }
        }
    }
}
