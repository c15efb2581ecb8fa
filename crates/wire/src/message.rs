// SPDX-License-Identifier: Apache-2.0
//! What hosts say to each other (docs/protocol.md#messages).

use crate::crcs::Crcs;
use crate::few::Few;
use crate::versions::Versions;
use base::{
    ClientTable, ComponentId, GroupId, Incarnation, Instant, Lsn, Mark, ObjectId, RequestId, Seat,
    SectorRange, Session, ShardId, Term, Version, VolumeId, WriterEpoch,
};
use env::Slice;

/// The component that a frame is for, and on whose behalf it comes. The receiver refuses a frame if
/// any of this differs from what it knows (rules 8, 9). Answers do not repeat it: their number
/// binds them to their request, on one link between two incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object.
    pub object: ObjectId,
    /// Its component on the receiving host.
    pub component: ComponentId,
    /// The term of the owner for whom the frame is sent.
    pub term: Term,
    /// The component's seat, as the record says.
    pub seat: Seat,
    /// The conversation that a `Fence` began. The owner numbers it. 0 in the `Fence` by which an
    /// old owner consents to a new one (rule 52b).
    pub session: Session,
}

/// A change of owner in the past of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireClaim {
    /// The term that began.
    pub term: Term,
    /// The version of the record after the change.
    pub version: Version,
    /// The owner in that term.
    pub owner: OwnerId,
}

/// A list of claims, cheap to clone. At most [`CLAIMS_MAX`](crate::CLAIMS_MAX) in a message.
pub type Claims = Few<WireClaim>;

/// A host in one run of its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId {
    /// The host.
    pub shard: ShardId,
    /// Its run.
    pub incarnation: Incarnation,
}

/// What a component holds, as its host says. Another component can stand for this one only if it
/// surely has as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The object.
    pub object: ObjectId,
    /// The component.
    pub component: ComponentId,
    /// Its size, in sectors.
    pub sectors: u64,
    /// The term in which it was fenced last.
    pub term: Term,
    /// The owner in that term. Term and owner together tell which history of the record the
    /// component belongs to (rule 25).
    pub owner: OwnerId,
    /// The highest version of the record that it or its host saw.
    pub version: Version,
    /// The highest lsn that is durable.
    pub durable: Lsn,
}

/// What a write says about requests of clients (rule 46). At most [`base::MARKS_MAX`] in a message.
pub type Marks = Few<Mark>;

/// A change of which components an object has (rules 38 to 40).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A component on another host takes the place of one. Two who move two components at the same
    /// moment must not bring them together.
    Replace {
        /// The component that is to leave.
        old: ComponentId,
        /// Where the new one is to be, not host zero.
        to: ShardId,
        /// The members of the record that this was decided by
        /// (`directory::ObjectRecord::members`): not done where it has others.
        members: u64,
    },
    /// This component stays, and what was to take its place goes.
    Keep(ComponentId),
    /// The object gets one more component. Two who see that one is missing must not both add one.
    Add {
        /// Where, not host zero.
        to: ShardId,
        /// The version of the record that this was decided by: not done where it is another one.
        version: Version,
    },
    /// A component leaves, and none takes its place. Two who see one too many must not take out one
    /// each.
    TakeOut {
        /// The component, not zero.
        component: ComponentId,
        /// The version of the record that this was decided by: not done where it is another one.
        version: Version,
    },
}

/// What a write does to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Data with checksums.
    Data,
    /// The range reads as zeros; nothing is allocated for it.
    Zero,
    /// The range reads as zeros, and its space may be given back.
    Discard,
}

/// The first frame of a link, in each direction. Every build reads that of every other one, so its
/// layout never changes, but for fields that a later version adds at its end. Those are ignored by
/// who does not know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The identity of the cluster. Hosts of another cluster are not talked to.
    pub cluster: u64,
    /// The host that sends this.
    pub me: OwnerId,
    /// What it speaks. The link gets the newest version that both of its ends speak.
    pub versions: Versions,
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
    /// A question. Its number is in the header.
    Request(Request),
    /// The answer to the question of the same number.
    Response(Response),
}

