// SPDX-License-Identifier: Apache-2.0
//! Places in the code that a fault campaign must reach. Each has one counter for the whole process.
//!
//! A fault campaign that never reached the repair of a torn commit has shown nothing about it. Code
//! calls `hit(Probe::X)` where something rare happens. `gabion-storm` lists which places were
//! reached, and how often. A count costs one relaxed addition, so production code keeps them too.

use std::sync::atomic::{AtomicU64, Ordering};

crate::named! {
    /// One place.
    pub enum Probe {
        /// A segment of the log was closed and the next one opened.
        LogTurned = "log-turned",
        /// A second direct write went into a staged chunk.
        DirectJoined = "direct-joined",
        /// A large write went through the log: the staged chunk of its chunk does not take it.
        DirectRefused = "direct-refused",
        /// A large write went through the log: its device has no chunk to spare.
        DirectFull = "direct-full",
        /// An append waited for a direct write of its component.
        DirectAwaited = "direct-awaited",
        /// Destage mapped a staged chunk where capacity held nothing.
        StagedMapped = "staged-mapped",
        /// A staged chunk took the place of another, after blocks of that one were copied.
        StagedMerged = "staged-merged",
        /// A staged chunk took the place of another of which nothing was left to copy.
        StagedReplaced = "staged-replaced",
        /// Blocks of a staged chunk were copied to the chunk that capacity held.
        StagedCopied = "staged-copied",
        /// A staged chunk was not needed any more and went back.
        StagedGivenBack = "staged-given-back",
        /// A direct write went to a chunk that another one had left.
        StockUsed = "stock-used",
        /// What was kept for direct writes went back to the device, for none came.
        StockGivenBack = "stock-given-back",
        /// The map gave up a chunk that the log still named.
        StagedKept = "staged-kept",
        /// An entry of a direct write was moved as a record.
        StagedMoved = "staged-moved",
        /// One of which something newer had come over a part was cut before it was moved.
        StagedCut = "staged-cut",
        /// Opening found a staged chunk.
        RecoveryStaged = "recovery-staged",
        /// A capacity device that is out was given up.
        DeviceGivenUp = "device-given-up",
        /// A capacity device that was given up opened again.
        DeviceCameBack = "device-came-back",
        /// Destage stood still for a device that is out.
        DestageHeld = "destage-held",
        /// A device of a group that was closed was still in use for a moment when it was opened
        /// again.
        DeviceLetGoLate = "device-let-go-late",
        /// Appends waited for room.
        LogPressed = "log-pressed",
        /// Appends waited for room while all that the log held was in its open segment.
        LogClosedForRoom = "log-closed-for-room",
        /// An append did not fit the commit under composition.
        LogDeferred = "log-deferred",
        /// Entries were moved to the log's head so that a segment could be freed.
        LogMoved = "log-moved",
        /// A block that the log held in parts was merged.
        DestageFolded = "destage-folded",
        /// A segment with a rotten header was destaged from what is in memory.
        DestageUnheaded = "destage-unheaded",
        /// Data of the log that rotted was made a bad block of capacity.
        DestageCondemned = "destage-condemned",
        /// A chunk was cleared or freed by a discard.
        DestageCleared = "destage-cleared",
        /// Destage waited for K.
        DestageWaited = "destage-waited",
        /// A component's row was written, so that what a segment says about requests outlives the
        /// segment.
        DestageKeptMarks = "destage-kept-marks",
        /// Pages and rows are written that a closed half of the journal changed.
        Checkpoint = "checkpoint",
        /// The other half of the journal takes the records.
        JournalTurned = "journal-turned",
        /// A record waits for the end of a checkpoint.
        TurnWaits = "turn-waits",
        /// A checkpoint waits until the open half has filled a little.
        CheckpointRests = "checkpoint-rests",
        /// A CRC page was read again after it had been evicted.
        PageLoaded = "page-loaded",
        /// CRC pages were read together, for a stream that comes to their chunks.
        PagesLoadedAhead = "pages-loaded-ahead",
        /// The clients of a host were shut out, for another one took the volume over.
        ClientsShutOut = "clients-shut-out",
        /// A take-over of a volume was done, and what other hosts had sent takes no effect.
        WriterShutOut = "writer-shut-out",
        /// A component was to be made for a record that its host does not know.
        StrayFence = "stray-fence",
        /// A write of another epoch than the object's was refused.
        WriterRefused = "writer-refused",
        /// A write waited until its host was the writer of the volume.
        WriterWaited = "writer-waited",
        /// A change of the writer waited for writes that had been admitted.
        WriterDrained = "writer-drained",
        /// A disk group gave checksum pages up, for there is one more that shares them.
        PagesGivenUp = "pages-given-up",
        /// A disk group was refused, for there is no memory for its tables.
        TablesRefused = "tables-refused",
        /// A commit at the log's end was torn.
        RecoveryTorn = "recovery-torn",
        /// A segment had no summary that counts.
        RecoveryScanned = "recovery-scanned",
        /// A segment whose first header is rotten was recovered by its summary.
        RecoveryUnheaded = "recovery-unheaded",
        /// Data in the middle of the open segment was found rotten.
        RecoveryRotten = "recovery-rotten",
        /// A damaged log was begun anew, because other components had what it held.
        RecoveryLogBegun = "recovery-log-begun",
        /// Records of the journal were replayed.
        RecoveryJournal = "recovery-journal",
        /// A take-over was claimed by CAS.
        TakeOverClaimed = "take-over-claimed",
        /// A component could not be reached by a take-over.
        TakeOverGone = "take-over-gone",
        /// A take-over made tails equal.
        TakeOverReconciled = "take-over-reconciled",
        /// Reconciliation brought a request's effect to another component.
        MarkDone = "mark-done",
        /// Reconciliation took a request's effect back.
        MarkUndone = "mark-undone",
        /// A take-over began anew.
        TakeOverAgain = "take-over-again",
        /// A fence was refused because a replica knows a higher term.
        FenceOutranked = "fence-outranked",
        /// The answer to a claim came after the news of a later one.
        ClaimOvertaken = "claim-overtaken",
        /// A fence waited until a grant to the old owner had run out.
        FenceWaited = "fence-waited",
        /// A fence was refused because its record does not descend from what a component saw.
        FenceOtherHistory = "fence-other-history",
        /// A fence of a copy's owner came when a later one of it was forgotten already.
        FenceLate = "fence-late",
        /// An adoption was refused for want of a copy that is surely whole.
        AdoptionRefused = "adoption-refused",
        /// An owner that lost an object while it lived told the components so.
        DeposedConsented = "deposed-consented",
        /// A fence waited for appends in flight.
        FenceDrained = "fence-drained",
        /// K was heard of without a session.
        CommitWithoutSession = "commit-without-session",
        /// A frame of another session or seat was refused.
        FrameOfOther = "frame-of-other",
        /// A frame of a lower term was refused.
        FrameOutdated = "frame-outdated",
        /// A session was opened again at the same term and frames were sent again.
        SessionResent = "session-resent",
        /// The outcome of a CAS was in doubt.
        CasInDoubt = "cas-in-doubt",
        /// A CAS was lost to somebody else.
        CasLost = "cas-lost",
        /// A component was marked absent.
        MarkedAbsent = "marked-absent",
        /// A component was added to a record, to take the place of another one.
        ComponentAdded = "component-added",
        /// A component left a record, and none takes its place.
        ComponentTakenOut = "component-taken-out",
        /// A component took the place of another one.
        ComponentReplaced = "component-replaced",
        /// What was to take the place of a component was taken out again.
        ReplacementGivenUp = "replacement-given-up",
        /// A component that was taken out of its record is deleted.
        RemovedDeleted = "removed-deleted",
        /// A copy that stayed away is made again on another host.
        RepairBegun = "repair-begun",
        /// It was back before that, or the other host was gone too.
        RepairCalledOff = "repair-called-off",
        /// A copy of a resync waited for the limit that an operator set.
        ResyncLimited = "resync-limited",
        /// A host in maintenance may be stopped: what was to leave it has left.
        MaintenanceReady = "maintenance-ready",
        /// A device did not hold what it had acknowledged.
        WriteNotKept = "write-not-kept",
        /// A component admitted a loss.
        AdmittedLoss = "admitted-loss",
        /// An owner stepped down while writes were in flight.
        SteppedDownBusy = "stepped-down-busy",
        /// An owner ended, because its object's last copy takes only a later term.
        SteppedDownOutdated = "stepped-down-outdated",
        /// A read waited for a grant.
        ReadWaitedForGrant = "read-waited-for-grant",
        /// A read's source was no longer active when its data had come.
        ReadLapsed = "read-lapsed",
        /// A read found bad data and was repaired from another component.
        ReadRepaired = "read-repaired",
        /// Scrub had bad data written again.
        ScrubRepaired = "scrub-repaired",
        /// What was read of magnetic capacity went to the read cache.
        LineFilled = "line-filled",
        /// The read cache served a read.
        LineRead = "line-read",
        /// What was read ahead of a stream served a read.
        AheadRead = "ahead-read",
        /// Destage wrote to the read cache what it wrote to capacity.
        LineUpdated = "line-updated",
        /// A line of the read cache outlived the opening of its group.
        LineWarm = "line-warm",
        /// A header of a line was taken back before a record that changes its chunk and leaves the
        /// chunk's lsn as it is.
        LineTakenBack = "line-taken-back",
        /// Several segments were destaged together.
        DestageGathered = "destage-gathered",
        /// A device was called slow.
        DeviceSlow = "device-slow",
        /// A read went to another copy because a device was slow.
        ReadMoved = "read-moved",
        /// A device left an operation unanswered, and its group stopped.
        DeviceStuck = "device-stuck",
        /// A stuck device answered after all, and its group was opened again.
        DeviceAnswered = "device-answered",
        /// A resync copied a range.
        ResyncCopied = "resync-copied",
        /// A write completed without the target of a resync.
        ResyncDirtyAgain = "resync-dirty-again",
        /// A write was kept from the target of a resync: its range is dirty there.
        ResyncDeferred = "resync-deferred",
        /// Block status called a part of what was asked for a hole.
        StatusHole = "status-hole",
        /// A write waited for its turn to go to the target.
        ResyncPaced = "resync-paced",
        /// A round of copies left hardly less than it had begun with.
        ResyncInVain = "resync-in-vain",
        /// The target did not answer for longer than it is given, and writes went on without it.
        ResyncLagged = "resync-lagged",
        /// A component became active again.
        ResyncJoined = "resync-joined",
        /// A resync ended without success.
        ResyncFailed = "resync-failed",
        /// Ownership was handed over by agreement.
        HandedOver = "handed-over",
        /// A write that was sent again was recognised.
        RequestKnown = "request-known",
        /// A host got the number of an earlier run of its own again, or one before it.
        RunRepeated = "run-repeated",
        /// An owner knew writes of a run of this host whose number was given again.
        RunKnownTwice = "run-known-twice",
        /// A client's frame of another term was refused.
        ClientOutdated = "client-outdated",
        /// A client that connected again waited for the requests of its earlier connection.
        ClientDrained = "client-drained",
        /// A component that no record accounts for gave up its space.
        OrphanGivenUp = "orphan-given-up",
        /// The two ends of a link agreed on an older version than the newest one of one of them.
        LinkOlder = "link-older",
        /// An operator had links be encrypted, or not be.
        LinksSwitched = "links-switched",
        /// A link that was not encrypted was refused where links have to be.
        LinkPlainRefused = "link-plain-refused",
        /// A request crossed from one object of a volume to the next.
        ObjectsCrossed = "objects-crossed",
        /// A copy began to move so that hosts are filled alike.
        Rebalanced = "rebalanced",
        /// A volume was larger than when its clients began.
        VolumeGrown = "volume-grown",
        /// One that came back smaller than it had been was made as large again.
        VolumeGrownAgain = "volume-grown-again",
        /// A spare volume was made.
        SpareMade = "spare-made",
        /// One was made with fewer copies than it is to have.
        SpareForced = "spare-forced",
        /// One got another name.
        SpareRenamed = "spare-renamed",
        /// All of one is kept on one host, from a command on.
        SpareKept = "spare-kept",
        /// One was deleted and brought back.
        SpareBroughtBack = "spare-brought-back",
        /// The writer of a volume changed while something else of it was being changed.
        WriterRaced = "writer-raced",
        /// What was to be done to one had no answer that says whether it was done.
        SpareUnanswered = "spare-unanswered",
        /// Nothing was left of a round's spare volumes.
        SpareEnded = "spare-ended",
        /// Both hosts of a machine went down at once.
        MachineDown = "machine-down",
        /// Pieces of one request waited because as many as allowed were under way.
        PiecesWaited = "pieces-waited",
        /// A long zeroing or discarding had a second step.
        SecondStep = "second-step",
        /// A write touched the last block of a volume, which has less than 4 KiB.
        PartialBlock = "partial-block",
        /// The answer to a question for block status was cut short.
        StatusCut = "status-cut",
        /// A list of changed ranges was too long, so that neighbours became one.
        ListMerged = "list-merged",
        /// The list of a tail was too long, so that neighbours became one.
        TailMerged = "tail-merged",
        /// A list of changes had a second page, because the first had looked at enough chunks.
        ChangedPageChunks = "changed-page-chunks",
        /// A list of changes had a second page, because the first had enough ranges.
        ChangedPageRanges = "changed-page-ranges",
        /// A list of changes had a second page, because the first had cost enough.
        ChangedPageLooks = "changed-page-looks",
        /// Copies of a resync waited because as many as allowed were under way.
        CopiesWaited = "copies-waited",
        /// A take-over made tails equal in a second lot of copies.
        SecondLot = "second-lot",
        /// A resync waited for others of its host.
        ResyncWaited = "resync-waited",
        /// Two components of an object were on their way back at once.
        TwinsReturned = "twins-returned",
        /// A request of another host was refused because as many as allowed were under way.
        ForwardedFull = "forwarded-full",
        /// The memory of what was destaged last forgot a block.
        HistoryForgot = "history-forgot",
        /// A component on capacity has a second leaf of the chunk map.
        SecondLeaf = "second-leaf",
        /// A checkpoint wrote a page of the map that is not the first.
        SecondMapPage = "second-map-page",
        /// Scrub looked at a chunk in a second step.
        ScrubSecondStep = "scrub-second-step",
        /// Scrub passed over as many chunks without data as one call may.
        ScrubPassed = "scrub-passed",
        /// A deletion gave chunks back in a second part.
        DeletionPart = "deletion-part",
        /// More freed chunks were left than are given back at a time.
        ReclaimPart = "reclaim-part",
        /// A checkpoint encoded its pages in a second part.
        CheckpointPart = "checkpoint-part",
        /// A batch of headers of the read cache was full.
        HeadersFull = "headers-full",
        /// A read was not kept for the read cache because enough fills were under way.
        FillsFull = "fills-full",
        /// A slot of the read cache did not go, because its component keeps it.
        SlotKept = "slot-kept",
        /// A watch of the directory dropped events because its reader was too slow.
        WatchOverflown = "watch-overflown",
        /// A watch was further behind than the directory's history, and began again.
        WatchReset = "watch-reset",
        /// What the directory told a watch had a second part.
        DirectoryPart = "directory-part",
        /// A request waited because its volume was above its limits.
        LimitWaited = "limit-waited",
        /// The objects of a volume were made in a second lot.
        ObjectsLot = "objects-lot",
        /// The records of a volume were written or deleted in a second transaction.
        SecondTransaction = "second-transaction",
        /// A component whose object was deleted while a host looked at what it has.
        DeletedWhileLooking = "deleted-while-looking",
        /// A grant came so late that it ends before the next one is asked for.
        GrantCameLate = "grant-came-late",
        /// A read was given back unanswered, because a grant had ended and none came in time.
        ReadRefusedForGrant = "read-refused-for-grant",
        /// An owner without a grant ended while a read of it waited for one.
        ReadOutlivedOwner = "read-outlived-owner",
        /// A write that was sent again was recognised while another one waited for its range.
        ResentBeforeRival = "resent-before-rival",
        /// A client that connected again waited for its earlier requests, and writes of others for
        /// ranges in use.
        DrainedBesideRival = "drained-beside-rival",
        /// Overlapping writes of two hosts were under way when the link of one was reset.
        RivalAtReset = "rival-at-reset",
        /// A client hung up while its write and an overlapping one of another host were under way.
        RivalAtHangUp = "rival-at-hang-up",
    }
}

static COUNTS: [AtomicU64; Probe::ALL.len()] = [const { AtomicU64::new(0) }; Probe::ALL.len()];

/// Counts that the place was reached.
pub fn hit(probe: Probe) {
    COUNTS[probe as usize].fetch_add(1, Ordering::Relaxed);
}

/// Counts that the place was reached, if it was.
pub fn hit_if(is_reached: bool, probe: Probe) {
    if is_reached {
        hit(probe);
    }
}

/// How often each place was reached in this process, in the order of [`Probe::ALL`].
#[must_use]
pub fn counts() -> Vec<(Probe, u64)> {
    let count = |probe: &Probe| (*probe, COUNTS[*probe as usize].load(Ordering::Relaxed));
    Probe::ALL.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_has_a_place_and_a_name_of_its_own() {
        let names: crate::Set<&str> = Probe::ALL.iter().map(|probe| probe.name()).collect();
        assert_eq!(names.len(), Probe::ALL.len());
        let before = counts()[Probe::HandedOver as usize].1;
        hit(Probe::HandedOver);
        assert_eq!(counts()[Probe::HandedOver as usize], (Probe::HandedOver, before + 1));
        assert!(Probe::ALL.iter().enumerate().all(|(at, probe)| *probe as usize == at));
    }
}
