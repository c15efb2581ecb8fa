// SPDX-License-Identifier: Apache-2.0
//! What the tests share: a device in memory, a world to run in.
#![allow(dead_code, reason = "every test takes another part")]
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

pub mod memory;
pub mod world;
