// SPDX-License-Identifier: Apache-2.0
//! Requests that carry a key are carried out once, however often they are sent. The answer of the
//! first one is kept for a while, for those that come after it.

use crate::problem::Problem;
use operator::Command;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// The header with the key.
pub const KEY_HEADER: &str = "idempotency-key";
/// Longest key, bytes.
pub const KEY_MAX: usize = 128;
/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// How many are kept at most: the oldest goes first.
const KEPT_MAX: usize = 1024;

/// What came of a request.
pub type Outcome = Result<Value, Problem>;
/// What comes of a request, once it is known.
pub type PendingOutcome = Arc<OnceCell<Outcome>>;

/// What a request asks for: the command, and the shard that it names.
pub type KeyedCommand = (Command, Option<String>);

/// The keys that were used lately.
#[derive(Debug, Default)]
pub struct Once {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<String, (KeyedCommand, PendingOutcome)>,
    /// The keys, the oldest first.
    order: VecDeque<(Instant, String)>,
}

impl Once {
    /// What comes, or came, of the request of this caller with this key.
    ///
    /// # Errors
    /// The key is too long, or another request had it.
    pub fn pending(
        &self,
        (caller, key): (&str, &str),
        wanted: &KeyedCommand,
        now: Instant,
    ) -> Result<PendingOutcome, Problem> {
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(Problem::usage(format!("a key has 1 to {KEY_MAX} characters")));
        }
        // No header has a line break in it.
        let key = &format!("{caller}\n{key}");
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget(|since, _| now.duration_since(since) >= KEPT_FOR);
        if let Some((first, pending)) = kept.by_key.get(key) {
            return match first == wanted {
                true => Ok(Arc::clone(pending)),
                false => Err(Problem::other_request()),
            };
        }
        kept.forget(|_, count| count >= KEPT_MAX);
        let pending = PendingOutcome::default();
        kept.by_key.insert(key.to_owned(), (wanted.clone(), Arc::clone(&pending)));
        kept.order.push_back((now, key.to_owned()));
        Ok(pending)
    }
}

impl Kept {
    /// Forgets the oldest as long as `is_to_go` of when it came and of how many there are.
    fn forget(&mut self, is_to_go: impl Fn(Instant, usize) -> bool) {
        while let Some((since, key)) = self.order.front() {
            if !is_to_go(*since, self.order.len()) {
                return;
            }
            self.by_key.remove(key);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grow(size_bytes: u64) -> KeyedCommand {
        (Command::VolumeGrow { name: "a".to_owned(), size_bytes }, None)
    }

    #[test]
    fn a_key_stands_for_one_request_for_a_while() {
        let (once, begun) = (Once::default(), Instant::now());
        let first = once.pending(("a", "k"), &grow(1), begun).expect("the first");
        let again = once.pending(("a", "k"), &grow(1), begun + KEPT_FOR / 2).expect("again");
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(once.pending(("a", "k"), &grow(2), begun).expect_err("another").status, 422);
        let other = once.pending(("a", "l"), &grow(1), begun).expect("another key");
        assert!(!Arc::ptr_eq(&first, &other));
        let theirs = once.pending(("b", "k"), &grow(2), begun).expect("another caller's");
        assert!(!Arc::ptr_eq(&first, &theirs));
        let later = once.pending(("a", "k"), &grow(2), begun + KEPT_FOR).expect("it is forgotten");
        assert!(!Arc::ptr_eq(&first, &later));
        for wrong in ["", &"k".repeat(KEY_MAX + 1)] {
            assert_eq!(
                once.pending(("a", wrong), &grow(1), begun).expect_err("no key").status,
                400
            );
        }
    }

    #[test]
    fn no_more_are_kept_than_there_may_be() {
        let (once, now) = (Once::default(), Instant::now());
        let first = once.pending(("a", "k0"), &grow(1), now).expect("the first");
        for number in 1..KEPT_MAX {
            once.pending(("a", &format!("k{number}")), &grow(1), now).expect("one more");
        }
        assert!(Arc::ptr_eq(&first, &once.pending(("a", "k0"), &grow(1), now).expect("kept")));
        once.pending(("a", "more"), &grow(1), now).expect("one too many");
        assert!(!Arc::ptr_eq(&first, &once.pending(("a", "k0"), &grow(1), now).expect("anew")));
        let kept = once.kept.lock().expect("nobody else");
        assert!(kept.by_key.len() == KEPT_MAX && kept.order.len() == KEPT_MAX);
    }
}
