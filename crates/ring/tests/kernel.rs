// SPDX-License-Identifier: Apache-2.0
//! What only the real kernel can show: what other processes left behind, wake-ups from other
//! threads, the end of a driver with operations in flight, hostile paths.

use base::Instant;
use env::{
    Access, Address, Completion, Done, Driver, Durability, Hardware, IoError, Op, OpenDisk, Pool,
    Slice, Token,
};
use ring::RingDriver;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a folder for the test");
    path
}

fn text(path: &std::path::Path) -> String {
    path.to_str().expect("a UTF-8 path").to_owned()
}

/// Submits one operation and parks until it completes.
fn call(driver: &mut RingDriver, op: Op) -> Completion {
    driver.submit(Token(1 << 40), op);
    let mut done = Vec::new();
    while done.is_empty() {
        driver.park(None, &mut done);
    }
    assert_eq!(done.len(), 1);
    done.remove(0)
}

fn open(driver: &mut RingDriver, path: &str, create: Option<u64>) -> Result<Done, IoError> {
    call(driver, Op::OpenDisk(OpenDisk { path: path.to_owned(), create })).result
}

#[test]
fn a_dead_socket_is_replaced_and_nothing_else_is() {
    let folder = folder("dead-socket");
    let mut driver = RingDriver::new().unwrap();
    let mut listen = |path: &str| {
        let address = Address::Unix(path.to_owned());
        call(&mut driver, Op::Listen { address, access: Access::default() }).result
    };
    let path = text(&folder.join("socket"));
    drop(UnixListener::bind(&path).unwrap()); // its file stays
    let Ok(Done::Listener(..)) = listen(&path) else { panic!("a dead socket is replaced") };

    let alive = text(&folder.join("alive"));
    let listener = UnixListener::bind(&alive).unwrap();
    assert_eq!(listen(&alive), Err(IoError::AddressInUse));
    UnixStream::connect(&alive).unwrap();
    drop(listener);

    let file = folder.join("file");
    fs::write(&file, "precious").unwrap();
    assert_eq!(listen(&text(&file)), Err(IoError::AddressInUse));
    assert_eq!(fs::read(&file).unwrap(), b"precious");

    drop(driver);
    assert!(!fs::exists(&path).unwrap(), "dropping the driver removes its socket file");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn odd_paths_are_refused_and_a_failed_create_leaves_nothing() {
    let folder = folder("odd-paths");
    let mut driver = RingDriver::new().unwrap();
    let directory = open(&mut driver, &text(&folder), Some(4096));
    assert!(matches!(directory, Err(IoError::Device { .. })), "{directory:?}");
    let device = open(&mut driver, "/dev/null", None);
    assert!(matches!(device, Err(IoError::Device { .. })), "{device:?}");
    let deep = open(&mut driver, &text(&folder.join("none/disk")), Some(4096));
    assert_eq!(deep, Err(IoError::NotFound));
    let nul = open(&mut driver, "a\0b", Some(4096));
    assert!(nul.is_err());
    let huge = folder.join("huge");
    let result = open(&mut driver, &text(&huge), Some(1 << 60));
    assert!(matches!(result, Err(IoError::NoSpace | IoError::Device { .. })), "{result:?}");
    assert!(!huge.exists(), "a failed create leaves its file");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_shrank_brings_a_short_read() {
    let folder = folder("short");
    let mut driver = RingDriver::new().unwrap();
    let path = folder.join("disk");
    let Ok(Done::Disk(disk, _)) = open(&mut driver, &text(&path), Some(65_536)) else {
        panic!("a disk")
    };
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
    let into = Pool::default().zeroed(16_384);
    let end = call(&mut driver, Op::Read { disk, offset: 0, into, at: 0 });
    assert_eq!(end.result, Err(IoError::Short { done: 8192, wanted: 16_384 }));
    assert_eq!(end.buf.map(|buf| buf.len()), Some(16_384));
    fs::remove_dir_all(&folder).unwrap();
}

/// `gabion up --sparse` makes sparse files. Files that an operator asks for have all their space
/// from the start.
#[test]
fn a_file_without_space_of_its_own_is_sparse() {
    let folder = folder("sparse");
    let mut driver = RingDriver::new().unwrap();
    let found = |driver: &mut RingDriver, name: &str, create: Option<u64>| {
        let Ok(Done::Disk(disk, info)) = open(driver, &text(&folder.join(name)), create) else {
            panic!("a disk")
        };
        let end = call(driver, Op::CloseDisk { disk });
        assert!(end.result.is_ok());
        info.is_sparse
    };
    fs::File::create(folder.join("sparse")).unwrap().set_len(8 << 20).unwrap();
    assert!(found(&mut driver, "sparse", None));
    assert!(!found(&mut driver, "whole", Some(8 << 20)), "it was just made");
    assert!(!found(&mut driver, "whole", None));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn another_thread_ends_a_park() {
    let mut driver = RingDriver::new().unwrap();
    for _ in 0..3 {
        let waker = driver.waker();
        let thread = std::thread::spawn(move || waker.wake());
        let mut done = Vec::new();
        driver.park(None, &mut done); // would wait for ever
        assert!(done.is_empty(), "a wake-up completes nothing");
        thread.join().unwrap();
    }
    // A wake-up before the park is not lost. Time-outs still work.
    driver.waker().wake();
    driver.park(None, &mut Vec::new());
    let until = driver.now() + Duration::from_millis(3);
    while driver.now() < until {
        driver.park(Some(until), &mut Vec::new());
    }
}

#[test]
fn every_token_completes_once_whatever_is_cancelled_or_closed() {
    let mut driver = RingDriver::new().unwrap();
    let address = Address::Tcp(([127, 0, 0, 1], 0).into());
    let listen = Op::Listen { address, access: Access::default() };
    let Ok(Done::Listener(listener, address)) = call(&mut driver, listen).result else {
        panic!("a listener")
    };
    // Submits more accepts than the submission queue holds, and some dials. Most accepts are
    // cancelled, some of them twice.
    const ACCEPTS: u64 = 1500;
    const DIALS: u64 = 20;
    for token in 0..ACCEPTS {
        driver.submit(Token(token), Op::Accept { listener });
    }
    for token in ACCEPTS..ACCEPTS + DIALS {
        driver.submit(Token(token), Op::Dial { address: address.clone() });
    }
    for token in (100..1000).chain(500..600) {
        driver.cancel(Token(token));
    }
    let mut done = Vec::new();
    while done.len() < 900 + 2 * DIALS as usize {
        driver.park(None, &mut done);
    }
    driver.submit(Token(9999), Op::CloseListener { listener });
    driver.submit(Token(10_000), Op::Accept { listener });
    while done.len() < (ACCEPTS + DIALS) as usize + 2 {
        driver.park(None, &mut done);
    }
    driver.park(Some(Instant(0)), &mut done);
    let tokens: BTreeSet<u64> = done.iter().map(|end| end.token.0).collect();
    assert_eq!((tokens.len(), done.len()), (1522, 1522), "each token once");
    let (mut links, mut cancelled) = (0, 0);
    for end in &done {
        match (&end.result, end.token.0) {
            (Ok(Done::Link(_) | Done::Caller(..)), ..1520) => links += 1,
            (Err(IoError::Cancelled), 100..1000) => cancelled += 1,
            (Err(IoError::Closed), ..1500 | 10_000) | (Ok(Done::Unit), 9999) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!((DIALS..=2 * DIALS).contains(&links), "{links} links");
    assert!(cancelled >= 900 - DIALS, "{cancelled} cancelled");
}

#[test]
fn a_driver_ends_with_operations_in_flight() {
    let folder = folder("drop");
    let path = text(&folder.join("disk"));
    let pool = Pool::default();
    let mut driver = RingDriver::new().unwrap();
    driver.waker();
    let Ok(Done::Disk(disk, _)) = open(&mut driver, &path, Some(16 << 20)) else {
        panic!("a disk")
    };
    let address = Address::Unix(text(&folder.join("socket")));
    let listen = Op::Listen { address, access: Access::default() };
    let Ok(Done::Listener(listener, _)) = call(&mut driver, listen).result else {
        panic!("a listener")
    };
    driver.submit(Token(0), Op::Accept { listener });
    let from: Slice = pool.zeroed(1 << 20).into();
    for at in 0..1200_u64 {
        let (offset, part) = ((at % 16) << 20, from.slice(0..4096 << (at % 4)));
        let durability = Durability::Durable;
        driver.submit(Token(1 + at), Op::Write { disk, offset, from: part, durability });
    }
    driver.park(Some(Instant(0)), &mut Vec::new());
    drop(driver);
    assert!(from.try_unfreeze().is_ok(), "every operation gave its memory back");

    // The lock ended with the driver.
    let mut driver = RingDriver::new().unwrap();
    assert!(open(&mut driver, &path, None).is_ok());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_was_deleted_replaced_or_cut_off_is_noticed() {
    let folder = folder("looked-at");
    let path = folder.join("disk");
    let mut driver = RingDriver::new().unwrap();
    let Ok(Done::Disk(disk, _)) = open(&mut driver, &text(&path), Some(1 << 20)) else {
        panic!("a new file")
    };
    let mut look = || call(&mut driver, Op::LookAtDisk { disk, path: text(&path) }).result;
    assert_eq!(look(), Ok(Done::Size(1 << 20)));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert_eq!(look(), Ok(Done::Size(4096)));
    fs::rename(&path, folder.join("elsewhere")).unwrap();
    assert_eq!(look(), Err(IoError::NotFound));
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    assert_eq!(look(), Err(IoError::NotFound), "another file");
    drop(driver);
    fs::remove_dir_all(&folder).unwrap();
}

/// A lease on a file. Whoever opens the file hangs in the kernel until the lease is given back.
struct Lease(fs::File);

impl Lease {
    fn take(path: &std::path::Path) -> Self {
        let file = fs::OpenOptions::new().read(true).write(true).open(path).expect("a file");
        let is_taken = Self::set(&file, libc::F_WRLCK);
        assert!(is_taken, "no lease: {}", std::io::Error::last_os_error());
        Self(file)
    }

    fn set(file: &fs::File, kind: i32) -> bool {
        // SAFETY: both calls take plain numbers and a descriptor that is open. The kernel asks for
        // the lease back by SIGIO; nobody else in this process uses that signal.
        unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
        }
    }

    fn give_back(self) {
        assert!(Self::set(&self.0, libc::F_UNLCK));
    }
}

/// Parks until `token` has completed. Everything that completes goes to `done`.
fn until(driver: &mut RingDriver, token: u64, done: &mut Vec<Completion>) {
    while !done.iter().any(|end| end.token == Token(token)) {
        driver.park(None, done);
    }
}

#[test]
fn an_open_that_hangs_in_the_kernel_holds_up_its_own_device_alone() {
    let folder = folder("hung-open");
    let (hung, well) = (folder.join("hung"), folder.join("well"));
    let mut driver = RingDriver::new().unwrap();
    for path in [&hung, &well] {
        let Ok(Done::Disk(disk, _)) = open(&mut driver, &text(path), Some(1 << 20)) else {
            panic!("a new file")
        };
        call(&mut driver, Op::CloseDisk { disk }).result.unwrap();
    }
    let options = |path: &PathBuf| OpenDisk { path: text(path), create: None };
    // A lease is given only if nobody else has the file open. So wait until the driver has really
    // closed it.
    let Ok(Done::Disk(disk, _)) = open(&mut driver, &text(&hung), None) else { panic!("a file") };
    call(&mut driver, Op::CloseDisk { disk }).result.unwrap();
    assert!(open(&mut driver, &text(&hung.join("behind")), None).is_err());
    drop(driver);

    let lease = Lease::take(&hung);
    let mut driver = RingDriver::new().unwrap();
    let mut done = Vec::new();
    for token in 1..=3 {
        driver.submit(Token(token), Op::OpenDisk(options(&hung)));
    }
    driver.submit(Token(4), Op::AskHardware { path: text(&hung) });
    // Meanwhile everything else goes on: another device is opened, written, looked at and closed.
    driver.submit(Token(10), Op::OpenDisk(options(&well)));
    until(&mut driver, 10, &mut done);
    let Ok(Done::Disk(disk, _)) = done[0].result else { panic!("the other device opens") };
    let from: Slice = Pool::default().zeroed(4096).into();
    driver.submit(Token(11), Op::Write { disk, offset: 0, from, durability: Durability::Durable });
    driver.submit(Token(12), Op::Discard { disk, offset: 0, bytes: 4096 });
    driver.submit(Token(13), Op::LookAtDisk { disk, path: text(&well) });
    driver.submit(Token(14), Op::CloseDisk { disk });
    driver.submit(Token(15), Op::AskHardware { path: text(&well) });
    (11..=15).for_each(|token| until(&mut driver, token, &mut done));
    assert!(done.iter().all(|end| end.result.is_ok()), "{done:?}");
    assert_eq!(done.len(), 6, "what hangs has not completed");

    // A call that has not begun is cancelled at once. One that has begun brings its device late.
    driver.cancel(Token(1));
    driver.cancel(Token(2));
    until(&mut driver, 2, &mut done);
    assert_eq!((done.len(), &done[6].result), (7, &Err(IoError::Cancelled)));
    lease.give_back();
    until(&mut driver, 4, &mut done);
    let of = |token| done.iter().find(|end| end.token == Token(token)).map(|end| &end.result);
    assert!(matches!(of(1), Some(Ok(Done::Disk(..)))), "{:?}", of(1));
    assert_eq!(of(3), Some(&Err(IoError::Busy)), "in its turn: the first one has it");
    let nothing = Ok(Done::Hardware(Hardware::default()));
    assert_eq!((of(15), of(4)), (Some(&nothing), Some(&nothing)), "a file; behind what hung");
    assert_eq!(done.len(), 10, "each once");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_driver_ends_while_an_open_hangs_and_nobody_gets_the_device() {
    let folder = folder("hung-end");
    let path = folder.join("disk");
    fs::write(&path, vec![0; 4096]).unwrap();
    let lease = Lease::take(&path);
    let mut driver = RingDriver::new().unwrap();
    driver.submit(Token(1), Op::OpenDisk(OpenDisk { path: text(&path), create: None }));
    driver.park(Some(Instant(0)), &mut Vec::new());
    drop(driver);
    lease.give_back();
    // The thread closes the device, as nobody waits for it any more.
    let mut driver = RingDriver::new().unwrap();
    while open(&mut driver, &text(&path), None) == Err(IoError::Busy) {}
    assert!(matches!(open(&mut driver, &text(&path), None), Err(IoError::Busy)), "we have it");
    fs::remove_dir_all(&folder).unwrap();
}
