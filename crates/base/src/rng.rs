// SPDX-License-Identifier: Apache-2.0
//! A small generator of our own (xoshiro256++), so that a seed gives the same numbers for ever.
//!
//! Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021.

/// A deterministic stream of random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A stream that depends on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// An independent stream: the same seed with another salt. Adding draws to one stream leaves
    /// the others as they were.
    #[must_use]
    pub fn stream(seed: u64, salt: u64) -> Self {
        Self::new(seed ^ salt.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`; `bound` must not be zero. The bias is below 2^-32 for bounds up to
    /// 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no number");
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// A number in `low..=high`, which must not be empty nor all numbers of 64 bits.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range has no number");
        low + self.below(high - low + 1)
    }

    /// True with a probability of `parts` in a million.
    pub fn chance_ppm(&mut self, parts: u64) -> bool {
        self.below(1_000_000) < parts
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut rng = Rng::new(42);
        let first = [rng.next_u64(), rng.next_u64()];
        assert_eq!(first, [0xd076_4d4f_4476_689f, 0x519e_4174_576f_3791]);
        let mut rng = Rng::new(42);
        for _ in 0..1000 {
            assert!(rng.below(7) < 7);
        }
    }
}
