// SPDX-License-Identifier: Apache-2.0
//! The steps from one state to the next, in words.

use super::state::{Block, Few, Host, Load, Lsn, Read, Term, Value, Write};
use std::fmt;

/// One step. Hosts come first, then what they do.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The host's process is gone.
    Crash(Host),
    /// It is there again.
    Restart(Host),
    /// The host notices that its lease is over.
    LeaseEndsAtHost(Host),
    /// The host's lease key leaves the directory.
    LeaseEndsInDirectory(Host),
    /// The host has its lease again, and looks at the record (rule 21).
    LeaseIsWonAgain(Host),
    /// A grant to an owner is given or renewed (rule 52a).
    Grant(Host, Host),
    /// The owner notices that a grant has run out.
    GrantEndsAtOwner(Host, Host),
    /// The component's host knows that its grant has run out.
    GrantEndsAtComponent(Host, Host),
    /// The CAS of a take-over (rule 22).
    TakeOver(Host, Term),
    /// A component answers a fence (rule 24).
    Fence(Host, Host),
    /// The fence round ends; those that did not answer are to leave (rule 26).
    FenceDone(Host),
    /// One component is chosen, and the tails are copied from it (rule 27).
    Choose(Host, Host),
    /// The first I/O is possible (rule 29).
    Serve(Host),
    /// The owner finds that it is no owner any more (rule 20).
    Resign(Host),
    /// The owner learns that its CAS landed.
    Learn(Host),
    /// A CAS lands in the directory.
    Land(Host),
    /// The CAS that marks a component absent is sent (rule 15).
    MarkAbsent(Host, Host),
    /// A write is sent (rule 3).
    Write(Host, Write, Lsn),
    /// A write is sent, but not to the returning component (rule 32).
    WriteDeferred(Host, Write, Lsn),
    /// A client's second request for the same write (rule 46).
    Resend(Host, Write),
    /// The owner knows that a write that was sent again is already done (rule 46).
    KnowsResent(Host, Write),
    /// A component takes a frame that is not durable yet.
    Accept(Host, Block, Lsn),
    /// A frame is durable.
    Apply(Host, Block, Value, Lsn),
    /// A write or copy is complete.
    Complete(Host, Load),
    /// An owner reads a component.
    Load(Host, Host, Block, Value, Read),
    /// A read is answered.
    Answer(Host, Read, Value),
    /// A resync begins (rule 31), with these blocks dirty (rule 33).
    Return(Host, Host, Few),
    /// A copy to the returning component is sent (rule 34).
    Copy(Host, Host, Block, Lsn),
    /// A resync is given up (rule 36).
    ReturnEnds(Host),
    /// The CAS that makes the component active is sent (rule 35).
    Join(Host),
    /// The CAS that makes it active and takes another one out is sent (rule 39).
    Replace(Host, Host),
    /// An operator has the object go on from an older component (rule 41a).
    Recover(Host),
    /// The CAS that adds a component to the record is sent (rule 38).
    Add(Host, Host),
    /// The CAS that takes one out of the record is sent (rule 40).
    Remove(Host, Host),
    /// A host reads that the record has its component no more (rule 40).
    Condemn(Host),
    /// It deletes it.
    Delete(Host),
}

/// A host's letter.
pub(super) fn name(host: Host) -> char {
    char::from(b'A' + host)
}

fn block(block: Block) -> char {
    char::from(b'x' + block)
}

/// What a block holds, as the client calls it.
pub(super) fn value(value: Value) -> String {
    if value == 0 { "nothing".into() } else { format!("w{value}") }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Crash(_)
            | Step::Restart(_)
            | Step::LeaseEndsAtHost(_)
            | Step::LeaseEndsInDirectory(_)
            | Step::LeaseIsWonAgain(_)
            | Step::Grant(..)
            | Step::GrantEndsAtOwner(..)
            | Step::GrantEndsAtComponent(..) => self.write_world(f),
            Step::TakeOver(..)
            | Step::Fence(..)
            | Step::FenceDone(_)
            | Step::Choose(..)
            | Step::Serve(_)
            | Step::Resign(_)
            | Step::Learn(_)
            | Step::Land(_)
            | Step::MarkAbsent(..) => self.write_ownership(f),
            Step::Recover(_)
            | Step::Replace(..)
            | Step::Add(..)
            | Step::Remove(..)
            | Step::Condemn(_)
            | Step::Delete(_) => self.write_membership(f),
            _ => self.write_data(f),
        }
    }
}

