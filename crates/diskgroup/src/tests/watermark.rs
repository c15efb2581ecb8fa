// SPDX-License-Identifier: Apache-2.0
//! W, from which on a component that lost its write buffer gets a delta (rule 19): it never passes
//! what the component lacks on capacity and others have with lower lsns.

use super::rotten::drain;
use super::scenarios::{Host, ONE, fresh_tiny, write, write_to};
use super::*;
use std::cell::Cell;

/// W of a component that was active until lsn 10, after a write at 90 was destaged on its way back.
fn after_an_absence(mutations: Mutations) -> Lsn {
    let told = Rc::new(Cell::new(Lsn::ZERO));
    let tell = Rc::clone(&told);
    Host::new(31).run(move |env| async move {
        let group = fresh_tiny(&env, mutations, &[ONE]).await;
        group.set_active(ONE, true);
        group.drain_buffer(true);
        write(&env, &group, 10, 0, 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), 10));
        env.sleep(Duration::from_secs(20)).await;
        // It was away from lsn 10 on, and what it missed has not come yet.
        group.set_active(ONE, false);
        write(&env, &group, 90, 64, 8).await.expect("a write while it comes back");
        group.advance_commit(ONE, Lsn::new(Term(1), 90));
        env.sleep(Duration::from_secs(20)).await;
        assert_eq!(group.status().destaged_blocks, 2, "both are on capacity");
        tell.set(group.component(ONE).expect("a component").destaged);
        group.set_active(ONE, true);
        let destaged = group.component(ONE).expect("a component").destaged;
        assert_eq!(destaged, Lsn::new(Term(1), 90), "it has everything again");
    });
    told.get()
}

#[test]
fn w_stays_while_a_component_comes_back() {
    assert_eq!(after_an_absence(Mutations::default()), Lsn::new(Term(1), 10));
    let mutations = Mutations { raise_inactive: true, ..Mutations::default() };
    assert_eq!(after_an_absence(mutations), Lsn::new(Term(1), 90), "what it lacks is forgotten");
}

/// A discard leaves nothing on capacity where its chunk is not there, or not any more. What follows
/// is of a component on another device, so no record of this one says W either.
#[test]
fn the_highest_lsn_is_known_when_a_discard_has_left_the_log() {
    const TWO: ComponentId = ComponentId(2);
    for (seed, chunk) in [(32, 0), (33, 1)] {
        let host = Host::new(seed);
        host.run(move |env| async move {
            let sizes = crate::CreateSizes { cache: 2 << 20, capacity: 24 << 20 };
            let (spec, id) = (spec(2), GroupId(1));
            let made = DiskGroup::format_with(&env, &spec, Some(sizes), false, id, 64 << 10).await;
            made.expect("new files");
            let group = DiskGroup::open(&env, &spec, GroupOptions::default()).await;
            let group = group.expect("a new group");
            for id in [ONE, TWO] {
                group.create_component(id, ObjectId(9), SECTORS).await.expect("a component");
                group.set_active(id, true);
            }
            write(&env, &group, 1, 0, 8).await.expect("a write");
            drain(&env, &group, 1).await;
            let range = SectorRange::new(chunk * base::CHUNK_SECTORS, base::CHUNK_SECTORS);
            let (lsn, term, kind) = (Lsn::new(Term(1), 2), Term(1), AppendKind::Discard);
            let (component, payload) = (ONE, env.buf(0).freeze());
            let append =
                Append { component, lsn, term, range, kind, crcs: &[], payload, marks: &[] };
            group.append(append).await.expect("a discard");
            for lsn in 1..=20 {
                write_to(&env, &group, TWO, lsn, lsn * 8, 8).await.expect("a write");
                group.advance_commit(TWO, Lsn::new(Term(1), lsn));
            }
            drain(&env, &group, 2).await;
            for lsn in 21..=40 {
                write_to(&env, &group, TWO, lsn, lsn * 8, 8).await.expect("a write");
            }
        });
        host.run(move |env| async move {
            let group = DiskGroup::open(&env, &spec(2), GroupOptions::default()).await;
            let found = group.expect("nothing is damaged").component(ONE).expect("it is there");
            assert_eq!(found.durable, Lsn::new(Term(1), 2), "{found:?}");
        });
    }
}
