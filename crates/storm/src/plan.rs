// SPDX-License-Identifier: Apache-2.0
//! The plan of one seed: the cluster, its sizes and limits, load and faults. All of it is drawn
//! from the seed. In some plans limits are small, in some large, and each plan has only some kinds
//! of faults. So rare mixtures are reached ("swarm testing").
//!
//! Seeds that once found something are kept, and must run as before. So what is new is drawn from a
//! stream of random numbers of its own, or only for seeds above a first one.

pub(crate) mod balance;
mod freedom;
pub(crate) mod growth;
mod links;
mod memory;
pub(crate) mod shards;
mod small;
mod volumes;

pub use links::LinkPlan;
pub use memory::{HostMemory, HostPages};
pub use small::PlanLimits;
pub(crate) use volumes::{WRITERS_FROM, may_keep_cache};

use crate::death::LongDeath;
use crate::fault::{Fault, Weights};
use crate::story::Story;
use base::Rng;
use directory::{OBJECT_SECTORS_MAX, ServerFaults, VolumeLayout, Writers};
use diskgroup::{CreateSizes, GroupLimits, GroupOptions};
use host::{BalanceOptions, ClusterKind, ScrubOptions};
use object::ObjectOptions;
use sim::{DiskFreedom, QuirkModel};
use std::time::Duration;

/// Clients of all volumes together, at most. Every volume has at least one host with clients.
const CLIENTS_MAX: u64 = 12;

/// The first seed in which hosts may scrub all the time.
const SCRUB_FROM: u64 = 10_000_000;

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all that is left to chance while the plan runs.
    pub seed: u64,
    /// Data hosts.
    pub hosts: u32,
    /// Racks. Hosts are assigned to them in turn.
    pub racks: u32,
    /// Machines with several hosts: the first ones are on one, the next ones on another.
    pub pairs: u32,
    /// How many hosts each of them has.
    pub shards: u32,
    /// Disk groups of each host.
    pub groups: u32,
    /// Capacity devices of each group.
    pub devices: u32,
    /// The volumes under test.
    pub volumes: Vec<VolumePlan>,
    /// The rounds, one after the other: load under faults, then everything is healed and checked.
    pub rounds: Vec<Round>,
    /// Random faults in one round of random faults.
    pub steps: u32,
    /// Longest time between two random faults.
    pub step_max: Duration,
    /// Weights of the random faults.
    pub weights: Weights,
    /// What happens at the end of a round to a group whose device failed: whether a running host
    /// opens it again, or the host is started anew.
    pub opens_in_place: bool,
    /// The kind of the cluster's disk groups.
    pub kind: ClusterKind,
    /// Percent of the cache devices that is read cache, in a hybrid cluster.
    pub read_cache_percent: u8,
    /// Size of a segment of the write buffer, bytes. The largest append fits into it.
    pub segment_size: u64,
    /// Sizes of the devices.
    pub sizes: CreateSizes,
    /// Limits of volumes and of the directory, and of what hosts have in memory.
    pub limits: PlanLimits,
    /// Limits of the disk groups.
    pub group: GroupOptions,
    /// Time-outs of the protocol.
    pub object: ObjectOptions,
    /// How long a request of a client is tried before it fails.
    pub io_timeout: Duration,
    /// When hosts scrub.
    pub scrub: ScrubOptions,
    /// Clock drift of each host, parts per million, within the protocol's bound.
    pub drift_ppm: Vec<i64>,
    /// What goes wrong between the directory and its clients.
    pub directory: ServerFaults,
    /// How often rare paths are taken without need.
    pub quirks: QuirkModel,
    /// How far devices use the freedom that their contract leaves them.
    pub freedom: DiskFreedom,
    /// Seconds after which copies that stay away are made again; `None`: not within a run.
    pub repair_delay: Option<u64>,
    /// When copies move so that hosts are filled alike.
    pub balance: BalanceOptions,
    /// Whether links are encrypted.
    pub links: LinkPlan,
}

/// The first seed in which copies that stay away are made again, in one of three.
const REPAIR_FIRST: u64 = 273_000_000;

