// SPDX-License-Identifier: Apache-2.0
//! The bytes of buckets and blocks, as `docs/formats/performance-history.md` describes them.

use super::bucket::{DEVICES_MAX, GROUPS_MAX, HistoryBucket, SHARDS_MAX, VOLUMES_MAX};
use super::measure::HistoryKind;
use super::record::HistoryRecord;
use base::crc32c;

/// The version of both forms.
const VERSION: u8 = 1;
/// Longest name of an object, bytes: a path.
const NAME_MAX: u64 = 4096;
/// Most objects of a bucket.
const OBJECTS_MAX: u64 = 1000;
const _: () = assert!(VOLUMES_MAX + SHARDS_MAX + GROUPS_MAX + DEVICES_MAX == 1000);
/// Most buckets of a block: a day of five minutes.
const BUCKETS_MAX: u64 = 288;
const CHECKSUM_BYTES: usize = 4;

/// Why bytes are no bucket or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryFormatError {
    /// They are not those that were written.
    Checksum,
    /// They are of another version.
    Version(u8),
    /// They have the right checksum, and are not as the format says.
    Malformed,
}

impl std::fmt::Display for HistoryFormatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Checksum => write!(f, "its checksum is wrong"),
            Self::Version(found) => write!(f, "it has version {found}, not {VERSION}"),
            Self::Malformed => write!(f, "it is not as the format says"),
        }
    }
}

impl std::error::Error for HistoryFormatError {}

/// The bytes of a bucket.
#[must_use]
pub fn encode_bucket(bucket: &HistoryBucket) -> Vec<u8> {
    let mut out = vec![VERSION];
    put(&mut out, bucket.covered_ms);
    put(&mut out, bucket.left_out);
    put_count(&mut out, bucket.records.len());
    for (kind, name, record) in bucket.records() {
        out.push(kind.number());
        put_count(&mut out, name.len());
        out.extend_from_slice(name.as_bytes());
        put_record(&mut out, record);
    }
    sealed(out)
}

/// The bucket of bytes.
///
/// # Errors
/// [`HistoryFormatError`].
pub fn decode_bucket(bytes: &[u8]) -> Result<HistoryBucket, HistoryFormatError> {
    decode_bucket_of(bytes, |_, _| true)
}

/// The bucket of bytes, with the records alone that are wanted: the others cost little.
///
/// # Errors
/// [`HistoryFormatError`].
pub fn decode_bucket_of(
    bytes: &[u8],
    is_wanted: impl Fn(HistoryKind, &str) -> bool,
) -> Result<HistoryBucket, HistoryFormatError> {
    let mut left = opened(bytes)?;
    let (covered_ms, left_out) = (take(&mut left)?, take(&mut left)?);
    let mut bucket = HistoryBucket { covered_ms, left_out, ..HistoryBucket::default() };
    let count = take_most(&mut left, OBJECTS_MAX)?;
    let mut before: Option<(HistoryKind, &str)> = None;
    for _ in 0..count {
        let kind = HistoryKind::of(take_byte(&mut left)?).ok_or(HistoryFormatError::Malformed)?;
        let length = take_most(&mut left, NAME_MAX)?;
        let length = usize::try_from(length).map_err(|_| HistoryFormatError::Malformed)?;
        let (name, rest) = left.split_at_checked(length).ok_or(HistoryFormatError::Malformed)?;
        left = rest;
        let name = std::str::from_utf8(name).map_err(|_| HistoryFormatError::Malformed)?;
        if before.is_some_and(|before| before >= (kind, name)) {
            return Err(HistoryFormatError::Malformed);
        }
        before = Some((kind, name));
        if is_wanted(kind, name) {
            let record = take_record(&mut left)?;
            bucket.records.insert((kind, name.to_owned()), record);
        } else {
            take_slots(&mut left, |_, _| {})?;
        }
    }
    ended(left, bucket)
}

/// The bytes of a block: what one object did in some buckets, by the number of each from the
/// block's beginning.
#[must_use]
pub fn encode_block(block: &[(u16, HistoryRecord)]) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_count(&mut out, block.len());
    let mut last = 0;
    for (number, record) in block {
        assert!(*number >= last, "buckets are in their order");
        put(&mut out, u64::from(number - last));
        last = number + 1;
        put_record(&mut out, record);
    }
    sealed(out)
}

