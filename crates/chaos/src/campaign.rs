// SPDX-License-Identifier: Apache-2.0
//! A campaign: load without end, rounds of faults with healthy times between them, damage to
//! devices last, and at the end every sector of every volume through every host.

use crate::client::{LoadClient, LoadShared, Subject, lock};
use crate::cluster::RealCluster;
use crate::fault::{FaultKind, FaultRound, FaultSchedule, HOSTS, PEACE_MAX};
use crate::record::Occurrence;
use crate::{check, inject};
use anyhow::{Context, Result};
use base::{Rng, SECTOR_SIZE};
use indicatif::ProgressBar;
use nbdclient::socket::ReplyForm;
use oracle::Oracle;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The cluster must be whole within this time after the last fault.
const GREEN_WITHIN: Duration = Duration::from_secs(120);
/// Every operation must have ended within this time: a host answers EIO after 60 seconds.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(75);
/// Requests under way per client. The clients take these numbers in turn.
const DEPTHS: [usize; 3] = [1, 4, 16];
const READER_DEPTH: usize = 2;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is asked of a campaign.
#[derive(Clone, Debug)]
pub struct ChaosPlan {
    /// The program.
    pub gabion: PathBuf,
    /// The seed of all draws.
    pub seed: u64,
    /// How long new rounds of drawn faults begin.
    pub duration: Duration,
    /// These faults, each once and in this order, instead of drawn ones.
    pub faults: Vec<FaultKind>,
    /// Whether devices are damaged at the end of drawn faults.
    pub has_devices: bool,
    /// Volumes.
    pub volumes: usize,
    /// Bytes of each.
    pub volume_bytes: u64,
    /// Seconds after which missing copies are made again; `None`: not within a campaign.
    pub repair_delay: Option<u64>,
    /// Whether files stay where something was wrong.
    pub is_kept: bool,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for is so.
    Met,
    /// It was not so in time.
    Late,
    /// The campaign is to end.
    CutShort,
}

/// A campaign under way. Its processes end before its clients are waited for.
pub struct Campaign {
    /// The cluster.
    pub cluster: RealCluster,
    /// What clients share.
    pub shared: Arc<LoadShared>,
    /// The volumes.
    pub subjects: Vec<Arc<Subject>>,
    /// Random numbers for what is not in the schedule.
    pub rng: Rng,
    /// The host whose device was damaged: no other one's ever is.
    pub damaged: Option<usize>,
    /// What went wrong, besides wrong sectors.
    pub troubles: Vec<String>,
    /// Remarks for the report.
    pub notes: Vec<String>,
    /// When it began to load the cluster.
    pub begun: Instant,
    interrupted: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
    bar: ProgressBar,
}

impl Campaign {
    /// Makes the cluster, its volumes and their clients.
    ///
    /// # Errors
    /// Whatever step failed; what was made is gone.
    pub fn start(
        plan: &ChaosPlan,
        interrupted: &Arc<AtomicBool>,
        bar: ProgressBar,
    ) -> Result<Self> {
        let shared = Arc::new(LoadShared::default());
        bar.set_message("makes three machines, etcd and a cluster");
        let mut cluster = RealCluster::create(&plan.gabion, &shared)?;
        cluster.area.is_kept = plan.is_kept;
        if let Some(seconds) = plan.repair_delay {
            cluster.ask(0, &["cluster", "set", "repair-delay", &format!("{seconds}s")])?;
        }
        let mut subjects = Vec::new();
        for number in 0..plan.volumes {
            let name = format!("chaos{}", number + 1);
            let bytes = plan.volume_bytes.to_string();
            cluster.ask(
                number % HOSTS,
                &["volume", "create", &name, "--size", &bytes, "--writers", "any"],
            )?;
            let oracle = Mutex::new(Oracle::new(plan.volume_bytes / SECTOR_SIZE));
            subjects.push(Arc::new(Subject { name, oracle }));
        }
        let mut campaign = Self {
            cluster,
            shared,
            subjects,
            rng: Rng::stream(plan.seed, 2),
            damaged: None,
            troubles: Vec::new(),
            notes: Vec::new(),
            begun: Instant::now(),
            interrupted: Arc::clone(interrupted),
            clients: Vec::new(),
            bar,
        };
        campaign.start_clients(plan.seed)?;
        Ok(campaign)
    }