/// One volume and what is done to it.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Its size, sectors.
    pub sectors: u64,
    /// Sectors of each of its objects but the last one; where it is striped, at most so many.
    pub object_sectors: u64,
    /// Over how many objects it is striped; 1: it is not.
    pub stripe_width: u8,
    /// Failures to tolerate.
    pub ftt: u8,
    /// The reserve: the part of its size that is kept for it, percent.
    pub reserve_percent: u8,
    /// For which part of its size read cache is kept, percent.
    pub cache_percent: u8,
    /// Through how many hosts it is written at a time.
    pub writers: Writers,
    /// What its clients do.
    pub load: ClientLoad,
    /// Where its clients are: indices of hosts.
    pub clients: Vec<usize>,
}

/// The first seed with hybrid clusters, with newer faults, and with groups that a running host
/// opens again.
const LATE_FIRST: u64 = 160_000_000;

/// The first seed with small budgets of bytes, and with resyncs that send new writes late.
const JOIN_FIRST: u64 = 190_000_000;

/// The first seed with long deaths, and with other time-outs of clients.
const STALL_FIRST: u64 = 253_000_000;

fn devices(rng: &mut Rng, seed: u64) -> u32 {
    let early = if rng.below(3) > 0 { 1 } else { 1 + rng.below(3) as u32 };
    freedom::devices(seed).unwrap_or(early)
}

fn weights(rng: &mut Rng, seed: u64) -> Weights {
    let weights = Weights::draw(rng);
    match seed >= LATE_FIRST {
        true => weights.with_late(&mut Rng::stream(seed, 11), seed),
        false => weights,
    }
}

impl VolumePlan {
    /// How many objects it has.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.layout().sizes().count()
    }

    /// How they lie.
    #[must_use]
    pub fn layout(&self) -> VolumeLayout {
        VolumeLayout::striped(self.sectors, self.stripe_width, self.object_sectors)
    }

    /// Its name.
    #[must_use]
    pub fn name(index: usize) -> String {
        format!("storm{index}")
    }
}

/// What the clients of a volume do, on each host that has some.
#[derive(Clone, Copy, Debug)]
pub struct ClientLoad {
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
    /// How many reads in a hundred ask for block status instead.
    pub status_percent: u64,
    /// How many operations in a hundred meet the end of a chunk, an object or the volume.
    pub edge_percent: u64,
}

