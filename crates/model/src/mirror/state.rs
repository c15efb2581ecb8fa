// SPDX-License-Identifier: Apache-2.0
//! One state of everything: directory, hosts, components, owners, frames, clients.
//!
//! All of it is small and fixed, so that equal situations are equal values: a host has one
//! component, a value is the number of the write that it comes from.

use super::orders::OrdersId;
use std::fmt;
use std::ops::{Index, IndexMut};

/// Hosts of the largest setup.
pub const HOSTS_MAX: usize = 3;
/// Blocks of the largest setup.
pub const BLOCKS_MAX: usize = 2;
/// Writes of clients of the largest setup.
pub const WRITES_MAX: usize = 3;
/// Reads of clients of the largest setup.
pub const READS_MAX: usize = 2;

/// A host and the component on it, from 0.
pub type Host = u8;
/// A block of the object, from 0.
pub type Block = u8;
/// A write of a client, from 0.
pub type Write = u8;
/// A read of a client, from 0.
pub type Read = u8;
/// What a block holds: 0 at first, else the number of a write plus 1.
pub type Value = u8;
/// Counts changes of owner.
pub type Term = u8;
/// Counts changes of the record.
pub type Version = u8;
/// Counts the returns of a component.
pub type Seat = u8;
/// Tells the components apart that one host had of the object, one after the other.
pub type Id = u8;

/// Numbers below 8 as bits: hosts, blocks or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Few(u8);

impl Few {
    /// None.
    pub const NONE: Few = Few(0);

    /// Only `one`.
    pub fn of(one: u8) -> Few {
        Few(1 << one)
    }

    /// All below `count`.
    pub fn below(count: u8) -> Few {
        Few((1 << count) - 1)
    }

    /// Whether `one` is among them.
    pub fn has(self, one: u8) -> bool {
        self.0 >> one & 1 == 1
    }

    /// Whether all of `others` are among them.
    pub fn covers(self, others: Few) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether any of `others` is among them.
    pub fn meets(self, others: Few) -> bool {
        self.0 & others.0 != 0
    }

    /// These and `others`.
    pub fn and(self, others: Few) -> Few {
        Few(self.0 | others.0)
    }

    /// Those that are among `others` too.
    pub fn within(self, others: Few) -> Few {
        Few(self.0 & others.0)
    }

    /// These without `others`.
    pub fn without(self, others: Few) -> Few {
        Few(self.0 & !others.0)
    }

    /// Adds `one`.
    pub fn add(&mut self, one: u8) {
        self.0 |= 1 << one;
    }

    /// Takes `one` away.
    pub fn remove(&mut self, one: u8) {
        self.0 &= !(1 << one);
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One after the other, lowest first.
    pub fn each(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |&one| self.has(one))
    }
}

/// A row with one entry for each host, block, write or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row<T, const N: usize>(pub [T; N]);

impl<T, const N: usize> Index<u8> for Row<T, N> {
    type Output = T;

    fn index(&self, at: u8) -> &T {
        &self.0[usize::from(at)]
    }
}

impl<T, const N: usize> IndexMut<u8> for Row<T, N> {
    fn index_mut(&mut self, at: u8) -> &mut T {
        &mut self.0[usize::from(at)]
    }
}

/// One entry for each host.
pub type PerHost<T> = Row<T, HOSTS_MAX>;
/// One entry for each block.
pub type PerBlock<T> = Row<T, BLOCKS_MAX>;

/// The number of a write: term, then counter within it. Two terms never give the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lsn {
    /// Of the owner that gave it.
    pub term: Term,
    /// From 1 within a term; 0 stands before all of it.
    pub counter: u8,
}

impl Lsn {
    /// Before the first write of `term`.
    pub fn before(term: Term) -> Lsn {
        Lsn { term, counter: 0 }
    }

    /// The one given just before this one.
    pub fn previous(self) -> Lsn {
        assert!(self.counter > 0, "nothing is given before a term begins");
        Lsn { counter: self.counter - 1, ..self }
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.counter)
    }
}

/// What the record says of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// It counts: every completed write is on it.
    Active,
    /// It does not count. Every write up to `left` is on it; nothing above is promised.
    Away {
        /// The highest lsn that is promised.
        left: Lsn,
    },
    /// The record has no component of this host (rules 38-40).
    None,
}

/// The object's record in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Counts all changes; what a CAS compares.
    pub version: Version,
    /// Counts changes of owner.
    pub term: Term,
    /// Who serves.
    pub owner: Host,
    /// The component of each host.
    pub members: PerHost<Member>,
    /// Which one it is, or was.
    pub ids: PerHost<Id>,
}