/// The block of bytes.
///
/// # Errors
/// [`HistoryFormatError`].
pub fn decode_block(bytes: &[u8]) -> Result<Vec<(u16, HistoryRecord)>, HistoryFormatError> {
    let mut left = opened(bytes)?;
    let count = take_most(&mut left, BUCKETS_MAX)?;
    let (mut block, mut next) = (Vec::new(), 0);
    for _ in 0..count {
        let number = next + take_most(&mut left, BUCKETS_MAX - 1)?;
        if number >= BUCKETS_MAX {
            return Err(HistoryFormatError::Malformed);
        }
        next = number + 1;
        let number = u16::try_from(number).map_err(|_| HistoryFormatError::Malformed)?;
        block.push((number, take_record(&mut left)?));
    }
    ended(left, block)
}

fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// What is between the version and the checksum.
fn opened(bytes: &[u8]) -> Result<&[u8], HistoryFormatError> {
    let at = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(HistoryFormatError::Checksum)?;
    let (said, checksum) = bytes.split_at(at);
    if crc32c(said).to_le_bytes() != *checksum {
        return Err(HistoryFormatError::Checksum);
    }
    match said.split_first() {
        Some((&VERSION, left)) => Ok(left),
        Some((other, _)) => Err(HistoryFormatError::Version(*other)),
        None => Err(HistoryFormatError::Malformed),
    }
}

fn ended<T>(left: &[u8], read: T) -> Result<T, HistoryFormatError> {
    if left.is_empty() { Ok(read) } else { Err(HistoryFormatError::Malformed) }
}

fn put_record(out: &mut Vec<u8>, record: &HistoryRecord) {
    let slots = record.slots();
    put_count(out, slots.len());
    let mut next = 0;
    for (slot, number) in slots {
        put(out, u64::from(slot - next));
        put(out, number);
        next = slot + 1;
    }
}

fn take_record(left: &mut &[u8]) -> Result<HistoryRecord, HistoryFormatError> {
    let mut record = HistoryRecord::default();
    take_slots(left, |slot, number| record.add_slot(slot, number))?;
    Ok(record)
}

fn take_slots(left: &mut &[u8], mut put: impl FnMut(u16, u64)) -> Result<(), HistoryFormatError> {
    let count = take_most(left, u64::from(u16::MAX))?;
    let mut next = 0_u64;
    for _ in 0..count {
        let slot = next + take_most(left, u64::from(u16::MAX))?;
        next = slot + 1;
        // The last number has no slot behind it.
        let slot = u16::try_from(slot).ok().filter(|slot| *slot < u16::MAX);
        let slot = slot.ok_or(HistoryFormatError::Malformed)?;
        match take(left)? {
            0 => return Err(HistoryFormatError::Malformed),
            number => put(slot, number),
        }
    }
    Ok(())
}

/// Seven bits a byte, the lowest first; the highest bit says that there are more.
fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put(out, u64::try_from(count).unwrap_or(u64::MAX));
}

fn take_byte(left: &mut &[u8]) -> Result<u8, HistoryFormatError> {
    let (first, rest) = left.split_first().ok_or(HistoryFormatError::Malformed)?;
    *left = rest;
    Ok(*first)
}

fn take(left: &mut &[u8]) -> Result<u64, HistoryFormatError> {
    let mut number = 0_u64;
    for place in 0..10 {
        let byte = take_byte(left)?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has one bit of a number.
        let is_too_large = place == 9 && bits > 1;
        // One way to write each number: a last byte of zero says nothing.
        if is_too_large || (byte == 0 && place > 0) {
            return Err(HistoryFormatError::Malformed);
        }
        number |= bits << (7 * place);
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(HistoryFormatError::Malformed)
}

fn take_most(left: &mut &[u8], most: u64) -> Result<u64, HistoryFormatError> {
    take(left).and_then(|number| match number <= most {
        true => Ok(number),
        false => Err(HistoryFormatError::Malformed),
    })
}
