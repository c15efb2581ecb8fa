// SPDX-License-Identifier: Apache-2.0
//! Table, map, journal, checksum pages and data of a capacity device.

use super::{CapacityContent, ComponentContent, Look, length};
use crate::journal::areas::{FoundJournal, Stretch, has_later};
use crate::store::capacity::pages_touched;
use crate::store::pending::is_checkpoints;
use crate::types::Structure;
use base::{BLOCK_SIZE, CHUNK_SECTORS, CHUNK_SIZE, Lsn, Map, Set, crc32c};
use format::{
    CRC_PAGE_CHUNKS, CapacityLayout, ChunkEntry, ComponentRow, CrcPage, FormatError, Item,
    JOURNAL_HEAD_SLOTS, JournalHead, JournalRecord, MAP_PAGE_CHUNKS, MapPage, NO_COMPONENT,
    PAGE_SIZE,
};

const PAGE: u64 = PAGE_SIZE as u64;
const NOT_OPEN: &str = "the group does not open: its components come back from their other copies";
const PAGE_LOST: &str = "every block of its chunks reads as damaged until written again";
const ONE_COPY: &str = "nothing is lost: the other copy is whole";
/// Bytes of the journal that are looked at at a time.
const JOURNAL_STEP: u64 = 8 << 20;
const BLOCKS: usize = (CHUNK_SIZE / BLOCK_SIZE) as usize;

/// The map as page slots and journal give it, and the journal's other items by CRC page.
#[derive(Default)]
struct Known {
    map: Vec<ChunkEntry>,
    applied: Vec<u64>,
    items: Map<u32, Vec<(u64, Item)>>,
    /// W as the journal says it, by serial.
    watermarks: Map<u32, Lsn>,
    /// The last record of the journal, 0 without any.
    last: u64,
    /// Checksum pages that the journal's closed half changed, and the record that their images hold
    /// if its checkpoint wrote them.
    closed: Set<u32>,
    written_from: Option<u64>,
    /// What page 0 of the map says may be of the checkpoint before that one.
    is_checkpointed: bool,
    /// Map pages of which one copy is damaged: perhaps the newer one.
    in_doubt: Vec<(u32, u64, FormatError)>,
}

