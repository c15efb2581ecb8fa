// SPDX-License-Identifier: Apache-2.0
//! Whether the other end of each link is still there.
//!
//! Who has sent nothing on a link for a while sends a ping, and gets a pong, once the two ends have
//! agreed on a version. A link that is in use
//! is pinged twice a second. All that nobody uses share a budget of pings, so that a host of a
//! cluster with hundreds of others spends no more on them than one of a small cluster. A link on
//! which four pings bring nothing is over; whoever sends on one that was at rest learns that as
//! soon as on any other.

use crate::peers::PeersInner;
use crate::port::Port;
use std::rc::{Rc, Weak};
use std::time::Duration;
use wire::Message;

/// How often the links are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Who has sent nothing for so long on a link in use sends a ping.
const PING_AFTER: Duration = Duration::from_millis(500);
/// Pings without a sign of life after which a link is over.
const PINGS_UNHEARD: u32 = 4;

impl PeersInner {
    /// Time after which a link at rest is pinged.
    pub(crate) fn rest(&self) -> Duration {
        let links = u32::try_from(2 * self.remotes.borrow().len()).unwrap_or(u32::MAX);
        self.options.ping_spacing.saturating_mul(links).max(PING_AFTER)
    }

    /// Pings silent links, and ends those that stay so, for ever.
    pub(crate) async fn look_after(self: Rc<Self>) {
        let mut last = self.env.now();
        loop {
            self.env.sleep(TICK).await;
            let now = self.env.now();
            // If this shard itself stood still, it did not listen. Silence proves nothing then, so
            // the time of every link begins anew.
            let was_deaf = now.since(last) > PING_AFTER * PINGS_UNHEARD / 2;
            last = now;
            self.use_where_answers_are_awaited();
            let rest = self.rest();
            for port in self.living() {
                if was_deaf {
                    port.set_heard_at(now);
                }
                let ping_after = if port.is_in_use() { PING_AFTER } else { rest };
                if now.since(port.silent_since()) >= ping_after * PINGS_UNHEARD {
                    self.counters.silent.add(1);
                    port.die();
                } else if port.version().is_some()
                    && port.idle_since().is_some_and(|at| now.since(at) >= ping_after)
                {
                    port.post(0, Message::Ping);
                }
            }
        }
    }

    fn living(&self) -> Vec<Rc<Port>> {
        let mut ports = self.ports.borrow_mut();
        ports.retain(|port| port.upgrade().is_some_and(|port| !port.is_dead()));
        ports.iter().filter_map(Weak::upgrade).collect()
    }

    /// An answer may take longer than a link stays in use without a frame.
    fn use_where_answers_are_awaited(&self) {
        for remote in self.remotes.borrow().values() {
            if let Some(out) = &*remote.out.borrow()
                && out.awaits_answers()
            {
                out.port.use_now();
            }
        }
    }
}