/// What one host asks of another.
#[derive(Clone, Debug)]
pub enum Request {
    /// Asks for a grant: the permission to answer reads, for all objects of this pair of hosts
    /// (rule 52). Answer: `Granted`.
    Renew {
        /// The clock of the asking host before it asked (rule 48). The answer repeats it.
        sent: Instant,
    },
    /// The sender uses no grant of the receiver any more (rule 52b). Answer: `Done`.
    Release,
    /// Begins a session at this term and seat, and stops every older one (rules 14, 24). Answer:
    /// `Fenced`, once nothing older is in flight.
    Fence {
        /// The component, and the session that begins. Session 0 is the consent of an old owner
        /// (rule 52b).
        target: Target,
        /// The version of the record that the sender knows.
        version: Version,
        /// The owner of the object at this term. It is the sender, except in the consent of an old
        /// owner (rule 52b).
        owner: OwnerId,
        /// `Some` where all data of the component is going to be copied to it: its size in sectors.
        /// A component that is missing is created; one that is damaged begins anew.
        create: Option<u64>,
        /// The newest claims that the record descends from, oldest first (rule 25).
        claims: Claims,
    },
    /// A write, or a copy by a resync, a repair or a take-over. Answer: `Durable`.
    Write {
        /// The component.
        target: Target,
        /// The number of the write.
        lsn: Lsn,
        /// The lsn that was sent before this one in the session. For the first write it is the
        /// `durable` of the answer that began the session.
        prev: Lsn,
        /// K: see docs/protocol.md#words-and-numbers.
        commit: Lsn,
        /// Within one chunk, not empty.
        range: SectorRange,
        /// What it does.
        kind: WriteKind,
        /// Whether this is a copy.
        is_copy: bool,
        /// Which requests of clients this carries out, or brings along or takes back as a copy
        /// (rule 46). At most [`base::MARKS_MAX`].
        marks: Marks,
        /// Checksums of the payload; empty unless the kind is `Data`.
        crcs: Crcs,
        /// `range.bytes()` for `Data`, else empty.
        payload: Slice,
    },
    /// Reads data of a component. Answer: `Data`.
    Read {
        /// The component.
        target: Target,
        /// Within one chunk, not empty.
        range: SectorRange,
    },
    /// Asks what changed on a component (rules 30, 33). Answer: `Changed`, a part at a time.
    ListChanged {
        /// The component.
        target: Target,
        /// Only changes with a higher lsn are wanted.
        since: Lsn,
        /// The chunk to begin at: 0 first, then `next` of the last answer.
        cursor: u64,
    },
    /// Tells K when no write carries it. Answer: `Durable` with K as its lsn.
    CommitInfo {
        /// The component.
        target: Target,
        /// K.
        commit: Lsn,
    },
    /// Replaces the client table of a component, which got the effect of these requests by copies
    /// (rule 46). Answer: `Done`, when the table is durable.
    SetClients {
        /// The component.
        target: Target,
        /// The table.
        clients: ClientTable,
    },
    /// Makes a component for an object that is being created, on the disk group that suits best.
    /// Answer: `Created`, also when the component exists.
    CreateComponent {
        /// The object.
        object: ObjectId,
        /// The component.
        component: ComponentId,
        /// Its size, in sectors.
        sectors: u64,
    },
    /// Deletes a component. The receiver does not ask why: to keep rule 40 is the sender's duty.
    /// Answer: `Done`, also when the component is not there.
    DeleteComponent {
        /// The object.
        object: ObjectId,
        /// The component.
        component: ComponentId,
    },
    /// Keeps space for a component. What the component has already counts as a part of it. Answer:
    /// `Done`; `Failed` with `Full` where too little is free and not kept for others. With
    /// [`RESERVE_LIMIT`] this is only a question: how much could be kept? Answer then: `Durable`
    /// with lsn 0 and that many chunks.
    ReserveSpace {
        /// The component.
        component: ComponentId,
        /// Chunks of 1 MiB. 0 keeps nothing any more.
        chunks: u32,
    },
    /// Asks whether the receiver has a component that surely has all that this one of the sender
    /// has. Then the sender may give its own up. Answer: `Done` if so, else `Refused`; with
    /// `NotReady` where the receiver may be about to give up what it has.
    Vouch {
        /// What the component of the sender holds.
        holding: Holding,
    },
    /// Asks the owner to hand the object over (rule 53). Answer: `Done`; `Moved` where the receiver
    /// does not do it, or is not the owner.
    HandOver {
        /// The object.
        object: ObjectId,
        /// The new owner: the host that asks.
        to: OwnerId,
    },
    /// Says that a host with clients uses the object through its owner. Answer: `Done`, once no
    /// earlier request of that host is under way (rule 45), or `Moved`.
    ClientOpen {
        /// The volume.
        volume: VolumeId,
        /// The object.
        object: ObjectId,
        /// The term at which the sender believes the receiver to be the owner.
        term: Term,
    },
    /// A client's read. Answer: `Data`, `Moved` or `Failed`.
    ClientRead {
        /// The object.
        object: ObjectId,
        /// The owner's term (rule 43).
        term: Term,
        /// Within one chunk, not empty.
        range: SectorRange,
    },
    /// A client's write. Answer: `Done`, `Moved` or `Failed`.
    ClientWrite {
        /// The object.
        object: ObjectId,
        /// The owner's term (rule 43).
        term: Term,
        /// The request, the same in every attempt (rule 46). A write without one may be carried out
        /// twice.
        id: Option<RequestId>,
        /// In which its host took it (rule 54); 0 where any host may write. Others only on a link
        /// of version 7 or later.
        epoch: WriterEpoch,
        /// Within one chunk, not empty.
        range: SectorRange,
        /// What it does.
        kind: WriteKind,
        /// Checksums of the payload; empty unless the kind is `Data`.
        crcs: Crcs,
        /// `range.bytes()` for `Data`, else empty.
        payload: Slice,
    },
    /// Says that a component of the sender holds data that is not what was written (rule 13).
    /// Answer: `Done` when it was written again from another active component; `Moved`; or
    /// `Failed`, with `Io` where no active component has a good copy.
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
    /// Asks the owner to change which components the object has. Answer: `Done` when the record
    /// says so; `Moved`; `Refused` where the record does not allow it; or `Failed`.
    Members {
        /// The object.
        object: ObjectId,
        /// The owner's term.
        term: Term,
        /// What is to be so.
        change: MemberChange,
    },
    /// Asks where data is. Answer: `Extents`, `Moved` or `Failed`.
    ClientExtents {
        /// The object.
        object: ObjectId,
        /// The owner's term (rule 43).
        term: Term,
        /// May span chunks. Senders ask for no empty range; nothing here checks that.
        range: SectorRange,
    },
}