    fn start_clients(&mut self, seed: u64) -> Result<()> {
        for (volume, subject) in self.subjects.iter().enumerate() {
            for place in 0..=HOSTS {
                let is_reader = place == HOSTS;
                let host = if is_reader { (volume + 1) % HOSTS } else { place };
                let number = self.clients.len();
                let depth = if is_reader { READER_DEPTH } else { DEPTHS[(place + volume) % 3] };
                let client = LoadClient {
                    number,
                    host,
                    socket: self.cluster.socket(host),
                    subject: Arc::clone(subject),
                    shared: Arc::clone(&self.shared),
                    depth,
                    is_reader,
                    // Every volume has clients of both forms on every host but one.
                    form: match number % 2 {
                        0 => ReplyForm::Structured,
                        _ => ReplyForm::Simple,
                    },
                    rng: Rng::stream(seed, 1000 + u64::try_from(number)?),
                };
                let thread = thread::Builder::new().name(format!("client {number}"));
                let started = thread.spawn(move || client.run());
                self.clients.push(started.context("cannot start a client")?);
            }
        }
        Ok(())
    }

    /// Runs the plan to its end, or until something is wrong.
    ///
    /// # Errors
    /// The campaign itself could not go on: a command failed.
    pub fn run(&mut self, plan: &ChaosPlan) -> Result<()> {
        self.open();
        self.rest(Duration::from_secs(2));
        if plan.faults.is_empty() {
            self.run_drawn(plan)?;
        } else {
            let mut rng = Rng::stream(plan.seed, 1);
            for kind in &plan.faults {
                self.one(*kind, &mut rng)?;
            }
        }
        if self.may_go_on() {
            self.check_all()?;
        }
        lock(&self.shared.record).judge_peace(PEACE_MAX);
        Ok(())
    }

    fn run_drawn(&mut self, plan: &ChaosPlan) -> Result<()> {
        let mut kinds = FaultKind::DRAWN.to_vec();
        if !self.cluster.network.can_disturb() {
            kinds.retain(|kind| *kind != FaultKind::Netem);
            self.notes.push("this kernel has no netem: no late and lost packets".to_owned());
        }
        let mut schedule = FaultSchedule::new(plan.seed, &kinds);
        while self.may_go_on() && self.begun.elapsed() < plan.duration {
            let round = schedule.next_round();
            self.round(&round)?;
        }
        if plan.has_devices {
            let mut rng = Rng::stream(plan.seed, 3);
            self.one(FaultKind::Full, &mut rng)?;
            for kind in [FaultKind::Unlink, FaultKind::FlipUp, FaultKind::FlipDown] {
                self.one(kind, &mut rng)?;
            }
            if self.may_go_on() {
                self.check_all()?;
                self.open();
            }
            self.one(FaultKind::Truncate, &mut rng)?;
        }
        Ok(())
    }

    fn one(&mut self, kind: FaultKind, rng: &mut Rng) -> Result<()> {
        if !self.may_go_on() {
            return Ok(());
        }
        match kind {
            FaultKind::FlipUp | FaultKind::FlipDown => self.flip(kind),
            FaultKind::Unlink => self.unlink(),
            FaultKind::Truncate => self.truncate(),
            FaultKind::Full => self.fill_up(),
            _ => self.round(&FaultRound::single(kind, rng)),
        }
    }

    /// Whether nothing was wrong so far and nobody asked for the end.
    pub fn may_go_on(&self) -> bool {
        let is_over = self.shared.is_over.load(Ordering::SeqCst);
        self.troubles.is_empty() && !is_over && !self.interrupted.load(Ordering::SeqCst)
    }

    /// Lets clients begin operations.
    pub fn open(&self) {
        self.shared.is_open.store(true, Ordering::SeqCst);
    }

