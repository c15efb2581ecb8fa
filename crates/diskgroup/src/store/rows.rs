// SPDX-License-Identifier: Apache-2.0
//! Rows of the component table as they stand on a device.

use format::{ComponentRow, FormatError, PAGE_SIZE};

/// What the two pages of a row say, and which one is newer. Nothing where it was never written, or
/// where its first writing was torn by a crash and never acknowledged: the other page was not
/// written then.
pub(crate) fn newest_row(
    device: u64,
    place: u32,
    pages: &[u8],
) -> Result<Option<(ComponentRow, usize)>, FormatError> {
    let slots = [0, 1].map(|slot| {
        ComponentRow::decode(device, place, &pages[slot * PAGE_SIZE..(slot + 1) * PAGE_SIZE])
    });
    match slots {
        [Ok(a), Ok(b)] if b.sequence > a.sequence => Ok(Some((b, 1))),
        [Ok(a), _] => Ok(Some((a, 0))),
        [Err(_), Ok(b)] => Ok(Some((b, 1))),
        // Chunks of a row taken for free are given away: damage of both is not that.
        [Err(FormatError::Magic), Err(_)] | [Err(_), Err(FormatError::Magic)] => Ok(None),
        [Err(source), Err(_)] => Err(source),
    }
}
