// SPDX-License-Identifier: Apache-2.0
//! Inputs out of seeds: what a fuzzer with a corpus does, decided by the bytes of a recipe.

use crate::Source;

/// Bytes of the longest derived input beside its seed.
const GROW_MAX: usize = 512;
/// Where headers are: most fields of interest stand there.
const HEAD: usize = 128;

/// The input that `recipe` describes: the recipe itself, or one of `seeds` with a few changes.
#[must_use]
pub fn derive(recipe: &[u8], seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut from = Source::new(recipe);
    if from.u8() < 48 || seeds.is_empty() {
        return from.rest().to_vec();
    }
    let mut bytes = seeds[from.index(seeds.len())].clone();
    // One change finds what a single field can do; several get over checks that belong together.
    let changes = match from.u8() % 4 {
        0 | 1 => 1,
        2 => 2,
        _ => 3 + from.index(8),
    };
    for _ in 0..changes {
        change(&mut bytes, seeds, &mut from);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], from: &mut Source<'_>) {
    if bytes.is_empty() {
        bytes.push(from.u8());
        return;
    }
    let at = place(bytes.len(), from);
    let length = 1 + from.index((bytes.len() - at).min(64));
    match from.u8() % 18 {
        0 | 1 => bytes[at] ^= 1 << (from.u8() % 8),
        2 => bytes[at] = from.u8(),
        3..=7 => put_number(bytes, at, from),
        8 => bytes.truncate(at),
        9 => drop(bytes.drain(at..at + length)),
        10 => {
            let new = from.bytes(length).to_vec();
            drop(bytes.splice(at..at, new));
        }
        11 => {
            let copy = bytes[at..at + length].to_vec();
            let to = place(bytes.len(), from);
            drop(bytes.splice(to..to, copy));
        }
        12 => {
            let copy = bytes[at..at + length].to_vec();
            let to = place(bytes.len(), from);
            let end = (to + length).min(bytes.len());
            bytes[to..end].copy_from_slice(&copy[..end - to]);
        }
        13 => bytes[at..at + length].fill(if from.flag() { 0 } else { 0xFF }),
        14 => {
            let other = &seeds[from.index(seeds.len())];
            let start = place(other.len().max(1), from).min(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[start..]);
        }
        15 | 16 => count_list(bytes, at, from),
        _ => bytes.extend_from_slice(from.bytes(GROW_MAX)),
    }
}

/// Bytes of one item of a list in our formats, about.
const ITEMS: [usize; 8] = [1, 4, 5, 8, 12, 13, 16, 24];

/// Adds an item to a list, or takes one out, together with the number in front that counts items
/// or bytes: two changes that only together get beyond the end of a body.
fn count_list(bytes: &mut Vec<u8>, at: usize, from: &mut Source<'_>) {
    let width = if from.u8().is_multiple_of(4) { 2 } else { 4 };
    let is_big = from.u8().is_multiple_of(4);
    let read = |field: &[u8]| {
        let (low, high): (&u8, &u8) = match is_big {
            true => (&field[width - 1], &field[width - 2]),
            false => (&field[0], &field[1]),
        };
        let is_small = field.iter().filter(|byte| **byte != 0).count() <= 2;
        is_small.then(|| u16::from(*low) | u16::from(*high) << 8).filter(|count| *count > 0)
    };
    let mut fields = (at..bytes.len().saturating_sub(width)).take(256);
    let Some((place, count)) =
        fields.find_map(|place| Some((place, read(&bytes[place..place + width])?)))
    else {
        return;
    };
    let (first, size) = (place + width, ITEMS[from.index(ITEMS.len())]);
    let step = if from.flag() { 1 } else { size as u16 };
    let new = if from.flag() && first + size <= bytes.len() {
        let item = bytes[first..first + size].to_vec();
        drop(bytes.splice(first..first, item));
        count.saturating_add(step)
    } else {
        drop(bytes.drain(first..(first + size).min(bytes.len())));
        count.saturating_sub(step)
    };
    let (low, high) = if is_big { (width - 1, width - 2) } else { (0, 1) };
    [bytes[place + low], bytes[place + high]] = new.to_le_bytes();
}

/// A place in `0..length`: in the head as often as anywhere, aligned as often as not.
fn place(length: usize, from: &mut Source<'_>) -> usize {
    let choice = from.u8();
    let bound = if choice & 1 == 0 { length.min(HEAD) } else { length };
    let at = from.index(bound);
    match choice >> 1 & 3 {
        0 => at & !3,
        1 => at & !7,
        _ => at,
    }
}

/// Writes a number of 1 to 8 bytes, either way round, or adds a little to what stands there.
fn put_number(bytes: &mut [u8], at: usize, from: &mut Source<'_>) {
    let width = (1 << (from.u8() % 4)).min(bytes.len() - at);
    let is_big = from.u8().is_multiple_of(4);
    let field = &mut bytes[at..at + width];
    let mut old = [0; 8];
    old[..width].copy_from_slice(field);
    if is_big {
        old[..width].reverse();
    }
    let old = u64::from_le_bytes(old);
    let new = match from.u8() % 3 {
        0 => old.wrapping_add(u64::from(from.u8() % 17)).wrapping_sub(8),
        _ => from.edge(),
    };
    let mut new = new.to_le_bytes();
    if is_big {
        new[..width].reverse();
    }
    field.copy_from_slice(&new[..width]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_gives_an_input_and_seeds_are_changed_little() {
        let seeds = vec![vec![7; 300], vec![9; 5], Vec::new()];
        let mut state = 1_u64;
        let mut near = 0;
        for _ in 0..20_000 {
            let recipe: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let input = derive(&recipe, &seeds);
            assert!(input.len() < 8 * GROW_MAX);
            near += usize::from(input.iter().filter(|byte| **byte == 7).count() > 280);
        }
        assert!(near > 2000, "{near}");
        assert_eq!(derive(&[0, 1, 2], &seeds), [1, 2]);
        assert_eq!(derive(&[], &[]), []);
    }
}
