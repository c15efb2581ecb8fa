// SPDX-License-Identifier: Apache-2.0
//! One run of a seed: it founds a cluster, brings faults while clients are at work, heals them, and
//! checks everything.

use crate::cluster::Cluster;
use crate::fault::Counts;
use crate::life::Life;
use crate::links::Switches;
use crate::liveness::{LOOK, Liveness};
use crate::log::LogWatch as Log;
use crate::mirrors;
use crate::mutation::Mutation;
use crate::operators::TakeOvers;
use crate::plan::{Plan, Round, VolumePlan};
use crate::rest;
use crate::workload::{self, Client, VolumeLoad};
use base::{CHUNK_SECTORS, Rng, SECTOR_SIZE, SectorRange};
use host::Node;
use operator::{Command, CommandReply, NewVolume};
use oracle::{Author, Wrong};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use volume::Device;

/// Virtual time in which a cluster must get ready, or become redundant again after the last fault.
/// Most of it is for damping (rule 18): ten minutes for a component that came and went ten times.
const HEAL_MAX: Duration = Duration::from_secs(900);
/// How often the creation of a volume is tried. A directory may lose one call of eight, and each
/// attempt ends with the first call without an answer.
const CREATION_TRIES: u32 = 100;

/// What a run found to be wrong.
#[derive(Clone, Debug)]
pub enum Violation {
    /// A client read what it may not.
    Read {
        /// Which client read, or that the last check did.
        client: String,
        /// What was wrong in what it read.
        wrong: Wrong,
    },
    /// Two active components differ at rest.
    Mirrors(String),
    /// The cluster took too long to serve again, or to be redundant again.
    Stuck(String),
    /// A client waited too long, or got an error, while enough of the cluster was undisturbed.
    Stalled(String),
    /// A record of the directory, or a component, changed in a way that is forbidden.
    Record(String),
    /// Something is kept that nobody needs: space, tasks, a component.
    Leaked(String),
    /// The log has a line of level ERROR that nobody expects.
    Error(String),
    /// An assertion of the code under test, or of the campaign.
    Panicked(String),
}

impl Violation {
    /// The kind of the violation, in a word. A smaller run counts only if it shows the same kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Mirrors(_) => "mirrors",
            Self::Stuck(_) => "stuck",
            Self::Stalled(_) => "stalled",
            Self::Record(_) => "record",
            Self::Leaked(_) => "leaked",
            Self::Error(_) => "error",
            Self::Panicked(_) => "panicked",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { client, wrong } => write!(f, "{client}: {wrong}"),
            Self::Mirrors(what) => write!(f, "mirrors differ: {what}"),
            Self::Stuck(what) => write!(f, "stuck: {what}"),
            Self::Stalled(what) => write!(f, "stalled: {what}"),
            Self::Record(what) => write!(f, "forbidden: {what}"),
            Self::Leaked(what) => write!(f, "leaked: {what}"),
            Self::Error(what) => write!(f, "error line: {what}"),
            Self::Panicked(what) => write!(f, "panicked: {what}"),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// What was wrong, if anything.
    pub violation: Option<Violation>,
    /// What was lost in a story for which nothing is promised.
    pub beyond: Option<Violation>,
    /// A hash over everything that happened. Equal for equal seeds.
    pub digest: u64,
    /// Virtual time that the run took.
    pub elapsed: Duration,
    /// The longest time from the end of all faults to full redundancy.
    pub healed_in: Duration,
    /// The longest wait of an operation that began when everything had been well enough for long.
    pub longest_wait: Duration,
    /// For how long clients had to be answered soon, summed up over volumes and hosts.
    pub watched: Duration,
    /// Events of the simulated world.
    pub events: u64,
    /// Operations acknowledged.
    pub operations: u64,
    /// Operations that ended with an error.
    pub failed: u64,
    /// Faults injected.
    pub faults: Counts,
    /// Pairs of components compared at the end.
    pub compared: u64,
    /// Disk groups that got new devices because theirs were damaged.
    pub replaced_groups: u64,
}

