// SPDX-License-Identifier: Apache-2.0
//! Checks that the copies of each object are equal. It reads them from the disk groups directly,
//! past the protocol. Of what it read it keeps marks, not the content: a large volume has several
//! copies of hundreds of megabytes.

use crate::cluster::Cluster;
use base::{BLOCK_SECTORS, CHUNK_SECTORS, ComponentId, SECTOR_SIZE, SectorRange};
use diskgroup::{DiskGroup, GroupError};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The most virtual time that reading one component may take.
const READ_MAX: Duration = Duration::from_secs(60);

/// Bytes of a block.
const BLOCK_BYTES: usize = (BLOCK_SECTORS * SECTOR_SIZE) as usize;
const SECTORS: usize = BLOCK_SECTORS as usize;
const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// What was read of one copy.
struct Copy {
    object: u64,
    host: usize,
    /// The copy's blocks. `None` for blocks that damage made unreadable. No client has read such a
    /// block since, because a client's read would have repaired it.
    blocks: Blocks,
}

/// A block. `None` where all of it is zero: a large volume has hardly anything else.
type Content = Option<Box<[SectorMark; SECTORS]>>;

/// What is kept of a sector: which write it holds, and a hash of all its words, in which any one
/// word that differs shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SectorMark {
    tag: u64,
    hash: u64,
}

impl SectorMark {
    /// Of the sector's bytes. The tag is its first word.
    fn of(sector: &[u8]) -> Self {
        let (words, _) = sector.as_chunks::<8>();
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let mix = |hash: u64, bytes| {
            (hash.rotate_left(5) ^ word(bytes)).wrapping_mul(0x517C_C1B7_2722_0A95)
        };
        Self { tag: words.first().map_or(0, word), hash: words.iter().fold(0, mix) }
    }
}

fn content_of(block: &[u8]) -> Content {
    if ZEROS.starts_with(block) {
        return None;
    }
    let mut marks = Box::<[SectorMark; SECTORS]>::default();
    for (mark, sector) in marks.iter_mut().zip(block.chunks(SECTOR_SIZE as usize)) {
        *mark = SectorMark::of(sector);
    }
    Some(marks)
}

/// Compares every active component of the cluster with the others of its object. On hosts that
/// `damaged` names, blocks may be unreadable, but not wrong. Returns how many pairs it compared.
///
/// # Errors
/// One line that names the first difference, or a component that cannot be read.
pub fn compare(cluster: &Cluster, damaged: impl Fn(usize) -> bool) -> Result<u64, String> {
    let mut copies: Vec<Copy> = Vec::new();
    for host in 0..cluster.machines.len() {
        let Some(node) = cluster.node(host) else {
            return Err(format!("host{} is not up at the end", host + 1));
        };
        for group in node.groups() {
            for component in group.components() {
                let Some(info) = group.component(component) else { continue };
                if cluster.records.is_active(component) {
                    let (group, may_be_bad) = (group.clone(), damaged(host));
                    let blocks =
                        read_all(cluster, host, group, (component, info.sectors), may_be_bad)?;
                    copies.push(Copy { object: info.object.0, host, blocks });
                }
            }
        }
    }
    let mut compared = 0;
    for (position, copy) in copies.iter().enumerate() {
        for other in copies[position + 1..].iter().filter(|other| other.object == copy.object) {
            compared += 1;
            if let Some(difference) = copy.difference(other) {
                return Err(difference);
            }
        }
    }
    Ok(compared)
}

impl Copy {
    fn difference(&self, other: &Self) -> Option<String> {
        let pairs = self.blocks.iter().zip(&other.blocks).enumerate();
        let both = pairs.filter_map(|(at, (a, b))| Some((at as u64, a.as_ref()?, b.as_ref()?)));
        let (block, mine, theirs) = both.into_iter().find(|(_, a, b)| a != b)?;
        let (mine, theirs) = (mine.clone().unwrap_or_default(), theirs.clone().unwrap_or_default());
        let at = mine.iter().zip(&*theirs).position(|(a, b)| a != b).unwrap_or(0);
        Some(format!(
            "sector {} differs between host{} (write {}) and host{} (write {})",
            block * BLOCK_SECTORS + at as u64,
            self.host + 1,
            mine[at].tag,
            other.host + 1,
            theirs[at].tag,
        ))
    }
}

