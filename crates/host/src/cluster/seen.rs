// SPDX-License-Identifier: Apache-2.0
//! Which hosts answer now, and since when an object has less than its policy asks for.
//!
//! The lease key says that a host lived some seconds ago; the links, and the owner of an object,
//! say what is true now. All are for people alone: what may be done without a host is decided by
//! rule 52. Times are as this host saw them: what began before its own start counts from there.

use crate::cluster::view::View;
use base::{Instant, Map, ObjectId, ShardId};
use directory::{ComponentRecord, ComponentState, ObjectRecord};
use env::Env;
use object::{Away, ObjectStatus};
use peer::Peers;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use wire::Versions;

/// A host that was not heard for so many times what a link is pinged after does not answer.
const PINGS_UNHEARD: u32 = 2;
/// Between two looks at the links: how exact "since when" is.
const LOOK: Duration = Duration::from_millis(250);

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Seen(Rc<SeenInner>);

struct SeenInner {
    env: Env,
    me: ShardId,
    peers: Peers,
    view: View,
    began: Instant,
    /// When each host was last known to answer.
    heard: RefCell<Map<ShardId, Instant>>,
    /// Objects with a component that is not active, by record, and since when.
    reduced: RefCell<Map<ObjectId, Instant>>,
}

/// Whether a host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// It was heard lately: within a second, but in a large cluster.
    Yes,
    /// It was not, for so long; its lease may still be held.
    No(Duration),
}

impl Seen {
    pub(crate) fn new(env: &Env, me: ShardId, peers: &Peers, view: &View) -> Self {
        Self(Rc::new(SeenInner {
            env: env.clone(),
            me,
            peers: peers.clone(),
            view: view.clone(),
            began: env.now(),
            heard: RefCell::default(),
            reduced: RefCell::default(),
        }))
    }

    /// Looks at the links, until dropped.
    pub(crate) async fn run(self) {
        loop {
            for shard in self.0.view.shards() {
                self.host(shard.id);
            }
            self.0.env.sleep(LOOK).await;
        }
    }

    /// Whether a host answers, by what is known at this moment.
    pub(crate) fn host(&self, id: ShardId) -> Answers {
        let now = self.0.env.now();
        let silent = match id == self.0.me {
            true => Duration::ZERO,
            false => self.0.peers.silent_for(id),
        };
        let mut heard = self.0.heard.borrow_mut();
        if silent < self.0.peers.heard_every() * PINGS_UNHEARD {
            heard.insert(id, now - silent);
            return Answers::Yes;
        }
        let last = heard.get(&id).copied().unwrap_or(self.0.began);
        Answers::No(now.since(last))
    }

    /// Hosts with which this one shares no version of frames, and what they speak.
    pub(crate) fn incompatible(&self) -> Vec<(ShardId, Versions)> {
        self.0.peers.incompatible()
    }

    /// Whether this host can encrypt its links.
    pub(crate) fn has_identity(&self) -> bool {
        self.0.peers.has_identity()
    }

    /// Hosts to which there is no link because one end did not prove itself, and why.
    pub(crate) fn unproven(&self) -> Vec<(ShardId, String)> {
        self.0.peers.unproven()
    }

    /// Has a host prove itself on a link of its own.
    pub(crate) async fn prove(&self, id: ShardId) -> Result<(), String> {
        self.0.peers.prove(id).await
    }

    /// For how long a host has not answered; zero where it does.
    fn silence(&self, id: ShardId) -> Duration {
        match self.host(id) {
            Answers::Yes => Duration::ZERO,
            Answers::No(silent) => silent,
        }
    }

    /// A record is new or changed.
    pub(crate) fn record_changed(&self, record: &ObjectRecord) {
        let is_away = |state| state != ComponentState::Active;
        let asked = asked_for(record);
        let away = asked.filter(|c| is_away(c.state));
        // A host goes first, its component is marked some time later.
        let silent = away.map(|c| self.silence(c.shard));
        let mut reduced = self.0.reduced.borrow_mut();
        match silent.max() {
            Some(silent) => {
                reduced.entry(record.id).or_insert(self.0.env.now() - silent);
            }
            None => {
                reduced.remove(&record.id);
            }
        }
    }

    /// A record is gone.
    pub(crate) fn record_deleted(&self, id: ObjectId) {
        self.0.reduced.borrow_mut().remove(&id);
    }

    /// Whether a component can be read and written now, as far as is known here; `away` is what
    /// its owner says.
    pub(crate) fn is_there(&self, component: &ComponentRecord, away: Option<Away>) -> bool {
        component.state == ComponentState::Active
            && away.is_none()
            && self.0.view.alive(component.shard).is_some()
            && self.host(component.shard) == Answers::Yes
    }

    /// For how long an object has had fewer components that answer than its policy asks for.
    pub(crate) fn reduced_for(
        &self,
        object: &ObjectRecord,
        known: Option<&ObjectStatus>,
    ) -> Option<Duration> {
        let by_record = self.0.reduced.borrow().get(&object.id).copied();
        let by_record = by_record.map(|since| self.0.env.now().since(since));
        let gone = |c: &ComponentRecord| {
            let away = known.and_then(|known| known.component(c.id)?.away);
            let by_owner = match away {
                Some(Away::Unheard(since)) => since,
                _ => Duration::ZERO,
            };
            (!self.is_there(c, away)).then(|| self.silence(c.shard).max(by_owner))
        };
        by_record.max(asked_for(object).filter_map(gone).max())
    }
}
/// The components that the policy asks for: one that is to take the place of another is one more.
fn asked_for(object: &ObjectRecord) -> impl Iterator<Item = &ComponentRecord> {
    object.components.iter().filter(|component| component.replaces.is_none())
}
