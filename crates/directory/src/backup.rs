// SPDX-License-Identifier: Apache-2.0
//! A backup of the directory: one file, described in `docs/formats/directory-backup.md`.
//!
//! Guarantees: what [`Backup::decode`] returns was written whole by [`Backup::encode`]. Any other
//! file is refused with a named error, before anything is changed because of it.

use crate::types::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::crc32c;
use thiserror::Error;

const MAGIC: &[u8; 4] = b"GBDB";
/// The version that this program writes and reads.
pub const BACKUP_VERSION: u16 = 1;
const HEAD: usize = 28;
/// Bytes of the largest backup that is read: what a directory holds at most, several times over.
pub const BACKUP_BYTES_MAX: usize = 1 << 30;

/// What stood in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The id of the cluster.
    pub cluster: u64,
    /// When it was taken, in seconds of the wall clock.
    pub taken: u64,
    /// Keys with their values, in rising order of the keys.
    pub entries: Vec<(String, Vec<u8>)>,
}

/// Why a file is no backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BackupError {
    /// no backup at all
    #[error("it is not a backup of a directory")]
    Magic,
    /// it begins as a backup does, and is shorter or longer than any
    #[error("it is damaged: it has {bytes} bytes, which no backup has; was it copied whole?")]
    Size {
        /// How many it has.
        bytes: usize,
    },
    /// of another version of the format
    #[error("it is of version {found}, this program reads version {BACKUP_VERSION}")]
    Version {
        /// What it says.
        found: u16,
    },
    /// cut off, or changed
    #[error("it is damaged: its checksum does not match")]
    Checksum,
    /// the checksum is right, but the content is not that of a backup
    #[error("it is damaged: record {number} cannot be")]
    Record {
        /// The first wrong record, counted from 0.
        number: u32,
    },
}

impl Backup {
    /// The file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(BACKUP_VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.cluster.to_le_bytes());
        out.extend(self.taken.to_le_bytes());
        out.extend(length(self.entries.len()));
        for (key, value) in &self.entries {
            out.extend(length(key.len()));
            out.extend(length(value.len()));
            out.extend(key.as_bytes());
            out.extend(value);
        }
        let crc = crc32c(&out);
        out.extend(crc.to_le_bytes());
        out
    }

    /// What a file holds.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn decode(file: &[u8]) -> Result<Self, BackupError> {
        if file.is_empty() || !file.starts_with(&MAGIC[..MAGIC.len().min(file.len())]) {
            return Err(BackupError::Magic);
        }
        if file.len() < HEAD + 4 || file.len() > BACKUP_BYTES_MAX {
            return Err(BackupError::Size { bytes: file.len() });
        }
        let found = u16::from_le_bytes([file[4], file[5]]);
        if found != BACKUP_VERSION {
            return Err(BackupError::Version { found });
        }
        let (body, crc) = file.split_at(file.len() - 4);
        if crc32c(body).to_le_bytes() != crc {
            return Err(BackupError::Checksum);
        }
        let mut from = &body[8..];
        let short = BackupError::Record { number: 0 };
        let cluster = take_u64(&mut from).ok_or(short)?;
        let taken = take_u64(&mut from).ok_or(short)?;
        let count = take_u32(&mut from).ok_or(short)?;
        let mut entries: Vec<(String, Vec<u8>)> = Vec::new();
        for number in 0..count {
            let entry = take_entry(&mut from).ok_or(BackupError::Record { number })?;
            if entries.last().is_some_and(|(last, _)| *last >= entry.0) {
                return Err(BackupError::Record { number });
            }
            entries.push(entry);
        }
        if !from.is_empty() {
            return Err(BackupError::Record { number: count });
        }
        Ok(Self { cluster, taken, entries })
    }
}

fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()
}

fn take_u64(from: &mut &[u8]) -> Option<u64> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*head))
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u32::from_le_bytes(*head))
}

fn take_entry(from: &mut &[u8]) -> Option<(String, Vec<u8>)> {
    let key = usize::try_from(take_u32(from)?).ok()?;
    let value = usize::try_from(take_u32(from)?).ok()?;
    if key == 0 || key > KEY_BYTES_MAX || value > VALUE_BYTES_MAX {
        return None;
    }
    let (key, rest) = from.split_at_checked(key)?;
    let (value, rest) = rest.split_at_checked(value)?;
    *from = rest;
    Some((std::str::from_utf8(key).ok()?.to_owned(), value.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        let entry = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
        let entries = vec![entry("/gabion/a", "1"), entry("/gabion/b", "")];
        Backup { cluster: 0xC1, taken: 1_800_000_000, entries }
    }

    #[test]
    fn the_fixture_stays_readable_and_is_what_is_written() {
        let fixture = include_bytes!("../fixtures/backup-1.bin");
        assert_eq!(backup().encode(), fixture);
        assert_eq!(Backup::decode(fixture), Ok(backup()));
    }

    #[test]
    fn nothing_damaged_or_foreign_is_taken_for_a_backup() {
        let file = backup().encode();
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(Backup::decode(&bad).is_err(), "byte {at}");
            assert!(Backup::decode(&file[..at]).is_err(), "cut off at {at}");
        }
        assert_eq!(Backup::decode(&[]), Err(BackupError::Magic));
        assert_eq!(Backup::decode(&file[..9]), Err(BackupError::Size { bytes: 9 }));
        let mut newer = file.clone();
        newer[4] = 2;
        assert_eq!(Backup::decode(&newer), Err(BackupError::Version { found: 2 }));
    }

    #[test]
    fn a_checksum_alone_makes_no_backup() {
        let file = backup().encode();
        for at in 8..file.len() - 4 {
            let mut other = file.clone();
            other[at] ^= 0x81;
            let body = other.len() - 4;
            let crc = crc32c(&other[..body]).to_le_bytes();
            other[body..].copy_from_slice(&crc);
            if let Ok(backup) = Backup::decode(&other) {
                assert_eq!(backup.encode(), other, "byte {at}");
            }
        }
    }
}
