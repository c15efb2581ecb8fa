// SPDX-License-Identifier: Apache-2.0
//! An object's record, made again of what its components say; pure.
//!
//! A component does not know whether it is whole: that was for the record to say. What it keeps is
//! the newest record that its host saw. So one is taken for whole only where
//! 1. the newest of these records calls it active, with the seat that the component has (a higher
//!    seat: it has been away since, and nobody knows whether it came back);
//! 2. it lost nothing;
//! 3. its highest durable lsn is the highest of all that were found, or given up for their space.
//!    An active component has every completed write, and lsns rise: a component that others went on
//!    without is below them;
//! 4. every component that this record calls active or on its way back was found, or given up with
//!    the seat that it has there: none of them can have gone on alone, elsewhere. So was one that
//!    it calls absent and whose host is up: a component says what stood in the record some hundred
//!    milliseconds before its host went down, and another one may have come back since. Its host
//!    will say so.
//!
//! Where hosts claimed the record of a directory that had been set back, the copies that they took
//! went on in another history than those that refused it (rule 25). The latter have what was
//! acknowledged before, and only they can be whole; but where the former have newer writes, only
//! the operator can say which to lose.
//!
//! All others are copied anew in full (`left` is zero). Where none is whole by these rules, only
//! the operator's word makes one so. A component that the newest record does not list was taken out
//! (rule 39): where some are whole by these rules, of which the third counts it too, the new record
//! has it deleted.

use base::{Lsn, ObjectId, Seat, ShardId, Term, Version, WriterEpoch};
use directory::{
    About, COMPONENTS_MAX, ComponentRecord, ComponentState, Missing, ObjectRecord, OrphanRecord,
    REMOVED_MAX, RemovedComponent,
};

/// Versions that an adoption leaps over: hosts that remember a later record than the components do
/// believe the new one, and those that stopped because the directory went back (rule 25) go on.
const LEAP: u64 = object::ADOPTION_LEAP;

/// The record of the object that `told` is of: components, and what was given up; `old` is what the
/// directory has, and `is_up` says which hosts run.
pub(super) fn rebuild(
    told: &[OrphanRecord],
    old: Option<&ObjectRecord>,
    is_up: impl Fn(ShardId) -> bool,
    is_forced: bool,
) -> Result<ObjectRecord, String> {
    let (gone, found): (Vec<_>, Vec<_>) =
        told.iter().cloned().partition(|record| record.given_up.is_some());
    let found = &found[..];
    let refused = |record: &&OrphanRecord| record.missing == Missing::History;
    let has_split = found.iter().any(|record| refused(&record));
    // Of the history that goes on.
    let is_ours = |record: &OrphanRecord| !has_split || refused(&record);
    let of_ours = found.iter().filter(|record| is_ours(record));
    let newest = of_ours.filter_map(|record| record.about.as_ref().map(|about| (about, record)));
    let Some((about, any)) = newest.max_by_key(|(about, _)| about.version) else {
        return Err("its components say nothing of themselves".to_owned());
    };
    if found.iter().any(|record| record.object != any.object || record.sectors != any.sectors) {
        return Err("its components are not of one object".to_owned());
    }
    let object = any.object;
    let away = away(about, found, &gone, is_up);
    if let Some(away) = away.filter(|_| !is_forced) {
        return Err(format!(
            "a copy of object {object} on host {} is not found and may have newer writes: start \
             it, open its disk groups ('gabion status') and wait two minutes, or say --force",
            away.shard
        ));
    }
    let listed = |record: &OrphanRecord| about.siblings.iter().find(|c| c.id == record.id);
    let can_be_whole = |record: &&OrphanRecord| {
        let listed = listed(record);
        // One that no owner ever took knows no seat yet.
        let is_seated = |c: &ComponentRecord| c.seat == record.seat || record.is_empty();
        is_ours(record)
            && !record.is_damaged
            && listed.is_some_and(|c| c.state == ComponentState::Active && is_seated(c))
    };
    let highest = |durables: &mut dyn Iterator<Item = Lsn>| durables.max().unwrap_or_default();
    let top = match is_forced {
        false => highest(&mut told.iter().map(|record| record.durable)),
        true => highest(&mut found.iter().filter(can_be_whole).map(|record| record.durable)),
    };
    let is_whole = |record: &OrphanRecord| can_be_whole(&record) && record.durable == top;
    if !found.iter().any(is_whole) {
        return Err(none_is_whole(object, has_split));
    }
    // Two histories, or the operator's word for a copy: nobody knows what was taken out.
    let is_kept = |record: &OrphanRecord| has_split || is_forced || listed(record).is_some();
    let (kept, out): (Vec<_>, Vec<_>) = found.iter().cloned().partition(is_kept);
    let components = components(&kept, about, is_whole);
    let (version, term) = above_all(told, about, old);
    let record = ObjectRecord {
        id: object,
        volume: about.volume,
        sectors: any.sectors,
        version,
        term,
        owner: None,
        handover: None,
        components,
        removed: out.iter().take(REMOVED_MAX).map(removed).collect(),
        claims: Vec::new(),
        is_doubted: false,
        writer_epoch: old.map_or(WriterEpoch::ANY, |old| old.writer_epoch),
    };
    record.check().map_err(|error| format!("object {object} cannot be made again: {error}"))?;
    Ok(record)
}

