// SPDX-License-Identifier: Apache-2.0
//! Rules broken on purpose, one at a time. Where a search does not find the damage, either it is
//! too weak or the rule is not needed.

use super::setup::{Commits, Joiner, Lease, Order, Resend, Setup};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Rule 1: overlapping writes are in flight together; copies and reads still wait for them.
    OverlappingWrites,
    /// Rule 4: a component answers when it received, not when it is durable.
    AnswerWhenReceived,
    /// Rule 5: a write is answered when the first component has it.
    AnswerBeforeAll,
    /// Rule 6: K is raised by reconciliation before its copies are everywhere.
    RaiseCommitEarly,
    /// Rule 8: components take frames of any term.
    NoTermCheck,
    /// Rule 9: components take frames of any seat.
    NoSeatCheck,
    /// Rule 10: reads do not wait for overlapping writes.
    ReadsDoNotWait,
    /// Rule 12: a read is answered without a look at the lease.
    NoLeaseCheck,
    /// Rule 15: writes complete without a component before the CAS is known to have won.
    CompleteBeforeAbsent,
    /// Rule 17: `left` is an lsn of the new term, not K.
    LeftFromNewTerm,
    /// Rule 21: a lease that was won again counts without a look at the record.
    RegainWithoutLook,
    /// Rule 22: a take-over does not wait for the lease to end.
    TakeOverAtOnce,
    /// Rule 24: a fence is answered before what is in flight to the device is drained.
    FenceWithoutDrain,
    /// Rule 24: the term of a fence is not made durable.
    TermNotDurable,
    /// Rule 24: the first I/O does not wait until all active components are fenced or marked.
    ServeUnfenced,
    /// Rule 26: a take-over serves before the unreached components are marked absent.
    ServeBeforeAbsent,
    /// Rule 27: a take-over leaves the tails as they are.
    NoReconcile,
    /// Rule 32: a write that completed without the target does not make its block dirty.
    ForgetMissedWrite,
    /// Rule 32: a write that was kept from the target does not make its block dirty.
    ForgetDeferredWrite,
    /// Rule 32: a block leaves dirty when its copy is answered.
    ClearDirtyAtAnswer,
    /// Rule 33: the returning component's own changes are not looked at.
    ForgetOwnTail,
    /// Rule 34: a copy takes no range lock.
    CopyWithoutLock,
    /// Rule 34: a copy is applied over what is newer.
    CopyOverNewer,
    /// Rule 34: a copy carries the lsn that the source has.
    CopyWithOldLsn,
    /// Rule 34: where lsns are not compared, frames are applied in the order of their arrival.
    ArrivalOrder,
    /// Rule 35: the target is required only after the CAS was learned.
    RequireAfterActive,
    /// Rule 37: components that do not count are read and fenced as if they did.
    AbsentServes,
    /// Rule 38: a new component is made active before it was filled.
    JoinUnfilled,
    /// Rule 39: writes complete without the one that is replaced before the CAS is known to have
    /// won.
    CompleteBeforeReplaced,
    /// Rule 39: the data of the one that is replaced is deleted when the CAS is sent.
    DeleteBeforeKnown,
    /// Rule 40: a host's next component has the id of the one before.
    SameId,
    /// Rule 41a: the record is made anew while the owner of before has its lease.
    RecoverBesideLease,
    /// Rule 41a: whole components stay in the record that is made anew.
    KeepGivenUp,
    /// Rule 41a: components beside the chosen one keep their `left`.
    KeepLeft,
    /// Rule 41a: what was given up is deleted.
    DeleteGivenUp,
    /// Rule 46: a write that was sent again is written again.
    WriteAgain,
    /// Rule 52a: one grant is enough, from whichever host.
    AnyGrant,
    /// Rule 52b: a fence does not wait for the grant to the old owner to run out.
    FenceIgnoresGrants,
    /// Rule 52b: a restarted host acts as if grants that it does not remember had never been given.
    ForgetGrants,
}

/// A mutation, and the smallest setup known in which it does damage.
pub struct Known {
    /// The rule that is broken.
    pub mutation: Mutation,
    /// The name on the command line. It is the same as in `object::Mutations` where that has the
    /// switch.
    pub name: &'static str,
    /// The number of the rule.
    pub rule: &'static str,
    /// Where a search finds a counterexample.
    pub setup: Setup,
}

/// As implemented, with one write and no faults.
const TINY: Setup = Setup { lease: Lease::Grants, writes: 1, reads: 0, terms: 1, ..Setup::SMALL }
    .faults([0, 0, 0, 0]);
/// With a second owner.
const SECOND: Setup = Setup { terms: 2, ..TINY };
/// With a second owner that goes on without the first, and a read.
const LEFT_BEHIND: Setup = Setup { reads: 1, ..SECOND }.faults([0, 0, 1, 0]);
/// With a component that was absent and returns.
const RETURN: Setup = TINY.faults([0, 0, 1, 1]);
/// The same with a second owner.
const RETURN_LATER: Setup = SECOND.faults([0, 0, 1, 1]);
/// With a copy that moves to another host.
const MOVE: Setup = Setup { spare: 1, ..TINY }.faults([0, 0, 0, 1]).changes([1, 1]);
/// The same with a second owner.
const MOVE_LATER: Setup = Setup { terms: 2, ..MOVE };
/// With an operator who has the object go on from a copy that was absent.
const RECOVER: Setup = Setup { terms: 3, ..LEFT_BEHIND }.recoveries(1);
/// Components that keep to the order of their session.
const SESSION: Setup = Setup { order: Order::Session, writes: 2, ..RETURN };

