// SPDX-License-Identifier: Apache-2.0
//! Checks of volumes, their copies, and what clients get.

use super::check::{Fact, HealthCheck, red, time, yellow};
use super::facts::HealthFacts;
use super::hosts::{START_HERE, START_THERE, start};
use crate::report::{ComplianceState, Health, HostReport, ResyncReport, VolumeReport};

/// Volumes that are repaired one by one; of more all are.
const REPAIRED_ALONE: usize = 3;
/// Nothing was copied for so long: it stands still.
const STANDS_AFTER: u64 = 60;
/// A copy that takes longer leaves its volume reduced for too long.
const COPY_SECONDS_MAX: u64 = 86_400;

const VOLUME_SHOW: &str = "gabion volume show VOLUME";
const REPAIR: &str = "gabion repair now VOLUME";
const REPAIR_ALL: &str = "gabion repair now";
const RECOVER: &str = "gabion volume recover VOLUME --check";
const FOLLOW: &str = "gabion volume set-policy VOLUME POLICY";
const EXPLAIN: &str = "gabion volume explain VOLUME";
const NO_LIMIT: &str = "gabion resync limit none";
const RESYNCS: &str = "gabion resync list";
const TAKE_OVER: &str = "gabion volume takeover VOLUME --host HOST";
const REDUCED: &str = "gabion volume list --health yellow";
const SERVING: &str = "gabion group list";

pub(super) const CHECKS: &[HealthCheck] = &[
    HealthCheck {
        id: "objects.accessible",
        title: "All volumes can be used",
        looks_at: "whether each part of each volume has a whole copy that answers",
        limits: "red: a part of one has none",
        means: "Its I/O stands still until a whole copy is back. Nothing is lost by waiting.",
        well: "all volumes can be used",
        mend: &[START_HERE, START_THERE, VOLUME_SHOW, RECOVER],
        worse_after: 3,
        look: accessible,
    },
    HealthCheck {
        id: "objects.redundancy",
        title: "All copies are there",
        looks_at: "whether each volume has as many whole copies that answer as it is to have",
        limits: "yellow: one has fewer",
        means: "Nothing is lost, but the volume survives fewer failures than it is to.",
        well: "all volumes have all of their copies",
        mend: &[START_HERE, START_THERE, REPAIR, REPAIR_ALL, VOLUME_SHOW],
        worse_after: 3,
        look: redundancy,
    },
    HealthCheck {
        id: "objects.compliance",
        title: "Volumes are as their rules ask for",
        looks_at: "the compliance of volumes that have all copies: policy, place, stripes, home, \
                   read cache",
        limits: "yellow: one is not compliant, and nothing is under way that makes it so",
        means: "The data is as safe as its copies are; where they are, or how fast they are, is \
                not what was asked for.",
        well: "all volumes are as their rules ask for",
        mend: &[FOLLOW, EXPLAIN],
        worse_after: 10,
        look: compliance,
    },
    HealthCheck {
        id: "objects.resync",
        title: "Copies that are behind catch up",
        looks_at: "the rate of each copy that is being filled, and how long it still takes",
        limits: "yellow: nothing of one was copied in the last seconds, a minute after it began \
                 or later; one takes more than a day; all wait for two minutes",
        means: "The volume survives fewer failures than it is to until its copy is whole.",
        well: "copies that are behind catch up, or there are none",
        mend: &[NO_LIMIT, RESYNCS],
        worse_after: 20,
        look: resync,
    },
    HealthCheck {
        id: "objects.failures",
        title: "No request of a client fails",
        looks_at: "requests of clients that failed at each shard of this host in ten minutes",
        limits: "yellow: one or more",
        means: "A program got an I/O error, and a file system may be read-only since.",
        well: "no request of a client failed in ten minutes",
        mend: &[REDUCED, SERVING],
        worse_after: 0,
        look: failures,
    },
    HealthCheck {
        id: "objects.writers",
        title: "Who is to write may write",
        looks_at: "changes of the writing host that wait",
        limits: "yellow: one waits for half a minute",
        means: "The host that is to write to the volume cannot yet, because the one of before may \
                still do so.",
        well: "no change of a writing host waits",
        mend: &[TAKE_OVER],
        worse_after: 30,
        look: writers,
    },
];

/// Starts the hosts that are away and have a copy of the volume.
fn started(mut fact: Fact, volume: &VolumeReport, missed: &[&HostReport]) -> Fact {
    for host in missed {
        if volume.components.iter().any(|part| part.host == host.name) {
            fact = start(fact, host);
        }
    }
    fact
}

fn of_health(facts: &HealthFacts, health: Health) -> Option<Vec<&VolumeReport>> {
    let volumes = &facts.status.as_ref()?.volumes;
    Some(volumes.iter().filter(|volume| volume.health == health).collect())
}

