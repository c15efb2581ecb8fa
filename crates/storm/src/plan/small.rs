// SPDX-License-Identifier: Apache-2.0
//! Sizes and limits that are drawn small. Code behind a limit that a run never meets is not tried:
//! the second page of a listing, the second object of a volume, the block that is cut at its end.

use super::{HostMemory, Plan, growth, memory, volumes};
use crate::releases;
use base::{CHUNK_SECTORS, CHUNK_SIZE, Rng, SECTOR_SIZE};
use directory::{ClientOptions, OBJECT_SECTORS_MAX, ServeOptions};
use diskgroup::GroupLimits;
use object::{FREE_CHUNKS_RESERVE, ObjectLimits};
use peer::PeerOptions;
use std::time::Duration;
use volume::{CreationOptions, VolumeOptions};

/// The first seed with small limits, odd sizes, volumes of several objects and large ones.
const SMALL_FIRST: u64 = 252_000_000;
/// The first seed with direct writes: small ones in most of them.
const DIRECT_FIRST: u64 = 257_000_000;
/// The first seed in which devices may have no chunk to spare for direct writes after a few of
/// them.
const NARROW_FIRST: u64 = 279_000_000;
/// No append has so many blocks.
const NO_DIRECT: u64 = CHUNK_SECTORS;
/// One seed in so many has a large volume.
const LARGE_ONE_IN: u64 = 50;
/// Objects of a large volume are not smaller: a small device takes 128 components.
const LARGE_OBJECT_CHUNKS: u64 = 4;
/// The first seed in which the other volumes fit beside a large one (with its large objects they
/// may be larger than it is), the copies of its resync into a write buffer, and what reserves keep
/// beside their part of each object.
const ALL_FIT_FIRST: u64 = 272_000_000;
/// This part of the volumes of a run with a large one fits into the write buffer besides.
const LARGE_BUFFER_PART: u64 = 2;
/// The most rounds of a run with a large volume: each of its rounds reads all of it on each host.
const LARGE_ROUNDS: usize = 2;
/// The first seed in which links at rest may be pinged rarely.
const RARE_PINGS_FIRST: u64 = 304_000_000;

/// Limits of volumes and of the directory, and of what hosts have in memory.
#[derive(Clone, Debug, Default)]
pub struct PlanLimits {
    /// Of open volumes.
    pub volume: VolumeOptions,
    /// How volumes are created: how large their objects are.
    pub creation: CreationOptions,
    /// Of the directory's clients.
    pub client: ClientOptions,
    /// Of the directory. What goes wrong there is [`Plan::directory`].
    pub server: ServeOptions,
    /// Of each host; it has plenty where it is not told of.
    pub memory: Vec<HostMemory>,
    /// Between hosts: links at rest are pinged as rarely as in a cluster of hundreds.
    pub peer: PeerOptions,
    /// Whether each start of a host is of one of two releases.
    pub is_mixed: bool,
}

