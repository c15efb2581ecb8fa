// SPDX-License-Identifier: Apache-2.0
//! One run: a seed, from an empty cluster over faults under load to the last comparison.

use crate::cluster::{Cluster, VOLUME, ask};
use crate::mirrors;
use crate::mutation::Mutation;
use crate::oracle::{Author, Wrong};
use crate::plan::{Fault, Plan, Round};
use crate::workload::{self, Client, Shared};
use base::{CHUNK_SECTORS, Rng, SECTOR_SIZE, SectorRange};
use host::{Command, Health, Reply, StatusReport};
use sim::DiskFault;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Virtual time to get ready, and to become redundant again after the last fault.
const HEAL_MAX: Duration = Duration::from_secs(600);
/// Longest pause of a process: beyond every lease.
const PAUSE_MAX_MS: u64 = 20_000;

/// What a run found to be wrong.
#[derive(Clone, Debug)]
pub enum Violation {
    /// A client read what it may not.
    Read {
        /// Which client, or the last check.
        client: String,
        /// What it saw.
        wrong: Wrong,
    },
    /// Two active components differ at rest.
    Mirrors(String),
    /// It did not come back to serving and redundancy in time.
    Stuck(String),
    /// An assertion of the code under test, or of the campaign.
    Panicked(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { client, wrong } => write!(f, "{client}: {wrong}"),
            Self::Mirrors(what) => write!(f, "mirrors differ: {what}"),
            Self::Stuck(what) => write!(f, "stuck: {what}"),
            Self::Panicked(what) => write!(f, "panicked: {what}"),
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was wrong, if anything.
    pub violation: Option<Violation>,
    /// Equal for equal seeds.
    pub digest: u64,
    /// Virtual time.
    pub elapsed: Duration,
    /// Events of the world.
    pub events: u64,
    /// Operations acknowledged.
    pub operations: u64,
    /// Operations that ended with an error.
    pub failed: u64,
    /// Faults injected, by kind in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    /// Pairs of components compared at the end.
    pub compared: u64,
}

pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    pub(crate) shared: Rc<Shared>,
    pub(crate) rng: Rng,
    /// Whether the load of this round ends with its decisive fault.
    is_quiet: bool,
    boots: u64,
    /// The newest run of each host.
    runs: Vec<u64>,
    faults: [u64; Fault::ALL.len()],
    compared: u64,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan, mutation: Option<Mutation>) -> Outcome {
    let cluster = Cluster::new(plan, mutation);
    let mut run = Run {
        plan: plan.clone(),
        shared: Rc::new(Shared::new(plan.sectors, &cluster.records)),
        cluster,
        rng: Rng::stream(plan.seed, 2),
        is_quiet: false,
        boots: 0,
        runs: vec![0; plan.hosts as usize],
        faults: [0; Fault::ALL.len()],
        compared: 0,
    };
    let violation = run.phases().err();
    let stats = run.cluster.world.stats();
    let outcome = Outcome {
        violation,
        digest: run.cluster.world.digest(),
        elapsed: Duration::from_nanos(run.cluster.world.now().0),
        events: stats.events,
        operations: run.shared.done.get(),
        failed: run.shared.failed.get(),
        faults: run.faults,
        compared: run.compared,
    };
    for index in 0..run.cluster.machines.len() {
        run.cluster.take_down(index, true);
    }
    outcome
}

impl Run {
    fn phases(&mut self) -> Result<(), Violation> {
        self.cluster.boot_directory();
        for index in 0..self.cluster.machines.len() {
            self.boot(index);
        }
        self.wait("all hosts ready", |run| run.all_ready())?;
        self.create_volume()?;
        for round in self.plan.rounds.clone() {
            self.round(round)?;
        }
        Ok(())
    }

    /// Load under faults, then everything healed and everything checked.
    fn round(&mut self, round: Round) -> Result<(), Violation> {
        tracing::info!(?round, "a round begins");
        self.is_quiet = round.is_quiet;
        self.shared.is_open.set(true);
        let warm_up = Duration::from_millis(300 + self.rng.below(1500));
        self.run_for(warm_up)?;
        self.tell(round.story)?;
        self.heal();
        self.wait("all hosts ready again", |run| run.all_ready())?;
        if self.shared.is_open.get() {
            self.wait("volume green under load", |run| run.is_green())?;
            self.shared.is_open.set(false);
        }
        self.wait("operations ended", |run| run.shared.running.get() == 0)?;
        self.wait("volume green at rest", |run| run.is_green())?;
        self.read_everything()?;
        self.compared += mirrors::compare(&self.cluster).map_err(Violation::Mirrors)?;
        Ok(())
    }

