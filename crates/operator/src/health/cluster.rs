// SPDX-License-Identifier: Apache-2.0
//! Checks of the cluster as a whole: room, limits, directory, balance, tokens and releases.

use super::check::{Fact, HealthCheck, percent, red, time, yellow};
use super::facts::HealthFacts;
use crate::report::{
    GroupReport, HostReport, HostState, MemoryUse, ResyncReason, Role, TokenReport,
};
use base::{Map, format_size};

/// Percent of a host's capacity that is in use.
const USED_WARN: u64 = 80;
const USED_FULL: u64 = 95;
/// Percent of the components that the devices of a disk group can have.
const COMPONENTS_WARN: u64 = 80;
const COMPONENTS_FULL: u64 = 95;
/// A capacity device of less bytes has room for fewer components.
const LARGE_DEVICE: u64 = 4 << 30;
/// Components that a large device can have, and a smaller one.
const COMPONENTS_LARGE: u64 = 1024;
const COMPONENTS_SMALL: u64 = 128;
/// Percent of its capacity by which the fullest host may be ahead of the emptiest one.
const UNEVEN_MAX: u64 = 30;
/// A token that lasts for less is one that ends on purpose.
const TOKEN_LASTS_MIN: u64 = 86_400;
/// So long before its end a token is told of; a quarter of its life where that is shorter.
const TOKEN_ENDS: u64 = 14 * 86_400;

const ADD_DISK: &str = "gabion group add-disk GROUP NEW";
const LIST: &str = "gabion volume list";
const WHAT_IF: &str = "gabion what-if host-failure HOST";
const HOST_SHOW: &str = "gabion host show HOST";
const MEMBERS: &str = "gabion directory members";
const ORPHANS: &str = "gabion orphan list";
const STATUS: &str = "gabion status";
const BACKUPS: &str = "gabion directory backups";
const BACKUP: &str = "gabion directory backup directory.gdb";
const BALANCE: &str = "gabion cluster set rebalance on";
const NEW_TOKEN: &str = "gabion token create NEW --role ROLE";
const END_TOKEN: &str = "gabion token delete TOKEN";
const CHECK: &str = "gabion cluster upgrade --check";
const UPGRADE: &str = "gabion cluster upgrade";