/// Draws sizes and limits for the later seeds.
pub(crate) fn draw(mut plan: Plan) -> Plan {
    if plan.seed < DIRECT_FIRST {
        plan.group.limits.direct_blocks = NO_DIRECT;
    }
    if plan.seed < SMALL_FIRST {
        return plan;
    }
    let mut rng = Rng::stream(plan.seed, 15);
    let is_large = rng.below(LARGE_ONE_IN) == 0;
    if rng.below(2) == 0 {
        let (least, most) = if is_large { (LARGE_OBJECT_CHUNKS, 80) } else { (1, 3) };
        let chunks = (1 + rng.below(most)).max(least);
        plan.limits.creation.object_sectors = CHUNK_SECTORS * chunks;
    }
    let creation = plan.limits.creation;
    for (number, volume) in plan.volumes.iter_mut().enumerate() {
        let is_large = is_large && number == 0;
        if is_large {
            volume.reserve_percent = 0; // its devices hold what is written, not all of it
        }
        volume.sectors = match is_large {
            true => CHUNK_SECTORS * (65 + rng.below(250)) + rng.below(CHUNK_SECTORS),
            false => sectors(&mut rng, volume.sectors, creation.object_sectors),
        };
        volume.sectors = growth::size(plan.seed, volume.sectors);
        volume.ftt = volumes::ftt(plan.seed, number, volume.ftt, plan.hosts);
        (volume.stripe_width, volume.object_sectors) =
            volumes::width(plan.seed, number, volume.sectors, creation);
        volume.load.edge_percent = [0, 10, 30, 60][index(&mut rng, 4)];
    }
    for round in &mut plan.rounds {
        round.object = index(&mut rng, plan.volumes[round.focus].objects());
    }
    plan.group.limits = group_limits(&mut rng);
    limits_of_journals(plan.seed, &mut plan.group.limits);
    if plan.seed >= DIRECT_FIRST {
        draw_direct(&mut plan);
    }
    plan.object.limits = object_limits(&mut rng);
    limits_of_volumes(&mut rng, &mut plan);
    limits_of_the_directory(&mut rng, &mut plan);
    limits_between_hosts(&mut plan);
    if is_large {
        plan.rounds.truncate(LARGE_ROUNDS);
        let volumes = match plan.seed < ALL_FIT_FIRST {
            true => &plan.volumes[..1],
            false => &plan.volumes[..],
        };
        let sectors: u64 = volumes.iter().map(|volume| volume.sectors).sum();
        plan.sizes.capacity += sectors * SECTOR_SIZE + (64 * CHUNK_SIZE);
        // A copy of all of it would take its time block by block.
        plan.object.limits.copy_blocks = ObjectLimits::default().copy_blocks;
        if plan.seed >= ALL_FIT_FIRST {
            // Copies are above K while a write waits somewhere, and what is above K stays in the
            // write buffer: one of some megabytes would be filled by one resync.
            let more = sectors * SECTOR_SIZE / LARGE_BUFFER_PART;
            plan.sizes.cache += more.next_multiple_of(CHUNK_SIZE);
        }
    }
    if plan.seed >= ALL_FIT_FIRST {
        let kept = plan.volumes.iter().filter(|volume| volume.reserve_percent > 0);
        let objects = kept.flat_map(|volume| 0..volume.objects());
        let chunks: u64 = objects.map(|_| u64::from(FREE_CHUNKS_RESERVE - 1)).sum();
        plan.sizes.capacity += chunks * CHUNK_SIZE;
    }
    plan.sizes.capacity += growth::room(plan.seed, plan.volumes.len());
    draw_narrow(&mut plan);
    memory::draw(&mut plan);
    plan
}

/// Gives a plan the limits of production again. Volumes keep their sizes and have one object.
pub(crate) fn forget(plan: &mut Plan) {
    plan.limits = PlanLimits::default();
    for volume in &mut plan.volumes {
        (volume.object_sectors, volume.stripe_width) = (OBJECT_SECTORS_MAX, 1);
    }
    plan.rounds.iter_mut().for_each(|round| round.object = 0);
}

/// The size of a volume that had `drawn` sectors: mostly odd, so that its last block is cut; where
/// objects are small, mostly of several of them.
fn sectors(rng: &mut Rng, drawn: u64, object_sectors: u64) -> u64 {
    let has_objects = object_sectors < OBJECT_SECTORS_MAX && rng.below(4) > 0;
    let sectors = match has_objects {
        true => object_sectors * (1 + rng.below(4)) + 1 + rng.below(object_sectors),
        false => match rng.below(8) {
            0 => 1 + rng.below(16),
            1..4 => drawn + rng.below(CHUNK_SECTORS),
            _ => drawn,
        },
    };
    if rng.below(4) > 0 { sectors | 1 } else { sectors }
}

/// A number below `most`, which is not 0.
pub(super) fn index(rng: &mut Rng, most: usize) -> usize {
    usize::try_from(rng.next_u64() % u64::try_from(most).unwrap_or(u64::MAX)).unwrap_or(0)
}

/// In half of the seeds one of `small`, else what production has.
fn some<T: Copy>(rng: &mut Rng, production: T, small: &[T]) -> T {
    small.get(index(rng, 2 * small.len())).copied().unwrap_or(production)
}

fn group_limits(rng: &mut Rng) -> GroupLimits {
    let production = GroupLimits::default();
    GroupLimits {
        list_chunks: some(rng, production.list_chunks, &[1, 1, 2, 3, 64]),
        list_ranges: some(rng, production.list_ranges, &[1, 2, 7]),
        list_looks: some(rng, production.list_looks, &[1, 256, 300, 600]),
        history_blocks: some(rng, production.history_blocks, &[1, 2, 8, 64]),
        leaf_bits: some(rng, production.leaf_bits, &[0, 1]),
        scrub_sectors: some(rng, production.scrub_sectors, &[8, 16, 64]),
        scrub_passed: some(rng, production.scrub_passed, &[1, 2]),
        deleted_chunks: some(rng, production.deleted_chunks, &[1, 2]),
        reclaimed_chunks: some(rng, production.reclaimed_chunks, &[1, 2]),
        checkpoint_pages: some(rng, production.checkpoint_pages, &[1, 2]),
        sweep_segments: some(rng, production.sweep_segments, &[1, 2]),
        fills: some(rng, production.fills, &[1, 2]),
        header_lines: some(rng, production.header_lines, &[1, 2]),
        // Those of direct writes are drawn apart.
        direct_blocks: NO_DIRECT,
        ..production
    }
}

