// SPDX-License-Identifier: Apache-2.0
//! Files that behave as slower devices would, for tests and benchmarks.
//!
//! The driver beneath is given every operation at once; what it answers is held back until the
//! model says that a device of that kind would have answered. An operation that really takes longer
//! than that ends when it ends. What is read and written, errors and order of durability are the
//! real file's.

use crate::model::{DeviceModel, RunningModel};
use crate::op::DeviceOp;
use base::{Instant, LateFrame, Map, Quirk, Set, WallTime};
use env::{Completion, DiskId, Done, Driver, IoError, Op, Token};
use std::time::Duration;

/// Closes a block device that does not open by such a path. No executor counts that far.
const REFUSED: Token = Token(u64::MAX);

/// A disk that is open, or was when its last operations were submitted.
struct Disk {
    model: RunningModel,
    is_closed: bool,
    /// Operations that the model has ended and the driver has not.
    over: Set<Token>,
    /// Operations that the driver has ended and the model has not.
    held: Map<Token, Completion>,
}

impl Disk {
    fn is_gone(&self) -> bool {
        self.is_closed && self.model.is_idle() && self.over.is_empty() && self.held.is_empty()
    }
}

/// A driver some of whose files answer as late as other devices would. Who slows down nothing uses
/// the driver itself, and pays nothing.
pub struct SlowedDriver<D> {
    driver: D,
    paths: Map<String, DeviceModel>,
    /// Opens of such paths under way.
    opening: Map<Token, String>,
    disks: Map<DiskId, Disk>,
    /// What the driver has not ended on such disks, and where.
    under_way: Map<Token, DiskId>,
}

impl<D: Driver> SlowedDriver<D> {
    /// Slows down nothing yet.
    pub fn new(driver: D) -> Self {
        let (paths, opening) = (Map::new(), Map::new());
        Self { driver, paths, opening, disks: Map::new(), under_way: Map::new() }
    }

    /// A file that is opened by this path from now on answers as late as such a device would, never
    /// sooner than it does by itself. What stands there stays as it is. A block device does not
    /// open by such a path ([`IoError::Denied`]).
    pub fn behave_as(&mut self, path: &str, model: DeviceModel) {
        self.paths.insert(path.to_owned(), model);
    }

    /// An open of such a path has ended.
    fn opened(&mut self, path: &str, end: Completion) -> Completion {
        let Ok(Done::Disk(id, info)) = end.result else { return end };
        if !info.is_file {
            self.driver.submit(REFUSED, Op::CloseDisk { disk: id });
            return Completion { result: Err(IoError::Denied), ..end };
        }
        if let Some(model) = self.paths.get(path) {
            let (model, over, held) = (model.start(info.size), Set::new(), Map::new());
            self.disks.insert(id, Disk { model, is_closed: false, over, held });
        }
        end
    }

    /// Its last operations still end when the model says.
    fn closed(&mut self, id: DiskId) {
        if let Some(disk) = self.disks.get_mut(&id) {
            disk.is_closed = true;
            self.disks.retain(|_, disk| !disk.is_gone());
        }
    }

    /// What an operation asks of an open disk that follows a model.
    fn asked(&self, op: &Op) -> Option<(DiskId, DeviceOp)> {
        let (disk, asked) = match op {
            Op::Read { disk, offset, into, at } => (disk, transfer(*offset, into.len() - at)),
            Op::Write { disk, offset, from, .. } => (disk, transfer(*offset, from.len())),
            Op::Flush { disk } => (disk, DeviceOp::Flush),
            // Discards cost nothing: magnetic disks have none, others do them beside.
            _ => return None,
        };
        let is_open = self.disks.get(disk).is_some_and(|disk| !disk.is_closed);
        is_open.then_some((*disk, asked))
    }

    /// The driver has ended an operation: what the caller learns of it now.
    fn take(&mut self, end: Completion) -> Option<Completion> {
        if end.token == REFUSED {
            return None;
        }
        if let Some(path) = self.opening.remove(&end.token) {
            return Some(self.opened(&path, end));
        }
        match self.under_way.remove(&end.token) {
            Some(disk) => self.hold(disk, end),
            None => Some(end),
        }
    }

    /// Holds an end back, unless the model has ended it too.
    fn hold(&mut self, id: DiskId, end: Completion) -> Option<Completion> {
        let Some(disk) = self.disks.get_mut(&id) else { return Some(end) };
        if !disk.over.remove(&end.token) {
            disk.held.insert(end.token, end);
            return None;
        }
        if disk.is_gone() {
            self.disks.remove(&id);
        }
        Some(end)
    }

    /// Gives out what the models have ended by now; when the next one of those is due.
    fn release(&mut self, done: &mut Vec<Completion>) -> Option<Instant> {
        if self.disks.is_empty() {
            return None;
        }
        let now = self.driver.now();
        for disk in self.disks.values_mut() {
            while let Some((name, _)) = disk.model.end(now) {
                match disk.held.remove(&Token(name)) {
                    Some(end) => done.push(end),
                    None => _ = disk.over.insert(Token(name)),
                }
            }
        }
        self.disks.retain(|_, disk| !disk.is_gone());
        self.disks.values().filter_map(|disk| disk.model.next_end()).min()
    }
}

