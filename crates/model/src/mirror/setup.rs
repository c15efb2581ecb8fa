// SPDX-License-Identifier: Apache-2.0
//! How large a cluster is searched, and what may go wrong in it.

use super::mutation::Mutation;
use super::state::{BLOCKS_MAX, Block, Budget, HOSTS_MAX, READS_MAX, Term, WRITES_MAX, Write};

/// When a frame that a component took is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// At once.
    Instant,
    /// Later, unless its host crashes first (rules 4, 24).
    InFlight,
}

/// How a component keeps an older write from replacing a newer one (rule 34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It compares lsns.
    Lsn,
    /// It keeps to the order of its session, and refuses frames of another seat (rule 9).
    Session,
}

/// Who says that an owner is the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// The directory (rules 12, 21, 22).
    Directory,
    /// The hosts of its components (rule 52): what is implemented.
    Grants,
}

/// Whether clients send a write again that was not answered (rule 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// No.
    Never,
    /// Once, to an owner of a later term.
    Once,
}

/// What a returning component gets of new writes (rule 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joiner {
    /// All.
    Sent,
    /// At any moment either those to clean blocks, or none. This is what is implemented.
    Deferred,
}

/// Bounds of one search.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Hosts, each with one component at most.
    pub hosts: u8,
    /// How many of them, the last ones, have none at first.
    pub spare: u8,
    /// Blocks of the object.
    pub blocks: u8,
    /// Clients' writes, each sent once, in this order; they take the blocks in turn.
    pub writes: u8,
    /// Clients' reads.
    pub reads: u8,
    /// The highest term.
    pub terms: Term,
    /// What may go wrong, how often.
    pub budget: Budget,
    /// When a frame is durable.
    pub commits: Commits,
    /// What keeps older writes from replacing newer ones.
    pub order: Order,
    /// Who says that an owner is the only one.
    pub lease: Lease,
    /// Whether clients send again.
    pub resend: Resend,
    /// What a returning component gets.
    pub joiner: Joiner,
    /// The rule that is broken.
    pub mutation: Option<Mutation>,
}

impl Setup {
    /// Two hosts, one block, two writes, one read; of each fault one, up to term 2.
    pub const SMALL: Setup = Setup {
        hosts: 2,
        spare: 0,
        blocks: 1,
        writes: 2,
        reads: 1,
        terms: 2,
        budget: Budget {
            crashes: 1,
            lapses: 1,
            absences: 1,
            returns: 1,
            additions: 0,
            removals: 0,
            recoveries: 0,
        },
        commits: Commits::Instant,
        order: Order::Lsn,
        lease: Lease::Directory,
        resend: Resend::Never,
        joiner: Joiner::Sent,
        mutation: None,
    };

    /// Where `write` goes.
    pub fn block_of(&self, write: Write) -> Block {
        write % self.blocks
    }

    /// Whether `mutation` is the rule that is broken.
    pub fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// With these numbers of crashes, lapses, absences and returns.
    pub const fn faults(self, [crashes, lapses, absences, returns]: [u8; 4]) -> Setup {
        Setup { budget: Budget { crashes, lapses, absences, returns, ..self.budget }, ..self }
    }

    /// With these numbers of components added to the record and taken out of it.
    pub const fn changes(self, [additions, removals]: [u8; 2]) -> Setup {
        Setup { budget: Budget { additions, removals, ..self.budget }, ..self }
    }

    /// With so many times that an operator has the object go on from an older component.
    pub const fn recoveries(self, recoveries: u8) -> Setup {
        Setup { budget: Budget { recoveries, ..self.budget }, ..self }
    }

    /// Panics where a number is larger than what a state has room for.
    pub fn check(&self) {
        assert!((1..=HOSTS_MAX).contains(&usize::from(self.hosts)), "hosts");
        assert!(self.spare < self.hosts, "a component at first");
        assert!((1..=BLOCKS_MAX).contains(&usize::from(self.blocks)), "blocks");
        assert!(usize::from(self.writes) <= WRITES_MAX, "writes");
        assert!(usize::from(self.reads) <= READS_MAX, "reads");
        let recovers = self.budget.recoveries > 0;
        assert!(!recovers || self.budget.additions == 0, "no room for what was given up");
        assert!(!recovers || self.resend == Resend::Never, "not modelled together");
    }
}