impl Record {
    /// The components that count.
    pub fn active(&self) -> Few {
        let mut active = Few::NONE;
        for (host, member) in (0..).zip(&self.members.0) {
            if *member == Member::Active {
                active.add(host);
            }
        }
        active
    }

    /// The record of the next version, in which `host` is `member`.
    pub fn with(&self, host: Host, member: Member) -> Record {
        let mut next = self.clone();
        next.version += 1;
        next.members[host] = member;
        next
    }
}

/// A CAS on its way: it may land late, or never (rule 16).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The version that must still be there.
    pub base: Version,
    /// What is put in its place.
    pub next: Record,
}

/// What a component has, all of it durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// Whether there is one.
    pub exists: bool,
    /// Which one it is; a later one of the host has another.
    pub id: Id,
    /// The highest term of a fence that it answered (rule 24).
    pub term: Term,
    /// Its present membership (rule 9).
    pub seat: Seat,
    /// The highest K that it was told (rule 6).
    pub commit: Lsn,
    /// What each block holds.
    pub values: PerBlock<Value>,
    /// The lsn of the write that each block holds.
    pub lsns: PerBlock<Lsn>,
    /// Writes whose requests it knows to be done (rule 46).
    pub requests: Few,
}

impl Component {
    /// One without content, that no owner knows yet.
    pub fn empty(id: Id) -> Component {
        Component {
            exists: true,
            id,
            term: 0,
            seat: 0,
            commit: Lsn::default(),
            values: Row([0; BLOCKS_MAX]),
            lsns: Row([Lsn::default(); BLOCKS_MAX]),
            requests: Few::NONE,
        }
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A client's write, or what a take-over makes equal.
    Write,
    /// A copy of a resync.
    Copy,
}

/// A write on its way to a component. Its delay has no bound; one that never arrives is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Whose component it is for.
    pub to: Host,
    /// Which one of that host.
    pub id: Id,
    /// The owner that sent it.
    pub from: Host,
    /// The component's membership when it was sent.
    pub seat: Seat,
    /// The owner's term.
    pub term: Term,
    /// The block that is written.
    pub block: Block,
    /// The value that is written.
    pub value: Value,
    /// The lsn of the write.
    pub lsn: Lsn,
    /// K when it was sent.
    pub commit: Lsn,
    /// The component has taken it, it is not durable yet.
    pub is_accepted: bool,
    /// Write or copy.
    pub kind: Kind,
}

/// The kinds of entries in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// A client's write.
    Write(Write),
    /// A copy of a take-over's reconciliation (rule 27).
    Reconcile,
    /// A copy to a component that returns (rule 34).
    Copy,
}

/// A write or copy that an owner has sent and not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    /// Its kind.
    pub load: Load,
    /// The block.
    pub block: Block,
    /// The lsn.
    pub lsn: Lsn,
    /// Components that have it durable.
    pub answered: Few,
    /// It was kept from the returning component: its block is dirty there (rule 32).
    pub is_deferred: bool,
}

/// How far an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It asks the active components for their tails (rules 24-26).
    Fencing,
    /// It has to choose the one that the tails are made equal to (rule 27).
    Choosing,
    /// It waits for its copies (rules 27-29).
    Reconciling,
    /// It serves.
    Serving,
}

/// A component on its way back (rules 31-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Return {
    /// The component.
    pub target: Host,
    /// Blocks that it lacks.
    pub dirty: Few,
}

/// Everything that an owner knows; it is gone with its host's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// How far it is.
    pub phase: Phase,
    /// The record as it was last read.
    pub record: Record,
    /// A CAS whose outcome is not known (rules 3, 16).
    pub pending: Option<Record>,
    /// The counter of the next lsn.
    pub counter: u8,
    /// K of the fence round, until it serves (rule 26).
    pub fence_commit: Lsn,
    /// Writes and copies that are not complete, oldest first.
    pub in_flight: Vec<InFlight>,
    /// The seat of each component, for its frames.
    pub seats: PerHost<Seat>,
    /// Writes whose requests the chosen component knows to be done (rule 46).
    pub requests: Few,
    /// Components that answered the fence.
    pub fenced: Few,
    /// The newest lsn of each block, from each component that answered the fence.
    pub tails: PerHost<PerBlock<Lsn>>,
    /// The resync under way.
    pub returning: Option<Return>,
}

