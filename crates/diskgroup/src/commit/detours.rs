// SPDX-License-Identifier: Apache-2.0
//! What the log and destage do in place of a rule that a switch removes ([`crate::mutations`]).
//! Builds for production contain none of it.

#[cfg(feature = "mutations")]
mod broken;
#[cfg(not(feature = "mutations"))]
mod intact;

#[cfg(feature = "mutations")]
pub(crate) use broken::{complete_second, merge_blindly, write_commit};
#[cfg(not(feature = "mutations"))]
pub(crate) use intact::{complete_second, merge_blindly, write_commit};
