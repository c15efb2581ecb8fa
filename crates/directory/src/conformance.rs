// SPDX-License-Identifier: Apache-2.0
//! What every directory must do. The same suite runs against the simulated directory, the embedded
//! one and etcd. Each function panics with a sentence where the directory breaks its contract.
//!
//! The directory must be free of faults and empty below [`ROOT`]; nobody else may write there.

use crate::types::{
    DirectoryError, Entry, Expect, LeaseId, Listing, OPERATIONS_MAX, Transacted, Transaction,
    VALUE_BYTES_MAX, WatchEvent,
};
use crate::{Directory, Watch};
use base::Map;
use env::{Env, join_all};
use std::time::Duration;

/// Where the suite works.
pub const ROOT: &str = "/gabion/conformance/";
/// A lease's time to live in the suite: etcd grants nothing shorter.
const TTL: Duration = Duration::from_secs(2);
/// How late a lease may end. Without an upper bound its end could not be tested at all.
const LATE_MAX: Duration = Duration::from_secs(20);
/// Clients that race for one key.
const RACERS: usize = 8;

/// Runs all parts of the suite.
pub async fn suite(env: &Env, directory: Directory) {
    let other = Directory::connect(env, directory.address().clone());
    reads(&directory).await;
    expectations(&directory).await;
    atomicity(&directory).await;
    limits(&directory).await;
    races(&directory, &other).await;
    watches(env, &directory, &other).await;
    large_values(env, &directory, &other).await;
    leases(env, &directory, &other).await;
    lease_expiry(env, &directory, &other).await;
    assert!(directory.is_connected(), "the connection is still there");
    assert_eq!(directory.malformed_frames(), 0, "every frame was a message");
}

fn key(name: &str) -> String {
    format!("{ROOT}{name}")
}

async fn apply(directory: &Directory, transaction: Transaction) -> Transacted {
    directory.transact(transaction).await.expect("a transaction is answered")
}

async fn done(directory: &Directory, transaction: Transaction) -> u64 {
    let transacted = apply(directory, transaction).await;
    assert!(transacted.succeeded, "every expectation holds");
    transacted.revision
}

async fn get(directory: &Directory, key: &str) -> Option<Entry> {
    directory.get(key).await.expect("a get is answered")
}

async fn list(directory: &Directory, prefix: &str) -> Listing {
    directory.list(prefix).await.expect("a listing is answered")
}

async fn reads(directory: &Directory) {
    assert_eq!(get(directory, &key("r/none")).await, None, "an absent key");
    let first = done(directory, Transaction::new().put(key("r/b"), "1")).await;
    let second = done(directory, Transaction::new().put(key("r/a"), vec![0, 255, 10])).await;
    assert!(second > first, "revisions rise");
    done(directory, Transaction::new().put(key("r0"), "beside the prefix")).await;
    done(directory, Transaction::new().put(key("q"), "before the prefix")).await;

    let entry = |value: &[u8], revision| Entry { value: value.to_vec(), revision };
    assert_eq!(get(directory, &key("r/b")).await, Some(entry(b"1", first)));
    let listing = list(directory, &key("r/")).await;
    let expected =
        vec![(key("r/a"), entry(&[0, 255, 10], second)), (key("r/b"), entry(b"1", first))];
    assert_eq!(listing.entries, expected, "keys with the prefix, in order");
    assert!(listing.revision > second, "a listing has the directory's revision");
    let empty = list(directory, &key("none/")).await;
    assert!(empty.entries.is_empty(), "a prefix without keys is no error");
    assert_eq!(directory.get("").await, Err(DirectoryError::Malformed));
}