    /// Waits until all clients have their answers, and lets them begin no more.
    pub fn close(&mut self) {
        self.shared.is_open.store(false, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        let is_idle = || shared.serving.load(Ordering::SeqCst) == 0;
        if self.wait(ANSWER_WITHIN, is_idle) == Waited::Late {
            self.troubles.push(format!("clients have no answer after {ANSWER_WITHIN:?}"));
        }
    }

    /// Waits for a time, or for the end.
    pub fn rest(&self, time: Duration) {
        self.wait(time, || false);
    }

    /// Waits until `is_so`, but not longer than `at_most`, and not once the campaign is to end.
    pub fn wait(&self, at_most: Duration, mut is_so: impl FnMut() -> bool) -> Waited {
        let begun = Instant::now();
        loop {
            if !self.may_go_on() {
                return Waited::CutShort;
            }
            if is_so() {
                return Waited::Met;
            }
            if begun.elapsed() > at_most {
                return Waited::Late;
            }
            let operations = lock(&self.shared.record).operations();
            self.bar.set_message(format!("{operations} operations"));
            thread::sleep(LOOK_EVERY);
        }
    }

    fn round(&mut self, round: &FaultRound) -> Result<()> {
        self.rest(round.gap);
        let begun = Instant::now();
        let interrupted = Arc::clone(&self.interrupted);
        let shared = Arc::clone(&self.shared);
        let is_over =
            move || interrupted.load(Ordering::SeqCst) || shared.is_over.load(Ordering::SeqCst);
        self.note_round_begins(round);
        inject::run(&mut self.cluster, &round.faults, &is_over)?;
        let occurrence = Occurrence {
            label: round.label(),
            begun,
            healed: Instant::now(),
            green_after: None,
            victims: round.victims(),
            stall_max: round.stall_max(),
            is_beyond: round.is_beyond(),
            is_cut_short: !self.may_go_on(),
        };
        self.conclude(occurrence);
        Ok(())
    }

    fn note_round_begins(&self, round: &FaultRound) {
        for fault in &round.faults {
            let at = (self.begun.elapsed() + fault.after).as_secs_f64();
            let (kind, hold) = (fault.kind, fault.hold.as_secs_f64());
            let (host, other) = (fault.host + 1, fault.other + 1);
            self.say(&format!("{at:7.1} s  {kind}: host{host} (host{other}) for {hold:.1} s"));
        }
    }

    /// Waits until the cluster is whole and every operation that had begun before is answered.
    /// Returns how long it took to be whole. Nothing if it did not become so, or if the campaign
    /// was to end before: then nobody knows whether it would have.
    pub fn recover(&mut self, label: &str) -> Option<Duration> {
        let (mut trouble, healed) = (None, Instant::now());
        let cluster = &self.cluster;
        let whole = self.wait(GREEN_WITHIN, || {
            trouble = cluster.trouble();
            trouble.is_none()
        });
        let whole_after = healed.elapsed();
        let shared = Arc::clone(&self.shared);
        let is_answered = || shared.oldest().is_none_or(|at| at > healed);
        let answered = self.wait(ANSWER_WITHIN, is_answered);
        let is_over = answered == Waited::CutShort;
        let green_after = Some(whole_after).filter(|_| whole == Waited::Met && !is_over);
        if let (Waited::Late, Some(trouble)) = (whole, trouble) {
            let stuck = format!("stuck {GREEN_WITHIN:?} after {label}: {trouble}");
            self.troubles.push(stuck);
        }
        if answered == Waited::Late {
            let text = format!("no answer {ANSWER_WITHIN:?} after {label} was healed");
            self.troubles.push(text);
        }
        self.troubles.extend(self.cluster.ended());
        green_after
    }

    /// After the last fault of a round: waits until all is well, and notes it.
    pub fn conclude(&mut self, mut occurrence: Occurrence) {
        occurrence.green_after = self.recover(&occurrence.label);
        // What got stuck is a round to the end. A round that nobody saw the end of is none.
        let is_stuck = !self.troubles.is_empty();
        occurrence.is_cut_short |= occurrence.green_after.is_none() && !is_stuck;
        if occurrence.is_cut_short {
            self.notes.push(format!("cut short: {}", occurrence.label));
            return lock(&self.shared.record).occurred(occurrence);
        }
        let record = Arc::clone(&self.shared);
        let mut record = lock(&record.record);
        let (others, own) = (record.stall(&occurrence, false), record.stall(&occurrence, true));
        let green = occurrence.green_after.unwrap_or_default().as_secs_f64();
        record.occurred(occurrence);
        drop(record);
        let (others, own) = (others.as_secs_f64(), own.as_secs_f64());
        let at = self.begun.elapsed().as_secs_f64();
        self.say(&format!(
            "{at:7.1} s    stall {others:.2} s, where it was {own:.2} s; green after {green:.1} s"
        ));
    }

    /// Reads every volume wholly through every host, without load.
    ///
    /// # Errors
    /// A host cannot be reached.
    pub fn check_all(&mut self) -> Result<()> {
        self.close();
        for host in 0..HOSTS {
            for subject in self.subjects.clone() {
                self.check_one(&subject, host)?;
            }
        }
        Ok(())
    }

    /// Reads one volume wholly through one host: every sector must come, and be right.
    ///
    /// # Errors
    /// The host cannot be reached.
    pub fn check_one(&mut self, subject: &Subject, host: usize) -> Result<()> {
        if !self.may_go_on() {
            return Ok(());
        }
        let socket = self.cluster.socket(host);
        let read = check::read_whole(&self.shared, subject, host, &socket, ANSWER_WITHIN)?;
        if read.failed > 0 {
            let (name, host) = (&subject.name, host + 1);
            let how = &read.how;
            let text = format!("{} MiB of {name} cannot be read: {how} (host{host})", read.failed);
            self.troubles.push(text);
        }
        Ok(())
    }

    /// Tells the operator.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Ends clients and processes.
    pub fn stop(mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Clients wait for answers on sockets, which end with the hosts' processes.
        self.cluster.kill(&[0, 1, 2]);
        for client in self.clients.drain(..) {
            // A client that panicked was noticed as a request without an answer.
            let _ = client.join();
        }
        self.bar.finish_and_clear();
    }
}
