// SPDX-License-Identifier: Apache-2.0
//! What changes in the cluster, one event after the other, for those who listen (server-sent
//! events; HTML standard, section 9.2).
//!
//! Shards tell what is, not what happens. So as long as somebody listens they are asked every
//! second, and each item of a list that is new, gone or not as it was becomes an event. What only
//! counts (bytes written, seconds) changes all the time and is no event.
//!
//! A listener that comes back says the id of the last event that it has, and gets what came behind
//! it. Where that is not known any more it is told to begin anew: `reset`.

use crate::lists::LISTS;
use operator::StatusReport;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Events that are kept for listeners that come back or are slow.
const EVENTS_KEPT: usize = 4096;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeEvent {
    /// Its number, one more than that of the event before.
    pub number: u64,
    /// `list`, the path of a list of the API or `/status`; `key`, by which an item is known again;
    /// `item`, as the list has it, or null where it is gone.
    pub data: Value,
}

/// What listeners were told, and what they will be told next.
#[derive(Debug)]
pub struct Feed {
    /// Events of another run of this program have other ids.
    run: u64,
    next: u64,
    events: VecDeque<ChangeEvent>,
    /// What lasts of each item, as it was seen last.
    known: Option<BTreeMap<(&'static str, String), Value>>,
}

/// Where a listener goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the event of this number.
    At(u64),
    /// With this one, but it lacks some before.
    Reset(u64),
}

impl Feed {
    /// Nobody was told anything in this run so far.
    pub fn new(run: u64) -> Self {
        Self { run, next: 1, events: VecDeque::new(), known: None }
    }

    /// Whether it is known what there was before.
    pub fn is_ready(&self) -> bool {
        self.known.is_some()
    }

    /// The id of an event for those who come back.
    pub fn id(&self, number: u64) -> String {
        format!("{:x}-{number}", self.run)
    }

    /// The number of the newest event.
    pub fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Where a listener goes on that has everything up to an event; none: one that is new.
    pub fn start(&self, last: Option<&str>) -> Start {
        let Some(last) = last else { return Start::At(self.next) };
        let number = last.split_once('-').and_then(|(run, number)| {
            let run = u64::from_str_radix(run, 16).ok()?;
            number.parse::<u64>().ok().filter(|_| run == self.run)
        });
        let oldest = self.events.front().map_or(self.next, |event| event.number);
        match number.and_then(|number| number.checked_add(1)) {
            Some(next) if (oldest..=self.next).contains(&next) => Start::At(next),
            _ => Start::Reset(self.next),
        }
    }

    /// The event of this number, if there is one yet.
    ///
    /// # Errors
    /// It is not kept any more. That of the next event is the number that comes instead.
    pub fn event(&self, number: u64) -> Result<Option<&ChangeEvent>, u64> {
        let oldest = self.events.front().map_or(self.next, |event| event.number);
        if number < oldest {
            return Err(self.next);
        }
        Ok(self.events.get(usize::try_from(number - oldest).unwrap_or(usize::MAX)))
    }

    /// Takes in what all shards say now, or that none says anything. True: there are new events.
    pub fn take(&mut self, report: Option<&StatusReport>) -> bool {
        let before = self.next;
        let mut known = self.known.take();
        let mut now = BTreeMap::new();
        let status = |what: &str| ("/status", what.to_owned());
        let mut items = vec![(status("answers"), Value::Bool(report.is_some()))];
        match report {
            Some(report) => {
                let health = serde_json::to_value(report.health).unwrap_or_default();
                items.push((status("health"), health));
                items.push((status("alarms"), json!(report.alarms)));
                for list in LISTS {
                    let all = list.all(report).into_iter();
                    items.extend(all.map(|(key, item)| ((list.path, key), item)));
                }
            }
            // What was there may be there still: only the answers are missing.
            None => now = known.clone().unwrap_or_default(),
        }
        for (key, item) in items {
            let lasting = lasting(&item);
            let was = known.as_mut().map(|known| known.remove(&key));
            if was.is_some_and(|was| was.as_ref() != Some(&lasting)) {
                self.tell(&key, item);
            }
            now.insert(key, lasting);
        }
        for key in known.iter().flat_map(BTreeMap::keys).filter(|key| !now.contains_key(*key)) {
            self.tell(key, Value::Null);
        }
        self.known = Some(now);
        self.next > before
    }

