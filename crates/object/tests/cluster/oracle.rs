// SPDX-License-Identifier: Apache-2.0
//! What reads may return: each block has one writer at a time, which writes rising numbers.
//!
//! A read is right if it returns at least what was completed, and what was returned, before it
//! began, and at most what was begun before it ended. For one register with rising values that is
//! linearizability.

use base::{BLOCK_SECTORS, SectorRange};

#[derive(Clone, Copy, Default)]
struct Register {
    issued: u64,
    acked: u64,
    seen: u64,
}

pub struct Oracle {
    blocks: Vec<Register>,
    pub writes: u64,
    pub reads: u64,
}

impl Oracle {
    pub fn new(blocks: usize) -> Self {
        Self { blocks: vec![Register::default(); blocks], writes: 0, reads: 0 }
    }

    pub fn range(block: usize) -> SectorRange {
        SectorRange::new(block as u64 * BLOCK_SECTORS, BLOCK_SECTORS)
    }

    pub fn content(block: usize, version: u64) -> Vec<u8> {
        let word = if version == 0 { 0 } else { (block as u64) << 40 | version };
        word.to_le_bytes().repeat(512)
    }

    pub fn begin_write(&mut self, block: usize) -> u64 {
        self.blocks[block].issued += 1;
        self.blocks[block].issued
    }

    pub fn end_write(&mut self, block: usize, version: u64) {
        self.writes += 1;
        self.blocks[block].acked = self.blocks[block].acked.max(version);
    }

    /// The least that a read that begins now may return.
    pub fn begin_read(&self, block: usize) -> u64 {
        self.blocks[block].acked.max(self.blocks[block].seen)
    }

    pub fn end_read(&mut self, block: usize, least: u64, payload: &[u8]) -> Result<(), String> {
        self.reads += 1;
        let mut word = [0; 8];
        word.copy_from_slice(&payload[..8]);
        let version = u64::from_le_bytes(word) & ((1 << 40) - 1);
        if payload != Self::content(block, version) {
            return Err(format!("block {block}: content of no version (first word {word:?})"));
        }
        let register = &mut self.blocks[block];
        if version < least {
            return Err(format!("block {block}: read {version} after {least}"));
        }
        if version > register.issued {
            return Err(format!("block {block}: read {version}, only {} written", register.issued));
        }
        register.seen = register.seen.max(version);
        Ok(())
    }
}
