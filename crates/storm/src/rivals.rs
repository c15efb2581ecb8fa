// SPDX-License-Identifier: Apache-2.0
//! Clients of several hosts that write the same few sectors at once, and the story about them.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::workload::Meeting;
use base::{BLOCK_SECTORS, Probe, Rng, SectorRange};
use std::rc::Rc;
use std::time::Duration;

/// The random numbers of this story.
const STREAM: u64 = 18;
/// Longest wait for two writes that overlap.
const RIVALS_MAX: Duration = Duration::from_secs(2);

impl SeedRun {
    /// Tells a part of a story with random numbers of its own stream.
    pub(crate) fn with_stream<T>(&mut self, salt: u64, tell: impl FnOnce(&mut Self) -> T) -> T {
        let seed = self.rng.next_u64();
        let usual = std::mem::replace(&mut self.rng, Rng::stream(seed, salt));
        let told = tell(self);
        self.rng = usual;
        told
    }

    /// The same, while the clients of the round's volume meet in a few blocks.
    pub(crate) fn while_they_meet<T>(&mut self, salt: u64, tell: impl FnOnce(&mut Self) -> T) -> T {
        self.with_stream(salt, |run| {
            run.meet();
            let told = tell(run);
            run.part();
            told
        })
    }

    /// From now on the clients of the round's volume meet in a few blocks, with hardly a pause.
    fn meet(&mut self) {
        let sectors = self.plan.volumes[self.focus].sectors;
        let all = sectors.div_ceil(BLOCK_SECTORS);
        let blocks = (1 + self.one_of(4)).min(all);
        let first = self.one_of(all - blocks + 1) * BLOCK_SECTORS;
        let count = (blocks * BLOCK_SECTORS).min(sectors - first);
        let meeting = Meeting {
            range: SectorRange::new(first, count),
            pause_max: Duration::from_millis(4 << self.one_of(5)),
        };
        self.shared[self.focus].meeting.set(Some(meeting));
    }

    /// The clients of all volumes go their own ways again.
    fn part(&self) {
        self.shared.iter().for_each(|shared| shared.meeting.set(None));
    }

    /// Breaks links, connections and hosts while a client's write is under way and an overlapping
    /// one of another host is too: one of the two waits behind the other. What was sent over a
    /// broken link is sent again, before, while or after the other one is carried out.
    pub(crate) fn queued_rival(&mut self) -> Result<(), Violation> {
        self.while_they_meet(STREAM, Self::rivals)
    }

    fn rivals(&mut self) -> Result<(), Violation> {
        for _ in 0..3 + self.one_of(8) {
            let Some(roles) = self.roles() else { return self.pass(0, 2000) };
            let clients = self.plan.volumes[self.focus].clients.clone();
            let others: Vec<_> =
                clients.iter().copied().filter(|host| *host != roles.owner).collect();
            let Some(&host) = others.get(self.below(others.len())) else {
                return self.pass(0, 2000);
            };
            self.slow_down(roles.owner, roles.replica);
            self.pass(10, 400)?;
            self.break_off(host, roles.owner, roles.replica)?;
            // The next blow may fall on the attempt that follows, or on its successor.
            let most = [3, 30, 400, 3000][self.below(4)];
            self.pass(0, most)?;
            self.strike(host, roles.owner)?;
            self.pass(0, most)?;
            if self.one_of(3) > 0 {
                self.recover()?;
            }
        }
        self.decisive();
        self.pass(0, 3000)
    }

    fn below(&mut self, count: usize) -> usize {
        let ways = u64::try_from(count).unwrap_or(1).max(1);
        usize::try_from(self.one_of(ways)).unwrap_or(0)
    }

    /// Writes take longer, so that more of them are under way and wait for each other.
    fn slow_down(&mut self, owner: usize, replica: usize) {
        match self.one_of(4) {
            0 => self.slow_cache(owner),
            1 => self.slow_cache(replica),
            2 => {
                let delay = Duration::from_micros(self.rng.between(100, 30_000));
                self.cluster.world.clog(self.key(owner), self.key(replica), delay);
            }
            _ => {}
        }
    }

    /// Waits until a write of `host` and one of another host overlap, and resets links then.
    fn break_off(&mut self, host: usize, owner: usize, replica: usize) -> Result<(), Violation> {
        let is_met = self.until_rivals(host)?;
        let (key, owner, replica) = (self.key(host), self.key(owner), self.key(replica));
        let world = self.cluster.world.clone();
        if is_met {
            base::hit(Probe::RivalAtReset);
        }
        match self.one_of(6) {
            0..3 => {
                self.faults.add(Fault::Reset);
                world.reset_links(key, owner);
            }
            3 => {
                self.faults.add(Fault::HalfReset);
                world.half_reset_links(key, owner);
            }
            4 => {
                // The link between the copies breaks: what the replica has not answered is sent
                // again (rule 14), and the rival waits for it.
                self.faults.add(Fault::Reset);
                world.reset_links(owner, replica);
            }
            _ => {
                // The answers get lost, the requests do not; then both.
                self.faults.add(Fault::OneWay);
                world.cut_one_way(owner, key, true);
                self.pass(0, 2500)?;
                world.reset_links(key, owner);
                world.partition(key, owner, false);
            }
        }
        Ok(())
    }

    /// A client hangs up, a host dies, or links are reset once more.
    fn strike(&mut self, host: usize, owner: usize) -> Result<(), Violation> {
        let clients = self.plan.volumes[self.focus].clients.clone();
        let any = clients[self.below(clients.len())];
        match self.one_of(12) {
            0..3 => {
                let is_met = self.until_rivals(any)?;
                if is_met {
                    base::hit(Probe::RivalAtHangUp);
                }
                self.hang_up(any);
            }
            3 => self.take_down_somehow(host),
            4 | 5 => self.take_down_somehow(owner),
            6 => self.take_down_somehow(any),
            7 => self.isolate(owner),
            8 | 9 => {
                self.faults.add(Fault::Reset);
                self.cluster.world.reset_links(self.key(host), self.key(owner));
            }
            _ => {}
        }
        Ok(())
    }

    /// All clients of a host hang up whose writes are under way.
    fn hang_up(&mut self, host: usize) {
        self.faults.add(Fault::HangUp);
        let shared = &self.shared[self.focus];
        shared.leaves.set(u32::try_from(host).ok());
        shared.hang_up.notify();
        let world = self.cluster.world.clone();
        // They wake when their hosts run next.
        for machine in &self.cluster.machines {
            drop(world.env(machine.key));
        }
    }

    fn recover(&mut self) -> Result<(), Violation> {
        self.cluster.world.heal_all();
        for index in 0..self.cluster.machines.len() {
            self.clear_disks(index);
            self.boot_if_down(index);
        }
        self.pass(0, 4000)
    }

    /// Runs until a write of `host` and one of another host overlap. Returns whether they do.
    fn until_rivals(&mut self, host: usize) -> Result<bool, Violation> {
        let shared = Rc::clone(&self.shared[self.focus]);
        let host = u32::try_from(host).unwrap_or(u32::MAX);
        let is_met = || shared.oracle.borrow().has_rivals(host);
        let is_met = self.cluster.world.run_until(RIVALS_MAX, is_met);
        self.check()?;
        Ok(is_met)
    }
}
