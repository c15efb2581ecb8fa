// SPDX-License-Identifier: Apache-2.0
//! Identities and counters of the protocol (docs/protocol.md#words-and-numbers), each its own type.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:x})"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }
    };
}

number!(
    /// One server of the cluster. Numbers begin at 1, are given at join and never used again.
    ShardId, u32
);
number!(
    /// One run of a host's daemon: a new process is a new owner. Rises with every start, and is
    /// durable.
    Incarnation, u64
);
number!(
    /// One disk group, random, fixed at format.
    GroupId, u64
);
number!(
    /// One volume (virtual disk), random, never reused.
    VolumeId, u64
);
number!(
    /// One mirrored object, random, never reused.
    ObjectId, u64
);
number!(
    /// One component: the copy of an object on one disk group. Random, never reused.
    ComponentId, u64
);
number!(
    /// Counts changes of owner of an object. Replicas persist the highest and refuse lower ones
    /// (rule 8).
    Term, u32
);
number!(
    /// Counts the absences of one component (rule 9).
    Seat, u32
);
number!(
    /// Counts changes of an object's record, within the record. A CAS does not compare it, but the
    /// revision that the directory gives each value.
    Version, u64
);
number!(
    /// Counts changes of the host that may write to a volume (rule 54); 0 where any may.
    WriterEpoch, u32
);
number!(
    /// One conversation of an owner with one component; a new one after each Fence (rule 14).
    Session, u32
);

impl WriterEpoch {
    /// Any host may write.
    pub const ANY: Self = Self(0);
}

/// Log sequence number of an object: 24 bits of term above 40 bits of counter, compared as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Below the lsn of every write.
    pub const ZERO: Self = Self(0);
    /// Above the lsn of every write.
    pub const MAX: Self = Self(u64::MAX);
    /// Bits of the counter.
    pub const COUNTER_BITS: u32 = 40;

    /// The lsn number `counter` of `term`. Panics when either exceeds its bits: 16 million owner
    /// changes, or 10^12 writes in one term. The owner refuses long before that.
    #[must_use]
    pub fn new(term: Term, counter: u64) -> Self {
        assert!(counter < 1 << Self::COUNTER_BITS, "lsn counter exhausted");
        assert!(term.0 < 1 << 24, "term exhausted");
        Self(u64::from(term.0) << Self::COUNTER_BITS | counter)
    }

    /// The term in which this lsn was given.
    #[must_use]
    pub fn term(self) -> Term {
        Term(u32::try_from(self.0 >> Self::COUNTER_BITS).unwrap_or(u32::MAX))
    }

    /// The counter within the term.
    #[must_use]
    pub fn counter(self) -> u64 {
        self.0 & ((1 << Self::COUNTER_BITS) - 1)
    }

    /// The next lsn of the same term.
    #[must_use]
    pub fn next(self) -> Self {
        Self::new(self.term(), self.counter() + 1)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lsn({}.{})", self.term().0, self.counter())
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term().0, self.counter())
    }
}
