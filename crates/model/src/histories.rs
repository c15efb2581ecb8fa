// SPDX-License-Identifier: Apache-2.0
//! Rule 25: a directory that was set back to a backup is not believed.
//!
//! A record lists the claims that it descends from. A component knows the record with which it was
//! last fenced, and the newest one that its host saw. From these numbers alone a host decides
//! whether a record is of the same history. In the model every change also has an identity of its
//! own. The hosts do not see it, so only the search knows the truth.
//!
//! 1. A component answers no fence of a history other than the one in which it was fenced, as far
//!    as its host saw that. Claims whose owner never reached the component do not matter: nothing
//!    was acknowledged in their terms for which the component counts.
//! 2. A component refuses no record of the history that it knows.
//! 3. A host that finds a term of its own forgotten is right.
//!
//! Not modelled are data, adoption, and a directory that gives one revision to two changes. So an
//! owner changes the record that it read, or nothing.

use crate::mirror::state::{Few, Host, PerHost, Row, Term, Version};
use crate::search::{Model, Next, room};
use std::fmt;

/// Changes of the record of the largest setup.
const CHANGES_MAX: u8 = 32;

const BELIEVED: &str = "a component believed a record of another history";
const REFUSED: &str = "a component refused a record of its own history";
const MISSED: &str = "a host missed its own claim in a record that follows it";

/// One run of a host's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    host: Host,
    start: u8,
}

/// A change of owner, as the record remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Claim {
    term: Term,
    version: Version,
    owner: Run,
}

/// The true identity of a change of the directory, and the changes that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Truth {
    id: u8,
    past: u32,
}

impl Truth {
    fn first() -> Truth {
        Truth { id: 0, past: 1 }
    }

    fn followed_by(self, id: u8) -> Truth {
        assert!(id < CHANGES_MAX, "more changes than bits");
        Truth { id, past: self.past | 1 << id }
    }

    /// Whether this is `other` or follows it.
    fn follows(self, other: Truth) -> bool {
        self.past >> other.id & 1 == 1
    }

    /// Whether one of the two follows the other.
    fn is_in_line_with(self, other: Truth) -> bool {
        self.follows(other) || other.follows(self)
    }
}

/// The object's record, as far as its history goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    version: Version,
    term: Term,
    claims: Vec<Claim>,
    is_doubted: bool,
    truth: Truth,
}

/// What a component knows of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    /// Version and term of the record with which it was last fenced.
    fenced: (Version, Term),
    /// The owner that sent that fence.
    owner: Run,
    fenced_truth: Truth,
    /// Version and term of the newest record that its host saw.
    about: (Version, Term),
    about_truth: Truth,
    /// The newest record that its host ever saw of a term in which the component was fenced. In
    /// such a term the component counts for what is acknowledged.
    part: Truth,
    /// Version and term of `part`.
    part_numbers: (Version, Term),
}

impl Known {
    /// Whether a record of `version` that descends from `claims` is of another history than what
    /// the component saw. The same decision as `object::Known::is_other`.
    fn is_other(&self, version: Version, claims: &[Claim]) -> bool {
        let began = |version: Version| claims.iter().rev().find(|c| c.version <= version);
        let had_begun =
            |seen: (Version, Term)| began(seen.0).is_none_or(|claim| claim.term <= seen.1);
        let is_same =
            |seen: (Version, Term)| began(seen.0).is_none_or(|claim| claim.term == seen.1);
        let of_term = claims.iter().rev().find(|claim| claim.term <= self.fenced.1);
        let is_of_owner =
            of_term.is_none_or(|claim| (claim.term, claim.owner) == (self.fenced.1, self.owner));
        // Records are seen in any order: what was seen may be newer than this record.
        let is_known =
            |seen: (Version, Term)| had_begun(seen) && (seen.0 > version || is_same(seen));
        let is_known = is_known(self.about) && is_known(self.part_numbers);
        !(had_begun(self.fenced) && is_of_owner && is_known)
    }

    /// Compares versions and terms alone, as before records had claims.
    fn is_lower(&self, version: Version, term: Term) -> bool {
        version < self.fenced.0 || version < self.about.0 || term < self.about.1
    }

    /// Whether all that it saw is in line with `truth`.
    fn is_in_line_with(&self, truth: Truth) -> bool {
        self.fenced_truth.is_in_line_with(truth) && self.about_truth.is_in_line_with(truth)
    }

    /// It answers a fence of `owner`.
    fn take(&mut self, owner: Run, record: &Record) {
        self.fenced = (record.version, record.term);
        self.owner = owner;
        self.fenced_truth = record.truth;
        let is_later = self.about.1 == record.term && self.about_truth.follows(record.truth);
        if is_later {
            self.note_part(self.about_truth, self.about);
        } else {
            self.note_part(record.truth, self.fenced);
        }
    }

