// SPDX-License-Identifier: Apache-2.0
//! The versions of frames, and how two hosts find one that both speak.

use std::fmt;

/// The lowest version that this build speaks.
pub const VERSION_MIN: u8 = 6;
/// The newest version that this build speaks.
pub const VERSION: u8 = 7;
/// In the header of each [`Hello`](crate::Hello), whatever its sender speaks. It never changes, and
/// nor does the layout of a `Hello`, but for fields that a later version adds at its end: hosts
/// that share no version must still be able to read what the other one speaks.
pub const HELLO_VERSION: u8 = 6;

const _: () = {
    assert!(1 <= VERSION_MIN);
    assert!(VERSION_MIN <= VERSION);
    assert!(HELLO_VERSION == 6, "every build that there ever was reads this one");
};

/// The versions that a host speaks: all from the lowest to the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    min: u8,
    max: u8,
}

impl Versions {
    /// What this build speaks.
    pub const SPOKEN: Self = Self { min: VERSION_MIN, max: VERSION };

    /// All from `min` to `max`. `None` where these are none, or begin with 0, which is no version.
    #[must_use]
    pub fn new(min: u8, max: u8) -> Option<Self> {
        (1 <= min && min <= max).then_some(Self { min, max })
    }

    /// The lowest one.
    #[must_use]
    pub fn min(self) -> u8 {
        self.min
    }

    /// The newest one.
    #[must_use]
    pub fn max(self) -> u8 {
        self.max
    }

    /// The newest version of both. Both ends of a link find the same one.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u8> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min == self.max {
            true => write!(f, "version {}", self.max),
            false => write!(f, "versions {} to {}", self.min, self.max),
        }
    }
}
