// SPDX-License-Identifier: Apache-2.0
//! What all owners of a host share.

use crate::copy_limit::CopyLimit;
use crate::disks::Disks;
use crate::held::HeldGrants;
use crate::options::ObjectOptions;
use crate::replica::Replicas;
use base::{Incarnation, Map, Set, ShardId};
use directory::Directory;
use env::{Either, Env, Semaphore};
use peer::{PeerError, PeerId, Peers};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use wire::{Request, Response};

/// A host as it is for now: where this differs, what failed there before may go well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HostRun {
    /// Its run, as its links show it.
    pub(crate) incarnation: Option<Incarnation>,
    /// Revision of its record.
    pub(crate) record: u64,
}

/// See the module.
pub(crate) struct Context {
    pub(crate) env: Env,
    pub(crate) me: PeerId,
    pub(crate) directory: Directory,
    pub(crate) peers: Peers,
    pub(crate) leases: HeldGrants,
    pub(crate) disks: Disks,
    /// The components of this host, asked without a detour over the links.
    pub(crate) replicas: Rc<Replicas>,
    pub(crate) options: ObjectOptions,
    /// Bytes of client writes that this host's owners have under way.
    pub(crate) write_room: Semaphore,
    /// Bytes of client writes on their way to owners on other hosts: a room of its own, or two
    /// hosts that forward to each other could wait for each other for ever.
    pub(crate) forward_room: Semaphore,
    /// Resyncs at a time on this host, so that a returned host does not bring all at once.
    pub(crate) resync_room: Semaphore,
    /// What they may copy in a second, all together.
    pub(crate) copy_limit: CopyLimit,
    /// Bytes that they have copied, all together.
    pub(crate) copied: Cell<u64>,
    /// Which hosts the directory's lease keys say are alive: a hint only (rule 52d).
    pub(crate) alive: RefCell<Map<ShardId, Incarnation>>,
    /// Hosts that were taken out of the cluster: they never come back.
    pub(crate) removed: RefCell<Set<ShardId>>,
    /// Revisions of the hosts' records: a host whose disk groups change writes its record anew.
    pub(crate) hosts: RefCell<Map<ShardId, u64>>,
}

impl Context {
    /// The run of `host` as its links show it; my own is known.
    pub(crate) fn incarnation(&self, shard: ShardId) -> Option<Incarnation> {
        if shard == self.me.shard {
            Some(self.me.incarnation)
        } else {
            self.peers.incarnation(shard)
        }
    }

    /// How `host` is now.
    pub(crate) fn run(&self, shard: ShardId) -> HostRun {
        let record = self.hosts.borrow().get(&shard).copied().unwrap_or(0);
        HostRun { incarnation: self.incarnation(shard), record }
    }

    /// Asks the replicas of `host`: directly where that is this host, or else over its link. What
    /// depends on order has happened there, or is on its way, when this returns. A Fence does not
    /// go this way: it may end an owner on the host that it comes to.
    pub(crate) fn ask(
        &self,
        shard: ShardId,
        request: Request,
    ) -> impl Future<Output = Result<Response, PeerError>> + use<> {
        let asked = match shard == self.me.shard {
            true => Either::First(self.replicas.ask(self.me, request)),
            false => Either::Second(self.peers.call(shard, request)),
        };
        async move {
            match asked {
                Either::First(answer) => answer.await,
                Either::Second(call) => call.await,
            }
        }
    }

    /// Me, as the directory writes it.
    pub(crate) fn me_as_owner(&self) -> directory::OwnerRecord {
        directory::OwnerRecord { shard: self.me.shard, incarnation: self.me.incarnation }
    }
}
