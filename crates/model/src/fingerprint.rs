// SPDX-License-Identifier: Apache-2.0
//! 128 bits that stand for a state. Two of 100 million states share them with a probability of
//! about 10^-23, so the search keeps these and not the states.

use std::hash::{Hash, Hasher};

/// The fingerprint of `state`: equal states have equal ones, in every run.
pub(crate) fn fingerprint(state: &impl Hash) -> u128 {
    let mut lanes = Lanes { low: 0x0123_4567, high: 0x9876_5432_10fe_dcba };
    state.hash(&mut lanes);
    u128::from(lanes.high) << 64 | u128::from(lanes.low)
}

/// Two sums of the same input that begin and mix differently.
struct Lanes {
    low: u64,
    high: u64,
}

fn mix(sum: u64, input: u64, factor: u64) -> u64 {
    let mut mixed = (sum ^ input).wrapping_mul(factor);
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ mixed >> 32).rotate_left(5)
}

impl Hasher for Lanes {
    fn finish(&self) -> u64 {
        self.low
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, input: u8) {
        self.write_u64(u64::from(input));
    }

    fn write_u64(&mut self, input: u64) {
        self.low = mix(self.low, input, 0x9E37_79B9_7F4A_7C15);
        self.high = mix(self.high, input, 0xD6E8_FEB8_6659_FD93);
    }
}

/// A hasher for fingerprints. They are well mixed already, so it takes their low half as it is.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        let low = fingerprint & u128::from(u64::MAX);
        self.0 = u64::try_from(low).unwrap_or_else(|_| unreachable!("64 bits fit"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_depend_on_each_part_and_its_place() {
        let all = [(1_u8, 2_u8), (2, 1), (1, 1), (2, 2), (0, 0)].map(|pair| fingerprint(&pair));
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one));
        }
        assert_eq!(fingerprint(&(1_u8, 2_u8)), all[0]);
    }
}
