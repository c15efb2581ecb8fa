// SPDX-License-Identifier: Apache-2.0
//! Seeds that once found something. When the code changes, a seed may lead to another run. It is
//! run all the same.

use crate::story::Story;

const LIST: &str = include_str!("../regressions.txt");

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regression {
    /// The seed.
    pub seed: u64,
    /// The story of every round; `None` for those that the seed draws.
    pub story: Option<Story>,
    /// What the seed found.
    pub note: &'static str,
}

/// The list of such seeds. Panics if a line cannot be parsed, because the list is part of the
/// program.
#[must_use]
pub fn regressions() -> Vec<Regression> {
    let lines = LIST.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &'static str) -> Regression {
    let (seed, rest) = line.split_once(' ').unwrap_or((line, ""));
    let Ok(seed) = seed.parse() else { panic!("no seed in '{line}'") };
    let rest = rest.trim();
    let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
    match word.parse() {
        Ok(story) => Regression { seed, story: Some(story), note: after.trim() },
        Err(_) => Regression { seed, story: None, note: rest },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_understood() {
        let all = regressions();
        let pinned = all.iter().find(|one| one.seed == 32);
        assert_eq!(pinned.and_then(|one| one.story), Some(Story::Isolated));
        assert!(all.iter().all(|one| !one.note.is_empty()), "each says what it was");
    }
}
