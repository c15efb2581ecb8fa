// SPDX-License-Identifier: Apache-2.0
//! Checks of hosts, of the network between them, and of their clocks.

use super::check::{Fact, HealthCheck, red, time, yellow};
use super::facts::{HealthFacts, ShardCounts, WINDOW_SECONDS};
use crate::report::{HostReport, HostState, by_host};

/// A host that was away for so long may be gone for good.
const GONE_AFTER: u64 = 3600;
/// A task that keeps a shard's thread for so long makes others take the shard for silent.
const TURN_MS_MAX: f64 = 1000.0;
/// Links that a shard may drop for silence in the window.
const SILENT_LINKS_MAX: u64 = 3;
/// So many measured writes are enough to judge the way to other hosts.
const WRITES_MIN: u64 = 20;
/// What a copy on another host may take on average, microseconds, and how many times as long as
/// one on the host itself, before the way between them is told of.
const THERE_US_MAX: u64 = 20_000;
const THERE_TIMES_MAX: u64 = 4;
/// So far ahead of this machine's clock a time in a record may lie.
const AHEAD_MAX: u64 = 5;

/// Starts a host: of a cluster on one machine, and on a machine of its own.
pub(super) const START_HERE: &str = "gabion host start HOST";
pub(super) const START_THERE: &str = "ssh HOST systemctl start gabion";
const REMOVE: &str = "gabion host remove HOST --lost";
const UP: &str = "gabion up --detach";
const HOST_SHOW: &str = "gabion host show HOST";
const EXIT: &str = "gabion host maintenance exit HOST";
const SET_CLOCK: &str = "timedatectl set-ntp true";

pub(super) const CHECKS: &[HealthCheck] = &[
    HealthCheck {
        id: "hosts.answering",
        title: "All hosts answer",
        looks_at: "which hosts hold their lease and answer pings, as shards of this host see it",
        limits: "yellow: a host has not answered for 3 s and is not in maintenance; red: more \
                 than half of the hosts are away, or no shard of this host answers",
        means: "Volumes with a copy there are served by their other copies, and one more loss may \
                stop them. After the repair delay the copies are made again on other hosts.",
        well: "all hosts answer",
        mend: &[START_HERE, START_THERE, REMOVE, UP],
        worse_after: 3,
        look: answering,
    },
    HealthCheck {
        id: "hosts.maintenance",
        title: "No host is in maintenance",
        looks_at: "which hosts an operator has put into maintenance",
        limits: "yellow: one is",
        means: "It gets no new copies, and while it is stopped its volumes have fewer copies.",
        well: "no host is in maintenance",
        mend: &[EXIT],
        worse_after: 0,
        look: maintenance,
    },
    HealthCheck {
        id: "hosts.threads",
        title: "No task holds a host's thread up",
        looks_at: "the longest turn of each shard's thread since its start",
        limits: "yellow: it took 1 s or more, and was in the last ten minutes",
        means: "I/O through the shard stood still for that long, and others may have taken it for \
                silent.",
        well: "no task held a host's thread up for long",
        mend: &[HOST_SHOW],
        worse_after: 0,
        look: threads,
    },
    HealthCheck {
        id: "network.pairs",
        title: "Each host hears each other one",
        looks_at: "which shards each shard of this host hears, by the pings of the data path",
        limits: "yellow: a shard has not been heard for 2 s by one that another one hears, for 5 s",
        means: "Copies behind that link are marked absent and copied anew, again and again.",
        well: "each shard hears all others",
        mend: &[HOST_SHOW],
        worse_after: 5,
        look: pairs,
    },
    HealthCheck {
        id: "network.links",
        title: "Links between hosts last",
        looks_at: "links that each shard dropped because nothing came any more, in ten minutes",
        limits: "yellow: more than 3 of one shard",
        means: "Each costs the writes under way a wait of some seconds. Look at cables, switches \
                and MTU between the hosts, or for a host that stands still.",
        well: "no links are dropped for silence",
        mend: &[HOST_SHOW],
        worse_after: 0,
        look: links,
    },
    HealthCheck {
        id: "network.latency",
        title: "Copies on other hosts are fast",
        looks_at: "how long measured writes took to be durable on other hosts and on the owner's \
                   own, in ten minutes; the other hosts together",
        limits: "yellow: 20 ms and more on average, and more than 4 times as long as here, of 20 \
                 measured writes or more",
        means: "Every write waits for its slowest copy: clients wait for the network, or for a \
                host that is slow.",
        well: "writes to other hosts take about as long as here",
        mend: &[HOST_SHOW],
        worse_after: 20,
        look: latency,
    },
    HealthCheck {
        id: "clocks.records",
        title: "No record is of the future",
        looks_at: "when tokens were made and volumes deleted, by the clocks of the hosts that did \
                   it, beside the clock of this machine",
        limits: "yellow: more than 5 s from now",
        means: "No data depends on clocks. How long deleted volumes are kept, when tokens expire \
                and the times in logs do.",
        well: "no record has a time that is still to come",
        mend: &[SET_CLOCK],
        worse_after: 0,
        look: clocks,
    },
];

