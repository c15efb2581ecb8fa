// SPDX-License-Identifier: Apache-2.0
//! A hash map of u64 keys that hashes the same way in each run.

use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A fixed hasher of single u64 keys.
#[derive(Default, Clone)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let mut x = (self.0 ^ value).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        x ^= x >> 32;
        x = x.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        self.0 = x ^ (x >> 29);
    }
}

/// A hash map that is never iterated, except by an audit, which only counts.
pub(crate) type FixedMap<V> = HashMap<u64, V, BuildHasherDefault<Mix>>;
