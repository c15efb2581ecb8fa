// SPDX-License-Identifier: Apache-2.0
//! Leases that replicas' hosts grant (rules 48-52): one grant per pair of hosts, for all objects.
//!
//! *Held* ([`Leases`]): the right of this host's owners to answer reads. *Given* ([`Grants`]): the
//! promise of this host's replicas not to let another owner in before a grant ran out.
//!
//! Why one grant per pair is enough although objects change hands one by one: the granter counts
//! an *epoch* per other host, raised in the same step in which it accepts a Fence by somebody else
//! for a component that was that host's. Every grant and every Fence answer carries the epoch. An
//! owner relies on a grant only while its epoch is that of the owner's own last Fence there. So
//! suppose host A owns object O and host C fences O at B:
//! 1. B lets C in only when A's grant has run out by B's clock (rule 52b), and raises the epoch;
//! 2. a grant that A got before has run out by A's clock first (rule 48);
//! 3. a grant that A gets later carries the new epoch: A's owner of O must fence B again before it
//!    relies on it, and is refused by its term. A's other objects are fenced again and go on.

use crate::options::ObjectOptions;
use base::{HostId, Incarnation, Instant, Map};
use env::{Env, Notify, TaskSet};
use peer::{PeerId, Peers};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Response};

/// A grant as its holder knows it.
#[derive(Clone, Copy, Debug)]
struct Held {
    incarnation: Incarnation,
    epoch: u64,
    until: Instant,
}

/// Grants that this host holds from others.
pub(crate) struct Leases {
    env: Env,
    peers: Peers,
    ttl_margin: (u32, Duration),
    renew: Duration,
    held: RefCell<Map<HostId, Held>>,
    /// How many legs need a host's grant; the renewal runs while there is one.
    needed: RefCell<Map<HostId, u32>>,
    changed: Notify,
    wanted: Notify,
    tasks: TaskSet,
}

impl Leases {
    /// Holds nothing yet; renews what is needed until the last clone is gone.
    pub(crate) fn new(env: &Env, peers: &Peers, options: &ObjectOptions) -> Rc<Self> {
        let leases = Rc::new(Self {
            env: env.clone(),
            peers: peers.clone(),
            ttl_margin: (options.rho_ppm, options.lease_margin),
            renew: options.lease_renew,
            held: RefCell::default(),
            needed: RefCell::default(),
            changed: Notify::default(),
            wanted: Notify::default(),
            tasks: TaskSet::default(),
        });
        let weak = Rc::downgrade(&leases);
        let (env, peers, pause) = (env.clone(), peers.clone(), leases.renew);
        let inner = env.clone();
        // Rule 49: the renewal runs on the shard that does the I/O: a stuck shard renews nothing.
        leases.tasks.spawn(&env, "lease renewal", async move {
            loop {
                let Some(leases) = weak.upgrade() else { return };
                let (link, wanted) = (peers.changes().wait(), leases.wanted.wait());
                leases.renew_all();
                drop(leases);
                let event = env::select(link, wanted);
                env::select(event, inner.sleep(pause)).await;
            }
        });
        leases
    }

    /// A leg to `host` exists: keep a grant of it.
    pub(crate) fn need(&self, host: HostId) {
        *self.needed.borrow_mut().entry(host).or_insert(0) += 1;
        self.wanted.notify();
    }

    /// A leg to `host` is gone.
    pub(crate) fn release(&self, host: HostId) {
        let mut needed = self.needed.borrow_mut();
        let Some(count) = needed.get_mut(&host) else { return };
        *count -= 1;
        if *count == 0 {
            needed.remove(&host);
        }
    }

    /// Wakes when a grant came.
    pub(crate) fn changed(&self) -> Notify {
        self.changed.clone()
    }

    /// The run and epoch of the newest grant of `host`, valid or not.
    pub(crate) fn epoch(&self, host: HostId) -> Option<(Incarnation, u64)> {
        self.held.borrow().get(&host).map(|held| (held.incarnation, held.epoch))
    }

    /// Whether reads may rely on `host` now, for a component that was fenced there in that run and
    /// at that epoch (rule 52a).
    pub(crate) fn covers(&self, host: HostId, incarnation: Incarnation, epoch: u64) -> bool {
        let held = self.held.borrow();
        held.get(&host).is_some_and(|held| {
            held.incarnation == incarnation && held.epoch == epoch && self.env.now() < held.until
        })
    }

