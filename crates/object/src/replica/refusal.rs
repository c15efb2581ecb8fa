// SPDX-License-Identifier: Apache-2.0
//! Fences that are not taken: something newer stands (rules 8, 9), or their directory went back in
//! time (rule 25).

use super::conversation::Conversation;
use super::{FenceRequest, Replicas};
use crate::history::{Known, is_made_anew};
use base::Session;
use diskgroup::ComponentInfo;
use wire::Refusal;

impl Replicas {
    /// Why a Fence is not taken; `old` is what stands. Before the wait for a grant: whoever claims
    /// a record of before is told at once.
    pub(super) fn why_not(
        &self,
        info: &ComponentInfo,
        old: &Conversation,
        request: &FenceRequest,
    ) -> Option<Refusal> {
        let target = request.target;
        let of_other = || self.of_other_history(info, request);
        let is_later = target.term > old.term;
        if let Some(reason) = is_later.then(of_other).flatten() {
            return Some(reason);
        }
        let Some(reason) = stands(old, request) else { return of_other() };
        // What stands may not be durable yet: to a deposed owner that wants to be let go only what
        // the next run of this host will know is an answer.
        let is_in_the_books = info.meta.owner_shard == request.from.shard
            && info.meta.owner_incarnation == request.from.incarnation;
        let is_consent = target.session == Session(0);
        Some(if is_consent && is_in_the_books { Refusal::NotReady } else { reason })
    }

    /// Why a Fence is not taken where its record does not descend from what the component saw of
    /// it. Who lets go of an object (rule 52b) tells no version that means anything.
    fn of_other_history(&self, info: &ComponentInfo, request: &FenceRequest) -> Option<Refusal> {
        let group = self.disks.holding(request.target.component)?;
        let said = group.description(request.target.component);
        let known = Known::new(info, said.as_ref());
        let is_told = request.target.session != Session(0);
        let is_made_anew = is_made_anew(known.version(), request.version);
        let is_older = request.version < info.meta.version || known.went_back && !is_made_anew;
        let is_other = known.is_other(request.version, &request.claims);
        // Within one history terms and seats rise together: a later term has no earlier seat. A
        // record made anew may not know of the last one: then the next return takes a higher one.
        let (target, meta) = (request.target, info.meta);
        let is_seated_before = target.term > meta.term && target.seat < meta.seat && !is_made_anew;
        // The record of an owner does not go back within its term: this Fence was long on its way,
        // and what came after it is forgotten, but for its version.
        let is_of_owner = request.owner.shard == meta.owner_shard
            && request.owner.incarnation == meta.owner_incarnation
            && target.term == meta.term;
        if is_told && is_of_owner && request.version < meta.version && !is_other {
            base::hit(base::Probe::FenceLate);
            return Some(Refusal::Session);
        }
        let is_of_other = is_other || is_told && (is_older || is_seated_before);
        if !is_of_other || self.options.mutations.believe_any_record() {
            return None;
        }
        base::hit(base::Probe::FenceOtherHistory);
        let version = known.version();
        tracing::error!(
            component = %request.target.component, object = %request.target.object,
            seen = version.0, asked = request.version.0, from = ?request.from,
            "a fence is refused: its record does not descend from what this component saw"
        );
        Some(Refusal::OtherHistory { version })
    }
}

/// Something newer stands (rules 8, 9).
fn stands(old: &Conversation, request: &FenceRequest) -> Option<Refusal> {
    let target = request.target;
    let same_term = target.term == old.term;
    if target.term < old.term || (same_term && request.owner != old.owner) {
        return Some(Refusal::HigherTerm(old.term));
    }
    if target.seat < old.seat {
        return Some(Refusal::Seat(old.seat));
    }
    let is_old = same_term && target.seat == old.seat && target.session <= old.session;
    is_old.then_some(Refusal::Session)
}

pub(super) fn claim(claim: &wire::WireClaim) -> directory::Claim {
    let owner =
        directory::OwnerRecord { shard: claim.owner.shard, incarnation: claim.owner.incarnation };
    directory::Claim { term: claim.term, version: claim.version, owner }
}