const fn known(mutation: Mutation, name: &'static str, rule: &'static str, setup: Setup) -> Known {
    Known { mutation, name, rule, setup: Setup { mutation: Some(mutation), ..setup } }
}

const fn by_directory(setup: Setup) -> Setup {
    Setup { lease: Lease::Directory, ..setup }
}

/// Every mutation.
pub const MUTATIONS: &[Known] = &[
    known(
        Mutation::AnswerWhenReceived,
        "answer-when-received",
        "4",
        Setup { commits: Commits::InFlight, ..TINY },
    ),
    known(Mutation::AnswerBeforeAll, "answer-before-all", "5", TINY),
    known(Mutation::RaiseCommitEarly, "raise-commit-early", "6", RETURN_LATER),
    known(Mutation::NoTermCheck, "no-term-check", "8", SECOND),
    known(Mutation::NoSeatCheck, "no-seat-check", "9", SESSION),
    known(Mutation::ReadsDoNotWait, "reads-do-not-wait", "10", Setup { reads: 2, ..TINY }),
    known(
        Mutation::NoLeaseCheck,
        "no-lease-check",
        "12",
        by_directory(LEFT_BEHIND.faults([0, 1, 1, 0])),
    ),
    known(
        Mutation::CompleteBeforeAbsent,
        "complete-before-absent",
        "15",
        SECOND.faults([0, 0, 1, 0]),
    ),
    known(Mutation::LeftFromNewTerm, "left-from-new-term", "17", RETURN_LATER),
    known(
        Mutation::RegainWithoutLook,
        "regain-without-look",
        "21",
        by_directory(LEFT_BEHIND.faults([0, 1, 1, 0])),
    ),
    known(Mutation::TakeOverAtOnce, "take-over-at-once", "22", by_directory(LEFT_BEHIND)),
    known(
        Mutation::FenceWithoutDrain,
        "fence-without-drain",
        "24",
        Setup { commits: Commits::InFlight, ..SECOND },
    ),
    known(Mutation::TermNotDurable, "term-not-durable", "24", SECOND.faults([1, 0, 0, 1])),
    known(Mutation::ServeUnfenced, "serve-unfenced", "24", SECOND),
    known(
        Mutation::ServeBeforeAbsent,
        "serve-before-absent",
        "26",
        Setup { terms: 3, ..TINY }.faults([0, 1, 0, 0]),
    ),
    known(Mutation::NoReconcile, "no-reconcile", "27", SECOND),
    known(Mutation::ForgetMissedWrite, "forget-missed-write", "32", RETURN),
    known(
        Mutation::ForgetDeferredWrite,
        "forget-deferred-write",
        "32",
        Setup { joiner: Joiner::Deferred, ..RETURN },
    ),
    known(
        Mutation::ClearDirtyAtAnswer,
        "clear-dirty-at-answer",
        "32",
        Setup { joiner: Joiner::Deferred, writes: 2, ..RETURN },
    ),
    known(Mutation::ForgetOwnTail, "forget-own-tail", "33", RETURN_LATER),
    known(Mutation::CopyWithoutLock, "copy-without-lock", "34", RETURN),
    known(Mutation::CopyOverNewer, "copy-over-newer", "34", Setup { writes: 2, ..RETURN }),
    known(Mutation::CopyWithOldLsn, "copy-with-old-lsn", "34", RETURN_LATER),
    known(Mutation::ArrivalOrder, "arrival-order", "34", SESSION),
    known(Mutation::RequireAfterActive, "require-after-active", "35", RETURN),
    known(
        Mutation::AbsentServes,
        "absent-serves",
        "37",
        Setup { reads: 1, ..TINY }.faults([0, 0, 1, 0]),
    ),
    known(Mutation::JoinUnfilled, "join-unfilled", "38", MOVE),
    known(Mutation::CompleteBeforeReplaced, "complete-before-replaced", "39", MOVE_LATER),
    known(Mutation::DeleteBeforeKnown, "delete-before-known", "39", MOVE),
    known(Mutation::SameId, "same-id", "40", TINY.faults([0, 0, 1, 1]).changes([1, 1])),
    known(Mutation::RecoverBesideLease, "recover-beside-lease", "41a", by_directory(RECOVER)),
    known(Mutation::KeepGivenUp, "keep-given-up", "41a", Setup { blocks: 2, writes: 2, ..RECOVER }),
    known(
        Mutation::KeepLeft,
        "keep-left",
        "41a",
        by_directory(Setup { hosts: 3, reads: 0, ..RECOVER }).faults([0, 1, 2, 1]),
    ),
    known(Mutation::DeleteGivenUp, "delete-given-up", "41a", RECOVER),
    known(
        Mutation::WriteAgain,
        "write-again",
        "46",
        by_directory(Setup { writes: 2, reads: 1, resend: Resend::Once, ..SECOND })
            .faults([1, 0, 0, 0]),
    ),
    known(
        Mutation::AnyGrant,
        "any-grant",
        "52a",
        Setup { hosts: 3, ..LEFT_BEHIND }.faults([0, 1, 1, 0]),
    ),
    known(Mutation::FenceIgnoresGrants, "fence-ignores-grants", "52b", LEFT_BEHIND),
    known(Mutation::ForgetGrants, "forget-grants", "52b", LEFT_BEHIND.faults([1, 0, 1, 0])),
];

/// Rules whose breaking does no damage in any setup. They are needed for what the model leaves out.
/// Rule 1: after destage a component keeps no lsn per sector.
pub const NOT_NEEDED: &[Known] = &[known(
    Mutation::OverlappingWrites,
    "overlapping-writes",
    "1",
    Setup { joiner: Joiner::Deferred, writes: 2, ..RETURN_LATER },
)];
