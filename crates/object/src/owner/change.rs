// SPDX-License-Identifier: Apache-2.0
//! Compare-and-swap of the object's record, with its unknown outcomes (rules 3, 16, 23).

use super::state::{Owner, OwnerState, Phase};
use crate::context::Context;
use base::{ObjectId, Quirk};
use directory::{DirectoryError, Expect, ObjectRecord, Transaction, object_key};
use std::rc::Rc;
use std::time::Duration;

/// Between two attempts while the directory does not answer.
const RETRY: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How a compare-and-swap ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cas {
    /// It landed; the revision of the record now.
    Won(u64),
    /// It did not land and never will. After a take-over's claim alone it may still land late
    /// (rule 23).
    Lost,
    /// The directory was not reached, or refused it: surely not applied, nothing in doubt.
    NotSent,
}

/// Why a change of the record did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeError {
    /// This owner is over.
    Stopped,
    /// The directory cannot be reached; nothing was changed (rule 51).
    Unavailable,
    /// There is nothing to change any more, or it is not allowed.
    Nothing,
}

/// Puts `next` where the record still has `revision` and every compare in `also` holds.
///
/// Does not return while the outcome is in doubt, because a CAS that was sent may land late
/// (rule 16). It is sent again instead. That is harmless: at most one of the copies can find
/// `revision`. A claim with compares in `also` is the exception: it may be given up in doubt, as
/// lost (rule 23).
pub(crate) async fn compare_and_swap(
    context: &Context,
    id: ObjectId,
    revision: u64,
    next: &ObjectRecord,
    also: &[(String, Expect)],
) -> Cas {
    let key = object_key(id);
    let value = next.encode();
    let mut compare = vec![(key.clone(), Expect::Revision(revision))];
    compare.extend(also.iter().cloned());
    let mut in_doubt = false;
    let mut pause = RETRY;
    loop {
        let puts = vec![(key.clone(), value.clone(), None)];
        let transaction = Transaction { compare: compare.clone(), puts, deletes: Vec::new() };
        match context.directory.transact(transaction).await {
            Ok(done) if done.succeeded && !context.env.quirk(Quirk::ChangeInDoubt) => {
                return Cas::Won(done.revision);
            }
            Ok(_) => match context.directory.get(&key).await {
                Ok(Some(entry)) if entry.value == value => return Cas::Won(entry.revision),
                // An earlier copy of this CAS may still be on its way: ask again until one lands.
                // With other compares (a take-over) that may never be; it is given up then, which
                // is safe there: landing late it makes a term that nobody has used (rule 23).
                Ok(Some(entry)) if entry.revision == revision && in_doubt && also.is_empty() => {}
                Ok(_) => {
                    base::hit(base::Probe::CasLost);
                    return Cas::Lost;
                }
                Err(_) => in_doubt = true,
            },
            Err(DirectoryError::Unknown) => {
                base::hit(base::Probe::CasInDoubt);
                in_doubt = true;
            }
            Err(_) if in_doubt => {}
            Err(DirectoryError::Unavailable) => return Cas::NotSent,
            Err(error) => {
                tracing::error!(object = %id, %error, "the directory refuses a record");
                return Cas::NotSent;
            }
        }
        context.env.sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

impl Owner {
    /// Stops where a record that was seen says so.
    pub(crate) fn obey(self: &Rc<Self>, record: &ObjectRecord) {
        if record.is_doubted {
            // Rule 25, also where it is older than this owner's own: the directory was restored.
            self.step_down("the record is doubted");
        } else if record.term > self.term {
            // Rule 20. An older one may come late, so only a higher term.
            self.step_down("the record has a higher term");
        }
    }

    /// Rule 25: a component knows of another history than this owner's record. Has the record say
    /// so, so that nobody claims it any more, and returns whether it does. While the directory is
    /// away nothing is said, nor where the record has moved on: the next to claim it finds out
    /// again. The owner must be stepped down after this.
    pub(crate) async fn doubt(self: &Rc<Self>) -> bool {
        let told = self.change(|state| crate::record::doubt(&state.record));
        let told = self.env().timeout(self.options().stall, told).await;
        let is_told = matches!(told, Ok(Ok(()) | Err(ChangeError::Nothing)));
        tracing::error!(
            object = %self.id, is_told,
            "the directory went back in time: its record is not believed any more"
        );
        is_told
    }

    /// Changes the record: `compose` is asked for the next one when it is this change's turn, so
    /// that `left` is K at that moment (rule 17). While the outcome is unknown both configurations
    /// are obeyed (rule 3). On success the new record has been *learned*.
    ///
    /// Whoever drops this future half-way must step the owner down: the change stays unresolved.
    pub(crate) async fn change(
        self: &Rc<Self>,
        compose: impl Fn(&OwnerState) -> Option<ObjectRecord>,
    ) -> Result<(), ChangeError> {
        let _turn = self.config.acquire(1).await;
        let (next, revision) = {
            let mut state = self.state.borrow_mut();
            // After a hand-over was won the record is another owner's, while this one still says
            // good-bye: whoever queued behind it must not write (rule 53).
            if state.phase == Phase::Stopped || state.record.term != self.term {
                return Err(ChangeError::Stopped);
            }
            let Some(next) = compose(&state) else { return Err(ChangeError::Nothing) };
            assert!(state.pending.is_none(), "two unresolved changes");
            state.pending = Some(next.clone());
            (next, state.revision)
        };
        self.changed.notify();
        let outcome = compare_and_swap(&self.context, self.id, revision, &next, &[]).await;
        {
            let mut state = self.state.borrow_mut();
            if state.phase == Phase::Stopped {
                return Err(ChangeError::Stopped);
            }
            state.pending = None;
            if let Cas::Won(revision) = outcome {
                assert!(next.version > state.record.version, "the version did not rise");
                state.record = next;
                state.revision = revision;
            }
        }
        self.changed.notify();
        match outcome {
            Cas::Won(_) => Ok(()),
            Cas::NotSent => Err(ChangeError::Unavailable),
            Cas::Lost => {
                // Only an owner writes the record: somebody else is one now (rules 16, 20).
                self.step_down("the record has moved on");
                Err(ChangeError::Stopped)
            }
        }
    }
}
