// SPDX-License-Identifier: Apache-2.0
//! The gateway against a real etcd that the test starts itself.

mod support;

use control::{start_etcd, start_etcd_gateway};
use directory::{DirectoryError, Transaction, WatchEvent, conformance};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;
use support::{Folder, with_directory};

/// Two ports that are free now.
fn ports() -> (u16, u16) {
    let [a, b] = [0, 0].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    let port = |listener: &TcpListener| listener.local_addr().expect("its address").port();
    (port(&a), port(&b))
}

#[test]
fn conformance_suite_and_failures() {
    let folder = Folder::new("etcd");
    let (client_port, peer_port) = ports();
    let etcd = match start_etcd(&folder.0, client_port, peer_port) {
        Ok(etcd) => etcd,
        Err(error) => panic!("this test needs a real etcd: {error}"),
    };
    let socket = folder.0.join("socket");
    let endpoint = etcd.endpoint().to_owned();
    let gateway = start_etcd_gateway(vec![endpoint.clone()], &socket).expect("it starts");
    with_directory(&socket, |env, directory| async move {
        conformance::suite(&env, directory).await;
    });

    let data = folder.0.clone();
    with_directory(&socket, |env, directory| async move {
        directory.transact(Transaction::new().put("/a", "1")).await.expect("a transaction");
        let mut watch = directory.watch("/a");
        let WatchEvent::Reset(first) = watch.next().await else { panic!("no reset") };

        // A compaction does not disturb a watch that is up to date.
        let revision = first.revision.to_string();
        let compacted = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoint, "compact", &revision])
            .status();
        assert!(compacted.is_ok_and(|status| status.success()), "apt-get install etcd-client");
        directory.transact(Transaction::new().put("/a", "2")).await.expect("a transaction");
        let event = env.timeout(Duration::from_secs(5), watch.next()).await;
        assert!(matches!(event, Ok(WatchEvent::Put(..))), "{event:?}");

        drop(etcd);
        assert_eq!(directory.get("/a").await, Err(DirectoryError::Unavailable));
        let lost = directory.transact(Transaction::new().put("/b", "1")).await;
        assert_eq!(lost, Err(DirectoryError::Unknown), "the gateway cannot know");

        let _etcd = start_etcd(&data, client_port, peer_port).expect("it starts again");
        let event = env.timeout(Duration::from_secs(10), watch.next()).await;
        let Ok(WatchEvent::Reset(listing)) = event else { panic!("{event:?} is no reset") };
        assert_eq!(listing.entries[0].1.value, b"2", "its content survived");
    });
    gateway.stop().expect("it ends because it was stopped");
    assert!(!socket.exists(), "the socket goes with the gateway");
}
