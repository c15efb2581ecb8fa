// SPDX-License-Identifier: Apache-2.0
//! What hosts say to each other (docs/protocol.md#messages).

use crate::crcs::Crcs;
use crate::few::Few;
use base::{
    ClientTable, ComponentId, GroupId, HostId, Incarnation, Instant, Lsn, Mark, ObjectId,
    RequestId, Seat, SectorRange, Session, Term, Version, VolumeId,
};
use env::Slice;

/// Which component a frame is for, and on whose behalf: what the receiver does not know exactly so
/// is refused (rules 8, 9). Answers need not repeat it: they are bound to their request by its
/// number on one link between two incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object.
    pub object: ObjectId,
    /// Its component on the receiving host.
    pub component: ComponentId,
    /// The sender's term.
    pub term: Term,
    /// The component's seat as in the record.
    pub seat: Seat,
    /// The conversation, numbered by the owner; begun with a `Fence`.
    pub session: Session,
}

/// A change of owner that a record descends from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The term that began.
    pub term: Term,
    /// The record's version then.
    pub version: Version,
    /// Whose term it is.
    pub owner: Owner,
}

/// Some of them, cheap to clone; at most [`CLAIMS_MAX`](crate::CLAIMS_MAX).
pub type Claims = Few<Claim>;

/// A host in one run of its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The host.
    pub host: HostId,
    /// Its run.
    pub incarnation: Incarnation,
}

/// What a component has, as its host tells it: what another one must have in order to stand for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The object.
    pub object: ObjectId,
    /// The component.
    pub component: ComponentId,
    /// Its size.
    pub sectors: u64,
    /// The term in which it was fenced last.
    pub term: Term,
    /// Whose term it is: with it the history that it belongs to (rule 25).
    pub owner: Owner,
    /// The highest version of the record that it or its host saw.
    pub version: Version,
    /// The highest lsn that is durable.
    pub durable: Lsn,
}

/// What a write says about requests of clients (rule 46).
pub type Marks = Few<Mark>;

/// What a write does to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Data with checksums.
    Data,
    /// The range reads as zeros; nothing is allocated for it.
    Zero,
    /// The range is given up: it reads as zeros.
    Discard,
}

/// First frame in both directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster's identity: another one's hosts are not talked to.
    pub cluster: u64,
    /// Who speaks.
    pub me: Owner,
}

/// One frame.
#[derive(Clone, Debug)]
pub enum Message {
    /// Introduction.
    Hello(Hello),
    /// "Are you there?"
    Ping,
    /// "I am."
    Pong,
    /// A question; its number is in the header.
    Request(Request),
    /// The answer to the question of the same number.
    Response(Response),
}

