// SPDX-License-Identifier: Apache-2.0
//! The file of performance: a database of redb. `docs/formats/performance-history.md` describes it.
//!
//! New buckets lie by time, all objects together, so that a write is one place of the file. When an
//! hour of minutes or a day of five minutes is over, they become blocks: one for each object, so
//! that whoever asks for an object reads no others.

use operator::history::{
    HistoryBucket, HistoryFormatError, HistoryKind, HistoryMeasure, HistoryRecord,
    HistoryResolution, HistorySpan, RESOLUTIONS, decode_block, decode_bucket, decode_bucket_of,
    encode_block, encode_bucket,
};
use redb::{
    Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition,
    TableError, WriteTransaction,
};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::ops::RangeBounds;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The format of the tables.
const FORMAT: u64 = 1;
const FORMAT_NAME: &str = "format";
/// Bytes of all values, kept beside them so that nobody has to count.
const BYTES_NAME: &str = "bytes";
/// Memory of the database for what it read.
const CACHE_BYTES: usize = 4 << 20;
/// Most bytes of values. Beyond, the oldest days of five minutes go, one with each write. 200
/// volumes that are always read and written need about 600 MiB.
pub(super) const BYTES_MAX: u64 = 1 << 30;

type BlockKey = (u64, u8, &'static str);
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// The tables of one resolution.
struct Tables {
    resolution: HistoryResolution,
    /// Buckets, by when they begin.
    buckets: TableDefinition<'static, u64, &'static [u8]>,
    /// Blocks, and how much was seen.
    blocks: Option<BlockTables>,
}

#[derive(Clone, Copy)]
struct BlockTables {
    blocks: TableDefinition<'static, BlockKey, &'static [u8]>,
    seen: TableDefinition<'static, u64, &'static [u8]>,
}

fn tables(resolution: HistoryResolution) -> Tables {
    let (buckets, blocks) = match resolution {
        HistoryResolution::Fine => ("fine", None),
        HistoryResolution::Minute => ("minute", Some(("minute-blocks", "minute-seen"))),
        HistoryResolution::Coarse => ("coarse", Some(("coarse-blocks", "coarse-seen"))),
    };
    let blocks = blocks.map(|(blocks, seen)| BlockTables {
        blocks: TableDefinition::new(blocks),
        seen: TableDefinition::new(seen),
    });
    Tables { resolution, buckets: TableDefinition::new(buckets), blocks }
}

/// Why something was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryStoreError {
    /// The database says so.
    #[error("{0}")]
    Database(#[from] redb::Error),
    /// The file system does.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is of another release.
    #[error("it has format {0}, and this program knows format {FORMAT}")]
    Format(u64),
    /// It is no database, and looks like one.
    #[error("it is no database that can be read: see the panic before this line")]
    Panic,
}

impl HistoryStoreError {
    /// Whether the file is to blame, not who may read it or who reads it already.
    pub(super) fn is_of_the_file(&self) -> bool {
        match self {
            Self::Database(redb::Error::DatabaseAlreadyOpen) => false,
            Self::Database(redb::Error::Io(error)) | Self::File(error) => {
                matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
            }
            Self::Database(_) | Self::Format(_) | Self::Panic => true,
        }
    }
}

/// What is read of some objects beside each other: by when each bucket begins.
#[derive(Debug, Default)]
pub(super) struct HistoryRead {
    /// What they did, added up.
    pub(super) records: BTreeMap<u64, HistoryRecord>,
    /// Milliseconds that were seen.
    pub(super) covered_ms: BTreeMap<u64, u64>,
}

/// The file, open.
pub(super) struct HistoryStore {
    database: Database,
    bytes: u64,
    /// Values that were not as they had been written.
    damaged: u64,
}

type Done<T> = Result<T, redb::Error>;

impl HistoryStore {
    /// Opens it, or makes it.
    ///
    /// # Errors
    /// [`HistoryStoreError`].
    pub(super) fn open(path: &Path) -> Result<Self, HistoryStoreError> {
        // A new one is for nobody else on the machine.
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        let database = database.map_err(redb::Error::from)?;
        let (format, bytes) = begin(&database)?;
        if format != FORMAT {
            return Err(HistoryStoreError::Format(format));
        }
        Ok(Self { database, bytes, damaged: 0 })
    }

    /// Bytes of all values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Values that were not as they had been written. They are left away.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Adds buckets of five seconds to all that they are a part of, puts together what is over,
    /// and forgets what is too old, all of it or nothing. It is durable then.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) fn write(
        &mut self,
        now: u64,
        buckets: &BTreeMap<u64, HistoryBucket>,
    ) -> Result<(), HistoryStoreError> {
        let mut batch = Batch { bytes: self.bytes, damaged: 0 };
        self.try_write(now, buckets, &mut batch)?;
        self.bytes = batch.bytes;
        self.damaged += batch.damaged;
        Ok(())
    }

    fn try_write(
        &self,
        now: u64,
        buckets: &BTreeMap<u64, HistoryBucket>,
        batch: &mut Batch,
    ) -> Done<()> {
        let mut write = self.database.begin_write()?;
        // A process that was killed must not read all of the file at its next start.
        write.set_quick_repair(true);
        for resolution in RESOLUTIONS {
            let tables = tables(resolution);
            let mut added: BTreeMap<u64, HistoryBucket> = BTreeMap::new();
            for (at, bucket) in buckets {
                added.entry(resolution.bucket_of(*at)).or_default().add(bucket);
            }
            let mut table = write.open_table(tables.buckets)?;
            for (at, bucket) in added {
                batch.add_bucket(&mut table, at, bucket)?;
            }
            drop(table);
            batch.put_together(&write, &tables, now)?;
            batch.forget(&write, &tables, now)?;
        }
        if batch.bytes > BYTES_MAX {
            batch.forget_oldest(&write)?;
        }
        write.open_table(ABOUT)?.insert(BYTES_NAME, batch.bytes)?;
        write.commit()?;
        Ok(())
    }

    /// Reads some objects of one kind. Of shards each says how long it was seen, of all others the
    /// bucket does.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) fn read(
        &self,
        span: HistorySpan,
        kind: HistoryKind,
        names: &[String],
    ) -> Result<HistoryRead, HistoryStoreError> {
        let mut out = HistoryRead::default();
        let read = self.database.begin_read().map_err(redb::Error::from)?;
        read_buckets(&read, span, kind, names, &mut out)?;
        read_blocks(&read, span, kind, names, &mut out)?;
        Ok(out)
    }
}

