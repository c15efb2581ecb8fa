// SPDX-License-Identifier: Apache-2.0
//! What a receiver is to be told now. Pure: what checks say goes in, with the time, and what was
//! told before.
//!
//! 1. What is told is the difference between what the receiver was told last and what is.
//! 2. A check of which nobody can say anything, or that is silenced, stays as it was told.
//! 3. A check that was told of [`TOLD_TIMES_MAX`] times in [`FLAP_SECONDS`] goes up and down: that
//!    is said once, and then nothing until it has stayed as it is for as long. Only what is worse
//!    than what was said is told at once.
//! 4. What could not be told while it lasted is told afterwards, when it is over.

use directory::{NoticeLevel, NoticeReceiver, TOLD_TIMES_MAX, ToldCheck};
use operator::{CheckReport, CheckState};
use std::collections::BTreeMap;

/// So many messages of a check in so many seconds are too many; it has to be quiet for as long.
pub(crate) const FLAP_SECONDS: u64 = 900;

/// Why something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// It is worse than what was told.
    Worse,
    /// It is better, and not well yet.
    Better,
    /// It is well.
    Well,
    /// It is as it was told, and still wrong.
    Reminder,
    /// It goes up and down.
    Flapping,
    /// It no longer does.
    Calm,
    /// It was wrong while nothing could be told, and is well.
    Over,
    /// Nothing is wrong: somebody wants to see whether messages arrive.
    Test,
}

impl NoticeKind {
    /// As messages write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Well => "well",
            Self::Reminder => "reminder",
            Self::Flapping => "flapping",
            Self::Calm => "calm",
            Self::Over => "over",
            Self::Test => "test",
        }
    }
}

/// Something that is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// The check.
    pub check: String,
    /// Why.
    pub kind: NoticeKind,
    /// What it was said to be before; none: well, or nothing was said.
    pub before: Option<NoticeLevel>,
    /// The worst that it was since the last message.
    pub worst: Option<NoticeLevel>,
    /// How often it changed since then.
    pub changes: u64,
    /// What the receiver was told once this has arrived.
    pub told: ToldCheck,
}

/// What is known of a check beside what was told of it.
#[derive(Clone, Debug)]
struct Watched {
    level: Option<NoticeLevel>,
    /// Since when, seconds since 1970.
    since: u64,
    /// The number of the message after which is counted.
    number: u64,
    changes: u64,
    worst: Option<NoticeLevel>,
    /// Something was due that has not arrived since.
    is_owed: bool,
}

/// What is known of the checks for one receiver.
#[derive(Clone, Debug, Default)]
pub struct ReceiverBook(BTreeMap<String, Watched>);

/// How bad a check is for a receiver; `None`: nobody can say, or it is silenced.
fn level(state: CheckState, from: NoticeLevel) -> Option<Option<NoticeLevel>> {
    match state {
        CheckState::Green => Some(None),
        CheckState::Unknown | CheckState::Silenced => None,
        CheckState::Yellow => Some(Some(NoticeLevel::Yellow).filter(|level| *level >= from)),
        CheckState::Red => Some(Some(NoticeLevel::Red)),
    }
}

impl ReceiverBook {
    /// Takes in what all checks say.
    pub fn take(&mut self, now: u64, receiver: &NoticeReceiver, checks: &[CheckReport]) {
        for check in checks {
            if !receiver.groups.is_empty() && !receiver.groups.contains(&check.group) {
                self.0.remove(&check.id);
                continue;
            }
            let number = receiver.told_of(&check.id).map_or(0, |told| told.number);
            if let Some(known) = self.0.get_mut(&check.id)
                && known.number != number
            {
                (known.number, known.changes, known.worst) = (number, 0, known.level);
                known.is_owed = false;
            }
            let Some(level) = level(check.state, receiver.from_state) else { continue };
            match self.0.get_mut(&check.id) {
                Some(known) if known.level == level => {}
                Some(known) => {
                    (known.level, known.since) = (level, now);
                    known.changes += 1;
                    known.worst = known.worst.max(level);
                }
                None => {
                    let since = since(&check.since, now);
                    let (worst, changes, is_owed) = (level, 0, false);
                    let known = Watched { level, since, number, changes, worst, is_owed };
                    self.0.insert(check.id.clone(), known);
                }
            }
        }
    }

