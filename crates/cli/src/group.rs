// SPDX-License-Identifier: Apache-2.0
//! `gabion group ...` and `gabion disk list`: what the hosts say of their groups and devices.

use crate::Fail;
use crate::args::{Cli, GroupCommand};
use crate::client;
use crate::latency;
use crate::output::{self, say};
use crate::reshape;
use crate::target::{TargetHost, gather};
use crate::wear;
use anyhow::Result;
use base::format_size;
use operator::{Command, DeviceMedium, DeviceReport, GroupDetail, GroupReport, Role, SpaceReport};
use serde::Serialize;

/// A device and where it belongs.
#[derive(Serialize)]
struct DiskLine<'a> {
    host: &'a str,
    /// Empty where the group did not open.
    group: &'a str,
    #[serde(flatten)]
    device: &'a DeviceReport,
    /// Percent of its rated writes that are used up, where the device tells.
    wear_percent: Option<u8>,
}

/// `gabion group ...`.
pub fn group(cli: &Cli, command: &GroupCommand) -> Result<()> {
    match command {
        GroupCommand::List => list(cli),
        GroupCommand::Show { group } => show(cli, group),
        GroupCommand::Create(args) => reshape::create(cli, args),
        GroupCommand::AddDisk(args) => reshape::add_disk(cli, args),
        GroupCommand::Close { group, stop_volumes } => reshape::close(cli, group, *stop_volumes),
        GroupCommand::Open { group } => reshape::open(cli, group),
        GroupCommand::Remove { group } => reshape::remove(cli, group),
    }
}

fn list(cli: &Cli) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    output::print(cli.output, &report.groups, |groups| {
        let rows = groups.iter().map(|group| {
            let sum = |of: fn(&SpaceReport) -> u64| {
                group.devices.iter().filter_map(|d| d.space.as_ref()).map(of).sum::<u64>()
            };
            vec![
                group.host.clone(),
                or_dash(&group.id),
                group.devices.len().to_string(),
                format!(
                    "{:.0} % of {}",
                    group.buffer_fill * 100.0,
                    format_size(group.buffer_bytes)
                ),
                format_size(group.capacity_bytes),
                format_size(sum(|s| s.allocated_bytes + s.reserved_bytes)),
                format_size(sum(|s| s.promised_bytes)),
                format_size(sum(|s| s.free_bytes + s.freeing_bytes)),
                state_of(group).to_owned(),
            ]
        });
        let heading = [
            "host",
            "group",
            "devices",
            "write buffer",
            "capacity",
            "used",
            "kept",
            "free",
            "state",
        ];
        output::table(&heading, rows.collect());
        say_attention(groups);
    })
}

fn show(cli: &Cli, wanted: &str) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let report = gather(&target)?;
    let all = || report.groups.iter().filter(|group| group.is_open);
    let is_meant = |group: &&GroupReport| {
        let is_device = |device: &DeviceReport| reshape::is_same(&device.path, wanted);
        group.id.starts_with(wanted) || group.devices.iter().any(is_device)
    };
    let found: Vec<_> = all().filter(is_meant).collect();
    let exact = found.iter().find(|group| group.id == wanted);
    let group = match (exact, found.as_slice()) {
        (Some(group), _) | (None, [group]) => *group,
        (None, []) => {
            return Err(Fail::failed(format!(
                "no host that answers has an open disk group '{}': see 'gabion group list'",
                wanted.escape_debug()
            ))
            .into());
        }
        (None, _) => {
            return Err(Fail::usage(format!(
                "{} disk groups begin with '{wanted}': give more digits",
                found.len()
            ))
            .into());
        }
    };
    let door = target.door().of(&group.host);
    let command = Command::GroupShow { group: group.id.clone() };
    let detail: GroupDetail = client::ask(&door, &command).map_err(|error| {
        if error.is::<Fail>() {
            return error;
        }
        Fail::failed("the host of that disk group has just gone: try again").into()
    })?;
    output::print(cli.output, &detail, people)
}

