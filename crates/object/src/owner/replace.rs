// SPDX-License-Identifier: Apache-2.0
//! Which components an object has changes (rules 38-40): repair, move, evacuation, more copies or
//! fewer. A component on another host takes the place of one in these steps:
//!
//! 1. The new component is made, and added to the record as one of which nothing is promised.
//! 2. It comes back like any other that is away ([`crate::resync`]), while writes flow.
//! 3. The CAS that makes it active takes the old one out.
//! 4. The old one is deleted, once that CAS is known to have won.
//!
//! From 1 on everything is in the record: whoever is the owner then goes on with it. A component
//! more goes through 1 and 2 and takes no other's place. One less is a CAS of its own, and 4.

use super::change::ChangeError;
use super::state::{Owner, Phase};
use crate::record::{self, CannotReplace};
use crate::status::ReplaceError;
use base::{ComponentId, GroupId, ShardId, Version};
use directory::{ObjectRecord, RemovedComponent};
use env::channel::oneshot;
use std::rc::Rc;
use std::time::Duration;
use wire::{Failure, MemberChange, Request, Response};

/// Longest wait for the new component to be made.
const MAKE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for a component to be deleted: its host may have much to free.
const DELETE_WAIT: Duration = Duration::from_secs(30);
/// Between two attempts to have components deleted.
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause between them: a host may be away for days.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// What of the record a change was decided by.
#[derive(Clone, Copy)]
enum DecidedBy {
    Version(Version),
    Members(u64),
}

impl Owner {
    /// Why a change is not made that was decided by another record.
    fn outdated(&self, record: &ObjectRecord, by: DecidedBy) -> Option<CannotReplace> {
        let is_it = match by {
            DecidedBy::Version(version) => record.version == version,
            DecidedBy::Members(members) => {
                record.members() == members || self.options().mutations.move_as_it_was()
            }
        };
        (!is_it).then_some(CannotReplace::Busy)
    }

    /// Changes which components the object has. Returns when the record says so; the rest goes on
    /// by itself. It does so too when the future is dropped.
    ///
    /// # Errors
    /// [`ReplaceError`]: the record is as it was, unless this owner ends meanwhile.
    pub(crate) async fn change_members(
        self: &Rc<Self>,
        change: MemberChange,
    ) -> Result<(), ReplaceError> {
        let (done, answer) = oneshot();
        let owner = Rc::clone(self);
        self.spawn("change components", async move {
            done.send(match change {
                MemberChange::Replace { old, to, members } => {
                    owner.add(Some(old), to, DecidedBy::Members(members)).await
                }
                MemberChange::Keep(old) => owner.keep_component(old).await,
                MemberChange::Add { to, version } => {
                    owner.add(None, to, DecidedBy::Version(version)).await
                }
                MemberChange::TakeOut { component, version } => {
                    owner.take_out(component, version).await
                }
            });
        });
        answer.recv().await.unwrap_or(Err(ReplaceError::moved()))
    }

    async fn add(
        self: &Rc<Self>,
        old: Option<ComponentId>,
        shard: ShardId,
        by: DecidedBy,
    ) -> Result<(), ReplaceError> {
        self.check_serving().map_err(ReplaceError::Object)?;
        let why_not = |record: &ObjectRecord| {
            self.outdated(record, by).or_else(|| record::why_not_add(record, old, shard))
        };
        self.check(why_not)?;
        let id = ComponentId(self.env().random());
        let group = self.make(id, shard).await?;
        let compose = |record: &ObjectRecord| match why_not(record) {
            None => record::add(record, (id, shard, group), old),
            Some(_) => None,
        };
        let added = self.change(|state| compose(&state.record)).await;
        let error = match added {
            Ok(()) => {
                base::hit(base::Probe::ComponentAdded);
                let object = self.id;
                tracing::info!(%object, ?old, new = %id, %shard, "a component is added");
                return Ok(());
            }
            // Perhaps it is in the record all the same. If not, it goes as one that never held
            // anything.
            Err(ChangeError::Stopped) => return Err(ReplaceError::moved()),
            Err(ChangeError::Nothing) => self.check(why_not).err().unwrap_or(ReplaceError::Busy),
            Err(ChangeError::Unavailable) => ReplaceError::unavailable(),
        };
        self.delete(id, shard).await;
        Err(error)
    }

    /// Until the outcome of the CAS is known, writes wait for the component as before, and reads
    /// need its host's grant.
    async fn take_out(
        self: &Rc<Self>,
        component: ComponentId,
        version: Version,
    ) -> Result<(), ReplaceError> {
        self.check_serving().map_err(ReplaceError::Object)?;
        let why_not = |record: &ObjectRecord| {
            let why_not = || record::why_not_take_out(record, component);
            self.outdated(record, DecidedBy::Version(version)).or_else(why_not)
        };
        self.check(why_not)?;
        self.take_out_too_early(component).await;
        let compose = |record: &ObjectRecord| match why_not(record) {
            None => record::take_out(record, component),
            Some(_) => None,
        };
        match self.change(|state| compose(&state.record)).await {
            Ok(()) => {
                base::hit(base::Probe::ComponentTakenOut);
                tracing::info!(object = %self.id, %component, "a component is taken out");
                self.lose(component);
                Ok(())
            }
            Err(ChangeError::Nothing) => {
                Err(self.check(why_not).err().unwrap_or(ReplaceError::Busy))
            }
            Err(ChangeError::Stopped) => Err(ReplaceError::moved()),
            Err(ChangeError::Unavailable) => Err(ReplaceError::unavailable()),
        }
    }