/// One round of a run.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// What goes wrong.
    pub story: Story,
    /// The volume whose owner and replicas the story is about, as an index.
    pub focus: usize,
    /// The object of that volume, by its number.
    pub object: usize,
    /// Whether the load ends with the decisive fault, so that nothing overwrites its traces.
    pub is_quiet: bool,
    /// A host that is away for long before the story begins.
    pub death: Option<LongDeath>,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        for round in &plan.rounds {
            let volume = &mut plan.volumes[round.focus];
            if matches!(round.story, Story::LateGrants | Story::QueuedRival | Story::Twins) {
                volume.clients = vec![0, 1, 2];
            }
            if round.story == Story::Twins {
                volume.ftt = 2;
            }
        }
        plan.with_pairs()
    }

    fn draw(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, 1);
        let hosts = match rng.below(10) {
            0..6 => 3,
            6..9 => 4 + rng.below(3) as u32,
            _ => 7 + rng.below(6) as u32,
        };
        let is_slow = rng.below(3) > 0;
        let groups = if rng.below(3) > 0 { 1 } else { 1 + rng.below(3) as u32 };
        let count = if rng.below(2) == 0 { 1 } else { 1 + rng.below(3) };
        let mut room = CLIENTS_MAX;
        let mut volumes: Vec<_> =
            (0..count).map(|_| VolumePlan::draw(&mut rng, hosts, is_slow, &mut room)).collect();
        // A later stream of random numbers. The last volume gets a reserve, because an earlier one
        // would leave less room for the others.
        let mut late = Rng::stream(seed, 10);
        if let Some(last) = volumes.last_mut() {
            last.reserve_percent = [0, 0, 50, 100][late.below(4) as usize];
        }
        for (volume, more) in volumes.iter_mut().zip(volumes::more_of_each(seed)) {
            (volume.load.status_percent, volume.writers, volume.cache_percent) = more;
        }
        // A hybrid group needs room for its read cache.
        let (kind, more) = match seed >= LATE_FIRST && late.below(2) == 0 {
            true => (ClusterKind::Hybrid, 24),
            false => (ClusterKind::AllFlash, 0),
        };
        let step_ms = if is_slow { 1000 << rng.below(5) } else { 100 << rng.below(6) };
        let rounds = 1 + rng.below(if hosts > 6 { 2 } else { 4 });
        let plan = Self {
            seed,
            hosts,
            racks: 2 + rng.below(2) as u32,
            pairs: 0,
            shards: 2,
            groups,
            devices: devices(&mut rng, seed),
            rounds: Round::draw_all(&mut rng, seed, rounds, volumes.len()),
            volumes,
            steps: 5 + rng.below(20) as u32,
            step_max: Duration::from_millis(step_ms),
            weights: weights(&mut rng, seed),
            opens_in_place: seed >= LATE_FIRST && late.below(2) == 0,
            kind,
            read_cache_percent: [5, 20, 40, 50][late.below(4) as usize],
            segment_size: 2 << 20,
            limits: PlanLimits::default(),
            sizes: CreateSizes {
                cache: (20 + rng.below(40) + more) << 20,
                capacity: (96 + rng.below(160)) << 20,
            },
            group: GroupOptions { elevator_room: 2 * late.below(2), ..group_options(&mut rng) },
            object: budgets(object_options(&mut rng), seed),
            io_timeout: Duration::from_secs(60),
            scrub: scrub_options(seed),
            drift_ppm: (0..hosts).map(|_| rng.between(0, 1000) as i64 - 500).collect(),
            directory: directory_faults(&mut rng),
            quirks: match rng.below(3) {
                0 => QuirkModel::default(),
                _ => QuirkModel { armed_ppm: 250_000, fire_ppm: 1000 << rng.below(8) },
            },
            freedom: freedom::freedom(seed),
            repair_delay: repair_delay(seed),
            balance: balance::options(seed),
            links: LinkPlan::of_seed(seed),
        };
        small::draw(plan.with_deaths())
    }

    /// Draws the time-out of clients, and which rounds have a long death.
    fn with_deaths(mut self) -> Self {
        if self.seed < STALL_FIRST {
            return self;
        }
        let mut rng = Rng::stream(self.seed, 16);
        let mut seconds = match rng.below(4) {
            0 => 60,
            1 => 30,
            _ => 15,
        };
        for round in &mut self.rounds {
            round.death = (rng.below(3) == 0).then(|| LongDeath::draw(&mut rng));
        }
        let is_any = self.rounds.iter().any(|round| round.death.is_some());
        if is_any && self.volumes.iter().any(|volume| volume.load.is_fast()) {
            seconds = 15; // minutes of a fast load would take most of the campaign's time
        }
        self.io_timeout = Duration::from_secs(seconds);
        self
    }

    /// After how many seconds a device that leaves an I/O unanswered counts as stuck.
    #[must_use]
    pub fn device_stuck_seconds(&self) -> u64 {
        stuck_seconds(self.seed)
    }

    /// The rack of a host.
    #[must_use]
    pub fn rack_of(&self, host: usize) -> usize {
        host % self.racks as usize
    }

    /// Whether a round goes beyond what the system promises.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        self.rounds.iter().any(|round| round.story.is_beyond())
    }

    /// Makes this the story of every round, and changes what else it needs.
    pub fn tell_only(&mut self, story: Story) {
        self.rounds.iter_mut().for_each(|round| round.story = story);
        if story.is_damage() {
            self.rounds.truncate(1);
        }
        if story.needs_clients() {
            self.volumes.iter_mut().for_each(|volume| volume.clients = vec![0, 1, 2]);
        }
        if story == Story::Twins {
            self.volumes.iter_mut().for_each(|volume| volume.ftt = 2);
        }
        if story == Story::DeviceOut {
            self.devices = self.devices.max(2);
        }
        if story == Story::LossAfterReturn {
            // Many copies linger, so that a resync takes long.
            self.quirks = QuirkModel { armed_ppm: 500_000, fire_ppm: 64_000 };
        }
    }
}

impl VolumePlan {
    fn draw(rng: &mut Rng, hosts: u32, is_slow: bool, room: &mut u64) -> Self {
        let load = ClientLoad::draw(rng, is_slow);
        let each = u64::from(load.writers + load.readers);
        let wanted = if rng.below(2) == 0 { 3 } else { 1 + rng.below(3) };
        let count = wanted.min((*room / each).max(1)).min(u64::from(hosts));
        *room = room.saturating_sub(count * each);
        let mut all: Vec<usize> = (0..hosts as usize).collect();
        let clients = (0..count).map(|_| all.remove(rng.below(all.len() as u64) as usize));
        Self {
            clients: clients.collect(),
            sectors: 512 << rng.below(5),
            object_sectors: OBJECT_SECTORS_MAX,
            stripe_width: 1,
            ftt: match rng.below(12) {
                0 => 0,
                1..4 => 2,
                _ => 1,
            },
            reserve_percent: 0,
            cache_percent: 0,
            writers: Writers::Any,
            load,
        }
    }
}

