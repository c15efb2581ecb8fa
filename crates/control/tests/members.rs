// SPDX-License-Identifier: Apache-2.0
//! A directory that hosts run together, with a real etcd for each member: it grows, moves, survives
//! a restart of everything, and goes on alone.

mod support;

use base::ShardId;
use control::{
    ControlError, DirectoryThread, Endpoints, MemberFile, MemberReport, MemberRole,
    begin_directory, go_on_alone, keep_member, members, start_etcd_gateway,
};
use directory::{Directory, ShardRecord, Transaction, host_key};
use keys::Authority;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::{Folder, with_directory};

/// Etcd's own times are seconds, and other tests run beside this one.
const PATIENCE: Duration = Duration::from_secs(180);

/// Hosts with an address each on the loopback interface.
struct Hosts {
    folder: Folder,
    net: u8,
    /// Whether the directory wants to know who asks.
    is_encrypted: bool,
}

impl Hosts {
    fn new(name: &str, net: u8, is_encrypted: bool) -> Self {
        let folder = Folder::new(name);
        if is_encrypted {
            Authority::create(&folder.0).expect("an authority");
        }
        Self { folder, net, is_encrypted }
    }

    fn path(&self, number: u8) -> PathBuf {
        MemberFile::beside(&self.folder.0.join("host.toml"), &format!("host{number}"))
    }

    fn fresh(&self, number: u8) -> MemberFile {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        // Tests of several processes at once do not meet: the process id is in the address.
        let address = Ipv4Addr::new(127, self.net + (high & 15), low, number);
        let data = self.folder.0.join(format!("data{number}"));
        let name = format!("host{number}");
        let mut file = MemberFile::new(&name, IpAddr::V4(address), control::PORT_DEFAULT, &data);
        file.move_after_s = 3;
        if self.is_encrypted { file.encrypted(&self.folder.0) } else { file }
    }

    fn file(&self, number: u8) -> MemberFile {
        MemberFile::read(&self.path(number)).expect("its file")
    }

    /// Starts the part of a host that knows where the directory of `of` is.
    fn join(&self, number: u8, of: u8) -> DirectoryThread {
        let file = self.fresh(number).with_endpoints(self.file(of).state.endpoints);
        file.write(&self.path(number)).expect("written");
        self.start(number)
    }

    fn start(&self, number: u8) -> DirectoryThread {
        keep_member(&self.path(number)).expect("it starts")
    }

