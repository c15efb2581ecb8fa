// SPDX-License-Identifier: Apache-2.0
//! A file that behaves as a magnetic or another slow disk. It must be late enough, keep its
//! content, and be free when its driver is gone.

use base::{Instant, Rng};
use devicemodel::{DeviceModel, SlowedDriver};
use env::{
    Completion, DiskId, Done, Driver, Durability, IoError, Op, OpenDisk, Pool, Slice, Token,
};
use ring::RingDriver;
use std::path::PathBuf;
use std::time::Duration;

const SIZE: u64 = 64 << 20;
/// So many writes of 1 MiB keep a magnetic disk busy for at least half a minute.
const WRITES_MAX: u32 = 2_500;

struct Slow {
    folder: PathBuf,
    driver: SlowedDriver<RingDriver>,
    disk: DiskId,
}

impl Slow {
    fn new(name: &str) -> Self {
        Self::with(name, DeviceModel::Magnetic)
    }

    fn with(name: &str, model: DeviceModel) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("disk").to_str().expect("a UTF-8 path").to_owned();
        let mut driver = SlowedDriver::new(RingDriver::new().expect("a ring"));
        driver.behave_as(&path, model);
        driver.submit(Token(1 << 40), Op::OpenDisk(OpenDisk { path, create: Some(SIZE) }));
        let mut slow = Self { folder, driver, disk: DiskId(0) };
        let Ok(Done::Disk(disk, _)) = slow.wait(1).remove(0).result else { panic!("a disk") };
        slow.disk = disk;
        slow
    }

    /// Waits for at least `count` completions. Returns them in their order.
    fn wait(&mut self, count: usize) -> Vec<Completion> {
        let (mut done, mut some) = (Vec::new(), Vec::new());
        while done.len() < count {
            self.driver.park(None, &mut some); // returns at once where something is in it
            done.append(&mut some);
        }
        done
    }

    fn read(&mut self, token: u64, offset: u64) {
        let into = Pool::default().zeroed(4096);
        self.driver.submit(Token(token), Op::Read { disk: self.disk, offset, into, at: 0 });
    }

    fn write(&mut self, token: u64, offset: u64, from: Slice) {
        let (disk, durability) = (self.disk, Durability::Cached);
        self.driver.submit(Token(token), Op::Write { disk, offset, from, durability });
    }

    fn end(self) {
        drop(self.driver);
        std::fs::remove_dir_all(&self.folder).expect("the folder goes");
    }
}

#[test]
fn random_reads_are_late_one_by_one_and_together() {
    let mut slow = Slow::new("late");
    let mut rng = Rng::new(3);
    let places: Vec<u64> = (0..64).map(|_| rng.below(SIZE / 4096) * 4096).collect();
    let begin = slow.driver.now();
    for (token, offset) in (0..).zip(&places) {
        slow.read(token, *offset);
        slow.wait(1);
    }
    let single = slow.driver.now().since(begin);
    // The model takes 8 ms for each. A busy machine only adds to that.
    assert!(single > Duration::from_millis(64 * 6), "{single:?}");

    let begin = slow.driver.now();
    (0..).zip(&places).for_each(|(token, offset)| slow.read(token, *offset));
    slow.wait(64);
    let together = slow.driver.now().since(begin);
    assert!(together > Duration::from_millis(64), "{together:?}");
    slow.end();
}

#[test]
fn a_late_device_is_late_by_its_bytes_and_by_its_latency() {
    let latency = Duration::from_millis(40);
    let mut slow =
        Slow::with("two-figures", DeviceModel::Late { latency, bytes_per_second: 16 << 20 });
    let from: Slice = Pool::default().zeroed(1 << 20).into();
    let begin = slow.driver.now();
    (0..4).for_each(|token| slow.write(token, token << 20, from.clone()));
    slow.driver.submit(Token(99), Op::Flush { disk: slow.disk });
    let ends = slow.wait(5);
    let took = slow.driver.now().since(begin);
    // The model takes exactly 290 ms. A busy machine only adds to that.
    assert!(took >= Duration::from_millis(250) + latency, "{took:?}");
    assert!(ends.iter().all(|end| end.result == Ok(Done::Unit)));
    assert_eq!(ends.last().map(|end| end.token), Some(Token(99)));
    slow.end();
}

#[test]
fn a_flush_waits_for_what_was_written_and_other_disks_do_not() {
    let mut slow = Slow::new("flush");
    let from: Slice = Pool::default().zeroed(1 << 20).into();
    for token in 0..16 {
        slow.write(token, (16 - token) << 20, from.clone());
    }
    slow.driver.submit(Token(99), Op::Flush { disk: slow.disk });
    let ends = slow.wait(17);
    assert_eq!(ends.last().map(|end| end.token), Some(Token(99)));
    assert!(ends.iter().all(|end| end.result == Ok(Done::Unit)));

    // From here on the disk always has work. Whoever waits for it to rest waits for ever.
    let path = slow.folder.join("other").to_str().expect("a UTF-8 path").to_owned();
    for token in 0..16 {
        slow.write(token, (16 - token) << 20, from.clone());
    }
    let create = Some(1 << 20);
    slow.driver.submit(Token(100), Op::OpenDisk(OpenDisk { path, create }));
    let mut is_open = false;
    for _ in 0..WRITES_MAX {
        if is_open {
            break;
        }
        for end in slow.wait(1) {
            match end.token {
                Token(100) => is_open = matches!(end.result, Ok(Done::Disk(..))),
                Token(token) => slow.write(token, (16 - token) << 20, from.clone()),
            }
        }
    }
    assert!(is_open, "another disk waited for this one");
    slow.end();
}

#[test]
fn what_is_held_back_ends_once_also_when_cancelled_closed_or_dropped() {
    let mut slow = Slow::new("ends");
    for token in 0..20 {
        slow.read(token, (1 + token * 7 % 20) << 20);
    }
    let mut done = Vec::new();
    slow.driver.park(Some(Instant(0)), &mut done); // on a busy machine some have ended by now
    (0..10).for_each(|token| slow.driver.cancel(Token(token)));
    slow.driver.submit(Token(50), Op::CloseDisk { disk: slow.disk });
    slow.read(51, 0);
    done.append(&mut slow.wait(22 - done.len()));
    done.sort_by_key(|end| end.token);
    assert_eq!(done.len(), 22);
    assert!(done.iter().filter(|end| end.token.0 < 50).all(|end| end.buf.is_some()));
    assert_eq!(done.last().map(|end| end.result.clone()), Some(Err(IoError::Closed)));
    slow.end();

    let mut slow = Slow::new("dropped");
    let from: Slice = Pool::default().zeroed(1 << 20).into();
    (0..30).for_each(|token| slow.write(token, (1 + token * 7 % 30) << 20, from.clone()));
    slow.driver.park(Some(Instant(0)), &mut Vec::new());
    slow.end();
    assert!(from.try_unfreeze().is_ok(), "every operation gave its memory back");
}
