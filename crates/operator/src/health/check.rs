// SPDX-License-Identifier: Apache-2.0
//! What a check is, and what it finds.

use super::facts::HealthFacts;
use crate::report::{CheckState, Health};

/// Lines of evidence, and commands, that a check gives at most.
const LINES_MAX: usize = 20;

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct HealthCheck {
    /// What it is named by: its group, a dot, a word.
    pub id: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// What it looks at.
    pub looks_at: &'static str,
    /// When it is yellow, and when red.
    pub limits: &'static str,
    /// What it means for the user's data.
    pub means: &'static str,
    /// What is so where nothing is wrong, in one sentence.
    pub well: &'static str,
    /// Commands that mend it, or show what to mend. Capital words stand for names.
    pub mend: &'static [&'static str],
    /// For how many seconds a worse state must last before it is told.
    pub worse_after: u64,
    pub(super) look: fn(&HealthFacts) -> Option<Vec<Fact>>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub health: Health,
    pub evidence: String,
    pub mend: Vec<String>,
}

pub(super) fn yellow(evidence: impl Into<String>) -> Fact {
    Fact { health: Health::Yellow, evidence: evidence.into(), mend: Vec::new() }
}

pub(super) fn red(evidence: impl Into<String>) -> Fact {
    Fact { health: Health::Red, evidence: evidence.into(), mend: Vec::new() }
}

impl Fact {
    /// What mends it: a command of the check's table, and what its capital words stand for.
    pub fn mended_by(mut self, template: &str, names: &[(&str, &str)]) -> Self {
        let named = |word: &str| {
            let found = names.iter().find(|(capital, _)| *capital == word);
            found.map_or_else(|| word.to_owned(), |(_, name)| quoted(name))
        };
        let words: Vec<String> = template.split(' ').map(named).collect();
        self.mend.push(words.join(" "));
        self
    }
}

/// A name as a shell takes it for one word.
fn quoted(name: &str) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_./:@+=,".contains(one);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: &'static str,
    /// Its state: green, yellow, red or unknown.
    pub state: CheckState,
    /// In one sentence.
    pub summary: String,
    /// What was seen, the worst first.
    pub evidence: Vec<String>,
    /// Commands that mend it, each once.
    pub mend: Vec<String>,
}

impl HealthCheck {
    /// What it is about: the first word of its id.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// Looks.
    #[must_use]
    pub fn look(&self, facts: &HealthFacts) -> Found {
        let Some(mut wrong) = (self.look)(facts) else {
            return Found {
                id: self.id,
                state: CheckState::Unknown,
                summary: "nothing that answers says what this looks at".to_owned(),
                evidence: Vec::new(),
                mend: Vec::new(),
            };
        };
        wrong.sort_by_key(|fact| std::cmp::Reverse(fact.health));
        let worst = wrong.first().map_or(Health::Green, |fact| fact.health);
        let summary = match wrong.as_slice() {
            [] => self.well.to_owned(),
            [one] => one.evidence.clone(),
            [first, rest @ ..] => format!("{} (and {} more)", first.evidence, rest.len()),
        };
        let mut mend: Vec<String> = Vec::new();
        for command in wrong.iter().flat_map(|fact| &fact.mend) {
            if mend.len() < LINES_MAX && !mend.contains(command) {
                mend.push(command.clone());
            }
        }
        let more = wrong.len().saturating_sub(LINES_MAX);
        wrong.truncate(LINES_MAX);
        let mut evidence: Vec<String> = wrong.into_iter().map(|fact| fact.evidence).collect();
        evidence.extend((more > 0).then(|| format!("and {more} more")));
        Found { id: self.id, state: worst.into(), summary, evidence, mend }
    }
}

/// A time for people, to the part that matters.
pub(super) fn time(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The part in percent, rounded down; 0 of nothing.
pub(super) fn percent(part: u64, all: u64) -> u64 {
    let share = u128::from(part) * 100 / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
