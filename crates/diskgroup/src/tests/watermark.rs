// SPDX-License-Identifier: Apache-2.0
//! W, from which on a component that lost its write buffer gets a delta (rule 19): it never passes
//! what the component lacks on capacity and others have with lower lsns.

use super::scenarios::{Host, ONE, fresh_tiny, write};
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