/// The command that starts a host. Hosts of a cluster on one machine reach each other by its
/// loopback.
pub(super) fn start(fact: Fact, host: &HostReport) -> Fact {
    let is_here = host.peer.starts_with("127.") || host.peer.starts_with("[::1]");
    let template = if is_here || host.peer.contains('/') { START_HERE } else { START_THERE };
    fact.mended_by(template, &[("HOST", host.host())])
}

fn answering(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let Some(status) = &facts.status else {
        return Some(vec![red("no shard of this host answers").mended_by(UP, &[])]);
    };
    let missed = facts.missed();
    let hosts = by_host(&status.hosts);
    let is_missed = |name: &str| missed.iter().any(|shard| shard.host() == name);
    let away = hosts.iter().filter(|(name, _)| is_missed(name)).count();
    let wrong = missed.into_iter().map(|shard| {
        let silent = shard.silent_seconds.filter(|silent| *silent > 0);
        let line = match (shard.state, silent) {
            (HostState::Down, None) => format!("{} is down", shard.name),
            (HostState::Down, Some(silent)) => {
                format!("{} is down, and has not answered for {}", shard.name, time(silent))
            }
            (_, None) => format!("{} does not answer", shard.name),
            (_, Some(silent)) => format!("{} has not answered for {}", shard.name, time(silent)),
        };
        let fact = if away * 2 > hosts.len() { red(line) } else { yellow(line) };
        let fact = start(fact, shard);
        match shard.state == HostState::Down && silent.is_some_and(|silent| silent > GONE_AFTER) {
            true => fact.mended_by(REMOVE, &[("HOST", shard.host())]),
            false => fact,
        }
    });
    Some(wrong.collect())
}

fn maintenance(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let hosts = by_host(&facts.status.as_ref()?.hosts);
    let stopped = hosts.into_iter().filter_map(|(name, shards)| {
        let told = shards.into_iter().find_map(|shard| shard.maintenance.as_ref())?;
        let line = format!("{name} is in maintenance ({})", told.mode.name());
        Some(yellow(line).mended_by(EXIT, &[("HOST", name)]))
    });
    Some(stopped.collect())
}

fn threads(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let turns = &facts.status.as_ref()?.turns;
    let long = turns.iter().filter(|one| {
        let ago = one.longest_seconds_ago.unwrap_or(f64::MAX);
        one.longest_ms >= TURN_MS_MAX && ago <= Seconds(WINDOW_SECONDS).real()
    });
    let wrong = long.map(|one| {
        let task = one.longest_task.as_deref().unwrap_or("one");
        let line = format!("on {} task '{task}' took {:.0} ms", one.host, one.longest_ms);
        yellow(line).mended_by(HOST_SHOW, &[("HOST", &one.host)])
    });
    Some(wrong.collect())
}