/// A version and a term above all that were.
fn above_all(told: &[OrphanRecord], about: &About, old: Option<&ObjectRecord>) -> (Version, Term) {
    let versions = told.iter().map(|record| record.version).chain([about.version]);
    let version = versions.chain(old.map(|old| old.version)).max().unwrap_or_default();
    let terms = told.iter().map(|record| record.term).chain([about.term]);
    let term = terms.chain(old.map(|old| old.term)).max().unwrap_or_default();
    (Version(version.0.saturating_add(LEAP)), Term(term.0 + 1))
}

fn removed(record: &OrphanRecord) -> RemovedComponent {
    RemovedComponent { id: record.id, shard: record.shard }
}

/// The record of an object that was made anew without these components, which were found later:
/// they were taken out before (rule 39), and this record has them deleted. `None` where that is not
/// so, or where too many are waiting for that already.
pub(super) fn without(found: &[OrphanRecord], old: &ObjectRecord) -> Option<ObjectRecord> {
    let is_left = |record: &OrphanRecord| {
        record.missing == Missing::Component
            && record.given_up.is_none()
            && is_behind(record, old)
            && old.components.iter().all(|one| one.id != record.id)
    };
    let has_room = old.removed.len() + found.len() <= REMOVED_MAX;
    if old.is_doubted || !has_room || found.is_empty() || !found.iter().all(is_left) {
        return None;
    }
    let mut next = old.clone();
    next.removed.extend(found.iter().map(removed));
    next.version = Version(old.version.0.saturating_add(LEAP));
    (next.term, next.owner, next.handover) = (Term(old.term.0 + 1), None, None);
    next.claims.clear();
    next.check().is_ok().then_some(next)
}

/// A component that may have gone on alone: it is neither found, nor was it given up with the seat
/// that it has in the newest record.
fn away<'a>(
    about: &'a About,
    found: &[OrphanRecord],
    gone: &[OrphanRecord],
    is_up: impl Fn(ShardId) -> bool,
) -> Option<&'a ComponentRecord> {
    let may_be_ahead = |sibling: &&ComponentRecord| match sibling.state {
        ComponentState::Active | ComponentState::Resyncing => true,
        ComponentState::Absent => is_up(sibling.shard),
        ComponentState::Degraded => false,
    };
    let is_known = |sibling: &ComponentRecord| {
        let was = |record: &OrphanRecord| (record.id, record.seat) == (sibling.id, sibling.seat);
        found.iter().any(|record| record.id == sibling.id) || gone.iter().any(was)
    };
    about.siblings.iter().filter(may_be_ahead).find(|sibling| !is_known(sibling))
}

/// Whether `old` was already made anew of what these components say. Their hosts' words stay in the
/// directory until those hosts look again. A second adoption by the same words would take a
/// component for whole that was whole only then. The record may have lost one of them since, which
/// was one too many; only a host that looked at this record can say that it does not list one.
pub(super) fn is_done(found: &[OrphanRecord], old: &ObjectRecord) -> bool {
    let is_listed = |record: &OrphanRecord| {
        record.missing != Missing::Component
            || old.components.iter().any(|one| one.id == record.id)
            || old.removed.iter().any(|one| one.id == record.id)
    };
    !old.is_doubted && found.iter().all(|record| is_behind(record, old) && is_listed(record))
}

/// Whether `old` was made anew since this component last heard of its record.
fn is_behind(record: &OrphanRecord, old: &ObjectRecord) -> bool {
    let about = record.about.as_ref();
    let version = about.map_or(record.version, |about| about.version.max(record.version));
    let term = about.map_or(record.term, |about| about.term.max(record.term));
    old.version.0 >= version.0.saturating_add(LEAP / 2) && old.term > term
}

fn none_is_whole(object: ObjectId, has_split: bool) -> String {
    if has_split {
        return format!(
            "the copies of object {object} went on separately after the directory had been set \
             back, and those that were served last lack what the others have: 'gabion orphan \
             list' shows them, --force goes on from before and loses what was written since"
        );
    }
    format!(
        "no copy of object {object} is surely whole: one was damaged, or copied, when it was last \
         heard of; 'gabion orphan list' shows them, --force takes the best one that was whole then"
    )
}

/// The components of the new record: those found, and those that were listed and are not found.
fn components(
    found: &[OrphanRecord],
    about: &About,
    is_whole: impl Fn(&OrphanRecord) -> bool,
) -> Vec<ComponentRecord> {
    let listed = |record: &OrphanRecord| about.siblings.iter().find(|c| c.id == record.id);
    let made = found.iter().map(|record| ComponentRecord {
        id: record.id,
        shard: record.shard,
        group: record.group,
        state: if is_whole(record) { ComponentState::Active } else { ComponentState::Absent },
        seat: record.seat.max(listed(record).map_or(Seat(0), |listed| listed.seat)),
        left: Lsn::ZERO,
        replaces: None,
    });
    let is_found = |c: &&ComponentRecord| found.iter().any(|record| record.id == c.id);
    let absent = about.siblings.iter().filter(|c| !is_found(c));
    let absent =
        absent.map(|c| ComponentRecord { state: ComponentState::Absent, replaces: None, ..*c });
    let mut components: Vec<_> = made.chain(absent).collect();
    components.sort_by_key(|component| component.state != ComponentState::Active);
    components.truncate(COMPONENTS_MAX);
    components
}

#[cfg(test)]
mod tests;