    /// What is to be told now, where others had `delay` seconds to tell it.
    pub fn due(&mut self, now: u64, receiver: &NoticeReceiver, delay: u64) -> Vec<DueNotice> {
        let mut all = Vec::new();
        for (check, known) in &mut self.0 {
            let told = receiver.told_of(check);
            let Some(kind) = known.due(now, told, (receiver.remind_seconds, delay)) else {
                continue;
            };
            known.is_owed = true;
            all.push(DueNotice {
                check: check.clone(),
                kind,
                before: told.and_then(|told| told.level),
                worst: known.worst,
                changes: known.changes,
                told: after(check, (now, kind), known.level, told),
            });
        }
        // The worst first.
        all.sort_by_key(|due| std::cmp::Reverse(due.told.level));
        all
    }

    /// How much is due that has not arrived.
    #[must_use]
    pub fn owed(&self) -> usize {
        self.0.values().filter(|known| known.is_owed).count()
    }
}

/// What a receiver was told once a message has arrived.
fn after(
    check: &str,
    (now, kind): (u64, NoticeKind),
    level: Option<NoticeLevel>,
    told: Option<&ToldCheck>,
) -> ToldCheck {
    let mut times = told.map(|told| told.times.clone()).unwrap_or_default();
    times.retain(|time| now.saturating_sub(*time) < FLAP_SECONDS && *time <= now);
    times.push(now);
    if times.len() > TOLD_TIMES_MAX {
        times.remove(0);
    }
    let was_flapping = told.is_some_and(|told| told.is_flapping);
    ToldCheck {
        check: check.to_owned(),
        level,
        number: told.map_or(0, |told| told.number) + 1,
        times,
        is_flapping: match kind {
            NoticeKind::Flapping => true,
            NoticeKind::Calm => false,
            _ => was_flapping,
        },
    }
}

impl Watched {
    fn due(
        &self,
        now: u64,
        told: Option<&ToldCheck>,
        (remind, delay): (Option<u64>, u64),
    ) -> Option<NoticeKind> {
        let before = told.and_then(|told| told.level);
        let last = told.and_then(|told| told.times.last().copied()).unwrap_or(0);
        let is_past = |begun: u64, wait: u64| now >= begun.saturating_add(wait + delay);
        let is_worse = self.level > before;
        if told.is_some_and(|told| told.is_flapping) && !is_worse {
            return is_past(self.since.max(last), FLAP_SECONDS).then_some(NoticeKind::Calm);
        }
        if self.level != before {
            if !is_past(self.since, 0) {
                return None;
            }
            let recent = told.iter().flat_map(|told| &told.times);
            let recent = recent.filter(|time| now.saturating_sub(**time) < FLAP_SECONDS).count();
            return Some(match self.level {
                _ if recent + 1 >= TOLD_TIMES_MAX => NoticeKind::Flapping,
                None => NoticeKind::Well,
                Some(_) if is_worse => NoticeKind::Worse,
                Some(_) => NoticeKind::Better,
            });
        }
        if self.level.is_none() {
            return (self.is_owed && self.changes > 0).then_some(NoticeKind::Over);
        }
        remind.filter(|every| is_past(last, *every)).map(|_| NoticeKind::Reminder)
    }
}

/// When a state began, by what its check says. Nothing begins after now.
fn since(said: &str, now: u64) -> u64 {
    let parsed = humantime::parse_rfc3339(said).ok();
    let since = parsed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(now, |since| since.as_secs().min(now))
}

#[cfg(test)]
mod tests;