/// Seconds that are to be compared with parts of seconds.
struct Seconds(u64);

impl Seconds {
    fn real(&self) -> f64 {
        std::time::Duration::from_secs(self.0).as_secs_f64()
    }
}

fn pairs(facts: &HealthFacts) -> Option<Vec<Fact>> {
    if facts.metrics.is_empty() {
        return None;
    }
    let hears = |by: &str, other: &str| {
        let said = facts.metrics.iter().find(|said| said.status.host == by);
        let mut hosts = said.into_iter().flat_map(|said| &said.status.hosts);
        hosts.any(|host| host.name == other && host.silent_seconds.is_none())
    };
    let mut wrong = Vec::new();
    for said in &facts.metrics {
        let by = &said.status.host;
        let silent = said.status.hosts.iter().filter(|host| {
            host.silent_seconds.is_some_and(|silent| silent >= 2) && host.state != HostState::Down
        });
        for host in silent {
            let name = &host.name;
            let others = facts.metrics.iter().map(|other| other.status.host.as_str());
            // It says itself that it is there, or one that is neither of the two hears it.
            let is_there = |other: &str| other == name || (other != by && hears(other, name));
            if let Some(other) = others.into_iter().find(|other| is_there(other)) {
                let silent = time(host.silent_seconds.unwrap_or_default());
                let how = match other == name {
                    true => "it answers".to_owned(),
                    false => format!("{other} hears it"),
                };
                let line = format!("{by} has not heard {name} for {silent}, and {how}");
                wrong.push(yellow(line).mended_by(HOST_SHOW, &[("HOST", by)]));
            }
        }
    }
    Some(wrong)
}

fn links(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let gained = facts.gained()?.into_iter();
    let many = gained.filter(|gained| gained.silent_links > SILENT_LINKS_MAX);
    let wrong = many.map(|ShardCounts { shard, silent_links, .. }| {
        let line = format!("{shard} dropped {silent_links} links for silence in ten minutes");
        yellow(line).mended_by(HOST_SHOW, &[("HOST", &shard)])
    });
    Some(wrong.collect())
}

fn latency(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let mean = |(measured, took_us): (u64, u64)| took_us.checked_div(measured);
    let measured = facts.gained()?.into_iter().filter(|gained| gained.there.0 >= WRITES_MIN);
    let measured: Vec<_> = measured
        .filter_map(|gained| {
            Some((mean(gained.there)?, mean(gained.here).unwrap_or(0), gained.shard))
        })
        .collect();
    if measured.is_empty() {
        return None;
    }
    let is_late = |(there, here, _): &(u64, u64, String)| {
        *there >= THERE_US_MAX && *there > here.saturating_mul(THERE_TIMES_MAX)
    };
    let wrong = measured.into_iter().filter(is_late).map(|(there, here, shard)| {
        let line = format!(
            "of {shard} a copy on another host takes {} ms, one on its own {} ms",
            there / 1000,
            here / 1000
        );
        yellow(line).mended_by(HOST_SHOW, &[("HOST", &shard)])
    });
    Some(wrong.collect())
}

fn clocks(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let tokens = facts.tokens.iter().flatten();
    let tokens = tokens.map(|token| (format!("token '{}' was made", token.name), token.created));
    let trash = facts.status.iter().flat_map(|status| &status.trash);
    let trash = trash.map(|gone| (format!("volume '{}' was deleted", gone.name), gone.deleted));
    let all: Vec<_> = tokens.chain(trash).collect();
    if all.is_empty() {
        return None;
    }
    let is_ahead = |(_, at): &(String, u64)| *at > facts.now.saturating_add(AHEAD_MAX);
    let wrong = all.into_iter().filter(is_ahead).map(|(what, at)| {
        let ahead = time(at.saturating_sub(facts.now));
        let line =
            format!("{what} {ahead} from now: the clock of a host is ahead, or this one is behind");
        yellow(line).mended_by(SET_CLOCK, &[])
    });
    Some(wrong.collect())
}
