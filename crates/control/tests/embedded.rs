// SPDX-License-Identifier: Apache-2.0
//! The embedded directory: conformance, and what a restart keeps.

mod support;

use control::{ControlError, start_embedded};
use directory::{DirectoryError, Expect, Transaction, conformance};
use std::time::Duration;
use support::{Folder, with_directory};

#[test]
fn conformance_suite() {
    let folder = Folder::new("embedded-conformance");
    let socket = folder.0.join("socket");
    let thread = start_embedded(&folder.0.join("data"), &socket).expect("it starts");
    with_directory(&socket, |env, directory| async move {
        conformance::suite(&env, directory).await;
    });
    thread.stop().expect("it ends because it was stopped");
}

#[test]
fn what_was_answered_is_there_after_a_restart() {
    let folder = Folder::new("embedded-restart");
    let (data, socket) = (folder.0.join("data"), folder.0.join("socket"));
    let thread = start_embedded(&data, &socket).expect("it starts");
    let (lease, revision) = with_directory(&socket, |_, directory| async move {
        let lease = directory.lease_grant(Duration::from_secs(2)).await.expect("a lease");
        let bound = Transaction::new().put("/kept", "1").put_leased("/bound", "2", lease);
        let revision = directory.transact(bound).await.expect("a transaction").revision;
        let dropped = Transaction::new().put("/dropped", "3");
        directory.transact(dropped).await.expect("a transaction");
        directory.transact(Transaction::new().delete("/dropped")).await.expect("a transaction");
        (lease, revision)
    });
    thread.stop().expect("it ends because it was stopped");
    assert!(!socket.exists(), "the socket goes with the directory");

    let thread = start_embedded(&data, &socket).expect("it starts again");
    with_directory(&socket, move |env, directory| async move {
        let started = env.now();
        let listing = directory.list("/").await.expect("a listing");
        let found: Vec<_> =
            listing.entries.iter().map(|(key, entry)| (key.as_str(), entry.revision)).collect();
        assert_eq!(found, [("/bound", revision), ("/kept", revision)]);
        assert_eq!(listing.revision, revision + 2, "revisions go on");
        let same = Transaction::new().expect("/kept", Expect::Revision(revision));
        assert!(directory.transact(same).await.expect("a transaction").succeeded);
        // The lease lives, has its full time again, and then ends.
        directory.lease_keep(lease).await.expect("the lease is still there");
        while directory.get("/bound").await.expect("a get").is_some() {
            env.sleep(Duration::from_millis(50)).await;
        }
        assert!(env.now().since(started) >= Duration::from_secs(2), "never early");
        assert_eq!(directory.lease_keep(lease).await, Err(DirectoryError::LeaseGone));
    });
    thread.stop().expect("it ends because it was stopped");
}

#[test]
fn a_client_outlives_its_directory() {
    let folder = Folder::new("embedded-outlive");
    let (data, socket) = (folder.0.join("data"), folder.0.join("socket"));
    let thread = start_embedded(&data, &socket).expect("it starts");
    let path = socket.clone();
    with_directory(&socket, |env, directory| async move {
        directory.transact(Transaction::new().put("/a", "1")).await.expect("a transaction");
        let mut watch = directory.watch("/");
        watch.next().await;
        thread.stop().expect("it ends because it was stopped");
        let absent = directory.get("/a").await;
        assert_eq!(absent, Err(DirectoryError::Unavailable), "within the time of a call");
        let unsent = directory.transact(Transaction::new().put("/b", "1")).await;
        assert_eq!(unsent, Err(DirectoryError::Unavailable), "it was never sent");

        let thread = start_embedded(&data, &path).expect("it starts again");
        let event = env.timeout(Duration::from_secs(5), watch.next()).await.expect("a reset");
        let directory::WatchEvent::Reset(listing) = event else { panic!("{event:?} is no reset") };
        assert_eq!(listing.entries.len(), 1, "what was refused was not applied");
        drop(thread);
    });
}

#[test]
fn two_directories_never_share_a_file_and_rubbish_is_refused() {
    let folder = Folder::new("embedded-refused");
    let data = folder.0.join("data");
    let first = start_embedded(&data, &folder.0.join("a")).expect("it starts");
    let second = start_embedded(&data, &folder.0.join("b"));
    assert!(matches!(second, Err(ControlError::Storage { .. })), "one file, one directory");
    let third = start_embedded(&folder.0.join("other"), &folder.0.join("a"));
    assert!(matches!(third, Err(ControlError::Listen { .. })), "one socket, one directory");
    assert!(first.is_running());
    let rubbish = folder.0.join("rubbish");
    std::fs::write(&rubbish, vec![7; 100_000]).expect("a file");
    let fourth = start_embedded(&rubbish, &folder.0.join("c"));
    assert!(matches!(fourth, Err(ControlError::Storage { .. })), "not a directory's file");
}