async fn expectations(directory: &Directory) {
    let name = key("e");
    let attempt = |expect, value: &str| {
        let transaction = Transaction::new().expect(&*name, expect).put(&*name, value);
        apply(directory, transaction)
    };
    assert!(!attempt(Expect::Present, "x").await.succeeded, "an absent key is not present");
    assert!(!attempt(Expect::Revision(1), "x").await.succeeded, "an absent key has no revision");
    assert!(!attempt(Expect::Revision(0), "x").await.succeeded, "nor is zero its revision");
    assert_eq!(get(directory, &name).await, None, "a refused put puts nothing");
    let first = attempt(Expect::Absent, "1").await;
    assert!(first.succeeded, "an absent key is absent");
    assert!(!attempt(Expect::Absent, "x").await.succeeded, "a present key is not absent");
    let second = attempt(Expect::Revision(first.revision), "2").await;
    assert!(second.succeeded, "the revision of the last change");
    assert!(!attempt(Expect::Revision(first.revision), "x").await.succeeded, "an old revision");
    let later = attempt(Expect::Revision(second.revision + 1000), "x").await;
    assert!(!later.succeeded, "a revision that never was");
    assert!(attempt(Expect::Present, "3").await.succeeded, "a present key is present");
    assert_eq!(get(directory, &name).await.map(|e| e.value), Some(b"3".to_vec()));

    done(directory, Transaction::new().expect(&*name, Expect::Present).delete(&*name)).await;
    assert_eq!(get(directory, &name).await, None, "deleted");
    let gone = Transaction::new().expect(&*name, Expect::Absent).delete(&*name);
    done(directory, gone).await;
    let pure = Transaction::new().expect(&*name, Expect::Absent);
    done(directory, pure).await;
}

async fn atomicity(directory: &Directory) {
    let all = Transaction::new().put(key("a/1"), "1").put(key("a/2"), "1").put(key("a/3"), "1");
    let revision = done(directory, all).await;
    let listing = list(directory, &key("a/")).await;
    let revisions: Vec<u64> = listing.entries.iter().map(|(_, entry)| entry.revision).collect();
    assert_eq!(revisions, [revision; 3], "one transaction, one revision");

    let half = Transaction::new()
        .expect(key("a/1"), Expect::Revision(revision))
        .expect(key("a/none"), Expect::Present)
        .put(key("a/1"), "2")
        .put(key("a/4"), "2")
        .delete(key("a/3"));
    assert!(!apply(directory, half).await.succeeded, "one expectation of two does not hold");
    let after = list(directory, &key("a/")).await;
    assert_eq!(after.entries, listing.entries, "all or nothing: nothing");

    let full = Transaction::new()
        .expect(key("a/1"), Expect::Revision(revision))
        .expect(key("a/none"), Expect::Absent)
        .put(key("a/1"), "2")
        .put(key("a/4"), "2")
        .delete(key("a/3"));
    done(directory, full).await;
    let names: Vec<String> =
        list(directory, &key("a/")).await.entries.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [key("a/1"), key("a/2"), key("a/4")], "all or nothing: all");
}

async fn limits(directory: &Directory) {
    let twice = Transaction::new().put(key("l"), "1").delete(key("l"));
    assert_eq!(directory.transact(twice).await, Err(DirectoryError::Malformed));
    let large = Transaction::new().put(key("l"), vec![0; VALUE_BYTES_MAX + 1]);
    assert_eq!(directory.transact(large).await, Err(DirectoryError::TooLarge));
    let many = (0..OPERATIONS_MAX).fold(Transaction::new(), |transaction, index| {
        let name = key(&format!("l/{index}"));
        transaction.expect(&*name, Expect::Absent).put(&*name, "1")
    });
    done(directory, many.clone()).await;
    let listing = list(directory, &key("l/")).await;
    assert_eq!(listing.entries.len(), OPERATIONS_MAX, "as many as the limit allows");
    let more = many.put(key("l/more"), "1");
    assert_eq!(directory.transact(more).await, Err(DirectoryError::TooLarge));
}

