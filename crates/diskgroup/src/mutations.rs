// SPDX-License-Identifier: Apache-2.0
//! Rules that tests break on purpose, to see that they are needed and that breaking is noticed.
//!
//! Each switch removes one store rule (docs/store.md), or a check that stands in for it.
//! Some rules stand behind each other, so that removing one alone does no harm:
//! docs/faults.md says which, and the tests remove them together.

use crate::build::Sealed;
use crate::log::Step;
use crate::state::{Inner, acknowledge};
use base::SectorRange;
use env::{Durability, IoError, join};
use std::rc::Rc;
use std::time::Duration;

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident: $rule:literal,)*) => {
        /// See the module.
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Mutations {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Mutations {
            /// Name and store rule of each, and how it is switched on.
            pub const ALL: &[(&str, &str, fn(&mut Self))] =
                &[$((stringify!($name), $rule, |all| all.$name = true),)*];
        }
    };
}

mutations! {
    /// Open without a new incarnation.
    skip_incarnation: "1",
    /// Recovery does not look at the checksum of the commit before.
    ignore_chain: "1",
    /// A commit is submitted before the one in front of it is durable.
    overlap_commits: "2",
    /// The second of two commits in flight acknowledges the first.
    ack_out_of_order: "2",
    /// Answer before the write is durable.
    ack_before_durable: "3",
    /// A failed write or flush is tried again; nothing is fenced.
    retry_after_failure: "3",
    /// Opening takes for durable what it reads, also what a failed flush left behind.
    trust_what_is_read: "3",
    /// Entries are in the index before they are durable.
    index_before_durable: "4",
    /// Any summary with a valid checksum counts.
    trust_summary: "5",
    /// Destage what is not committed.
    destage_uncommitted: "6",
    /// Destage blocks that something newer covers.
    skip_liveness: "7",
    /// As `skip_liveness`, only for the second look, when the write is issued.
    skip_recheck: "7",
    /// Free the segment before data and journal are flushed.
    skip_destage_flush: "8",
    /// The journal's record and its flush come before the data.
    journal_before_data: "8",
    /// No journal record before the segment is reused.
    skip_journal: "9",
    /// The record of a batch carries W as it will be after the batch.
    watermark_ahead: "9",
    /// Update pages in place, in one slot.
    single_page_slot: "10",
    /// Update rows of the component table in place, in one slot.
    single_row_slot: "10",
    /// The journal is reused before pages and rows are flushed.
    early_journal_reuse: "10",
    /// Map pages are written without waiting for the CRC pages' flush.
    map_beside_crc_pages: "10",
    /// Blocks that left the log and were forgotten count as unchanged.
    forget_history: "30",
    /// What a recovery dropped at the end of a segment is taken when the segment is scanned again.
    follow_dropped: "1",
    /// The journal's end counts for its end, however far it had come.
    ignore_head: "9",
    /// W rises while the component comes back from an absence.
    raise_inactive: "19",
    /// W passes copies that are still in the log.
    forget_copies: "19",
    /// Structures are not read back after they were flushed.
    skip_read_back: "10",
    /// A damaged map page falls back to the older slot, whatever the journal holds.
    trust_older_map: "10",
    /// A segment may be overwritten while it is read.
    skip_pins: "11",
    /// A read whose checksum fails does not look again.
    single_look: "11",
    /// Index entries that point into a freed segment stay.
    skip_forget: "11",
    /// A segment is free before its content is on capacity.
    free_before_destage: "12",
    /// A discard changes memory and map, and leaves no entry in the log.
    discard_unlogged: "13",
    /// The later commit wins within a block, whatever its lsn.
    ignore_lsn: "13",
    /// Moved entries are written again without asking whether they are still needed.
    move_unchecked: "13",
    /// Parts are merged into a block that fails its checksum.
    merge_unverified: "14",
    /// Damage in the middle of log or journal counts as its end.
    truncate_damage: "recovery",
    /// Free the segment before what it said about requests is in the rows.
    forget_marks: "46",
    /// Free the segment of an entry above K without a word of whose effect it was.
    forget_open: "46",
    /// Destage leaves slots of the read cache as they were.
    keep_lines_on_destage: "read cache 2",
    /// A fill counts though its chunk changed since its data was read.
    fill_over_changes: "read cache 4",
    /// Headers may be written while a record is under way that changes their chunk and not its lsn.
    headers_beside_records: "read cache 7",
    /// A record of one device thaws the headers that are frozen for a record of another.
    thaw_for_others: "read cache 7",
    /// A slot's header counts at opening whatever lsn its chunk has by now.
    trust_stale_headers: "read cache 6",
    /// Headers stay where a record changes a chunk and not its lsn.
    skip_header_invalidation: "read cache 7",
    /// What the header of a slot says that was given to another piece is forgotten.
    forget_given_slots: "read cache 7",
    /// A segment is freed though a device may need it that is out.
    free_held: "out 1",
    /// What opening leaves out is given up at once, whoever needs it.
    give_up_unasked: "out 2",
    /// A device is given up without a durable word of it.
    give_up_unmarked: "out 2",
    /// A device that was given up comes back as if it lacked nothing.
    return_whole: "out 3",
    /// A chunk that a discard freed is not given back.
    leak_discarded: "leak",
    /// A chunk that a batch allocated for a component deleted meanwhile is not given back.
    leak_deleted: "leak",
    /// What was set aside for a chunk stays so when nothing needs it any more.
    leak_reserved: "leak",
}

