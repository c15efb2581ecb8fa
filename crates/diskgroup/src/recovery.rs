// SPDX-License-Identifier: Apache-2.0
//! Opening a group: its devices, the chunk map and its journal, the log, and what is in doubt.

mod capacity;
mod opening;
mod replay;
mod settle;

pub(crate) use opening::open;
pub(crate) use replay::payload_is_whole;
