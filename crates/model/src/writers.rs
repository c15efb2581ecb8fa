// SPDX-License-Identifier: Apache-2.0
//! One writing host at a time: a take-over of the writer that is told as done is done.
//!
//! A volume's record names the *epoch*, and each epoch has one writer. The record of each object
//! has an epoch too, of which the model asks: no write of an earlier one takes effect on the object
//! from then on. So a take-over is done when all records of the volume's objects have its epoch.
//!
//! 1. Once a take-over is told as done, no write that was taken in an earlier epoch takes effect.
//! 2. None takes effect behind a write of a later epoch, whichever objects the two are on.
//!
//! A write takes effect when all copies have it, or when the next owner finds it on one. Both end
//! when the copies are fenced by a higher term (rules 8 and 24), so the copies of an object are one
//! number here: the term that they were fenced with. Not modelled are what lies under that (it is
//! the model [`crate::mirror`]), reads, and whether a take-over ever ends.

use crate::mirror::state::{Host, PerHost, Row, Term, Version};
use crate::search::{Model, Next, room};
use std::fmt;

/// Counts changes of the writer.
type Epoch = u8;
/// An object of the volume, from 0.
type Object = usize;

const OBJECTS: usize = 2;

const LATE: &str = "a write of an earlier epoch took effect after the take-over was told as done";
const BEHIND: &str = "a write of an earlier epoch took effect behind one of a later";

/// The host that writes in an epoch: the first one, then the others in turn.
fn writer_of(epoch: Epoch) -> Host {
    epoch % 2
}

/// The record of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    version: Version,
    term: Term,
    owner: Option<Host>,
    epoch: Epoch,
}

/// A change of a record's epoch that is on its way to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Change {
    object: Object,
    expected: Version,
    epoch: Epoch,
}

/// An owner as it sees itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner {
    term: Term,
    version: Version,
    epoch: Epoch,
    /// It fenced the copies, so it takes requests.
    is_serving: bool,
    /// It admits no write until the record has the volume's epoch.
    is_closed: bool,
}

/// How far a client's write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Stage {
    /// On its way to the owner.
    Asked,
    /// At the owner, behind another write of the range.
    Waits,
    /// It has its lsn and is on its way to the copies.
    Sent,
}

/// A client's write that has not taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Write {
    by: Host,
    object: Object,
    /// The owner that it was sent to.
    at: Host,
    term: Term,
    stage: Stage,
    /// The epoch that it was taken in, at its host.
    epoch: Epoch,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The volume's.
    epoch: Epoch,
    /// The last take-over that was told as done.
    told: Epoch,
    records: [Record; OBJECTS],
    /// The term with which an object's copies were fenced.
    fenced: [Term; OBJECTS],
    owners: PerHost<[Option<Owner>; OBJECTS]>,
    /// In order, so that equal states are equal values.
    writes: Vec<Write>,
    changes: Vec<Change>,
    /// The highest epoch of which a write took effect.
    reached: Epoch,
    budget: Budget,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Changes of the writer.
    pub takeovers: u8,
    /// Writes of clients.
    pub writes: u8,
    /// Changes of an object's owner.
    pub claims: u8,
}

/// A part of the rules that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// An owner asks whose host a write is of, not in which epoch it was taken.
    HostAlone,
    /// An owner looks at a write's epoch when it comes, not when it gets its lsn.
    AdmitBeforeLock,
    /// An owner changes the epoch of its record while writes that it admitted are under way.
    ChangeBeforeDrain,
    /// An owner admits writes while the change of its record is under way.
    AdmitWhileChanging,
    /// A claim brings the volume's epoch into the record, before the copies are fenced.
    ClaimBringsEpoch,
    /// A take-over is done when the volume's record has it.
    DoneByVolume,
    /// Objects without an owner count as done.
    UnownedCount,
    /// Whoever takes over changes the records of objects that have an owner, too.
    ChangeOfOthers,
    /// The change of a record's epoch does not compare the record's version.
    NoCompare,
    /// The new writer writes before the take-over was told as done.
    WriteBeforeDone,
}