impl<D: Driver> Driver for SlowedDriver<D> {
    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn coarse(&self) -> Instant {
        self.driver.coarse()
    }

    fn wall(&self) -> WallTime {
        self.driver.wall()
    }

    fn entropy(&mut self) -> u64 {
        self.driver.entropy()
    }

    fn quirk(&mut self, quirk: Quirk) -> bool {
        self.driver.quirk(quirk)
    }

    fn delay_of(&mut self, frame: LateFrame) -> Duration {
        self.driver.delay_of(frame)
    }

    fn submit(&mut self, token: Token, op: Op) {
        let asked = self.asked(&op);
        match &op {
            Op::OpenDisk(open) if self.paths.contains_key(&open.path) => {
                self.opening.insert(token, open.path.clone());
            }
            Op::CloseDisk { disk } => self.closed(*disk),
            _ => {}
        }
        self.driver.submit(token, op);
        let Some((id, asked)) = asked else { return };
        let now = self.driver.now();
        if let Some(disk) = self.disks.get_mut(&id) {
            disk.model.submit(now, token.0, asked);
            self.under_way.insert(token, id);
        }
    }

    fn cancel(&mut self, token: Token) {
        self.driver.cancel(token);
    }

    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) {
        let due = self.release(done).into_iter().chain(until).min();
        let first = done.len();
        self.driver.park(due, done);
        for end in done.split_off(first) {
            done.extend(self.take(end));
        }
        self.release(done);
    }
}

fn transfer(offset: u64, length: usize) -> DeviceOp {
    DeviceOp::Transfer { offset, bytes: u64::try_from(length).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::{DiskInfo, OpenDisk};
    use std::time::Duration;

    /// Ends everything at once, and opens disks that are files or not. Time goes by when it parks.
    #[derive(Default)]
    struct Prompt {
        now: Instant,
        is_file: bool,
        ready: Vec<Completion>,
        closed: Vec<DiskId>,
    }

    impl Driver for Prompt {
        fn now(&self) -> Instant {
            self.now
        }

        fn wall(&self) -> WallTime {
            WallTime(0)
        }

        fn entropy(&mut self) -> u64 {
            0
        }

        fn submit(&mut self, token: Token, op: Op) {
            let is_file = self.is_file;
            let info = DiskInfo { size: 1 << 20, is_file, is_sparse: false, is_new: false };
            let done = match op {
                Op::OpenDisk(_) => Done::Disk(DiskId(5), info),
                Op::CloseDisk { disk } => {
                    self.closed.push(disk);
                    Done::Unit
                }
                _ => Done::Unit,
            };
            self.ready.push(Completion { token, result: Ok(done), buf: None });
        }

        fn cancel(&mut self, _token: Token) {}

        fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) {
            done.append(&mut self.ready);
            if let Some(until) = until.filter(|_| done.is_empty()) {
                self.now = self.now.max(until);
            }
        }
    }

    fn open(is_file: bool) -> (SlowedDriver<Prompt>, Vec<Completion>) {
        let mut driver = SlowedDriver::new(Prompt { is_file, ..Prompt::default() });
        let latency = Duration::from_millis(3);
        driver.behave_as("slow", DeviceModel::Late { latency, bytes_per_second: 1 << 20 });
        let path = "slow".to_owned();
        driver.submit(Token(1), Op::OpenDisk(OpenDisk { path, create: None }));
        let mut done = Vec::new();
        driver.park(None, &mut done);
        (driver, done)
    }

    #[test]
    fn a_block_device_does_not_open_and_is_closed_again() {
        let (mut driver, mut done) = open(false);
        assert_eq!(done.remove(0).result, Err(IoError::Denied));
        assert_eq!(driver.driver.closed, [DiskId(5)]);
        driver.park(Some(Instant(0)), &mut done);
        assert!(done.is_empty(), "nobody asked for the close: {done:?}");
    }

    #[test]
    fn what_the_driver_ends_at_once_ends_when_the_model_says() {
        let (mut driver, mut done) = open(true);
        assert!(done.remove(0).result.is_ok());
        driver.submit(Token(2), Op::Flush { disk: DiskId(5) });
        driver.submit(Token(3), Op::Flush { disk: DiskId(6) });
        driver.park(None, &mut done);
        assert_eq!(done.remove(0).token, Token(3), "another disk");
        driver.submit(Token(4), Op::CloseDisk { disk: DiskId(5) });
        driver.park(None, &mut done);
        assert_eq!(done.remove(0).token, Token(4));
        driver.park(None, &mut done);
        let late = Instant::default() + Duration::from_millis(3);
        assert_eq!((done.len(), driver.now()), (1, late));
        assert!(driver.disks.is_empty() && driver.under_way.is_empty());
    }
}
