// SPDX-License-Identifier: Apache-2.0
//! What the volumes of later seeds are besides: striped over several objects, of four copies, or
//! written through one host at a time.

use crate::releases;
use base::{Rng, SECTOR_SIZE};
use directory::Writers;
use volume::CreationOptions;

/// Seeds from here on have striped volumes, in one of two.
const STRIPES_FROM: u64 = 300_000_000;
/// The widest of them. What is wider does nothing that four objects do not.
pub(super) const WIDTH_MAX: u8 = 4;
/// Seeds from here on have volumes of four copies.
const FOUR_FROM: u64 = 301_000_000;
/// Hosts that there are at least then: one more, which copies move to.
const FOUR_HOSTS: u32 = 5;
/// The first seed whose clients ask for block status.
const STATUS_FIRST: u64 = 250_000_000;
/// Seeds from here on have volumes that one host writes to at a time, where their hosts are of one
/// release.
pub(crate) const WRITERS_FROM: u64 = 307_000_000;

/// Seeds from here on have volumes for which read cache is kept, where their hosts are of one
/// release.
const CACHE_FROM: u64 = 310_000_000;

/// Whether read cache may be kept for volumes of a seed.
pub(crate) fn may_keep_cache(seed: u64) -> bool {
    seed >= CACHE_FROM && !releases::are_mixed(seed)
}

/// Whether a seed may have striped volumes.
pub(super) fn may_stripe(seed: u64) -> bool {
    seed >= STRIPES_FROM
}

/// Over how many objects a volume is striped, and the sectors of each but the last one. 1: it is
/// not striped.
pub(super) fn width(
    seed: u64,
    number: usize,
    sectors: u64,
    creation: CreationOptions,
) -> (u8, u64) {
    let mut rng = Rng::stream(seed, 33);
    let is_drawn = may_stripe(seed) && rng.below(2) > 0;
    let drawn = (0..=number).map(|_| rng.below(u64::from(WIDTH_MAX))).last();
    let width = 1 + u8::try_from(drawn.unwrap_or(0)).unwrap_or(0);
    if is_drawn && width > 1 {
        return (width, creation.object_sectors);
    }
    let each = creation.layout_of(sectors * SECTOR_SIZE, 1).sizes().max();
    (1, each.unwrap_or(1))
}

/// Failures to tolerate of a volume that was to tolerate `ftt`, in a cluster of so many hosts.
pub(super) fn ftt(seed: u64, volume: usize, ftt: u8, hosts: u32) -> u8 {
    if seed < FOUR_FROM || hosts < FOUR_HOSTS || ftt < 2 {
        return ftt;
    }
    let mut rng = Rng::stream(seed, 34);
    let is_more = (0..=volume).map(|_| rng.below(2) == 0).last();
    if is_more == Some(true) { 3 } else { ftt }
}

/// Of each volume in turn: how often its clients ask for block status, percent; through how many
/// hosts it is written at a time; and for which part of it read cache is kept, percent.
pub(super) fn more_of_each(seed: u64) -> impl Iterator<Item = (u64, Writers, u8)> {
    let more = status_percents(seed).zip(writers(seed)).zip(cache_percents(seed));
    more.map(|((status, writers), cache)| (status, writers, cache))
}

fn cache_percents(seed: u64) -> impl Iterator<Item = u8> {
    let mut rng = Rng::stream(seed, 41);
    std::iter::repeat_with(move || match may_keep_cache(seed) {
        true => [0, 10, 50, 100][usize::try_from(rng.below(4)).unwrap_or(0)],
        false => 0,
    })
}

fn status_percents(seed: u64) -> impl Iterator<Item = u64> {
    let mut rng = Rng::stream(seed, 14);
    std::iter::repeat_with(move || match seed >= STATUS_FIRST {
        true => [0, 5, 20, 50][usize::try_from(rng.below(4)).unwrap_or(0)],
        false => 0,
    })
}

fn writers(seed: u64) -> impl Iterator<Item = Writers> {
    let mut rng = Rng::stream(seed, 39);
    let may = seed >= WRITERS_FROM && !releases::are_mixed(seed);
    std::iter::repeat_with(move || match may && rng.below(3) == 0 {
        true => Writers::One,
        false => Writers::Any,
    })
}
