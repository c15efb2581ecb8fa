// SPDX-License-Identifier: Apache-2.0
//! Checks of devices and disk groups.

use super::check::{Fact, HealthCheck, red, time, yellow};
use super::facts::{DeviceWear, HealthFacts};
use crate::report::{
    BLOCKS_LOST, BLOCKS_MENDED, ClassReport, DESTAGE_STOOD_STILL, DeviceReport, GroupReport,
    LatencyReport, Role, ScrubReport,
};

/// A device that nobody has verified for so long: four passes of the usual period.
const UNVERIFIED_MAX: u64 = 28 * 86_400;
/// Percent of its rated writes that a device has used up.
const WEAR_WARN: u8 = 80;
const WEAR_END: u8 = 100;
/// A write buffer that is so full holds writes up soon, 0 to 1.
const BUFFER_FILL_MAX: f64 = 0.95;

const REPLACE: &str = "gabion disk replace DEVICE";
const GROUP_SHOW: &str = "gabion group show GROUP";
const GROUP_OPEN: &str = "gabion group open GROUP";
const INSPECT: &str = "gabion disk inspect DEVICE";
const REPLACE_WITH: &str = "gabion disk replace DEVICE --with NEW";
const SCRUB: &str = "gabion scrub start";
const SCRUB_STATUS: &str = "gabion scrub status";

pub(super) const CHECKS: &[HealthCheck] = &[
    HealthCheck {
        id: "devices.working",
        title: "All devices do their work",
        looks_at: "the state of each device of the disk groups that serve",
        limits: "red: one does not answer, takes no writes, or is out of its group",
        means: "What is on it is served by other copies, and one more loss may stop volumes.",
        well: "all devices do their work",
        mend: &[GROUP_OPEN, REPLACE],
        worse_after: 0,
        look: working,
    },
    HealthCheck {
        id: "devices.latency",
        title: "No device is slower than usual",
        looks_at: "how each device answers reads, writes and flushes, beside what is usual of it",
        limits: "yellow: it is slow by its own measure: see broken-devices.md",
        means: "Reads go to other copies where there are some; writes wait for it. Devices that \
                slow down often fail soon.",
        well: "no device is slower than usual",
        mend: &[REPLACE],
        worse_after: 0,
        look: latency,
    },
    HealthCheck {
        id: "devices.blocks",
        title: "Everything that was read back is good",
        looks_at: "what scrub found on each capacity device, in its last pass and in this one",
        limits: "red: blocks that no copy could repair; yellow: bad blocks that were written again",
        means: "Blocks without a repair cannot be read, and hold up copies that are to come back. \
                A device that had bad blocks gets more.",
        well: "scrub found nothing that it could not read",
        mend: &[SCRUB, REPLACE, SCRUB_STATUS],
        worse_after: 0,
        look: blocks,
    },
    HealthCheck {
        id: "devices.scrub",
        title: "Devices are read back",
        looks_at: "whether scrub is paused, and how long ago all of a device was verified",
        limits: "yellow: it is paused, or that was more than 28 days ago",
        means: "Data that rots is not found while there is another copy to mend it from.",
        well: "scrub reads everything in turn",
        mend: &[SCRUB],
        worse_after: 0,
        look: scrub,
    },
    HealthCheck {
        id: "devices.wear",
        title: "Flash devices are not worn out",
        looks_at: "the part of its rated writes that each flash device has used up, as smartctl \
                   tells it, once an hour",
        limits: "yellow: 80 %; red: 100 %; unknown where smartctl is not there or may not ask",
        means: "Its maker does not promise anything beyond: it fails, or takes no writes any more.",
        well: "no flash device is near its rated writes",
        mend: &[REPLACE_WITH],
        worse_after: 0,
        look: wear,
    },
    HealthCheck {
        id: "groups.serving",
        title: "All disk groups serve",
        looks_at: "whether each disk group is open, and takes writes",
        limits: "yellow: one does not",
        means: "Its volumes are served by their other copies.",
        well: "all disk groups serve",
        mend: &[GROUP_OPEN, INSPECT, GROUP_SHOW],
        worse_after: 0,
        look: serving,
    },
    HealthCheck {
        id: "groups.destage",
        title: "Write buffers are emptied",
        looks_at: "whether destage gets anything done",
        limits: "red: it had work for 30 s and did nothing",
        means: "Writes stop when the write buffer is full.",
        well: "write buffers are emptied",
        mend: &[GROUP_SHOW],
        worse_after: 0,
        look: destage,
    },
    HealthCheck {
        id: "groups.writes",
        title: "Nothing holds writes up",
        looks_at: "what limits the writes of each disk group, and how full its write buffer is",
        limits: "yellow: destage or the cache device limits them, or the buffer is 95 % full, for \
                 a minute",
        means: "Writes take as long as the capacity devices do: there is more load than they \
                carry.",
        well: "nothing holds writes up",
        mend: &[GROUP_SHOW],
        worse_after: 60,
        look: writes,
    },
    HealthCheck {
        id: "groups.log",
        title: "Cache devices keep what they hold",
        looks_at: "blocks of the log of each write buffer that were rotten or unreadable, since \
                   its group was opened",
        limits: "yellow: there were some",
        means: "What they held was known, or came from other copies. The device may do it again.",
        well: "no block of a write buffer's log was bad",
        mend: &[REPLACE],
        worse_after: 0,
        look: log,
    },
];

