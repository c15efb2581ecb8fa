// SPDX-License-Identifier: Apache-2.0
//! How much memory a process holds compared with what it uses, under the allocator of the program
//! that this is part of. The load is mixed and comes in bursts: buffers and small allocations.
//!
//! Buffers come from a shard's pool, with sizes of blocks, chunks, segments and what is between.
//! The small allocations are nodes of maps and vectors that live longer. Prints one line of JSON
//! per step: bytes in use, bytes resident, and how many resident bytes there are for each byte in
//! use.

use base::{Map, Rng};
use env::{Buf, Pool};
use std::collections::VecDeque;

const MIB: usize = 1 << 20;
/// Bytes of buffers in use at the height of a burst, and between bursts.
const HIGH: usize = 1024 * MIB;
const LOW: usize = 96 * MIB;
/// Allocations per step, and steps per burst. In a third of the steps the load is high.
const PER_STEP: usize = 40_000;
const STEPS_PER_BURST: usize = 6;

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a process");
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

/// A size as requests have it: mostly blocks, some of each other kind.
fn size(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0..60 => 4096,
        60..80 => 4096 * (2 + rng.below(14) as usize),
        80..95 => 128 * 1024 * (1 + rng.below(8) as usize),
        95..99 => MIB + 4096,
        _ => 4 * MIB,
    }
}

struct Load {
    rng: Rng,
    pool: Pool,
    buffers: VecDeque<Buf>,
    bytes: usize,
    /// Small allocations that stay while buffers come and go.
    nodes: Map<u64, [u64; 4]>,
    lists: VecDeque<Vec<u64>>,
    pages: VecDeque<Box<[u8; 5000]>>,
}

impl Load {
    fn step(&mut self, most: usize) {
        for _ in 0..PER_STEP {
            let mut buf = self.pool.take(size(&mut self.rng));
            // Touches every page, as a device or a socket would.
            buf.chunks_mut(4096).for_each(|page| page[0] = 1);
            self.bytes += buf.capacity();
            self.buffers.push_back(buf);
            self.small();
            while self.bytes > most {
                // Mostly in the order of arrival, but some long before their turn.
                let at = if self.rng.below(4) == 0 {
                    self.rng.below(self.buffers.len() as u64) as usize
                } else {
                    0
                };
                let Some(buf) = self.buffers.swap_remove_back(at) else { break };
                self.bytes -= buf.capacity();
            }
        }
    }

    fn small(&mut self) {
        let key = self.rng.below(200_000);
        if self.nodes.remove(&key).is_none() {
            self.nodes.insert(key, [key; 4]);
        }
        if self.rng.below(20) == 0 {
            let length = 1 + self.rng.below(1500) as usize;
            self.lists.push_back(vec![key; length]);
            self.pages.push_back(Box::new([0; 5000]));
            if self.lists.len() > 2000 {
                self.lists.pop_front();
                let at = self.rng.below(self.pages.len() as u64) as usize;
                self.pages.swap_remove_back(at);
            }
        }
    }

    fn live(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| list.capacity() * 8).sum();
        self.bytes + self.pool.kept() + self.nodes.len() * 60 + lists + self.pages.len() * 5000
    }
}

/// Runs the load. `allocator` is only the name to print; the number of bursts is an argument.
pub fn run(allocator: &str) {
    let words: Vec<String> = std::env::args().collect();
    let bursts = words.get(1).map_or(6, |word| word.parse::<usize>().expect("a number of bursts"));
    let mut load = Load {
        rng: Rng::new(1),
        pool: Pool::default(),
        buffers: VecDeque::new(),
        bytes: 0,
        nodes: Map::new(),
        lists: VecDeque::new(),
        pages: VecDeque::new(),
    };
    for step in 0..bursts * STEPS_PER_BURST {
        let is_high = step % STEPS_PER_BURST < STEPS_PER_BURST / 3;
        load.step(if is_high { HIGH } else { LOW });
        let (live, resident) = (load.live(), resident());
        println!(
            "{{\"allocator\":\"{allocator}\",\"step\":{step},\"live\":{live},\
             \"resident\":{resident},\"factor\":{:.2}}}",
            resident as f64 / live as f64
        );
    }
}