    /// The fault that matters comes now: in a quiet round the load ends before it.
    pub(crate) fn decisive(&self) {
        if self.is_quiet {
            self.shared.is_open.set(false);
        }
    }

    /// Lets `d` pass and looks at what the clients saw.
    pub(crate) fn run_for(&self, d: Duration) -> Result<(), Violation> {
        self.cluster.world.run_for(d);
        self.check_reads()
    }

    fn boot(&mut self, index: usize) {
        self.boots += 1;
        self.runs[index] = self.boots;
        let (shared, boots, load) = (Rc::clone(&self.shared), self.boots, self.plan.load);
        let seed = self.plan.seed;
        self.cluster.boot(index, move |env, node| async move {
            let tasks = env::TaskSet::default();
            for number in 0..load.writers + load.readers {
                let client = Client {
                    env: env.clone(),
                    node: Rc::clone(&node),
                    shared: Rc::clone(&shared),
                    author: author(index, boots),
                    load,
                    is_reader: number >= load.writers,
                    rng: Rng::stream(seed, 1000 + boots * 64 + u64::from(number)),
                    name: format!("client {number} of host{}", index + 1),
                };
                tasks.spawn(&env, "client", client.run());
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

    /// The devices of a host are as good as new.
    pub(crate) fn clear_disks(&self, index: usize) {
        let (world, key) = (&self.cluster.world, self.cluster.machines[index].key);
        for device in ["cache", "capacity"] {
            if world.has_disk(key, device) {
                world.disk_error(key, device, DiskFault::Clear);
            }
        }
    }

    fn all_ready(&self) -> bool {
        (0..self.cluster.machines.len()).all(|index| self.cluster.node(index).is_some())
    }

    fn wait(
        &mut self,
        what: &str,
        mut is_true: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), Violation> {
        let until = self.cluster.world.now() + HEAL_MAX;
        while self.cluster.world.now() < until {
            self.cluster.world.run_for(Duration::from_millis(200));
            self.check_reads()?;
            if is_true(self) {
                return Ok(());
            }
        }
        Err(Violation::Stuck(format!("not '{what}' within {} s", HEAL_MAX.as_secs())))
    }

    pub(crate) fn check_reads(&self) -> Result<(), Violation> {
        match self.shared.wrong.borrow().clone() {
            None => Ok(()),
            Some((client, wrong)) => Err(Violation::Read { client, wrong }),
        }
    }

    /// Asks a host through its control door, in virtual time.
    fn ask(&self, index: usize, command: Command) -> Option<Reply> {
        let env = self.cluster.world.env(self.cluster.machines[index].key)?;
        let reply = Rc::new(RefCell::new(None));
        let (place, inner) = (Rc::clone(&reply), env.clone());
        let task = env.spawn("operator", async move {
            let answer = ask(&inner, command).await;
            *place.borrow_mut() = Some(answer);
        });
        self.cluster.world.run_until(Duration::from_secs(30), || reply.borrow().is_some());
        drop(task);
        let answer = reply.borrow_mut().take();
        answer.flatten()
    }

    fn create_volume(&mut self) -> Result<(), Violation> {
        let command = Command::VolumeCreate {
            name: VOLUME.to_owned(),
            size_bytes: self.plan.sectors * SECTOR_SIZE,
            ftt: self.plan.ftt,
        };
        let mut last = None;
        for _ in 0..20 {
            match self.ask(0, command.clone()) {
                Some(Reply::Ok(_)) => return Ok(()),
                other => last = other,
            }
            self.cluster.world.run_for(Duration::from_millis(500));
        }
        Err(Violation::Stuck(format!("the volume cannot be created: {last:?}")))
    }

    /// Whether every host says so: one that was cut off a moment ago knows no better.
    fn is_green(&mut self) -> bool {
        (0..self.cluster.machines.len()).all(|index| {
            let Some(Reply::Ok(value)) = self.ask(index, Command::Status) else { return false };
            let status = serde_json::from_value::<StatusReport>(value);
            status.is_ok_and(|status| status.health == Health::Green)
        })
    }

    pub(crate) fn any_host(&mut self) -> usize {
        self.rng.below(self.cluster.machines.len() as u64) as usize
    }

    /// A random fault on a random host.
    pub(crate) fn inject(&mut self, fault: Fault) {
        let index = self.any_host();
        self.inject_at(fault, index);
    }

    pub(crate) fn inject_at(&mut self, fault: Fault, index: usize) {
        let kind = Fault::ALL.iter().position(|other| *other == fault).unwrap_or(0);
        self.faults[kind] += 1;
        let key = self.cluster.machines[index].key;
        let other = self.cluster.machines[(index + 1) % self.cluster.machines.len()].key;
        let world = self.cluster.world.clone();
        match fault {
            Fault::Crash | Fault::Kill => self.take_down(index, fault == Fault::Crash),
            Fault::CrashAll => {
                for index in 0..self.cluster.machines.len() {
                    self.take_down(index, true);
                }
            }
            Fault::Boot => self.boot_what_is_down(false),
            Fault::Partition => world.partition(key, other, true),
            Fault::OneWay => world.cut_one_way(key, other, true),
            Fault::Isolate => {
                for machine in &self.cluster.machines {
                    if machine.key != key {
                        world.partition(key, machine.key, true);
                    }
                }
                world.partition(key, self.cluster.directory, true);
            }
            Fault::Reset => world.reset_links(key, other),
            Fault::Heal => world.heal_all(),
            Fault::Pause if world.is_up(key) => {
                let pause = Duration::from_millis(1 + self.rng.below(PAUSE_MAX_MS));
                world.pause(key, pause);
            }
            Fault::DirectoryAway if world.is_up(self.cluster.directory) => {
                world.kill(self.cluster.directory);
            }
            Fault::Pause | Fault::DirectoryAway | Fault::Calm => {}
        }
    }

    /// Power loss, or the end of the process.
    pub(crate) fn take_down(&mut self, index: usize, is_crash: bool) {
        if self.cluster.world.is_up(self.cluster.machines[index].key) {
            self.cluster.take_down(index, is_crash);
        }
    }

    fn boot_what_is_down(&mut self, all: bool) {
        for index in 0..self.cluster.machines.len() {
            let is_up = self.cluster.world.is_up(self.cluster.machines[index].key);
            if !is_up && (all || self.rng.below(3) > 0) {
                self.boot(index);
            }
        }
        if !self.cluster.world.is_up(self.cluster.directory) {
            self.cluster.boot_directory();
        }
    }

    fn heal(&mut self) {
        self.cluster.world.heal_all();
        for index in 0..self.cluster.machines.len() {
            self.clear_disks(index);
        }
        self.shared.only.set(None);
        self.boot_what_is_down(true);
    }

    /// One reader on each host in turn reads the whole volume.
    fn read_everything(&mut self) -> Result<(), Violation> {
        for index in 0..self.cluster.machines.len() {
            let key = self.cluster.machines[index].key;
            let (Some(env), Some(node)) = (self.cluster.world.env(key), self.cluster.node(index))
            else {
                return Err(Violation::Stuck(format!("host{} is down", index + 1)));
            };
            let shared = Rc::clone(&self.shared);
            let is_done = Rc::new(RefCell::new(None));
            let place = Rc::clone(&is_done);
            let name = format!("last check on host{}", index + 1);
            let author = author(index, self.runs[index]);
            let whole = SectorRange::new(0, self.plan.sectors);
            let task = env.spawn("last check", async move {
                let outcome = match node.exports().attach(VOLUME) {
                    Err(error) => Err(error.to_string()),
                    Ok(device) => {
                        let mut outcome = Ok(());
                        for piece in whole.split_at_multiples(CHUNK_SECTORS) {
                            let read = workload::read(&device, piece, &shared, author, &name).await;
                            outcome = outcome.and(read.map_err(|error| error.to_string()));
                        }
                        outcome
                    }
                };
                *place.borrow_mut() = Some(outcome);
            });
            self.cluster.world.run_until(HEAL_MAX, || is_done.borrow().is_some());
            drop(task);
            self.check_reads()?;
            let outcome = is_done.borrow_mut().take();
            match outcome {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    return Err(Violation::Stuck(format!(
                        "host{} cannot read: {error}",
                        index + 1
                    )));
                }
                None => return Err(Violation::Stuck(format!("host{} reads for ever", index + 1))),
            }
        }
        Ok(())
    }
}

/// The clients of a host's run.
fn author(index: usize, run: u64) -> Author {
    Author { host: index as u32, run }
}