pub(super) const CHECKS: &[HealthCheck] = &[
    HealthCheck {
        id: "capacity.hosts",
        title: "Hosts have room",
        looks_at: "what of the capacity of each host's open disk groups is in use",
        limits: "yellow: 80 %; red: 95 %",
        means: "Writes that need new space fail on a full host, and its copies are absent then.",
        well: "all hosts have room",
        mend: &[ADD_DISK, LIST],
        worse_after: 0,
        look: room,
    },
    HealthCheck {
        id: "capacity.devices",
        title: "Devices have room",
        looks_at: "the state of each capacity device: what is used, set aside and promised on it",
        limits: "yellow: it fills up, as space_warn_percent says; red: it is full, as \
                 space_full_percent does",
        means: "A full device takes no new volumes, and then no write that needs a new chunk.",
        well: "all capacity devices have room",
        mend: &[ADD_DISK, LIST],
        worse_after: 0,
        look: devices,
    },
    HealthCheck {
        id: "capacity.after-loss",
        title: "Any one host may be lost",
        looks_at: "whether the copies of each host could be made again on the others, with their \
                   room and fault domains",
        limits: "yellow: those of one could not",
        means: "Nothing is wrong now. After the loss of that host its volumes stay with fewer \
                copies until it is back or another one is added.",
        well: "what any one host has could be made again on the others",
        mend: &[WHAT_IF, ADD_DISK],
        worse_after: 20,
        look: after_loss,
    },
    HealthCheck {
        id: "limits.components",
        title: "Disk groups take more copies",
        looks_at: "copies of parts of volumes on each disk group, beside what its capacity devices \
                   have rows for: 1024 each, 128 below 4 GiB",
        limits: "yellow: 80 %; red: 95 %",
        means: "Then nothing new is made there: no volume, no repair, no move.",
        well: "all disk groups take more copies",
        mend: &[ADD_DISK, LIST],
        worse_after: 0,
        look: components,
    },
    HealthCheck {
        id: "limits.memory",
        title: "Hosts keep to their memory",
        looks_at: "the parts of each host's memory that are counted, beside their budgets",
        limits: "yellow: one has more than its budget, for half a minute",
        means: "The host may be ended for want of memory; disk groups may not open again.",
        well: "all hosts keep to their memory",
        mend: &[HOST_SHOW],
        worse_after: 30,
        look: memory,
    },
    HealthCheck {
        id: "directory.reachable",
        title: "The directory is reached",
        looks_at: "whether each shard of this host reaches the directory",
        limits: "yellow: one does not; red: none does",
        means: "I/O goes on as long as nothing fails: nothing can be made, changed or taken over.",
        well: "all shards reach the directory",
        mend: &[MEMBERS],
        worse_after: 3,
        look: reachable,
    },
    HealthCheck {
        id: "directory.members",
        title: "All members of the directory answer",
        looks_at: "the etcds that the hosts run, every half a minute",
        limits: "yellow: one does not answer, or something is wrong with it; unknown where the \
                 hosts do not keep the directory by themselves",
        means: "While most members answer nothing is lost. Without a majority nothing can be \
                changed or taken over.",
        well: "all members of the directory answer",
        mend: &[MEMBERS],
        worse_after: 0,
        look: members,
    },
    HealthCheck {
        id: "directory.alarms",
        title: "The directory accounts for all data",
        looks_at: "components that no record accounts for, a directory that is another cluster's, \
                   and releases that do not understand each other",
        limits: "red: there is one",
        means: "The data is kept and not served. What each line says brings it back, or gives it \
                up.",
        well: "the directory accounts for all data",
        mend: &[STATUS, ORPHANS],
        worse_after: 3,
        look: alarms,
    },
    HealthCheck {
        id: "directory.backups",
        title: "There is a backup of the directory",
        looks_at: "whether a shard of this host has a good and new one on a disk group",
        limits: "yellow: none has",
        means: "If the directory is lost, volumes have to be made again from what is on the disks.",
        well: "there is a good backup of the directory",
        mend: &[BACKUPS, BACKUP],
        worse_after: 60,
        look: backups,
    },
    HealthCheck {
        id: "balance.hosts",
        title: "Hosts are filled alike",
        looks_at: "which part of their capacity is in use on the hosts that were asked",
        limits: "yellow: the fullest is 30 points ahead of the emptiest, for ten minutes in which \
                 no copy moves",
        means: "The fullest host fills up while others have room.",
        well: "hosts are filled alike, or were asked one by one",
        mend: &[BALANCE],
        worse_after: 600,
        look: balance,
    },
    HealthCheck {
        id: "certificates.tokens",
        title: "Tokens last",
        looks_at: "when the tokens of the API expire, but for those that last a day at most",
        limits: "yellow: in less than two weeks, or a quarter of its life; or it has expired",
        means: "No data is concerned. The programs that ask with it are refused from then on.",
        well: "no token expires soon",
        mend: &[NEW_TOKEN, END_TOKEN],
        worse_after: 0,
        look: tokens,
    },
    HealthCheck {
        id: "versions.hosts",
        title: "All hosts have one release",
        looks_at: "the level that the release of each host knows",
        limits: "yellow: they differ",
        means: "All is served. New things wait, and while it lasts there are two releases to \
                understand.",
        well: "all hosts have a release of one level",
        mend: &[CHECK],
        worse_after: 0,
        look: releases,
    },
    HealthCheck {
        id: "versions.cluster",
        title: "The cluster uses what its release knows",
        looks_at: "the level of the cluster, and what all of its hosts know",
        limits: "yellow: all hosts know more",
        means: "Hosts can still go back to the release of before; what came with this one is not \
                used.",
        well: "the cluster uses what its release knows",
        mend: &[CHECK, UPGRADE],
        worse_after: 10,
        look: level,
    },
];

/// Bytes in use and of capacity by host, and a disk group of it; of open groups.
fn filled<'a>(facts: &'a HealthFacts) -> Option<Vec<(&'a str, u64, u64, &'a GroupReport)>> {
    let shards = &facts.status.as_ref()?.hosts;
    let host_of = |group: &'a GroupReport| {
        let shard = shards.iter().find(|shard| shard.name == group.host);
        shard.map_or(group.host.as_str(), HostReport::host)
    };
    let mut hosts: Vec<(&str, u64, u64, &GroupReport)> = Vec::new();
    for group in facts.groups()?.iter().filter(|group| group.is_open && group.capacity_bytes > 0) {
        let host = host_of(group);
        match hosts.iter_mut().find(|(name, ..)| *name == host) {
            Some((_, used, all, _)) => {
                *used = used.saturating_add(group.used_bytes);
                *all = all.saturating_add(group.capacity_bytes);
            }
            None => hosts.push((host, group.used_bytes, group.capacity_bytes, group)),
        }
    }
    (!hosts.is_empty()).then_some(hosts)
}

