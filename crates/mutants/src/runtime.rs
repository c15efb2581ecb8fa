// SPDX-License-Identifier: Apache-2.0
//! What the changed code asks. This file goes into crate `base` of the copy; the tree itself
//! contains none of it.
//!
//! One mutant is active in a process: the number in `GABION_MUTANT`. With `record` there instead,
//! none is active, and the number of each mutant that is asked for goes, once, into the file that
//! `GABION_MUTANT_RECORD` names.
#![allow(clippy::disallowed_methods, reason = "this is in no product")]

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nobody has asked yet.
const UNREAD: u32 = u32::MAX;
const RECORD: u32 = u32::MAX - 1;
/// Numbers that can be recorded; those above are not.
const RECORDED_MAX: usize = 1 << 17;

static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static SEEN: [AtomicU64; RECORDED_MAX / 64] = [const { AtomicU64::new(0) }; RECORDED_MAX / 64];
static FILE: OnceLock<Option<File>> = OnceLock::new();

/// Whether mutant `number` is active.
#[inline]
pub fn is(number: u32) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    if active < RECORD { active == number } else { is_slowly(number) }
}

/// `value`, unless the mutant that makes it true or the one that makes it false is active.
#[inline]
pub fn cond(always: u32, never: u32, value: bool) -> bool {
    let (always, never) = (is(always), is(never));
    always || (!never && value)
}

#[cold]
fn is_slowly(number: u32) -> bool {
    if ACTIVE.load(Ordering::Relaxed) == UNREAD {
        let asked = std::env::var("GABION_MUTANT").unwrap_or_default();
        let active = if asked == "record" { RECORD } else { asked.parse().unwrap_or(0) };
        ACTIVE.store(active, Ordering::Relaxed);
        return is(number);
    }
    let bit = 1_u64 << (number % 64);
    let place = usize::try_from(number / 64).unwrap_or(usize::MAX);
    let word = SEEN.get(place);
    if word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0) {
        record(number);
    }
    false
}

fn record(number: u32) {
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("GABION_MUTANT_RECORD")?;
        File::options().create(true).append(true).open(path).ok()
    });
    if let Some(mut file) = file.as_ref() {
        let _ = file.write_all(format!("{number}\n").as_bytes());
    }
}
