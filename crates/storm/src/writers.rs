// SPDX-License-Identifier: Apache-2.0
//! Who may write to a volume, as its record says.

use directory::{OwnerRecord, Writers, Writing};

/// Who may write to a volume from a change of its record on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayWrite {
    Any,
    Nobody,
    Only(OwnerRecord),
}

impl MayWrite {
    /// What a record says.
    pub(crate) fn of(writing: &Writing) -> Self {
        match (writing.writers, writing.writer) {
            (Writers::Any, _) => Self::Any,
            (Writers::One, None) => Self::Nobody,
            (Writers::One, Some(writer)) => Self::Only(writer),
        }
    }
}

/// Why a volume's record may not say this behind that; `None`: it may.
pub(crate) fn forbidden(last: &Writing, next: &Writing) -> Option<&'static str> {
    let is_same = last.epoch == next.epoch;
    let is_other = last.writer.is_some() && next.writer != last.writer;
    match () {
        () if next.epoch < last.epoch => Some("the epoch of a volume's writer falls"),
        () if is_same && last.writers != next.writers => Some("an epoch means two things"),
        () if is_same && is_other => Some("an epoch has two writers"),
        () => None,
    }
}