fn people(detail: &GroupDetail) {
    let group = &detail.group;
    say!(
        "group {} on {}: {}, write buffer {:.0} % of {}",
        group.id,
        group.host,
        state_of(group),
        group.buffer_fill * 100.0,
        format_size(group.buffer_bytes)
    );
    let oldest = match group.oldest_entry_seconds {
        Some(age) => format!("oldest entry {age:.0} s old"),
        None => "nothing in the buffer".to_owned(),
    };
    say!("writes limited by: {}; {} waiting, {oldest}", group.limited_by, group.writes_waiting);
    say!("writes that are not whole blocks of 4 KiB: {}", group.unaligned_writes);
    say!("rotten blocks found in its log: {}\n", group.rotten_log_blocks);
    disk_table(with_wear(group).collect());
    latency::table(group);
    say_read_cache(group);
    say_written(group);
    for device in &group.devices {
        if let Some(space) = &device.space {
            say!("");
            space_table(device, space);
        }
    }
    if !detail.components.is_empty() {
        say!("");
        let rows = detail.components.iter().map(|c| {
            vec![
                c.volume.clone().unwrap_or_else(|| "-".to_owned()),
                c.object.clone(),
                c.component.clone(),
                format_size(c.size_bytes),
                format_size(c.used_bytes),
                size_or_dash(c.reserve_bytes),
                c.device.clone(),
            ]
        });
        let heading = ["volume", "object", "component", "size", "used", "kept for it", "on"];
        output::table(&heading, rows.collect());
    }
    say_attention(std::slice::from_ref(group));
}

/// Tells how well the read cache of a hybrid group works.
fn say_read_cache(group: &GroupReport) {
    let Some(cache) = group.read_cache else { return };
    let reads = cache.hits + cache.misses;
    let share = match reads {
        0 => "nothing read so far".to_owned(),
        _ => format!("{:.0} % of {reads} reads", cache.hits as f64 / reads as f64 * 100.0),
    };
    say!(
        "\nread cache: {} of {} in use, {share}; {} of sequential reads went round it",
        format_size(cache.used_bytes),
        format_size(cache.size_bytes),
        format_size(cache.bypassed_bytes)
    );
    if cache.asked_bytes > 0 {
        let kept = format_size(cache.kept_bytes);
        match cache.kept_bytes < cache.asked_bytes {
            true => say!(
                "kept of it for volumes: {kept} of the {} that they ask for",
                format_size(cache.asked_bytes)
            ),
            false => say!("kept of it for volumes: {kept}"),
        }
    }
    let per_read = cache.written_per_read.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    say!(
        "written to it: {} of {} that capacity gave, headers {} ({per_read} bytes per byte read); \
         {} as it was destaged; {} of memory",
        format_size(cache.filled_bytes),
        format_size(cache.capacity_bytes),
        format_size(cache.header_bytes),
        format_size(cache.updated_bytes),
        format_size(cache.memory_bytes)
    );
}

/// Tells how much was written to the devices for each byte that components wrote: that wears them
/// out.
fn say_written(group: &GroupReport) {
    let appended = group.appended_bytes;
    if appended == 0 {
        return;
    }
    let of = |role| {
        let devices = group.devices.iter().filter(|device| device.role == role);
        let bytes: u64 = devices.map(|device| device.written_bytes).sum();
        format!("{} ({:.2} times as much)", format_size(bytes), bytes as f64 / appended as f64)
    };
    say!(
        "\nwritten since the group was opened: {} by volumes, {} to cache, {} to capacity",
        format_size(appended),
        of(Role::Cache),
        of(Role::Capacity)
    );
    if group.direct_bytes > 0 {
        say!(
            "of it {} went to capacity at once, {} of that to stay: written once",
            format_size(group.direct_bytes),
            format_size(group.mapped_bytes)
        );
    }
    let requests = &group.requests;
    let pages = requests.pages_written + requests.map_pages + requests.rows;
    say!(
        "requests for it: {} commits, {} reads of the log; {} writes of blocks, {} direct writes, \
         {} requests to merge, {} journal records and {} heads, {} reads and {pages} writes of \
         pages and rows, {} reads to compare, {} flushes",
        requests.commits,
        requests.log_read,
        requests.blocks,
        requests.direct,
        requests.merged,
        requests.records,
        requests.heads,
        requests.pages_read,
        requests.read_back,
        requests.flushes
    );
}