    fn renew_all(self: &Rc<Self>) {
        let hosts: Vec<HostId> = self.needed.borrow().keys().copied().collect();
        for host in hosts.into_iter().filter(|host| self.peers.is_up(*host)) {
            let Some(incarnation) = self.peers.incarnation(host) else { continue };
            // Rule 48: the time before it is sent counts.
            let sent = self.env.now();
            let call = self.peers.call(host, Request::Renew { sent });
            let weak = Rc::downgrade(self);
            self.tasks.spawn(&self.env, "renew", async move {
                let Ok(Response::Granted { sent: echoed, ttl_ms, grant_epoch }) = call.await else {
                    return;
                };
                let Some(leases) = weak.upgrade() else { return };
                if echoed == sent {
                    let ttl = Duration::from_millis(ttl_ms.into());
                    leases.granted(host, incarnation, grant_epoch, sent, ttl);
                }
            });
        }
    }

    fn granted(
        &self,
        host: HostId,
        incarnation: Incarnation,
        epoch: u64,
        sent: Instant,
        ttl: Duration,
    ) {
        let (rho_ppm, margin) = self.ttl_margin;
        let until = sent + usable(ttl, rho_ppm).saturating_sub(margin);
        let mut held = self.held.borrow_mut();
        let is_newer = held.get(&host).is_none_or(|old| {
            (old.incarnation, old.epoch, old.until) < (incarnation, epoch, until)
        });
        if is_newer {
            held.insert(host, Held { incarnation, epoch, until });
        }
        drop(held);
        self.changed.notify();
    }
}

/// Rule 48: TTL (1 - 2 rho).
fn usable(ttl: Duration, rho_ppm: u32) -> Duration {
    ttl.saturating_sub(ttl * (2 * rho_ppm) / 1_000_000)
}

/// A grant as its giver knows it.
#[derive(Clone, Copy, Debug)]
struct Given {
    incarnation: Incarnation,
    until: Instant,
}

/// Grants that this host has given to others. Volatile: see [`Grants::wait`].
pub(crate) struct Grants {
    me: PeerId,
    ttl: Duration,
    /// What an earlier run may have granted has run out by then.
    amnesia_until: Instant,
    given: RefCell<Map<HostId, Given>>,
    epochs: RefCell<Map<HostId, u64>>,
    ignore: Cell<bool>,
}

impl Grants {
    pub(crate) fn new(env: &Env, me: PeerId, options: &ObjectOptions) -> Self {
        Self {
            me,
            ttl: options.lease_ttl,
            amnesia_until: env.now() + options.lease_ttl,
            given: RefCell::default(),
            epochs: RefCell::default(),
            ignore: Cell::new(options.mutations.fence_ignores_grants),
        }
    }

    /// Answers a Renew of `from` that arrived now.
    pub(crate) fn renew(&self, from: PeerId, sent: Instant, now: Instant) -> Response {
        let until = now + self.ttl;
        self.given
            .borrow_mut()
            .insert(from.host, Given { incarnation: from.incarnation, until });
        let ttl_ms = u32::try_from(self.ttl.as_millis()).unwrap_or(u32::MAX);
        Response::Granted { sent, ttl_ms, grant_epoch: self.epoch(from.host) }
    }

    /// `from` uses no grant of this host any more.
    pub(crate) fn release(&self, from: PeerId, now: Instant) {
        let given = Given { incarnation: from.incarnation, until: now };
        self.given.borrow_mut().insert(from.host, given);
    }

    /// The epoch that grants to `host` carry.
    pub(crate) fn epoch(&self, host: HostId) -> u64 {
        self.epochs.borrow().get(&host).copied().unwrap_or(0)
    }

    /// A component of `old` is given to somebody else now: call in the step that accepts the Fence.
    pub(crate) fn raise_epoch(&self, old: HostId) {
        *self.epochs.borrow_mut().entry(old).or_insert(0) += 1;
    }

    /// How long a Fence must wait because `old` may still answer reads (rule 52b); zero where it
    /// cannot: its grant has run out by this host's clock, or `newest`, the newest run of that
    /// host that was seen, is a later one (a host's devices are locked by one run at a time, so
    /// the older is dead). The owner on this very host needs no grant: whoever accepts the Fence
    /// stops it in the same step (52c). A run that began lately does not know what the run before
    /// it granted and waits a full grant time.
    pub(crate) fn wait(
        &self,
        old: PeerId,
        newest: Option<Incarnation>,
        now: Instant,
    ) -> Duration {
        let is_dead = newest.is_some_and(|newest| newest > old.incarnation);
        if self.ignore.get() || old.host == self.me.host || is_dead {
            return Duration::ZERO;
        }
        let given = self.given.borrow();
        let until = match given.get(&old.host) {
            Some(given) if given.incarnation >= old.incarnation => given.until,
            _ => self.amnesia_until,
        };
        until.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_ends_for_its_holder_first() {
        let ttl = Duration::from_secs(6);
        assert_eq!(usable(ttl, 1000), Duration::from_millis(5988));
        // Worst clocks: the holder's slow by rho, the granter's fast by rho.
        let holder = usable(ttl, 1000).as_secs_f64() / (1.0 - 0.001);
        assert!(holder < ttl.as_secs_f64() / (1.0 + 0.001));
    }
}
