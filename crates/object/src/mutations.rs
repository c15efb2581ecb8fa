// SPDX-License-Identifier: Apache-2.0
//! Rules that campaigns break on purpose, as in docs/protocol.md#what-happens-without-a-rule. A
//! campaign that does not find the damage is too weak.
//!
//! Builds for production contain none of this: see `base::mutations!`.

base::mutations! {
    /// A write is answered when the first component has it.
    answer_before_all: "5",
    /// A read is answered without a look at the lease.
    no_lease_check: "12",
    /// A take-over serves before the unreached components are marked absent.
    serve_before_absent: "26",
    /// A take-over leaves the tails as they are.
    no_reconcile: "27",
    /// Writes complete without a component before the CAS is known to have won.
    complete_before_absent: "15",
    /// `left` is the newest lsn given, not K.
    left_from_new_term: "17",
    /// The returning component's own changes are not looked at.
    forget_own_tail: "33",
    /// A write that missed the target, in flight at its return or completed without it,
    /// does not make its range dirty.
    forget_missed_write: "32",
    /// A range leaves dirty when its copy is answered.
    clear_dirty_at_answer: "32",
    /// A copy takes no range lock.
    copy_without_lock: "34",
    /// The target is required only after the CAS was learned.
    require_after_active: "35",
    /// Reads do not wait for overlapping writes.
    reads_do_not_wait: "10",
    /// Replicas take frames of any term.
    no_term_check: "8",
    /// Replicas answer when they received, not when it is durable.
    answer_when_received: "4",
    /// Replicas take frames of any seat and session.
    no_seat_check: "9",
    /// A fence is answered before the appends in flight are drained.
    fence_without_drain: "24",
    /// The term of a fence is not made durable.
    term_not_durable: "24",
    /// A fence does not wait for the grant to the old owner to run out.
    fence_ignores_grants: "52b",
    /// A restarted replica takes what it does not remember for not granted.
    forget_grants: "52b",
    /// One grant is enough, whosever.
    any_grant: "52a",
    /// A grant that was won again counts without a look at who was there in between.
    regain_without_look: "21",
    /// Components on their way back are read from.
    joining_serves: "37",
    /// K is raised by reconciliation before its copies are everywhere.
    raise_commit_early: "6",
    /// An owner takes clients' frames of any term.
    no_client_term_check: "43",
    /// A write that was sent again is written again.
    write_again: "46",
    /// A run numbers its writes as if no run before it could have had its number.
    number_as_before: "46",
    /// Reconciliation copies say nothing about requests.
    unmarked_copies: "46",
    /// A new owner takes the clients' requests from another component than the one it goes on from.
    clients_of_another: "46",
    /// A returning component is not told whose requests it has.
    forget_clients: "46",
    /// What was not answered when a link broke is not sent again; it counts as durable.
    forget_unanswered: "14",
    /// An owner that lost an object while it lives says nothing to the components.
    never_consent: "52b",
    /// A hand-over does not wait for writes in flight, and the next owner takes the
    /// record's word for it that all tails are empty.
    hand_over_undrained: "53",
    /// A repair takes no range lock.
    repair_without_lock: "13",
    /// A component that lost its write buffer does not say so.
    hide_loss: "19",
    /// A component believes every record with higher numbers than it saw.
    believe_any_record: "25",
    /// What the target holds and the source does not stays on the target.
    forget_discarded: "30",
    /// Writes complete without a component that is being replaced before the CAS is known to have
    /// won.
    complete_before_replaced: "39",
    /// A new component becomes active without what was written before it was added.
    join_unfilled: "38",
    /// A move is made although the object has other components than it was decided by.
    move_as_it_was: "38",
    /// A component that is being replaced is deleted before the CAS is known to have won.
    delete_before_replaced: "40",
    /// An owner admits writes of any epoch.
    admit_any_epoch: "54",
    /// A take-over of the writer is told as done before the objects' records have its epoch.
    told_before_done: "56",
    /// The new writer writes before the objects' records have its epoch.
    write_before_done: "57",
}
