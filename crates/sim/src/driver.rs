// SPDX-License-Identifier: Apache-2.0
//! The driver below each simulated process: one process's view of the world.

use crate::world::WorldInner;
use base::{Instant, LateFrame, Quirk, WallTime};
use env::{Completion, Driver, Op, Token};
use std::rc::Weak;
use std::time::Duration;

/// 2026-01-01 in nanoseconds since 1970. A host's wall clock shows this plus the time of the host's
/// own clock, which counts from a while before its boot.
const EPOCH: u64 = 1_767_225_600 * 1_000_000_000;

/// The driver of one process of one host. It does nothing once its process or its world is gone.
pub struct SimDriver {
    world: Weak<WorldInner>,
    host: u32,
    process: u32,
}

impl SimDriver {
    pub(crate) fn new(world: Weak<WorldInner>, host: u32, process: u32) -> Self {
        Self { world, host, process }
    }
}

impl Driver for SimDriver {
    fn now(&self) -> Instant {
        let Some(world) = self.world.upgrade() else { return Instant(0) };
        world.core.borrow().host_now(self.host)
    }

    /// Stands still, because computing takes no time here.
    fn coarse(&self) -> Instant {
        Instant(0)
    }

    fn wall(&self) -> WallTime {
        let Some(world) = self.world.upgrade() else { return WallTime(EPOCH) };
        let core = world.core.borrow();
        let host = &core.hosts[self.host as usize];
        let nanos = EPOCH + host.clock.read(core.now).0;
        WallTime(nanos.saturating_add_signed(host.wall_offset))
    }

    fn quirk(&mut self, quirk: Quirk) -> bool {
        let Some(world) = self.world.upgrade() else { return false };
        world.core.borrow_mut().quirk(quirk)
    }

    fn delay_of(&mut self, frame: LateFrame) -> Duration {
        let Some(world) = self.world.upgrade() else { return Duration::ZERO };
        world.core.borrow_mut().delay_of(self.host, frame)
    }

    fn entropy(&mut self) -> u64 {
        let Some(world) = self.world.upgrade() else { return 0 };
        world.core.borrow_mut().rng.boot.next_u64()
    }

    fn submit(&mut self, token: Token, op: Op) {
        let Some(world) = self.world.upgrade() else { return };
        let mut core = world.core.borrow_mut();
        let process = self.process;
        if !core.processes[process as usize].is_live {
            return;
        }
        match op {
            Op::OpenDisk(options) => core.open_disk(process, token, options),
            Op::Read { disk, .. }
            | Op::Write { disk, .. }
            | Op::Flush { disk }
            | Op::Discard { disk, .. } => core.disk_submit(process, token, disk, op),
            Op::LookAtDisk { disk, path } => core.look_at_disk(process, token, disk, &path),
            Op::AskHardware { path } => core.ask_hardware(process, token, &path),
            Op::CloseDisk { disk } => core.close_disk(process, token, disk),
            Op::Listen { address, access: _ } => core.listen(process, token, address),
            Op::Accept { listener } => core.accept(process, token, listener),
            Op::Dial { address } => core.dial(process, token, address),
            Op::Send { link, from } => core.send(process, token, link, from),
            Op::Recv { link, into, at } => core.recv(process, token, link, into, at),
            Op::Close { link } => core.close(process, token, link),
            Op::CloseListener { listener } => core.close_listener(process, token, listener),
        }
    }

    fn cancel(&mut self, token: Token) {
        let Some(world) = self.world.upgrade() else { return };
        let mut core = world.core.borrow_mut();
        if core.processes[self.process as usize].is_live {
            core.cancel(self.process, token);
        }
    }

    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) {
        assert_eq!(until, Some(Instant(0)), "a simulated shard is turned by its world, not run");
        let Some(world) = self.world.upgrade() else { return };
        world.core.borrow_mut().harvest(self.process, done);
    }
}
