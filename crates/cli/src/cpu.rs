// SPDX-License-Identifier: Apache-2.0
//! How long the threads of shards ran on a processor, as the kernel counts it.
//!
//! A shard is one thread. Threads of this process say which they are; of processes that this one
//! started the shard is the first thread. What helpers do for a shard, as calls to devices that may
//! hang, is not in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where the kernel counts for each shard. There are as many as shards were started here, by name.
static SHARDS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

fn put(shard: &str, file: PathBuf) {
    let mut shards = SHARDS.lock().unwrap_or_else(PoisonError::into_inner);
    shards.insert(shard.to_owned(), file);
}

/// The thread that calls this is a shard from now on.
pub fn this_thread_is(shard: &str) {
    // A name that is good for all threads: `/proc/thread-self` is another one for each.
    if let Ok(own) = std::fs::read_link("/proc/thread-self") {
        put(shard, Path::new("/proc").join(own).join("schedstat"));
    }
}

/// The first thread of a process is a shard.
pub fn process_is(shard: &str, process: u32) {
    put(shard, PathBuf::from(format!("/proc/{process}/task/{process}/schedstat")));
}

/// How long a shard's thread ran since it began. `None`: it was not started here, or the kernel
/// does not count.
pub fn time(shard: &str) -> Option<Duration> {
    let file = SHARDS.lock().unwrap_or_else(PoisonError::into_inner).get(shard)?.clone();
    let text = std::fs::read_to_string(file).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_run() {
        assert_eq!(time("nobody"), None);
        this_thread_is("worker");
        // Where the kernel does not count, nothing is said.
        if !Path::new("/proc/thread-self/schedstat").exists() {
            return;
        }
        let begun = time("worker").expect("it is counted");
        let mut sum = 0_u64;
        while time("worker").expect("it is counted") < begun + Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        process_is("first", std::process::id());
        assert!(time("first").is_some());
    }
}