pub(crate) struct SeedRun {
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    /// What the clients of each volume share.
    pub(crate) shared: Vec<Rc<VolumeLoad>>,
    pub(crate) rng: Rng,
    /// The volume that the round is about.
    pub(crate) focus: usize,
    /// The object of it that the round is about.
    pub(crate) focus_object: usize,
    /// Whether the load of this round ends with its decisive fault.
    is_quiet: bool,
    /// Whether the faults of this round are over.
    is_healed: bool,
    boots: u64,
    /// The number of the newest start of each host.
    runs: Vec<u64>,
    pub(crate) faults: Counts,
    /// Hosts whose devices had faults in this round. Their groups must be opened anew at its end,
    /// or the hosts started anew.
    pub(crate) has_failed_devices: Vec<bool>,
    /// For each host: since when one of its groups serves without a device.
    pub(crate) outs_since: Vec<Option<base::Instant>>,
    /// For each host and group: how often it was opened again because it had stopped.
    pub(crate) opened: base::Map<(usize, u32), u32>,
    compared: u64,
    pub(crate) replaced_groups: u64,
    healed_in: Duration,
    rest: rest::Baseline,
    pub(crate) log: Log,
    pub(crate) liveness: Liveness,
    /// Of spare volumes.
    pub(crate) life: RefCell<Life>,
    pub(crate) take_overs: RefCell<TakeOvers>,
    pub(crate) switches: RefCell<Switches>,
    /// Whether the run is over because it could go on only by an operator's decision.
    pub(crate) is_over: bool,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan, mutation: Option<Mutation>) -> RunOutcome {
    let log = Log::default();
    let (inner, plan) = (log.clone(), plan.clone());
    log.during(move || run_watched(plan, mutation, inner))
}

fn run_watched(plan: Plan, mutation: Option<Mutation>, log: Log) -> RunOutcome {
    let cluster = Cluster::new(&plan, mutation);
    let hosts = plan.hosts as usize;
    let shared = (0..).zip(&plan.volumes).map(|(index, volume)| {
        Rc::new(VolumeLoad::new(VolumePlan::name(index), &volume.layout(), &cluster))
    });
    let mut run = SeedRun {
        shared: shared.collect(),
        rng: Rng::stream(plan.seed, 2),
        cluster,
        focus: 0,
        focus_object: 0,
        is_quiet: false,
        is_healed: false,
        boots: 0,
        runs: vec![0; hosts],
        faults: Counts::default(),
        has_failed_devices: vec![false; hosts],
        outs_since: vec![None; hosts],
        opened: base::Map::new(),
        compared: 0,
        replaced_groups: 0,
        healed_in: Duration::ZERO,
        rest: rest::Baseline::new(hosts),
        log,
        liveness: Liveness::new(&plan),
        life: RefCell::new(Life::new(plan.seed)),
        take_overs: RefCell::new(TakeOvers::new(plan.seed)),
        switches: RefCell::new(Switches::new(plan.seed)),
        is_over: false,
        plan,
    };
    let violation = run.phases().err();
    let (violation, beyond) =
        if run.plan.is_beyond() { (None, violation) } else { (violation, None) };
    let stats = run.cluster.world.stats();
    let outcome = RunOutcome {
        violation,
        beyond,
        digest: run.cluster.world.digest(),
        elapsed: Duration::from_nanos(run.cluster.world.now().0),
        healed_in: run.healed_in,
        longest_wait: run.liveness.longest(),
        watched: run.liveness.watched(),
        events: stats.events,
        operations: run.shared.iter().map(|shared| shared.done.get()).sum(),
        failed: run.shared.iter().map(|shared| shared.failed.get()).sum(),
        faults: run.faults,
        compared: run.compared,
        replaced_groups: run.replaced_groups,
    };
    for index in 0..hosts {
        run.cluster.take_down(index, true);
    }
    outcome
}

impl SeedRun {
    fn phases(&mut self) -> Result<(), Violation> {
        self.cluster.boot_directory();
        for index in 0..self.cluster.machines.len() {
            self.boot(index);
        }
        self.wait("all hosts ready", |run| run.all_ready())?;
        self.set_repair_delay()?;
        for volume in 0..self.plan.volumes.len() {
            self.create_volume(volume)?;
        }
        for round in self.plan.rounds.clone() {
            self.round(round)?;
            if self.is_over {
                break;
            }
        }
        Ok(())
    }

