// SPDX-License-Identifier: Apache-2.0
//! The real world's [`Driver`]: io_uring for devices and sockets, and the machine's clocks.
//!
//! Guarantees:
//! - In steady state a read, write, send or receive costs no allocation and no system call of its
//!   own. One `io_uring_enter` per park carries all submissions and waits for completions.
//! - Every buffer belongs to its operation until the kernel has completed it, also when the driver
//!   is dropped.
//! - A descriptor is closed only when no operation in flight names it.
//! - Helper threads make the calls that may hang: opening, closing and looking at devices, and
//!   discarding on block devices. So a device that hangs holds up its own calls only.
//!
//! Limits: listening, and making and closing sockets, are synchronous system calls. A driver
//! belongs to the thread that made it. It needs Linux 6.1 or later.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(unsafe_code)]

mod disks;
mod errors;
mod files;
mod hardware;
mod helpers;
mod sockets;
mod waker;
mod work;

use crate::disks::Opened;
use crate::files::{Files, Kind};
use crate::helpers::{HelperAnswer, HelperCall, Helpers};
use crate::work::{Flight, Flights, Step, Work};
use base::{Instant, WallTime};
use env::{
    Access, Address, Completion, DiskId, Done, Driver, IoError, LinkId, ListenerId, Op, Token,
};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub use errors::RingError;
pub use hardware::block_device;
pub use waker::RingWaker;

/// Submissions that one `io_uring_enter` can carry. Further ones wait in the backlog for the next.
const SUBMISSIONS_MAX: u32 = 512;
/// Completions that the shared queue holds. The kernel keeps those that do not fit.
const COMPLETIONS_MAX: u32 = 4 * SUBMISSIONS_MAX;
/// When the driver is dropped, it asks the kernel to end what is in flight, again and again. This
/// is the wait in between.
const DRAIN_WAIT: Duration = Duration::from_millis(100);
/// The longest wait for helper threads when the driver is dropped. A call that still hangs then
/// keeps its thread and its device.
const HELPERS_WAIT: Duration = Duration::from_secs(5);
/// The most threads that the kernel uses for operations that would block, such as flushes and holes
/// in files. The kernel's own limit is four per CPU. One disk group on a file system that hangs
/// could take all of those; of so many, some are left for the others.
const WORKERS_MAX: u32 = 128;
/// The name of cancel requests, whose own completions mean nothing. No flight is named like this,
/// [`ALARM`] or [`ALARM_MOVED`]: its place would be one of the last of 2^32.
const IGNORED: u64 = u64::MAX;
/// The name of the alarm. Its completion means that the alarm has rung.
const ALARM: u64 = u64::MAX - 1;
/// The name of the request that moves the alarm to another time.
const ALARM_MOVED: u64 = u64::MAX - 2;

enum Queued {
    /// Start the flight of this name.
    Start(u64),
    /// Ask for an early end of the flight of this name.
    Cancel(u64),
}

enum Wait {
    No,
    Forever,
    For(Duration),
}

/// The one timer in the kernel. It rings once, at an absolute time, and stays set from park to
/// park. So a park needs no timer of its own. It does no harm if the alarm rings too early.
struct Alarm {
    /// When the alarm rings; `None` if it is not set.
    at: Option<Instant>,
    /// The time in the form that the kernel reads when it takes the queue entry.
    time: Box<types::Timespec>,
}

/// The driver of one shard, with its io_uring.
pub struct RingDriver {
    ring: IoUring,
    flights: Flights,
    files: Files,
    helpers: Helpers,
    backlog: VecDeque<Queued>,
    ready: Vec<Completion>,
    harvest: Vec<(u64, i32)>,
    event: Arc<OwnedFd>,
    is_event_armed: bool,
    alarm: Alarm,
}