    /// Does something with the directory, as a shard of this host.
    fn with<T: 'static>(&self, number: u8, what: impl AsyncFnOnce(Directory) -> T + 'static) -> T {
        let socket = self.folder.0.join(format!("socket{number}"));
        let endpoints =
            Endpoints { file: Some(self.path(number)), ..self.file(number).endpoints() };
        let gateway = start_etcd_gateway(endpoints, &socket).expect("it starts");
        let result = with_directory(&socket, |_, directory| what(directory));
        gateway.stop().expect("it ends because it was stopped");
        result
    }

    /// Lets the cluster have these hosts, whether they run or not.
    fn record(&self, numbers: std::ops::RangeInclusive<u8>) {
        self.with(1, async move |directory| {
            for number in numbers {
                let record = ShardRecord {
                    id: ShardId(number.into()),
                    name: format!("host{number}"),
                    peer_address: "unix:/peer".to_owned(),
                    nbd_uri: String::new(),
                    groups: Vec::new(),
                    machine: None,
                };
                put(&directory, &host_key(record.id), record.encode()).await;
            }
        });
    }

    /// Waits until the directory, asked through a host, has voters on these hosts and no others.
    fn wait_for_voters(&self, through: u8, wanted: &[u8]) -> Vec<MemberReport> {
        let wanted: Vec<String> = wanted.iter().map(|number| format!("host{number}")).collect();
        let begun = Instant::now();
        loop {
            let all = members(&self.file(through).endpoints(), Duration::ZERO).unwrap_or_default();
            let is_voter = |it: &&MemberReport| it.role != MemberRole::Learner;
            let mut voters: Vec<_> =
                all.iter().filter(is_voter).map(|it| it.host.clone()).collect();
            voters.sort();
            let has_leader = all.iter().any(|it| it.role == MemberRole::Leader);
            if voters == wanted && voters.len() == all.len() && has_leader {
                return all;
            }
            assert!(begun.elapsed() < PATIENCE, "{wanted:?} are wanted, there are {all:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Puts a value, however long the directory takes.
async fn put(directory: &Directory, key: &str, value: impl Into<Vec<u8>>) {
    let (begun, value) = (Instant::now(), value.into());
    while directory.transact(Transaction::new().put(key, value.clone())).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "{key} cannot be written");
    }
}

async fn get(directory: &Directory, key: &str) -> Option<Vec<u8>> {
    let begun = Instant::now();
    loop {
        match directory.get(key).await {
            Ok(entry) => return entry.map(|entry| entry.value),
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{key} cannot be read: {error}"),
        }
    }
}

#[test]
fn members_grow_move_restart_and_go_on_alone() {
    grow_move_restart_and_go_on_alone(&Hosts::new("members", 16, true));
}

/// In a cluster that was made by an earlier release.
#[test]
fn members_that_answer_anybody_grow_move_restart_and_go_on_alone() {
    grow_move_restart_and_go_on_alone(&Hosts::new("open", 48, false));
}

/// Members that want to know who asks say nothing to whoever has no proof, or another cluster's.
#[test]
fn a_stranger_gets_no_answer() {
    let hosts = Hosts::new("strangers", 80, true);
    let (file, process) = begin_directory(&hosts.fresh(1)).expect("this test needs a real etcd");
    let asks = |endpoints: &Endpoints| members(endpoints, Duration::ZERO);
    let ours = file.endpoints();
    assert_eq!(asks(&ours).expect("an answer").len(), 1);
    let other = hosts.folder.0.join("other");
    std::fs::create_dir_all(&other).expect("a folder");
    Authority::create(&other).expect("an authority");
    let of_another = Endpoints { keys: Some(other), ..ours.clone() };
    assert!(matches!(asks(&of_another), Err(ControlError::Silent { .. })), "another cluster's");
    let none = Endpoints { keys: None, ..ours.clone() };
    assert!(matches!(asks(&none), Err(ControlError::NoKeys { .. })), "nothing to prove it with");
    let plain = ours.urls.iter().map(|url| url.replace("https", "http")).collect::<Vec<_>>();
    assert!(matches!(asks(&plain.into()), Err(ControlError::Silent { .. })), "in plain text");
    drop(process);
}

fn grow_move_restart_and_go_on_alone(hosts: &Hosts) {
    let (file, process) = begin_directory(&hosts.fresh(1)).expect("this test needs a real etcd");
    file.write(&hosts.path(1)).expect("written");
    drop(process);
    assert!(begin_directory(&file).is_err(), "there is a directory already");

    let one = hosts.start(1);
    hosts.record(1..=4);
    let (two, three) = (hosts.join(2, 1), hosts.join(3, 1));
    hosts.wait_for_voters(1, &[1, 2, 3]);
    hosts.with(2, async |directory| put(&directory, "/kept", "1").await);

    // A host that is lost loses its place, and does not get it back by coming back.
    let four = hosts.join(4, 1);
    drop(two);
    hosts.wait_for_voters(1, &[1, 3, 4]);
    let two = hosts.start(2);
    let kept = hosts.with(2, async |directory| get(&directory, "/kept").await);
    assert_eq!(kept.as_deref(), Some(b"1".as_slice()), "through a host without a member");
    hosts.wait_for_voters(2, &[1, 3, 4]);
    let begun = Instant::now();
    while hosts.file(2).member().is_some() {
        assert!(begun.elapsed() < PATIENCE, "host2 takes itself for a member");
        std::thread::sleep(Duration::from_millis(100));
    }

    // All hosts start again, and those that were members still are.
    drop((one, two, three, four));
    let all: Vec<_> = (1..=4).map(|number| hosts.start(number)).collect();
    hosts.wait_for_voters(2, &[1, 3, 4]);
    let kept = hosts.with(4, async |directory| get(&directory, "/kept").await);
    assert_eq!(kept.as_deref(), Some(b"1".as_slice()));

    // Two of three are gone for good. The third goes on by an operator's word; the others, when
    // they are back all the same, are no members by what they have.
    drop(all);
    let one = hosts.start(1);
    assert!(go_on_alone(&hosts.file(1)).expect("told"), "it has the directory");
    hosts.wait_for_voters(1, &[1]);
    hosts.with(1, async |directory| put(&directory, "/kept", "2").await);
    let others: Vec<_> = (3..=4).map(|number| hosts.start(number)).collect();
    hosts.wait_for_voters(3, &[1, 3, 4]);
    let kept = hosts.with(3, async |directory| get(&directory, "/kept").await);
    assert_eq!(kept.as_deref(), Some(b"2".as_slice()));

    // One loses what it had. It does not come back as if it had it, and gets it anew.
    let mut others = others.into_iter();
    let three = others.next();
    drop(others);
    let lost = hosts.file(4).member().expect("a member");
    let folder = hosts.fresh(4).data.join(format!("etcd-{lost:x}"));
    std::fs::remove_dir_all(folder).expect("removed");
    let four = hosts.start(4);
    let begun = Instant::now();
    while hosts.file(4).member() == Some(lost) {
        assert!(begun.elapsed() < PATIENCE, "host4 takes itself for the member that it was");
        std::thread::sleep(Duration::from_millis(100));
    }
    hosts.wait_for_voters(1, &[1, 3, 4]);
    drop((one, three, four));
}