/// Where a second commit went, and what it is.
pub(crate) type Second = (u64, Box<Sealed>);

/// Submits the next commit while one is in flight, if there is one that fits the segment. Both are
/// awaited here.
pub(crate) async fn write_two(
    inner: &Rc<Inner>,
    first: impl Future<Output = Result<(), IoError>>,
) -> (Result<(), IoError>, Option<Second>) {
    let of = Rc::clone(inner);
    let second = async move {
        of.env.sleep(Duration::from_micros(20)).await;
        let step = {
            let mut state = of.state.borrow_mut();
            let log = &state.log;
            let room = log.usable() - u64::from(log.offset);
            let is_plain = log.moves.is_empty() && state.stalled_moves.is_none();
            if !is_plain || log.build.is_empty() || log.build.length() as u64 > room {
                return Ok(None);
            }
            state.log.is_writing = false;
            let step = state.next_step(&of.env);
            state.log.is_writing = true;
            step
        };
        let Step::Write { offset, sealed, .. } = step else { return Ok(None) };
        of.cache.write(offset, sealed.bytes.clone(), Durability::Durable).await?;
        if of.options.mutations.ack_out_of_order {
            acknowledge(&of, sealed.ticket);
        }
        Ok(Some((offset, sealed)))
    };
    let (first, second) = join(Box::pin(first), Box::pin(second)).await;
    match second {
        Ok(second) => (first, second),
        Err(error) => (Err(error), None),
    }
}

/// The first of two is complete, so the second is.
pub(crate) fn complete_second(inner: &Inner, segment: u64, second: Option<Second>) {
    if let Some((offset, sealed)) = second {
        inner.state.borrow_mut().complete(segment, offset, &sealed, false);
        acknowledge(inner, sealed.ticket);
    }
}

/// Writes a commit again until that succeeds, where failures do not fence.
pub(crate) async fn retry(
    inner: &Inner,
    offset: u64,
    sealed: &Sealed,
    written: Result<(), IoError>,
) -> Result<(), IoError> {
    let mut written = written;
    while written.is_err() && inner.options.mutations.retry_after_failure {
        inner.env.sleep(Duration::from_millis(1)).await;
        written = inner.cache.write(offset, sealed.bytes.clone(), Durability::Durable).await;
    }
    written
}

/// A block as its parts say, with zeros where what is below fails its checksum.
pub(crate) async fn merge_blindly(
    inner: &Rc<Inner>,
    serial: u32,
    block: u64,
    commit: u64,
) -> Vec<u8> {
    let mut whole = vec![0; 4096];
    for (at, part) in whole.chunks_mut(512).enumerate() {
        let range = SectorRange::new(block * 8 + at as u64, 1);
        if let Ok(bytes) = crate::read::read_committed(inner, serial, range, commit).await {
            part.copy_from_slice(&bytes);
        }
    }
    whole
}
