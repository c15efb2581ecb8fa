// SPDX-License-Identifier: Apache-2.0
//! What a host keeps on a disk group beside the components of volumes: the backups of the
//! directory, three at a time.
//!
//! The backups stand in one component of the group's own, [`KEPT`], with an id that no other
//! component gets. Its bytes go through the log like all others. [`DiskGroup::components`] does not
//! list this component, so nobody takes it for a copy of a volume's object. It is in no record of
//! the directory and is no orphan, and a group that holds nothing else is empty.
//!
//! The component has three slots; a backup goes to the slot of its generation modulo three. A host
//! counts its backups over all of its groups, so the generations of one group may skip. One whose
//! slot belongs to one of the group's two newest is skipped too. The slot is emptied first,
//! beginning with the header. Then the bytes are written, and the header last. Each step is durable
//! before the next begins.
//!
//! Guarantees: while a backup of the next generation is written, the two newest stay as they were.
//! What [`DiskGroup::read_kept`] returns is what was kept. Not guaranteed: that a backup can be
//! read, for there is one copy of it.

use crate::state::DiskGroup;
use crate::store::components::KEPT;
use crate::types::{Append, AppendKind, GroupError};
use base::{
    BLOCK_SECTORS, CHUNK_SECTORS, CHUNK_SIZE, Lsn, ObjectId, SECTOR_SIZE, Seat, SectorRange, Term,
    crc32c,
};
use format::{KeptHeader, PAGE_SIZE};
use thiserror::Error;

const OBJECT: ObjectId = ObjectId(u64::MAX);
/// The most backups that are kept at a time.
pub const KEPT_MAX: usize = 3;
/// Bytes of one at most: a directory with many thousand volumes.
pub const KEPT_BYTES_MAX: usize = 16 << 20;
/// Chunks of one slot: room for the most bytes, and one more, since the header comes before them.
const SLOT_CHUNKS: u64 = KEPT_BYTES_MAX as u64 / CHUNK_SIZE + 1;
const SLOT_SECTORS: u64 = SLOT_CHUNKS * CHUNK_SECTORS;
/// Bytes of one append at most: a part of what the log takes at a time, so that others are not held
/// up.
const PIECE_MAX: usize = 256 << 10;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Counts them; the highest is the newest.
    pub generation: u64,
    /// When it was taken, seconds of the wall clock.
    pub taken: u64,
    /// Bytes.
    pub length: u64,
}