/// What a component says about its data. Bad news is believed (rule 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHealth {
    /// It has all that it ever acknowledged.
    Good,
    /// It lost its write buffer: all that was above `destaged` (W). Its `left` in the record
    /// becomes W.
    Partial,
    /// It may have lost anything. Its `left` in the record becomes zero.
    Lost,
}

/// The answer to a `Fence`: what a component says of itself.
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
    /// W: everything up to it is on the capacity devices.
    pub destaged: Lsn,
    /// The number that grants to the new owner have now: see [`Response::Granted`].
    pub grant_epoch: u64,
    /// The disk group that holds the component. The owner writes it into the record.
    pub group: GroupId,
    /// Ranges with lsn > K. Several may be merged into one that covers them, with the highest of
    /// their lsns.
    pub tail: Vec<(SectorRange, Lsn)>,
    /// The table of requests whose effect the component has (rule 46).
    pub clients: ClientTable,
    /// The requests with lsn > K: what each wrote, and its lsn. At most [`crate::OPEN_MAX`].
    pub open: Vec<(SectorRange, Lsn, RequestId)>,
    /// Whether the component lost something.
    pub health: CopyHealth,
}

/// What comes back for a [`Request`].
#[derive(Clone, Debug)]
pub enum Response {
    /// A grant: before `ttl_ms` have gone by, the answering host accepts no other owner for what
    /// the asking host owns, unless that host consents (rule 52).
    Granted {
        /// The `sent` of the `Renew`.
        sent: Instant,
        /// Milliseconds from the arrival of the `Renew`.
        ttl_ms: u32,
        /// The epoch (rule 52a). It rises when a component of the asking host goes to another
        /// owner, and when a disk group of the answering host closes. A grant covers only
        /// components that were fenced at the same epoch.
        grant_epoch: u64,
    },
    /// It was done. To a `Vouch`: yes.
    Done,
    /// To a `ClientOpen`: done, and the owner knows writes of this run of the asking host, or of a
    /// later one (rule 46).
    Opened {
        /// None of them has a higher number, in whatever slot.
        last: RequestId,
    },
    /// The component is there.
    Created {
        /// The disk group that holds it.
        group: GroupId,
    },
    /// The session has begun (rule 24).
    Fenced(Box<Fenced>),
    /// The write and all before it in the session are durable (rule 4).
    Durable {
        /// The lsn of the write. To a `CommitInfo`: K.
        lsn: Lsn,
        /// Chunks that the component can still take on its device, its own reserve included
        /// (rule 2).
        free_chunks: u32,
    },
    /// Data.
    Data {
        /// Checksums, one for each block that the range touches.
        crcs: Crcs,
        /// The data, as long as the range that was asked for. The asker checks that with
        /// [`crate::verify`].
        payload: Slice,
    },
    /// A part of what changed.
    Changed {
        /// What changed since, whether it holds data or not.
        ranges: Vec<SectorRange>,
        /// One bit per chunk from the cursor on, lowest bit first: whether the component holds data
        /// there.
        held: Vec<u64>,
        /// The chunk to go on at. `None`: this was the last part.
        next: Option<u64>,
    },
    /// Where data is, in consecutive ranges from the start of what was asked for. They may end
    /// early.
    Extents {
        /// Each range, and whether there is data.
        ranges: Vec<(SectorRange, bool)>,
    },
    /// The receiver does not own the object.
    Moved {
        /// The host that owns it, as far as the receiver knows.
        owner: Option<OwnerId>,
        /// The term of that owner.
        term: Term,
    },
    /// Not done, because a rule of the protocol forbids it.
    Refused {
        /// Why.
        reason: Refusal,
    },
    /// Tried, and failed.
    Failed {
        /// Why.
        reason: Failure,
    },
}

