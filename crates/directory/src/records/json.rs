// SPDX-License-Identifier: Apache-2.0
//! What the JSON of all records has in common: a format number, and no fields but those of it.

use super::error::RecordError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The first format of each kind of record. What needs no newer field is still written in it.
pub const FORMAT: u32 = 1;

/// What is wrong with a field that another format has.
pub(super) const OTHER_FORMAT: &str = "does not belong to the record's format";

/// Only the format number: decides whether the rest is worth reading.
#[derive(Deserialize)]
struct Envelope {
    format: u32,
}

pub(super) fn to_json<T: Serialize>(stored: &T) -> Vec<u8> {
    match serde_json::to_vec(stored) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("records have text keys and no foreign types: {error}"),
    }
}

pub(super) fn from_json<T: Stored>(bytes: &[u8]) -> Result<T, RecordError> {
    let wrap = |source| RecordError::Json { source };
    let stored = serde_json::from_slice::<T>(bytes);
    // Nearly all are as they should be, and those are read once. Of what has another format the
    // number is all that can be told.
    let format = match &stored {
        Ok(stored) => stored.format(),
        Err(_) => serde_json::from_slice::<Envelope>(bytes).map_err(wrap)?.format,
    };
    if !T::FORMATS.contains(&format) {
        return Err(RecordError::Format { found: format });
    }
    let stored = stored.map_err(wrap)?;
    stored.check_format()?;
    Ok(stored)
}

/// The formats in which a kind of record may be stored.
pub(super) trait Stored: DeserializeOwned {
    const FORMATS: &[u32] = &[FORMAT];

    /// The format that it says it has.
    fn format(&self) -> u32;

    /// Whether its fields are those of its format.
    fn check_format(&self) -> Result<(), RecordError> {
        Ok(())
    }
}