    /// Its host notes `record`.
    fn note(&mut self, record: &Record) {
        self.about = (record.version, record.term);
        self.about_truth = record.truth;
        if record.term <= self.fenced.1 {
            self.note_part(record.truth, self.about);
        }
    }

    fn note_part(&mut self, truth: Truth, numbers: (Version, Term)) {
        if truth.follows(self.part) {
            self.part = truth;
            self.part_numbers = numbers;
        }
    }
}

/// An owner: the record as it knows it, and the components that answered it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    record: Record,
    fenced: Few,
}

/// One host's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    start: u8,
    /// The highest term in which this run was the owner.
    used: Term,
    /// The claim of that term, if it made one.
    claimed: Option<Truth>,
    owner: Option<Owner>,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    record: Record,
    backup: Record,
    changes: u8,
    processes: PerHost<Process>,
    components: PerHost<Known>,
    budget: Budget,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Changes of owner.
    pub claims: u8,
    /// Other changes of the record.
    pub others: u8,
    /// Starts of a host's process.
    pub restarts: u8,
    /// Backups of the directory; the first record is one already.
    pub backups: u8,
    /// Times that the directory is set back to the last of them.
    pub restores: u8,
}

/// A part of rule 25 that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Components believe every record.
    BelieveAnyRecord,
    /// Components compare versions and terms alone.
    NumbersAlone,
    /// A run claims a term in which it was the owner before.
    TermUsedTwice,
    /// A host's next run has the number of the one before.
    RunNumberedTwice,
    /// What a component says of itself is replaced by a record of another history.
    BelieveWhatIsRead,
    /// Beside the fence a host keeps only the newest record that it saw. A claim that never reached
    /// the component then replaces what the host saw of the term before.
    NoteNewestAlone,
}

/// Every setup that is searched as a whole: its name, what it is for, its bounds.
pub const SETUPS: &[(&str, &str, Setup)] = &[
    ("histories", "a directory that is set back", Setup::SMALL),
    ("histories-large", "long: the same with backups at any time and a restart", Setup::LARGE),
];

/// Every part of rule 25 that can be broken, by name.
pub const BROKEN: &[(&str, Broken)] = &[
    ("believe-any-record", Broken::BelieveAnyRecord),
    ("numbers-alone", Broken::NumbersAlone),
    ("term-used-twice", Broken::TermUsedTwice),
    ("run-numbered-twice", Broken::RunNumberedTwice),
    ("believe-what-is-read", Broken::BelieveWhatIsRead),
    ("note-newest-alone", Broken::NoteNewestAlone),
];

/// Bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Hosts, each with one component.
    pub hosts: u8,
    /// What may happen.
    pub budget: Budget,
    /// What is broken.
    pub broken: Option<Broken>,
}

impl Setup {
    /// Two hosts; the directory is set back once.
    pub const SMALL: Setup = Setup {
        hosts: 2,
        budget: Budget { claims: 3, others: 2, restarts: 0, backups: 0, restores: 1 },
        broken: None,
    };
    /// With a process that begins anew, and a backup taken at any time.
    pub const LARGE: Setup = Setup {
        hosts: 2,
        budget: Budget { claims: 3, others: 2, restarts: 1, backups: 1, restores: 1 },
        broken: None,
    };

    /// The smallest one known in which `broken` is noticed.
    #[must_use]
    pub fn showing(broken: Broken) -> Setup {
        let mut setup = Setup { broken: Some(broken), ..Setup::SMALL };
        setup.budget.restarts = u8::from(broken == Broken::RunNumberedTwice);
        setup
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A backup of the directory is taken.
    Backup,
    /// The directory is set back to it.
    Restore,
    /// A host's process ends and another begins.
    Restart(Host),
    /// A host claims the object.
    Claim(Host, Version, Term),
    /// An owner changes its record.
    Change(Host, Version),
    /// A component answers a fence.
    Fence(Host, Host),
    /// A component refuses a fence, and the owner doubts its record.
    Refuse(Host, Host),
    /// A host finds its own last claim forgotten, and doubts the record.
    Miss(Host),
    /// A host notes the record for its component.
    See(Host),
    /// An owner finds another record than its own.
    Resign(Host),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |host: Host| char::from(b'A' + host);
        match *self {
            Step::Backup => f.write_str("a backup of the directory is taken"),
            Step::Restore => f.write_str("the directory is set back to the backup"),
            Step::Restart(host) => write!(f, "{} starts again", name(host)),
            Step::Claim(host, version, term) => {
                write!(f, "{} takes over: version {version}, term {term}", name(host))
            }
            Step::Change(host, version) => {
                write!(f, "{} changes the record: version {version}", name(host))
            }
            Step::Fence(host, at) => {
                write!(f, "{} fences the component of {}", name(host), name(at))
            }
            Step::Refuse(host, at) => {
                write!(f, "the component of {} refuses the fence of {}", name(at), name(host))
            }
            Step::Miss(host) => write!(f, "{} finds its own last claim forgotten", name(host)),
            Step::See(host) => write!(f, "{} notes the record for its component", name(host)),
            Step::Resign(host) => write!(f, "{} steps down", name(host)),
        }
    }
}