/// Every setup that is searched as a whole: its name, what it is for, its bounds.
pub const SETUPS: &[(&str, &str, Setup)] = &[
    ("writers", "a volume's writer changes, and so do owners", Setup::SMALL),
    ("writers-large", "long: the writer changes and comes back", Setup::LARGE),
];

/// Every part of the rules that can be broken, with the number of its rule.
pub const BROKEN: &[(&str, &str, Broken)] = &[
    ("host-alone", "54", Broken::HostAlone),
    ("admit-before-lock", "54", Broken::AdmitBeforeLock),
    ("change-before-drain", "55", Broken::ChangeBeforeDrain),
    ("admit-while-changing", "55", Broken::AdmitWhileChanging),
    ("claim-brings-epoch", "55", Broken::ClaimBringsEpoch),
    ("change-of-others", "55", Broken::ChangeOfOthers),
    ("no-compare", "55", Broken::NoCompare),
    ("done-by-volume", "56", Broken::DoneByVolume),
    ("unowned-count", "56", Broken::UnownedCount),
    ("write-before-done", "57", Broken::WriteBeforeDone),
];

/// Bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Hosts; two of them have clients.
    pub hosts: u8,
    /// What may happen.
    pub budget: Budget,
    /// What is broken.
    pub broken: Option<Broken>,
}

impl Setup {
    /// One take-over.
    pub const SMALL: Setup =
        Setup { hosts: 2, budget: Budget { takeovers: 1, writes: 2, claims: 2 }, broken: None };
    /// Two take-overs and a third host that only owns.
    pub const LARGE: Setup =
        Setup { hosts: 3, budget: Budget { takeovers: 2, writes: 3, claims: 2 }, broken: None };

    /// The smallest one known in which `broken` is noticed.
    #[must_use]
    pub fn showing(broken: Broken) -> Setup {
        let mut setup = Setup { broken: Some(broken), ..Setup::SMALL };
        setup.budget.takeovers += u8::from(broken == Broken::HostAlone);
        setup
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The volume's record names the next writer.
    TakeOver(Epoch, Host),
    /// All records have the epoch.
    Done(Epoch),
    /// A host takes an object over.
    Claim(Host, Object, Term),
    /// The new owner fences the copies: what is sent to them in earlier terms takes effect now, or
    /// never.
    Fence(Host, Object, bool),
    /// An owner sees the volume's epoch, and admits no more.
    Close(Host, Object),
    /// A change of an object's epoch leaves for the directory.
    Change(Object, Epoch),
    /// It lands, or finds another version.
    Land(Object, bool),
    /// An owner learns what the directory has.
    Learn(Host, Object),
    /// A client's write leaves its host.
    Ask(Host, Object),
    /// It comes to the owner.
    Arrive(Host, Object),
    /// The owner gives it its lsn.
    Admit(Host, Object, Epoch),
    /// The owner refuses it.
    Refuse(Host, Object),
    /// All copies have it.
    Complete(Host, Object),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |host: Host| char::from(b'A' + host);
        match *self {
            Step::TakeOver(epoch, host) => {
                write!(f, "{} is the writer of epoch {epoch}", name(host))
            }
            Step::Done(epoch) => write!(f, "epoch {epoch} is told as done"),
            Step::Claim(host, object, term) => {
                write!(f, "{} takes object {object} over: term {term}", name(host))
            }
            Step::Fence(host, object, true) => {
                write!(f, "{} fences object {object}, and finds what was sent", name(host))
            }
            Step::Fence(host, object, false) => write!(f, "{} fences object {object}", name(host)),
            Step::Close(host, object) => {
                write!(f, "{} admits no more to object {object}", name(host))
            }
            Step::Change(object, epoch) => {
                write!(f, "epoch {epoch} of object {object} is on its way")
            }
            Step::Land(object, true) => write!(f, "it lands in the record of object {object}"),
            Step::Land(object, false) => write!(f, "it finds another version of object {object}"),
            Step::Learn(host, object) => {
                write!(f, "{} reads the record of object {object}", name(host))
            }
            Step::Ask(host, object) => write!(f, "{} sends a write to object {object}", name(host)),
            Step::Arrive(host, object) => {
                write!(f, "the write of {} comes to the owner of object {object}", name(host))
            }
            Step::Admit(host, object, epoch) => {
                write!(
                    f,
                    "object {object}: the write of {} is admitted in epoch {epoch}",
                    name(host)
                )
            }
            Step::Refuse(host, object) => {
                write!(f, "object {object}: the write of {} is refused", name(host))
            }
            Step::Complete(host, object) => {
                write!(f, "object {object}: all copies have the write of {}", name(host))
            }
        }
    }
}