fn accessible(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let missed = facts.missed();
    let wrong = of_health(facts, Health::Red)?.into_iter().map(|volume| {
        let name = [("VOLUME", volume.name.as_str())];
        let fact = red(format!("{} has no whole copy that answers", volume.name));
        let fact = started(fact, volume, &missed);
        fact.mended_by(VOLUME_SHOW, &name).mended_by(RECOVER, &name)
    });
    Some(wrong.collect())
}

fn redundancy(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let missed = facts.missed();
    let volumes = of_health(facts, Health::Yellow)?;
    let are_many = volumes.len() > REPAIRED_ALONE;
    let wrong = volumes.into_iter().map(|volume| {
        let reduced = volume.reduced_seconds.filter(|seconds| *seconds > 0);
        let since = reduced.map(|seconds| format!(" for {}", time(seconds))).unwrap_or_default();
        let next = match (volume.copied_in_seconds, &volume.not_repaired, volume.repair_in_seconds)
        {
            (Some(left), ..) => format!("what it lacks is copied within {}", time(left)),
            (None, Some(why), _) => why.clone(),
            (None, None, Some(left)) if left > 0 => format!("repair in {}", time(left)),
            (None, None, Some(_)) => "repair begins".to_owned(),
            (None, None, None) => "no repair is due".to_owned(),
        };
        let name = [("VOLUME", volume.name.as_str())];
        let fact = yellow(format!("{} has had too few copies{since}: {next}", volume.name));
        let fact = started(fact, volume, &missed);
        match missed.is_empty() {
            true => fact.mended_by(VOLUME_SHOW, &name),
            false if are_many => fact.mended_by(REPAIR_ALL, &[]),
            false => fact.mended_by(REPAIR, &name),
        }
    });
    Some(wrong.collect())
}

fn compliance(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let is_wrong =
        |volume: &&VolumeReport| volume.compliance.state == ComplianceState::NotCompliant;
    let wrong = of_health(facts, Health::Green)?.into_iter().filter(is_wrong).map(|volume| {
        let name = volume.name.as_str();
        let fact = yellow(format!("{name}: {}", volume.compliance.why.join("; ")));
        let stale = volume.policy.as_ref().filter(|policy| policy.newest != Some(policy.version));
        match stale.filter(|policy| policy.newest.is_some()) {
            Some(policy) => fact.mended_by(FOLLOW, &[("VOLUME", name), ("POLICY", &policy.name)]),
            None => fact.mended_by(EXPLAIN, &[("VOLUME", name)]),
        }
    });
    Some(wrong.collect())
}

fn resync(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let resyncs = &facts.status.as_ref()?.resyncs;
    let what = |one: &ResyncReport| format!("the copy of {} on {}", one.volume, one.host);
    let copying = resyncs.iter().filter(|one| one.waits.is_none());
    let mut wrong: Vec<Fact> = copying
        .clone()
        .filter_map(|one| match one.seconds_left {
            _ if one.bytes_left == 0 => None,
            Some(left) if left > COPY_SECONDS_MAX => {
                Some(format!("{} takes {} more", what(one), time(left)))
            }
            _ if one.bytes_per_second == 0 && one.seconds > STANDS_AFTER => {
                Some(format!("nothing is copied to {} any more", what(one)))
            }
            _ => None,
        })
        .map(|line| yellow(line).mended_by(NO_LIMIT, &[]).mended_by(RESYNCS, &[]))
        .collect();
    if copying.count() == 0 {
        let waiting = resyncs.iter().filter_map(|one| Some((one, one.waits.as_ref()?)));
        wrong.extend(waiting.map(|(one, why)| {
            yellow(format!("{} waits: {why}", what(one))).mended_by(RESYNCS, &[])
        }));
    }
    Some(wrong)
}

fn failures(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let gained = facts.gained()?.into_iter().filter(|gained| gained.failed > 0);
    let wrong = gained.map(|gained| {
        let line = format!("{} request(s) at {} failed", gained.failed, gained.shard);
        yellow(line).mended_by(REDUCED, &[]).mended_by(SERVING, &[])
    });
    Some(wrong.collect())
}

fn writers(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let volumes = facts.status.as_ref()?.volumes.iter();
    let waiting = volumes.filter(|volume| !volume.writer.waits_for.is_empty());
    let wrong = waiting.filter_map(|volume| {
        let (name, host) = (volume.name.as_str(), volume.writer.host.as_deref()?);
        let why = volume.writer.waits_for.join(", ");
        let line = format!("{host} may not write to {name} yet: that waits for {why}");
        Some(yellow(line).mended_by(TAKE_OVER, &[("VOLUME", name), ("HOST", host)]))
    });
    Some(wrong.collect())
}