/// With numbers of their own: those of all other limits stay what they were.
fn limits_of_journals(seed: u64, limits: &mut GroupLimits) {
    let mut rng = Rng::stream(seed, 21);
    limits.half_bytes = some(&mut rng, limits.half_bytes, &[1, 4096, 3 * 4096, 1 << 15, 1 << 17]);
    limits.band_pages = some(&mut rng, limits.band_pages, &[1, 2, 8]);
    limits.ahead_part = some(&mut rng, limits.ahead_part, &[1, 2]);
    limits.stream_sectors = some(&mut rng, limits.stream_sectors, &[1, 8]);
}

/// In three of four seeds writes of a few blocks are direct, drawn apart: a seed of before draws
/// the rest as it did.
fn draw_direct(plan: &mut Plan) {
    let mut rng = Rng::stream(plan.seed, 20);
    let limits = &mut plan.group.limits;
    let GroupLimits { direct_blocks: least, stock_chunks: stock, .. } = GroupLimits::default();
    limits.direct_blocks = [1, 1, 2, 4, 8, 16, least, least][index(&mut rng, 8)];
    limits.direct_spare = [1, 1, 2, 24][index(&mut rng, 4)];
    limits.stock_chunks = [0, 1, 2, stock][index(&mut rng, 4)];
}

/// In one of four seeds a device has few chunks to spare for direct writes, so that large writes go
/// now this way and now through the log, and destage gives back what only direct writes took.
fn draw_narrow(plan: &mut Plan) {
    let mut rng = Rng::stream(plan.seed, 26);
    if plan.seed >= NARROW_FIRST && rng.below(4) == 0 {
        let chunks = plan.sizes.capacity / CHUNK_SIZE;
        plan.group.limits.direct_spare = chunks.saturating_sub(1 + rng.below(40));
    }
}

fn object_limits(rng: &mut Rng) -> ObjectLimits {
    let production = ObjectLimits::default();
    ObjectLimits {
        list_entries: some(rng, production.list_entries, &[2, 3, 8]),
        copy_blocks: some(rng, production.copy_blocks, &[1, 2, 7, 8]),
        copies: some(rng, production.copies, &[1, 2, 4]),
        tail_copies: some(rng, production.tail_copies, &[1]),
        resyncs: some(rng, production.resyncs, &[1]),
        forwarded: some(rng, production.forwarded, &[1, 2, 4]),
    }
}

fn limits_of_volumes(rng: &mut Rng, plan: &mut Plan) {
    let production = VolumeOptions::default();
    plan.limits.volume.step_sectors = some(rng, production.step_sectors, &[7, 64, 1000, 2048]);
    plan.limits.volume.pieces = some(rng, production.pieces, &[1, 2]);
    plan.limits.volume.late_writes = some(rng, production.late_writes, &[0, 1]);
    // So short that others notice nothing of a client that waits for its turn.
    plan.limits.volume.writer_wait = Duration::from_secs(1);
    let production = CreationOptions::default();
    plan.limits.creation.objects_at_once = some(rng, production.objects_at_once, &[1, 2]);
    plan.limits.creation.transaction_objects = some(rng, production.transaction_objects, &[1, 2]);
}

fn limits_between_hosts(plan: &mut Plan) {
    plan.limits.peer.ping_spacing = ping_spacing(plan.seed);
    plan.limits.is_mixed = releases::are_mixed(plan.seed);
}

fn ping_spacing(seed: u64) -> Duration {
    let production = PeerOptions::default().ping_spacing;
    if seed < RARE_PINGS_FIRST {
        return production;
    }
    let few = [production, Duration::from_millis(100), Duration::from_millis(600)];
    few[index(&mut Rng::stream(seed, 35), few.len())]
}

fn limits_of_the_directory(rng: &mut Rng, plan: &mut Plan) {
    let production = ClientOptions::default();
    plan.limits.client.watch_events = some(rng, production.watch_events, &[1, 2, 8]);
    let production = ServeOptions::default();
    plan.limits.server.history = some(rng, production.history, &[0, 1, 4, 32]);
    plan.limits.server.part_bytes = some(rng, production.part_bytes, &[1, 200, 4096]);
}