/// Many want the same change at once: exactly one gets it, and everybody sees whose it is.
async fn races(directory: &Directory, other: &Directory) {
    let name = key("race");
    let mut revision = done(directory, Transaction::new().put(&*name, "start")).await;
    for round in 0..10 {
        let attempts = (0..RACERS).map(|racer| {
            let client = if racer.is_multiple_of(2) { directory } else { other };
            let value = format!("{round}.{racer}");
            let transaction = Transaction::new();
            let transaction = transaction.expect(&*name, Expect::Revision(revision));
            apply(client, transaction.put(&*name, value))
        });
        let results = join_all(attempts.collect()).await;
        let winners: Vec<usize> = (0..RACERS).filter(|racer| results[*racer].succeeded).collect();
        let [winner] = winners[..] else { panic!("winners of one race: {winners:?}") };
        revision = results[winner].revision;
        let value = format!("{round}.{winner}").into_bytes();
        for client in [directory, other] {
            let expected = Some(Entry { value: value.clone(), revision });
            assert_eq!(get(client, &name).await, expected, "the winner's value, linearizable");
        }
    }
}

async fn reset(watch: &mut Watch) -> Listing {
    match watch.next().await {
        WatchEvent::Reset(listing) => listing,
        other => panic!("a watch begins with the whole truth, not with {other:?}"),
    }
}

async fn watches(env: &Env, directory: &Directory, other: &Directory) {
    done(directory, Transaction::new().put(key("w/old"), "1")).await;
    let mut watch = directory.watch(&key("w/"));
    let first = reset(&mut watch).await;
    assert_eq!(first, Listing { revision: first.revision, ..list(other, &key("w/")).await });

    let put = done(other, Transaction::new().put(key("w/a"), "1")).await;
    done(other, Transaction::new().put(key("x"), "another prefix")).await;
    let again = done(other, Transaction::new().put(key("w/a"), "2")).await;
    let both = Transaction::new().put(key("w/b"), "3").delete(key("w/old"));
    let both = done(directory, both).await;
    let entry = |value: &str, revision| Entry { value: value.into(), revision };
    assert_eq!(watch.next().await, WatchEvent::Put(key("w/a"), entry("1", put)));
    assert_eq!(watch.next().await, WatchEvent::Put(key("w/a"), entry("2", again)));
    let mut last = [watch.next().await, watch.next().await];
    last.sort_by_key(|event| matches!(event, WatchEvent::Delete(..)));
    let expected =
        [WatchEvent::Put(key("w/b"), entry("3", both)), WatchEvent::Delete(key("w/old"), both)];
    assert_eq!(last, expected, "a transaction's changes, in either order");

    // A second watch of the same prefix is independent: dropping the first leaves it as it was.
    let mut second = directory.watch(&key("w/"));
    assert_eq!(reset(&mut second).await.entries.len(), 2);
    drop(watch);
    follow(env, directory, other, &mut second).await;
}

/// Many changes from two clients: the watch misses none, tells none twice, keeps their order.
async fn follow(env: &Env, directory: &Directory, other: &Directory, watch: &mut Watch) {
    let mut expected: Vec<u64> = Vec::new();
    for batch in 0..10_usize {
        let writes = (batch * 20..batch * 20 + 20).map(|index| {
            let client = if index.is_multiple_of(3) { other } else { directory };
            let name = key(&format!("w/{}", index % 5));
            done(client, Transaction::new().put(name, index.to_string()))
        });
        expected.extend(join_all(writes.collect()).await);
    }
    expected.sort_unstable();
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        match env.timeout(LATE_MAX, watch.next()).await {
            Ok(WatchEvent::Put(_, entry)) => seen.push(entry.revision),
            other => panic!("{} of {} events, then {other:?}", seen.len(), expected.len()),
        }
    }
    assert_eq!(seen, expected, "every change once, in order");
}