/// Writes what a new file has, and returns what there is: its format, and the bytes of its values.
fn begin(database: &Database) -> Done<(u64, u64)> {
    let mut write = database.begin_write()?;
    write.set_quick_repair(true);
    let mut about = write.open_table(ABOUT)?;
    let found = about.get(FORMAT_NAME)?.map(|number| number.value());
    let bytes = about.get(BYTES_NAME)?.map_or(0, |number| number.value());
    if found.is_none() {
        about.insert(FORMAT_NAME, FORMAT)?;
    }
    drop(about);
    match found {
        Some(_) => write.abort()?,
        None => write.commit()?,
    }
    Ok((found.unwrap_or(FORMAT), bytes))
}

impl HistoryRead {
    /// Adds a bucket, or a part of one, of these objects.
    pub(super) fn add(
        &mut self,
        at: u64,
        bucket: &HistoryBucket,
        kind: HistoryKind,
        names: &[String],
    ) {
        let mut seen = if kind == HistoryKind::Shard { 0 } else { bucket.covered_ms };
        for name in names {
            let record = bucket.record(kind, name);
            seen = seen.max(record.measure(HistoryMeasure::CoveredMs));
            self.records.entry(at).or_default().add(&record);
        }
        if seen > 0 {
            *self.covered_ms.entry(at).or_default() += seen;
        }
    }
}

fn read_buckets(
    read: &ReadTransaction,
    span: HistorySpan,
    kind: HistoryKind,
    names: &[String],
    out: &mut HistoryRead,
) -> Done<()> {
    let table = match read.open_table(tables(span.resolution).buckets) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        table => table?,
    };
    for row in table.range(span.from..span.to)? {
        let (at, bytes) = row?;
        let is_wanted =
            |of: HistoryKind, name: &str| of == kind && names.iter().any(|wanted| wanted == name);
        // What is not as it was written is left away: the next write sees it, too.
        if let Ok(bucket) = decode_bucket_of(bytes.value(), is_wanted) {
            out.add(at.value(), &bucket, kind, names);
        }
    }
    Ok(())
}

