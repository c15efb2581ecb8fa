// SPDX-License-Identifier: Apache-2.0
//! The version of each link, and the hosts with which there is none.
//!
//! While a cluster is upgraded, its hosts are of two releases. Each says in its introduction what
//! it speaks. Both ends take the newest version that both speak, for the life of the link. A host
//! that comes back in another release makes new links, and agrees anew.

use crate::PeerId;
use crate::peers::{NAMED_MAX, Peers, PeersInner, Remote};
use crate::port::PortFault;
use base::{Incarnation, Probe, ShardId};
use wire::Versions;

impl PeersInner {
    /// The version of a link with a host that has introduced itself.
    ///
    /// # Errors
    /// [`PortFault::Incompatible`], which is counted and, once for each run of that host, logged.
    pub(crate) fn agree(&self, peer: PeerId, theirs: Versions) -> Result<u8, PortFault> {
        let (ours, remote) = (self.options.versions, self.remote(peer.shard));
        if let Some(version) = ours.common(theirs) {
            base::hit_if(version < ours.max().max(theirs.max()), Probe::LinkOlder);
            remote.refused.set(None);
            return Ok(version);
        }
        self.counters.incompatible.add(1);
        if remote.is_refused_anew(peer.incarnation, theirs) {
            let shard = peer.shard;
            let older = if ours.max() < theirs.max() { "this one" } else { "the other one" };
            tracing::warn!(
                "host {shard} speaks wire {theirs}, this one {ours}: nothing is sent between them \
                 until {older} runs a release in between; upgrade one release at a time"
            );
        }
        Err(PortFault::Incompatible)
    }
}

impl Remote {
    /// Notes that no version is shared with a run of this host. Whether that is news: it dials
    /// twice a second, and is dialled as often.
    pub(crate) fn is_refused_anew(&self, run: Incarnation, theirs: Versions) -> bool {
        let refused = Some((run, theirs));
        self.refused.replace(refused) != refused
    }
}

impl Peers {
    /// The version of the link on which `host` is asked. What an older one does not know must not
    /// be sent there. `None` where there is no link; the newest one for the own host.
    #[must_use]
    pub fn version(&self, shard: ShardId) -> Option<u8> {
        if shard == self.0.me.shard {
            return Some(self.0.options.versions.max());
        }
        self.0.live(shard).and_then(|out| out.port.version())
    }

    /// Hosts that speak no version which this one speaks, with what they spoke when they were
    /// refused last; 64 at most. One that comes back in another release, or is no member any more,
    /// is not listed.
    #[must_use]
    pub fn incompatible(&self) -> Vec<(ShardId, Versions)> {
        let remotes = self.0.remotes.borrow();
        let refused =
            remotes.values().filter_map(|remote| Some((remote.shard, remote.refused.get()?.1)));
        refused.take(NAMED_MAX).collect()
    }
}
