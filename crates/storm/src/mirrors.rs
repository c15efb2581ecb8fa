// SPDX-License-Identifier: Apache-2.0
//! Checks that the copies of each object are equal. It reads them from the disk groups directly,
//! past the protocol.

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

/// What was read of one copy.
struct Copy {
    object: u64,
    host: usize,
    /// The copy's blocks. `None` for blocks that damage made unreadable. No client has read such a
    /// block since, because a client's read would have repaired it.
    blocks: Blocks,
}

/// A block. `None` where all of it is zero: a large volume has hardly anything else.
type Content = Option<Vec<u8>>;

fn content_of(block: &[u8]) -> Content {
    block.iter().any(|byte| *byte != 0).then(|| block.to_vec())
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
        let zeros = vec![0; BLOCK_BYTES];
        let (mine, theirs) = (mine.as_ref().unwrap_or(&zeros), theirs.as_ref().unwrap_or(&zeros));
        let at = mine.iter().zip(theirs).position(|(a, b)| a != b).unwrap_or(0);
        let first = at / SECTOR_SIZE as usize * SECTOR_SIZE as usize;
        Some(format!(
            "sector {} differs between host{} (write {}) and host{} (write {})",
            block * BLOCK_SECTORS + at as u64 / SECTOR_SIZE,
            self.host + 1,
            tag(&mine[first..]),
            other.host + 1,
            tag(&theirs[first..]),
        ))
    }
}

/// The first word of a sector, which is the tag of the write that brought it.
fn tag(sector: &[u8]) -> u64 {
    sector.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
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
