// SPDX-License-Identifier: Apache-2.0
//! Time-outs of the protocol, and the switches that break one rule each on purpose.

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

/// One rule broken per switch, as in docs/protocol.md#what-happens-without-a-rule: a campaign that
/// does not find the damage is too weak. Never set outside tests.
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each named by its rule")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mutations {
    /// Rule 5: a write is answered when the first component has it.
    pub answer_before_all: bool,
    /// Rule 12: a read is answered without a look at the lease.
    pub no_lease_check: bool,
    /// Rules 24, 26: a take-over serves before the unreached components are marked absent.
    pub serve_before_absent: bool,
    /// Rule 27: a take-over leaves the tails as they are.
    pub no_reconcile: bool,
    /// Rule 15: writes complete without a component before the CAS is known to have won.
    pub complete_before_absent: bool,
    /// Rule 17: `left` is the newest lsn given, not K.
    pub left_from_new_term: bool,
    /// Rule 33: the returning component's own changes are not looked at.
    pub forget_own_tail: bool,
    /// Rule 32: a write that missed the target, in flight at its return or completed without it,
    /// does not make its range dirty.
    pub forget_missed_write: bool,
    /// Rule 32: a range leaves dirty when its copy is answered.
    pub clear_dirty_at_answer: bool,
    /// Rule 34: a copy takes no range lock.
    pub copy_without_lock: bool,
    /// Rule 35: the target is required only after the CAS was learned.
    pub require_after_active: bool,
    /// Rule 10: reads do not wait for overlapping writes.
    pub reads_do_not_wait: bool,
    /// Rule 8: replicas take frames of any term.
    pub no_term_check: bool,
    /// Rule 4: replicas answer when they received, not when it is durable.
    pub answer_when_received: bool,
    /// Rule 9: replicas take frames of any seat and session.
    pub no_seat_check: bool,
    /// Rule 24: a fence is answered before the appends in flight are drained.
    pub fence_without_drain: bool,
    /// Rule 24: the term of a fence is not made durable.
    pub term_not_durable: bool,
    /// Rule 52b: a fence does not wait for the grant to the old owner to run out.
    pub fence_ignores_grants: bool,
    /// Rule 52b: a restarted replica takes what it does not remember for not granted.
    pub forget_grants: bool,
    /// Rule 52a: one grant is enough, whosever.
    pub any_grant: bool,
    /// Rule 21: a grant that was won again counts without a look at who was there in between.
    pub regain_without_look: bool,
    /// Rule 37: components on their way back are read from.
    pub joining_serves: bool,
    /// Rule 6: K is raised by reconciliation before its copies are everywhere.
    pub raise_commit_early: bool,
    /// Rule 43: an owner takes clients' frames of any term.
    pub no_client_term_check: bool,
    /// Rule 46: a write that was sent again is written again.
    pub write_again: bool,
    /// Rule 46: reconciliation copies say nothing about requests.
    pub unmarked_copies: bool,
    /// Rule 46: a returning component is not told whose requests it has.
    pub forget_clients: bool,
    /// Rule 14: what was not answered when a link broke is not sent again; it counts as durable.
    pub forget_unanswered: bool,
    /// Rule 52b: an owner that lost an object while it lives says nothing to the components.
    pub never_consent: bool,
    /// Rule 53: a hand-over does not wait for writes in flight, and the next owner takes the
    /// record's word for it that all tails are empty.
    pub hand_over_undrained: bool,
    /// Rule 13: a repair takes no range lock.
    pub repair_without_lock: bool,
    /// Rule 19: a component that lost its write buffer does not say so.
    pub hide_loss: bool,
    /// Rule 25: a component believes every record with higher numbers than it saw.
    pub believe_any_record: bool,
    /// Rule 30: what the target holds and the source does not stays on the target.
    pub forget_discarded: bool,
}
