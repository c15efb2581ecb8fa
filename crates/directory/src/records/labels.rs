// SPDX-License-Identifier: Apache-2.0
//! Labels of a volume: what an operator calls it beside its name. Nothing in the cluster depends on
//! them.

use super::error::RecordError;
use base::Map;
use thiserror::Error;

/// The format of the record of a volume with labels, whatever else it has.
pub const FORMAT_LABELS: u32 = 9;
/// Labels of one volume: with the longest ones its record is 2 KiB longer.
pub const LABELS_MAX: usize = 16;
/// Bytes of the longest key, and of the longest value.
pub const LABEL_BYTES_MAX: usize = 63;

/// A volume's labels: a value for each key.
pub type Labels = Map<String, String>;

/// What is wrong with labels, and what would be right.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LabelError {
    /// illegal key
    #[error(
        "'{}' is not the key of a label: use 1 to 63 letters, digits, '.', '_', '-' and '/', \
         beginning and ending with a letter or digit",
        .0.escape_debug()
    )]
    Key(String),
    /// illegal value
    #[error(
        "'{}' is not the value of a label: use at most 63 letters, digits, '.', '_', '-' and '/'",
        .0.escape_debug()
    )]
    Value(String),
    /// more than a volume may have
    #[error("a volume has at most {max} labels, not {0}", max = LABELS_MAX)]
    Many(usize),
}

impl From<LabelError> for RecordError {
    fn from(error: LabelError) -> Self {
        let rule = match error {
            LabelError::Key(_) => "has an illegal key",
            LabelError::Value(_) => "has an illegal value",
            LabelError::Many(_) => "has too many entries",
        };
        Self::Invalid { field: "labels", rule }
    }
}

/// Checks the key of a label: 1 to [`LABEL_BYTES_MAX`] letters, digits, `.`, `_`, `-` and `/` of
/// ASCII, the first and the last a letter or digit. So `KEY-` is never a key: it takes one away.
///
/// # Errors
/// [`LabelError::Key`].
pub fn check_label_key(key: &str) -> Result<(), LabelError> {
    let is_end = |end: Option<u8>| end.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_key = is_text(key) && is_end(key.bytes().next()) && is_end(key.bytes().last());
    if is_key { Ok(()) } else { Err(LabelError::Key(key.to_owned())) }
}

/// Checks the value of a label: as its key, but it may be empty, and begin and end as it likes.
///
/// # Errors
/// [`LabelError::Value`].
pub fn check_label_value(value: &str) -> Result<(), LabelError> {
    if is_text(value) { Ok(()) } else { Err(LabelError::Value(value.to_owned())) }
}

/// Checks all labels of a volume.
///
/// # Errors
/// [`LabelError`], the first thing found wrong.
pub fn check_labels(labels: &Labels) -> Result<(), LabelError> {
    if labels.len() > LABELS_MAX {
        return Err(LabelError::Many(labels.len()));
    }
    labels.iter().try_for_each(|(key, value)| {
        check_label_key(key)?;
        check_label_value(value)
    })
}

fn is_text(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    text.len() <= LABEL_BYTES_MAX && text.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_what_operators_expect_and_nothing_else() {
        let longest = "k".repeat(LABEL_BYTES_MAX);
        for key in ["env", "E", "7", "app.example.org/tier_2-b", &longest] {
            assert_eq!(check_label_key(key), Ok(()), "{key}");
        }
        let longer = format!("{longest}k");
        for key in ["", "-env", "env-", "/env", "env/", ".env", "e v", "e=v", "\u{e9}nv", &longer] {
            assert_eq!(check_label_key(key), Err(LabelError::Key(key.to_owned())), "{key}");
        }
        for value in ["", "prod", "-1", "2026-11-28", "a/b_c.", &longest] {
            assert_eq!(check_label_value(value), Ok(()), "{value}");
        }
        for value in ["a b", "a=b", "a,b", "a\n", "\u{e9}", &longer] {
            assert_eq!(check_label_value(value), Err(LabelError::Value(value.to_owned())));
        }
        let many = |count| (0..count).map(|n| (format!("k{n}"), String::new())).collect();
        assert_eq!(check_labels(&many(LABELS_MAX)), Ok(()));
        assert_eq!(check_labels(&many(17)), Err(LabelError::Many(17)));
        let one = |key: &str, value: &str| Labels::from([(key.to_owned(), value.to_owned())]);
        assert!(check_labels(&one("k-", "v")).is_err());
        assert!(check_labels(&one("k", "v v")).is_err());
    }
}