fn space_table(device: &DeviceReport, space: &SpaceReport) {
    let parts = [
        ("data", space.allocated_bytes),
        ("set aside for the write buffer", space.reserved_bytes),
        ("kept for volumes with a reserve", space.promised_bytes),
        ("waiting for its discard", space.freeing_bytes),
        ("free", space.free_bytes),
        ("the store's own", space.metadata_bytes),
        ("unusable rest", space.unusable_bytes),
        ("together", parts_sum(space)),
    ];
    let rows = parts.map(|(what, bytes)| vec![what.to_owned(), format_size(bytes)]);
    say!("{}", device.path);
    output::table(&["space", "bytes"], rows.to_vec());
}

fn parts_sum(space: &SpaceReport) -> u64 {
    let chunks = space.allocated_bytes + space.reserved_bytes + space.promised_bytes;
    let free = space.freeing_bytes + space.free_bytes;
    chunks + free + space.metadata_bytes + space.unusable_bytes
}

/// `gabion disk list`.
pub fn disk_list(cli: &Cli) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    let devices = || report.groups.iter().flat_map(with_wear);
    let line = |(group, device, wear_percent): Row<'_>| -> serde_json::Value {
        let line = DiskLine { host: &group.host, group: &group.id, device, wear_percent };
        serde_json::to_value(line).unwrap_or_default()
    };
    let all: Vec<Row<'_>> = devices().collect();
    let lines: Vec<_> = all.iter().copied().map(line).collect();
    output::print(cli.output, &lines, |_| {
        disk_table(all);
        say_attention(&report.groups);
    })
}

/// A device with its group and its wear.
type Row<'a> = (&'a GroupReport, &'a DeviceReport, Option<u8>);

fn with_wear(group: &GroupReport) -> impl Iterator<Item = Row<'_>> {
    group.devices.iter().map(move |device| (group, device, wear::percent(&device.path)))
}

fn disk_table(devices: Vec<Row<'_>>) {
    let rows = devices.into_iter().map(|(group, device, wear)| {
        vec![
            group.host.clone(),
            device.path.clone(),
            match device.role {
                Role::Cache => "cache",
                Role::Capacity => "capacity",
            }
            .to_owned(),
            match device.kind {
                DeviceMedium::Ssd => "ssd",
                DeviceMedium::Hdd => "hdd",
                DeviceMedium::File => "file",
                DeviceMedium::Unknown => "-",
            }
            .to_owned(),
            size_or_dash(device.size_bytes),
            if device.size_bytes > 0 { format_size(device.used_bytes) } else { "-".to_owned() },
            device.model.clone().unwrap_or_else(|| "-".to_owned()),
            wear.map_or_else(|| "-".to_owned(), |used| format!("{used} %")),
            latency::median(device),
            or_dash(&group.id),
            device.state.clone(),
        ]
    });
    let heading = [
        "host", "device", "role", "kind", "size", "used", "model", "wear", "latency", "group",
        "state",
    ];
    output::table(&heading, rows.collect());
}

/// The state in one or two words, for a table. [`say_attention`] tells the rest.
fn state_of(group: &GroupReport) -> &'static str {
    match (group.state.as_str(), group.is_open) {
        ("ok", _) => "ok",
        (_, false) => "out of service",
        (_, true) if group.devices.iter().any(|device| device.state == "out") => "device out",
        (_, true) => "takes no writes",
    }
}

/// What is wrong with groups and devices, with the next step.
pub fn say_attention(groups: &[GroupReport]) {
    for group in groups.iter().filter(|group| group.state != "ok") {
        say!("\nattention: {}: {}", group.host, group.state);
    }
    for group in groups {
        for line in &group.attention {
            say!("\nattention: {}: {line}", group.host);
        }
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn size_or_dash(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { format_size(bytes) }
}