/// The model within the bounds of one setup.
pub struct Writers(pub Setup);

impl Model for Writers {
    type State = State;
    type Step = Step;

    /// The first object has an owner, the second one was never used.
    fn initial(&mut self) -> State {
        let used = Record { version: 1, term: 1, owner: Some(0), epoch: 0 };
        let fresh = Record { version: 0, term: 0, owner: None, epoch: 0 };
        let owner = Owner { term: 1, version: 1, epoch: 0, is_serving: true, is_closed: false };
        State {
            epoch: 0,
            told: 0,
            records: [used, fresh],
            fenced: [1, 0],
            owners: Row([[Some(owner), None], [None, None], [None, None]]),
            writes: Vec::new(),
            changes: Vec::new(),
            reached: 0,
            budget: self.0.budget,
        }
    }

    fn successors(&mut self, state: &State, out: &mut Vec<Next<Self>>) {
        let mut moves = Moves { setup: self.0, from: state, out };
        moves.take_over();
        moves.done();
        moves.land();
        for object in 0..OBJECTS {
            moves.change_unowned(object);
            for host in 0..self.0.hosts {
                moves.claim(host, object);
                if let Some(owner) = state.owners[host][object] {
                    moves.fence(host, object, owner);
                    moves.own(host, object, owner);
                }
            }
            moves.ask(object);
        }
        for (at, write) in state.writes.iter().enumerate() {
            moves.go_on(at, *write);
        }
    }

    fn heap_bytes(state: &State) -> usize {
        room(&state.writes) + room(&state.changes)
    }

    fn describe(&self, state: &State) -> Vec<String> {
        let of = |record: &Record| {
            let Record { version, term, epoch, .. } = record;
            format!("a record: version {version}, term {term}, epoch {epoch}")
        };
        state.records.iter().map(of).collect()
    }
}

struct Moves<'a> {
    setup: Setup,
    from: &'a State,
    out: &'a mut Vec<Next<Writers>>,
}

