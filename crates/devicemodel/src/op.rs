// SPDX-License-Identifier: Apache-2.0
//! What models are told of.

/// What is asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOp {
    /// A read or a write.
    Transfer {
        /// First byte.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Ends no sooner than everything that was submitted before it.
    Flush,
}
