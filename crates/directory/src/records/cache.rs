// SPDX-License-Identifier: Apache-2.0
//! Volumes for which read cache is kept (docs/operations/read-cache.md).

use super::error::{RecordError, ensure};

/// The format of the record of a volume for which read cache is kept, whatever else it has.
pub const FORMAT_CACHE: u32 = 12;

/// Whether read cache can be kept for so much of a volume's size.
pub(super) fn check_cache_percent(percent: u8) -> Result<(), RecordError> {
    ensure(percent <= 100, "cache_percent", "is above 100")
}