impl Moves<'_> {
    fn breaks(&self, broken: Broken) -> bool {
        self.setup.broken == Some(broken)
    }

    fn go(&mut self, step: Step, mut state: State) {
        state.writes.sort_unstable();
        state.changes.sort_unstable();
        self.out.push(Next { step, state, broken: None });
    }

    /// The same, where writes take effect.
    fn takes_effect(&mut self, step: Step, mut state: State, writes: &[Write]) {
        let mut broken = None;
        for write in writes {
            if write.epoch < state.told {
                broken = Some(LATE);
            } else if write.epoch < state.reached {
                broken = Some(BEHIND);
            }
            state.reached = state.reached.max(write.epoch);
        }
        state.writes.sort_unstable();
        self.out.push(Next { step, state, broken });
    }

    fn record(&self, object: Object) -> Record {
        self.from.records[object]
    }

    fn take_over(&mut self) {
        if self.from.budget.takeovers > 0 {
            let mut next = self.from.clone();
            next.budget.takeovers -= 1;
            next.epoch += 1;
            self.go(Step::TakeOver(next.epoch, writer_of(next.epoch)), next);
        }
    }

    fn done(&mut self) {
        let from = self.from;
        let is_done = |record: &Record| {
            let is_left_out = self.breaks(Broken::UnownedCount) && record.owner.is_none();
            record.epoch >= from.epoch || is_left_out
        };
        let is_done = self.breaks(Broken::DoneByVolume) || from.records.iter().all(is_done);
        if is_done && from.told < from.epoch {
            let mut next = from.clone();
            next.told = next.epoch;
            self.go(Step::Done(next.told), next);
        }
    }

    /// A change of an epoch finds the version that it expects, or it is nothing. Late, or never.
    fn land(&mut self) {
        for (at, change) in self.from.changes.iter().enumerate() {
            let mut next = self.from.clone();
            next.changes.remove(at);
            let record = &mut next.records[change.object];
            let is_expected = record.version == change.expected || self.breaks(Broken::NoCompare);
            if is_expected {
                record.version += 1;
                record.epoch = change.epoch;
            }
            self.go(Step::Land(change.object, is_expected), next);
        }
    }

    /// Whoever takes over changes the records of objects that nobody owns.
    fn change_unowned(&mut self, object: Object) {
        let record = self.record(object);
        let may_change = record.owner.is_none() || self.breaks(Broken::ChangeOfOthers);
        if record.epoch < self.from.epoch && may_change {
            self.send(Change { object, expected: record.version, epoch: self.from.epoch });
        }
    }

    fn send(&mut self, change: Change) {
        if !self.from.changes.contains(&change) {
            let mut next = self.from.clone();
            next.changes.push(change);
            self.go(Step::Change(change.object, change.epoch), next);
        }
    }

    /// A change of owner leaves the epoch as it is. A host whose process began anew is another one.
    fn claim(&mut self, host: Host, object: Object) {
        let record = self.record(object);
        if self.from.budget.claims == 0 {
            return;
        }
        let mut next = self.from.clone();
        next.budget.claims -= 1;
        let epoch = if self.breaks(Broken::ClaimBringsEpoch) { next.epoch } else { record.epoch };
        let (version, term) = (record.version + 1, record.term + 1);
        next.records[object] = Record { version, term, owner: Some(host), epoch };
        let owner = Owner { term, version, epoch, is_serving: false, is_closed: false };
        next.owners[host][object] = Some(owner);
        self.go(Step::Claim(host, object, term), next);
    }

    fn fence(&mut self, host: Host, object: Object, owner: Owner) {
        if owner.is_serving || owner.term <= self.from.fenced[object] {
            return;
        }
        let mut next = self.from.clone();
        next.fenced[object] = owner.term;
        next.owners[host][object] = Some(Owner { is_serving: true, ..owner });
        let is_sent = |write: &Write| {
            write.object == object && write.stage == Stage::Sent && write.term < owner.term
        };
        let found: Vec<Write> = next.writes.iter().copied().filter(is_sent).collect();
        next.writes.retain(|write| !is_sent(write));
        if !found.is_empty() {
            self.takes_effect(Step::Fence(host, object, true), next.clone(), &found);
        }
        self.go(Step::Fence(host, object, false), next);
    }

    /// What an owner does about the epoch.
    fn own(&mut self, host: Host, object: Object, owner: Owner) {
        let record = self.record(object);
        if (record.term, record.version) != (owner.term, owner.version) {
            let mut next = self.from.clone();
            let is_owner = record.term == owner.term;
            let learned = Owner {
                version: record.version,
                epoch: record.epoch,
                is_closed: owner.is_closed && record.epoch < self.from.epoch,
                ..owner
            };
            next.owners[host][object] = is_owner.then_some(learned);
            return self.go(Step::Learn(host, object), next);
        }
        if owner.epoch >= self.from.epoch || !owner.is_serving {
            return;
        }
        let may_admit = self.breaks(Broken::AdmitWhileChanging);
        if !owner.is_closed && !may_admit {
            let mut next = self.from.clone();
            next.owners[host][object] = Some(Owner { is_closed: true, ..owner });
            self.go(Step::Close(host, object), next);
        }
        let is_of_it = |write: &Write| {
            write.object == object && write.term == owner.term && write.stage == Stage::Sent
        };
        let is_drained = !self.from.writes.iter().any(is_of_it);
        if (owner.is_closed || may_admit) && (is_drained || self.breaks(Broken::ChangeBeforeDrain))
        {
            self.send(Change { object, expected: owner.version, epoch: self.from.epoch });
        }
    }

    /// A client's write leaves for the owner that the record names. A new writer's clients wait for
    /// the end of the take-over.
    fn ask(&mut self, object: Object) {
        let (from, record) = (self.from, self.record(object));
        let Some(at) = record.owner.filter(|_| from.budget.writes > 0) else { return };
        let last = if self.breaks(Broken::WriteBeforeDone) { from.epoch } else { from.told };
        // A host may not know that it is the writer no more.
        for epoch in 0..=last {
            let (by, stage) = (writer_of(epoch), Stage::Asked);
            let mut next = self.from.clone();
            next.budget.writes -= 1;
            next.writes.push(Write { by, object, at, term: record.term, stage, epoch });
            self.go(Step::Ask(by, object), next);
        }
    }

    fn admits(&self, owner: &Owner, write: &Write) -> bool {
        let is_of_epoch = match self.breaks(Broken::HostAlone) {
            true => writer_of(owner.epoch) == write.by,
            false => owner.epoch == write.epoch,
        };
        is_of_epoch && !owner.is_closed
    }

    fn go_on(&mut self, index: usize, write: Write) {
        let object = write.object;
        let owner = self.from.owners[write.at][object];
        let owner = owner.filter(|owner| owner.term == write.term && owner.is_serving);
        let mut next = self.from.clone();
        let is_early = self.breaks(Broken::AdmitBeforeLock);
        match (write.stage, owner) {
            (Stage::Asked, Some(owner)) if !is_early || self.admits(&owner, &write) => {
                next.writes[index].stage = Stage::Waits;
                self.go(Step::Arrive(write.by, write.object), next);
            }
            (Stage::Waits, Some(owner)) if is_early || self.admits(&owner, &write) => {
                next.writes[index].stage = Stage::Sent;
                // Copies that were fenced by a later owner refuse it.
                if self.from.fenced[object] > write.term {
                    next.writes.remove(index);
                }
                self.go(Step::Admit(write.by, write.object, write.epoch), next);
            }
            (Stage::Waits, Some(owner)) if !owner.is_closed => {
                next.writes.remove(index);
                self.go(Step::Refuse(write.by, write.object), next);
            }
            // The copies take it in its own term alone.
            (Stage::Sent, _) if self.from.fenced[object] == write.term => {
                next.writes.remove(index);
                self.takes_effect(Step::Complete(write.by, write.object), next, &[write]);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Limits, Outcome, search};
    use std::ops::ControlFlow;

    fn run(setup: Setup) -> Outcome {
        let limits = Limits { states: 4_000_000, bytes: 2 << 30 };
        let (outcome, progress) =
            search(&mut Writers(setup), limits, |_| ControlFlow::Continue(()));
        println!("{:?}: {outcome} {progress:?}", setup.broken);
        outcome
    }

    #[test]
    fn what_is_told_as_done_is_done() {
        let outcome = run(Setup::SMALL);
        assert!(matches!(outcome, Outcome::Complete), "{outcome}");
    }

    #[test]
    fn each_part_of_the_rules_is_needed() {
        for &(name, _, broken) in BROKEN {
            let outcome = run(Setup::showing(broken));
            assert!(matches!(outcome, Outcome::Broken(_)), "{name}: {outcome}");
        }
    }
}
