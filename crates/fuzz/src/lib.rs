// SPDX-License-Identifier: Apache-2.0
//! Fuzzing of everything that reads bytes from outside, on the stable toolchain.
//!
//! A *target* is a function of bytes that panics where a promise is broken. [`targets`] makes a
//! test of it: first its corpus (`corpus/<target>/`), then fresh inputs, some of them arbitrary,
//! most a seed with a few changes ([`derive`]). Seeds are the golden files of the formats and the
//! corpus. The targets are in `tests/fuzz`, one file per subject.
//!
//! Guarantees: a failing input is kept in a file of its own and can be run again alone; an input
//! that runs for longer than [`HANG_AFTER`] ends the process and is kept too. Non-guarantees:
//! coverage does not guide anything on the stable toolchain; the same targets run under libFuzzer
//! where a nightly one is at hand (`docs/decisions/2026-11-21-fuzzing.md`).
#![forbid(unsafe_code)]

mod harness;
mod mutate;
mod source;

#[doc(hidden)]
pub use bolero;
pub use harness::{FuzzSession, FuzzTarget, HANG_AFTER, bounded, within};
pub use mutate::derive;
pub use source::Source;