type Blocks = Vec<Option<Content>>;

fn read_all(
    cluster: &Cluster,
    host: usize,
    group: DiskGroup,
    (component, sectors): (ComponentId, u64),
    may_be_bad: bool,
) -> Result<Blocks, String> {
    let Some(env) = cluster.world.env(cluster.machines[host].key) else {
        return Err(format!("host{} has no process", host + 1));
    };
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    let task = env.spawn("compare", async move {
        let mut blocks = Blocks::new();
        let mut outcome = Ok(());
        for chunk in SectorRange::new(0, sectors).split_at_multiples(CHUNK_SECTORS) {
            let read = read_chunk(&group, component, chunk, may_be_bad, &mut blocks).await;
            outcome = outcome.and(read);
        }
        *place.borrow_mut() = Some(outcome.map(|()| blocks));
    });
    cluster.world.run_until(READ_MAX, || result.borrow().is_some());
    drop(task);
    let taken = result.borrow_mut().take();
    match taken {
        Some(Ok(blocks)) => Ok(blocks),
        Some(Err(error)) => Err(format!("host{}: {error}", host + 1)),
        None => Err(format!("host{} does not finish reading", host + 1)),
    }
}

/// Reads a chunk at once. If it has bad blocks and may have them, reads block by block.
async fn read_chunk(
    group: &DiskGroup,
    component: ComponentId,
    chunk: SectorRange,
    may_be_bad: bool,
    blocks: &mut Blocks,
) -> Result<(), String> {
    let is_bad = |error: &GroupError| {
        may_be_bad && matches!(error, GroupError::BadCrc { .. } | GroupError::Device { .. })
    };
    match group.read(component, chunk).await {
        Ok(data) => {
            blocks.extend(data.payload.chunks(BLOCK_BYTES).map(|block| Some(content_of(block))))
        }
        Err(error) if is_bad(&error) => {
            for block in chunk.split_at_multiples(BLOCK_SECTORS) {
                match group.read(component, block).await {
                    Ok(data) => blocks.push(Some(content_of(&data.payload))),
                    Err(error) if is_bad(&error) => blocks.push(None),
                    Err(error) => return Err(format!("{block:?}: {error}")),
                }
            }
        }
        Err(error) => return Err(format!("{chunk:?}: {error}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(host: usize, bytes: &[u8]) -> Copy {
        Copy {
            object: 1,
            host,
            blocks: bytes.chunks(BLOCK_BYTES).map(|b| Some(content_of(b))).collect(),
        }
    }

    #[test]
    fn a_difference_of_one_bit_is_found_wherever_it_is() {
        let mut whole = vec![0; 3 * BLOCK_BYTES];
        oracle::fill(SectorRange::new(4, 4), 7, &mut whole[4 * 512..8 * 512]);
        oracle::fill(SectorRange::new(16, 8), 9, &mut whole[16 * 512..24 * 512]);
        let one = copy(0, &whole);
        assert_eq!(one.difference(&copy(1, &whole)), None);
        for at in (0..whole.len()).step_by(37) {
            let mut other = whole.clone();
            other[at] ^= 1 << (at % 8);
            let sector = at / 512;
            let found = one.difference(&copy(1, &other)).expect("it differs");
            assert!(
                found.starts_with(&format!("sector {sector} differs between host1")),
                "{found}"
            );
        }
    }

    #[test]
    fn what_differs_is_said_by_the_writes_that_are_there() {
        let mut whole = vec![0; 2 * BLOCK_BYTES];
        oracle::fill(SectorRange::new(8, 8), 7, &mut whole[BLOCK_BYTES..]);
        let mut other = whole.clone();
        oracle::fill(SectorRange::new(10, 1), 9, &mut other[10 * 512..11 * 512]);
        let (one, mut other) = (copy(0, &whole), copy(2, &other));
        let found = one.difference(&other);
        let text = "sector 10 differs between host1 (write 7) and host3 (write 9)";
        assert_eq!(found.as_deref(), Some(text));
        other.blocks[1] = None;
        assert_eq!(one.difference(&other), None, "a block that damage made unreadable");
    }
}
