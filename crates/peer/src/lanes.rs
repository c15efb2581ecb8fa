// SPDX-License-Identifier: Apache-2.0
//! What one link carries at a time: each class of requests has a share of its own.
//!
//! ```text
//!   call -> room in the share of its class?  yes -> sent, takes of the share until its answer
//!                                            no  -> waits in its lane, first come, first served
//! ```
//! Guarantees: no class takes what is another's; what waits is bounded in bytes; requests of one
//! [`LaneRow`] keep their order, also when their class changes on the way. Pure: the link sends
//! what it is told to.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use wire::{BODY_MAX, Message, Request};

/// What a request is, for its share of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Fences, lists, K: short questions on which everything else depends.
    Control,
    /// Writes that somebody waits for.
    Write,
    /// Reads that somebody waits for.
    Read,
    /// What brings a component up to date.
    Resync,
}

const CLASSES: usize = 4;

/// Bytes of requests and their answers under way on one link, by class. 8 MiB are enough for
/// 25 Gbit/s at 2 ms. Most control requests are small. A Fence or a list counts with the longest
/// answer that it may bring, [`BODY_MAX`] bytes, and the share has room for about 16 of these.
const SHARES: [u64; CLASSES] = [16 << 20, 8 << 20, 8 << 20, 4 << 20];

/// How much of the bytes that may wait for one link each class may have, in eighths. A call beyond
/// it fails as [`crate::PeerError::Overloaded`]. Writes never get there: whoever submits them
/// bounds them.
const EIGHTHS: [u64; CLASSES] = [1, 4, 1, 2];

/// What a request takes beside its payload.
const FRAME_COST: u64 = 256;

/// Requests that keep their order, and that can be taken back together: the frames of one session.
#[derive(Default)]
pub(crate) struct LaneRow {
    /// How many of them wait.
    waiting: Cell<usize>,
    /// The lane in which they wait.
    lane: Cell<usize>,
}

/// What a request costs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of its share of the link, from the request's departure until its answer is there. Request
    /// and answer both count, for either may be long.
    pub(crate) window: u64,
    /// Of memory, while it waits.
    pub(crate) held: u64,
}

impl Cost {
    pub(crate) fn of(request: &Request) -> Self {
        let payload = match request {
            Request::Write { payload, .. } | Request::ClientWrite { payload, .. } => payload.len(),
            _ => 0,
        };
        let answer = match request {
            Request::Read { range, .. } | Request::ClientRead { range, .. } => range.bytes(),
            Request::Fence { .. } | Request::ListChanged { .. } => BODY_MAX as u64,
            _ => 0,
        };
        let held = FRAME_COST + payload as u64;
        Self { window: held + answer, held }
    }
}

/// The class of a request whose caller says nothing else.
pub(crate) fn class_of(request: &Request) -> Class {
    match request {
        Request::Write { is_copy: true, .. } => Class::Resync,
        // An Open is answered when no earlier write is on its way (rule 45): it must not overtake.
        Request::Write { .. } | Request::ClientWrite { .. } | Request::ClientOpen { .. } => {
            Class::Write
        }
        Request::Read { .. } | Request::ClientRead { .. } => Class::Read,
        _ => Class::Control,
    }
}

/// A request that waits for its share.
pub(crate) struct WaitingRequest {
    pub(crate) id: u64,
    pub(crate) message: Message,
    pub(crate) cost: Cost,
    row: Option<Rc<LaneRow>>,
}

#[derive(Default)]
struct Lane {
    in_flight: u64,
    held: u64,
    waiting: VecDeque<WaitingRequest>,
}

/// The lanes of one link.
pub(crate) struct Lanes {
    lanes: [Lane; CLASSES],
    /// Bytes that may wait, all classes together.
    limit: u64,
}

impl Lanes {
    /// Room for `limit` bytes that wait.
    pub(crate) fn new(limit: u64) -> Self {
        Self { lanes: Default::default(), limit }
    }

