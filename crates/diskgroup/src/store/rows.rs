// SPDX-License-Identifier: Apache-2.0
//! Rows of the component table as they stand on a device.

use format::{ComponentRow, FormatError, PAGE_SIZE};

/// The newer of what two slots say, by a number, and which one it is; why neither says anything.
pub(crate) fn newer<T, E>(
    slots: [Result<T, E>; 2],
    number: impl Fn(&T) -> u64,
) -> Result<(T, usize), [E; 2]> {
    match slots {
        [Ok(a), Ok(b)] if number(&b) > number(&a) => Ok((b, 1)),
        [Ok(a), _] => Ok((a, 0)),
        [Err(_), Ok(b)] => Ok((b, 1)),
        [Err(first), Err(second)] => Err([first, second]),
    }
}

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
    match newer(slots, |row| row.sequence) {
        Ok(found) => Ok(Some(found)),
        // Chunks of a row taken for free are given away: damage of both is not that.
        Err([FormatError::Magic, _] | [_, FormatError::Magic]) => Ok(None),
        Err([source, _]) => Err(source),
    }
}