/// The model within the bounds of one setup.
pub struct Histories(pub Setup);

impl Model for Histories {
    type State = State;
    type Step = Step;

    fn initial(&mut self) -> State {
        let owner = Run { host: 0, start: 0 };
        let truth = Truth::first();
        let claims = vec![Claim { term: 1, version: 1, owner }];
        let record = Record { version: 1, term: 1, claims, is_doubted: false, truth };
        let seen = (record.version, record.term);
        let known = Known {
            fenced: seen,
            owner,
            fenced_truth: truth,
            about: seen,
            about_truth: truth,
            part: truth,
            part_numbers: seen,
        };
        let idle = || Process { start: 0, used: 0, claimed: None, owner: None };
        let fenced = Few::below(self.0.hosts);
        let serving = Owner { record: record.clone(), fenced };
        let first = Process { start: 0, used: 1, claimed: Some(truth), owner: Some(serving) };
        State {
            backup: record.clone(),
            record,
            changes: 1,
            processes: Row([first, idle(), idle()]),
            components: Row([known; 3]),
            budget: self.0.budget,
        }
    }

    fn successors(&mut self, state: &State, out: &mut Vec<Next<Self>>) {
        let mut moves = Moves { setup: self.0, from: state, out };
        moves.directory();
        for host in 0..self.0.hosts {
            moves.restart(host);
            moves.claim(host);
            moves.see(host);
            if let Some(owner) = &state.processes[host].owner {
                moves.change(host, owner);
                (0..self.0.hosts).for_each(|at| moves.fence(host, owner, at));
            }
        }
    }

    fn heap_bytes(state: &State) -> usize {
        let owners = state.processes.0.iter().flat_map(|process| &process.owner);
        let owned = owners.map(|owner| room(&owner.record.claims)).sum::<usize>();
        room(&state.record.claims) + room(&state.backup.claims) + owned
    }

    fn describe(&self, state: &State) -> Vec<String> {
        let Record { version, term, .. } = state.record;
        vec![format!("the record: version {version}, term {term}")]
    }
}

struct Moves<'a> {
    setup: Setup,
    from: &'a State,
    out: &'a mut Vec<Next<Histories>>,
}