/// What one host asks of another.
#[derive(Clone, Debug)]
pub enum Request {
    /// Please grant reads for all objects of this pair of hosts (rule 52). Answer: `Granted`.
    Renew {
        /// The asking host's clock when it asked (rule 48); comes back.
        sent: Instant,
    },
    /// "I use no grant of yours any more" (rule 52b). Answer: `Done`.
    Release,
    /// Begins a session at this term and seat, and stops every older one (rules 14, 24). Answer:
    /// `Fenced`, when nothing older is in flight any more.
    Fence {
        /// The component, and the session that begins.
        target: Target,
        /// Of the record that the sender read.
        version: Version,
        /// Who owns the object at this term; the sender.
        owner: Owner,
        /// Create the component with so many sectors where it is missing.
        create: Option<u64>,
        /// The newest claims that the record descends from, oldest first (rule 25).
        claims: Claims,
    },
    /// A write, or a copy (resync, reconciliation, repair). Answer: `Durable`.
    Write {
        /// The component.
        target: Target,
        /// Its number.
        lsn: Lsn,
        /// The number sent before it in this session; for the first one the `durable` of the
        /// answer that began the session.
        prev: Lsn,
        /// K: see docs/protocol.md#words-and-numbers.
        commit: Lsn,
        /// Within one chunk, not empty.
        range: SectorRange,
        /// What it does.
        kind: WriteKind,
        /// Whether it is a copy.
        is_copy: bool,
        /// The request that it carries out; those that a copy brings along or takes back. At most
        /// [`base::MARKS_MAX`].
        marks: Marks,
        /// Of the payload; none but for `Data`.
        crcs: Crcs,
        /// `range.bytes()` for `Data`, else empty.
        payload: Slice,
    },
    /// Data of a component. Answer: `Data`.
    Read {
        /// The component.
        target: Target,
        /// Within one chunk, not empty.
        range: SectorRange,
    },
    /// What changed on a component (rules 30, 33). Answer: `Changed`.
    ListChanged {
        /// The component.
        target: Target,
        /// Changes with a higher lsn are wanted.
        since: Lsn,
        /// 0 first, then `next` of the last answer.
        cursor: u64,
    },
    /// K, when no write carries it. Answer: `Durable` with K and what the component could take.
    CommitInfo {
        /// The component.
        target: Target,
        /// K.
        commit: Lsn,
    },
    /// The requests whose effect a component has got by copies; in the place of what it knows
    /// (rule 46). Answer: `Done`, when that is durable.
    SetClients {
        /// The component.
        target: Target,
        /// The table.
        clients: ClientTable,
    },
    /// Make a component for an object that is being created, on the disk group that suits best.
    /// Answer: `Created`, also when it exists.
    CreateComponent {
        /// The object.
        object: ObjectId,
        /// The component.
        component: ComponentId,
        /// Its size.
        sectors: u64,
    },
    /// Delete a component that no record names (rule 40 is the sender's duty). Answer: `Done`, also
    /// when it is not there.
    DeleteComponent {
        /// The object.
        object: ObjectId,
        /// The component.
        component: ComponentId,
    },
    /// Keep space for a component, what it has included. Answer: `Done`; `Failed` with `Full` where
    /// not all of it is free and kept for nobody else. With [`RESERVE_LIMIT`] only a question, how
    /// much it could be: `Durable` with lsn 0 and these chunks.
    ReserveSpace {
        /// The component.
        component: ComponentId,
        /// Chunks of 1 MiB; 0 ends it.
        chunks: u32,
    },
    /// Does the receiver hold a component that surely has all that this one of the sender has? Then
    /// the sender may give its own up. Answer: `Done`, or `Refused`: `NotReady` where the receiver
    /// is about to give up what it has.
    Vouch {
        /// What there is to stand for.
        holding: Holding,
    },
    /// Please hand the object over (rule 53). Answer: `Done` or `Moved` or `Refused`.
    HandOver {
        /// The object.
        object: ObjectId,
        /// To whom.
        to: Owner,
    },
    /// A client's host wants to use the object through its owner (rule 45).
    ClientOpen {
        /// The volume.
        volume: VolumeId,
        /// The object.
        object: ObjectId,
        /// The term at which the sender believes the receiver to be the owner.
        term: Term,
    },
    /// A client's read. Answer: `Data`.
    ClientRead {
        /// The object.
        object: ObjectId,
        /// The owner's term (rule 43).
        term: Term,
        /// Within one chunk, not empty.
        range: SectorRange,
    },
    /// A client's write. Answer: `Done`.
    ClientWrite {
        /// The object.
        object: ObjectId,
        /// The owner's term (rule 43).
        term: Term,
        /// The request, the same in every attempt (rule 46); without one it may be carried out
        /// twice.
        id: Option<RequestId>,
        /// Within one chunk, not empty.
        range: SectorRange,
        /// What it does.
        kind: WriteKind,
        /// Of the payload; none but for `Data`.
        crcs: Crcs,
        /// `range.bytes()` for `Data`, else empty.
        payload: Slice,
    },
    /// A component of the sender holds data that is not what was written (rule 13). Answer: `Done`
    /// when it was written again from another active component, `Moved`, or `Failed`: `Io` where no
    /// active component has a good copy.
    Repair {
        /// The object.
        object: ObjectId,
        /// The owner's term.
        term: Term,
        /// The component, on the sending host.
        component: ComponentId,
        /// Within one chunk, not empty.
        range: SectorRange,
    },
    /// Where data is. Answer: `Extents`.
    ClientExtents {
        /// The object.
        object: ObjectId,
        /// The owner's term (rule 43).
        term: Term,
        /// Not empty.
        range: SectorRange,
    },
}

/// What a component says about itself (rule 19: believed when it is bad news).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has all that it ever acknowledged.
    Good,
    /// It lost what was above `destaged` (W): its `left` is W.
    Partial,
    /// It lost anything: its `left` is zero.
    Lost,
}