/// What a group is named by in commands: its id, or its cache device where it never opened.
fn name_of(group: &GroupReport) -> &str {
    let cache = || group.devices.first().map_or("", |device| device.path.as_str());
    if group.id.is_empty() { cache() } else { &group.id }
}

fn devices(groups: &[GroupReport]) -> impl Iterator<Item = (&GroupReport, &DeviceReport)> {
    let open = groups.iter().filter(|group| group.is_open);
    open.flat_map(|group| group.devices.iter().map(move |device| (group, device)))
}

fn working(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let is_bad =
        |state: &str| matches!(state, "stuck" | "takes no writes" | "out" | "out of service");
    let bad = devices(facts.groups()?).filter(|(_, device)| is_bad(&device.state));
    let wrong = bad.map(|(group, device)| {
        let (path, state) = (&device.path, &device.state);
        let line = match state.as_str() {
            "stuck" => format!("{path} on {} does not answer", group.host),
            "out" => format!("{path} on {} is out of its disk group", group.host),
            state => format!("{path} on {}: {state}", group.host),
        };
        red(line)
            .mended_by(GROUP_OPEN, &[("GROUP", name_of(group))])
            .mended_by(REPLACE, &[("DEVICE", path)])
    });
    Some(wrong.collect())
}

fn latency(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let measured = devices(facts.groups()?)
        .filter_map(|(group, device)| Some((group, device, device.latency.as_ref()?)));
    let slow = measured.filter(|(.., latency)| latency.health == "slow");
    let wrong = slow.map(|(group, device, latency)| {
        let line = format!("{} on {} is slow{}", device.path, group.host, figures(latency));
        yellow(line).mended_by(REPLACE, &[("DEVICE", &device.path)])
    });
    Some(wrong.collect())
}

/// What it takes, and what it usually does.
fn figures(latency: &LatencyReport) -> String {
    let classes =
        [("reads", &latency.reads), ("writes", &latency.writes), ("flushes", &latency.durable)];
    let slow = classes.into_iter().filter(|(_, class)| class.is_slow);
    let told = slow.map(|(what, class): (&str, &ClassReport)| {
        let usual = class.usual_us.map(|usual| format!(", usually {usual} us"));
        format!(": {what} take {} us{}", class.median_us, usual.unwrap_or_default())
    });
    told.collect()
}

fn blocks(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let scrubs: Vec<&ScrubReport> = facts.metrics.iter().flat_map(|said| &said.scrubs).collect();
    if scrubs.is_empty() {
        return None;
    }
    let lines: Vec<&String> =
        facts.groups().into_iter().flatten().flat_map(|group| &group.attention).collect();
    let lines_of = |word: &'static str| lines.iter().filter(move |line| line.starts_with(word));
    let is_told = |device: &str| lines_of(BLOCKS_LOST).any(|line| line.contains(device));
    let is_lost = |scrub: &&ScrubReport| scrub.unrepaired_blocks > 0 && !is_told(&scrub.device);
    let lost = scrubs.into_iter().filter(is_lost).map(|scrub| {
        let (count, device, host) = (scrub.unrepaired_blocks, &scrub.device, &scrub.host);
        red(format!("{count} block(s) of 4 KiB on {device} of {host} are bad in all copies"))
            .mended_by(REPLACE, &[("DEVICE", device)])
    });
    let lost = lost.chain(lines_of(BLOCKS_LOST).map(|line| red(line.as_str())));
    let lost = lost.map(|fact| fact.mended_by(SCRUB, &[]));
    let mended = lines_of(BLOCKS_MENDED).map(|line| yellow(line.as_str()));
    let mended = mended.map(|fact| fact.mended_by(SCRUB_STATUS, &[]));
    Some(lost.chain(mended).collect())
}

