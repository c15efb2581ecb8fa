// SPDX-License-Identifier: Apache-2.0
//! Rules that tests break on purpose, to see that they are needed and that breaking is noticed.
//!
//! Each switch removes one store rule (docs/store.md), or a check that stands in for it.
//! Some rules stand behind each other, so that removing one alone does no harm:
//! docs/faults.md says which, and the tests remove them together.
//!
//! Builds for production contain none of this: see `base::mutations!`.

base::mutations! {
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
    /// A damaged CRC page that the closed half changes falls back to the older slot, whatever was
    /// damaged.
    trust_older_page: "10",
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
    /// The entry of a direct write does not wait for its data.
    record_before_data: "15",
    /// A direct write goes into a staged chunk whatever stands there.
    direct_over_direct: "15",
    /// What comes behind a direct write of its component does not wait for the data.
    overtake_direct: "16",
    /// The chunk that a staged one replaces is given up by a record of its own, before.
    free_before_replaced: "17",
    /// A staged chunk is given out again as soon as nothing in memory names it.
    reuse_named: "18",
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