impl RingDriver {
    /// A driver for the calling thread.
    ///
    /// # Errors
    /// [`RingError`] if the kernel gives no ring or no eventfd.
    pub fn new() -> Result<Self, RingError> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS_MAX)
            .build(SUBMISSIONS_MAX)
            .map_err(|source| RingError::Setup { source })?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            let source = io::Error::from_raw_os_error(libc::ENOSYS);
            return Err(RingError::Setup { source });
        }
        // If the kernel refuses, its own limit stays.
        let _ = ring.submitter().register_iowq_max_workers(&mut [WORKERS_MAX, 0]);
        let event = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| RingError::Event { source: error.into() })?;
        Ok(Self {
            ring,
            flights: Flights::default(),
            files: Files::default(),
            helpers: Helpers::default(),
            backlog: VecDeque::new(),
            ready: Vec::new(),
            harvest: Vec::new(),
            event: Arc::new(event),
            is_event_armed: false,
            alarm: Alarm { at: None, time: Box::new(types::Timespec::new()) },
        })
    }

    /// A handle by which another thread ends this driver's parks.
    pub fn waker(&mut self) -> RingWaker {
        if !self.is_event_armed {
            self.is_event_armed = true;
            self.launch(Token(0), self.event.as_raw_fd(), Work::Wake { count: Box::new(0) });
        }
        RingWaker(Arc::clone(&self.event))
    }

    fn finish(&mut self, token: Token, result: Result<Done, IoError>) {
        self.ready.push(Completion { token, result, buf: None });
    }

    fn launch(&mut self, token: Token, fd: i32, work: Work) {
        let name = self.flights.insert(Flight::new(token, fd, work));
        self.enqueue(Queued::Start(name));
    }

    /// Starts work on an open file, or fails it if the file is closed.
    fn launch_on_file(&mut self, token: Token, work: Work) {
        let Some(file) = work.file() else { unreachable!("work on a file names it") };
        match self.files.enter(file) {
            Ok(fd) => self.launch(token, fd, work),
            Err(error) => {
                self.ready.push(Completion { token, result: Err(error), buf: work.into_buf() });
            }
        }
    }

    /// Puts an item on the submission queue, behind whatever waits already.
    fn enqueue(&mut self, item: Queued) {
        if !self.backlog.is_empty() || !self.push(&item) {
            self.backlog.push_back(item);
        }
    }

    fn push(&mut self, item: &Queued) -> bool {
        let entry = match item {
            Queued::Start(name) => {
                let flight = self.flights.get(*name);
                flight.work.entry(flight.fd).user_data(*name)
            }
            Queued::Cancel(name) => opcode::AsyncCancel::new(*name).build().user_data(IGNORED),
        };
        self.push_entry(&entry)
    }

    fn push_entry(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: every pointer in the entry names memory that its `Flight` owns on the heap. The
        // flight stays in `flights` until its completion has been harvested (`complete`), and the
        // driver's drop waits for all of them, or leaks them. The alarm's time lives as long as
        // the driver; the kernel reads it while it takes the entry. A descriptor stays open as
        // long: `Files` counts it, or the flight or the driver owns it.
        unsafe { self.ring.submission().push(entry).is_ok() }
    }

    fn fill(&mut self) {
        while let Some(item) = self.backlog.pop_front() {
            if !self.push(&item) {
                self.backlog.push_front(item);
                return;
            }
        }
    }

    /// Lets a helper thread make a call that somebody waits for.
    fn call(&mut self, token: Token, path: &str, call: HelperCall) {
        let waker = self.waker();
        if !self.helpers.submit(path, token, &waker, call) {
            self.finish(token, Err(IoError::Overloaded));
        }
    }

    /// Lets helper threads close the devices that no operation names any more.
    fn retire(&mut self) {
        while let Some(retired) = self.files.next_retired() {
            self.close_aside(&retired.path, retired.fd);
        }
    }

    fn close_aside(&mut self, path: &str, fd: impl Send + 'static) {
        let waker = self.waker();
        let close = move || {
            drop(fd);
            HelperAnswer::Unit(Ok(()))
        };
        self.helpers.submit_detached(path, &waker, Box::new(close));
    }

    fn opened(&mut self, opened: Opened) -> Result<Done, IoError> {
        let Opened { fd, kind, info, path } = opened;
        let id = self.files.insert_disk(fd, kind, &path)?;
        Ok(Done::Disk(DiskId(id), info))
    }

    /// Takes in the answers of helper threads.
    fn take_answers(&mut self, done: &mut Vec<Completion>) {
        if self.helpers.is_idle() {
            return;
        }
        let waker = self.waker();
        while let Some((token, answer)) = self.helpers.next(&waker) {
            let result = match answer {
                HelperAnswer::Opened(opened) => opened.and_then(|opened| self.opened(opened)),
                HelperAnswer::Size(size) => size.map(Done::Size),
                HelperAnswer::Hardware(hardware) => Ok(Done::Hardware(hardware)),
                HelperAnswer::Unit(result) => result.map(|()| Done::Unit),
            };
            done.extend(token.map(|token| Completion { token, result, buf: None }));
        }
    }

    fn listen(&mut self, address: &Address, access: Access) -> Result<Done, IoError> {
        let (fd, real, socket_file) = sockets::listen(address, access)?;
        let id = self.files.insert(fd, Kind::Listener(socket_file))?;
        Ok(Done::Listener(ListenerId(id), real))
    }

    fn dial(&mut self, token: Token, address: &Address) {
        match sockets::dialler(address) {
            Ok((socket, to)) => {
                let fd = socket.as_raw_fd();
                self.launch(token, fd, Work::Dial { socket: Some(socket), to: Box::new(to) });
            }
            Err(error) => self.finish(token, Err(error)),
        }
    }

    fn discard(&mut self, token: Token, disk: u32, offset: u64, bytes: u64) {
        assert!(bytes > 0, "an empty discard");
        if !self.files.is_block_device(disk) {
            return self.launch_on_file(token, Work::Discard { disk, offset, bytes });
        }
        match self.files.share(disk) {
            Ok((fd, lane)) => {
                let call = move || HelperAnswer::Unit(disks::discard_device(&fd, offset, bytes));
                self.call(token, &lane, Box::new(call));
            }
            Err(error) => self.finish(token, Err(error)),
        }
    }

    fn enter(&mut self, wait: &Wait) {
        let submitter = self.ring.submitter();
        let result = match wait {
            Wait::No => submitter.submit_and_wait(0),
            Wait::Forever => submitter.submit_and_wait(1),
            Wait::For(duration) => {
                let timespec = types::Timespec::from(*duration);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&timespec))
            }
        };
        let Err(error) = result else { return };
        match error.raw_os_error() {
            // Time is up, a signal came, or the kernel wants us to take completions first, or has
            // no memory. What was not submitted stays in the queue for the next call.
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
            _ => unreachable!("the kernel refuses the ring: {error}"),
        }
    }

    fn collect(&mut self, done: &mut Vec<Completion>) {
        let mut harvest = std::mem::take(&mut self.harvest);
        harvest.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (name, result) in harvest.drain(..) {
            match name {
                IGNORED => {}
                // The alarm has rung, or could not be moved because it has. If it could be moved,
                // there is no completion.
                ALARM | ALARM_MOVED => self.alarm.at = None,
                _ => self.complete(name, result, done),
            }
        }
        self.harvest = harvest;
    }

    fn complete(&mut self, name: u64, result: i32, done: &mut Vec<Completion>) {
        let step = self.flights.get(name).step(result);
        if let Step::Again = step {
            return self.enqueue(Queued::Start(name));
        }
        let flight = self.flights.remove(name);
        let is_closed = match flight.work.file() {
            Some(file) => {
                let is_closing = self.files.leave(file);
                if is_closing {
                    self.retire();
                }
                is_closing && flight.work.ends_with_file()
            }
            None => false,
        };
        if let Work::Wake { .. } = flight.work {
            return; // cancelled by the drop
        }
        let result = match step {
            _ if is_closed => Err(IoError::Closed),
            Step::Connected(fd) => {
                self.files.insert(fd, Kind::Link).map(|id| Done::Link(LinkId(id)))
            }
            Step::Accepted(fd) => {
                let caller = sockets::caller(&fd);
                self.files.insert(fd, Kind::Link).map(|id| Done::Caller(LinkId(id), caller))
            }
            Step::Over(result) => result,
            Step::Again => unreachable!("handled above"),
        };
        done.push(Completion { token: flight.token, result, buf: flight.work.into_buf() });
    }

    fn wait_until(&mut self, until: Option<Instant>) -> Wait {
        match until {
            None => Wait::Forever,
            Some(Instant(0)) => Wait::No,
            Some(until) => match until.since(self.now()) {
                Duration::ZERO => Wait::No,
                _ if self.set_alarm(until) => Wait::Forever,
                duration => Wait::For(duration),
            },
        }
    }

    /// Sets the alarm so that a wait ends by `until`, a time to come. False if the queue has no
    /// room for the request.
    fn set_alarm(&mut self, until: Instant) -> bool {
        if self.alarm.at.is_some_and(|at| at <= until) {
            return true;
        }
        *self.alarm.time = types::Timespec::from(Duration::from_nanos(until.0));
        let time: *const types::Timespec = &*self.alarm.time;
        let flags = types::TimeoutFlags::ABS | types::TimeoutFlags::BOOTTIME;
        let entry = match self.alarm.at {
            None => opcode::Timeout::new(time).flags(flags).build().user_data(ALARM),
            // If the alarm has just rung, it cannot be moved. Its completion ends the wait then.
            Some(_) => {
                // The alarm keeps the clock that it was set by. The kernel refuses a request that
                // names the clock again.
                let flags = types::TimeoutFlags::ABS;
                let entry = opcode::TimeoutUpdate::new(ALARM, time).flags(flags).build();
                entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(ALARM_MOVED)
            }
        };
        let is_set = self.push_entry(&entry);
        if is_set {
            self.alarm.at = Some(until);
        }
        is_set
    }

    fn needs_enter(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Ends everything in flight. Disk transfers cannot be cancelled, so this waits for them.
    fn drain(&mut self) {
        self.backlog.retain(|item| match item {
            Queued::Start(name) => {
                let flight = self.flights.remove(*name); // never reached the kernel
                if let Some(file) = flight.work.file() {
                    self.files.leave(file);
                }
                false
            }
            Queued::Cancel(_) => false,
        });
        self.files.close_all();
        let mut done = Vec::new();
        while self.flights.len() > 0 {
            self.fill();
            let entry = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
            let _ = self.push_entry(&entry.user_data(IGNORED)); // a full queue: next time
            self.enter(&Wait::For(DRAIN_WAIT));
            self.collect(&mut done);
            done.clear();
        }
        self.retire();
        let waker = RingWaker(Arc::clone(&self.event));
        self.helpers.drain(&waker, HELPERS_WAIT);
    }
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, rest) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

