// SPDX-License-Identifier: Apache-2.0
//! What a volume may be after commands of which some had no answer: such a command may have been
//! carried out, or may be at any later time, until the cluster is calm.

use base::VolumeId;
use directory::{Labels, VolumeRecord};
use operator::Command;

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SparePlace {
    /// It was never there.
    Unmade,
    /// It can be used under this name.
    There(String),
    /// It can be brought back; it had this name.
    Trashed(String),
    /// It was there, and is gone for good.
    Gone,
}

/// What commands can change of a volume, and what they must leave as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeState {
    pub(crate) place: SparePlace,
    pub(crate) bytes: u64,
    pub(crate) labels: Labels,
    /// Failures to tolerate, the reserve in percent, and the width of its stripes.
    pub(crate) rules: (u8, u8, u8),
    /// The host that all of it is kept on.
    pub(crate) kept_on: Option<String>,
    /// For which part of it read cache is kept, percent.
    pub(crate) cache_percent: u8,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was carried out, as its answer says.
    Done,
    /// It surely was not.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl VolumeState {
    pub(crate) fn unmade() -> Self {
        let (labels, rules) = (Labels::new(), (0, 0, 1));
        let (kept_on, cache_percent) = (None, 0);
        Self { place: SparePlace::Unmade, bytes: 0, labels, rules, kept_on, cache_percent }
    }

    pub(crate) fn of_record(record: &VolumeRecord) -> Self {
        Self {
            place: match &record.trashed {
                Some(trashed) => SparePlace::Trashed(trashed.name.clone()),
                None => SparePlace::There(record.name.clone()),
            },
            bytes: record.size_bytes,
            labels: record.labels.clone(),
            rules: (record.ftt, record.reserve_percent, record.stripe_width),
            kept_on: record.kept_on.clone(),
            cache_percent: record.cache_percent,
        }
    }

    /// What it is after a command was carried out. `None`: the command must be refused.
    fn after(&self, command: &Command, id: Option<VolumeId>) -> Option<Self> {
        let is_there = |name: &String| matches!(&self.place, SparePlace::There(has) if has == name);
        let had_name = |volume: &String| match &self.place {
            SparePlace::Trashed(had) if had == volume => Some(had),
            SparePlace::Trashed(had) => id.filter(|id| id.to_string() == *volume).map(|_| had),
            _ => None,
        };
        let at = |place| Some(Self { place, ..self.clone() });
        match command {
            Command::VolumeCreate(new) if self.place == SparePlace::Unmade => Some(Self {
                place: SparePlace::There(new.name.clone()),
                bytes: new.size_bytes,
                labels: new.labels.clone(),
                rules: (new.ftt, new.reserve_percent, new.stripe_width),
                kept_on: new.on.clone(),
                cache_percent: new.cache_percent,
            }),
            Command::VolumeCache { name, cache_percent } if is_there(name) => {
                Some(Self { cache_percent: *cache_percent, ..self.clone() })
            }
            Command::VolumeKeep { name, host } if is_there(name) => {
                let is_one_copy = host.is_none() || self.rules.0 == 0;
                is_one_copy.then(|| Self { kept_on: host.clone(), ..self.clone() })
            }
            Command::VolumeLabel { name, set, remove } if is_there(name) => {
                let mut labels = self.labels.clone();
                if remove.iter().any(|key| labels.remove(key).is_none()) {
                    return None;
                }
                labels.extend(set.clone());
                Some(Self { labels, ..self.clone() })
            }
            Command::VolumeGrow { name, size_bytes } if is_there(name) => {
                let bytes = *size_bytes;
                (bytes >= self.bytes).then(|| Self { bytes, ..self.clone() })
            }
            Command::VolumeRename { name, new } if is_there(name) && is_free(new) => {
                at(SparePlace::There(new.clone()))
            }
            Command::VolumeDelete { name, for_good: true } if is_there(name) => {
                at(SparePlace::Gone)
            }
            Command::VolumeDelete { name, .. } if is_there(name) => {
                at(SparePlace::Trashed(name.clone()))
            }
            Command::VolumeUndelete { volume, name } => {
                let back = name.as_ref().or(had_name(volume)).filter(|name| is_free(name))?;
                had_name(volume).and_then(|_| at(SparePlace::There(back.clone())))
            }
            Command::VolumePurge { volume } => had_name(volume).and_then(|_| at(SparePlace::Gone)),
            _ => None,
        }
    }

    /// The same where the command came to its end or not: a growth has several steps.
    fn after_some(&self, command: &Command, id: Option<VolumeId>, seen: u64) -> Option<Self> {
        let after = self.after(command, id)?;
        let is_growth = matches!(command, Command::VolumeGrow { .. });
        let is_between = is_growth && (self.bytes..after.bytes).contains(&seen);
        Some(if is_between { Self { bytes: seen, ..after } } else { after })
    }

    fn looks_like(&self, seen: Option<&Self>) -> bool {
        match seen {
            Some(seen) => self == seen,
            None => matches!(self.place, SparePlace::Unmade | SparePlace::Gone),
        }
    }
}

