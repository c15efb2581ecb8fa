// SPDX-License-Identifier: Apache-2.0
//! What clients do is counted, and told of by the host that they do it through.

use crate::config::group_spec;
use crate::simulated::{address, with_directory};
use crate::{
    HostConfig, MachineMemory, MemoryConfig, Node, NodeOptions, SocketConfig, Tuning, call,
    format_address, found,
};
use base::GroupId;
use directory::ClusterKind;
use diskgroup::{CreateSizes, DiskGroup};
use env::{Address, Env};
use operator::{
    Command, CommandReply, GroupConfig, Health, MetricsReport, NewVolume, OperationKind,
    OperationReport, VolumeTally,
};
use volume::Device;

const CLUSTER: u64 = 7;
const MIB: u64 = 1 << 20;
/// A device of 4 GiB has more than a few components.
const SIZES: CreateSizes = CreateSizes { cache: 64 * MIB, capacity: 4096 * MIB };
const CONTROL: &str = "/control.sock";

fn config() -> HostConfig {
    let group = GroupConfig {
        cache: "cache".to_owned(),
        capacity: vec!["capacity".to_owned()],
        kind: None,
    };
    HostConfig {
        name: "host1".to_owned(),
        id: 1,
        machine: None,
        cluster: CLUSTER,
        peer: "tcp:10.0.0.2:7001".to_owned(),
        nbd: Vec::new(),
        nbd_socket: SocketConfig::default(),
        control: format!("unix:{CONTROL}"),
        api: None,
        directory: format_address(&address()),
        etcd: Vec::new(),
        kind: ClusterKind::AllFlash,
        groups: vec![group],
        memory: MemoryConfig::default(),
        tuning: Tuning::default(),
    }
}

async fn start(env: &Env) -> Node {
    found(env, address(), CLUSTER, ClusterKind::AllFlash).await.expect("an empty directory");
    let config = config();
    let spec = group_spec(&config.groups[0]);
    DiskGroup::format(env, &spec, Some(SIZES), false, GroupId(1)).await.expect("new files");
    let memory = MachineMemory { bytes: 4096 * MIB, ..MachineMemory::default() };
    let options = NodeOptions { memory, ..NodeOptions::default() };
    Node::start(env, &config, options).await.expect("a host")
}

async fn ask(env: &Env, command: Command) -> serde_json::Value {
    let link = env.dial(Address::Unix(CONTROL.to_owned())).await.expect("a door");
    match call(env, &link, &command).await.expect("an answer") {
        CommandReply::Ok(value) => value,
        CommandReply::Error(failure) => panic!("{command:?}: {}", failure.message),
    }
}

async fn metrics(env: &Env) -> MetricsReport {
    serde_json::from_value(ask(env, Command::Metrics).await).expect("a report")
}

/// Requests, failed ones of them, and bytes.
fn counts(all: &[OperationReport], operation: OperationKind) -> Option<(u64, u64, u64)> {
    let one = all.iter().find(|one| one.operation == operation)?;
    Some((one.latencies.iter().sum(), one.failed, one.bytes))
}

#[test]
fn what_clients_do_is_counted_and_stays_when_they_leave() {
    with_directory(|env, directory| async move {
        drop(directory);
        let node = start(&env).await;
        for name in ["db", "other"] {
            let volume = NewVolume::new(name.to_owned(), 64 * MIB, 0);
            ask(&env, Command::VolumeCreate(volume)).await;
        }
        let before = metrics(&env).await;
        assert_eq!(before.volumes, VolumeTally { green: 2, ..VolumeTally::default() });
        assert!(before.traffic.is_empty(), "nobody was there");
        assert_eq!(before.all_traffic.len(), 5, "all begin at zero");
        assert_eq!(counts(&before.all_traffic, OperationKind::Discard), Some((0, 0, 0)));
        assert_eq!(before.status.health, Health::Green);

        let device = node.exports().attach("db").expect("a volume");
        let came = metrics(&env).await.traffic.remove(0);
        assert_eq!(counts(&came.operations, OperationKind::Write), Some((0, 0, 0)));
        assert_eq!(counts(&came.operations, OperationKind::Discard), None, "it is rare");
        let data = |bytes: usize| env.buf(bytes).freeze();
        device.write(0, data(8192)).await.expect("written");
        device.write(MIB, data(4096)).await.expect("written");
        device.read(0, 4096).await.expect("read");
        device.discard(0, MIB).await.expect("discarded");
        device.write_zeroes(0, 512).await.expect("zeroed");
        device.flush().await.expect("flushed");
        device.write(64 * MIB, data(512)).await.expect_err("there is nothing");

        let during = metrics(&env).await;
        assert_eq!((during.traffic.len(), during.left_out), (1, 0));
        let db = &during.traffic[0];
        assert_eq!((db.volume.as_str(), db.clients), ("db", 1));
        assert_eq!(counts(&db.operations, OperationKind::Write), Some((3, 1, 8192 + 4096)));
        assert_eq!(counts(&db.operations, OperationKind::Read), Some((1, 0, 4096)));
        assert_eq!(counts(&db.operations, OperationKind::Discard), Some((1, 0, MIB)));
        assert_eq!(counts(&db.operations, OperationKind::Zero), Some((1, 0, 512)));
        assert_eq!(counts(&db.operations, OperationKind::Flush), Some((1, 0, 0)));
        assert_eq!(during.all_traffic, db.operations);
        assert!(db.operations[1].took_us > 0, "it is durable, which takes time");
        let owned: Vec<_> = during.owned.iter().map(|one| (&*one.volume, one.health)).collect();
        assert_eq!(owned, [("db", Health::Green)], "who uses it owns it");

        drop(device);
        let after = metrics(&env).await;
        assert_eq!(after.traffic[0].clients, 0);
        assert_eq!(after.traffic[0].operations, during.traffic[0].operations);
        let again = node.exports().attach("db").expect("a volume");
        again.read(0, 512).await.expect("read");
        let again = metrics(&env).await;
        assert_eq!(
            counts(&again.traffic[0].operations, OperationKind::Read),
            Some((2, 0, 4096 + 512))
        );

        ask(&env, Command::VolumeDelete { name: "other".to_owned(), for_good: false }).await;
        let deleted = metrics(&env).await.volumes;
        assert_eq!(deleted, VolumeTally { green: 1, deleted: 1, ..VolumeTally::default() });
        node.stop().await;
    });
}

/// Also where they are more than are looked at in one turn.
#[test]
fn each_volume_is_counted_once() {
    with_directory(|env, directory| async move {
        drop(directory);
        let node = start(&env).await;
        let many = super::LOOK_MAX + 44;
        for number in 0..many {
            let volume = NewVolume::new(format!("v{number}"), MIB, 0);
            ask(&env, Command::VolumeCreate(volume)).await;
        }
        let green = metrics(&env).await.volumes.green;
        assert_eq!(green, u64::try_from(many).expect("a number"));
        node.stop().await;
    });
}

#[test]
fn a_list_that_is_full_says_how_many_it_lacks() {
    let mut list = Vec::new();
    let left_out: u64 = (0..super::VOLUMES_MAX + 7).map(|one| super::keep(&mut list, one)).sum();
    assert_eq!((list.len(), left_out), (super::VOLUMES_MAX, 7));
}
