// SPDX-License-Identifier: Apache-2.0
//! What callers see of an object: data, errors, its components.

use crate::away::Away;
use base::{ComponentId, ObjectId, ShardId, Term};
use directory::ComponentState;
pub use diskgroup::ReadData;
use std::time::Duration;
use thiserror::Error;

/// Why an object did not do what was asked.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ObjectError {
    /// the object moved; a write may have happened: acquire it, then ask again
    #[error("the object is not served where it was; acquire it again")]
    NotOwner,
    /// too few components can be reached now; nothing was decided, ask again
    #[error("not enough components of the object can be reached")]
    Inaccessible,
    /// no space on a disk group of the object; nothing was written
    #[error("a disk group of the object is full")]
    Full,
    /// no good copy, a failed device, or a request that makes no sense
    #[error("no good copy of the data")]
    Io,
    /// the object does not exist (any more)
    #[error("the object is deleted")]
    Deleted,
    /// another host is the writer of the volume, or this write was taken before it was (rule 54);
    /// it did not happen
    #[error("another host writes to the volume")]
    NotWriter,
}

/// Why the components of an object are not changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// the object has no such component, or nothing replaces it
    #[error("the object has no such component, or nothing is to replace it")]
    Unknown,
    /// the new one would be on a host that has one
    #[error("the host has a component of the object already")]
    SameHost,
    /// it is being replaced already, or earlier ones are not deleted yet, or it is the only one, or
    /// the record has changed since somebody decided so
    #[error(
        "the component is being replaced already, or is the only whole one, or earlier ones are \
         still to be deleted, or something else has just changed"
    )]
    Busy,
    /// the new one does not fit
    #[error("the host has no room for it")]
    Full,
    /// the host could not make the new one, or does not answer
    #[error("the host cannot be reached or cannot make a component now")]
    NotMade,
    /// the object is not served now
    #[error(transparent)]
    Object(ObjectError),
}

impl ReplaceError {
    /// The owner is another one by now.
    pub(crate) fn moved() -> Self {
        Self::Object(ObjectError::NotOwner)
    }

    /// The owner or the directory cannot be asked now.
    pub(crate) fn unavailable() -> Self {
        Self::Object(ObjectError::Inaccessible)
    }
}

/// One component of an object, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentStatus {
    /// The component.
    pub id: ComponentId,
    /// Its host.
    pub shard: ShardId,
    /// What it is worth.
    pub state: ComponentState,
    /// The component whose place it takes once it is active.
    pub replaces: Option<ComponentId>,
    /// Bytes that its resync has still to copy; known at the owner only.
    pub resync_bytes_left: u64,
    /// Client writes that wait for their turn at it, while it is being resynced; known at the owner
    /// only.
    pub writes_waiting: u64,
    /// How its resync goes; known at the owner only.
    pub progress: Option<CopyProgress>,
    /// Why it does not take part; known at the owner only.
    pub away: Option<Away>,
}

/// How a resync goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes that were copied.
    pub copied: u64,
    /// Bytes a second, of the last seconds.
    pub per_second: u64,
    /// How long it has been going on.
    pub since: Duration,
}

/// One component that is not active while its host is there, and of which object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// The object.
    pub object: ObjectId,
    /// The component, by what its owner knows.
    pub component: ComponentStatus,
}

/// One object, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStatus {
    /// Who owns it by the record.
    pub owner: Option<directory::OwnerRecord>,
    /// The term of the record.
    pub term: Term,
    /// Whether it is served by this host now.
    pub is_served_here: bool,
    /// Its components.
    pub components: Vec<ComponentStatus>,
}

impl ObjectStatus {
    /// One of its components.
    #[must_use]
    pub fn component(&self, id: ComponentId) -> Option<&ComponentStatus> {
        self.components.iter().find(|component| component.id == id)
    }
}

/// What hosts say to a component that one wants to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// This one has all of it.
    By(ShardId),
    /// None of them, but one that has all of it is about to give it up.
    Busy,
    /// None of those that answered.
    ByNobody,
}
