// SPDX-License-Identifier: Apache-2.0
//! Which faults are in force, and since when there are none: for checkers that ask for how long a
//! part of the world has been undisturbed. Asking changes nothing.

use crate::core::Core;
use crate::host::HostKey;
use crate::world::World;
use base::Instant;

/// How a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostCondition {
    /// Its process has been running since then. It was never paused, and no device of it had a
    /// fault or a late call.
    Sound(Instant),
    /// It has had no process since then.
    Off(Instant),
    /// Its process is paused, or one of its devices has a fault or late calls.
    Disturbed,
}

/// How the way between two hosts is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathCondition {
    /// Since then everything has arrived in both directions and at full speed. Nobody has reset
    /// links.
    Clear(Instant),
    /// Since then nothing has arrived in either direction.
    Cut(Instant),
    /// Cut in one direction only, or slow.
    Disturbed,
}

impl Core {
    /// Something was done to a host, its process or its devices.
    pub(crate) fn disturb(&mut self, host: u32) {
        self.hosts[HostKey(host).index()].disturbed_at = self.now;
    }

    /// Something was done to the way between two hosts.
    pub(crate) fn disturb_path(&mut self, a: u32, b: u32) {
        let (a, b) = (HostKey(a).index(), HostKey(b).index());
        self.paths[a][b].disturbed_at = self.now;
        self.paths[b][a].disturbed_at = self.now;
    }
}

impl World {
    /// How a host is. Wall clocks and drift are not looked at.
    #[must_use]
    pub fn condition(&self, host: HostKey) -> HostCondition {
        let core = self.0.core.borrow();
        let state = &core.hosts[host.index()];
        if state.process.is_none() {
            return HostCondition::Off(Instant(state.disturbed_at));
        }
        let has_fault = core.disks.iter().any(|disk| disk.host == host.0 && disk.is_faulty());
        let is_late = core.late.keys().any(|(of, ..)| *of == host.0);
        if state.paused_until > core.now || has_fault || is_late {
            return HostCondition::Disturbed;
        }
        HostCondition::Sound(Instant(state.disturbed_at.max(state.paused_until)))
    }

    /// How the way between two hosts is.
    #[must_use]
    pub fn path_condition(&self, a: HostKey, b: HostKey) -> PathCondition {
        let core = self.0.core.borrow();
        let (to, from) = (core.paths[a.index()][b.index()], core.paths[b.index()][a.index()]);
        let since = Instant(to.disturbed_at.max(from.disturbed_at));
        match (to.is_cut, from.is_cut) {
            (true, true) => PathCondition::Cut(since),
            (false, false) if to.clog == 0 && from.clog == 0 => PathCondition::Clear(since),
            _ => PathCondition::Disturbed,
        }
    }
}
