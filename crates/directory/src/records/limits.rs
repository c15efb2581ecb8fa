// SPDX-License-Identifier: Apache-2.0
//! How much a volume may do in a second.

use super::error::{RecordError, ensure};
use serde::{Deserialize, Serialize};

/// The lowest limit of requests a second: a longest read or write is 1,024 of them, and what
/// comes behind it waits for as long as that takes.
pub const IOPS_MIN: u64 = 32;
/// The highest limit of requests a second: more than any host does.
pub const IOPS_MAX: u64 = 100_000_000;
/// The lowest limit of bytes a second.
pub const BANDWIDTH_MIN: u64 = 1 << 20;
/// The highest limit of bytes a second.
pub const BANDWIDTH_MAX: u64 = 1 << 40;

/// What a volume may do in a second at each host that it is used through. `None`: as much as there
/// is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IoLimits {
    /// Reads and writes, [`IOPS_MIN`] to [`IOPS_MAX`]. One counts as many times as it has 32 KiB,
    /// rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes read and written, [`BANDWIDTH_MIN`] to [`BANDWIDTH_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

impl IoLimits {
    /// Whether there is any limit.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// What a record says of them: nothing where there are none.
    pub(super) fn said(self) -> Option<Self> {
        Some(self).filter(Self::is_any)
    }

    /// Whether they keep their invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        let is_in = |limit: Option<u64>, least, most| {
            limit.is_none_or(|limit| (least..=most).contains(&limit))
        };
        ensure(is_in(self.iops, IOPS_MIN, IOPS_MAX), "iops", "is not from 32 to 100,000,000")?;
        let is_right = is_in(self.bytes_per_second, BANDWIDTH_MIN, BANDWIDTH_MAX);
        ensure(is_right, "bytes_per_second", "is not from 1 MiB to 1 TiB")
    }
}
