// SPDX-License-Identifier: Apache-2.0
//! What is told, and how often.

use super::*;
use directory::{ReceiverWay, SecretText};
use proptest::prelude::*;

fn receiver(from_state: NoticeLevel) -> NoticeReceiver {
    let url = SecretText("https://a.example".to_owned());
    NoticeReceiver {
        name: "ops".to_owned(),
        created: 1,
        way: ReceiverWay::Webhook { url, secret: None, ca: None },
        from_state,
        groups: Vec::new(),
        remind_seconds: Some(86_400),
        told: Vec::new(),
        trouble: None,
    }
}

fn check(id: &str, state: CheckState) -> CheckReport {
    CheckReport {
        id: id.to_owned(),
        group: id.split('.').next().unwrap_or_default().to_owned(),
        title: String::new(),
        state,
        actual: None,
        summary: String::new(),
        evidence: Vec::new(),
        since: "1970-01-01T00:00:00Z".to_owned(),
        means: String::new(),
        mend: Vec::new(),
        silenced_until: None,
        silenced_because: None,
    }
}

/// A receiver, whoever tells it, and a check.
struct Course {
    book: ReceiverBook,
    receiver: NoticeReceiver,
    now: u64,
}

impl Course {
    fn new(from: NoticeLevel) -> Self {
        Self { book: ReceiverBook::default(), receiver: receiver(from), now: 1_000_000 }
    }

    /// What is due when the check says this, after some seconds.
    fn due(&mut self, seconds: u64, state: CheckState) -> Vec<DueNotice> {
        self.now += seconds;
        self.book.take(self.now, &self.receiver, &[check("hosts.answering", state)]);
        self.book.due(self.now, &self.receiver, 0)
    }

    /// The same, and it arrives.
    fn told(&mut self, seconds: u64, state: CheckState) -> Vec<NoticeKind> {
        let due = self.due(seconds, state);
        due.iter().for_each(|due| self.receiver.take(&due.told));
        due.iter().map(|due| due.kind).collect()
    }
}

use CheckState::{Green, Red, Silenced, Unknown, Yellow};
use NoticeKind::{Better, Calm, Flapping, Over, Reminder, Well, Worse};

#[test]
fn each_change_is_told_once() {
    let mut course = Course::new(NoticeLevel::Yellow);
    assert_eq!(course.told(0, Green), []);
    assert_eq!(course.told(10, Yellow), [Worse]);
    assert_eq!(course.told(10, Yellow), []);
    assert_eq!(course.told(10, Red), [Worse]);
    assert_eq!(course.told(2000, Yellow), [Better]);
    assert_eq!(course.told(10, Green), [Well]);
    assert_eq!(course.told(10, Green), []);
}

#[test]
fn what_is_less_bad_than_wanted_is_not_told() {
    let mut course = Course::new(NoticeLevel::Red);
    assert_eq!(course.told(0, Yellow), []);
    assert_eq!(course.told(10, Red), [Worse]);
    assert_eq!(course.told(10, Yellow), [Well], "it is well as far as this one is concerned");
    course.receiver.groups = vec!["capacity".to_owned()];
    assert_eq!(course.told(10, Red), []);
}

#[test]
fn what_nobody_knows_and_what_is_silenced_is_no_news() {
    let mut course = Course::new(NoticeLevel::Yellow);
    assert_eq!(course.told(0, Yellow), [Worse]);
    assert_eq!(course.told(10, Unknown), []);
    assert_eq!(course.told(10, Silenced), []);
    assert_eq!(course.told(10, Yellow), []);
    assert_eq!(course.told(10, Silenced), []);
    assert_eq!(course.told(10, Green), [Well]);
    assert_eq!(course.told(10, Silenced), []);
}

#[test]
fn who_knows_is_reminded_once_a_day() {
    let mut course = Course::new(NoticeLevel::Yellow);
    assert_eq!(course.told(0, Yellow), [Worse]);
    assert_eq!(course.told(86_399, Yellow), []);
    assert_eq!(course.told(1, Yellow), [Reminder]);
    assert_eq!(course.told(1, Yellow), []);
    course.receiver.remind_seconds = None;
    assert_eq!(course.told(1_000_000, Yellow), []);
}

