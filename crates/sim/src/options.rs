// SPDX-License-Identifier: Apache-2.0
//! What can be chosen about a world, and what a world counts.

use base::Rng;
use std::time::Duration;

/// How long one kind of operation takes: `base + bytes / rate`, and up to `jitter` more.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The least time that an operation takes.
    pub base: Duration,
    /// The most that chance adds. Each amount up to it is equally likely.
    pub jitter: Duration,
    /// Bytes per second of one channel. Not zero.
    pub rate: u64,
}

impl Latency {
    /// A latency of `base` and `jitter` microseconds at `rate` bytes per second.
    #[must_use]
    pub const fn micros(base: u64, jitter: u64, rate: u64) -> Self {
        Self { base: Duration::from_micros(base), jitter: Duration::from_micros(jitter), rate }
    }

    /// Draws the time for `bytes`, in nanoseconds; at least 1.
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
    /// Writes into the device's cache. A discard takes as long as such a write of 4 KiB.
    pub write_cached: Latency,
    /// Durable writes, past the device's cache.
    pub write_durable: Latency,
    /// Flushes. They take time for every byte in the cache.
    pub flush: Latency,
    /// Operations that one device works on at once; further ones wait. At least 1.
    pub channels: usize,
    /// Bytes that the cache holds. When there are more, the older half of the writes in the cache
    /// moves to the media.
    pub cache_bytes: u64,
    /// Operations in a million that take `tail_factor` times as long.
    pub tail_ppm: u64,
    /// How many times as long those operations take.
    pub tail_factor: u64,
    /// Bytes that all created files of one host may take together; `None`: no limit.
    pub disk_space: Option<u64>,
    /// How far devices use the freedom that their contract leaves them.
    pub freedom: DiskFreedom,
}

/// How far devices use the freedom that their contract leaves them. By default they use little: an
/// operation takes effect all at once, when it ends. Devices that follow a model of their own
/// ([`crate::World::behave_as`]) always behave so.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFreedom {
    /// Reads, writes and discards take effect in parts of whole sectors. Each part does so at a
    /// moment of its own between submission and end.
    pub is_loose: bool,
    /// Flushes and discards in a million that take longer by half of `long_max` to all of it.
    pub long_ppm: u64,
    /// The most that such a flush or discard takes longer.
    pub long_max: Duration,
}

impl DiskFreedom {
    /// How much longer a flush or discard takes, nanoseconds.
    pub(crate) fn lateness(&self, rng: &mut Rng) -> u64 {
        if self.long_ppm == 0 || !rng.chance_ppm(self.long_ppm) {
            return 0;
        }
        let most = nanos(self.long_max);
        rng.between(most / 2, most)
    }
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
            freedom: DiskFreedom::default(),
        }
    }
}

/// How links behave.
#[derive(Clone, Debug)]
pub struct NetModel {
    /// The way of a segment from one host to another.
    pub remote: Latency,
    /// The way of a segment within a host.
    pub local: Latency,
    /// Bytes that a link holds in one direction before its sender waits. At least 1.
    pub window: usize,
    /// Receives in a million that may bring fewer bytes than have arrived.
    pub partial_ppm: u64,
    /// Of the links on which data waits when the network heals, how many in a million are reset.
    pub heal_reset_ppm: u64,
    /// On the other links the waiting data arrives at most this long after the network healed.
    pub heal_delay: Duration,
    /// The pause between two attempts of a dial that nothing answers, and up to a quarter more.
    pub dial_retry: Duration,
    /// A dial that nothing answers for so long ends with `IoError::Reset`.
    pub dial_timeout: Duration,
    /// Callers that wait for one listener's accepts. Further ones dial again. At least 1.
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

/// What a power loss does.
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
    /// The peer sees that reset within this time, and the time of the way.
    pub reset_delay: Duration,
    /// Dials in a million that find a dead machine and end with an error soon. The others hang.
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

/// How often the code under test is told to take a rare path ([`base::Quirk`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct QuirkModel {
    /// Quirks in a million that are armed: that can happen in this world at all.
    pub armed_ppm: u64,
    /// When the code asks for an armed quirk, it happens so many times in a million.
    pub fire_ppm: u64,
}

/// Everything that can be chosen about a world.
#[derive(Clone, Debug, Default)]
pub struct WorldOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How devices behave.
    pub disk: DiskModel,
    /// How links behave.
    pub net: NetModel,
    /// What a power loss does.
    pub crash: CrashModel,
    /// How often rare paths are taken without need.
    pub quirks: QuirkModel,
}

/// Counts of what happened in a world so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorldStats {
    /// Events of the world's queue that came.
    pub events: u64,
    /// Turns of all hosts.
    pub turns: u64,
    /// Disk reads that ended, with or without success.
    pub reads: u64,
    /// Disk writes that succeeded and were not silently lost.
    pub writes: u64,
    /// Flushes that ended, with or without success.
    pub flushes: u64,
    /// Late calls that ended, other than discards.
    pub late_calls: u64,
    /// Bytes of the disk writes that are counted.
    pub bytes_written: u64,
    /// Sends that were submitted on open links.
    pub sends: u64,
    /// Bytes of the sends that are counted.
    pub bytes_sent: u64,
    /// Links that were connected.
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