/// Whether no other volume of the campaign has this name.
fn is_free(name: &str) -> bool {
    name.starts_with(super::PREFIX)
}

/// What is known of one volume.
#[derive(Debug)]
pub(crate) struct SpareHistory {
    /// What it was when somebody looked last.
    pub(crate) last: VolumeState,
    /// Its id, once it was seen.
    pub(crate) id: Option<VolumeId>,
    /// Commands that may still be carried out.
    late: Vec<Command>,
    /// Whether a clock went ahead: a volume that was deleted may be gone for good then.
    pub(crate) may_age: bool,
}

impl SpareHistory {
    pub(crate) fn new() -> Self {
        Self { last: VolumeState::unmade(), id: None, late: Vec::new(), may_age: false }
    }

    /// Whether all commands are over.
    pub(crate) fn is_decided(&self) -> bool {
        self.late.is_empty()
    }

    /// From now on no command is carried out that had no answer.
    pub(crate) fn calm(&mut self) {
        self.late.clear();
    }

    /// Notes what there is now, and how the last command ended if one did.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn look(
        &mut self,
        seen: Option<(VolumeId, VolumeState)>,
        command: Option<(&Command, Ending)>,
    ) -> Result<(), String> {
        let (id, seen) = seen.unzip();
        if let (Some(before), Some(now)) = (self.id, id)
            && before != now
        {
            return Err(format!("{before} became {now}, after {command:?}"));
        }
        self.id = self.id.or(id);
        let bytes = seen.as_ref().map_or(0, |seen| seen.bytes);
        if let Some((command, Ending::Unknown)) = command {
            self.late.push(command.clone());
        }
        let mut can = self.reach(vec![self.last.clone()], bytes);
        if let Some((command, Ending::Done)) = command {
            let done = can.iter().filter_map(|state| state.after(command, self.id)).collect();
            can = self.reach(done, bytes);
        }
        let Some(now) = can.iter().find(|state| state.looks_like(seen.as_ref())) else {
            return Err(format!(
                "{:?} became {seen:?} after {command:?}; {:?} may still come",
                self.last, self.late
            ));
        };
        self.last = now.clone();
        Ok(())
    }

    /// All that there can be where commands of unknown outcome are carried out or not.
    fn reach(&self, mut states: Vec<VolumeState>, bytes: u64) -> Vec<VolumeState> {
        let mut at = 0;
        while let Some(state) = states.get(at).cloned() {
            let aged = self.may_age && matches!(state.place, SparePlace::Trashed(_));
            let gone = aged.then(|| VolumeState { place: SparePlace::Gone, ..state.clone() });
            let late = self.late.iter().filter_map(|one| state.after_some(one, self.id, bytes));
            for next in late.chain(gone) {
                if !states.contains(&next) {
                    states.push(next);
                }
            }
            at += 1;
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operator::NewVolume;

    const ID: VolumeId = VolumeId(7);

    fn create() -> Command {
        Command::VolumeCreate(NewVolume::new("spare1-0", 4096, 1))
    }

    fn delete() -> Command {
        Command::VolumeDelete { name: "spare1-0".to_owned(), for_good: false }
    }

    fn undelete(name: Option<&str>) -> Command {
        Command::VolumeUndelete { volume: ID.to_string(), name: name.map(str::to_owned) }
    }

    fn state(place: SparePlace) -> VolumeState {
        let (labels, rules) = (Labels::new(), (1, 0, 1));
        let (kept_on, cache_percent) = (None, 0);
        VolumeState { place, bytes: 4096, labels, rules, kept_on, cache_percent }
    }

    fn there(name: &str) -> Option<(VolumeId, VolumeState)> {
        Some((ID, state(SparePlace::There(name.to_owned()))))
    }

    fn trashed() -> Option<(VolumeId, VolumeState)> {
        Some((ID, state(SparePlace::Trashed("spare1-0".to_owned()))))
    }

    fn made() -> SpareHistory {
        let mut history = SpareHistory::new();
        history.look(there("spare1-0"), Some((&create(), Ending::Done))).expect("it was made");
        history
    }

    #[test]
    fn what_was_answered_must_be_there_and_what_was_refused_must_not() {
        let mut history = SpareHistory::new();
        assert!(history.look(None, Some((&create(), Ending::Done))).is_err());
        assert!(history.look(there("spare1-0"), Some((&create(), Ending::Refused))).is_err());
        let mut history = made();
        assert!(history.look(there("spare1-0"), Some((&delete(), Ending::Done))).is_err());
        assert!(history.look(trashed(), Some((&delete(), Ending::Refused))).is_err());
        assert!(history.look(None, Some((&delete(), Ending::Done))).is_err(), "it is kept");
        history.look(trashed(), Some((&delete(), Ending::Done))).expect("it was deleted");
        let taken = undelete(Some("storm0"));
        assert!(history.look(there("storm0"), Some((&taken, Ending::Done))).is_err());
        let back = undelete(Some("spare1-1"));
        history.look(there("spare1-1"), Some((&back, Ending::Done))).expect("it is back");
    }

    #[test]
    fn what_had_no_answer_may_come_at_any_time_until_all_is_calm() {
        let mut history = made();
        history.look(there("spare1-0"), Some((&delete(), Ending::Unknown))).expect("not yet");
        history.look(trashed(), None).expect("late");
        let back = undelete(None);
        history.look(there("spare1-0"), Some((&back, Ending::Done))).expect("it is back");
        history.calm();
        assert!(history.look(trashed(), None).is_err());
    }

    #[test]
    fn bringing_back_leaves_everything_else_as_it_was() {
        let mut history = made();
        history.look(trashed(), Some((&delete(), Ending::Done))).expect("it was deleted");
        let mut less = there("spare1-0");
        less.iter_mut().for_each(|(_, state)| state.rules.1 = 50);
        assert!(history.look(less, Some((&undelete(None), Ending::Done))).is_err());
        let other = there("spare1-0").map(|(_, state)| (VolumeId(8), state));
        assert!(history.look(other, Some((&undelete(None), Ending::Done))).is_err());
    }

    #[test]
    fn a_volume_goes_by_age_only_where_a_clock_went_ahead() {
        let mut history = made();
        history.look(trashed(), Some((&delete(), Ending::Done))).expect("it was deleted");
        assert!(history.look(None, None).is_err());
        history.may_age = true;
        history.look(None, None).expect("it is gone");
        assert_eq!(history.last.place, SparePlace::Gone);
        assert!(history.look(there("spare1-0"), Some((&undelete(None), Ending::Done))).is_err());
    }

    #[test]
    fn a_growth_without_an_answer_may_have_come_half_way() {
        let mut history = made();
        let grow = Command::VolumeGrow { name: "spare1-0".to_owned(), size_bytes: 3 * 4096 };
        let mut half = there("spare1-0");
        half.iter_mut().for_each(|(_, state)| state.bytes = 2 * 4096);
        assert!(history.look(half.clone(), Some((&grow, Ending::Done))).is_err());
        history.look(half, Some((&grow, Ending::Unknown))).expect("half of it");
        assert!(history.look(there("spare1-0"), None).is_err(), "not smaller");
    }
}