/// The answer to a `Fence`: what a component is, above all its tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The component's seat.
    pub seat: Seat,
    /// The highest version that it was ever told (rule 25).
    pub version: Version,
    /// The highest lsn that is durable.
    pub durable: Lsn,
    /// K, as far as it knows.
    pub commit: Lsn,
    /// W: everything up to here is on the capacity devices.
    pub destaged: Lsn,
    /// See `Granted`.
    pub grant_epoch: u64,
    /// The disk group that it is on: what the record is to say.
    pub group: GroupId,
    /// Ranges with lsn > K. Neighbours may be merged: then the lsn is the highest of them.
    pub tail: Vec<(SectorRange, Lsn)>,
    /// Requests whose effect it has.
    pub clients: ClientTable,
    /// Those of them with lsn > K: what they wrote. At most [`crate::OPEN_MAX`].
    pub open: Vec<(SectorRange, Lsn, RequestId)>,
    /// Whether it lost something.
    pub health: Health,
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Response {
    /// The receiver will not serve another owner before `ttl_ms` have gone by (rule 52).
    Granted {
        /// The `sent` of the `Renew`.
        sent: Instant,
        /// How long, from the arrival of the `Renew`; milliseconds.
        ttl_ms: u32,
        /// Counts how often a component of the asking host's went to another owner; a grant covers
        /// only components that were fenced at the same number.
        grant_epoch: u64,
    },
    /// It is so.
    Done,
    /// The component is there.
    Created {
        /// On this disk group.
        group: GroupId,
    },
    /// The session has begun (rule 24).
    Fenced(Box<Fenced>),
    /// The write and all before it in the session are durable (rule 4).
    Durable {
        /// The write's lsn.
        lsn: Lsn,
        /// Chunks that the disk group can still allocate (rule 2).
        free_chunks: u32,
    },
    /// Data.
    Data {
        /// One per touched block.
        crcs: Crcs,
        /// As long as the range that was asked for: the asker checks that, with [`crate::verify`].
        payload: Slice,
    },
    /// A part of what changed.
    Changed {
        /// What changed since, whether it holds data or not.
        ranges: Vec<SectorRange>,
        /// One bit per chunk from the cursor, lowest first: whether the component holds data there.
        held: Vec<u64>,
        /// Where to go on, chunk number; `None`: this was the end.
        next: Option<u64>,
    },
    /// Where data is: consecutive ranges from the start of what was asked for; may end early.
    Extents {
        /// Each with: is there data?
        ranges: Vec<(SectorRange, bool)>,
    },
    /// The receiver does not own the object.
    Moved {
        /// Who does, as far as it knows.
        owner: Option<Owner>,
        /// At which term.
        term: Term,
    },
    /// Not done, for a reason in the protocol; nothing changed.
    Refused {
        /// Why.
        reason: Refusal,
    },
    /// Tried and failed.
    Failed {
        /// Why.
        reason: Failure,
    },
}

/// More chunks than any component has: see [`Request::ReserveSpace`].
pub const RESERVE_LIMIT: u32 = u32::MAX;

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The component knows this higher term, or the same term with another owner.
    HigherTerm(Term),
    /// The component has this other seat (rule 9).
    Seat(Seat),
    /// No such session (any more); `Fence` again.
    Session,
    /// No such component here.
    UnknownComponent,
    /// Another owner may still serve reads by a grant of this host (rule 52b); nothing was changed.
    GrantedToOther {
        /// Ask again after so many milliseconds.
        wait_ms: u32,
    },
    /// `prev` is not the last lsn of this session: something was lost between. `Fence` again.
    OutOfOrder {
        /// The highest lsn that is durable.
        durable: Lsn,
    },
    /// Not able to answer yet; ask again.
    NotReady,
    /// A disk group of this host did not open, and the component is on no other: it may come back.
    GroupClosed,
    /// The component knows of a history of its record that the sender's does not descend from, as
    /// after the restore of an older directory (rule 25). Nothing was changed.
    OtherHistory {
        /// The highest version that it saw.
        version: Version,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No room on the disk group.
    Full,
    /// A device failed; the component is out of service.
    Device,
    /// Data does not match its checksums.
    BadCrc {
        /// Where.
        range: SectorRange,
    },
    /// Too much to do.
    Busy,
    /// Not enough components can be reached.
    Inaccessible,
    /// No good copy could be read.
    Io,
}
