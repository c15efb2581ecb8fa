// SPDX-License-Identifier: Apache-2.0
//! What is kept of performance, as it may come back from a file.

use operator::history::{
    HistoryBucket, HistoryKind, HistoryMeasure, HistoryRecord, decode_block, decode_bucket,
    decode_bucket_of, encode_block, encode_bucket,
};

/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;

fuzz::targets! {
    performance: 100_000, seeds(), performance_of;
    performance_forged: 100_000, seeds().into_iter().map(unsealed).collect(), forged_of;
}

fn seeds() -> Vec<Vec<u8>> {
    let mut record = HistoryRecord::default();
    record.add_measure(HistoryMeasure::CoveredMs, 5000);
    record.add_measure(HistoryMeasure::Written, u64::MAX);
    let mut bucket = HistoryBucket::seen(5000);
    bucket.add_record(HistoryKind::Volume, "db", &record);
    bucket.add_record(HistoryKind::Device, "/dev/nvme0n1", &record);
    vec![encode_bucket(&bucket), encode_block(&[(0, record.clone()), (287, record)])]
}

fn unsealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    bytes
}

/// The same with a checksum that is right.
fn forged_of(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.extend_from_slice(&base::crc32c(input).to_le_bytes());
    performance_of(&bytes);
}

/// What is read has one form: it is written as it was read.
fn performance_of(input: &[u8]) {
    let bucket = decode_bucket(input);
    let nothing = decode_bucket_of(input, |_, _| false);
    assert_eq!(bucket.as_ref().err(), nothing.as_ref().err(), "whoever wants nothing sees it, too");
    if let Ok(bucket) = bucket {
        assert_eq!(encode_bucket(&bucket), input);
    }
    if let Ok(block) = decode_block(input) {
        assert_eq!(encode_block(&block), input);
    }
}
