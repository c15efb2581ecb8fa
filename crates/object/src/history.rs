// SPDX-License-Identifier: Apache-2.0
//! Whether a record can be of the history that a component knows of (rule 25).

use base::{Term, Version};
use std::cmp::Ordering;

/// Versions that a record leaps over when it is made anew of what the components say. Claims of a
/// record that went back in time raise it by one each, far fewer in all.
pub const ADOPTION_LEAP: u64 = 1 << 20;

/// Whether a record of version and term `now` can only be of a directory that was set back to what
/// it held before a component's host saw `seen` (rule 25). Versions and terms rise together in one
/// history, and one version has one term. Where it `went_back` once, claims have raised the old
/// record since, maybe above what was seen: only one that was made anew is believed.
#[must_use]
pub fn is_of_before(seen: (Version, Term), went_back: bool, now: (Version, Term)) -> bool {
    let is_other = match now.0.cmp(&seen.0) {
        Ordering::Less => true,
        Ordering::Equal => now.1 != seen.1,
        Ordering::Greater => now.1 < seen.1,
    };
    is_other || (went_back && !is_made_anew(seen.0, now.0))
}

/// Whether a record of version `now` was made anew of what components say, after `seen`.
pub(crate) fn is_made_anew(seen: Version, now: Version) -> bool {
    now.0 >= seen.0.saturating_add(ADOPTION_LEAP / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_terms_of_one_history_rise_together() {
        let at = |version, term| (Version(version), Term(term));
        let seen = at(10, 5);
        for now in [at(10, 5), at(11, 5), at(11, 6), at(40, 9)] {
            assert!(!is_of_before(seen, false, now), "{now:?}");
            assert!(is_of_before(seen, true, now), "{now:?} may be a claim of what was before");
        }
        for now in [at(9, 5), at(9, 6), at(9, 4), at(10, 4), at(10, 6), at(12, 4)] {
            assert!(is_of_before(seen, false, now), "{now:?}");
        }
        assert!(!is_of_before(seen, true, at(10 + ADOPTION_LEAP, 6)));
    }
}
