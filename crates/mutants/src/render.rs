// SPDX-License-Identifier: Apache-2.0
//! A source file with its sites in it, and which of them a compiler's complaint is about.

use crate::scan::Site;
use std::ops::Range;

/// One file of the copy.
pub struct Rendered {
    pub text: String,
    /// The bytes of `text` that a site has become, with its index.
    places: Vec<(Range<usize>, usize)>,
}

/// `source` with what each site that `is_alive` puts around its piece.
pub fn render(source: &str, sites: &[Site], is_alive: impl Fn(&Site) -> bool) -> Rendered {
    // At one byte, first what ends there, then what begins; each in the order of the visit.
    let mut texts: Vec<(usize, bool, usize, usize)> = Vec::new();
    for (index, site) in sites.iter().enumerate().filter(|(_, site)| is_alive(site)) {
        let is_empty = site.range.is_empty();
        texts.push((site.range.start, true, site.opened, index));
        texts.push((site.range.end, is_empty, site.closed, index));
    }
    texts.sort_unstable();
    let mut text = String::with_capacity(source.len() * 2);
    let mut starts = vec![0; sites.len()];
    let (mut places, mut done) = (Vec::new(), 0);
    for (at, _, order, index) in texts {
        text.push_str(&source[done..at]);
        done = at;
        let site = &sites[index];
        if order == site.opened {
            starts[index] = text.len();
            text.push_str(&site.before);
        } else {
            text.push_str(&site.behind);
            places.push((starts[index]..text.len(), index));
        }
    }
    text.push_str(&source[done..]);
    Rendered { text, places }
}

impl Rendered {
    /// The innermost sites that meet the bytes at `spot`; none if it lies beside all of them.
    pub fn sites_at(&self, spot: &Range<usize>) -> Vec<usize> {
        let meets = |place: &Range<usize>| place.start < spot.end && spot.start < place.end;
        let met: Vec<_> = self.places.iter().filter(|(place, _)| meets(place)).collect();
        let is_innermost = |place: &Range<usize>| {
            let is_inside = |other: &Range<usize>| {
                place.start <= other.start && other.end <= place.end && other.len() < place.len()
            };
            !met.iter().any(|(other, _)| is_inside(other))
        };
        met.iter().filter(|(place, _)| is_innermost(place)).map(|(_, index)| *index).collect()
    }

    /// Every site in the function around `spot`.
    pub fn sites_of_function(&self, sites: &[Site], spot: &Range<usize>) -> Vec<usize> {
        let nearest = self.places.iter().min_by_key(|(place, _)| place.start.abs_diff(spot.start));
        let Some((_, nearest)) = nearest else { return Vec::new() };
        let function = &sites[*nearest].function;
        let is_same = |index: &usize| sites[*index].function == *function;
        self.places.iter().map(|(_, index)| *index).filter(is_same).collect()
    }
}
