// SPDX-License-Identifier: Apache-2.0
//! Volumes that one host writes to at a time: now and then an operator has another host take one
//! over (rules 54 to 57), whatever else goes on. From the answer on nothing takes effect that was
//! sent through any other host.

use crate::cluster::{Asking, Cluster};
use crate::plan::{Plan, VolumePlan};
use crate::workload::VolumeLoad;
use base::{Instant, Rng};
use directory::Writers;
use operator::{Command, CommandReply, VolumeReport};
use std::rc::Rc;
use std::time::Duration;

/// The random numbers of these operators.
const STREAM: u64 = 40;
/// Longest pause between two of their commands.
const PAUSE_MAX_MS: u64 = 20_000;
/// How long an operator waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The operators of a seed.
pub(crate) struct TakeOvers {
    rng: Rng,
    next_at: Instant,
    asked: Option<Asked>,
}

struct Asked {
    volume: usize,
    /// Who is to write.
    host: usize,
    asking: Asking,
    until: Instant,
}

impl TakeOvers {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::stream(seed, STREAM), next_at: Instant::default(), asked: None }
    }

    /// Notes the answer to what was asked last, if there is one, and asks for another take-over if
    /// it is time for that.
    pub(crate) fn go_on(&mut self, plan: &Plan, cluster: &Cluster, all: &[Rc<VolumeLoad>]) {
        let now = cluster.world.now();
        if let Some(asked) = self.asked.take() {
            if !asked.asking.is_over() && now < asked.until {
                self.asked = Some(asked);
                return;
            }
            note(cluster, all, asked);
            self.next_at = now + Duration::from_millis(self.rng.below(PAUSE_MAX_MS));
        }
        let is_one =
            |at: &usize| plan.volumes[*at].writers == Writers::One && all[*at].is_open.get();
        let volumes: Vec<usize> = (0..plan.volumes.len()).filter(is_one).collect();
        if volumes.is_empty() || now < self.next_at {
            return;
        }
        let volume = volumes[self.below(volumes.len())];
        let hosts = &plan.volumes[volume].clients;
        let host = hosts[self.below(hosts.len())];
        let through = self.below(cluster.machines.len());
        let until = now + PATIENCE;
        if let Some(asking) = cluster.asked(through, take_over(volume, host)) {
            self.asked = Some(Asked { volume, host, asking, until });
        }
    }

    fn below(&mut self, count: usize) -> usize {
        let drawn = self.rng.below(u64::try_from(count).unwrap_or(1).max(1));
        usize::try_from(drawn).unwrap_or(0)
    }
}

/// The command that makes a host the writer of a volume.
pub(crate) fn take_over(volume: usize, host: usize) -> Command {
    Command::VolumeTakeOver { name: VolumePlan::name(volume), host: format!("host{}", host + 1) }
}

/// A take-over that is told as done: where nobody became the writer since, the windows of what was
/// sent through other hosts are over.
fn note(cluster: &Cluster, all: &[Rc<VolumeLoad>], asked: Asked) {
    let Asked { volume, host, asking, .. } = asked;
    let answer = asking.take();
    tracing::info!(volume, host = host + 1, ?answer, "take-over");
    let Some(CommandReply::Ok(report)) = answer else { return };
    let Ok(report) = serde_json::from_value::<VolumeReport>(report) else { return };
    let shared = &all[volume];
    let now = cluster.records.writing(&shared.volume);
    if now.is_some_and(|now| now.epoch.0 == report.writer.epoch) {
        base::hit(base::Probe::WriterShutOut);
        shared.note_writers();
        let writer = u32::try_from(host).unwrap_or(u32::MAX);
        shared.oracle.borrow_mut().each(|oracle| oracle.fenced(writer));
    }
}

impl VolumeLoad {
    /// Tells the oracle which hosts may write again.
    pub(crate) fn note_writers(&self) {
        let changes = self.records.writers_since(&self.volume, &self.writers_seen);
        self.oracle.borrow_mut().admitted(&changes);
    }
}
