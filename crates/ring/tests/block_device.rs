// SPDX-License-Identifier: Apache-2.0
//! A real block device: a loop device over a sparse file. What is discarded on the device gives its
//! space back in the file. To make one takes root and the kernel's loop driver. Where none can be
//! made, the test says so and is skipped.

use env::{
    Completion, DiskId, Done, Driver, Durability, IoError, Op, OpenDisk, Pool, Slice, Token,
};
use ring::RingDriver;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 256 * MIB;

/// A loop device. It is removed at the end of the test.
struct Loop {
    path: String,
    file: PathBuf,
}

impl Loop {
    fn new(name: &str) -> Option<Self> {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        fs::File::create(&file).expect("a file").set_len(SIZE).expect("its size");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let why = match made {
            Ok(made) if made.status.success() => {
                let path = String::from_utf8_lossy(&made.stdout).trim().to_owned();
                return Some(Self { path, file });
            }
            Ok(made) => String::from_utf8_lossy(&made.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        fs::remove_file(&file).expect("the file goes");
        eprintln!("skipped: no loop device can be made here: {why}");
        None
    }

    /// Bytes of space that the file takes.
    fn taken(&self) -> u64 {
        fs::metadata(&self.file).expect("the file is there").blocks() * 512
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let freed = Command::new("losetup").args(["--detach", &self.path]).status();
        let removed = fs::remove_file(&self.file);
        if !std::thread::panicking() {
            assert!(freed.expect("losetup runs").success(), "{} stays", self.path);
            removed.expect("the file goes");
        }
    }
}

/// Submits operations, with the tokens 1, 2 and so on, and parks until all have ended.
fn all(driver: &mut RingDriver, ops: Vec<Op>) -> Vec<Completion> {
    let count = ops.len();
    (1..).zip(ops).for_each(|(token, op)| driver.submit(Token(token), op));
    let mut done = Vec::new();
    while done.len() < count {
        let mut some = Vec::new();
        driver.park(None, &mut some);
        done.append(&mut some);
    }
    done.sort_by_key(|end| end.token.0);
    done
}

fn one(driver: &mut RingDriver, op: Op) -> Completion {
    all(driver, vec![op]).remove(0)
}

fn open(driver: &mut RingDriver, path: &str) -> Result<Done, IoError> {
    one(driver, Op::OpenDisk(OpenDisk { path: path.to_owned(), create: None })).result
}

fn filled(byte: u8) -> Slice {
    let mut buf = Pool::default().zeroed(MIB as usize);
    buf.as_mut().fill(byte);
    buf.into()
}

fn read(driver: &mut RingDriver, disk: DiskId, offset: u64) -> Vec<u8> {
    let into = Pool::default().zeroed(MIB as usize);
    let end = one(driver, Op::Read { disk, offset, into, at: 0 });
    assert_eq!(end.result, Ok(Done::Unit));
    end.buf.expect("the buffer comes back").as_ref().to_vec()
}

#[test]
fn what_is_discarded_takes_no_space_and_its_neighbours_stay() {
    let Some(device) = Loop::new("discard") else { return };
    let mut driver = RingDriver::new().expect("a ring");
    let Ok(Done::Disk(disk, info)) = open(&mut driver, &device.path) else { panic!("a disk") };
    assert_eq!((info.size, info.is_file), (SIZE, false));
    // Only one driver can have a block device open.
    let mut second = RingDriver::new().expect("a ring");
    assert_eq!(open(&mut second, &device.path), Err(IoError::Busy));

    let durability = Durability::Cached;
    let writes = (0..128).map(|mib| {
        let from = filled(mib as u8 + 1);
        Op::Write { disk, offset: mib * MIB, from, durability }
    });
    assert!(all(&mut driver, writes.collect()).iter().all(|end| end.result == Ok(Done::Unit)));
    assert_eq!(one(&mut driver, Op::Flush { disk }).result, Ok(Done::Unit));
    let full = device.taken();
    assert!(full >= 128 * MIB, "{full}");

    // Reads and writes go on beside a discard. Two discards of one device run one after the other.
    let from = filled(200);
    let beside = vec![
        Op::Discard { disk, offset: 16 * MIB, bytes: 64 * MIB },
        Op::Write { disk, offset: 127 * MIB, from, durability },
        Op::Discard { disk, offset: 100 * MIB, bytes: 4096 },
        Op::Read { disk, offset: 15 * MIB, into: Pool::default().zeroed(4096), at: 0 },
    ];
    assert!(all(&mut driver, beside).iter().all(|end| end.result == Ok(Done::Unit)));
    assert_eq!(one(&mut driver, Op::Flush { disk }).result, Ok(Done::Unit));
    let left = device.taken();
    assert!(left + 64 * MIB <= full, "{full} bytes before, {left} after 64 MiB were discarded");
    for (mib, byte) in [(15, 16), (16, 0), (79, 0), (80, 81), (126, 127), (127, 200)] {
        let found = read(&mut driver, disk, mib * MIB);
        assert!(found.iter().all(|it| *it == byte), "MiB {mib} holds {}", found[0]);
    }
    let partly = read(&mut driver, disk, 100 * MIB);
    assert!(partly[..4096].iter().all(|it| *it == 0) && partly[4096..].iter().all(|it| *it == 101));

    // A discard beyond the end fails with the kernel's error number, and does nothing else.
    let beyond = one(&mut driver, Op::Discard { disk, offset: SIZE, bytes: MIB }).result;
    assert!(matches!(beyond, Err(IoError::Device { .. })), "{beyond:?}");
    // The device is closed while a discard is under way. The discard ends, then the device is free.
    driver.submit(Token(50), Op::Discard { disk, offset: 0, bytes: 64 * MIB });
    driver.submit(Token(51), Op::CloseDisk { disk });
    let mut done = Vec::new();
    while done.len() < 2 {
        driver.park(None, &mut done);
    }
    drop(driver);
    assert!(matches!(open(&mut second, &device.path), Ok(Done::Disk(..))));
    drop(second);
}
