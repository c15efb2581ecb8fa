// SPDX-License-Identifier: Apache-2.0
//! What was counted of one object in one span of time.

use super::measure::{CLASSES, HistoryMeasure, HistoryOperation};
use crate::report::{OperationKind, OperationReport};
use std::collections::BTreeMap;

/// Numbers by slot; what is not there is 0. Adding two is right for times that follow each other,
/// and for objects beside each other: whoever adds those takes care of how long they were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryRecord(BTreeMap<u16, u64>);

/// All kinds of requests.
pub(super) const OPERATIONS: [OperationKind; 5] = [
    OperationKind::Read,
    OperationKind::Write,
    OperationKind::Zero,
    OperationKind::Discard,
    OperationKind::Flush,
];

impl HistoryRecord {
    /// Adds to a slot. A number that grows too large stays at the largest.
    pub(super) fn add_slot(&mut self, slot: u16, more: u64) {
        if more > 0 {
            let number = self.0.entry(slot).or_default();
            *number = number.saturating_add(more);
        }
    }

    /// Adds to a measure.
    pub fn add_measure(&mut self, measure: HistoryMeasure, more: u64) {
        self.add_slot(measure.slot(), more);
    }

    /// Adds what was counted of a kind of request.
    pub fn add_operation(&mut self, report: &OperationReport) {
        let operation = HistoryOperation::from(report.operation);
        for (class, count) in (0..CLASSES).zip(&report.latencies) {
            self.add_slot(operation.class(class), *count);
        }
        self.add_slot(operation.bytes(), report.bytes);
        self.add_slot(operation.failed(), report.failed);
        self.add_slot(operation.took_us(), report.took_us);
    }

    /// Adds another one.
    pub fn add(&mut self, more: &Self) {
        more.0.iter().for_each(|(slot, number)| self.add_slot(*slot, *number));
    }

    /// What is more in it than there was before. `None` where a number is less than it was: whoever
    /// counts began anew, and nobody knows what it did since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        let is_less = |(slot, was): (&u16, &u64)| self.slot(*slot) < *was;
        if before.0.iter().any(is_less) {
            return None;
        }
        let mut more = Self::default();
        self.0.iter().for_each(|(slot, is)| more.add_slot(*slot, is - before.slot(*slot)));
        Some(more)
    }

    /// The number in a slot.
    pub(super) fn slot(&self, slot: u16) -> u64 {
        self.0.get(&slot).copied().unwrap_or_default()
    }

    /// All slots that are not 0, in their order.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = (u16, u64)> + '_ {
        self.0.iter().map(|(slot, number)| (*slot, *number))
    }

    /// A measure.
    #[must_use]
    pub fn measure(&self, measure: HistoryMeasure) -> u64 {
        self.slot(measure.slot())
    }

    /// What was counted of a kind of request.
    #[must_use]
    pub fn operation(&self, kind: OperationKind) -> OperationReport {
        let operation = HistoryOperation::from(kind);
        OperationReport {
            operation: kind,
            failed: self.slot(operation.failed()),
            bytes: self.slot(operation.bytes()),
            took_us: self.slot(operation.took_us()),
            latencies: (0..CLASSES).map(|class| self.slot(operation.class(class))).collect(),
        }
    }

    /// Requests of all kinds that were answered.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let of = |kind| self.operation(kind).latencies.into_iter().fold(0, u64::saturating_add);
        OPERATIONS.into_iter().map(of).fold(0, u64::saturating_add)
    }

    /// Bytes of requests of all kinds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |kind| self.slot(HistoryOperation::from(kind).bytes());
        OPERATIONS.into_iter().map(of).fold(0, u64::saturating_add)
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
