// SPDX-License-Identifier: Apache-2.0
//! What can be chosen about a world, and what it counts.

use base::Rng;
use std::time::Duration;

/// How long one kind of operation takes: `base + bytes / rate`, plus up to `jitter`.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The least time of any operation.
    pub base: Duration,
    /// Evenly distributed on top.
    pub jitter: Duration,
    /// Bytes per second of one channel; not zero.
    pub rate: u64,
}

impl Latency {
    /// A latency of `base` and `jitter` microseconds at `rate` bytes per second.
    #[must_use]
    pub const fn micros(base: u64, jitter: u64, rate: u64) -> Self {
        Self { base: Duration::from_micros(base), jitter: Duration::from_micros(jitter), rate }
    }

    /// Nanoseconds for `bytes`; at least 1.
    pub(crate) fn draw(&self, bytes: u64, rng: &mut Rng) -> u64 {
        let transfer = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.max(1));
        let jitter = rng.below(nanos(self.jitter) + 1);
        1 + nanos(self.base) + jitter + u64::try_from(transfer).unwrap_or(u64::MAX / 4)
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// How devices behave.
#[derive(Clone, Debug)]
pub struct DiskModel {
    /// Reads.
    pub read: Latency,
    /// Writes into the device's cache.
    pub write_cached: Latency,
    /// Writes through the cache.
    pub write_durable: Latency,
    /// Flushes; the bytes are those in the cache.
    pub flush: Latency,
    /// Operations that one device works on at once; more wait. At least 1.
    pub channels: usize,
    /// Bytes that the cache holds; beyond, its older half moves to the media.
    pub cache_bytes: u64,
    /// Operations in a million that take `tail_factor` times as long.
    pub tail_ppm: u64,
    /// See `tail_ppm`.
    pub tail_factor: u64,
    /// Bytes that created files may take on one host; `None`: no limit.
    pub disk_space: Option<u64>,
}

impl Default for DiskModel {
    /// A fast flash device with a volatile cache.
    fn default() -> Self {
        Self {
            read: Latency::micros(70, 40, 2_000_000_000),
            write_cached: Latency::micros(15, 15, 2_000_000_000),
            write_durable: Latency::micros(40, 60, 1_500_000_000),
            flush: Latency::micros(300, 400, 4_000_000_000),
            channels: 16,
            cache_bytes: 64 << 20,
            tail_ppm: 1000,
            tail_factor: 20,
            disk_space: None,
        }
    }
}

/// How links behave.
#[derive(Clone, Debug)]
pub struct NetModel {
    /// One way between two hosts, per segment.
    pub remote: Latency,
    /// One way within a host.
    pub local: Latency,
    /// Bytes that a link holds before its sender waits. At least 1.
    pub window: usize,
    /// Receives in a million that bring fewer bytes than there are.
    pub partial_ppm: u64,
    /// Links in a million that are reset when the network heals under waiting data.
    pub heal_reset_ppm: u64,
    /// Waiting data comes this long after the network healed, at most.
    pub heal_delay: Duration,
    /// Pause between two attempts of a dial that nothing answers.
    pub dial_retry: Duration,
    /// A dial that nothing answered for so long ends with `IoError::Reset`.
    pub dial_timeout: Duration,
    /// Callers that one listener lets wait; further ones try again.
    pub backlog_max: usize,
}

impl Default for NetModel {
    /// A 25 Gbit/s network in one rack.
    fn default() -> Self {
        Self {
            remote: Latency::micros(25, 25, 3_000_000_000),
            local: Latency::micros(5, 10, 8_000_000_000),
            window: 256 << 10,
            partial_ppm: 200_000,
            heal_reset_ppm: 300_000,
            heal_delay: Duration::from_millis(400),
            dial_retry: Duration::from_secs(1),
            dial_timeout: Duration::from_secs(120),
            backlog_max: 128,
        }
    }
}

/// What a crash does.
#[derive(Clone, Debug)]
pub struct CrashModel {
    /// Unflushed writes in a million that are lost.
    pub lost_ppm: u64,
    /// Of those not lost, how many in a million are torn.
    pub torn_ppm: u64,
    /// Crashes in a million that treat all unflushed writes alike (all kept or all lost).
    pub uniform_ppm: u64,
    /// Links in a million whose peer sees a reset after a crash; the others go silent.
    pub reset_ppm: u64,
    /// That reset comes within this time.
    pub reset_delay: Duration,
    /// Dials to a dead machine, in a million, that end with an error soon instead of hanging.
    pub dial_error_ppm: u64,
}

impl Default for CrashModel {
    fn default() -> Self {
        Self {
            lost_ppm: 400_000,
            torn_ppm: 400_000,
            uniform_ppm: 300_000,
            reset_ppm: 500_000,
            reset_delay: Duration::from_millis(500),
            dial_error_ppm: 300_000,
        }
    }
}

/// How often the code under test turns a [`base::Quirk`] on itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuirkModel {
    /// Quirks in a million that this world has at all.
    pub armed_ppm: u64,
    /// Of the times an armed one is asked for, how many in a million it happens.
    pub fire_ppm: u64,
}

/// Everything that can be chosen about a world.
#[derive(Clone, Debug, Default)]
pub struct WorldOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Devices.
    pub disk: DiskModel,
    /// Links.
    pub net: NetModel,
    /// Power loss.
    pub crash: CrashModel,
    /// Rare paths made common.
    pub quirks: QuirkModel,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorldStats {
    /// Events of the world's queue.
    pub events: u64,
    /// Turns of any host.
    pub turns: u64,
    /// Disk reads completed.
    pub reads: u64,
    /// Disk writes completed.
    pub writes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Calls that ended late.
    pub late_calls: u64,
    /// Bytes written to disks.
    pub bytes_written: u64,
    /// Sends accepted.
    pub sends: u64,
    /// Bytes of those.
    pub bytes_sent: u64,
    /// Links that came about.
    pub links: u64,
    /// Link ends that saw a reset.
    pub resets: u64,
    /// Power losses.
    pub crashes: u64,
    /// Killed processes.
    pub kills: u64,
    /// Unflushed writes that survived a crash whole.
    pub writes_kept: u64,
    /// Unflushed writes that a crash lost.
    pub writes_lost: u64,
    /// Unflushed writes of which a crash left some sectors.
    pub writes_torn: u64,
}
