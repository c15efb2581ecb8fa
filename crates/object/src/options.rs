// SPDX-License-Identifier: Apache-2.0
//! Time-outs and bounds of the protocol.

use crate::mutations::Mutations;
use base::CHUNK_BLOCKS;
use std::time::Duration;

/// How an [`crate::Objects`] behaves. `Default` is what production runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Without an answer for this long after a break, a component is marked absent (rule 14).
    pub stall: Duration,
    /// Without any link to its host for this long, a component's process is taken for dead, which
    /// is known sooner than `stall`.
    pub dead_after: Duration,
    /// Without an ack for this long on a link that lives (a full write buffer), a component is
    /// marked absent.
    pub progress: Duration,
    /// While nothing is written to it, a component whose host is gone is left alone for this long
    /// (rule 18).
    pub idle: Duration,
    /// Lifetime of a grant, by the clock of the replica's host (rule 48).
    pub lease_ttl: Duration,
    /// How often a grant is renewed.
    pub lease_renew: Duration,
    /// Largest clock drift between two hosts, parts per million (rule 48).
    pub rho_ppm: u32,
    /// Taken off every grant (rule 48).
    pub lease_margin: Duration,
    /// How long a read waits for a grant before it is given back to the caller to try again.
    pub lease_wait: Duration,
    /// How long one `acquire` tries before it reports `Inaccessible`.
    pub acquire_wait: Duration,
    /// How long a component that is being resynced may leave the clients' writes unanswered before
    /// they complete without it and make their ranges dirty again (rule 32). Twice as long at each
    /// further attempt to end the resync, up to `stall`.
    pub join_wait: Duration,
    /// With so many bytes left to copy or fewer, new writes go to a component that is being
    /// resynced too; before, they make their ranges dirty and nobody waits for it. As many bytes of
    /// them may be without its answer meanwhile; further ones wait.
    pub join_bytes: u64,
    /// Bytes of client writes that the owners on this host have under way; further ones wait. As
    /// many again may be on their way to owners elsewhere. One object may have a quarter of it.
    pub write_bytes: u64,
    /// So often an owner looks which replicas were told less than K, and tells them (CommitInfo).
    pub commit_idle: Duration,
    /// First damping step of a returning component (rule 18), doubled with each absence.
    pub damping: Duration,
    /// How long the first host waits before it adopts an object whose owner is gone.
    pub adopt_after: Duration,
    /// From which of its active copies a range is read.
    pub read_from: ReadFrom,
    /// Bounds of lists, pieces and parallelism.
    pub limits: ObjectLimits,
    /// Switches for tests that must fail.
    pub mutations: Mutations,
}

/// From which of its active copies an owner reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// From the copy on its own host where there is one: nothing crosses the network.
    #[default]
    Nearest,
    /// Each region of 8 MiB from one copy, always the same: the read caches of the hosts do not
    /// hold the same data twice (hybrid groups).
    Chosen,
}

/// Bounds that production never meets with small volumes. Only tests change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLimits {
    /// Entries of a list of changes, of a tail or of block status in one frame, from 2 on,
    /// [`wire::LIST_MAX`] at most. Where a list is longer, neighbours become one entry.
    pub list_entries: usize,
    /// Blocks of one copy of a resync, 1 to a chunk's. The 256 KiB of production are long enough to
    /// be cheap, short enough not to be felt as a lock.
    pub copy_blocks: u64,
    /// Copies of a resync sent and not answered, at least 1. Their bytes are those of four of the
    /// longest at most: that keeps a link busy without filling the target's buffer. In production
    /// there are as many short ones as a group commits at a time, so that what was written here and
    /// there does not wait for a slow target's latency four by four.
    pub copies: usize,
    /// Copies of a take-over in one lot, at least 1. The next lot begins when all are durable. A
    /// tail is at most what was in flight, so the four of production are plenty.
    pub tail_copies: usize,
    /// Resyncs at a time on one host, at least 1: each copies up to 1 MiB at once, so that a
    /// returned host's hundreds of objects do not fill every buffer together. Others wait for their
    /// turn.
    pub resyncs: u64,
    /// Client requests of one host for one object under way, at least 1; beyond it they are refused
    /// as busy, and that host tries again. The 4096 of production are far above any queue depth
    /// that a volume uses.
    pub forwarded: usize,
}

impl Default for ObjectLimits {
    fn default() -> Self {
        Self {
            list_entries: wire::LIST_MAX,
            copy_blocks: 64,
            copies: 64,
            tail_copies: 4,
            resyncs: 4,
            forwarded: 4096,
        }
    }
}

impl ObjectLimits {
    /// Asserts that each limit is within its bounds.
    pub(crate) fn check(&self) {
        let entries = 2..=wire::LIST_MAX;
        assert!(entries.contains(&self.list_entries), "entries of a list");
        let blocks = 1..=CHUNK_BLOCKS;
        assert!(blocks.contains(&self.copy_blocks), "blocks of a copy");
        let counts = [self.copies, self.tail_copies, self.forwarded];
        assert!(!counts.contains(&0) && self.resyncs > 0, "a limit that lets nothing pass");
    }
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(2),
            dead_after: Duration::from_millis(300),
            progress: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            lease_ttl: Duration::from_secs(5),
            lease_renew: Duration::from_millis(1250),
            rho_ppm: 1000,
            lease_margin: Duration::from_millis(300),
            lease_wait: Duration::from_secs(2),
            acquire_wait: Duration::from_secs(10),
            join_wait: Duration::from_millis(100),
            join_bytes: 1 << 20,
            write_bytes: 64 << 20,
            commit_idle: Duration::from_millis(100),
            damping: Duration::from_secs(1),
            adopt_after: Duration::from_secs(3),
            read_from: ReadFrom::default(),
            limits: ObjectLimits::default(),
            mutations: Mutations::default(),
        }
    }
}