impl Owner {
    /// Entries in flight that are no copies to a returning component. K and the locks of reads and
    /// writes depend on these alone.
    pub fn writes(&self) -> impl Iterator<Item = &InFlight> {
        self.in_flight.iter().filter(|entry| entry.load != Load::Copy)
    }

    /// The next lsn.
    pub fn next_lsn(&mut self) -> Lsn {
        self.counter += 1;
        Lsn { term: self.record.term, counter: self.counter - 1 }
    }

    /// The newest lsn given.
    pub fn given(&self) -> Lsn {
        Lsn { term: self.record.term, counter: self.counter - 1 }
    }

    /// Active in the record and in an unresolved CAS: only these may be read (rule 11).
    pub fn readable(&self) -> Few {
        let active = self.record.active();
        self.pending.as_ref().map_or(active, |pending| active.within(pending.active()))
    }

    /// Ends the resync, whatever came of it: its copies do not count any more.
    pub fn end_return(&mut self) {
        self.returning = None;
        self.in_flight.retain(|entry| entry.load != Load::Copy);
    }
}

/// How far a client's write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteState {
    /// Not sent yet.
    New,
    /// Sent, not answered: it may have taken effect.
    Sent,
    /// Answered.
    Answered,
}

/// How far a client's read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadState {
    /// Not sent yet.
    New,
    /// Its owner has the data and has not answered.
    Loaded {
        /// The owner's host.
        owner: Host,
        /// Where the data comes from.
        source: Host,
        /// What was read.
        block: Block,
        /// The data.
        value: Value,
    },
    /// Answered, or its owner is gone.
    Over,
}

/// The clients, and the answers that they may still get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clients {
    /// Each write.
    pub writes: Row<WriteState, WRITES_MAX>,
    /// Writes that were sent a second time (rule 46).
    pub resent: Few,
    /// Each read.
    pub reads: Row<ReadState, READS_MAX>,
    /// The set of all orders of these requests that are still possible.
    pub orders: OrdersId,
}

/// Who believes that an owner is the only one. Of the two kinds a setup uses one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leases {
    /// Hosts that believe their lease of the directory to be valid (rule 48).
    pub held: Few,
    /// Hosts whose lease key is in the directory (rule 22).
    pub keys: Few,
    /// Per owner: hosts whose grant it believes to be valid (rule 52a).
    pub grants_held: PerHost<Few>,
    /// Per component: hosts to which its grant has not run out (rule 52b).
    pub grants_given: PerHost<Few>,
}

/// What may still go wrong, so that the search has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Crashes of hosts.
    pub crashes: u8,
    /// Leases or grants that end while their holder lives.
    pub lapses: u8,
    /// Components marked absent by an owner without need.
    pub absences: u8,
    /// Resyncs begun.
    pub returns: u8,
    /// Components added to the record.
    pub additions: u8,
    /// Components that count, or are away, taken out of the record for good.
    pub removals: u8,
    /// Times that an operator has the object go on from an older component.
    pub recoveries: u8,
}

/// What an operator gave up, so that the object goes on from an older component (rule 41a).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GivenUp {
    /// The term of the record that was made anew; 0: nothing was given up. An owner of this term or
    /// an earlier one serves what was given up.
    pub term: Term,
    /// Components that were left out of that record.
    pub copies: Few,
    /// No owner has yet chosen what the object goes on from.
    pub is_open: bool,
}

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The directory's record.
    pub record: Record,
    /// CASes on their way to the directory.
    pub attempts: Vec<Attempt>,
    /// Hosts whose process runs.
    pub up: Few,
    /// Leases of hosts.
    pub leases: Leases,
    /// What is on each host's devices.
    pub components: PerHost<Component>,
    /// Per host: the component that it is about to delete, for the record has it no more (rule 40).
    pub condemned: PerHost<Option<Id>>,
    /// The owner that each host is, believes to be, or tries to become.
    pub owners: PerHost<Option<Owner>>,
    /// What an operator gave up.
    pub given_up: GivenUp,
    /// Writes on their way, sorted.
    pub frames: Vec<Frame>,
    /// The clients.
    pub clients: Clients,
    /// What may still go wrong.
    pub budget: Budget,
}

impl State {
    /// The owner on `host`; there must be one.
    pub fn owner(&mut self, host: Host) -> &mut Owner {
        self.owners[host].as_mut().unwrap_or_else(|| panic!("no owner on host {host}"))
    }

    /// Whether the component of `host` has taken frames that are not durable yet.
    pub fn has_accepted(&self, host: Host) -> bool {
        self.frames.iter().any(|frame| frame.is_accepted && frame.to == host)
    }
}
