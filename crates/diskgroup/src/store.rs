// SPDX-License-Identifier: Apache-2.0
//! What is on capacity, as data: components, chunks, checksums, space, the memory of what changed.
//!
//! Nothing here does I/O or knows of the log's task and of destage.

pub(crate) mod capacity;
pub(crate) mod chunks;
pub(crate) mod components;
pub(crate) mod deletion;
pub(crate) mod history;
pub(crate) mod rows;
pub(crate) mod space;