impl Step {
    fn write_world(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Crash(host) => write!(f, "{} crashes", name(host)),
            Step::Restart(host) => write!(f, "{} starts again", name(host)),
            Step::LeaseEndsAtHost(host) => write!(f, "{} notices the end of its lease", name(host)),
            Step::LeaseEndsInDirectory(host) => {
                write!(f, "the lease key of {} leaves the directory", name(host))
            }
            Step::LeaseIsWonAgain(host) => write!(f, "{} wins its lease again", name(host)),
            Step::Grant(from, to) => write!(f, "{} grants to {}", name(from), name(to)),
            Step::GrantEndsAtOwner(owner, from) => {
                write!(f, "{} notices the end of the grant of {}", name(owner), name(from))
            }
            Step::GrantEndsAtComponent(from, to) => {
                write!(f, "{} knows that its grant to {} has run out", name(from), name(to))
            }
            _ => unreachable!("a step of the world"),
        }
    }

    fn write_ownership(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::TakeOver(host, term) => {
                write!(f, "{} takes over, term {term} (rule 22)", name(host))
            }
            Step::Fence(host, at) => {
                write!(f, "{} fences the component of {} (rule 24)", name(host), name(at))
            }
            Step::FenceDone(host) => write!(f, "{} ends its fence round (rule 26)", name(host)),
            Step::Choose(host, from) => {
                write!(f, "{} makes tails equal to those of {} (rule 27)", name(host), name(from))
            }
            Step::Serve(host) => write!(f, "{} serves (rule 29)", name(host)),
            Step::Resign(host) => write!(f, "{} steps down (rule 20)", name(host)),
            Step::Learn(host) => write!(f, "{} learns that its CAS landed", name(host)),
            Step::Land(host) => write!(f, "a CAS of {} lands in the directory", name(host)),
            Step::MarkAbsent(host, which) => {
                write!(f, "{} sends the CAS: {} is absent (rule 15)", name(host), name(which))
            }
            _ => unreachable!("a step of ownership"),
        }
    }

    fn write_membership(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Recover(host) => {
                write!(f, "the operator has it go on from the copy of {} (rule 41a)", name(host))
            }
            Step::Replace(host, old) => {
                let (host, old) = (name(host), name(old));
                write!(f, "{host} sends the CAS: active, and {old} is out (rule 39)")
            }
            Step::Add(host, at) => {
                write!(f, "{} sends the CAS: one more on {} (rule 38)", name(host), name(at))
            }
            Step::Remove(host, at) => {
                write!(f, "{} sends the CAS: {} is out (rule 40)", name(host), name(at))
            }
            Step::Condemn(host) => {
                write!(f, "{} reads that its component is out (rule 40)", name(host))
            }
            Step::Delete(host) => write!(f, "{} deletes its component", name(host)),
            _ => unreachable!("a step of membership"),
        }
    }

    fn write_data(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Write(host, write, lsn) => {
                write!(f, "{} sends w{}, lsn {lsn}", name(host), write + 1)
            }
            Step::WriteDeferred(host, write, lsn) => {
                let host = name(host);
                write!(f, "{host} sends w{}, lsn {lsn}, not to the joiner", write + 1)
            }
            Step::Resend(host, write) => {
                write!(f, "{} gets w{} again and sends it", name(host), write + 1)
            }
            Step::KnowsResent(host, write) => {
                write!(f, "{} gets w{} again and knows it, answered", name(host), write + 1)
            }
            Step::Accept(host, at, lsn) => {
                write!(f, "{} takes the frame of {} with lsn {lsn}", name(host), block(at))
            }
            Step::Apply(host, at, held, lsn) => {
                let (host, at) = (name(host), block(at));
                write!(f, "{host} has {at} = {} durable, lsn {lsn}", value(held))
            }
            Step::Complete(host, Load::Write(write)) => {
                write!(f, "w{} is complete at {}, answered", write + 1, name(host))
            }
            Step::Complete(host, Load::Reconcile) => {
                write!(f, "a copy of equal tails is complete at {}", name(host))
            }
            Step::Complete(host, Load::Copy) => write!(f, "{}: the copy is answered", name(host)),
            Step::Load(host, from, at, held, read) => {
                let (host, from, at) = (name(host), name(from), block(at));
                write!(f, "r{} of {at}: {host} reads {from}: {}", read + 1, value(held))
            }
            Step::Answer(host, read, held) => {
                write!(f, "{} answers r{}: {}", name(host), read + 1, value(held))
            }
            Step::Return(host, target, dirty) => {
                let dirty: String = dirty.each().map(block).collect();
                let (host, target) = (name(host), name(target));
                write!(f, "{host} lets {target} return, dirty: [{dirty}] (rules 31, 33)")
            }
            Step::Copy(host, from, at, lsn) => {
                let (host, from, at) = (name(host), name(from), block(at));
                write!(f, "{host} copies {at} from {from}, lsn {lsn} (rule 34)")
            }
            Step::ReturnEnds(host) => write!(f, "{} gives the return up (rule 36)", name(host)),
            Step::Join(host) => write!(f, "{} sends the CAS: active (rule 35)", name(host)),
            _ => unreachable!("a step of data"),
        }
    }
}