fn scrub(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let scrubs: Vec<&ScrubReport> = facts.metrics.iter().flat_map(|said| &said.scrubs).collect();
    if scrubs.is_empty() {
        return None;
    }
    let wrong = scrubs.into_iter().filter_map(|scrub| {
        let (device, host) = (&scrub.device, &scrub.host);
        let line = match scrub.oldest_unverified_seconds {
            _ if scrub.state == "paused" => format!("scrub of {device} on {host} is paused"),
            Some(age) if age > UNVERIFIED_MAX => {
                format!("{device} on {host} was not verified for {}", time(age))
            }
            _ => return None,
        };
        Some(yellow(line).mended_by(SCRUB, &[]))
    });
    Some(wrong.collect())
}

fn wear(facts: &HealthFacts) -> Option<Vec<Fact>> {
    if facts.wear.is_empty() {
        return None;
    }
    let wrong = facts.wear.iter().filter_map(|DeviceWear { device, percent }| {
        let line = format!("{device} has used up {percent} % of its rated writes");
        let fact = match *percent {
            WEAR_END.. => red(line),
            WEAR_WARN.. => yellow(line),
            _ => return None,
        };
        Some(fact.mended_by(REPLACE_WITH, &[("DEVICE", device)]))
    });
    Some(wrong.collect())
}

fn serving(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let wrong = facts.groups()?.iter().filter_map(|group| {
        let name = name_of(group);
        let fact = yellow(format!("{}: {}", group.host, group.state));
        match group.is_open {
            false => {
                let cache = group.devices.first().map_or("", |device| device.path.as_str());
                let fact = fact.mended_by(GROUP_OPEN, &[("GROUP", name)]);
                Some(fact.mended_by(INSPECT, &[("DEVICE", cache)]))
            }
            true if group.state != "ok" => {
                let fact = fact.mended_by(GROUP_OPEN, &[("GROUP", name)]);
                Some(fact.mended_by(GROUP_SHOW, &[("GROUP", name)]))
            }
            true => None,
        }
    });
    Some(wrong.collect())
}

fn destage(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let stuck = facts.groups()?.iter().filter_map(|group| {
        let line = group.attention.iter().find(|line| line.starts_with(DESTAGE_STOOD_STILL))?;
        let fact = red(format!("{}: {line}", group.host));
        Some(fact.mended_by(GROUP_SHOW, &[("GROUP", name_of(group))]))
    });
    Some(stuck.collect())
}

fn writes(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let is_held = |group: &&GroupReport| {
        group.is_open
            && (group.buffer_fill >= BUFFER_FILL_MAX
                || !matches!(&*group.limited_by, "" | "nothing"))
    };
    let wrong = facts.groups()?.iter().filter(is_held).map(|group| {
        let line = format!(
            "the write buffer of {} on {} is {:.0} % full, and writes are limited by {}",
            name_of(group),
            group.host,
            group.buffer_fill * 100.0,
            if group.limited_by.is_empty() { "nothing" } else { &group.limited_by }
        );
        yellow(line).mended_by(GROUP_SHOW, &[("GROUP", name_of(group))])
    });
    Some(wrong.collect())
}

fn log(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let wrong = facts.groups()?.iter().filter(|group| group.rotten_log_blocks > 0).map(|group| {
        let caches = group.devices.iter().filter(|device| device.role == Role::Cache);
        let cache = caches.map(|device| device.path.as_str()).next().unwrap_or_default();
        let line = format!("{} block(s) of the log on {cache} were bad", group.rotten_log_blocks);
        yellow(format!("{line}, on {}", group.host)).mended_by(REPLACE, &[("DEVICE", cache)])
    });
    Some(wrong.collect())
}