    async fn keep_component(self: &Rc<Self>, old: ComponentId) -> Result<(), ReplaceError> {
        self.check_serving().map_err(ReplaceError::Object)?;
        let new = {
            let state = self.state.borrow();
            let components = &state.record.components;
            let new = components.iter().find(|component| component.replaces == Some(old));
            new.map(|component| component.id).ok_or(ReplaceError::Unknown)?
        };
        match self.change(|state| record::remove(&state.record, new)).await {
            Ok(()) => {
                base::hit(base::Probe::ReplacementGivenUp);
                tracing::info!(object = %self.id, %old, %new, "a replacement is given up");
                self.lose(new);
                Ok(())
            }
            Err(ChangeError::Nothing) => Err(ReplaceError::Unknown),
            Err(ChangeError::Stopped) => Err(ReplaceError::moved()),
            Err(ChangeError::Unavailable) => Err(ReplaceError::unavailable()),
        }
    }

    /// What comes before the CAS that takes `old` out, where rules 39 and 40 are broken.
    pub(crate) async fn take_out_too_early(&self, old: ComponentId) {
        let mutations = self.options().mutations;
        let shard = record::component(&self.state.borrow().record, old).map(|old| old.shard);
        if mutations.complete_before_replaced() {
            self.lose(old);
        }
        if let Some(shard) = shard.filter(|_| mutations.delete_before_replaced()) {
            self.delete(old, shard).await;
        }
    }

    /// The record does not have `component` any more: what waits for it alone completes, and its
    /// return ends.
    pub(crate) fn lose(&self, component: ComponentId) {
        self.state.borrow_mut().resyncs.remove(&component);
        self.remove_leg(component);
    }

    fn check(
        &self,
        why_not: impl Fn(&ObjectRecord) -> Option<CannotReplace>,
    ) -> Result<(), ReplaceError> {
        match why_not(&self.state.borrow().record) {
            None => Ok(()),
            Some(CannotReplace::Unknown) => Err(ReplaceError::Unknown),
            Some(CannotReplace::SameHost) => Err(ReplaceError::SameHost),
            Some(CannotReplace::Busy | CannotReplace::TooMany) => Err(ReplaceError::Busy),
        }
    }

    /// Has the new component made, on the disk group that its host chooses. One that is made too
    /// late is deleted. Where no answer comes at all its host finds it, as one that never held
    /// anything.
    async fn make(
        self: &Rc<Self>,
        component: ComponentId,
        shard: ShardId,
    ) -> Result<GroupId, ReplaceError> {
        let request =
            Request::CreateComponent { object: self.id, component, sectors: self.sectors };
        let mut made = Box::pin(self.context.ask(shard, request));
        match self.env().timeout(MAKE_WAIT, &mut made).await {
            Ok(Ok(Response::Created { group })) => return Ok(group),
            Ok(Ok(Response::Failed { reason: Failure::Full })) => return Err(ReplaceError::Full),
            Ok(_) => {}
            Err(_) => {
                let owner = Rc::clone(self);
                self.spawn("delete what is made too late", async move {
                    if let Ok(Response::Created { .. }) = made.await {
                        owner.delete(component, shard).await;
                    }
                });
            }
        }
        Err(ReplaceError::NotMade)
    }

    /// Whether `component` is surely deleted. Ids are never used twice, so a request that comes
    /// late finds nothing else.
    async fn delete(&self, component: ComponentId, shard: ShardId) -> bool {
        let request = Request::DeleteComponent { object: self.id, component };
        let deleted = self.context.ask(shard, request);
        matches!(self.env().timeout(DELETE_WAIT, deleted).await, Ok(Ok(Response::Done)))
    }

    /// Has components deleted that the record names as taken out, as this owner learned by a CAS
    /// or read when it took over (rule 40), and takes them off the record. Ends with the owner.
    pub(crate) async fn delete_removed(self: Rc<Self>) {
        let mut pause = RETRY;
        while !self.is_stopped() {
            let changed = self.changed.wait();
            let removed: Vec<RemovedComponent> = self.state.borrow().record.removed.clone();
            if removed.is_empty() || self.phase() != Phase::Serving {
                pause = RETRY;
                changed.await;
                continue;
            }
            let mut gone = Vec::new();
            for RemovedComponent { id, shard } in removed {
                let is_no_member = self.context.removed.borrow().contains(&shard);
                if is_no_member || self.delete(id, shard).await {
                    base::hit(base::Probe::RemovedDeleted);
                    gone.push(id);
                }
            }
            let told = self.change(|state| record::forget_removed(&state.record, &gone)).await;
            match told {
                Ok(()) => pause = RETRY,
                Err(ChangeError::Stopped) => return,
                Err(ChangeError::Nothing | ChangeError::Unavailable) => {
                    self.env().sleep(pause).await;
                    pause = (pause * 2).min(RETRY_MAX);
                }
            }
        }
    }
}
