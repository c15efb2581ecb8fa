// SPDX-License-Identifier: Apache-2.0
//! Exhaustive search, breadth first: every state that a model can reach, each once.
//!
//! Guarantees: a counterexample is a shortest one; the same model gives the same result each time;
//! a search that does not end within its limits says which one it met. Non-guarantee: states are
//! told apart by their fingerprints alone.

use crate::fingerprint::{Mixed, fingerprint};
use hashbrown::HashSet;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash};
use std::ops::ControlFlow;

/// States between two calls of the observer.
const LOOK: usize = 1 << 12;
/// The queue takes most of the memory, so it grows only by one part in so many of its size.
const QUEUE_GROWTH: usize = 4;
/// Bytes that an allocation takes besides what was asked for, about.
const ALLOCATION_BYTES: usize = 16;
/// Bytes that the table of fingerprints takes for each that it has room for: 17 at a load of 7/8.
const FINGERPRINT_BYTES: usize = 20;

/// Something whose states can be enumerated.
pub trait Model {
    /// One state of everything.
    type State: Hash;
    /// What leads from a state to the next; it is printed in traces.
    type Step: fmt::Display;

    /// Where it begins.
    fn initial(&mut self) -> Self::State;

    /// Every step that is possible in `state`, always in the same order.
    fn successors(&mut self, state: &Self::State, out: &mut Vec<Next<Self>>);

    /// About how much memory a waiting state takes besides its own size.
    fn heap_bytes(state: &Self::State) -> usize;

    /// Describes the last state of a trace, for people, in lines.
    fn describe(&self, state: &Self::State) -> Vec<String>;
}

/// One step and where it leads.
pub struct Next<M: Model + ?Sized> {
    /// The step.
    pub step: M::Step,
    /// The state behind it.
    pub state: M::State,
    /// The promise that this state breaks.
    pub broken: Option<&'static str>,
}

/// What a search may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most different states. The search ends when it has found so many.
    pub states: usize,
    /// Most bytes of memory, about. The search ends before it takes more.
    pub bytes: usize,
}

/// How far a search is, or was at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Different states found so far.
    pub states: usize,
    /// Steps that were tried.
    pub steps: u64,
    /// Steps from the beginning to the state whose successors were found last.
    pub depth: usize,
    /// States whose successors are not known yet.
    pub waiting: usize,
    /// The most memory used so far, about.
    pub bytes: usize,
}

/// A way to a state that breaks a promise.
#[derive(Debug)]
pub struct Counterexample {
    /// The promise.
    pub broken: &'static str,
    /// The steps, in words.
    pub steps: Vec<String>,
    /// The last state, in words.
    pub end: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after {} steps:", self.broken, self.steps.len())?;
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {:>2}. {step}", at + 1)?;
        }
        self.end.iter().try_for_each(|line| writeln!(f, "      {line}"))
    }
}

/// How a search ended.
#[derive(Debug)]
pub enum Outcome {
    /// Every state was looked at, and none breaks a promise.
    Complete,
    /// A promise can be broken.
    Broken(Counterexample),
    /// The limit of states was met; those looked at break no promise.
    StateLimit,
    /// The limit of memory was met; those looked at break no promise.
    MemoryLimit,
    /// The observer ended it; those looked at break no promise.
    Ended,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Complete => f.write_str("complete"),
            Outcome::Broken(counterexample) => counterexample.fmt(f),
            Outcome::StateLimit => f.write_str("not complete: limit of states"),
            Outcome::MemoryLimit => f.write_str("not complete: limit of memory"),
            Outcome::Ended => f.write_str("not complete: limit of time"),
        }
    }
}

/// How a state was reached: the state before it, and which one of that state's successors it is.
struct Origin {
    from: u32,
    successor: u16,
}

struct Search<M: Model> {
    seen: HashSet<u128, BuildHasherDefault<Mixed>>,
    origins: Vec<Origin>,
    queue: VecDeque<(u32, M::State)>,
    queue_heap: usize,
    progress: Progress,
}

/// Looks at every state of `model`, nearest first, and calls `observe` now and then.
pub fn search<M: Model>(
    model: &mut M,
    limits: Limits,
    mut observe: impl FnMut(&Progress) -> ControlFlow<()>,
) -> (Outcome, Progress) {
    let mut search = Search::<M> {
        seen: HashSet::default(),
        origins: Vec::new(),
        queue: VecDeque::new(),
        queue_heap: 0,
        progress: Progress::default(),
    };
    let outcome = search.run(model, limits, &mut observe);
    search.note();
    (outcome, search.progress)
}