fn roomier(fact: Fact, group: &GroupReport) -> Fact {
    fact.mended_by(ADD_DISK, &[("GROUP", &group.id)]).mended_by(LIST, &[])
}

fn room(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let wrong = filled(facts)?.into_iter().filter_map(|(host, used, all, group)| {
        let share = percent(used, all);
        let (part, whole) = (format_size(used), format_size(all));
        let line = format!("{host} is {share} % full: {part} of {whole}");
        match share {
            USED_FULL.. => Some(roomier(red(line), group)),
            USED_WARN.. => Some(roomier(yellow(line), group)),
            _ => None,
        }
    });
    Some(wrong.collect())
}

fn devices(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let open = facts.groups()?.iter().filter(|group| group.is_open);
    let all = open.flat_map(|group| group.devices.iter().map(move |device| (group, device)));
    let capacity = all.filter(|(_, device)| device.role == Role::Capacity);
    let wrong = capacity.filter_map(|(group, device)| {
        let part = format_size(device.used_bytes);
        let line = format!("{} on {}: {}, {part} in use", device.path, group.host, device.state);
        match device.state.as_str() {
            "full" => Some(roomier(red(line), group)),
            "filling up" => Some(roomier(yellow(line), group)),
            _ => None,
        }
    });
    Some(wrong.collect())
}

fn after_loss(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let said = facts.metrics.iter().find(|said| said.status.directory)?;
    let hosts = facts.status.iter().flat_map(|status| &status.hosts);
    let wrong = said.not_rebuilt.iter().map(|why| {
        let fact = yellow(why.clone());
        let is_named = |host: &&HostReport| {
            why.split(|one: char| one.is_whitespace() || one == ':' || one == ',')
                .any(|word| word == host.host())
        };
        match hosts.clone().find(is_named) {
            Some(host) => fact.mended_by(WHAT_IF, &[("HOST", host.host())]),
            None => fact.mended_by(WHAT_IF, &[]),
        }
    });
    Some(wrong.collect())
}

fn components(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let mut counts: Map<&str, u64> = Map::new();
    let volumes = facts.status.iter().flat_map(|status| &status.volumes);
    for part in volumes.flat_map(|volume| &volume.components) {
        *counts.entry(part.group.as_str()).or_default() += 1;
    }
    let wrong = facts.groups()?.iter().filter(|group| group.is_open).filter_map(|group| {
        let capacity = group.devices.iter().filter(|device| device.role == Role::Capacity);
        let rows = |size: u64| match size >= LARGE_DEVICE {
            true => COMPONENTS_LARGE,
            false => COMPONENTS_SMALL,
        };
        let most: u64 = capacity.map(|device| rows(device.size_bytes)).sum();
        let has = counts.get(group.id.as_str()).copied().unwrap_or(0);
        let line = format!("disk group {} on {} has {has} of {most} copies", group.id, group.host);
        match percent(has, most) {
            _ if most == 0 => None,
            COMPONENTS_FULL.. => Some(roomier(red(line), group)),
            COMPONENTS_WARN.. => Some(roomier(yellow(line), group)),
            _ => None,
        }
    });
    Some(wrong.collect())
}

fn memory(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let reports = &facts.status.as_ref()?.memory;
    if reports.is_empty() {
        return None;
    }
    let parts = reports.iter().flat_map(|host| host.parts.iter().map(move |part| (host, part)));
    let over = parts.filter_map(|(host, part)| {
        // What the process takes beside all of this is a guess, and what is left is no part.
        let is_counted = !matches!(part.name, MemoryUse::Process | MemoryUse::Left);
        let used = part.used_bytes.filter(|used| is_counted && *used > part.budget_bytes)?;
        let (used, budget) = (format_size(used), format_size(part.budget_bytes));
        let line = format!("{}: {:?} have {used}, and may have {budget}", host.host, part.name);
        Some(yellow(line).mended_by(HOST_SHOW, &[("HOST", &host.host)]))
    });
    Some(over.collect())
}

fn reachable(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let all = facts.metrics.len();
    let away: Vec<_> = facts.metrics.iter().filter(|said| !said.status.directory).collect();
    if all == 0 {
        return None;
    }
    let is_any = away.len() < all;
    let wrong = away.into_iter().map(|said| {
        let line = format!("{} does not reach the directory", said.status.host);
        let fact = if is_any { yellow(line) } else { red(line) };
        fact.mended_by(MEMBERS, &[])
    });
    Some(wrong.collect())
}

