// SPDX-License-Identifier: Apache-2.0
//! What one seed runs: sizes, load and faults, all drawn from the seed (swarm testing: each run has
//! some kinds of faults and not others, so that rare mixtures are reached).

use base::Rng;
use std::time::Duration;

/// Everything that a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed that decides all.
    pub seed: u64,
    /// Data hosts.
    pub hosts: u32,
    /// Size of the volume, sectors.
    pub sectors: u64,
    /// Failures to tolerate.
    pub ftt: u8,
    /// Clients per host.
    pub clients: u32,
    /// Longest pause of a client between two operations: a slow load leaves the traces of a fault
    /// in place, a fast one meets faults more often.
    pub pause_max: Duration,
    /// Steps of the fault injector; each lasts up to `step_max`.
    pub steps: u32,
    /// Longest time between two faults.
    pub step_max: Duration,
    /// Weights of the faults, in the order of [`Fault`].
    pub weights: [u64; Fault::ALL.len()],
    /// Size of a segment of the write buffer, bytes: holds the largest append.
    pub segment_size: u64,
    /// Size of each cache device, bytes.
    pub cache_size: u64,
    /// Size of each capacity device, bytes.
    pub capacity_size: u64,
    /// Clock drift of each host, parts per million, within the protocol's bound.
    pub drift_ppm: Vec<i64>,
}

/// What may happen to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Power loss of a host.
    Crash,
    /// `kill -9` of a host's process.
    Kill,
    /// Power loss of every host at once.
    CrashAll,
    /// A host that is down starts again.
    Boot,
    /// Two hosts stop hearing each other.
    Partition,
    /// A host stops hearing another one, but not the other way round.
    OneWay,
    /// A host stops hearing everybody, the directory included.
    Isolate,
    /// All connections between two hosts are reset.
    Reset,
    /// Everybody hears everybody again.
    Heal,
    /// A process stops for a while and comes back.
    Pause,
    /// The directory's process is killed; it comes back by `Boot`.
    DirectoryAway,
    /// Nothing but time.
    Calm,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Crash,
        Self::Kill,
        Self::CrashAll,
        Self::Boot,
        Self::Partition,
        Self::OneWay,
        Self::Isolate,
        Self::Reset,
        Self::Heal,
        Self::Pause,
        Self::DirectoryAway,
        Self::Calm,
    ];
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, 1);
        let mut weights = [0; Fault::ALL.len()];
        for (fault, weight) in Fault::ALL.iter().zip(&mut weights) {
            *weight = match fault {
                Fault::Boot => 8,
                Fault::Heal => 5,
                Fault::Calm => 2,
                Fault::CrashAll | Fault::DirectoryAway => rng.below(2),
                _ if rng.below(3) == 0 => 0,
                _ => 1 + rng.below(4),
            };
        }
        let hosts = 3;
        Self {
            seed,
            hosts,
            sectors: 512 << rng.below(7),
            ftt: if rng.below(8) == 0 { 0 } else { 1 },
            clients: 1 + u32::try_from(rng.below(6)).unwrap_or(0),
            pause_max: Duration::from_millis(2 << rng.below(8)),
            steps: 20 + u32::try_from(rng.below(40)).unwrap_or(0),
            step_max: Duration::from_millis(100 << rng.below(6)),
            weights,
            segment_size: 2 << 20,
            cache_size: (20 + rng.below(30)) << 20,
            capacity_size: 256 << 20,
            drift_ppm: (0..hosts).map(|_| rng.between(0, 1000) as i64 - 500).collect(),
        }
    }

    /// Draws the next fault.
    #[must_use]
    pub fn draw(&self, rng: &mut Rng) -> Fault {
        let total: u64 = self.weights.iter().sum();
        let mut at = rng.below(total.max(1));
        for (fault, weight) in Fault::ALL.iter().zip(self.weights) {
            if at < weight {
                return *fault;
            }
            at -= weight;
        }
        Fault::Calm
    }
}
