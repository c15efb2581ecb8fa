// SPDX-License-Identifier: Apache-2.0
//! The keys of chunks and blocks of components, by which the maps of several rooms are sorted.

use base::CHUNK_BLOCKS;

/// The key of a chunk of a component.
pub(crate) fn chunk_key(serial: u32, chunk: u64) -> u64 {
    u64::from(serial) << 32 | chunk
}

/// The key of a block of a component.
pub(crate) fn block_key(serial: u32, block: u64) -> u64 {
    u64::from(serial) << 40 | block
}

/// The component's serial in the key of a chunk.
pub(crate) fn serial_of(chunk_key: u64) -> u32 {
    u32::try_from(chunk_key >> 32).unwrap_or(u32::MAX)
}

/// The key of the chunk that a block is in, by the block's key.
pub(crate) fn chunk_of_block(block_key: u64) -> u64 {
    let block = block_key & ((1 << 40) - 1);
    block_key >> 40 << 32 | (block / CHUNK_BLOCKS)
}
