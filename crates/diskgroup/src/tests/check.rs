// SPDX-License-Identifier: Apache-2.0
//! What must be in a group, sector by sector.

use super::campaign::Signs;
use super::oracle::Oracle;
use super::*;

/// A range as a whole, or, where that fails, block by block.
async fn read_finely(
    group: &DiskGroup,
    id: ComponentId,
    range: SectorRange,
) -> Vec<(SectorRange, Result<crate::ReadData, GroupError>)> {
    let whole = group.read(id, range).await;
    if whole.is_ok() {
        return vec![(range, whole)];
    }
    let mut parts = Vec::new();
    for part in range.split_at_multiples(8) {
        parts.push((part, group.read(id, part).await));
    }
    parts
}

pub(super) async fn check_capacity(group: &DiskGroup, oracle: &RefCell<Oracle>) {
    for component in 0..COMPONENTS as usize {
        let id = ComponentId(component as u64 + 1);
        let info = group.component(id).expect("components are on capacity");
        assert!(info.partial, "component {component} does not say what it lost");
        let watermark = info.destaged;
        let told = oracle.borrow().told[component];
        assert!(watermark <= told, "W {watermark:?} beyond K {told:?}");
        for range in SectorRange::new(0, SECTORS).split_at_multiples(base::CHUNK_SECTORS) {
            for (part, read) in read_finely(group, id, range).await {
                let oracle = oracle.borrow();
                match read {
                    Ok(read) => {
                        for (at, bytes) in (part.start..).zip(read.payload.chunks(512)) {
                            oracle.check_alone(component, at, watermark, bytes);
                        }
                    }
                    // A batch that was under way is torn: docs/store.md, (d).
                    Err(GroupError::BadCrc { .. }) => {
                        let is_beyond = oracle.is_beyond(component, part, watermark);
                        assert!(is_beyond, "capacity alone, {component} {part:?} is bad");
                    }
                    Err(error) => panic!("capacity alone: {error}"),
                }
            }
        }
    }
}

/// What block status calls a hole reads as zeros.
fn check_status(group: &DiskGroup, id: ComponentId, range: SectorRange, content: &[u8]) {
    let mut rest = content;
    for (part, is_data) in group.extents(id, range) {
        let (here, behind) = rest.split_at(part.bytes() as usize);
        let is_zero = here.iter().all(|byte| *byte == 0);
        assert!(is_data || is_zero, "{part:?} of component {id} is called a hole and holds data");
        rest = behind;
    }
    assert!(rest.is_empty(), "block status ends before {range:?} of component {id}");
}

/// Reads everything, checks it, and takes what is found for what is there.
pub(super) async fn check_all(group: &DiskGroup, oracle: &RefCell<Oracle>, signs: &Signs) {
    for component in 0..COMPONENTS as usize {
        let id = ComponentId(component as u64 + 1);
        let Some(info) = group.component(id) else {
            assert!(group.is_any_out(), "components are durable");
            continue;
        };
        if info.partial {
            super::out::check_partial(group, oracle, signs, component).await;
            continue;
        }
        assert!(!signs.losses.is_sure(component), "what was dropped of {component} is not told");
        for range in SectorRange::new(0, SECTORS).split_at_multiples(base::CHUNK_SECTORS) {
            for (part, read) in read_finely(group, id, range).await {
                let mut oracle = oracle.borrow_mut();
                match read {
                    Ok(read) => {
                        assert!(wire::verify(part, &read.crcs, &read.payload), "checksums");
                        check_status(group, id, part, &read.payload);
                        let lows = oracle.lows(component, part);
                        oracle.check(component, part, &lows, &read.payload);
                        oracle.settle(component, part, &read.payload);
                    }
                    Err(error) => {
                        let is_named = is_damage(&error) && signs.may_be_bad.get();
                        assert!(is_named, "component {component} {part:?}: {error}");
                        signs.bad.borrow_mut().push((component, part));
                    }
                }
            }
        }
        let mut oracle = oracle.borrow_mut();
        let may_be_bad = signs.may_be_bad.get();
        if signs.may_be_stale.get() {
            oracle.acked[component] = info.durable;
            oracle.told[component] = oracle.told[component].max(info.commit);
            continue;
        }
        assert!(may_be_bad || !info.damaged, "component {component} is said to be damaged");
        assert!(info.durable >= oracle.acked[component], "the highest lsn goes back");
        assert!(info.destaged <= info.durable, "W beyond what is durable");
        assert!(info.commit <= oracle.told[component], "K beyond what was told");
        oracle.marks[component].retain(|(lsn, _)| *lsn <= info.durable);
        assert_eq!(group.clients(id), oracle.clients(component), "requests of {component}");
        assert!(group.tail(id).iter().all(|(_, lsn)| *lsn > info.commit));
        oracle.acked[component] = info.durable;
    }
    let mut oracle = oracle.borrow_mut();
    oracle.term += 1;
    oracle.issued.fill(0);
}

/// Whether an error says that a device does not give back what was written.
pub(super) fn is_damage(error: &GroupError) -> bool {
    matches!(error, GroupError::BadCrc { .. } | GroupError::Device { .. })
}