impl ClientLoad {
    /// Whether a client begins many operations a second.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.pause_max < Duration::from_millis(100)
    }

    fn draw(rng: &mut Rng, is_slow: bool) -> Self {
        let pauses: [u64; 7] = match is_slow {
            true => [100, 250, 250, 500, 500, 1000, 4000],
            false => [4, 16, 32, 64, 64, 128, 256],
        };
        Self {
            writers: 1 + rng.below(3) as u32,
            readers: rng.below(3) as u32,
            pause_max: Duration::from_millis(pauses[rng.below(7) as usize]),
            hot_percent: [0, 20, 50, 90][rng.below(4) as usize],
            hot_sectors: 8 << rng.below(6),
            status_percent: 0,
            edge_percent: 0,
        }
    }
}

impl Round {
    /// Draws the rounds. One seed in forty goes beyond the contract, and has only that round.
    fn draw_all(rng: &mut Rng, seed: u64, count: u64, volumes: usize) -> Vec<Self> {
        let focus = |rng: &mut Rng| rng.below(volumes as u64) as usize;
        if rng.below(40) == 0 {
            let story = if rng.below(2) == 0 { Story::LyingFlush } else { Story::WildClock };
            return vec![Self {
                story,
                focus: focus(rng),
                object: 0,
                is_quiet: false,
                death: None,
            }];
        }
        let is_early = |story: &&Story| !story.is_beyond() && story.since().is_none();
        let stories: Vec<_> = Story::ALL.iter().filter(is_early).collect();
        let draw = |_| Self {
            story: *stories[rng.below(stories.len() as u64) as usize],
            focus: rng.below(volumes as u64) as usize,
            object: 0,
            is_quiet: rng.below(2) == 0,
            death: None,
        };
        let mut rounds: Vec<_> = (0..count).map(draw).collect();
        // A stream of its own, so that the draws above stay as they were.
        let mut rng = Rng::stream(seed, 9);
        let is_known = |story: &&Story| story.since().is_none_or(|first| first <= seed);
        let known: Vec<_> = Story::ALL.iter().filter(is_known).collect();
        let stories: Vec<_> = known.iter().filter(|story| story.since().is_some()).collect();
        for round in &mut rounds {
            if rng.below(known.len() as u64) < stories.len() as u64 {
                round.story = **stories[rng.below(stories.len() as u64) as usize];
            }
        }
        let last = rounds.iter().position(|round| round.story.is_damage());
        rounds.truncate(last.map_or(rounds.len(), |last| last + 1));
        rounds
    }
}

fn stuck_seconds(seed: u64) -> u64 {
    if seed.is_multiple_of(2) { 5 } else { 30 }
}

fn repair_delay(seed: u64) -> Option<u64> {
    let mut rng = Rng::stream(seed, 24);
    let delay = [2, 10, 40][small::index(&mut rng, 3)];
    (seed >= REPAIR_FIRST && rng.below(3) == 0).then_some(delay)
}

/// Other limits of the disk groups, mostly small ones, in half of the runs.
fn group_options(rng: &mut Rng) -> GroupOptions {
    let production = GroupOptions::default();
    if rng.below(2) == 0 {
        return production;
    }
    let drawn = rng.below(8);
    GroupOptions {
        crc_cache_bytes: 4096 << drawn,
        limits: GroupLimits { half_bytes: 8192 << (drawn / 2), ..production.limits },
        destage_depth: 1 << rng.below(5),
        idle_after: Duration::from_millis(20 << rng.below(9)),
        ..production
    }
}