fn members(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let lines = facts.members.as_ref()?.iter();
    Some(lines.map(|line| yellow(line.clone()).mended_by(MEMBERS, &[])).collect())
}

fn alarms(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let status = facts.status.as_ref()?;
    // That there is no backup is said by another check.
    let is_backups = |line: &&String| {
        status.backups.as_ref().is_some_and(|backups| line.starts_with(backups.as_str()))
    };
    let lines = status.alarms.iter().filter(|line| !is_backups(line));
    let wrong = lines.map(|line| {
        let fact = red(line.clone()).mended_by(STATUS, &[]);
        match line.contains("component(s)") {
            true => fact.mended_by(ORPHANS, &[]),
            false => fact,
        }
    });
    Some(wrong.collect())
}

fn backups(facts: &HealthFacts) -> Option<Vec<Fact>> {
    facts.groups()?;
    let told = facts.status.as_ref()?.backups.iter();
    let wrong = told.map(|why| yellow(why.clone()).mended_by(BACKUPS, &[]).mended_by(BACKUP, &[]));
    Some(wrong.collect())
}

fn balance(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let status = facts.status.as_ref()?;
    let is_up = |name: &str| {
        let mut shards = status.hosts.iter().filter(|shard| shard.host() == name);
        shards.all(|shard| shard.state == HostState::Up && shard.maintenance.is_none())
    };
    let hosts = filled(facts)?.into_iter().filter(|(host, ..)| is_up(host));
    let mut shares: Vec<_> = hosts.map(|(host, used, all, _)| (percent(used, all), host)).collect();
    shares.sort_unstable();
    let moves = |reason: &ResyncReason| matches!(reason, ResyncReason::Moves { .. });
    let is_moving = status.resyncs.iter().any(|resync| moves(&resync.reason));
    let (Some((least, empty)), Some((most, full))) = (shares.first(), shares.last()) else {
        return None;
    };
    let is_uneven = most.saturating_sub(*least) > UNEVEN_MAX && !is_moving;
    let line = format!("{full} is {most} % full, and {empty} {least} %: no copy moves");
    Some(is_uneven.then(|| yellow(line).mended_by(BALANCE, &[])).into_iter().collect())
}

fn tokens(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let lasting = facts.tokens.as_ref()?.iter();
    let lasting = lasting.filter_map(|token| {
        let lasts = token.expires.saturating_sub(token.created);
        (lasts > TOKEN_LASTS_MIN).then_some((token, lasts))
    });
    let wrong = lasting.filter_map(|(token, lasts)| {
        let TokenReport { name, expires, role, .. } = token;
        let left = expires.saturating_sub(facts.now);
        let line = match left {
            0 => {
                let ago = time(facts.now.saturating_sub(*expires));
                format!("token '{name}' opens nothing, since {ago}")
            }
            left if left < TOKEN_ENDS.min(lasts / 4) => {
                format!("token '{name}' opens nothing any more in {}", time(left))
            }
            _ => return None,
        };
        let fact = yellow(line).mended_by(NEW_TOKEN, &[("ROLE", role.name())]);
        Some(fact.mended_by(END_TOKEN, &[("TOKEN", name)]))
    });
    Some(wrong.collect())
}

fn levels(facts: &HealthFacts) -> Option<Vec<(&str, u32)>> {
    let hosts = facts.status.as_ref()?.hosts.iter();
    let known: Vec<_> = hosts.filter_map(|host| Some((host.name.as_str(), host.level?))).collect();
    (!known.is_empty()).then_some(known)
}

fn releases(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let known = levels(facts)?;
    let most = known.iter().map(|(_, level)| *level).max().unwrap_or_default();
    let old = known.into_iter().filter(|(_, level)| *level < most);
    let wrong = old.map(|(host, level)| {
        let line =
            format!("{host} knows level {level}, others {most}: start it with their release");
        yellow(line).mended_by(CHECK, &[])
    });
    Some(wrong.collect())
}

fn level(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let now = facts.status.as_ref()?.level?;
    let least = levels(facts)?.into_iter().map(|(_, level)| level).min()?;
    let line = format!("the cluster is at level {now}, and all of its hosts know level {least}");
    let wrong = (least > now).then(|| yellow(line).mended_by(CHECK, &[]).mended_by(UPGRADE, &[]));
    Some(wrong.into_iter().collect())
}