#[test]
fn what_goes_up_and_down_is_told_once_with_a_count() {
    let mut course = Course::new(NoticeLevel::Yellow);
    let mut kinds = Vec::new();
    for _ in 0..100 {
        kinds.extend(course.told(10, Yellow));
        kinds.extend(course.told(10, Green));
    }
    assert_eq!(kinds, [Worse, Well, Worse, Well, Flapping]);
    // What is worse than what was said is told even so.
    assert_eq!(course.told(10, Red), [Worse]);
    assert_eq!(course.told(10, Green), []);
    assert_eq!(course.told(FLAP_SECONDS - 1, Green), []);
    let calm = course.due(1, Green);
    assert_eq!((calm[0].kind, calm[0].told.level, calm[0].changes), (Calm, None, 1));
    assert_eq!(course.told(0, Green), [Calm]);
    assert_eq!(course.told(10, Green), []);
    assert_eq!(course.told(FLAP_SECONDS, Yellow), [Worse]);
}

#[test]
fn what_could_not_be_told_is_told_afterwards() {
    let mut course = Course::new(NoticeLevel::Yellow);
    assert_eq!(course.told(0, Green), []);
    for seconds in [10, 10, 1000] {
        let due = course.due(seconds, Red);
        assert_eq!((due[0].kind, due[0].told.number), (Worse, 1), "it does not arrive");
    }
    let due = course.due(10, Green);
    assert_eq!((due[0].kind, due[0].worst), (Over, Some(NoticeLevel::Red)));
    assert_eq!(course.book.owed(), 1);
    assert_eq!(course.told(10, Green), [Over]);
    assert_eq!(course.told(10, Green), []);
    assert_eq!(course.book.owed(), 0);
}

#[test]
fn who_waits_for_others_tells_what_they_did_not() {
    let mut course = Course::new(NoticeLevel::Yellow);
    let mut waits = ReceiverBook::default();
    let checks = [check("hosts.answering", Green)];
    waits.take(course.now, &course.receiver, &checks);
    let checks = [check("hosts.answering", Red)];
    waits.take(course.now + 5, &course.receiver, &checks);
    assert_eq!(waits.due(course.now + 34, &course.receiver, 30), []);
    let due = waits.due(course.now + 35, &course.receiver, 30);
    assert_eq!((due[0].kind, due[0].told.number), (Worse, 1));
    // The other one has told it: with the same number.
    assert_eq!(course.told(0, Green), []);
    let other = course.due(5, Red);
    assert_eq!(other[0].told.number, 1);
    course.receiver.take(&other[0].told);
    waits.take(course.now + 36, &course.receiver, &checks);
    assert_eq!(waits.due(course.now + 100, &course.receiver, 30), []);
}

proptest! {
    /// However checks change and messages are lost: what lasts is known in the end, and nobody is
    /// told more often than a check may be told of.
    #[test]
    fn what_lasts_is_told_and_little_else(
        steps in prop::collection::vec((1_u64..400, 0_usize..5, any::<bool>()), 1..120),
        last in 0_usize..3,
    ) {
        let states = [Green, Yellow, Red, Unknown, Silenced];
        let mut course = Course::new(NoticeLevel::Yellow);
        let mut times: Vec<u64> = Vec::new();
        for (seconds, state, arrives) in steps {
            let due = course.due(seconds, states[state]);
            prop_assert!(due.len() <= 1);
            if let Some(due) = due.first().filter(|_| arrives) {
                course.receiver.take(&due.told);
                times.push(course.now);
            }
        }
        for _ in 0..3 {
            course.told(FLAP_SECONDS, states[last]);
        }
        let told = course.receiver.told_of("hosts.answering").and_then(|told| told.level);
        prop_assert_eq!(Some(told), level(states[last], NoticeLevel::Yellow));
        prop_assert_eq!(course.told(10, states[last]), []);
        for window in times.windows(TOLD_TIMES_MAX + 3) {
            // Beside five messages: two that say that it is worse, one that it is calm.
            prop_assert!(window[TOLD_TIMES_MAX + 2] - window[0] >= FLAP_SECONDS / 2);
        }
    }
}