    fn tell(&mut self, (list, key): &(&'static str, String), item: Value) {
        if self.events.len() == EVENTS_KEPT {
            self.events.pop_front();
        }
        let data = json!({ "list": list, "key": key, "item": item });
        self.events.push_back(ChangeEvent { number: self.next, data });
        self.next += 1;
    }
}

/// An item without what only counts: numbers, but for those that are a size or a choice.
fn lasting(item: &Value) -> Value {
    const CHOSEN: [&str; 7] = [
        "size_bytes",
        "ftt",
        "reserve_percent",
        "cache_percent",
        "stripe_width",
        "capacity_bytes",
        "clients",
    ];
    match item {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, value)| !value.is_number() || CHOSEN.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), lasting(value))).collect()
        }
        Value::Array(values) => values.iter().map(lasting).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::tests::status;

    fn told(feed: &Feed, from: u64) -> Vec<(String, String, bool)> {
        let events = (from..).map_while(|number| feed.event(number).ok().flatten());
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        events
            .map(|event| {
                let data = &event.data;
                (text(&data["list"]), text(&data["key"]), data["item"].is_null())
            })
            .collect()
    }

    fn owned(list: &str, key: &str, is_gone: bool) -> (String, String, bool) {
        (list.to_owned(), key.to_owned(), is_gone)
    }

    #[test]
    fn what_changes_is_told_and_what_only_counts_is_not() {
        let (mut feed, mut now) = (Feed::new(7), status());
        assert!(!feed.is_ready());
        assert!(!feed.take(Some(&now)), "what is there first is in the lists");
        assert!(feed.is_ready() && !feed.take(Some(&now)));
        now.volumes[0].term += 1;
        now.volumes[0].components[0].resync_bytes_left = 5;
        assert!(!feed.take(Some(&now)));
        now.volumes[1].size_bytes *= 2;
        let gone = now.volumes.remove(0).name;
        now.health = operator::Health::Red;
        assert!(feed.take(Some(&now)));
        let grown = now.volumes[0].name.clone();
        let expected = [
            owned("/status", "health", false),
            owned("/volumes", &grown, false),
            owned("/volumes", &gone, true),
        ];
        assert_eq!(told(&feed, 1), expected);
    }

    #[test]
    fn silence_is_one_event_and_takes_nothing_away() {
        let (mut feed, now) = (Feed::new(7), status());
        feed.take(Some(&now));
        assert!(feed.take(None) && !feed.take(None));
        assert_eq!(told(&feed, 1), [owned("/status", "answers", false)]);
        assert!(feed.take(Some(&now)));
        assert_eq!(told(&feed, 2), [owned("/status", "answers", false)]);
    }

    #[test]
    fn who_comes_back_goes_on_or_is_told_to_begin_anew() {
        let (mut feed, mut now) = (Feed::new(7), status());
        assert_eq!(feed.start(None), Start::At(1));
        feed.take(Some(&now));
        for size in 1..10 {
            now.volumes[0].size_bytes = size << 20;
            feed.take(Some(&now));
        }
        assert_eq!(feed.newest(), 9);
        assert_eq!(feed.start(Some(&feed.id(4))), Start::At(5));
        assert_eq!(feed.start(Some(&feed.id(9))), Start::At(10));
        for other in ["", "4", "7-x", "8-4", "7-10", "7-18446744073709551615"] {
            assert_eq!(feed.start(Some(other)), Start::Reset(10), "{other}");
        }
        for size in 10..2 * EVENTS_KEPT as u64 {
            now.volumes[0].size_bytes = size << 20;
            feed.take(Some(&now));
        }
        assert_eq!(feed.events.len(), EVENTS_KEPT);
        assert!(matches!(feed.start(Some("7-4")), Start::Reset(_)));
        assert!(feed.event(5).is_err(), "a listener that is too slow lacks some");
    }
}
