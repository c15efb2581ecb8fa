// SPDX-License-Identifier: Apache-2.0
//! What a person should know of a disk group, in words: what is wrong, what that means, what to do.

use crate::config::Tuning;
use crate::storage::is_away;
use base::{GroupId, format_size};
use diskgroup::{DiskGroup, GroupStatus, Limit, Space};
use operator::DESTAGE_STOOD_STILL;
use std::time::Duration;

/// Destage that has work and gets nothing done for so long is told of: the slowest device that
/// works destages a segment in less.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// What a person should know of a group that lacks capacity devices.
pub(super) fn without(group: &DiskGroup) -> Option<String> {
    let outs = group.out_devices();
    let first = outs.first()?;
    let causes: Vec<String> = outs.iter().map(|out| out.cause.to_string()).collect();
    let id = group.id();
    let next = match outs.iter().all(|out| is_away(&out.cause)) {
        true => format!(
            "put it back, and it serves some seconds later, or give the group a new one with \
             'gabion disk replace {}'",
            first.path
        ),
        false => format!(
            "look at the device, then 'gabion group open {id}' to try it again, or 'gabion disk \
             replace {}'",
            first.path
        ),
    };
    let held = match group.holds_for_out() {
        true => "; its write buffer keeps what only this device has until the other copies have it",
        false => "",
    };
    Some(format!(
        "capacity device {} is out of the disk group of {}: {}; the group's other devices serve, \
         what is on this one is served by its other copies, and this host makes no new copies\
         {held}; next: {next}",
        first.path,
        group.cache_path(),
        causes.join("; ")
    ))
}

/// What limits the writes of a group, in a word or two.
pub(super) fn limited_by(status: &GroupStatus) -> String {
    match status.pressure.limit {
        Limit::Nothing => "nothing".to_owned(),
        Limit::Destage => format!("destage (buffer {:.0} % full)", status.buffer_fill * 100.0),
        Limit::CacheDevice => "cache device".to_owned(),
    }
}

/// A cache device that does not keep what its log holds.
pub(super) fn rotten_log(cache: &str, status: &GroupStatus) -> Option<String> {
    let (count, are) = match status.rotten_log_blocks {
        0 => return None,
        1 => ("1 block".to_owned(), "was"),
        count => (format!("{count} blocks"), "were"),
    };
    Some(format!(
        "{count} of the write buffer's log on {cache} {are} rotten or unreadable; what it held was \
         known or comes from other copies, and nothing is to be done for it; next: look at the \
         device (the kernel's log, smartctl -a), and if this comes again, 'gabion disk replace \
         {cache}'"
    ))
}

/// What a person should know of a destage that stands still, and what to do.
pub(super) fn stuck(id: GroupId, status: &GroupStatus) -> Option<String> {
    let pressure = status.pressure;
    let since = pressure.stuck.filter(|since| *since >= STUCK_AFTER)?;
    let (cause, next) = match pressure.waits_for_copies {
        true => (
            "it waits until the other copies of a volume have what is in it",
            "see 'gabion volume list' for copies that do not come back",
        ),
        false => (
            "a capacity device does not answer",
            "look at the group's devices (kernel log, iostat), and replace the one that hangs \
             with 'gabion disk replace'",
        ),
    };
    Some(format!(
        "{DESTAGE_STOOD_STILL} of disk group {id} for {} s: it is {:.0} % \
         full, its oldest entry {} s old; {cause}, and writes stop when it is full; next: {next} \
         ('gabion group show {id}')",
        since.as_secs(),
        status.buffer_fill * 100.0,
        pressure.oldest.unwrap_or_default().as_secs()
    ))
}

/// What a person should know of a device that fills up, and what to do.
pub(super) fn filling_up(tuning: &Tuning, space: &Space) -> Option<String> {
    let percent = space.taken_percent();
    if percent < u64::from(tuning.space_warn_percent) {
        return None;
    }
    let (taken, all) = (format_size(space.taken_bytes()), format_size(space.chunk_bytes()));
    let kept = match space.promised_bytes {
        0 => String::new(),
        promised => format!(", {} of it kept for volumes with a reserve", format_size(promised)),
    };
    let full = tuning.space_full_percent;
    let effect = match percent >= u64::from(full) {
        true => "it takes no new volumes",
        false => "from there on it takes no new volumes",
    };
    let limit =
        if percent >= u64::from(full) { String::new() } else { format!(", the limit is {full} %") };
    Some(format!(
        "is {percent} % taken ({taken} of {all}{kept}){limit}: {effect}; next: delete volumes or \
         discard what they do not need (fstrim), or add a host; see what takes the space"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskgroup::Pressure;

    fn pressed(pressure: Pressure) -> GroupStatus {
        GroupStatus { buffer_fill: 0.97, pressure, ..GroupStatus::default() }
    }

    #[test]
    fn a_destage_that_stands_still_is_told_of_after_half_a_minute() {
        let seconds = |n| Some(Duration::from_secs(n));
        let of = |since, waits_for_copies| {
            let pressure =
                Pressure { stuck: since, waits_for_copies, oldest: seconds(75), ..<_>::default() };
            stuck(GroupId(0xABC), &pressed(pressure))
        };
        assert_eq!(of(None, false), None);
        assert_eq!(of(seconds(29), false), None);
        let line = of(seconds(30), false).expect("at 30 s");
        let id = GroupId(0xABC).to_string();
        for part in
            [id.as_str(), "30 s", "97 %", "75 s", "does not answer", "next: ", "disk replace"]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains('\n'), "{line}");
        assert!(of(seconds(99), true).expect("at 99 s").contains("other copies"));
    }

    #[test]
    fn rotten_blocks_of_the_log_are_told_of() {
        let of = |rotten_log_blocks| {
            rotten_log("/dev/x", &GroupStatus { rotten_log_blocks, ..GroupStatus::default() })
        };
        assert_eq!(of(0), None);
        for (count, begin) in [(1, "1 block of"), (3, "3 blocks of")] {
            let line = of(count).expect("above zero");
            assert!(line.starts_with(begin) && line.contains("next: look at"), "{line}");
            assert!(
                line.contains("'gabion disk replace /dev/x'") && !line.contains('\n'),
                "{line}"
            );
        }
    }

    #[test]
    fn what_limits_writes_has_a_name() {
        let of = |limit| limited_by(&pressed(Pressure { limit, ..Pressure::default() }));
        assert_eq!(of(Limit::Nothing), "nothing");
        assert_eq!(of(Limit::Destage), "destage (buffer 97 % full)");
        assert_eq!(of(Limit::CacheDevice), "cache device");
    }
}
