// SPDX-License-Identifier: Apache-2.0
//! Changes of a device's pages as an input describes them, and checksums made right behind them.

use crate::image::{DEVICES, Image, PAGE, Pages};
use crate::pages::{sealed, sealed_log, sealed_record};
use fuzz::Source;

/// How far changes are made to look as if they had been written so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Not at all: rot.
    None,
    /// Each structure has its checksum.
    Seals,
    /// And each commit and journal record names the checksum of the one before.
    Chains,
}

/// Changes `image` as `from` says.
pub(crate) fn damage(image: &mut Image, from: &mut Source<'_>, repair: Repair) {
    let mut touched = Vec::new();
    for _ in 0..1 + from.below(6) {
        let device = from.index(2);
        let pages = &mut image.devices[device];
        let Some(at) = pick(pages, from) else { return };
        change(pages, at, DEVICES[device].1, from);
        touched.push((device, at));
    }
    if repair == Repair::None {
        return;
    }
    for (device, at) in touched {
        seal(&mut image.devices[device], at);
    }
    if repair == Repair::Chains {
        image.devices.iter_mut().for_each(chain);
    }
}

/// A page that holds something: structures as often as data.
fn pick(pages: &Pages, from: &mut Source<'_>) -> Option<u64> {
    let is_ours = |page: &[u8; PAGE]| page.starts_with(b"GB");
    let wants_ours = !from.u8().is_multiple_of(4);
    let some: Vec<u64> =
        pages.iter().filter(|(_, page)| !wants_ours || is_ours(page)).map(|(at, _)| *at).collect();
    some.get(from.index(some.len())).copied()
}

fn change(pages: &mut Pages, at: u64, size: u64, from: &mut Source<'_>) {
    let other = pick(pages, from).and_then(|at| pages.get(&at)).copied().unwrap_or([0; PAGE]);
    let Some(page) = pages.get_mut(&at) else { return };
    let place = if from.flag() { from.index(128) } else { from.index(PAGE) };
    let sector = place / 512 * 512..place / 512 * 512 + 512;
    match from.u8() % 12 {
        0 => page[place] ^= 1 << (from.u8() % 8),
        1 => page[place] = from.u8(),
        2..=6 => {
            let width = 1 << (from.u8() % 4);
            let place = place / width * width;
            let old = page[place..].iter().take(width).rev();
            let old = old.fold(0, |number, byte| number << 8 | u64::from(*byte));
            let new = match from.u8() % 3 {
                0 => old.wrapping_add(u64::from(from.u8() % 9)).wrapping_sub(4),
                _ => from.edge(),
            };
            page[place..place + width].copy_from_slice(&new.to_le_bytes()[..width]);
        }
        7 => page[sector].fill(0),
        8 => page[sector.clone()].copy_from_slice(&other[sector]),
        9 => *page = other,
        10 => *page = [0; PAGE],
        _ => {
            // A write that went elsewhere.
            let lost = *page;
            let _ = pages.insert(from.below(size / PAGE as u64) * PAGE as u64, lost);
        }
    }
}

/// So many bytes from `at`, zeros where nothing stands.
fn area(pages: &Pages, at: u64, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * PAGE);
    for number in 0..count as u64 {
        out.extend_from_slice(pages.get(&(at + number * PAGE as u64)).unwrap_or(&[0; PAGE]));
    }
    out
}

fn put(pages: &mut Pages, at: u64, bytes: &[u8]) {
    for (number, page) in bytes.chunks_exact(PAGE).enumerate() {
        let mut copy = [0; PAGE];
        copy.copy_from_slice(page);
        let _ = pages.insert(at + (number * PAGE) as u64, copy);
    }
}

fn device_of(page: &[u8]) -> u64 {
    page[8..16].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Pages of the longest structure that is sealed again.
const PAGES_MAX: usize = 16;

/// Makes the checksum of the structure at `at` right.
fn seal(pages: &mut Pages, at: u64) {
    let bytes = area(pages, at, PAGES_MAX);
    let device = device_of(&bytes);
    let one = &bytes[..PAGE];
    let sealed = match &bytes[..4] {
        b"GBSB" => sealed(one, b"GBSB", None),
        b"GBCT" => sealed(one, b"GBCT", Some(device)),
        b"GBMP" => sealed(one, b"GBMP", Some(device)),
        b"GBCP" => sealed(one, b"GBCP", Some(device)),
        b"GBRS" => sealed(one, b"GBRS", Some(device)),
        b"GBCH" => sealed_log(&bytes, b"GBCH", device),
        b"GBSS" => sealed_log(&bytes, b"GBSS", device),
        b"GBJR" => sealed_record(&bytes, device),
        _ => return,
    };
    // Only the first page has changed.
    put(pages, at, &sealed[..PAGE]);
}

fn number(page: &[u8], at: usize, width: usize) -> u64 {
    page[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Lets every commit, summary and record name the checksum of the one before it in sequence.
fn chain(pages: &mut Pages) {
    for (magic, sequence, previous, crc) in [(b"GBCH", 24, 56, 92), (b"GBJR", 16, 28, 32)] {
        let of = pages.iter().filter(|(_, page)| page.starts_with(magic));
        let mut all: Vec<(u64, u64)> =
            of.map(|(at, page)| (number(page, sequence, 8), *at)).collect();
        all.sort_unstable();
        let mut before: Option<(u64, [u8; 4])> = None;
        for (sequence, at) in all {
            let Some(page) = pages.get_mut(&at) else { continue };
            if let Some((last, crc)) = before
                && last.checked_add(1) == Some(sequence)
            {
                page[previous..previous + 4].copy_from_slice(&crc);
                seal(pages, at);
            }
            let sealed = pages.get(&at).map(|page| [0, 1, 2, 3].map(|n| page[crc + n]));
            before = sealed.map(|crc| (sequence, crc));
        }
    }
}
