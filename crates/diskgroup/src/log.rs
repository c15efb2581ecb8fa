// SPDX-License-Identifier: Apache-2.0
//! The log as data: the commit under composition, the ring of segments, the index over them.
//!
//! Nothing here does I/O, or knows of capacity.

pub(crate) mod build;
pub(crate) mod index;
pub(crate) mod lowest;
pub(crate) mod ring;