async fn large_values(env: &Env, directory: &Directory, other: &Directory) {
    let value = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 256 + seed) as u8).collect()
    };
    let mut expected = Map::new();
    let mut watch = other.watch(&key("v/"));
    assert!(reset(&mut watch).await.entries.is_empty());
    for (index, len) in [0, 1, 70_000, VALUE_BYTES_MAX].into_iter().enumerate() {
        let name = key(&format!("v/{index}"));
        done(directory, Transaction::new().put(&*name, value(index, len))).await;
        let found = get(other, &name).await.map(|entry| entry.value);
        assert_eq!(found.as_deref(), Some(&*value(index, len)), "{len} bytes come back");
        let told = env.timeout(LATE_MAX, watch.next()).await;
        let Ok(WatchEvent::Put(told_name, entry)) = told else { panic!("no event of {len} bytes") };
        assert_eq!((told_name, entry.value), (name.clone(), value(index, len)));
        expected.insert(name, value(index, len));
    }
    // Together more than any frame holds.
    for index in 10..22 {
        let (name, value) = (key(&format!("v/{index}")), value(index, 700_000));
        done(directory, Transaction::new().put(&*name, value.clone())).await;
        expected.insert(name, value);
    }
    let is_expected = |listing: Listing| {
        let found: Map<_, _> = listing.entries.into_iter().map(|(k, e)| (k, e.value)).collect();
        found == expected
    };
    assert!(is_expected(list(other, &key("v/")).await), "a listing of 9 MB is whole");
    let mut late = other.watch(&key("v/"));
    assert!(is_expected(reset(&mut late).await), "a reset of 9 MB is whole");
    for name in expected.into_keys() {
        done(directory, Transaction::new().delete(name)).await;
    }
}

async fn grant(directory: &Directory) -> LeaseId {
    directory.lease_grant(TTL).await.expect("a lease is granted")
}

async fn leases(env: &Env, directory: &Directory, other: &Directory) {
    let lease = grant(directory).await;
    assert_ne!(grant(other).await, lease, "each lease has its own id");
    let put = |name: &str| Transaction::new().put_leased(key(name), "1", lease);
    done(other, put("s/1")).await;
    done(directory, put("s/2")).await;
    done(directory, put("s/kept")).await;
    done(directory, Transaction::new().put(key("s/kept"), "free")).await;

    let mut watch = directory.watch(&key("s/"));
    assert_eq!(reset(&mut watch).await.entries.len(), 3);
    directory.lease_keep(lease).await.expect("a lease is kept");
    other.lease_revoke(lease).await.expect("a lease is revoked");
    let left = list(directory, &key("s/")).await.entries;
    assert_eq!(left.len(), 1, "revoking deletes exactly the keys that are bound");
    assert_eq!(left[0].0, key("s/kept"), "a key put again without lease is bound to none");
    for _ in 0..2 {
        let event = env.timeout(LATE_MAX, watch.next()).await;
        assert!(matches!(event, Ok(WatchEvent::Delete(..))), "{event:?} tells no delete");
    }
    assert_eq!(directory.lease_keep(lease).await, Err(DirectoryError::LeaseGone));
    assert_eq!(directory.lease_revoke(lease).await, Err(DirectoryError::LeaseGone));
    let late = put("s/1").put(key("s/3"), "1");
    assert_eq!(directory.transact(late).await, Err(DirectoryError::LeaseGone));
    assert_eq!(list(directory, &key("s/")).await.entries.len(), 1, "nothing was applied");
}

async fn lease_expiry(env: &Env, directory: &Directory, other: &Directory) {
    let lease = grant(directory).await;
    done(directory, Transaction::new().put_leased(key("t/1"), "1", lease)).await;
    let mut watch = other.watch(&key("t/"));
    assert_eq!(reset(&mut watch).await.entries.len(), 1);
    let mut kept_at = env.now();
    for _ in 0..4 {
        env.sleep(TTL / 2).await;
        kept_at = env.now();
        directory.lease_keep(lease).await.expect("a kept lease lives");
    }
    assert!(get(other, &key("t/1")).await.is_some(), "kept longer than its time to live");
    let event = env.timeout(TTL + LATE_MAX, watch.next()).await;
    assert!(matches!(event, Ok(WatchEvent::Delete(..))), "{event:?} tells no end of the lease");
    assert!(env.now().since(kept_at) >= TTL, "a lease ends late, never early");
    assert_eq!(get(directory, &key("t/1")).await, None, "the key vanished with its lease");
    assert_eq!(directory.lease_keep(lease).await, Err(DirectoryError::LeaseGone));
}
