// SPDX-License-Identifier: Apache-2.0
//! The states of checks over time. Pure: whoever looks says what was found, and when.
//!
//! 1. A state that is worse is told once it has lasted for as long as its check says, a better one
//!    after some seconds: one lost answer is no news, and neither is one good one.
//! 2. In the first half minute of a run what is worse than before must last for ten seconds: hosts
//!    start.
//! 3. A check that is silenced shows that, whatever it finds, until the silence ends.

use super::check::Found;
use super::table::{check_of, checks};
use crate::report::{CheckReport, CheckState, Health, HealthReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A better state is told when it has lasted for so many seconds.
const BETTER_AFTER: u64 = 5;
/// A worse one of a check of which nothing is known yet, or in the first seconds of a run.
const FIRST_AFTER: u64 = 10;
/// So many seconds are the first ones.
const FIRST_SECONDS: u64 = 30;

/// Somebody knows what a check finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthSilence {
    /// The check.
    pub check: String,
    /// When it ends, seconds since 1970.
    pub until: u64,
    /// Why there is one.
    pub reason: String,
}

/// A check went from one state to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The check.
    pub check: &'static str,
    /// What it was.
    pub from: CheckState,
    /// What it is.
    pub to: CheckState,
    /// When, seconds since 1970.
    pub at: u64,
    /// What is seen.
    pub evidence: Vec<String>,
}

/// What is known of one check.
#[derive(Clone, Debug)]
struct Known {
    /// What is told of it, as it was found last.
    told: Found,
    /// Since when something else is found, and whether that is worse.
    other: Option<(bool, u64)>,
    /// What is shown: silenced, or what is told.
    shown: CheckState,
    /// Since when.
    since: u64,
}

/// All checks, and all silences.
#[derive(Clone, Debug)]
pub struct HealthBook {
    began: u64,
    known: BTreeMap<&'static str, Known>,
    silences: Vec<HealthSilence>,
}

fn rank(state: CheckState) -> u8 {
    match state {
        CheckState::Green | CheckState::Unknown | CheckState::Silenced => 0,
        CheckState::Yellow => 1,
        CheckState::Red => 2,
    }
}

impl HealthBook {
    /// Begins. `before`: what was shown last in the run before, and since when.
    pub fn new(
        now: u64,
        silences: Vec<HealthSilence>,
        before: &BTreeMap<String, (CheckState, u64)>,
    ) -> Self {
        let known = checks().map(|check| {
            let unknown = (CheckState::Unknown, now);
            let (shown, since) = before.get(check.id).copied().unwrap_or(unknown);
            let told = match shown {
                CheckState::Silenced => CheckState::Unknown,
                state => state,
            };
            let summary = "nobody has looked yet".to_owned();
            let told = Found {
                id: check.id,
                state: told,
                summary,
                evidence: Vec::new(),
                mend: Vec::new(),
            };
            (check.id, Known { told, other: None, shown, since })
        });
        Self { began: now, known: known.collect(), silences }
    }

    /// Takes in what all checks found, and says what is shown otherwise from now on.
    pub fn take(&mut self, now: u64, found: Vec<Found>) -> Vec<StateChange> {
        let is_first = now.saturating_sub(self.began) < FIRST_SECONDS;
        for found in found {
            let Some(known) = self.known.get_mut(found.id) else { continue };
            known.take(now, found, is_first);
        }
        self.silences.retain(|silence| silence.until > now);
        self.show(now)
    }

    /// Has a check not count; a silence that it has ends. The check must be one of the table.
    pub fn silence(&mut self, now: u64, silence: HealthSilence) -> Vec<StateChange> {
        self.silences.retain(|other| other.check != silence.check);
        self.silences.push(silence);
        self.show(now)
    }

    /// Has it count again.
    pub fn unsilence(&mut self, now: u64, check: &str) -> Vec<StateChange> {
        self.silences.retain(|other| other.check != check);
        self.show(now)
    }

    /// All silences.
    #[must_use]
    pub fn silences(&self) -> &[HealthSilence] {
        &self.silences
    }

    /// Whether something else is found than is told: then it is worth another look soon.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.known.values().any(|known| known.other.is_some())
    }

    /// What is shown of each check: group, id, state.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, &'static str, CheckState)> {
        checks()
            .filter_map(|check| Some((check.group(), check.id, self.known.get(check.id)?.shown)))
    }

    /// All of it; `say` writes a time.
    pub fn report(&self, say: impl Fn(u64) -> String) -> HealthReport {
        let reports = checks().filter_map(|check| {
            let known = self.known.get(check.id)?;
            let silence = self.silence_of(check.id);
            Some(CheckReport {
                id: check.id.to_owned(),
                group: check.group().to_owned(),
                title: check.title.to_owned(),
                state: known.shown,
                actual: silence.map(|_| known.told.state),
                summary: known.told.summary.clone(),
                evidence: known.told.evidence.clone(),
                since: say(known.since),
                means: check.means.to_owned(),
                mend: known.told.mend.clone(),
                silenced_until: silence.map(|silence| say(silence.until)),
                silenced_because: silence.map(|silence| silence.reason.clone()),
            })
        });
        HealthReport { state: self.state(), checks: reports.collect() }
    }

    /// The worst of all checks that are not silenced. Yellow where nothing was seen so far.
    #[must_use]
    pub fn state(&self) -> Health {
        if self.known.values().all(|known| known.told.state == CheckState::Unknown) {
            return Health::Yellow;
        }
        match self.known.values().map(|known| rank(known.shown)).max() {
            Some(2..) => Health::Red,
            Some(1) => Health::Yellow,
            _ => Health::Green,
        }
    }

    fn silence_of(&self, check: &str) -> Option<&HealthSilence> {
        self.silences.iter().find(|silence| silence.check == check)
    }

    /// Shows what is told and silenced now.
    fn show(&mut self, now: u64) -> Vec<StateChange> {
        let mut changes = Vec::new();
        for (id, known) in &mut self.known {
            let silence = self.silences.iter().find(|silence| silence.check == *id);
            let shown = silence.map_or(known.told.state, |_| CheckState::Silenced);
            if shown == known.shown {
                continue;
            }
            let from = std::mem::replace(&mut known.shown, shown);
            known.since = now;
            // Whether somebody says what a check looks at is no news.
            let is_news = |state| !matches!(state, CheckState::Green | CheckState::Unknown);
            if is_news(from) || is_news(shown) {
                let evidence = match silence {
                    Some(silence) => vec![format!("silenced: {}", silence.reason)],
                    None => known.told.evidence.clone(),
                };
                changes.push(StateChange { check: id, from, to: shown, at: now, evidence });
            }
        }
        changes
    }
}

impl Known {
    fn take(&mut self, now: u64, found: Found, is_first: bool) {
        let (was, is) = (rank(self.told.state), rank(found.state));
        if was == is {
            self.other = None;
            self.told = found;
            return;
        }
        let is_worse = is > was;
        let since = match self.other {
            Some((worse, since)) if worse == is_worse => since,
            _ => now,
        };
        self.other = Some((is_worse, since));
        let worse_after = check_of(found.id).map_or(0, |check| check.worse_after);
        let is_new = is_first || self.told.state == CheckState::Unknown;
        let after = match (is_worse, is_new) {
            (false, _) => BETTER_AFTER,
            (true, true) => worse_after.max(FIRST_AFTER),
            (true, false) => worse_after,
        };
        if now.saturating_sub(since) >= after {
            self.other = None;
            self.told = found;
        }
    }
}
