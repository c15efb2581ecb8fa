// SPDX-License-Identifier: Apache-2.0
//! Damage to a capacity file (docs/formats/capacity-device.md says what is where).
//!
//! Only data is damaged: blocks of chunks. Every block of data has a checksum elsewhere, so damage
//! is noticed when it is read, and the other copy repairs it (rule 13).

use anyhow::{Context, Result, ensure};
use base::{BLOCK_SIZE, CHUNK_SIZE, Rng};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where a superblock keeps the place of the first chunk.
const CHUNK_START_AT: usize = 88;
const SUPERBLOCK_SLOTS: [u64; 2] = [0, 64 << 10];

/// Flips one bit in each of up to `count` blocks that hold data: how many.
///
/// Blocks of freed chunks may be among them; those do no harm.
///
/// # Errors
/// The file is no capacity device, or cannot be written.
pub fn flip_bits(path: &Path, rng: &mut Rng, count: usize) -> Result<usize> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.with_context(|| format!("cannot open '{}'", path.display()))?;
    let mut places = data_blocks(&file)?;
    let mut flipped = 0;
    while flipped < count && !places.is_empty() {
        let place = places.swap_remove(crate::fault::draw_index(rng, places.len()));
        let at = place + rng.below(BLOCK_SIZE);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 1 << rng.below(8)], at)?;
        flipped += 1;
    }
    file.sync_all()?;
    Ok(flipped)
}

/// Takes the second half of the file away.
///
/// # Errors
/// It cannot be written.
pub fn truncate(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let bytes = file.metadata()?.len();
    file.set_len(bytes / 2)?;
    Ok(file.sync_all()?)
}

/// Blocks of chunks that are not all zeros.
fn data_blocks(file: &File) -> Result<Vec<u64>> {
    let bytes = file.metadata()?.len();
    let mut at = chunk_start(file)?;
    let mut chunk = vec![0; usize::try_from(CHUNK_SIZE)?];
    let mut places = Vec::new();
    while at + CHUNK_SIZE <= bytes {
        file.read_exact_at(&mut chunk, at)?;
        for (number, block) in (0..).zip(chunk.chunks(usize::try_from(BLOCK_SIZE)?)) {
            if block.iter().any(|byte| *byte != 0) {
                places.push(at + number * BLOCK_SIZE);
            }
        }
        at += CHUNK_SIZE;
    }
    Ok(places)
}

fn chunk_start(file: &File) -> Result<u64> {
    for slot in SUPERBLOCK_SLOTS {
        let mut page = [0; 96];
        file.read_exact_at(&mut page, slot)?;
        if page.starts_with(b"GBSB") {
            let number = page[CHUNK_START_AT..].try_into()?;
            let start = u64::from_le_bytes(number);
            ensure!(start.is_multiple_of(CHUNK_SIZE) && start > 0, "chunks begin at {start}?");
            return Ok(start);
        }
    }
    anyhow::bail!("no superblock of a capacity device")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_with_data_are_damaged_by_one_bit_each() {
        let name = format!("gabion-chaos-device.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut content = vec![0_u8; usize::try_from(4 * CHUNK_SIZE).unwrap()];
        content[..4].copy_from_slice(b"GBSB");
        content[CHUNK_START_AT..96].copy_from_slice(&(2 * CHUNK_SIZE).to_le_bytes());
        let data = usize::try_from(3 * CHUNK_SIZE).unwrap();
        content[data..data + 8192].fill(7);
        std::fs::write(&path, &content).unwrap();
        assert_eq!(flip_bits(&path, &mut Rng::new(1), 5).unwrap(), 2);
        let after = std::fs::read(&path).unwrap();
        let differs: Vec<_> = (0..after.len()).filter(|at| after[*at] != content[*at]).collect();
        assert_eq!(differs.len(), 2);
        for at in differs {
            assert!((data..data + 8192).contains(&at));
            assert_eq!((after[at] ^ content[at]).count_ones(), 1);
        }
        truncate(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 * CHUNK_SIZE);
        std::fs::remove_file(&path).unwrap();
    }
}