impl Look<'_> {
    pub(super) async fn capacity(
        &mut self,
        device: u64,
        layout: &CapacityLayout,
    ) -> CapacityContent {
        let mut content =
            CapacityContent { chunks: u64::from(layout.chunks), ..CapacityContent::default() };
        let mut rows = self.rows(device, layout).await;
        let mut known = self.map(device, layout).await;
        content.journal_records = self.journal(device, layout, &mut known).await;
        self.settle_doubts(device, layout, &known).await;
        let mut chunks: Map<(u32, u32), u32> = Map::new();
        for (chunk, entry) in (0..).zip(&known.map) {
            if entry.serial == NO_COMPONENT {
                continue;
            }
            let Some((row, count)) = rows.get_mut(&entry.serial) else { continue }; // deleted
            *count += 1;
            content.allocated += 1;
            let at = map_offset(layout, chunk);
            let name = Structure::MapPage(chunk / MAP_PAGE_CHUNKS as u32);
            if u64::from(entry.index) * CHUNK_SECTORS >= row.sectors {
                self.damage(name, at, format!("chunk {chunk} is behind its component"), NOT_OPEN);
            }
            if let Some(other) = chunks.insert((entry.serial, entry.index), chunk) {
                let what = format!("chunks {other} and {chunk} are the same of one component");
                self.damage(name, at, what, NOT_OPEN);
            }
        }
        known.map.iter_mut().filter(|entry| !rows.contains_key(&entry.serial)).for_each(|entry| {
            *entry = ChunkEntry::default();
        });
        self.checksums(device, layout, &known, &mut content).await;
        let watermarks = &known.watermarks;
        content.components = rows
            .into_values()
            .map(|(row, chunks)| ComponentContent {
                id: row.id,
                object: row.object,
                serial: row.serial,
                sectors: row.sectors,
                chunks,
                destaged: row
                    .destaged
                    .max(watermarks.get(&row.serial).copied().unwrap_or_default()),
            })
            .collect();
        content
    }

    /// The newer slot of a structure, by sequence; one that holds something else is a finding.
    async fn newest<T>(
        &mut self,
        name: Structure,
        offset: u64,
        effect: &'static str,
        decode: impl Fn(&[u8]) -> Result<(u64, T), FormatError>,
    ) -> Option<T> {
        let (best, wrong) = self.slots(name, offset, effect, decode).await?;
        for (at, error) in wrong {
            match best.is_some() {
                true => self.remark(name, at, error, ONE_COPY),
                false => self.damage(name, at, error, effect),
            }
        }
        best
    }

    /// The newer slot, and those that hold something else.
    async fn slots<T>(
        &mut self,
        name: Structure,
        offset: u64,
        effect: &'static str,
        decode: impl Fn(&[u8]) -> Result<(u64, T), FormatError>,
    ) -> Option<(Option<T>, Vec<(u64, FormatError)>)> {
        let bytes = self.read(name, offset, 2 * PAGE_SIZE, effect).await?;
        let mut best: Option<(u64, T)> = None;
        let mut wrong: Vec<(u64, FormatError)> = Vec::new();
        for (slot, page) in (0..).zip(bytes.chunks(PAGE_SIZE)) {
            match decode(page) {
                Ok(found) if best.as_ref().is_none_or(|best| found.0 > best.0) => {
                    best = Some(found);
                }
                Ok(_) => {}
                Err(_) if page.iter().all(|byte| *byte == 0) => {} // never written
                Err(error) => wrong.push((offset + slot * PAGE, error)),
            }
        }
        Some((best.map(|(_, found)| found), wrong))
    }

    /// Living components by serial, with room to count their chunks.
    async fn rows(
        &mut self,
        device: u64,
        layout: &CapacityLayout,
    ) -> Map<u32, (ComponentRow, u64)> {
        let mut rows = Map::new();
        for number in 0..layout.rows {
            let at = layout.table_start + u64::from(number) * 2 * PAGE;
            let decode = |page: &[u8]| {
                ComponentRow::decode(device, number, page).map(|row| (row.sequence, row))
            };
            let row = self.newest(Structure::Row(number), at, NOT_OPEN, decode).await;
            if let Some(row) = row.filter(|row| !row.is_deleted) {
                rows.insert(row.serial, (row, 0));
            }
        }
        rows
    }

    async fn map(&mut self, device: u64, layout: &CapacityLayout) -> Known {
        let mut known = Known::default();
        for number in 0..u32::try_from(layout.map_pages()).unwrap_or(u32::MAX) {
            let at = layout.map_start + u64::from(number) * 2 * PAGE;
            let decode =
                |page: &[u8]| MapPage::decode(device, number, page).map(|map| (map.sequence, map));
            let name = Structure::MapPage(number);
            let slots = self.slots(name, at, NOT_OPEN, decode).await;
            let (page, wrong) = slots.unwrap_or_default();
            for (at, error) in wrong {
                match page.is_some() {
                    true => known.in_doubt.push((number, at, error)),
                    false => self.damage(name, at, error, NOT_OPEN),
                }
            }
            let page = page.unwrap_or_else(|| MapPage::empty(number));
            known.applied.push(page.applied);
            known.map.extend(page.chunks.iter().take(MAP_PAGE_CHUNKS));
        }
        known.map.truncate(layout.chunks as usize);
        known
    }

    /// What stands in an area of the journal, and the bytes that were read of it.
    async fn stretch(&mut self, device: u64, (start, size): (u64, u64)) -> (Stretch, Vec<u8>) {
        let (mut stretch, mut bytes): (Stretch, Vec<u8>) = Default::default();
        while (bytes.len() as u64) < size.min(stretch.position + JOURNAL_STEP / 2) {
            let have = bytes.len() as u64;
            let step = length(JOURNAL_STEP.min(size - have));
            let name = Structure::Journal(stretch.next().unwrap_or(0));
            let Some(more) = self.read(name, start + have, step, NOT_OPEN).await else { break };
            bytes.extend_from_slice(&more);
            stretch.follow(device, &bytes);
        }
        (stretch, bytes)
    }

    /// Finds what of the journal counts and applies it; how many records.
    async fn journal(&mut self, device: u64, layout: &CapacityLayout, known: &mut Known) -> u64 {
        let (mut stretches, mut read) = (Vec::new(), Vec::new());
        for area in layout.journal_areas() {
            let (stretch, bytes) = self.stretch(device, area).await;
            stretches.push(stretch);
            read.push(bytes);
        }
        let paged = known.applied.iter().max().map_or(1, |applied| applied + 1);
        let checkpointed = known.applied.first().copied().unwrap_or(0);
        let marks = (paged, checkpointed);
        let found = FoundJournal::of_areas(stretches, layout.halves_from, marks);
        let found = found.unwrap_or_else(|record| {
            let what = "a record is gone whose checkpoint was not over";
            self.damage(Structure::Journal(record), layout.journal_start, what, NOT_OPEN);
            FoundJournal::default()
        });
        // What a lap before left there, pages hold already.
        let next = found.next().unwrap_or(paged).max(paged);
        if read.iter().any(|bytes| has_later(device, bytes, next)) {
            let what = "a record is damaged that others stand behind";
            self.damage(Structure::Journal(next), layout.journal_start, what, NOT_OPEN);
        }
        self.head(device, next).await;
        known.last = found.next().map_or(0, |next| next - 1);
        known.written_from = found.written_from;
        known.is_checkpointed = found.is_checkpointed_by(checkpointed);
        let closed = found.closed.records.iter().flat_map(|record| pages_touched(&record.items));
        known.closed = closed.collect();
        let records: Vec<_> = found.closed.records.into_iter().chain(found.open.records).collect();
        let count = records.len() as u64;
        records.into_iter().for_each(|record| self.apply(layout, known, record));
        count
    }

    /// A record that was durable once, and is not there.
    async fn head(&mut self, device: u64, next: u64) {
        for at in JOURNAL_HEAD_SLOTS {
            let page = self.disk.read(at, self.env.buf(PAGE_SIZE)).await;
            let head = page.ok().and_then(|page| JournalHead::decode(device, &page).ok());
            if let Some(head) = head.filter(|head| head.record >= next) {
                let what = format!("record {} was durable and is gone", head.record);
                self.damage(Structure::Journal(next), at, what, NOT_OPEN);
            }
        }
    }

    /// What is left of a map page counts only where a checkpoint tore the other copy: then every
    /// checksum page that the closed half changed was written. And no page holds more than records.
    async fn settle_doubts(&mut self, device: u64, layout: &CapacityLayout, known: &Known) {
        let mut is_torn = known.written_from.is_some();
        for number in known.items.keys() {
            let at = layout.crc_start + u64::from(*number) * 2 * PAGE;
            let decode = |page: &[u8]| {
                CrcPage::decode(device, *number, page).map(|c| (c.sequence, c.applied))
            };
            let name = Structure::CrcPage(*number);
            let slots = self.slots(name, at, NOT_OPEN, decode).await;
            let applied = slots.and_then(|(applied, _)| applied).unwrap_or(0);
            is_torn &= !known.closed.contains(number) || Some(applied) >= known.written_from;
            if applied > known.last {
                let what = format!("holds record {applied}, the journal ends with {}", known.last);
                self.damage(name, at, what, NOT_OPEN);
            }
        }
        let is_old = |number: u32| number == 0 && !known.is_checkpointed;
        let is_torn = is_torn && !known.in_doubt.iter().any(|(number, ..)| is_old(*number));
        for (number, at, error) in &known.in_doubt {
            let name = Structure::MapPage(*number);
            match is_torn {
                true => self.remark(name, *at, error, "what power loss tore; it is written again"),
                false => {
                    let what = format!("{error}, and the other copy may be the older one");
                    self.damage(name, *at, what, NOT_OPEN);
                }
            }
        }
    }

    fn apply(&mut self, layout: &CapacityLayout, known: &mut Known, record: JournalRecord) {
        for item in record.items {
            if let Item::Watermark { serial, lsn } = item {
                let known = known.watermarks.entry(serial).or_default();
                *known = lsn.max(*known);
            }
            let Some(chunk) = item.chunk() else { continue };
            if chunk >= layout.chunks {
                let name = Structure::Journal(record.sequence);
                let what = format!("names chunk {chunk} of {}", layout.chunks);
                self.damage(name, layout.journal_start, what, NOT_OPEN);
                continue;
            }
            if known.applied.get(chunk as usize / MAP_PAGE_CHUNKS) < Some(&record.sequence) {
                let entry = &mut known.map[chunk as usize];
                *entry = item.after(*entry);
            }
            let page = chunk / CRC_PAGE_CHUNKS as u32;
            known.items.entry(page).or_default().push((record.sequence, item));
        }
    }

    /// Every checksum page that an allocated chunk has, and with it the data.
    async fn checksums(
        &mut self,
        device: u64,
        layout: &CapacityLayout,
        known: &Known,
        content: &mut CapacityContent,
    ) {
        let pages = u32::try_from(layout.crc_pages()).unwrap_or(u32::MAX);
        for number in 0..pages {
            let first = number as usize * CRC_PAGE_CHUNKS;
            let chunks = known.map.iter().enumerate().skip(first).take(CRC_PAGE_CHUNKS);
            let held: Vec<usize> = chunks
                .filter(|(_, entry)| entry.serial != NO_COMPONENT)
                .map(|(chunk, _)| chunk)
                .collect();
            if held.is_empty() {
                continue;
            }
            let at = layout.crc_start + u64::from(number) * 2 * PAGE;
            let decode =
                |page: &[u8]| CrcPage::decode(device, number, page).map(|crc| (crc.sequence, crc));
            let name = Structure::CrcPage(number);
            let Some((page, wrong)) = self.slots(name, at, PAGE_LOST, decode).await else {
                continue;
            };
            if !self.is_page_whole((device, number), known, page.as_ref(), wrong).await {
                continue;
            }
            let mut page = page.unwrap_or_else(|| CrcPage::empty(number));
            for (sequence, item) in known.items.get(&number).into_iter().flatten() {
                if *sequence > page.applied {
                    let chunk = item.chunk().unwrap_or_default() as usize;
                    item.apply(&mut page, chunk % CRC_PAGE_CHUNKS);
                }
            }
            for chunk in held {
                let blocks = (0..BLOCKS).filter(|block| page.get(chunk - first, *block).is_some());
                content.blocks += blocks.count() as u64;
                if self.check_data {
                    let owner = known.map[chunk];
                    self.data(layout, &page, chunk, first, owner, content).await;
                }
            }
        }
    }

    /// Whether what is left of a checksum page is all that it was: no other slot is damaged, or the
    /// checkpoint that is not over tore it.
    async fn is_page_whole(
        &mut self,
        (device, number): (u64, u32),
        known: &Known,
        page: Option<&CrcPage>,
        wrong: Vec<(u64, FormatError)>,
    ) -> bool {
        let name = Structure::CrcPage(number);
        let kept = page.map(|page| (page.sequence, page.applied));
        let open = known.written_from.unwrap_or(known.last + 1)..known.last + 1;
        let mut is_whole = true;
        for (at, error) in wrong {
            let slot = self.read(name, at, PAGE_SIZE, PAGE_LOST).await;
            let first = slot.and_then(|slot| CrcPage::first_sector(device, number, &slot));
            let is_torn = kept.is_some_and(|kept| is_checkpoints(kept, first, &open));
            match is_torn && known.closed.contains(&number) {
                true => self.remark(name, at, error, ONE_COPY),
                false => {
                    is_whole = false;
                    self.damage(name, at, error, PAGE_LOST);
                }
            }
        }
        is_whole
    }

    /// The blocks of a chunk against their checksums.
    async fn data(
        &mut self,
        layout: &CapacityLayout,
        page: &CrcPage,
        chunk: usize,
        first: usize,
        owner: ChunkEntry,
        content: &mut CapacityContent,
    ) {
        let effect = "the block reads as damaged and is repaired from another copy, unless the log \
                      holds it newer";
        let at = layout.chunk_start + chunk as u64 * CHUNK_SIZE;
        let name = Structure::Chunk(u32::try_from(chunk).unwrap_or(u32::MAX));
        let Some(bytes) = self.read(name, at, length(CHUNK_SIZE), effect).await else { return };
        for (block, data) in bytes.chunks(length(BLOCK_SIZE)).enumerate() {
            let Some(crc) = page.get(chunk - first, block) else { continue };
            content.blocks_checked += 1;
            if crc32c(data) != crc {
                let sector = u64::from(owner.index) * CHUNK_SECTORS + block as u64 * 8;
                let what = format!(
                    "sectors {sector} to {} of component number {} fail their checksum",
                    sector + 7,
                    owner.serial
                );
                self.damage(name, at + block as u64 * BLOCK_SIZE, what, effect);
            }
        }
    }
}

fn map_offset(layout: &CapacityLayout, chunk: u32) -> u64 {
    layout.map_start + u64::from(chunk) / MAP_PAGE_CHUNKS as u64 * 2 * PAGE
}
