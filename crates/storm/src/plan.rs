// SPDX-License-Identifier: Apache-2.0
//! What one seed runs: sizes, load and faults, all drawn from the seed (swarm testing: each run has
//! some kinds of faults and not others, so that rare mixtures are reached).

use base::Rng;
use directory::ServerFaults;
use std::fmt;
use std::str::FromStr;
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
    /// What the clients do.
    pub load: Load,
    /// Load under faults, then healed and checked, one after the other.
    pub rounds: Vec<Round>,
    /// Steps of the random fault injector in one round; each lasts up to `step_max`.
    pub steps: u32,
    /// Longest time between two random faults.
    pub step_max: Duration,
    /// Weights of the random faults, in the order of [`Fault`].
    pub weights: [u64; Fault::ALL.len()],
    /// Size of a segment of the write buffer, bytes: holds the largest append.
    pub segment_size: u64,
    /// Size of each cache device, bytes.
    pub cache_size: u64,
    /// Size of each capacity device, bytes.
    pub capacity_size: u64,
    /// Clock drift of each host, parts per million, within the protocol's bound.
    pub drift_ppm: Vec<i64>,
    /// What goes wrong between the directory and those who ask it.
    pub directory: ServerFaults,
}

/// What the clients of each host do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients that write and read.
    pub writers: u32,
    /// Clients that only read.
    pub readers: u32,
    /// Longest pause of a client between two operations: a slow load leaves the traces of a fault
    /// in place, a fast one meets faults more often.
    pub pause_max: Duration,
    /// How many operations in a hundred meet in the hot region.
    pub hot_percent: u64,
    /// Size of the hot region at the volume's beginning, sectors.
    pub hot_sectors: u64,
}

/// One round of a run.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// What goes wrong.
    pub story: Story,
    /// Whether the load ends with the decisive fault, so that nothing overwrites its traces.
    pub is_quiet: bool,
}

/// What goes wrong in a round. `script.rs` tells each story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// Random faults at random moments.
    Random,
    /// The owner's way to a replica is cut, and it dies before it learns so.
    Severed,
    /// The owner hears nobody while its clients go on, and comes back.
    Isolated,
    /// The owner loses the directory first and everybody else later.
    LateIsolation,
    /// The owner loses the directory and one replica, and keeps the other.
    HalfBlind,
    /// Something fails in the moment in which a replica becomes active again.
    JoinFault,
    /// Something fails in the middle of a resync.
    ResyncFault,
    /// A replica comes and goes.
    Flaps,
    /// An owner that was succeeded meets a replica that has just restarted.
    OldOwner,
    /// A replica's device holds writes back while its owner is succeeded.
    HeldWrites,
    /// Ownership moves from host to host and back.
    PingPong,
    /// Something fails in the middle of a take-over.
    TakeOverFault,
    /// Links and devices that are slow but alive, under random faults.
    Slow,
}

impl Story {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Random,
        Self::Severed,
        Self::Isolated,
        Self::LateIsolation,
        Self::HalfBlind,
        Self::JoinFault,
        Self::ResyncFault,
        Self::Flaps,
        Self::OldOwner,
        Self::HeldWrites,
        Self::PingPong,
        Self::TakeOverFault,
        Self::Slow,
    ];
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Random => "random",
            Self::Severed => "severed",
            Self::Isolated => "isolated",
            Self::LateIsolation => "late-isolation",
            Self::HalfBlind => "half-blind",
            Self::JoinFault => "join-fault",
            Self::ResyncFault => "resync-fault",
            Self::Flaps => "flaps",
            Self::OldOwner => "old-owner",
            Self::HeldWrites => "held-writes",
            Self::PingPong => "ping-pong",
            Self::TakeOverFault => "take-over-fault",
            Self::Slow => "slow",
        };
        f.write_str(name)
    }
}

impl FromStr for Story {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|story| story.to_string() == name);
        found.ok_or_else(|| format!("no story '{name}'"))
    }
}

/// What may happen to a cluster at any moment.
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
            sectors: 512 << rng.below(5),
            ftt: if rng.below(12) == 0 { 0 } else { 1 },
            load: Load::draw(&mut rng),
            rounds: (0..1 + rng.below(4)).map(|_| Round::draw(&mut rng)).collect(),
            steps: 5 + rng.below(20) as u32,
            step_max: Duration::from_millis(100 << rng.below(6)),
            weights,
            segment_size: 2 << 20,
            cache_size: (20 + rng.below(30)) << 20,
            capacity_size: 256 << 20,
            drift_ppm: (0..hosts).map(|_| rng.between(0, 1000) as i64 - 500).collect(),
            directory: directory_faults(&mut rng),
        }
    }

    /// Draws the next random fault.
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

impl Load {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            writers: 1 + rng.below(3) as u32,
            readers: rng.below(3) as u32,
            pause_max: Duration::from_millis([4, 16, 32, 64, 64, 128, 256][rng.below(7) as usize]),
            hot_percent: [0, 20, 50, 90][rng.below(4) as usize],
            hot_sectors: 8 << rng.below(6),
        }
    }
}

impl Round {
    fn draw(rng: &mut Rng) -> Self {
        let story = Story::ALL[rng.below(Story::ALL.len() as u64) as usize];
        Self { story, is_quiet: rng.below(2) == 0 }
    }
}

/// Answers that get lost or come late, in one of three runs.
fn directory_faults(rng: &mut Rng) -> ServerFaults {
    if rng.below(3) > 0 {
        return ServerFaults::default();
    }
    ServerFaults {
        drop_before_ppm: rng.below(30_000),
        drop_after_ppm: rng.below(100_000),
        late_ppm: rng.below(200_000),
        late_max: Duration::from_millis(1 + rng.below(500)),
        compact_ppm: rng.below(50_000),
        expiry_late_max: Duration::from_millis(rng.below(1000)),
    }
}
