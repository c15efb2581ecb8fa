// SPDX-License-Identifier: Apache-2.0
//! Rare paths that a fault campaign makes common (FoundationDB calls it buggify). At such a place
//! the code asks whether to take the rare path without need. Only the simulated driver ever says
//! yes: it arms some quirks per world, and an armed one happens now and then.

crate::named! {
    /// One rare path.
    pub enum Quirk {
        /// A segment of the log ends before it is full.
        LogTurnsEarly = "log-turns-early",
        /// A commit waits before it is submitted, so that more comes into it.
        LogLingers = "log-lingers",
        /// A closed segment gets no summary.
        SummarySkipped = "summary-skipped",
        /// Destage waits between data and journal.
        DestageLingersOnData = "destage-lingers-on-data",
        /// Destage waits between the journal and the end of the log's entries.
        DestageLingersOnJournal = "destage-lingers-on-journal",
        /// A checkpoint comes before it is due.
        CheckpointEarly = "checkpoint-early",
        /// A checkpoint waits between the pages and the end of the journal that they replace.
        CheckpointLingers = "checkpoint-lingers",
        /// A take-over waits between its claim and its fences.
        ClaimLingers = "claim-lingers",
        /// A replica waits before it answers a fence.
        FenceLingers = "fence-lingers",
        /// A take-over waits before it marks those absent that it did not reach.
        GoneLingers = "gone-lingers",
        /// A take-over waits between two rounds of copies.
        ReconcileLingers = "reconcile-lingers",
        /// A hand-over waits before its change of the record.
        HandOverLingers = "hand-over-lingers",
        /// A hand-over says nothing to the components.
        ConsentSkipped = "consent-skipped",
        /// A resync waits between its session and the list of what changed.
        ListLingers = "list-lingers",
        /// A resync or a repair waits between reading a range and sending it.
        CopyLingers = "copy-lingers",
        /// A returning component is required, and its commit point comes late.
        JoinLingers = "join-lingers",
        /// The answer to a change of the record counts as lost.
        ChangeInDoubt = "change-in-doubt",
        /// A read waits between its data and the look at the lease.
        ReadLingers = "read-lingers",
        /// A host closes a link to a peer without need.
        LinkDropped = "link-dropped",
        /// A write of another host is handled late, after writes that came later, and perhaps in
        /// time as well. The protocol must rest on terms, sessions and request ids (rules 8, 9,
        /// 46), not links.
        LateWrite = "late-write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quirk_has_a_name_of_its_own() {
        let names: crate::Set<&str> = Quirk::ALL.iter().map(|quirk| quirk.name()).collect();
        assert_eq!(names.len(), Quirk::ALL.len());
        assert!(Quirk::ALL.iter().enumerate().all(|(at, quirk)| *quirk as usize == at));
    }
}