    /// The lane that a request goes into: that of its `class`. While requests of its row still
    /// wait, it is their lane instead, or the request would overtake them.
    fn lane_of(class: Class, row: Option<&Rc<LaneRow>>) -> usize {
        match row {
            Some(row) if row.waiting.get() > 0 => row.lane.get(),
            _ => class as usize,
        }
    }

    /// Where a request of `class` goes: into its share, or behind others. `None` where there is no
    /// room.
    pub(crate) fn admit(
        &self,
        class: Class,
        row: Option<&Rc<LaneRow>>,
        cost: Cost,
    ) -> Option<LanePlace> {
        let lane = Self::lane_of(class, row);
        let of = &self.lanes[lane];
        if of.waiting.is_empty() && of.has_room(lane, cost) {
            return Some(LanePlace { lane, is_now: true });
        }
        let most = self.limit / 8 * EIGHTHS[lane];
        (of.held + cost.held <= most).then_some(LanePlace { lane, is_now: false })
    }

    /// Takes of the share of `lane`: the request is sent now.
    pub(crate) fn depart(&mut self, lane: usize, cost: Cost) {
        self.lanes[lane].in_flight += cost.window;
    }

    /// Puts a request behind the others of its lane.
    pub(crate) fn wait(
        &mut self,
        lane: usize,
        id: u64,
        cost: Cost,
        message: Message,
        row: Option<&Rc<LaneRow>>,
    ) {
        if let Some(row) = row {
            row.lane.set(lane);
            row.waiting.set(row.waiting.get() + 1);
        }
        let lane = &mut self.lanes[lane];
        lane.held += cost.held;
        lane.waiting.push_back(WaitingRequest { id, message, cost, row: row.cloned() });
    }

    /// An answer has come: what it took of its share is free.
    pub(crate) fn arrive(&mut self, lane: usize, window: u64) {
        let lane = &mut self.lanes[lane];
        assert!(lane.in_flight >= window, "an answer gives back more than its request took");
        lane.in_flight -= window;
    }

    /// The next request of `lane` that has room now; it counts as sent.
    pub(crate) fn next(&mut self, lane: usize) -> Option<WaitingRequest> {
        let of = &mut self.lanes[lane];
        let cost = of.waiting.front()?.cost;
        if !of.has_room(lane, cost) {
            return None;
        }
        of.in_flight += cost.window;
        let next = of.waiting.pop_front()?;
        of.left(&next);
        Some(next)
    }

    /// Takes back what waits of `row`, and says whose calls these were.
    pub(crate) fn withdraw(&mut self, row: &Rc<LaneRow>) -> Vec<u64> {
        if row.waiting.get() == 0 {
            return Vec::new();
        }
        let lane = &mut self.lanes[row.lane.get()];
        let is_mine = |one: &WaitingRequest| one.row.as_ref().is_some_and(|of| Rc::ptr_eq(of, row));
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut lane.waiting).into_iter().partition(is_mine);
        lane.waiting = others;
        mine.iter().for_each(|one| lane.left(one));
        assert!(row.waiting.get() == 0, "a request of a row waits in another lane");
        mine.into_iter().map(|one| one.id).collect()
    }

    /// The link is over: nothing waits any more. The caller gets what did, and drops it once
    /// nothing is borrowed: it may hold the last reference to other memory.
    pub(crate) fn clear(&mut self) -> Vec<WaitingRequest> {
        let mut all = Vec::new();
        for lane in &mut self.lanes {
            while let Some(one) = lane.waiting.pop_front() {
                lane.left(&one);
                all.push(one);
            }
        }
        all
    }

    /// Bytes that wait.
    pub(crate) fn held(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.held).sum()
    }
}

impl Lane {
    /// A lane with nothing in flight takes any request. One that is longer than the share could
    /// never be sent otherwise.
    fn has_room(&self, lane: usize, cost: Cost) -> bool {
        self.in_flight == 0 || self.in_flight + cost.window <= SHARES[lane]
    }