fn read_blocks(
    read: &ReadTransaction,
    span: HistorySpan,
    kind: HistoryKind,
    names: &[String],
    out: &mut HistoryRead,
) -> Done<()> {
    let (step, tables) = (span.resolution.seconds(), tables(span.resolution));
    let (Some(tables), Some(length)) = (tables.blocks, span.resolution.block_seconds()) else {
        return Ok(());
    };
    let (blocks, seen) = match (read.open_table(tables.blocks), read.open_table(tables.seen)) {
        (Err(TableError::TableDoesNotExist(_)), _) | (_, Err(TableError::TableDoesNotExist(_))) => {
            return Ok(());
        }
        (blocks, seen) => (blocks?, seen?),
    };
    let mut begin = span.from - span.from % length;
    while begin < span.to {
        let at = |number: u16| begin + u64::from(number) * step;
        let is_in = |number: u16| (span.from..span.to).contains(&at(number));
        let mut of_names: BTreeMap<u64, u64> = BTreeMap::new();
        for name in names {
            let bytes = blocks.get((begin, kind.number(), name.as_str()))?;
            let block = bytes.and_then(|bytes| decode_block(bytes.value()).ok());
            for (number, record) in block.unwrap_or_default() {
                if is_in(number) {
                    let covered = of_names.entry(at(number)).or_default();
                    *covered = (*covered).max(record.measure(HistoryMeasure::CoveredMs));
                    out.records.entry(at(number)).or_default().add(&record);
                }
            }
        }
        if kind != HistoryKind::Shard {
            let block = seen.get(begin)?.and_then(|bytes| decode_block(bytes.value()).ok());
            let block = block.unwrap_or_default().into_iter();
            of_names = block
                .filter(|(number, _)| is_in(*number))
                .map(|(number, record)| (at(number), record.measure(HistoryMeasure::CoveredMs)))
                .collect();
        }
        for (at, covered) in of_names {
            *out.covered_ms.entry(at).or_default() += covered;
        }
        begin += length;
    }
    Ok(())
}

