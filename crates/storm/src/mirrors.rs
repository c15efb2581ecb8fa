// SPDX-License-Identifier: Apache-2.0
//! Whether the copies are equal, read from the disk groups behind the protocol's back.

use crate::cluster::Cluster;
use base::{CHUNK_SECTORS, ComponentId, SectorRange};
use diskgroup::DiskGroup;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Time to read one component, virtual.
const READ_MAX: Duration = Duration::from_secs(60);

/// Compares every component of the cluster with the others of its object.
///
/// # Errors
/// One line that names the first difference, or a component that cannot be read.
pub fn compare(cluster: &Cluster) -> Result<u64, String> {
    let mut contents: Vec<(u64, usize, Vec<u8>)> = Vec::new();
    for index in 0..cluster.machines.len() {
        if cluster.is_lost(index) {
            continue;
        }
        let Some(node) = cluster.node(index) else {
            return Err(format!("host{} is not up at the end", index + 1));
        };
        for group in node.groups() {
            for component in group.components() {
                let Some(info) = group.component(component) else { continue };
                if !cluster.records.is_active(component) {
                    continue;
                }
                let content = read_all(cluster, index, group.clone(), component, info.sectors)?;
                contents.push((info.object.0, index, content));
            }
        }
    }
    let mut compared = 0;
    for (position, (object, host, content)) in contents.iter().enumerate() {
        for (other_object, other_host, other) in &contents[position + 1..] {
            if object != other_object {
                continue;
            }
            compared += 1;
            let differs = content.iter().zip(other).position(|(a, b)| a != b);
            if let Some(at) = differs {
                let (sector, first) = (at / 512, at / 512 * 512);
                return Err(format!(
                    "sector {sector} differs between host{} (write {}) and host{} (write {})",
                    host + 1,
                    tag(&content[first..]),
                    other_host + 1,
                    tag(&other[first..]),
                ));
            }
        }
    }
    Ok(compared)
}

/// The first word of a sector: which write it is of, for people.
fn tag(sector: &[u8]) -> u64 {
    sector.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn read_all(
    cluster: &Cluster,
    index: usize,
    group: DiskGroup,
    component: ComponentId,
    sectors: u64,
) -> Result<Vec<u8>, String> {
    let Some(env) = cluster.world.env(cluster.machines[index].key) else {
        return Err(format!("host{} has no process", index + 1));
    };
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    let task = env.spawn("compare", async move {
        let mut content = Vec::new();
        for piece in SectorRange::new(0, sectors).split_at_multiples(CHUNK_SECTORS) {
            match group.read(component, piece).await {
                Ok(data) => content.extend_from_slice(&data.payload),
                Err(error) => {
                    *place.borrow_mut() = Some(Err(format!("{piece:?}: {error}")));
                    return;
                }
            }
        }
        *place.borrow_mut() = Some(Ok(content));
    });
    cluster.world.run_until(READ_MAX, || result.borrow().is_some());
    drop(task);
    let taken = result.borrow_mut().take();
    match taken {
        Some(Ok(content)) => Ok(content),
        Some(Err(error)) => Err(format!("host{}: {error}", index + 1)),
        None => Err(format!("host{} does not finish reading", index + 1)),
    }
}
