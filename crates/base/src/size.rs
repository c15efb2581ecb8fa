// SPDX-License-Identifier: Apache-2.0
//! Sizes as people write them: `1GiB`, `512KiB`, `4096`. Decimal units are refused, not guessed.

use thiserror::Error;

/// Why a size was refused. What was written is shown in one line, whatever is in it.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParseSizeError {
    /// nothing that starts with a number
    #[error(
        "'{}' is not a size: write a number and a unit, for example 10GiB",
        .0.escape_debug()
    )]
    NotANumber(String),
    /// decimal or unknown unit
    #[error(
        "'{}' has the unit '{}': use B, KiB, MiB, GiB or TiB (1GiB = 1073741824 bytes)",
        text.escape_debug(),
        unit.escape_debug()
    )]
    Unit {
        /// The whole text.
        text: String,
        /// The part that is no unit.
        unit: String,
    },
    /// above 2^64 bytes
    #[error("'{}' is larger than any size", .0.escape_debug())]
    TooLarge(String),
}

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Bytes of a written size. A bare number is bytes. Whole numbers only; `GB` is refused because
/// half of all readers take it for `GiB`.
///
/// # Errors
/// [`ParseSizeError`] with the text and what to write instead.
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(ParseSizeError::NotANumber(text.to_owned()));
    }
    let number: u64 = number.parse().map_err(|_| ParseSizeError::TooLarge(text.to_owned()))?;
    let factor = match unit {
        "" => 1,
        _ => {
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(
                || ParseSizeError::Unit { text: text.to_owned(), unit: unit.to_owned() },
            )?
        }
    };
    number.checked_mul(factor).ok_or_else(|| ParseSizeError::TooLarge(text.to_owned()))
}

/// A size for people: the largest unit that leaves it exact to two decimals at most.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let (unit, factor) =
        UNITS.iter().copied().find(|(_, factor)| bytes >= *factor).unwrap_or(("B", 1));
    if bytes.is_multiple_of(factor) {
        return format!("{}{unit}", bytes / factor);
    }
    let hundredths = u128::from(bytes) * 100 / u128::from(factor);
    format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_binary_units_and_refuses_decimal_ones() {
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("511"), Ok(511));
        assert!(matches!(parse_size("1GB"), Err(ParseSizeError::Unit { .. })));
        assert!(matches!(parse_size("GiB"), Err(ParseSizeError::NotANumber(_))));
        assert!(matches!(parse_size("-1GiB"), Err(ParseSizeError::NotANumber(_))));
        assert!(matches!(parse_size("99999999TiB"), Err(ParseSizeError::TooLarge(_))));
        assert_eq!(format_size(1 << 30), "1GiB");
        assert_eq!(format_size(1536), "1.50KiB");
        assert_eq!(format_size(0), "0B");
    }
}
