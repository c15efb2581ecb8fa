// SPDX-License-Identifier: Apache-2.0
//! In place of `broken.rs` in a build that keeps all rules.

use crate::log::build::Sealed;
use crate::state::GroupInner;
use env::IoError;
use std::convert::Infallible;
use std::rc::Rc;

/// Writes a commit. A second one is never in flight beside it.
pub(crate) async fn write_commit(
    _: &Rc<GroupInner>,
    _: u64,
    _: &Sealed,
    write: impl Future<Output = Result<(), IoError>>,
) -> (Result<(), IoError>, Option<Infallible>) {
    (write.await, None)
}

/// Nothing is left to do.
pub(crate) fn complete_second(_: &GroupInner, _: u64, _: Option<Infallible>) {}

/// A block that fails its checksum is not merged.
pub(crate) async fn merge_blindly(_: &Rc<GroupInner>, _: u32, _: u64, _: u64) -> Option<Vec<u8>> {
    None
}
