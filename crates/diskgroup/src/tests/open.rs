// SPDX-License-Identifier: Apache-2.0
//! Whose effect the tail is: what the next owner has to know to undo it (rule 46).

use super::scenarios::{Host, fresh_tiny, open};
use super::*;

const TAIL: Lsn = Lsn(1 << 40 | 1);

/// Fills a small log until the segment of the tail's entry was needed for something else, and
/// returns what a restarted group says of the tail.
fn moved(mutations: Mutations) -> Vec<(SectorRange, Lsn, RequestId)> {
    let host = Host::new(9);
    let found = Rc::new(RefCell::new(Vec::new()));
    let place = Rc::clone(&found);
    host.run(move |env| async move {
        let (kept, other) = (ComponentId(1), ComponentId(2));
        let group = fresh_tiny(&env, mutations, &[kept, other]).await;
        let request = RequestId { client: ShardId(3), run: Incarnation(1), slot: 0, count: 1 };
        let append = |component, lsn, range: SectorRange, marks: &[Mark]| {
            let payload = payload(&env, range, 7);
            let crcs = wire::crcs_of(range, &payload);
            let (term, kind) = (Term(1), AppendKind::Data);
            let crcs = &crcs;
            let append = Append { component, lsn, term, range, kind, crcs, payload, marks };
            group.append(append)
        };
        let tail = SectorRange::new(4, 8); // parts of two blocks
        append(kept, TAIL, tail, &[Mark::Done(request)]).await.expect("the tail");
        for lsn in 1..=400 {
            let lsn = Lsn::new(Term(1), lsn);
            append(other, lsn, SectorRange::new(lsn.0 % 16 * 64, 64), &[]).await.expect("a write");
            group.advance_commit(other, lsn);
        }
        assert!(group.status().moved_entries > 0, "the tail's segment was never freed");
        env.sleep(Duration::from_secs(10)).await;
        group.close().await;
        drop(group);
        let group = open(&env).await.expect("again");
        assert_eq!(group.tail(kept).len(), 1);
        *place.borrow_mut() = group.open_requests(kept);
    });
    found.take()
}

#[test]
fn a_tail_that_was_moved_still_says_whose_effect_it_is() {
    let open = moved(Mutations::default());
    let [(range, lsn, request)] = open.as_slice() else { panic!("{open:?}") };
    assert_eq!((range.start, range.count, *lsn, request.count), (4, 8, TAIL, 1));
    assert!(moved(Mutations { forget_open: true, ..Mutations::default() }).is_empty());
}
