// SPDX-License-Identifier: Apache-2.0
//! The read cache of a hybrid group's cache device.

use super::{Look, ReadCacheContent, length};
use crate::types::Structure;
use base::{BLOCK_SIZE, CHUNK_SIZE, crc32c};
use format::{FormatError, LineHeader, PAGE_SIZE, PIECE_BLOCKS, ReadCacheLayout};

const EMPTY: &str = "the line is empty after opening: what it held is read from capacity";
const MISS: &str = "the block is read from capacity";

impl Look<'_> {
    pub(super) async fn lines(
        &mut self,
        device: u64,
        layout: &ReadCacheLayout,
    ) -> ReadCacheContent {
        let (percent, lines) = (layout.percent, layout.lines);
        let mut content = ReadCacheContent { percent, lines, ..ReadCacheContent::default() };
        for line in 0..lines {
            let at = layout.header_at(line);
            let name = Structure::Line(line);
            let page = match self.disk.read(at, self.env.buf(PAGE_SIZE)).await {
                Ok(page) => page,
                Err(error) => {
                    self.remark(name, at, format!("cannot be read: {error}"), EMPTY);
                    continue;
                }
            };
            match LineHeader::decode(device, line, &page) {
                Ok(header) => {
                    for slot in header.slots.iter().flatten() {
                        content.slots_used += 1;
                        content.blocks += u64::from(slot.data.count_ones());
                    }
                    if self.check_data && !header.is_empty() {
                        content.blocks_checked += self.line_data(layout, &header).await;
                    }
                }
                // Never written, or of a group that was here before.
                Err(FormatError::Magic) => {}
                Err(error) => self.remark(name, at, error, EMPTY),
            }
        }
        content
    }

    /// Compares a line's data with the checksums in its header; how many blocks.
    async fn line_data(&mut self, layout: &ReadCacheLayout, header: &LineHeader) -> u64 {
        let name = Structure::Line(header.line);
        let start = layout.line_start(header.line);
        let read = self.disk.read(start, self.env.buf(length(CHUNK_SIZE))).await;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.remark(name, start, format!("data cannot be read: {error}"), MISS);
                return 0;
            }
        };
        let mut checked = 0;
        for (block, data) in bytes.chunks(length(BLOCK_SIZE)).enumerate() {
            let (slot, within) = (header.slots[block / PIECE_BLOCKS], block % PIECE_BLOCKS);
            let Some(slot) = slot.filter(|slot| slot.data >> within & 1 == 1) else { continue };
            checked += 1;
            if crc32c(data) != slot.crcs[within] {
                let at = start + block as u64 * BLOCK_SIZE;
                self.remark(name, at, "a block fails its checksum", MISS);
            }
        }
        checked
    }
}