impl Moves<'_> {
    fn breaks(&self, broken: Broken) -> bool {
        self.setup.broken == Some(broken)
    }

    fn go(&mut self, step: Step, state: State) {
        self.out.push(Next { step, state, broken: None });
    }

    fn directory(&mut self) {
        let from = self.from;
        if from.budget.backups > 0 && from.backup != from.record {
            let mut next = from.clone();
            next.budget.backups -= 1;
            next.backup = from.record.clone();
            self.go(Step::Backup, next);
        }
        if from.budget.restores > 0 && from.backup != from.record {
            let mut next = from.clone();
            next.budget.restores -= 1;
            next.record = from.backup.clone();
            self.go(Step::Restore, next);
        }
    }

    fn restart(&mut self, host: Host) {
        if self.from.budget.restarts == 0 {
            return;
        }
        let mut next = self.from.clone();
        next.budget.restarts -= 1;
        let start = next.processes[host].start + u8::from(!self.breaks(Broken::RunNumberedTwice));
        next.processes[host] = Process { start, used: 0, claimed: None, owner: None };
        self.go(Step::Restart(host), next);
    }

    /// A change of owner; one run never uses a term twice, and nobody claims what is doubted. A run
    /// that would have to use a term twice knows that the directory went back.
    fn claim(&mut self, host: Host) {
        let from = self.from;
        let process = &from.processes[host];
        let term = from.record.term + 1;
        let is_new = term > process.used || self.breaks(Broken::TermUsedTwice);
        if from.record.is_doubted {
            return;
        }
        if !is_new {
            let is_wrong = process.claimed.is_none_or(|claim| from.record.truth.follows(claim));
            let mut next = from.clone();
            let mut doubted = followed(&mut next);
            doubted.is_doubted = true;
            next.record = doubted;
            next.processes[host].owner = None;
            let broken = is_wrong.then_some(MISSED);
            return self.out.push(Next { step: Step::Miss(host), state: next, broken });
        }
        if from.budget.claims == 0 {
            return;
        }
        let mut next = from.clone();
        next.budget.claims -= 1;
        let owner = Run { host, start: process.start };
        let mut record = followed(&mut next);
        record.term = term;
        record.claims.push(Claim { term, version: record.version, owner });
        let version = record.version;
        next.record = record.clone();
        next.processes[host].used = term.max(process.used);
        next.processes[host].claimed = Some(record.truth);
        next.processes[host].owner = Some(Owner { record, fenced: Few::NONE });
        self.go(Step::Claim(host, version, term), next);
    }

    /// Any other change, once a component has answered; or the end of an owner whose record is not
    /// the directory's.
    fn change(&mut self, host: Host, owner: &Owner) {
        let mut next = self.from.clone();
        if owner.record != self.from.record {
            next.processes[host].owner = None;
            self.go(Step::Resign(host), next);
        } else if self.from.budget.others > 0 && !owner.fenced.is_empty() {
            next.budget.others -= 1;
            let record = followed(&mut next);
            let version = record.version;
            next.record = record.clone();
            let fenced = owner.fenced;
            next.processes[host].owner = Some(Owner { record, fenced });
            self.go(Step::Change(host, version), next);
        }
    }

    /// A component answers a fence whose record it takes for one of its own history, and refuses
    /// others.
    fn fence(&mut self, host: Host, owner: &Owner, at: Host) {
        let known = &self.from.components[at];
        let record = &owner.record;
        if record.term < known.fenced.1 {
            return; // rule 8: it knows a later owner
        }
        let mut next = self.from.clone();
        if self.refuses(known, record) {
            if next.record == owner.record {
                let mut doubted = followed(&mut next);
                doubted.is_doubted = true;
                next.record = doubted;
            }
            next.processes[host].owner = None;
            let broken = known.is_in_line_with(record.truth).then_some(REFUSED);
            self.out.push(Next { step: Step::Refuse(host, at), state: next, broken });
            return;
        }
        let broken = (!known.part.is_in_line_with(record.truth)).then_some(BELIEVED);
        if let Some(owner) = &mut next.processes[host].owner {
            owner.fenced.add(at);
        }
        let start = self.from.processes[host].start;
        next.components[at].take(Run { host, start }, record);
        self.out.push(Next { step: Step::Fence(host, at), state: next, broken });
    }

    fn refuses(&self, known: &Known, record: &Record) -> bool {
        if self.breaks(Broken::BelieveAnyRecord) {
            return false;
        }
        let is_older = record.version < known.fenced.0;
        if self.breaks(Broken::NumbersAlone) {
            return is_older;
        }
        let mut known = *known;
        if self.breaks(Broken::NoteNewestAlone) {
            known.part_numbers = known.about;
        }
        is_older || known.is_other(record.version, &record.claims)
    }

    /// A host notes what the directory has, unless that is doubted or of another history.
    fn see(&mut self, host: Host) {
        if self.from.record.is_doubted {
            return;
        }
        let (known, record) = (&self.from.components[host], &self.from.record);
        let is_other = known.is_lower(record.version, record.term)
            || known.is_other(record.version, &record.claims);
        let mut next = self.from.clone();
        if is_other && !self.breaks(Broken::BelieveWhatIsRead) {
            // Unless the directory was set back, its record follows all earlier ones: refusing it
            // is wrong.
            if record.truth.follows(known.fenced_truth) && record.truth.follows(known.about_truth) {
                self.out.push(Next { step: Step::See(host), state: next, broken: Some(REFUSED) });
            }
            return;
        }
        if known.about != (record.version, record.term) {
            next.components[host].note(record);
            self.go(Step::See(host), next);
        }
    }
}

/// The record of the next version, with an identity that nothing else has.
fn followed(state: &mut State) -> Record {
    let mut record = state.record.clone();
    record.version += 1;
    record.truth = record.truth.followed_by(state.changes);
    state.changes += 1;
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Limits, Outcome, search};
    use std::ops::ControlFlow;

    fn run(setup: Setup) -> Outcome {
        let limits = Limits { states: 2_000_000, bytes: 2 << 30 };
        let (outcome, progress) =
            search(&mut Histories(setup), limits, |_| ControlFlow::Continue(()));
        println!("{:?}: {outcome} {progress:?}", setup.broken);
        outcome
    }

    #[test]
    fn claims_tell_histories_apart() {
        let outcome = run(Setup::SMALL);
        assert!(matches!(outcome, Outcome::Complete), "{outcome}");
    }

    #[test]
    fn each_part_of_the_rule_is_needed() {
        for &(name, broken) in BROKEN {
            let outcome = run(Setup::showing(broken));
            assert!(matches!(outcome, Outcome::Broken(_)), "{name}: {outcome}");
        }
    }
}
