// SPDX-License-Identifier: Apache-2.0
//! The grants that other hosts gave to this one (rule 52): asked for again and again while an
//! owner here needs them, and valid by the local clock only (rule 48). The renewals run on the
//! shard itself: one that has stopped turning renews nothing (rule 49).

use crate::options::ObjectOptions;
use base::{Incarnation, Instant, Map, ShardId};
use env::{Env, Notify, Task};
use peer::Peers;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use wire::{Request, Response};

/// Between two attempts while a host does not answer.
const RETRY: Duration = Duration::from_millis(200);

/// One grant per host that somebody here needs.
#[derive(Clone)]
pub(crate) struct HeldGrants(Rc<HeldInner>);

struct HeldInner {
    env: Env,
    peers: Peers,
    options: ObjectOptions,
    hosts: RefCell<Map<ShardId, Held>>,
    changed: Notify,
}

struct Held {
    /// Legs that need it.
    needs: usize,
    grant: Option<Grant>,
    hurry: Notify,
    _renewal: Task,
}

#[derive(Clone, Copy)]
struct Grant {
    sent: Instant,
    until: Instant,
    incarnation: Option<Incarnation>,
    epoch: u64,
}

impl HeldGrants {
    pub(crate) fn new(env: &Env, peers: &Peers, options: &ObjectOptions) -> Self {
        Self(Rc::new(HeldInner {
            env: env.clone(),
            peers: peers.clone(),
            options: options.clone(),
            hosts: RefCell::default(),
            changed: Notify::default(),
        }))
    }

    /// One more leg needs the grant of `host`.
    pub(crate) fn need(&self, shard: ShardId) {
        let mut hosts = self.0.hosts.borrow_mut();
        if let Some(held) = hosts.get_mut(&shard) {
            held.needs += 1;
            return;
        }
        let hurry = Notify::default();
        let inner = Rc::downgrade(&self.0);
        let renewal = self.0.env.spawn("grant", renew(inner, shard, hurry.clone()));
        hosts.insert(shard, Held { needs: 1, grant: None, hurry, _renewal: renewal });
    }

    /// One leg less; the last one gives the grant back, so that nobody has to wait for its end.
    pub(crate) fn release(&self, shard: ShardId) {
        let mut hosts = self.0.hosts.borrow_mut();
        let Some(held) = hosts.get_mut(&shard) else { return };
        held.needs -= 1;
        if held.needs > 0 {
            return;
        }
        let held = hosts.remove(&shard);
        drop(hosts);
        drop(held);
        // The grant is removed, so no component of that host counts as covered any more. That makes
        // the Release true when it is sent (rule 52b). Nobody needs its answer. What matters is its
        // place in the queue: behind every earlier renewal and before every later one.
        drop(self.0.peers.call(shard, Request::Release));
    }

    /// Whether a component on `host` that was fenced in that run at that grant epoch is covered
    /// right now (rules 12, 52a).
    pub(crate) fn covers(
        &self,
        shard: ShardId,
        incarnation: Option<Incarnation>,
        epoch: u64,
    ) -> bool {
        self.grant(shard).is_some_and(|grant| {
            let is_same = grant.incarnation == incarnation && grant.epoch == epoch;
            let is_blind = self.0.options.mutations.regain_without_look();
            self.0.env.now() < grant.until && (is_same || is_blind)
        })
    }

    /// Whether a grant that was asked for after `at` is of another run or epoch: a component
    /// fenced at `at` must be fenced again before it is covered.
    pub(crate) fn has_newer(
        &self,
        shard: ShardId,
        at: Instant,
        incarnation: Option<Incarnation>,
        epoch: u64,
    ) -> bool {
        self.grant(shard).is_some_and(|grant| {
            grant.sent > at && (grant.incarnation, grant.epoch) != (incarnation, epoch)
        })
    }

    /// Whether a disk group of `host` went out of service since a component there was fenced at
    /// `epoch` in that run: its conversation may be forgotten (see [`crate::grants`]).
    pub(crate) fn has_closed_since(
        &self,
        shard: ShardId,
        incarnation: Option<Incarnation>,
        epoch: u64,
    ) -> bool {
        self.grant(shard).is_some_and(|grant| {
            grant.incarnation == incarnation && grant.epoch >> 32 > epoch >> 32
        })
    }

    fn grant(&self, shard: ShardId) -> Option<Grant> {
        self.0.hosts.borrow().get(&shard).and_then(|held| held.grant)
    }

    /// Somebody waits for a grant of `host`: the next renewal begins now, or [`RETRY`] after the
    /// last one ended if that is later.
    pub(crate) fn hurry(&self, shard: ShardId) {
        if let Some(held) = self.0.hosts.borrow().get(&shard) {
            held.hurry.notify();
        }
    }

    /// A grant came.
    pub(crate) fn changed(&self) -> &Notify {
        &self.0.changed
    }

    /// Ends every renewal.
    pub(crate) fn stop(&self) {
        let shards = std::mem::take(&mut *self.0.hosts.borrow_mut());
        drop(shards);
    }
}

async fn renew(inner: Weak<HeldInner>, shard: ShardId, hurry: Notify) {
    loop {
        let Some(this) = inner.upgrade() else { return };
        let (env, options) = (this.env.clone(), this.options.clone());
        // Rule 48: the clock is read before the request leaves.
        let sent = env.now();
        let incarnation = this.peers.incarnation(shard);
        let call = this.peers.call(shard, Request::Renew { sent });
        drop(this);
        let answer = env.timeout(options.lease_ttl, call).await;
        let Some(this) = inner.upgrade() else { return };
        let pause = match answer {
            Ok(Ok(Response::Granted { ttl_ms, grant_epoch, .. }))
                if incarnation == this.peers.incarnation(shard) =>
            {
                let until = valid_until(sent, ttl_ms, &options);
                if until <= env.now() + options.lease_renew {
                    base::hit(base::Probe::GrantCameLate);
                }
                let grant = Grant { sent, until, incarnation, epoch: grant_epoch };
                if let Some(held) = this.hosts.borrow_mut().get_mut(&shard) {
                    held.grant = Some(grant);
                }
                this.changed.notify();
                options.lease_renew
            }
            _ => RETRY,
        };
        drop(this);
        let hurried = hurry.wait();
        env.sleep(pause.min(RETRY)).await;
        env::select(hurried, env.sleep(pause.saturating_sub(RETRY))).await;
    }
}

/// Rule 48: t0 + TTL (1 - 2 rho) - margin.
fn valid_until(sent: Instant, ttl_ms: u32, options: &ObjectOptions) -> Instant {
    let ttl = Duration::from_millis(u64::from(ttl_ms));
    let kept = u128::from(1_000_000_u32.saturating_sub(options.rho_ppm.saturating_mul(2)));
    let nanos = ttl.as_nanos() * kept / 1_000_000;
    let length = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    sent + length.saturating_sub(options.lease_margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 48.
    #[test]
    fn a_grant_ends_early_by_drift_and_margin() {
        let options = ObjectOptions::default();
        let until = valid_until(Instant(1_000), 6000, &options);
        // 6 s less 0.2 % less 300 ms.
        assert_eq!(until, Instant(1_000 + 5_688_000_000));
        assert_eq!(valid_until(Instant(5), 1, &options), Instant(5), "never before it was asked");
    }
}
