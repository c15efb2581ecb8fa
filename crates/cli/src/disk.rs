// SPDX-License-Identifier: Apache-2.0
//! `gabion disk`. A device is inspected here by itself, without a running host.

use crate::args::{Cli, DiskCommand, InspectArgs};
use crate::complain;
use crate::devices::unusable;
use crate::output::{self, say};
use anyhow::{Context, Result};
use base::{SECTOR_SIZE, format_size};
use diskgroup::{Content, Finding, Inspection, Severity};
use env::{Env, Fifo};
use serde::Serialize;
use std::process::ExitCode;

/// What is printed of a device.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    kind: &'static str,
    group: Option<String>,
    size_bytes: u64,
    /// For a cache device: capacity devices, counted from 0, that were given up. They lack data
    /// that the log no longer holds.
    given_up: Vec<u32>,
    healthy: bool,
    segments: Vec<SegmentLine>,
    components: Vec<ComponentLine>,
    usage: Option<Usage>,
    findings: Vec<FindingLine>,
    more_findings: u64,
}

#[derive(Serialize)]
struct SegmentLine {
    number: u64,
    offset: u64,
    commits: u64,
    entries: u64,
    direct_entries: u64,
    used_bytes: u64,
    has_summary: bool,
}

#[derive(Serialize)]
struct ComponentLine {
    component: String,
    object: String,
    size_bytes: u64,
    chunks: u64,
    destaged: String,
}

#[derive(Serialize)]
struct Usage {
    chunks: u64,
    chunks_used: u64,
    blocks: u64,
    blocks_checked: u64,
    journal_records: u64,
}

#[derive(Serialize)]
struct FindingLine {
    severity: &'static str,
    structure: String,
    offset: u64,
    what: String,
    effect: &'static str,
}

/// `gabion disk ...`.
pub fn disk(cli: &Cli, command: &DiskCommand) -> Result<ExitCode> {
    match command {
        DiskCommand::List => crate::group::disk_list(cli).map(|()| ExitCode::SUCCESS),
        DiskCommand::Inspect(args) => inspect(cli, args),
        DiskCommand::Replace(args) => {
            crate::replace::replace(cli, args).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn inspect(cli: &Cli, args: &InspectArgs) -> Result<ExitCode> {
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let (inner, path, blocks) = (env.clone(), args.device.clone(), args.read_blocks);
    let looked = env.run(async move { diskgroup::inspect(&inner, &path, blocks).await });
    let found = looked.map_err(unusable)?;
    let report = report(&args.device, &found);
    output::print(cli.output, &report, |report| people(report, args.read_blocks))?;
    if found.is_healthy() {
        return Ok(ExitCode::SUCCESS);
    }
    complain(&format!("'{}' is damaged: see its findings", args.device));
    Ok(ExitCode::from(1))
}

fn report<'a>(device: &'a str, found: &Inspection) -> Report<'a> {
    let mut report = Report {
        device,
        kind: "unknown",
        group: found.superblock.map(|superblock| format!("{:x}", superblock.group.0)),
        size_bytes: found.size,
        given_up: Vec::new(),
        healthy: found.is_healthy(),
        segments: Vec::new(),
        components: Vec::new(),
        usage: None,
        findings: found.findings.iter().map(finding_line).collect(),
        more_findings: found.more_findings,
    };
    match &found.content {
        Content::Unknown => {}
        Content::Cache(log) => {
            report.kind = "cache";
            report.given_up.clone_from(&log.given_up);
            report.segments = log.segments.iter().map(segment_line).collect();
        }
        Content::Capacity(content) => {
            report.kind = "capacity";
            report.components = content.components.iter().map(component_line).collect();
            report.usage = Some(Usage {
                chunks: content.chunks,
                chunks_used: content.allocated,
                blocks: content.blocks,
                blocks_checked: content.blocks_checked,
                journal_records: content.journal_records,
            });
        }
    }
    report
}

fn segment_line(segment: &diskgroup::SegmentContent) -> SegmentLine {
    SegmentLine {
        number: segment.number,
        offset: segment.offset,
        commits: segment.commits,
        entries: segment.entries,
        direct_entries: segment.direct_entries,
        used_bytes: segment.used,
        has_summary: segment.has_summary,
    }
}

fn component_line(component: &diskgroup::ComponentContent) -> ComponentLine {
    ComponentLine {
        component: component.id.to_string(),
        object: component.object.to_string(),
        size_bytes: component.sectors * SECTOR_SIZE,
        chunks: component.chunks,
        destaged: component.destaged.to_string(),
    }
}

fn finding_line(finding: &Finding) -> FindingLine {
    FindingLine {
        severity: match finding.severity {
            Severity::Remark => "remark",
            Severity::Damage => "damage",
        },
        structure: finding.structure.to_string(),
        offset: finding.offset,
        what: finding.what.clone(),
        effect: finding.effect,
    }
}

fn people(report: &Report<'_>, has_read_blocks: bool) {
    let health = if report.healthy { "healthy" } else { "DAMAGED" };
    let group = report.group.as_ref().map_or(String::new(), |id| format!(" of disk group {id}"));
    let size = format_size(report.size_bytes);
    say!("{}: {} device{group}, {size}, {health}", report.device, report.kind);
    if report.kind == "cache" {
        let sum = |of: fn(&SegmentLine) -> u64| report.segments.iter().map(of).sum::<u64>();
        say!(
            "log: {} segments in use, {} commits, {} entries ({} of direct writes), {} bytes",
            report.segments.len(),
            sum(|s| s.commits),
            sum(|s| s.entries),
            sum(|s| s.direct_entries),
            sum(|s| s.used_bytes)
        );
    }
    for at in &report.given_up {
        say!(
            "capacity device number {} of the group is out and was given up: what is on it comes \
             back by copies of what it lacks",
            at + 1
        );
    }
    if let Some(usage) = &report.usage {
        let checked = match has_read_blocks {
            true => format!("{} compared with their checksums", usage.blocks_checked),
            false => "not read (--read-blocks compares them with their checksums)".to_owned(),
        };
        say!(
            "{} of {} chunks in use, {} blocks hold data: {checked}; {} journal records",
            usage.chunks_used,
            usage.chunks,
            usage.blocks,
            usage.journal_records
        );
    }
    if !report.components.is_empty() {
        say!("");
        let row = |line: &ComponentLine| {
            vec![
                line.component.clone(),
                line.object.clone(),
                format_size(line.size_bytes),
                line.chunks.to_string(),
                line.destaged.clone(),
            ]
        };
        let rows = report.components.iter().map(row).collect();
        output::table(&["component", "object", "size", "chunks", "destaged"], rows);
    }
    if !report.findings.is_empty() {
        say!("");
        let row = |line: &FindingLine| {
            vec![
                line.severity.to_owned(),
                line.structure.clone(),
                line.offset.to_string(),
                line.what.clone(),
                line.effect.to_owned(),
            ]
        };
        let rows = report.findings.iter().map(row).collect();
        output::table(&["severity", "structure", "offset", "what", "effect"], rows);
    }
    if report.more_findings > 0 {
        say!("and {} more", report.more_findings);
    }
}
