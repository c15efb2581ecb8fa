// SPDX-License-Identifier: Apache-2.0
//! CRC32C (Castagnoli), the checksum of every block, header and frame.

use crc_fast::{CrcAlgorithm, Digest, checksum};

/// CRC32C of `data`, computed by the CPU's instructions for it where there are any.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    narrow(checksum(CrcAlgorithm::Crc32Iscsi, data))
}

/// CRC32C of several slices as if they were one.
#[must_use]
pub fn crc32c_append(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    narrow(digest.finalize())
}

fn narrow(crc: u64) -> u32 {
    u32::try_from(crc).unwrap_or_else(|_| unreachable!("a 32-bit CRC fits 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        // RFC 3720 appendix B.4: the check value of "123456789" and of 32 zero bytes.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c_append(&[b"1234", b"56789"]), 0xE306_9283);
    }
}