impl<M: Model> Search<M> {
    fn run(
        &mut self,
        model: &mut M,
        limits: Limits,
        observe: &mut impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Outcome {
        self.add(model.initial(), Origin { from: 0, successor: 0 });
        let mut level_end = 1;
        let mut next = Vec::new();
        let mut looked = 0_usize;
        while let Some((id, state)) = self.queue.pop_front() {
            self.queue_heap -= M::heap_bytes(&state);
            if id >= level_end {
                self.progress.depth += 1;
                level_end = to_id(self.origins.len());
            }
            model.successors(&state, &mut next);
            for (at, next) in next.drain(..).enumerate() {
                self.progress.steps += 1;
                let successor = u16::try_from(at).unwrap_or_else(|_| panic!("{at} successors"));
                let origin = Origin { from: id, successor };
                if let Some(broken) = next.broken {
                    return Outcome::Broken(self.trace(model, broken, origin));
                }
                self.add(next.state, origin);
            }
            if self.origins.len() >= limits.states {
                return Outcome::StateLimit;
            }
            if self.bytes_soon() > limits.bytes {
                return Outcome::MemoryLimit;
            }
            looked += 1;
            if looked.is_multiple_of(LOOK) {
                self.note();
                if observe(&self.progress).is_break() {
                    return Outcome::Ended;
                }
            }
        }
        Outcome::Complete
    }

    fn add(&mut self, state: M::State, origin: Origin) {
        if self.seen.insert(fingerprint(&state)) {
            let id = to_id(self.origins.len());
            self.origins.push(origin);
            self.queue_heap += M::heap_bytes(&state);
            if self.queue.len() == self.queue.capacity() {
                self.queue.reserve_exact((self.queue.len() / QUEUE_GROWTH).max(LOOK));
            }
            self.queue.push_back((id, state));
        }
    }

    fn note(&mut self) {
        self.progress.states = self.origins.len();
        self.progress.waiting = self.queue.len();
        self.progress.bytes = self.progress.bytes.max(self.bytes().iter().sum());
    }

    /// Memory of the fingerprints, the origins, the queue and what is behind it.
    fn bytes(&self) -> [usize; 4] {
        [
            self.seen.capacity() * FINGERPRINT_BYTES,
            self.origins.capacity() * size_of::<Origin>(),
            self.queue.capacity() * size_of::<(u32, M::State)>(),
            self.queue_heap,
        ]
    }

    /// Memory once the successors of one more state are there. The fingerprints are copied to a
    /// table of twice the size when theirs is full; the others grow in place.
    fn bytes_soon(&self) -> usize {
        let [seen, origins, queue, heap] = self.bytes();
        let margin = usize::from(u16::MAX);
        let grows = |len: usize, capacity: usize, more: usize| {
            if len + margin > capacity { more } else { 0 }
        };
        let more = grows(self.seen.len(), self.seen.capacity(), 2 * seen)
            + grows(self.origins.len(), self.origins.capacity(), origins)
            + grows(self.queue.len(), self.queue.capacity(), queue / QUEUE_GROWTH);
        seen + origins + queue + heap + more
    }

    /// The steps to the successor `last`, repeated from the beginning to put them in words.
    fn trace(&self, model: &mut M, broken: &'static str, last: Origin) -> Counterexample {
        let mut way = vec![last.successor];
        let mut id = last.from;
        while id != 0 {
            let origin = &self.origins[index(id)];
            way.push(origin.successor);
            id = origin.from;
        }
        let mut state = model.initial();
        let mut steps = Vec::new();
        for successor in way.into_iter().rev() {
            let mut next = Vec::new();
            model.successors(&state, &mut next);
            let next = next.swap_remove(usize::from(successor));
            steps.push(next.step.to_string());
            state = next.state;
        }
        Counterexample { broken, steps, end: model.describe(&state) }
    }
}

/// Memory on the heap that `entries` takes.
pub(crate) fn room<T>(entries: &Vec<T>) -> usize {
    match entries.capacity() {
        0 => 0,
        capacity => ALLOCATION_BYTES + capacity * size_of::<T>(),
    }
}

fn to_id(count: usize) -> u32 {
    u32::try_from(count).unwrap_or_else(|_| panic!("more states than ids"))
}

fn index(id: u32) -> usize {
    usize::try_from(id).unwrap_or_else(|_| unreachable!("32 bits fit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts to 1,000 by ones and threes; `bad` must not be met.
    struct Counter {
        bad: u32,
    }

    impl Model for Counter {
        type State = u32;
        type Step = u32;

        fn initial(&mut self) -> u32 {
            0
        }

        fn successors(&mut self, state: &u32, out: &mut Vec<Next<Self>>) {
            let next = [1, 3].into_iter().filter(|step| state + step <= 1000);
            out.extend(next.map(|step| {
                let broken = (state + step == self.bad).then_some("met");
                Next { step, state: state + step, broken }
            }));
        }

        fn heap_bytes(_: &u32) -> usize {
            0
        }

        fn describe(&self, state: &u32) -> Vec<String> {
            vec![format!("at {state}")]
        }
    }

    fn run(bad: u32, limits: Limits) -> (Outcome, Progress) {
        search(&mut Counter { bad }, limits, |_| ControlFlow::Continue(()))
    }

    const WIDE: Limits = Limits { states: usize::MAX, bytes: usize::MAX };

    #[test]
    fn all_states_are_met_once() {
        let (outcome, progress) = run(2000, WIDE);
        assert!(matches!(outcome, Outcome::Complete), "{outcome}");
        assert_eq!((progress.states, progress.steps), (1001, 1998));
        assert_eq!(progress.waiting, 0);
    }

    #[test]
    fn a_counterexample_is_a_shortest_one() {
        let (Outcome::Broken(found), _) = run(11, WIDE) else { panic!("not found") };
        assert_eq!(found.steps.len(), 5);
        assert_eq!(found.steps.iter().filter(|step| *step == "3").count(), 3);
        assert_eq!(found.end, ["at 11"]);
    }

    #[test]
    fn limits_have_names() {
        let (outcome, progress) = run(2000, Limits { states: 100, ..WIDE });
        assert!(matches!(outcome, Outcome::StateLimit), "{outcome}");
        assert!(progress.states < 103);
        let (outcome, _) = run(2000, Limits { bytes: 100, ..WIDE });
        assert!(matches!(outcome, Outcome::MemoryLimit), "{outcome}");
    }
}
