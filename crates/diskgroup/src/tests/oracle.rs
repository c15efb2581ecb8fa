// SPDX-License-Identifier: Apache-2.0
//! What each sector may hold: the last acknowledged value or one issued after it, and what was
//! there before, with lsns, for a look at the capacity devices alone.

use super::*;

/// Values of one sector in the order of issue, with their lsns; from `acked` on each is possible.
#[derive(Clone)]
pub(super) struct History {
    pub(super) values: Vec<(u32, u64)>,
    pub(super) acked: usize,
    /// The newest one that is surely there: of two equal ones, found after a crash, the older.
    pub(super) sure: usize,
}

pub(super) struct Oracle {
    /// Per component, per sector.
    pub(super) sectors: Vec<Vec<History>>,
    pub(super) next_value: u32,
    /// Highest lsn issued and acknowledged.
    pub(super) issued: Vec<u64>,
    pub(super) acked: Vec<Lsn>,
    /// Highest K that the group was told.
    pub(super) told: Vec<Lsn>,
    /// What appends said about requests, in their order.
    pub(super) marks: Vec<Vec<(Lsn, Vec<Mark>)>>,
    /// Requests begun.
    requests: u64,
    pub(super) term: u32,
    pub(super) reads: u64,
    pub(super) appends: u64,
    /// Looks at the capacity devices alone, and what they found beyond W.
    pub(super) looks: u64,
}

impl Oracle {
    pub(super) fn new() -> Self {
        let one = History { values: vec![(0, 0)], acked: 0, sure: 0 };
        let components = COMPONENTS as usize;
        Self {
            sectors: vec![vec![one; SECTORS as usize]; components],
            next_value: 1,
            issued: vec![0; components],
            acked: vec![Lsn::ZERO; components],
            told: vec![Lsn::ZERO; components],
            marks: vec![Vec::new(); components],
            requests: 0,
            term: 1,
            reads: 0,
            appends: 0,
            looks: 0,
        }
    }

    /// Nothing, a request, or what a copy brings along and takes back.
    pub(super) fn some_marks(&mut self, rng: &mut Rng) -> Vec<Mark> {
        let mut done = |rng: &mut Rng| {
            self.requests += 1;
            let (client, slot) = (ShardId(1 + rng.below(2) as u32), rng.below(5) as u8);
            let run = Incarnation(1 + self.requests / 400);
            RequestId::new(client, run, slot, self.requests).expect("small numbers")
        };
        match rng.below(8) {
            0 => Vec::new(),
            1 => (0..rng.below(4)).map(|_| Mark::Done(done(rng))).collect(),
            2 => {
                let id = done(rng);
                vec![Mark::Done(id), Mark::Undone(id), Mark::Done(done(rng))]
            }
            _ => vec![Mark::Done(done(rng))],
        }
    }

    pub(super) fn clients(&self, component: usize) -> ClientTable {
        let mut table = ClientTable::default();
        let marks = self.marks[component].iter().flat_map(|(_, marks)| marks);
        marks.for_each(|mark| table.apply(*mark));
        table
    }

    pub(super) fn issue(
        &mut self,
        component: usize,
        range: SectorRange,
        value: u32,
        lsn: Lsn,
    ) -> Vec<usize> {
        let of = &mut self.sectors[component][range.start as usize..range.end() as usize];
        of.iter_mut()
            .map(|history| {
                history.values.push((value, lsn.0));
                history.values.len() - 1
            })
            .collect()
    }

    pub(super) fn ack(&mut self, component: usize, range: SectorRange, at: &[usize], lsn: Lsn) {
        let of = &mut self.sectors[component][range.start as usize..range.end() as usize];
        for (history, at) in of.iter_mut().zip(at) {
            history.acked = history.acked.max(*at);
            history.sure = history.acked;
        }
        self.acked[component] = self.acked[component].max(lsn);
        self.appends += 1;
    }

    pub(super) fn lows(&self, component: usize, range: SectorRange) -> Vec<usize> {
        let of = &self.sectors[component][range.start as usize..range.end() as usize];
        of.iter().map(|history| history.acked).collect()
    }

    pub(super) fn check(&self, component: usize, range: SectorRange, lows: &[usize], bytes: &[u8]) {
        for (at, sector) in bytes.chunks(512).enumerate() {
            let number = range.start + at as u64;
            let value = value_of(number, sector);
            let possible = &self.sectors[component][number as usize].values[lows[at]..];
            assert!(
                value.is_some_and(|value| possible.iter().any(|(known, _)| *known == value)),
                "component {component} sector {number} of {range:?}: {value:?} is none of \
                 {possible:?}",
            );
        }
    }

    /// What was found after a crash is what is there; what came after it is lost, what was there
    /// before may still be on capacity.
    pub(super) fn settle(&mut self, component: usize, range: SectorRange, bytes: &[u8]) {
        for (at, sector) in bytes.chunks(512).enumerate() {
            let number = range.start + at as u64;
            let value = value_of(number, sector).expect("checked before");
            let history = &mut self.sectors[component][number as usize];
            let is_it = |(known, _): &(u32, u64)| *known == value;
            let found = history.values.iter().rposition(is_it).expect("checked before");
            let first = history.values[history.sure..].iter().position(is_it);
            history.sure = first.map_or(0, |first| first + history.sure);
            history.values.truncate(found + 1);
            history.acked = found;
        }
    }

    /// Every value that was ever written may be there.
    pub(super) fn forget_order(&mut self) {
        self.sectors
            .iter_mut()
            .flatten()
            .for_each(|history| (history.acked, history.sure) = (0, 0));
        self.marks.iter_mut().for_each(Vec::clear);
    }

    /// Capacity alone: everything up to W, perhaps something newer, nothing above K. Where a block
    /// has something beyond W, the log may have held what is older too: it superseded that before
    /// that was destaged. Such a block is part of the delta that another replica brings.
    pub(super) fn check_alone(&self, component: usize, sector: u64, watermark: Lsn, bytes: &[u8]) {
        self.check_beyond(component, sector, (watermark, self.told[component]), bytes);
    }

    /// The same, where nothing is above `most` or W.
    pub(super) fn check_beyond(
        &self,
        component: usize,
        sector: u64,
        (watermark, most): (Lsn, Lsn),
        bytes: &[u8],
    ) {
        let value = value_of(sector, bytes);
        let values = &self.sectors[component][sector as usize].values;
        let block = sector / 8 * 8;
        let block = SectorRange::new(block, 8.min(SECTORS - block));
        let first = match self.is_beyond(component, block, watermark) {
            true => 0,
            false => values.len() - 1,
        };
        let most = most.max(watermark).0;
        let is_known =
            values[first..].iter().any(|(known, lsn)| Some(*known) == value && *lsn <= most);
        assert!(
            is_known,
            "capacity alone, component {component} sector {sector}: {value:?}, W {watermark:?}, \
             K {most:#x}, of {values:x?}"
        );
    }

    /// Whether something beyond W was under way to a range of the capacity device.
    pub(super) fn is_beyond(&self, component: usize, range: SectorRange, watermark: Lsn) -> bool {
        let of = &self.sectors[component][range.start as usize..range.end() as usize];
        of.iter().any(|history| history.values.iter().any(|(_, lsn)| *lsn > watermark.0))
    }
}