    fn left(&mut self, one: &WaitingRequest) {
        self.held -= one.cost.held;
        if let Some(row) = &one.row {
            row.waiting.set(row.waiting.get() - 1);
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePlace {
    pub(crate) lane: usize,
    /// Whether it is sent at once, or waits behind others.
    pub(crate) is_now: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Map, Rng};

    const CLASS: [Class; CLASSES] = [Class::Control, Class::Write, Class::Read, Class::Resync];

    fn cost(rng: &mut Rng) -> Cost {
        let held = [300, 4 << 10, 256 << 10, 1 << 20][rng.below(4) as usize];
        Cost { window: held + rng.below(2) * (1 << 20), held }
    }

    /// What a plain model knows of what was asked: its row, and whether it was sent.
    #[derive(Default)]
    struct Model {
        rows: Vec<(Rc<LaneRow>, Vec<u64>, Vec<u64>)>,
        flying: Map<u64, (usize, u64)>,
        held: u64,
        waiting: Map<u64, u64>,
    }

    impl Model {
        fn sent(&mut self, id: u64, lane: usize, window: u64) {
            self.flying.insert(id, (lane, window));
            for (_, asked, sent) in self.rows.iter_mut().filter(|row| row.1.contains(&id)) {
                sent.push(id);
                assert!(asked.starts_with(sent), "a request overtook one of its row");
            }
        }

        fn in_flight(&self, lane: usize) -> (u64, usize) {
            let of = self.flying.values().filter(|(at, _)| *at == lane);
            (of.clone().map(|(_, window)| window).sum(), of.count())
        }
    }

    #[test]
    fn rows_keep_their_order_and_no_class_takes_what_is_anothers() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut lanes = Lanes::new(64 << 20);
            let rows = (0..3).map(|_| Default::default()).collect();
            let mut model = Model { rows, ..Model::default() };
            for id in 0..400 {
                match rng.below(8) {
                    0..=4 => {
                        let at = rng.below(4) as usize;
                        let (class, cost) = (CLASS[rng.below(4) as usize], cost(&mut rng));
                        let row = model.rows.get(at).map(|row| Rc::clone(&row.0));
                        let Some(place) = lanes.admit(class, row.as_ref(), cost) else {
                            assert!(lanes.held() > 0, "refused by empty lanes");
                            continue;
                        };
                        if let Some(row) = model.rows.get_mut(at) {
                            row.1.push(id);
                        }
                        if place.is_now {
                            lanes.depart(place.lane, cost);
                            model.sent(id, place.lane, cost.window);
                        } else {
                            lanes.wait(place.lane, id, cost, Message::Ping, row.as_ref());
                            model.waiting.insert(id, cost.held);
                        }
                    }
                    5 | 6 => {
                        let nth = rng.below(model.flying.len().max(1) as u64) as usize;
                        let Some(id) = model.flying.keys().nth(nth).copied() else { continue };
                        let Some((lane, window)) = model.flying.remove(&id) else { continue };
                        lanes.arrive(lane, window);
                        while let Some(next) = lanes.next(lane) {
                            model.waiting.remove(&next.id);
                            model.sent(next.id, lane, next.cost.window);
                        }
                    }
                    _ if rng.below(10) == 0 => {
                        let (row, asked, sent) = &mut model.rows[rng.below(3) as usize];
                        let back = lanes.withdraw(row);
                        assert_eq!(back, asked[sent.len()..], "seed {seed}");
                        asked.truncate(sent.len());
                        model.waiting.retain(|id, _| !back.contains(id));
                    }
                    _ => {}
                }
                model.held = model.waiting.values().sum();
                assert_eq!(lanes.held(), model.held, "seed {seed}");
                for (lane, share) in SHARES.iter().enumerate() {
                    let (bytes, count) = model.in_flight(lane);
                    assert!(bytes <= *share || count == 1, "seed {seed}: lane {lane} has {bytes}");
                }
            }
            let left = lanes.clear().len();
            assert_eq!((left, lanes.held()), (model.waiting.len(), 0), "seed {seed}");
            assert!(model.rows.iter().all(|row| row.0.waiting.get() == 0), "seed {seed}");
        }
    }
}
