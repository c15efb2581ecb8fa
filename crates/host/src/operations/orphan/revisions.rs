// SPDX-License-Identifier: Apache-2.0
//! What an adoption goes by must be so still when it is written.

use base::{ComponentId, Map};
use directory::{Expect, ObjectRecord, Transaction};

/// Revisions of the records of components.
pub(super) type Revisions = Map<ComponentId, u64>;

/// Adds a condition to `write`: the orphan records of the components of `object` are still as
/// they were read. A host that gives up a component for its space changes that record first,
/// and `write` then changes nothing.
pub(super) fn holding(
    revisions: &Revisions,
    write: Transaction,
    object: &ObjectRecord,
) -> Transaction {
    let of = |id: ComponentId| Some((id, *revisions.get(&id)?));
    let kept = object.components.iter().map(|component| component.id);
    let known = kept.chain(object.removed.iter().map(|removed| removed.id)).filter_map(of);
    known.fold(write, |write, (id, revision)| {
        write.expect(directory::orphan_key(id), Expect::Revision(revision))
    })
}