    /// Runs load under faults, then heals and checks everything.
    fn round(&mut self, round: Round) -> Result<(), Violation> {
        tracing::info!(?round, "a round begins");
        (self.is_quiet, self.is_healed) = (round.is_quiet, false);
        self.cluster.world.set_freedom(self.plan.freedom);
        (self.focus, self.focus_object) = (round.focus, round.object);
        self.shared.iter().for_each(|shared| shared.is_open.set(true));
        let warm_up = Duration::from_millis(300 + self.rng.below(1500));
        self.liveness.begin_round(self.cluster.world.now());
        self.run_for(warm_up)?;
        if let Some(death) = round.death {
            self.die_for_long(death, round.story)?;
        }
        self.grow_at_begin();
        self.let_copies_move();
        self.begin_life(&round);
        self.tell(round.story)?;
        self.stop_life();
        if self.is_over {
            return Ok(());
        }
        self.heal();
        self.is_healed = true;
        let healed_at = self.cluster.world.now();
        self.wait("all hosts ready again", |run| run.all_ready())?;
        self.keep_copies_in_place()?;
        self.leave_room()?;
        if self.shared.iter().any(|shared| shared.is_open.get()) {
            self.wait("volumes whole under load", |run| run.is_whole())?;
            self.shared.iter().for_each(|shared| shared.is_open.set(false));
        }
        self.wait("operations ended", |run| {
            run.shared.iter().all(|shared| shared.running.get() == 0)
        })?;
        self.run_for(self.plan.late_for())?; // what devices had begun before they were healed
        self.wait("volumes whole at rest", |run| run.is_whole())?;
        self.wait("copies where they are to be", |run| run.is_settled())?;
        self.healed_in = self.healed_in.max(self.cluster.world.now().since(healed_at));
        self.end_life()?;
        self.take_all_over()?;
        self.read_everything()?;
        self.run_for(rest::SETTLE)?; // what was found bad is repaired behind the read
        if !self.is_whole() {
            // The reads found damage that nobody had met before, and it stopped a disk group.
            self.wait("volumes whole after damage", |run| run.is_whole())?;
            self.read_everything()?;
            self.run_for(rest::SETTLE)?;
        }
        let compared = mirrors::compare(&self.cluster, |host| self.is_excused(host));
        self.compared += compared.map_err(Violation::Mirrors)?;
        self.check_rest()
    }

    /// Checks what must be true of a cluster that nobody uses.
    fn check_rest(&mut self) -> Result<(), Violation> {
        if self.rest.check(&self.cluster).is_err() {
            // A destage that has just begun, or a last read, looks like a leak. A real leak stays.
            self.run_for(rest::SETTLE)?;
        }
        let found = self.rest.check(&self.cluster);
        found.map_err(Violation::Leaked)
    }

    /// Marks the moment before the fault that matters. In a quiet round, clients begin no new
    /// operations from here on.
    pub(crate) fn decisive(&self) {
        if self.is_quiet {
            self.shared.iter().for_each(|shared| shared.is_open.set(false));
        }
    }

    /// Lets `d` pass, then checks what can be checked under load.
    pub(crate) fn run_for(&self, d: Duration) -> Result<(), Violation> {
        self.run_until(d, || false)?;
        self.check()
    }

    /// Runs the world until `is_so`, but for `most` at most. Again and again it looks at what
    /// clients wait for.
    pub(crate) fn run_until(
        &self,
        most: Duration,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), Violation> {
        let mut left = most;
        loop {
            let step = left.min(LOOK);
            let is_done = self.cluster.world.run_until(step, &mut is_so);
            self.liveness
                .look(&self.plan, &self.cluster, &self.shared, |host| self.is_excused(host))
                .map_err(Violation::Stalled)?;
            self.live()?;
            self.operators_take_over();
            left -= step;
            if is_done || left.is_zero() {
                return Ok(());
            }
        }
    }

    /// From now on hosts may say that the directory went back in time.
    pub(crate) fn may_go_back(&self) {
        self.log.may_go_back();
        self.liveness.excuse();
    }

