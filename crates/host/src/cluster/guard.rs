// SPDX-License-Identifier: Apache-2.0
//! Guards of creations: a volume whose records take several transactions has one from the first of
//! them to the last. What it keeps from being deleted is argued in [`crate::care::leftovers`].

use base::VolumeId;

/// Keys of creations under way.
pub(crate) const GUARD_PREFIX: &str = "/gabion/creating/";

/// The key that stands while a volume is created in several transactions.
pub(crate) fn guard_key(volume: VolumeId) -> String {
    format!("{GUARD_PREFIX}{volume}")
}
