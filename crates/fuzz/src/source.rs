// SPDX-License-Identifier: Apache-2.0
//! Values out of an input's bytes; zeros where the input has ended.

/// What is left of an input. Never fails: short inputs mean small values.
#[derive(Clone, Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// All of `input`.
    #[must_use]
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next bytes, at most `count`.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count.min(self.0.len()));
        self.0 = tail;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let bytes = self.bytes(N);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// One bit.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// A number in `0..bound`, from as few bytes as it takes; 0 where `bound` is.
    pub fn below(&mut self, bound: u64) -> u64 {
        match bound {
            0 | 1 => 0,
            2..=0x100 => u64::from(self.u8()) % bound,
            0x101..=0x1_0000 => u64::from(self.u16()) % bound,
            _ => self.u64() % bound,
        }
    }

    /// As [`Source::below`], for places in memory.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }

    /// A number that programs tend to get wrong, or any.
    pub fn edge(&mut self) -> u64 {
        let small = u64::from(self.u8() % 5);
        match self.u8() % 8 {
            0 => small,
            1 => u64::MAX - small,
            2 => (1 << 63) - 2 + small,
            3 => u64::from(u32::MAX) - 2 + small,
            4 => (1 << (self.u8() % 64)) - 1 + small % 3,
            5 => u64::from(self.u16()),
            6 => u64::from(self.u32()),
            _ => self.u64(),
        }
    }
}