/// Other time-outs of the protocol in half of the runs. They are the same on all hosts.
fn object_options(rng: &mut Rng) -> ObjectOptions {
    let production = ObjectOptions::default();
    if rng.below(2) == 0 {
        return production;
    }
    let lease_ms = 3000 + rng.below(5000);
    ObjectOptions {
        stall: Duration::from_millis(500 + rng.below(2000)),
        progress: Duration::from_millis(3000 + rng.below(9000)),
        idle: Duration::from_secs(5 + rng.below(60)),
        lease_ttl: Duration::from_millis(lease_ms),
        lease_renew: Duration::from_millis(lease_ms / 4),
        join_wait: Duration::from_millis(10 << rng.below(5)),
        commit_idle: Duration::from_millis(10 << rng.below(6)),
        damping: Duration::from_millis(50 << rng.below(6)),
        ..production
    }
}

/// Small budgets of bytes in two thirds of the later seeds.
fn budgets(options: ObjectOptions, seed: u64) -> ObjectOptions {
    let mut rng = Rng::stream(seed, 13);
    if seed < JOIN_FIRST || rng.below(3) == 0 {
        return options;
    }
    let join_bytes = 4096 << rng.below(9);
    ObjectOptions { join_bytes, write_bytes: 1 << (20 + rng.below(7)), ..options }
}

/// In a third of the later seeds, hosts begin one scrub pass soon after the other.
fn scrub_options(seed: u64) -> ScrubOptions {
    let mut rng = Rng::stream(seed, 10);
    if seed < SCRUB_FROM || rng.below(3) > 0 {
        return ScrubOptions::default();
    }
    ScrubOptions {
        first_after: Duration::from_millis(rng.below(4000)),
        period: Some(Duration::from_millis(100 << rng.below(8))),
    }
}

/// In a third of the runs, requests and answers of the directory get lost or come late, and it
/// loses leases and history.
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
        lose_lease_ppm: rng.below(2) * rng.below(40_000),
    }
}

/// What is left out of a plan, to see whether a smaller run shows the same violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trim {
    /// Volumes at most.
    pub volumes: Option<usize>,
    /// Hosts at most.
    pub hosts: Option<u32>,
    /// The rounds from this one on, counted from 0.
    pub first_round: usize,
    /// Rounds at most.
    pub rounds: Option<usize>,
    /// Random faults in a round at most.
    pub steps: Option<u32>,
    /// Writers and readers on each host at most.
    pub clients: Option<u32>,
    /// Whether each host has one group with one capacity device.
    pub is_plain: bool,
    /// Whether the directory always answers.
    pub is_calm: bool,
    /// Whether limits and time-outs are those of production, without quirks.
    pub is_default: bool,
    /// Changes the seed of the world, but not the plan. The same kinds of faults then come at other
    /// moments. 0 changes nothing.
    pub salt: u64,
}

impl Trim {
    /// The plan without the parts that are left out.
    #[must_use]
    pub fn apply(&self, mut plan: Plan) -> Plan {
        plan.seed ^= self.salt << 32;
        plan.hosts = plan.hosts.min(self.hosts.unwrap_or(u32::MAX)).max(3);
        plan.drift_ppm.truncate(plan.hosts as usize);
        plan.volumes.truncate(self.volumes.unwrap_or(usize::MAX).max(1));
        let rounds = plan.rounds.len();
        plan.rounds.drain(..self.first_round.min(rounds - 1));
        plan.rounds.truncate(self.rounds.unwrap_or(usize::MAX).max(1));
        for round in &mut plan.rounds {
            round.focus %= plan.volumes.len();
            round.object %= plan.volumes[round.focus].objects();
        }
        plan.steps = plan.steps.min(self.steps.unwrap_or(u32::MAX));
        for volume in &mut plan.volumes {
            let most = self.clients.unwrap_or(u32::MAX);
            volume.load.writers = volume.load.writers.min(most);
            volume.load.readers = volume.load.readers.min(most);
            volume.clients.retain(|host| *host < plan.hosts as usize);
            if volume.clients.is_empty() {
                volume.clients.push(0);
            }
        }
        if self.is_plain {
            (plan.groups, plan.devices) = (1, 1);
        }
        if self.is_calm {
            plan.directory = ServerFaults::default();
            plan.weights.forget(Fault::DirectoryAway);
            plan.weights.forget(Fault::DirectoryCut);
        }
        if self.is_default {
            plan.group = GroupOptions::default();
            plan.object = ObjectOptions::default();
            plan.scrub = ScrubOptions::default();
            plan.quirks = QuirkModel::default();
            small::forget(&mut plan);
        }
        plan
    }
}