/// What one write comes to.
struct Batch {
    bytes: u64,
    damaged: u64,
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Batch {
    fn decoded<T: Default>(&mut self, read: Result<T, HistoryFormatError>) -> T {
        read.unwrap_or_else(|_| {
            self.damaged += 1;
            T::default()
        })
    }

    fn put<'k, K: Key + 'static>(
        &mut self,
        table: &mut Table<'_, K, &'static [u8]>,
        key: K::SelfType<'k>,
        value: &[u8],
    ) -> Done<()> {
        let before = table.insert(key, value)?.map_or(0, |bytes| length(bytes.value()));
        self.bytes = self.bytes.saturating_sub(before).saturating_add(length(value));
        Ok(())
    }

    fn add_bucket(
        &mut self,
        table: &mut Table<'_, u64, &'static [u8]>,
        at: u64,
        mut bucket: HistoryBucket,
    ) -> Done<()> {
        let before = table.get(at)?.map(|bytes| decode_bucket(bytes.value())).transpose();
        bucket.add(&self.decoded(before).unwrap_or_default());
        self.put(table, at, &encode_bucket(&bucket.bounded()))
    }

    /// Makes blocks of the buckets of hours and days that are over.
    fn put_together(&mut self, write: &WriteTransaction, tables: &Tables, now: u64) -> Done<()> {
        let (Some(of_blocks), Some(length)) = (tables.blocks, tables.resolution.block_seconds())
        else {
            return Ok(());
        };
        let mut buckets = write.open_table(tables.buckets)?;
        // What is of this hour or day, and what is of a time to come, stays as it is.
        let is_over = now - now % length;
        let Some(first) = buckets.first()?.map(|(at, _)| at.value()) else { return Ok(()) };
        if first >= is_over {
            return Ok(());
        }
        let mut by_block: BTreeMap<u64, Vec<(u16, HistoryBucket)>> = BTreeMap::new();
        for row in buckets.range(first..is_over)? {
            let (at, bytes) = row?;
            let at = at.value();
            let begin = at - at % length;
            let number = u16::try_from((at - begin) / tables.resolution.seconds());
            let bucket = self.decoded(decode_bucket(bytes.value()));
            let of_block = by_block.entry(begin).or_default();
            of_block.extend(number.ok().map(|number| (number, bucket)));
        }
        self.drop_range(&mut buckets, ..is_over)?;
        let mut blocks = write.open_table(of_blocks.blocks)?;
        let mut seen = write.open_table(of_blocks.seen)?;
        for (begin, of_block) in by_block {
            let mut objects: BTreeMap<(HistoryKind, String), BTreeMap<u16, HistoryRecord>> =
                BTreeMap::new();
            let mut covered: BTreeMap<u16, HistoryRecord> = BTreeMap::new();
            for (number, bucket) in &of_block {
                let own = covered.entry(*number).or_default();
                own.add_measure(HistoryMeasure::CoveredMs, bucket.covered_ms);
                for (kind, name, record) in bucket.records() {
                    let of_object = objects.entry((kind, name.to_owned())).or_default();
                    of_object.entry(*number).or_default().add(record);
                }
            }
            for ((kind, name), block) in objects {
                self.add_block(&mut blocks, (begin, kind.number(), name.as_str()), block)?;
            }
            self.add_block(&mut seen, begin, covered)?;
        }
        Ok(())
    }

    /// Adds to a block. There is one already where the clock went back over the hour or the day.
    fn add_block<'k, K: Key + 'static>(
        &mut self,
        table: &mut Table<'_, K, &'static [u8]>,
        key: K::SelfType<'k>,
        mut block: BTreeMap<u16, HistoryRecord>,
    ) -> Done<()>
    where
        K::SelfType<'k>: Clone,
    {
        let before = table.get(key.clone())?.map(|bytes| decode_block(bytes.value())).transpose();
        for (number, record) in self.decoded(before).unwrap_or_default() {
            block.entry(number).or_default().add(&record);
        }
        let block: Vec<_> = block.into_iter().collect();
        self.put(table, key, &encode_block(&block))
    }

    /// Forgets what is older than is kept, and what is of a time that is still to come.
    fn forget(&mut self, write: &WriteTransaction, tables: &Tables, now: u64) -> Done<()> {
        let (from, to) = tables.resolution.kept(now);
        let mut buckets = write.open_table(tables.buckets)?;
        self.drop_range(&mut buckets, ..from)?;
        self.drop_range(&mut buckets, to..)?;
        match (tables.blocks, tables.resolution.block_seconds()) {
            // A block goes when all of it is too old.
            (Some(of_blocks), Some(length)) => {
                self.drop_blocks(write, of_blocks, (from - from % length, to))
            }
            _ => Ok(()),
        }
    }

    /// Forgets the oldest day of five minutes.
    fn forget_oldest(&mut self, write: &WriteTransaction) -> Done<()> {
        let Some(of_blocks) = tables(HistoryResolution::Coarse).blocks else { return Ok(()) };
        let oldest = write.open_table(of_blocks.seen)?.first()?.map(|(begin, _)| begin.value());
        match oldest {
            Some(oldest) => self.drop_blocks(write, of_blocks, (oldest + 1, u64::MAX)),
            None => Ok(()),
        }
    }

    /// Drops the blocks that begin before `from`, or at `to` or later.
    fn drop_blocks(
        &mut self,
        write: &WriteTransaction,
        tables: BlockTables,
        (from, to): (u64, u64),
    ) -> Done<()> {
        let mut seen = write.open_table(tables.seen)?;
        self.drop_range(&mut seen, ..from)?;
        self.drop_range(&mut seen, to..)?;
        let mut blocks = write.open_table(tables.blocks)?;
        let mut dropped = 0;
        let mut drops = |_: (u64, u8, &str), bytes: &[u8]| {
            dropped += length(bytes);
            false
        };
        blocks.retain_in(..(from, 0, ""), &mut drops)?;
        blocks.retain_in((to, 0, "").., &mut drops)?;
        self.bytes = self.bytes.saturating_sub(dropped);
        Ok(())
    }

    fn drop_range(
        &mut self,
        table: &mut Table<'_, u64, &'static [u8]>,
        range: impl RangeBounds<u64>,
    ) -> Done<()> {
        let mut dropped = 0;
        table.retain_in(range, |_, bytes| {
            dropped += length(bytes);
            false
        })?;
        self.bytes = self.bytes.saturating_sub(dropped);
        Ok(())
    }
}
