// SPDX-License-Identifier: Apache-2.0
//! What can be wrong with a record.

use base::Set;
use thiserror::Error;

/// Why a value is not the record that its key promises.
#[derive(Debug, Error)]
pub enum RecordError {
    /// not JSON, or not with exactly the fields of this record
    #[error("not a record of this kind")]
    Json {
        /// Where and what.
        #[source]
        source: serde_json::Error,
    },
    /// written by a program of another format
    #[error("record format {found} is not one that this program knows")]
    Format {
        /// The format number in the value.
        found: u32,
    },
    /// well-formed, but against an invariant of the record
    #[error("field '{field}' {rule}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The rule that it breaks.
        rule: &'static str,
    },
}

pub(super) fn ensure(
    holds: bool,
    field: &'static str,
    rule: &'static str,
) -> Result<(), RecordError> {
    if holds { Ok(()) } else { Err(RecordError::Invalid { field, rule }) }
}

pub(super) fn are_unique<T: Ord>(items: impl Iterator<Item = T>) -> bool {
    let mut seen = Set::new();
    items.into_iter().all(|item| seen.insert(item))
}
