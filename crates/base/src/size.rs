// SPDX-License-Identifier: Apache-2.0
//! Sizes as people write them: `1GiB`, `1G`, `20g`, `1.5TiB`, `4096`. Units are powers of 1024.
//! Only `KB`, `MB`, `GB` and `TB` are powers of 1000, as on the label of a disk.

use thiserror::Error;

/// Most decimals of a size; more are refused. With so many, no step of the sum overflows 128 bits.
const DECIMALS_MAX: usize = 18;

/// Why a size was refused. What was written is shown in one line, whatever is in it.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParseSizeError {
    /// nothing that starts with a number
    #[error(
        "'{}' is not a size: write a number and a unit, for example 10GiB",
        .0.escape_debug()
    )]
    NotANumber(String),
    /// unknown unit
    #[error(
        "'{}' has the unit '{}': use B, K, M, G or T (1G and 1GiB are 1024^3 bytes, 1GB is 1000^3)",
        text.escape_debug(),
        unit.escape_debug()
    )]
    Unit {
        /// The whole text.
        text: String,
        /// The part that is no unit.
        unit: String,
    },
    /// a part of a byte is left
    #[error("'{}' is not a whole number of bytes", .0.escape_debug())]
    NotWhole(String),
    /// 2^64 bytes or more
    #[error("'{}' is larger than any size", .0.escape_debug())]
    TooLarge(String),
}

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The bytes of a unit in any case: `K`, `Ki` and `KiB` are 1024, `KB` is 1000.
fn factor(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let prefix = unit.bytes().next().unwrap_or(b'b');
    let power = b"bkmgt".iter().position(|known| *known == prefix)? as u32;
    match (power, unit.get(1..).unwrap_or_default()) {
        (0, "") => Some(1),
        (1.., "" | "i" | "ib") => Some(1024_u64.pow(power)),
        (1.., "b") => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// Bytes of a written size. A bare number is bytes. A decimal point is allowed where the result is
/// a whole number of bytes. This is the only reader of sizes: all commands take them alike.
///
/// # Errors
/// [`ParseSizeError`] with the text and what to write instead.
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let leading = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(leading(text));
    if whole.is_empty() {
        return Err(ParseSizeError::NotANumber(text.to_owned()));
    }
    let (decimals, unit) = match rest.strip_prefix('.') {
        Some(rest) if leading(rest) == 0 => {
            return Err(ParseSizeError::NotANumber(text.to_owned()));
        }
        Some(rest) => rest.split_at(leading(rest)),
        None => ("", rest),
    };
    let factor = factor(unit)
        .ok_or_else(|| ParseSizeError::Unit { text: text.to_owned(), unit: unit.to_owned() })?;
    let too_large = || ParseSizeError::TooLarge(text.to_owned());
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let bytes = whole.checked_mul(factor).ok_or_else(too_large)?;
    let part = part(decimals.trim_end_matches('0'), factor)
        .ok_or_else(|| ParseSizeError::NotWhole(text.to_owned()))?;
    bytes.checked_add(part).ok_or_else(too_large)
}

/// The digits behind the decimal point, in bytes. `None` where that is not a whole number.
fn part(decimals: &str, factor: u64) -> Option<u64> {
    if decimals.is_empty() {
        return Some(0);
    }
    if decimals.len() > DECIMALS_MAX {
        return None;
    }
    let scale = 10_u128.pow(decimals.len() as u32);
    let scaled = decimals.parse::<u128>().ok()? * u128::from(factor);
    // Below `factor`, as the decimals are below one.
    scaled.is_multiple_of(scale).then(|| u64::try_from(scaled / scale).ok()).flatten()
}

/// A size for people, in the largest unit that is not above it, rounded down to two decimals.
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

/// So many percent of a number of bytes, rounded down.
#[must_use]
pub fn percent_of(bytes: u64, percent: u8) -> u64 {
    let part = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write_and_refuses_the_rest() {
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("511"), Ok(511));
        assert_eq!(parse_size("1.5TiB"), Ok(3 << 39));
        assert_eq!(parse_size("20g"), Ok(20 << 30));
        assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
        assert_eq!(parse_size("0.5k"), Ok(512));
        for bad in ["GiB", "-1GiB", "+1G", "", ".5G", "1.G", "ten", " 1G"] {
            assert!(matches!(parse_size(bad), Err(ParseSizeError::NotANumber(_))), "{bad}");
        }
        for bad in ["1 G", "1x", "1GiBs", "1ib", "1bb", "1bi", "1e9", "1,5G", "1.5.5G", "1G\u{130}"]
        {
            assert!(matches!(parse_size(bad), Err(ParseSizeError::Unit { .. })), "{bad}");
        }
        for bad in ["1.5", "0.1GiB", "1.5B", "0.0000000000000000001T"] {
            assert!(matches!(parse_size(bad), Err(ParseSizeError::NotWhole(_))), "{bad}");
        }
        for bad in ["99999999TiB", "18446744073709551616", "99999999999999999999999GB"] {
            assert!(matches!(parse_size(bad), Err(ParseSizeError::TooLarge(_))), "{bad}");
        }
        assert_eq!(format_size(1 << 30), "1GiB");
        assert_eq!(format_size(1536), "1.50KiB");
        assert_eq!(format_size(0), "0B");
    }

    /// A unit in one of its ways of writing, and what it is worth.
    fn unit() -> impl Strategy<Value = (String, u64)> {
        let forms = (0_u32..5, 0_usize..4, any::<u8>());
        forms.prop_map(|(power, form, cases)| {
            let letter = ["", "k", "m", "g", "t"][power as usize];
            let (text, factor) = match (power, form) {
                (0, 0 | 1) => (String::new(), 1),
                (0, _) => ("b".to_owned(), 1),
                (_, 0) => (letter.to_owned(), 1024_u64.pow(power)),
                (_, 1) => (format!("{letter}i"), 1024_u64.pow(power)),
                (_, 2) => (format!("{letter}ib"), 1024_u64.pow(power)),
                (_, _) => (format!("{letter}b"), 1000_u64.pow(power)),
            };
            let cased = text.char_indices().map(|(at, c)| match cases >> at & 1 {
                0 => c,
                _ => c.to_ascii_uppercase(),
            });
            (cased.collect(), factor)
        })
    }

    proptest! {
        #[test]
        fn every_way_of_writing_is_the_same_number(
            whole in 0_u64..1 << 20, decimals in "[0-9]{0,6}", (unit, factor) in unit(),
        ) {
            let point = if decimals.is_empty() { "" } else { "." };
            let text = format!("{whole}{point}{decimals}{unit}");
            // The oracle counts in millionths of a byte.
            let millionths: u128 = format!("{whole}{decimals:0<6}").parse().expect("digits");
            let wanted = millionths * u128::from(factor);
            let expected = match wanted % 1_000_000 {
                0 => u64::try_from(wanted / 1_000_000)
                    .map_err(|_| ParseSizeError::TooLarge(text.clone())),
                _ => Err(ParseSizeError::NotWhole(text.clone())),
            };
            prop_assert_eq!(parse_size(&text), expected);
        }

        #[test]
        fn what_is_printed_without_a_point_is_read_back(bytes in any::<u64>()) {
            let text = format_size(bytes);
            prop_assert!(text.contains('.') || parse_size(&text) == Ok(bytes));
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }

        #[test]
        fn anything_is_answered_in_one_line(text in any::<String>()) {
            if let Err(error) = parse_size(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
