// SPDX-License-Identifier: Apache-2.0
//! Checksum pages in memory: what is there is never older than what the journal says.

use super::scenarios::{Host, ONE, format, value, write};
use super::*;
use sim::{DiskModel, Latency};

const CHUNKS: u64 = 12;
/// Of each chunk: so many that most of what is read has left the log.
const BLOCKS: u64 = 16;

/// The first sector of a block, by its number over all chunks.
fn sector(block: u64) -> u64 {
    block % CHUNKS * base::CHUNK_SECTORS + block / CHUNKS * 8
}

/// Blocks are written, destaged and read all the time, with one checksum page in memory of the four
/// that the chunks need. No read may give something older than what was answered.
fn readers_beside_checkpoints(seed: u64, disk: DiskModel) {
    let world = World::new(WorldOptions { seed, disk, ..WorldOptions::default() });
    let key = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let host = Host { world, key };
    host.run(move |env| async move {
        format(&env, false).await.expect("new files");
        let group = DiskGroup::open(&env, &spec(1), options(Mutations::default(), 1)).await;
        let group = group.expect("a new group");
        let made = group.create_component(ONE, ObjectId(9), CHUNKS * base::CHUNK_SECTORS).await;
        made.expect("a component");
        group.drain_buffer(true);
        let tasks = env::TaskSet::default();
        let acked = Rc::new(RefCell::new(vec![0_u32; (CHUNKS * BLOCKS) as usize]));
        for reader in 0..4_u64 {
            let (group, acked) = (group.clone(), Rc::clone(&acked));
            let env_of_reader = env.clone();
            let mut rng = Rng::new(reader);
            tasks.spawn(&env, "read", async move {
                loop {
                    let block = rng.below(CHUNKS * BLOCKS);
                    let low = acked.borrow()[block as usize];
                    let found = value(&group, sector(block)).await;
                    assert!(found >= Some(low), "block {block}: {found:?} after {low}");
                    env_of_reader.sleep(Duration::from_micros(50)).await;
                }
            });
        }
        let mut rng = Rng::new(seed);
        for lsn in 1..=600 {
            let block = rng.below(CHUNKS * BLOCKS);
            write(&env, &group, lsn, sector(block), 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
            acked.borrow_mut()[block as usize] = lsn as u32;
            if lsn % 7 == 0 {
                env.sleep(Duration::from_millis(50)).await;
            }
        }
        assert!(group.status().destaged_blocks > 50, "{:?}", group.status());
    });
}

/// Writes take much longer than reads: a page that left memory while its image is on the way comes
/// back as it was before.
#[test]
fn a_checksum_page_stays_until_its_image_is_on_the_device() {
    let write_cached = Latency::micros(5000, 2000, 1_000_000_000);
    readers_beside_checkpoints(7, DiskModel { write_cached, ..DiskModel::default() });
}
