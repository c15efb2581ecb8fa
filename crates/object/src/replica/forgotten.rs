// SPDX-License-Identifier: Apache-2.0
//! Fences of a directory that went back in time (rule 25).

use super::{FenceRequest, Replicas};
use crate::history::{Known, is_made_anew};
use base::Session;
use diskgroup::ComponentInfo;
use wire::Refusal;

impl Replicas {
    /// Why a Fence is not taken where its record does not descend from what the component saw of
    /// it. Who lets go of an object (rule 52b) tells no version that means anything.
    pub(super) fn of_other_history(
        &self,
        info: &ComponentInfo,
        request: &FenceRequest,
    ) -> Option<Refusal> {
        let group = self.disks.holding(request.target.component)?;
        let about = group.description(request.target.component);
        let about = about.map(|about| (about.version, about.term));
        let known = Known { meta: info.meta, about, went_back: info.went_back };
        let is_told = request.target.session != Session(0);
        let is_older = request.version < info.meta.version
            || known.went_back && !is_made_anew(known.version(), request.version);
        let is_other = known.is_other(request.version, &request.claims);
        // Within one history terms and seats rise together: a later term has no earlier seat.
        let target = request.target;
        let is_seated_before = target.term > info.meta.term && target.seat < info.meta.seat;
        let is_of_other = is_other || is_told && (is_older || is_seated_before);
        if !is_of_other || self.options.mutations.believe_any_record {
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

pub(super) fn claim(claim: &wire::Claim) -> directory::Claim {
    let owner = directory::Owner { host: claim.owner.host, incarnation: claim.owner.incarnation };
    directory::Claim { term: claim.term, version: claim.version, owner }
}
