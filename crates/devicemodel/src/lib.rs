// SPDX-License-Identifier: Apache-2.0
//! How long devices take that tests and benchmarks have no specimen of, by pure arithmetic.
//!
//! A model is told what is asked of a device and when. It says when each operation ends. It moves
//! no byte, draws no random number and reads no clock: equal operations at equal times end at
//! equal times. The simulator decides by it, and [`SlowedDriver`] holds the answers of a real file
//! back by it.
//!
//! **Units**: offsets and lengths are bytes. Times are nanoseconds on whatever clock the caller
//! has. A magnetic disk's platter turns by that clock; otherwise only differences count.
//!
//! **Figures**: a magnetic disk has those that such drives commonly have. They stand with the
//! constants: 7200 rpm, 8 ms from seek and half a turn, 150 MB/s, and 32 requests to choose from,
//! the depth of NCQ. No single product was measured. A late device has the two figures that its
//! user gives.
//!
//! **Left out**: caches, zones, errors and retries, wear, garbage collection of flash, discards,
//! and the time that opening and closing take.
#![forbid(unsafe_code)]

mod late;
mod magnetic;
mod model;
mod op;
mod slowed;

pub use model::{DeviceModel, RunningModel};
pub use op::DeviceOp;
pub use slowed::SlowedDriver;