/// Every setup that is searched as a whole: its name, what it is for, its bounds.
pub const SETUPS: &[(&str, &str, Setup)] = &[
    ("small", "all of the basic rules", Setup::SMALL),
    ("w3", "three writes", Setup { writes: 3, ..Setup::SMALL }),
    (
        "resync",
        "three writes, two returns",
        Setup { writes: 3, ..Setup::SMALL }.faults([1, 0, 1, 2]),
    ),
    (
        "deferred",
        "as resync, with writes kept from the returning component",
        Setup { writes: 3, joiner: Joiner::Deferred, ..Setup::SMALL }.faults([1, 0, 1, 2]),
    ),
    (
        "deferred-two",
        "the same with two blocks and two writes",
        Setup { blocks: 2, joiner: Joiner::Deferred, ..Setup::SMALL }.faults([1, 0, 1, 2]),
    ),
    (
        "stale",
        "an owner that runs on, two reads",
        Setup { reads: 2, ..Setup::SMALL }.faults([0, 1, 1, 0]),
    ),
    (
        "term3",
        "two crashes, three owners",
        Setup { reads: 0, terms: 3, ..Setup::SMALL }.faults([2, 1, 1, 1]),
    ),
    ("two", "two blocks", Setup { blocks: 2, ..Setup::SMALL }),
    (
        "commits",
        "device commits in flight",
        Setup { commits: Commits::InFlight, ..Setup::SMALL }.faults([1, 0, 1, 0]),
    ),
    (
        "session",
        "session order instead of an lsn per sector",
        Setup { order: Order::Session, ..Setup::SMALL }.faults([0, 1, 2, 2]),
    ),
    (
        "session-commits",
        "the same with a crash and commits in flight",
        Setup { order: Order::Session, commits: Commits::InFlight, reads: 0, ..Setup::SMALL }
            .faults([1, 0, 1, 2]),
    ),
    ("three", "three hosts, one write", Setup { hosts: 3, writes: 1, ..Setup::SMALL }),
    (
        "three-writes",
        "three hosts, two writes",
        Setup { hosts: 3, ..Setup::SMALL }.faults([0, 1, 1, 1]),
    ),
    (
        "three-terms",
        "three hosts, three owners",
        Setup { hosts: 3, writes: 1, terms: 3, ..Setup::SMALL }.faults([2, 0, 1, 1]),
    ),
    (
        "resend",
        "writes sent again",
        Setup { reads: 2, resend: Resend::Once, ..Setup::SMALL }.faults([1, 0, 1, 0]),
    ),
    (
        "grants",
        "grants of the components' hosts",
        Setup { lease: Lease::Grants, writes: 1, reads: 2, ..Setup::SMALL }.faults([1, 2, 1, 0]),
    ),
    (
        "grants-resync",
        "the same with a return",
        Setup { lease: Lease::Grants, writes: 1, ..Setup::SMALL }.faults([0, 2, 1, 1]),
    ),
    (
        "grants-three",
        "the same with three hosts",
        Setup { lease: Lease::Grants, hosts: 3, writes: 1, ..Setup::SMALL }.faults([0, 1, 1, 0]),
    ),
    (
        "grants-deferred",
        "grants and deferred writes: as implemented",
        Setup { lease: Lease::Grants, joiner: Joiner::Deferred, ..Setup::SMALL }
            .faults([1, 1, 1, 1]),
    ),
    (
        "move",
        "the only copy moves to another host",
        Setup { spare: 1, ..Setup::SMALL }.faults([1, 1, 0, 2]).changes([1, 1]),
    ),
    (
        "move-grants",
        "the same with grants and deferred writes",
        Setup { lease: Lease::Grants, joiner: Joiner::Deferred, spare: 1, ..Setup::SMALL }
            .faults([1, 1, 0, 1])
            .changes([1, 1]),
    ),
    (
        "replace",
        "three hosts, a copy that is away is replaced, or returns",
        Setup { hosts: 3, spare: 1, writes: 1, ..Setup::SMALL }
            .faults([0, 1, 1, 2])
            .changes([1, 1]),
    ),
    (
        "replace-grants",
        "the same with grants",
        Setup { hosts: 3, spare: 1, lease: Lease::Grants, writes: 1, ..Setup::SMALL }
            .faults([0, 1, 1, 1])
            .changes([1, 1]),
    ),
    (
        "again",
        "a copy is taken out, and its host gets another one",
        Setup { lease: Lease::Grants, ..Setup::SMALL }.faults([1, 0, 1, 1]).changes([1, 1]),
    ),
    (
        "recover",
        "two hosts, no whole copy comes back, an older one goes on",
        Setup { terms: 3, ..Setup::SMALL }.faults([1, 1, 1, 1]).recoveries(1),
    ),
    (
        "recover-three",
        "the same with three hosts: the third returns",
        Setup { hosts: 3, writes: 1, terms: 3, ..Setup::SMALL }.faults([0, 1, 2, 1]).recoveries(1),
    ),
    (
        "recover-grants",
        "the same as implemented: the owner of before runs on, cut off",
        Setup { lease: Lease::Grants, joiner: Joiner::Deferred, terms: 3, ..Setup::SMALL }
            .faults([0, 0, 1, 1])
            .recoveries(1),
    ),
    (
        "absences",
        "two absences, two returns, three owners",
        Setup { terms: 3, ..Setup::SMALL }.faults([1, 1, 2, 2]),
    ),
    (
        "two-writes",
        "long: two blocks, three writes",
        Setup { blocks: 2, writes: 3, ..Setup::SMALL },
    ),
    (
        "implemented",
        "long: grants, deferred writes, commits in flight, two reads, three owners",
        Setup {
            lease: Lease::Grants,
            joiner: Joiner::Deferred,
            commits: Commits::InFlight,
            reads: 2,
            terms: 3,
            ..Setup::SMALL
        },
    ),
];
