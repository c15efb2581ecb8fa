// SPDX-License-Identifier: Apache-2.0

use super::*;
use base::Rng;

fn new() -> Store {
    Store::restore(Snapshot::default(), Instant(0))
}

fn apply(store: &mut Store, transaction: Transaction) -> Transacted {
    let (transacted, batch) = store.prepare(transaction).unwrap();
    store.commit(batch, Instant(0));
    transacted
}

fn grant(store: &mut Store, id: u64, ttl_ms: u64, now: Instant) -> LeaseId {
    let batch = store.prepare_grant(LeaseId(id), Duration::from_millis(ttl_ms)).unwrap();
    store.commit(batch, now);
    LeaseId(id)
}

/// Random transactions against a plain map; a watch that follows must arrive at the same content.
#[test]
fn a_watch_that_follows_sees_what_a_listing_shows() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut store = new();
        let mut oracle: Map<String, (Vec<u8>, u64)> = Map::new();
        let (mut mirror, mut seen) = (Map::<String, Entry>::new(), 0);
        for step in 0..200_u64 {
            let key = || format!("/k/{}", step % 7);
            let mut pick = || format!("/k/{}", rng.below(7));
            let (a, b) = (pick(), pick());
            let expect = match rng.below(3) {
                0 => Expect::Absent,
                1 => Expect::Present,
                _ => Expect::Revision(oracle.get(&a).map_or(1, |(_, r)| r + rng.below(2))),
            };
            let mut transaction =
                Transaction::new().expect(&*a, expect).put(&*a, step.to_le_bytes());
            if a != b {
                transaction = transaction.delete(&*b);
            }
            let holds = match expect {
                Expect::Absent => !oracle.contains_key(&a),
                Expect::Present => oracle.contains_key(&a),
                Expect::Revision(r) => oracle.get(&a).is_some_and(|(_, at)| *at == r),
            };
            let transacted = apply(&mut store, transaction);
            assert_eq!(transacted.succeeded, holds);
            if holds {
                if a != b {
                    oracle.remove(&b);
                }
                oracle.insert(a, (step.to_le_bytes().to_vec(), transacted.revision));
            }
            assert_eq!(store.get(&key()).map(|e| e.revision), oracle.get(&key()).map(|e| e.1));
            if rng.chance_ppm(20_000) {
                store.compact(0);
            }
            if rng.chance_ppm(200_000) {
                follow(&store, &mut mirror, &mut seen);
            }
        }
        follow(&store, &mut mirror, &mut seen);
        let listed: Map<_, _> = store.list("/k/").entries.into_iter().collect();
        assert_eq!(mirror, listed, "seed {seed}");
        assert_eq!(listed.len(), oracle.len());
    }
}

fn follow(store: &Store, mirror: &mut Map<String, Entry>, seen: &mut u64) {
    match store.changes_since("/k/", *seen) {
        None => *mirror = store.list("/k/").entries.into_iter().collect(),
        Some(events) => {
            for event in events {
                match event {
                    WatchEvent::Put(key, entry) => drop(mirror.insert(key, entry)),
                    WatchEvent::Delete(key, _) => drop(mirror.remove(&key)),
                    WatchEvent::Reset(_) => unreachable!("the history has none"),
                }
            }
        }
    }
    *seen = store.revision();
}

/// Rule 50.
#[test]
fn leases_end_late_or_on_time_and_take_their_keys_along() {
    let mut store = new();
    let at = |ms: u64| Instant(ms * 1_000_000);
    let lease = grant(&mut store, 7, 1000, at(0));
    let bound = Transaction::new().put_leased("/a", "1", lease).put_leased("/b", "2", lease);
    apply(&mut store, bound);
    apply(&mut store, Transaction::new().put("/b", "3")); // bound to none any more
    store.keep(lease, at(900), Duration::ZERO).unwrap();
    assert_eq!(store.expired(at(1899)), None);
    assert_eq!(store.next_expiry(), Some(at(1900)));
    assert_eq!(store.expired(at(1900)), Some(lease));
    let batch = store.prepare_end(lease).unwrap();
    store.commit(batch, at(1900));
    assert_eq!(store.get("/a"), None);
    assert_eq!(store.get("/b").unwrap().value, b"3");
    assert_eq!(store.keep(lease, at(1900), Duration::ZERO), Err(DirectoryError::LeaseGone));
    let late = Transaction::new().put_leased("/c", "1", lease);
    assert_eq!(store.prepare(late), Err(DirectoryError::LeaseGone));
    let lost = Transaction::new().expect("/c", Expect::Present).put_leased("/c", "1", lease);
    assert!(store.prepare(lost).is_ok(), "a lost race is no matter of leases");
}

#[test]
fn a_restart_keeps_keys_and_gives_leases_their_full_time() {
    let mut store = new();
    let lease = grant(&mut store, 7, 1000, Instant(0));
    let puts = Transaction::new().put_leased("/a", "1", lease).put("/b", "2");
    apply(&mut store, puts);
    let snapshot = store.snapshot();
    let now = Instant(50_000_000_000);
    let store = Store::restore(snapshot.clone(), now);
    assert_eq!(store.snapshot(), snapshot);
    assert_eq!(store.next_expiry(), Some(now + Duration::from_secs(1)));
    assert_eq!(store.changes_since("/", 0), None, "the history is gone");
    assert_eq!(store.changes_since("/", store.revision()), Some(vec![]));
    let end = store.prepare_end(lease).unwrap();
    assert_eq!(end.changes, vec![Change::Delete { key: "/a".to_owned() }]);
}

#[test]
fn nothing_beyond_the_limits_is_prepared() {
    let store = new();
    let refused = |transaction, error| assert_eq!(store.prepare(transaction), Err(error));
    let twice = Transaction::new().put("/a", "1").delete("/a");
    refused(twice, DirectoryError::Malformed);
    refused(Transaction::new().put("", "1"), DirectoryError::Malformed);
    let large = vec![0; crate::VALUE_BYTES_MAX + 1];
    refused(Transaction::new().put("/a", large), DirectoryError::TooLarge);
    let long = "k".repeat(crate::KEY_BYTES_MAX + 1);
    refused(Transaction::new().delete(long), DirectoryError::TooLarge);
    let many = 0..=crate::OPERATIONS_MAX;
    let many = many.fold(Transaction::new(), |t, i| t.delete(format!("/{i}")));
    refused(many, DirectoryError::TooLarge);
    let zero = store.prepare_grant(LeaseId(1), Duration::ZERO);
    assert_eq!(zero, Err(DirectoryError::Malformed));
}

#[test]
fn what_changes_nothing_is_an_empty_batch() {
    let mut store = new();
    let lease = grant(&mut store, 7, 1000, Instant(0));
    let is_empty = |transaction| store.prepare(transaction).unwrap().1.is_empty();
    assert!(is_empty(Transaction::new().delete("/a")), "there is no such key");
    assert!(is_empty(Transaction::new().expect("/a", Expect::Present).put("/a", "1")));
    assert!(!is_empty(Transaction::new().put("/a", "1")));
    assert!(!store.prepare_end(lease).unwrap().is_empty(), "it has no keys, and it ends");
}
