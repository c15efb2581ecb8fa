// SPDX-License-Identifier: Apache-2.0
//! Volumes for which read cache is kept (docs/operations/read-cache.md).

use super::error::{RecordError, ensure};

/// The format of the record of a volume for which read cache is kept, whatever else it has.
pub const FORMAT_CACHE: u32 = 12;

/// Whether a volume can have such a reserve, and so much read cache.
pub(super) fn check_percents(reserve: u8, cache: u8) -> Result<(), RecordError> {
    ensure(reserve <= 100, "reserve_percent", "is above 100")?;
    ensure(cache <= 100, "cache_percent", "is above 100")
}
