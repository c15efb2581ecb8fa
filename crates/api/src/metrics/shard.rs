// SPDX-License-Identifier: Apache-2.0
//! What each shard says of itself: its thread, memory, links, and what it copies.

use super::row::{Metric, SHARD, Sample, Samples, Scrape, counter, gauge};
use operator::{MemoryUse, StageTotal};
use std::time::Duration;

fn part_name(part: MemoryUse) -> &'static str {
    match part {
        MemoryUse::ChecksumPages => "checksum_pages",
        MemoryUse::WriteBuffers => "write_buffers",
        MemoryUse::ChunkMaps => "chunk_maps",
        MemoryUse::ReadCaches => "read_caches",
        MemoryUse::UnderWay => "under_way",
        MemoryUse::Traffic => "traffic",
        MemoryUse::Process => "process",
        MemoryUse::Left => "left",
    }
}

fn stages(it: &Scrape, out: &mut Samples<'_>, value: fn(&StageTotal) -> Sample) {
    for one in &it.answers {
        for stage in &one.stages {
            out.put(&[&one.status.host, &stage.stage.replace(' ', "_")], value(stage));
        }
    }
}

pub(super) const METRICS: &[Metric] = &[
    gauge("gabion_shard_up", SHARD, "Whether the shard answered this scrape", |it, out| {
        out.shards(it, |_| true);
        it.silent.iter().for_each(|shard| out.put(&[shard], false));
    }),
    gauge(
        "gabion_shard_info",
        &["shard", "host"],
        "1; the host that the shard is of",
        |it, out| {
            for one in &it.answers {
                let name = &one.status.host;
                let known = one.status.hosts.iter().find(|shard| shard.name == *name);
                out.put(&[name, known.map_or(name, |shard| shard.host())], 1_u64);
            }
        },
    ),
    gauge(
        "gabion_scrape_duration_seconds",
        &[],
        "How long the shards took to answer this scrape",
        |it, out| out.put(&[], it.took),
    ),
    gauge(
        "gabion_scrape_volumes_left_out",
        SHARD,
        "Volumes that have no series of their own, for the shard has more than it tells of",
        |it, out| out.shards(it, |one| one.left_out),
    ),
    counter(
        "gabion_thread_long_turns_total",
        SHARD,
        "Turns of the shard's thread in which one task took more than 20 ms",
        |it, out| out.shards(it, |one| one.status.turns.first().map(|turns| turns.long)),
    ),
    gauge(
        "gabion_thread_longest_turn_seconds",
        SHARD,
        "The longest of them since the shard's start",
        |it, out| {
            out.shards(it, |one| one.status.turns.first().map(|turns| turns.longest_ms / 1e3));
        },
    ),
    gauge(
        "gabion_memory_used_bytes",
        &["shard", "part"],
        "Memory that a part of the shard has, where somebody counts it",
        |it, out| {
            for memory in it.answers.iter().flat_map(|one| &one.status.memory) {
                for part in &memory.parts {
                    out.put(&[&memory.host, part_name(part.name)], part.used_bytes);
                }
            }
        },
    ),
    gauge(
        "gabion_memory_budget_bytes",
        &["shard", "part"],
        "Memory that it may have; all parts together are what the shard may have",
        |it, out| {
            for memory in it.answers.iter().flat_map(|one| &one.status.memory) {
                for part in &memory.parts {
                    out.put(&[&memory.host, part_name(part.name)], part.budget_bytes);
                }
            }
        },
    ),
    counter(
        "gabion_write_stage_passes_total",
        &["shard", "stage"],
        "Times that writes went through a stage of their way",
        |it, out| {
            stages(it, out, |one| one.passed.into());
        },
    ),
    counter(
        "gabion_write_stage_measured_total",
        &["shard", "stage"],
        "Those that were measured: one in a hundred",
        |it, out| {
            stages(it, out, |one| one.measured.into());
        },
    ),
    counter(
        "gabion_write_stage_measured_seconds_total",
        &["shard", "stage"],
        "What the measured ones took together",
        |it, out| {
            stages(it, out, |one| Duration::from_micros(one.took_us).into());
        },
    ),
    counter(
        "gabion_links_made_total",
        SHARD,
        "Links to other shards that were made: two to each are usual, more are reconnects",
        |it, out| out.shards(it, |one| one.links.made),
    ),
    counter(
        "gabion_links_silent_total",
        SHARD,
        "Links that were dropped because nothing was heard any more",
        |it, out| out.shards(it, |one| one.links.silent),
    ),
    counter(
        "gabion_links_refused_total",
        SHARD,
        "Links that were dropped or refused for what came over them",
        |it, out| out.shards(it, |one| one.links.refused),
    ),
    counter(
        "gabion_link_messages_sent_total",
        SHARD,
        "Messages sent to other shards",
        |it, out| out.shards(it, |one| one.links.messages_sent),
    ),
    counter(
        "gabion_link_messages_received_total",
        SHARD,
        "Messages received of other shards",
        |it, out| out.shards(it, |one| one.links.messages_received),
    ),
    counter(
        "gabion_link_received_bytes_total",
        SHARD,
        "Bytes received of other shards",
        |it, out| out.shards(it, |one| one.links.bytes_received),
    ),
    gauge(
        "gabion_link_waiting_bytes",
        SHARD,
        "Bytes of requests that wait for room on a link",
        |it, out| out.shards(it, |one| one.links.waiting_bytes),
    ),
    gauge(
        "gabion_link_silent_seconds",
        &["shard", "peer"],
        "How long another shard has not answered this one; without those that do",
        |it, out| {
            for one in &it.answers {
                for peer in &one.status.hosts {
                    let silent = peer.silent_seconds.map(Duration::from_secs);
                    out.put(&[&one.status.host, &peer.name], silent);
                }
            }
        },
    ),
    gauge(
        "gabion_resync_copies",
        &["shard", "state"],
        "Copies that this shard fills (copying), or that wait for it (waiting)",
        |it, out| {
            for one in &it.answers {
                out.put(&[&one.status.host, "copying"], one.resync.copying);
                out.put(&[&one.status.host, "waiting"], one.resync.waiting);
            }
        },
    ),
    gauge(
        "gabion_resync_left_bytes",
        SHARD,
        "Bytes that it still has to copy to them, as far as that is known",
        |it, out| out.shards(it, |one| one.resync.bytes_left),
    ),
    counter(
        "gabion_resync_copied_bytes_total",
        SHARD,
        "Bytes that it copied to copies that were behind",
        |it, out| out.shards(it, |one| one.resync.copied_bytes),
    ),
];