/// More chunks than any component has. See [`Request::ReserveSpace`].
pub const RESERVE_LIMIT: u32 = u32::MAX;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The component knows this higher term, or the same term with another owner.
    HigherTerm(Term),
    /// The component has this later seat (rule 9).
    Seat(Seat),
    /// There is no such session, or a later one has begun. `Fence` again.
    Session,
    /// No such component is here, or one of another object or size.
    UnknownComponent,
    /// The old owner may still answer reads by a grant of this host (rule 52b). Nothing was
    /// changed.
    GrantedToOther {
        /// Milliseconds after which to ask again.
        wait_ms: u32,
    },
    /// `prev` is not the last lsn that was taken in this session: something was lost in between.
    /// `Fence` again.
    OutOfOrder {
        /// The highest lsn that is durable.
        durable: Lsn,
    },
    /// The receiver cannot answer yet. Ask again.
    NotReady,
    /// No open disk group of this host has the component, but one is closed. The component may be
    /// there and come back.
    GroupClosed,
    /// The record of the sender does not descend from the one that the component knows (rule 25):
    /// perhaps an older directory was restored. Nothing was changed.
    OtherHistory {
        /// The highest version of the record that the component saw.
        version: Version,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No room on the disk group.
    Full,
    /// A device failed, and the component is out of service.
    Device,
    /// Data does not match its checksums.
    BadCrc {
        /// Where.
        range: SectorRange,
    },
    /// Too many requests of this kind are under way.
    Busy,
    /// Too few components can be reached.
    Inaccessible,
    /// No good copy could be read, or the range is not within the component. To a `Fence`: a write
    /// of this term and seat failed, and although the disk group is well again, only a later term
    /// or seat is taken (rule 14).
    Io,
    /// The write was taken in another epoch than that of the object (rule 54). Only on a link of
    /// version 7 or later.
    NotWriter,
}
