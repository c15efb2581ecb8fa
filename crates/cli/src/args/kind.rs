// SPDX-License-Identifier: Apache-2.0
//! What disk groups are, as flags say it.

use host::ClusterKind;

/// The kind of this name.
pub fn cluster_kind(text: &str) -> Result<ClusterKind, String> {
    let kinds = [ClusterKind::AllFlash, ClusterKind::Hybrid];
    let kind = kinds.into_iter().find(|kind| kind.name() == text);
    kind.ok_or_else(|| "a disk group is 'all-flash' or 'hybrid'".to_owned())
}
