// SPDX-License-Identifier: Apache-2.0
//! Time-outs and bounds of the protocol.

use crate::mutations::Mutations;
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
    /// Switches for tests that must fail.
    pub mutations: Mutations,
}

/// From which of its active copies an owner reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// From the copy on its own host where there is one: nothing crosses the network.
    #[default]
    Nearest,
    /// Each region of 1 MiB from one copy, always the same: the read caches of the hosts do not
    /// hold the same data twice (hybrid groups).
    Chosen,
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
            mutations: Mutations::default(),
        }
    }
}