impl Driver for RingDriver {
    fn now(&self) -> Instant {
        Instant(nanos(ClockId::Boottime))
    }

    fn coarse(&self) -> Instant {
        Instant(nanos(ClockId::MonotonicCoarse))
    }

    fn wall(&self) -> WallTime {
        WallTime(nanos(ClockId::Realtime))
    }

    fn entropy(&mut self) -> u64 {
        let mut bytes = [0_u8; 8];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(count) if count == bytes.len() => u64::from_le_bytes(bytes),
            // The kernel has this call since 3.17. Only a filter can refuse it.
            other => unreachable!("getrandom refused: {other:?}"),
        }
    }

    fn submit(&mut self, token: Token, op: Op) {
        match op {
            Op::OpenDisk(options) => {
                let lane = options.path.clone();
                let call = move || HelperAnswer::Opened(disks::open(options));
                self.call(token, &lane, Box::new(call));
            }
            Op::Read { disk, offset, into, at } => {
                let work = Work::Read { disk: disk.0, offset, into, at, done: 0 };
                self.launch_on_file(token, work);
            }
            Op::Write { disk, offset, from, durability } => {
                let work = Work::Write { disk: disk.0, offset, from, done: 0, durability };
                self.launch_on_file(token, work);
            }
            Op::Flush { disk } => self.launch_on_file(token, Work::Flush { disk: disk.0 }),
            Op::Discard { disk, offset, bytes } => self.discard(token, disk.0, offset, bytes),
            Op::Listen { address, access } => {
                let result = self.listen(&address, access);
                self.finish(token, result);
            }
            Op::Accept { listener } => {
                self.launch_on_file(token, Work::Accept { listener: listener.0 });
            }
            Op::Dial { address } => self.dial(token, &address),
            Op::Send { link, from } => {
                self.launch_on_file(token, Work::Send { link: link.0, from, done: 0 });
            }
            Op::Recv { link, into, at } => {
                self.launch_on_file(token, Work::Recv { link: link.0, into, at });
            }
            Op::LookAtDisk { disk, path } => self.look(token, disk.0, path),
            Op::AskHardware { path } => {
                let lane = path.clone();
                self.call(token, &lane, Box::new(move || hardware::ask(&path)));
            }
            Op::CloseDisk { disk: DiskId(id) }
            | Op::Close { link: LinkId(id) }
            | Op::CloseListener { listener: ListenerId(id) } => {
                self.files.close(id);
                self.retire();
                self.finish(token, Ok(Done::Unit));
            }
        }
    }

    fn cancel(&mut self, token: Token) {
        if self.helpers.cancel(token) {
            return self.finish(token, Err(IoError::Cancelled));
        }
        let Some(name) = self.flights.find(token) else { return };
        let flight = self.flights.get(name);
        if !flight.is_cancelled {
            flight.is_cancelled = true;
            self.enqueue(Queued::Cancel(name));
        }
    }

    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
        self.take_answers(done);
        self.fill();
        while !self.backlog.is_empty() {
            self.enter(&Wait::No);
            self.collect(done);
            self.fill();
        }
        let wait = if done.is_empty() { self.wait_until(until) } else { Wait::No };
        if !matches!(wait, Wait::No) || self.needs_enter() {
            self.enter(&wait);
        }
        self.collect(done);
        self.take_answers(done);
    }
}

impl Drop for RingDriver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A panic does not wait. The kernel may still write into buffers in flight, so they
            // must not be freed.
            self.flights.leak();
            return;
        }
        self.drain();
    }
}
