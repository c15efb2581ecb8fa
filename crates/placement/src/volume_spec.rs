// SPDX-License-Identifier: Apache-2.0
//! What an operator may ask for when creating a volume, checked before anything changes.

use base::SECTOR_SIZE;
use thiserror::Error;

/// Largest volume, bytes.
pub const VOLUME_SIZE_MAX: u64 = 62 << 40;
/// Most failures to tolerate: four copies.
pub const FTT_MAX: u8 = 3;
/// Most parts that a volume can be striped over.
pub const STRIPE_WIDTH_MAX: u8 = 12;
/// Longest name, bytes.
pub const NAME_MAX: usize = 63;

/// A volume that an operator asks for. Its fields were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    name: String,
    size_bytes: u64,
    ftt: u8,
    reserve_percent: u8,
    stripe_width: u8,
}

/// What is wrong with a request for a volume, and what would be right.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// illegal name
    #[error(
        "'{}' is not a volume name: use 1 to 63 of a-z, 0-9, '.' and '-', starting with a letter \
         or digit",
        .0.escape_debug()
    )]
    Name(String),
    /// zero, no multiple of 512, or too large
    #[error(
        "a volume of {0} bytes is not possible: the size is a multiple of 512 bytes, from 512B to \
         62TiB"
    )]
    Size(u64),
    /// more copies than an object has
    #[error("--ftt {0} is not supported: use 0 (one copy), 1 (two copies), 2 or 3 (four)")]
    Ftt(u8),
    /// above 100 percent
    #[error("--reserve {0} is not possible: it is percent of the volume's size, 0 to 100")]
    Reserve(u8),
    /// not 1 to 12 parts
    #[error(
        "--stripe-width {0} is not possible: it is over how many parts a volume is striped, 1 (it \
         is not) to 12"
    )]
    StripeWidth(u8),
}

/// Checks over how many parts a volume is to be striped.
///
/// # Errors
/// [`SpecError::StripeWidth`].
pub fn check_stripe_width(width: u8) -> Result<(), SpecError> {
    let is_right = (1..=STRIPE_WIDTH_MAX).contains(&width);
    if is_right { Ok(()) } else { Err(SpecError::StripeWidth(width)) }
}

/// Checks how many failures a volume is to tolerate.
///
/// # Errors
/// [`SpecError::Ftt`].
pub fn check_ftt(ftt: u8) -> Result<(), SpecError> {
    if ftt > FTT_MAX { Err(SpecError::Ftt(ftt)) } else { Ok(()) }
}

impl VolumeSpec {
    /// Checks a request.
    ///
    /// # Errors
    /// [`SpecError`], the first thing found wrong.
    pub fn new(name: &str, size_bytes: u64, ftt: u8) -> Result<Self, SpecError> {
        check_name(name)?;
        let whole = size_bytes.is_multiple_of(SECTOR_SIZE);
        if size_bytes == 0 || !whole || size_bytes > VOLUME_SIZE_MAX {
            return Err(SpecError::Size(size_bytes));
        }
        check_ftt(ftt)?;
        Ok(Self { name: name.to_owned(), size_bytes, ftt, reserve_percent: 0, stripe_width: 1 })
    }

    /// The same request, with this many percent of the size kept for the volume on each of its disk
    /// groups.
    ///
    /// # Errors
    /// [`SpecError::Reserve`].
    pub fn with_reserve(self, reserve_percent: u8) -> Result<Self, SpecError> {
        match reserve_percent {
            0..=100 => Ok(Self { reserve_percent, ..self }),
            _ => Err(SpecError::Reserve(reserve_percent)),
        }
    }

    /// The same request, for a volume that is striped over so many parts; 1: it is not.
    ///
    /// # Errors
    /// [`SpecError::StripeWidth`].
    pub fn with_stripes(self, stripe_width: u8) -> Result<Self, SpecError> {
        check_stripe_width(stripe_width).map(|()| Self { stripe_width, ..self })
    }

    /// The name, as [`check_name`] allows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size in bytes: a multiple of 512, from 512 to [`VOLUME_SIZE_MAX`].
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Percent of the size that is kept for the volume on each of its disk groups, 0 to 100.
    #[must_use]
    pub fn reserve_percent(&self) -> u8 {
        self.reserve_percent
    }

    /// Over how many parts it is striped, 1 to [`STRIPE_WIDTH_MAX`].
    #[must_use]
    pub fn stripe_width(&self) -> u8 {
        self.stripe_width
    }

    /// Failures to tolerate, at most [`FTT_MAX`].
    #[must_use]
    pub fn ftt(&self) -> u8 {
        self.ftt
    }
}

/// Whether `name` may name a volume: `[a-z0-9][a-z0-9.-]{0,62}`.
///
/// # Errors
/// [`SpecError::Name`].
pub fn check_name(name: &str) -> Result<(), SpecError> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-');
    if first && rest && name.len() <= NAME_MAX {
        return Ok(());
    }
    Err(SpecError::Name(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_would_hurt_later() {
        assert!(VolumeSpec::new("vm-1.disk0", 1 << 30, 1).is_ok());
        assert!(VolumeSpec::new(&"a".repeat(63), VOLUME_SIZE_MAX, 0).is_ok());
        for name in ["", "-a", ".a", "A", "a b", "a/b", "a_b", "\u{e4}", &"a".repeat(64)] {
            assert_eq!(VolumeSpec::new(name, 512, 0), Err(SpecError::Name(name.to_owned())));
        }
        for size in [0, 511, 513, VOLUME_SIZE_MAX + 512, u64::MAX] {
            assert_eq!(VolumeSpec::new("a", size, 0), Err(SpecError::Size(size)));
        }
        assert!(VolumeSpec::new("a", 512, 3).is_ok());
        assert_eq!(VolumeSpec::new("a", 512, 4), Err(SpecError::Ftt(4)));
        let spec = VolumeSpec::new("a", 512, 0).expect("a good one");
        assert_eq!(spec.clone().with_reserve(100).map(|spec| spec.reserve_percent()), Ok(100));
        assert_eq!(spec.clone().with_reserve(101), Err(SpecError::Reserve(101)));
        let striped = |width| spec.clone().with_stripes(width).map(|spec| spec.stripe_width());
        assert_eq!((striped(1), striped(12)), (Ok(1), Ok(12)));
        assert_eq!(striped(0), Err(SpecError::StripeWidth(0)));
        assert_eq!(striped(13), Err(SpecError::StripeWidth(13)));
    }
}
