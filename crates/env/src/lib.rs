// SPDX-License-Identifier: Apache-2.0
//! What product code runs on: an executor, timers, channels and buffers, with the [`Driver`] below
//! them. Product code reaches the operating system through this crate only.
//!
//! The same single-threaded executor runs in both worlds. In the real world its driver is
//! `ring::RingDriver` (io_uring), in the simulated one `sim::SimDriver`. Product code sees one
//! concrete handle, [`Env`], and cannot tell which driver is below it.
#![forbid(unsafe_code)]

mod buf;
pub mod channel;
#[doc(hidden)]
pub mod conformance;
mod driver;
mod executor;
mod io;
mod join;
mod meter;
mod range_lock;
mod reuse;
mod stages;
mod sync;
mod timer;
mod turn;

pub use buf::{Buf, Pool, Slice};
pub use driver::{
    Access, Address, Caller, Completion, DiskId, DiskInfo, Done, Driver, Durability, Hardware,
    IoError, LinkId, ListenerId, Op, OpenDisk, Token,
};
pub use executor::{Boxed, Env, Fifo, LONG_TURN, LongTurns, Schedule, Task, TaskSet};
pub use io::{DISCARD_MAX, Disk, Link, Listener};
pub use join::{Either, join, join_all, select, try_join_at_most};
pub use meter::{IoClass, LOOKS_MAX, Latencies, MEASURED, Meter};
pub use range_lock::{LockMode, LockedRange, RangeLock};
pub use reuse::{Reuse, Reused};
pub use stages::{SAMPLED, StageTimes, WRITE_STAGES, WriteStage};
pub use sync::{Notify, Permit, Semaphore};
pub use timer::{Elapsed, Sleep};
pub use turn::TURN_STEPS_MAX;