    pub(crate) fn boot(&mut self, index: usize) {
        self.boots += 1;
        self.runs[index] = self.boots;
        let (boots, seed) = (self.boots, self.plan.seed);
        let volumes = self.plan.volumes.iter().zip(&self.shared);
        let here = volumes.filter(|(volume, _)| volume.clients.contains(&index));
        let here: Vec<_> = here.map(|(volume, shared)| (volume.load, Rc::clone(shared))).collect();
        self.cluster.boot(index, move |env, node| async move {
            let tasks = env::TaskSet::default();
            let mut stream = 1000 + boots * 64;
            for (load, shared) in here {
                for number in 0..load.writers + load.readers {
                    stream += 1;
                    let client = Client {
                        env: env.clone(),
                        node: Rc::clone(&node),
                        author: author(index, boots),
                        load,
                        is_reader: number >= load.writers,
                        rng: Rng::stream(seed, stream),
                        name: format!("client {number} of {} on host{}", shared.volume, index + 1),
                        shared: Rc::clone(&shared),
                    };
                    tasks.spawn(&env, "client", client.run());
                }
            }
            std::future::pending::<()>().await;
        });
    }

    /// Starts a host that is down.
    pub(crate) fn boot_if_down(&mut self, index: usize) {
        if !self.cluster.world.is_up(self.cluster.machines[index].key) {
            self.boot(index);
        }
    }

    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.cluster.node(index).is_some()
    }

    pub(crate) fn all_ready(&self) -> bool {
        (0..self.cluster.machines.len()).all(|index| self.is_ready(index))
    }

    pub(crate) fn wait(
        &mut self,
        what: &str,
        mut is_true: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), Violation> {
        let until = self.cluster.world.now() + HEAL_MAX;
        let mut pause = Duration::from_millis(200);
        while self.cluster.world.now() < until {
            self.run_until(pause, || false)?;
            pause = (pause * 5 / 4).min(Duration::from_secs(5));
            self.check()?;
            if self.is_healed {
                self.replace_damaged();
                self.open_what_is_out();
                self.delete_what_is_left();
                self.end_maintenance();
            }
            if is_true(self) {
                return Ok(());
            }
        }
        self.describe();
        Err(Violation::Stuck(format!("not '{what}' within {} s", HEAL_MAX.as_secs())))
    }

    /// Logs how every disk group and object is, for whoever looks for the cause.
    fn describe(&self) {
        let records = self.cluster.records.all();
        records.iter().for_each(|record| tracing::info!(?record, "stuck"));
        for index in 0..self.cluster.machines.len() {
            let groups = self.cluster.node(index).map(|node| node.groups()).unwrap_or_default();
            for group in groups {
                let (host, status) = (index + 1, group.status());
                tracing::info!(host, ?status, "stuck");
                let components = group.components();
                for info in components.into_iter().filter_map(|id| group.component(id)) {
                    tracing::info!(host, ?info, "stuck");
                }
            }
        }
    }

    /// Checks everything that can be checked while the cluster runs.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        for shared in &self.shared {
            if let Some((client, wrong)) = shared.wrong.borrow().clone() {
                return Err(Violation::Read { client, wrong });
            }
        }
        if let Some(what) = self.cluster.records.wrong() {
            return Err(Violation::Record(what));
        }
        self.rest.watch(&self.cluster).map_err(Violation::Record)?;
        match self.log.first() {
            Some(line) => Err(Violation::Error(line)),
            None => Ok(()),
        }
    }

    /// Asks a host through its control socket, in virtual time.
    pub(crate) fn ask(&self, index: usize, command: Command) -> Option<CommandReply> {
        self.cluster.answer_to(index, command, Duration::from_secs(30))
    }

    fn create_volume(&mut self, volume: usize) -> Result<(), Violation> {
        let planned = &self.plan.volumes[volume];
        let command = Command::VolumeCreate(NewVolume {
            reserve_percent: planned.reserve_percent,
            cache_percent: planned.cache_percent,
            stripe_width: planned.stripe_width,
            writers: Some(planned.writers),
            ..NewVolume::new(VolumePlan::name(volume), planned.sectors * SECTOR_SIZE, planned.ftt)
        });
        let mut last = None;
        for _ in 0..CREATION_TRIES {
            let host = self.any_host();
            match self.ask(host, command.clone()) {
                Some(CommandReply::Ok(_)) => return Ok(()),
                // The answer to an earlier attempt was lost.
                _ if self.cluster.records.is_created(&VolumePlan::name(volume)) => return Ok(()),
                other => last = other,
            }
            self.cluster.world.run_for(Duration::from_millis(500));
        }
        Err(Violation::Stuck(format!("the volume cannot be created: {last:?}")))
    }

    /// Notes that the devices of this host were damaged. From now on its components may fall back,
    /// and its groups may refuse to open.
    pub(crate) fn excuse(&mut self, host: usize) {
        self.rest.excuse(host);
        // A device may have failed because of the damage. Its group must be opened anew.
        self.has_failed_devices[host] = true;
    }

    pub(crate) fn is_excused(&self, host: usize) -> bool {
        self.rest.is_excused(host)
    }

    pub(crate) fn any_host(&mut self) -> usize {
        self.rng.below(self.cluster.machines.len() as u64) as usize
    }

    pub(crate) fn heal(&mut self) {
        self.cluster.world.heal_all();
        self.cluster.world.set_freedom(self.plan.healed_freedom());
        for index in 0..self.cluster.machines.len() {
            if !self.is_excused(index) {
                self.clear_disks(index); // sectors that cannot be read stay so until written
            }
            if std::mem::take(&mut self.has_failed_devices[index]) {
                // A device that failed is used again only after its group was opened anew.
                if self.plan.opens_in_place && self.is_ready(index) {
                    let groups = 0..self.plan.groups;
                    groups.for_each(|group| self.cluster.reopen(index, group, Duration::ZERO));
                } else {
                    self.take_down(index, false);
                }
            }
        }
        self.admit(None);
        self.boot_what_is_down(true);
    }

    /// On each host in turn, one reader reads every volume. Ownership follows the reader. So in an
    /// all-flash cluster each copy is read, because an owner reads its own copy.
    pub(crate) fn read_everything(&mut self) -> Result<(), Violation> {
        self.note_growth();
        for index in 0..self.cluster.machines.len() {
            let key = self.cluster.machines[index].key;
            let (Some(env), Some(node)) = (self.cluster.world.env(key), self.cluster.node(index))
            else {
                return Err(Violation::Stuck(format!("host{} is down", index + 1)));
            };
            for shared in self.shared.clone() {
                let outcome = Rc::new(RefCell::new(None));
                let (place, node) = (Rc::clone(&outcome), Rc::clone(&node));
                let name = format!("last check on host{}", index + 1);
                let author = author(index, self.runs[index]);
                let task = env.spawn("last check", async move {
                    let read = read_volume(&node, &shared, author, &name).await;
                    *place.borrow_mut() = Some(read);
                });
                self.cluster.world.run_until(HEAL_MAX, || outcome.borrow().is_some());
                drop(task);
                self.check()?;
                let host = index + 1;
                match outcome.borrow_mut().take() {
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        return Err(Violation::Stuck(format!("host{host} cannot read: {error}")));
                    }
                    None => return Err(Violation::Stuck(format!("host{host} reads for ever"))),
                }
            }
        }
        Ok(())
    }
}

async fn read_volume(
    node: &Node,
    shared: &VolumeLoad,
    author: Author,
    name: &str,
) -> Result<(), String> {
    let device = node.exports().attach(&shared.volume).map_err(|error| error.to_string())?;
    let whole = SectorRange::new(0, shared.oracle.borrow().sectors());
    if device.size() < whole.bytes() {
        return Err(format!("it has {} bytes of {}", device.size(), whole.bytes()));
    }
    let mut outcome = Ok(());
    for piece in whole.split_at_multiples(CHUNK_SECTORS) {
        let asker = workload::Asker { node, author, name };
        let read = workload::read(&device, piece, shared, &asker).await;
        outcome = outcome.and(read.map_err(|error| error.to_string()));
    }
    outcome
}

/// The author, in the oracle, of all operations of clients between a host's start and its end.
fn author(index: usize, run: u64) -> Author {
    Author { host: index as u32, run }
}
