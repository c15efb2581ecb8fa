// SPDX-License-Identifier: Apache-2.0
//! Deletions that are durable and not over yet.

/// A component that is gone, and how far its chunks have come back.
pub(crate) struct Deletion {
    pub(crate) serial: u32,
    pub(crate) device: usize,
    pub(crate) next: u64,
    pub(crate) chunks: u64,
}