/// Why something is not kept, or not read.
#[derive(Clone, Debug, Error)]
pub enum KeptError {
    /// more than there is a place for
    #[error("it has {bytes} bytes, more than the {KEPT_BYTES_MAX} that are kept on a disk group")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// not there any more
    #[error("number {generation} is not there: a newer one took its place")]
    Gone {
        /// Which.
        generation: u64,
    },
    /// not what was written
    #[error("number {generation} is damaged")]
    Damaged {
        /// Which.
        generation: u64,
    },
    /// the group does not do it
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl DiskGroup {
    /// Keeps `bytes` as the newest, in the place of the third newest. One call at a time.
    ///
    /// `taken`: seconds of the wall clock. `above`: the newest generation on any group of the host;
    /// this one's is higher.
    ///
    /// # Errors
    /// [`KeptError::TooLarge`]; [`KeptError::Group`]: the two newest are as they were.
    pub async fn keep(&self, bytes: &[u8], taken: u64, above: u64) -> Result<Kept, KeptError> {
        if bytes.len() > KEPT_BYTES_MAX {
            return Err(KeptError::TooLarge { bytes: bytes.len() });
        }
        if self.component(KEPT).is_none() {
            self.create_component(KEPT, OBJECT, SLOT_SECTORS * KEPT_MAX as u64).await?;
        }
        let generation = next_generation(&self.kept().await?, above);
        let start = slot(generation);
        for chunk in 0..SLOT_CHUNKS {
            let range = SectorRange::new(start + chunk * CHUNK_SECTORS, CHUNK_SECTORS);
            self.put(range, AppendKind::Discard, &[]).await?;
        }
        let limit = self.shared().state.borrow().log.limits.payload.saturating_sub(PAGE_SIZE);
        let piece = limit.clamp(PAGE_SIZE, PIECE_MAX) / PAGE_SIZE * PAGE_SIZE;
        let (mut at, mut rest) = (start + BLOCK_SECTORS, bytes);
        while !rest.is_empty() {
            let in_chunk = (CHUNK_SECTORS - at % CHUNK_SECTORS) * SECTOR_SIZE;
            let most = piece.min(usize::try_from(in_chunk).unwrap_or(usize::MAX));
            let (now, then) = rest.split_at(rest.len().min(most));
            let range = SectorRange::new(at, now.len().div_ceil(PAGE_SIZE) as u64 * BLOCK_SECTORS);
            self.put(range, AppendKind::Data, now).await?;
            (at, rest) = (range.end(), then);
        }
        let length = bytes.len() as u64;
        let header = KeptHeader { generation, taken, length, crc: crc32c(bytes) };
        let mut page = vec![0; PAGE_SIZE];
        header.encode(&mut page);
        self.put(SectorRange::new(start, BLOCK_SECTORS), AppendKind::Data, &page).await?;
        Ok(Kept { generation, taken, length })
    }

    /// What is kept, the newest first. One whose header cannot be read is not there.
    ///
    /// # Errors
    /// [`GroupError::Fenced`].
    pub async fn kept(&self) -> Result<Vec<Kept>, GroupError> {
        let Some(info) = self.component(KEPT) else { return Ok(Vec::new()) };
        // This is the only copy. So the component counts as active and whole, and whatever is
        // durable in it as committed, which allows it to be destaged. If a lost write buffer took
        // a part of a backup along, the checksums tell.
        self.set_active(KEPT, true);
        self.is_whole_at(KEPT, Seat(1)).await?;
        self.advance_commit(KEPT, info.durable);
        let mut all = Vec::new();
        for number in 0..KEPT_MAX as u64 {
            if let Some(header) = self.header(number).await? {
                let KeptHeader { generation, taken, length, .. } = header;
                all.push(Kept { generation, taken, length });
            }
        }
        all.sort_by_key(|kept| std::cmp::Reverse(kept.generation));
        Ok(all)
    }

    /// The bytes of one.
    ///
    /// # Errors
    /// [`KeptError::Gone`], [`KeptError::Damaged`].
    pub async fn read_kept(&self, generation: u64) -> Result<Vec<u8>, KeptError> {
        let header = match self.component(KEPT) {
            Some(_) => self.header(generation % KEPT_MAX as u64).await?,
            None => None,
        };
        let header = header.filter(|header| header.generation == generation);
        let header = header.ok_or(KeptError::Gone { generation })?;
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(length);
        let mut at = slot(generation) + BLOCK_SECTORS;
        while bytes.len() < length {
            let missing = (length - bytes.len()).div_ceil(PAGE_SIZE) as u64 * BLOCK_SECTORS;
            let count = missing.min(CHUNK_SECTORS - at % CHUNK_SECTORS);
            match self.read(KEPT, SectorRange::new(at, count)).await {
                Ok(read) => bytes.extend_from_slice(&read.payload),
                Err(GroupError::BadCrc { .. }) => return Err(KeptError::Damaged { generation }),
                Err(error) => return Err(error.into()),
            }
            at += count;
        }
        bytes.truncate(length);
        match crc32c(&bytes) == header.crc {
            true => Ok(bytes),
            false => Err(KeptError::Damaged { generation }),
        }
    }

    async fn header(&self, number: u64) -> Result<Option<KeptHeader>, GroupError> {
        let range = SectorRange::new(slot(number), BLOCK_SECTORS);
        let page = match self.read(KEPT, range).await {
            Ok(read) => read.payload,
            Err(GroupError::BadCrc { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let fits = |header: &KeptHeader| {
            header.generation % KEPT_MAX as u64 == number && header.length <= KEPT_BYTES_MAX as u64
        };
        Ok(KeptHeader::decode(&page).ok().filter(fits))
    }

    /// One write, durable on return.
    async fn put(
        &self,
        range: SectorRange,
        kind: AppendKind,
        bytes: &[u8],
    ) -> Result<(), GroupError> {
        // An append whose caller was dropped may be under way.
        self.drain(KEPT).await;
        let durable = self.component(KEPT).map_or(Lsn::ZERO, |info| info.durable);
        let (term, lsn) = (Term(1), durable.max(Lsn::new(Term(1), 0)).next());
        let (payload, crcs) = match kind {
            AppendKind::Data => {
                let whole = usize::try_from(range.bytes()).unwrap_or(usize::MAX);
                let mut buf = self.shared().env.buf(whole);
                buf[..bytes.len()].copy_from_slice(bytes);
                buf[bytes.len()..].fill(0);
                let payload = buf.freeze();
                let crcs = wire::crcs_of(range, &payload);
                (payload, crcs)
            }
            AppendKind::Zero | AppendKind::Discard => {
                (self.shared().env.buf(0).freeze(), wire::Crcs::default())
            }
        };
        let (component, crcs, marks) = (KEPT, &crcs[..], &[][..]);
        self.append(Append { component, lsn, term, range, kind, crcs, payload, marks }).await?;
        self.advance_commit(KEPT, lsn);
        Ok(())
    }
}

/// The generation of the next backup, where `kept` is what the group has, the newest first.
fn next_generation(kept: &[Kept], above: u64) -> u64 {
    let newest = kept.first().map_or(0, |kept| kept.generation).max(above);
    let stays: Vec<u64> =
        kept.iter().take(KEPT_MAX - 1).map(|kept| slot(kept.generation)).collect();
    let mut generation = newest + 1;
    while stays.contains(&slot(generation)) {
        generation += 1;
    }
    generation
}

/// The first sector of a generation's slot.
fn slot(generation: u64) -> u64 {
    generation % KEPT_MAX as u64 * SLOT_SECTORS
}
