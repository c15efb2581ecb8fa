// SPDX-License-Identifier: Apache-2.0
//! A host is told how much memory it may have: what does not fit is refused, what is held is shown.

use crate::config::group_spec;
use crate::simulated::{address, with_directory};
use crate::{
    HostConfig, MachineMemory, MemoryConfig, Node, NodeOptions, SocketConfig, StartError, Tuning,
    call, format_address, found,
};
use base::GroupId;
use directory::ClusterKind;
use diskgroup::{CreateSizes, DiskGroup};
use env::{Address, Env};
use operator::{Command, CommandReply, GroupConfig, MemoryReport, MemoryUse, StatusReport};

const CLUSTER: u64 = 7;
const SIZES: CreateSizes = CreateSizes { cache: 64 << 20, capacity: 64 << 20 };
const MIB: u64 = 1 << 20;

fn group(name: &str) -> GroupConfig {
    GroupConfig {
        cache: format!("{name}-cache"),
        capacity: vec![format!("{name}-capacity")],
        kind: None,
    }
}

/// Room for the tables of one group of this size, and not for those of two.
fn tight() -> MemoryConfig {
    MemoryConfig {
        total_bytes: Some(256 * MIB),
        checksum_bytes: Some(104 * MIB),
        write_bytes: Some(8 * MIB),
        ..MemoryConfig::default()
    }
}

/// Of the first or second run: addresses of a run that has just ended are not free yet.
fn config(run: u16, groups: &[&str], memory: MemoryConfig) -> HostConfig {
    HostConfig {
        name: "host1".to_owned(),
        id: 1,
        machine: None,
        cluster: CLUSTER,
        peer: format!("tcp:10.0.0.2:{}", 7000 + run),
        nbd: Vec::new(),
        nbd_socket: SocketConfig::default(),
        control: format!("unix:{}", control(run)),
        api: None,
        directory: format_address(&address()),
        etcd: Vec::new(),
        kind: ClusterKind::AllFlash,
        groups: groups.iter().map(|name| group(name)).collect(),
        memory,
        tuning: Tuning::default(),
    }
}

async fn start(env: &Env, config: &HostConfig, bytes: u64) -> Result<Node, StartError> {
    let memory = MachineMemory { bytes, ..MachineMemory::default() };
    Node::start(env, config, NodeOptions { memory, ..NodeOptions::default() }).await
}

async fn make(env: &Env, name: &str, id: u64) {
    let spec = group_spec(&group(name));
    let made = DiskGroup::format(env, &spec, Some(SIZES), false, GroupId(id)).await;
    made.expect("new files");
}

fn control(run: u16) -> String {
    format!("/control{run}.sock")
}

async fn ask(env: &Env, run: u16, command: Command) -> CommandReply {
    let link = env.dial(Address::Unix(control(run))).await.expect("a door");
    call(env, &link, &command).await.expect("an answer")
}

async fn status(env: &Env, run: u16) -> StatusReport {
    let CommandReply::Ok(value) = ask(env, run, Command::Status).await else { panic!("no status") };
    serde_json::from_value(value).expect("a status")
}

fn part(report: &MemoryReport, name: MemoryUse) -> (u64, Option<u64>) {
    let part = report.parts.iter().find(|part| part.name == name).expect("it is told of");
    (part.budget_bytes, part.used_bytes)
}

async fn create(env: &Env, run: u16, name: &str) -> Result<(), String> {
    let GroupConfig { cache, capacity, .. } = group(name);
    let (create_bytes, wipe, ignore_device_kind) = (Some(SIZES.cache), false, true);
    let command = Command::GroupCreate {
        cache,
        capacity,
        kind: None,
        create_bytes,
        wipe,
        ignore_device_kind,
    };
    match ask(env, run, command).await {
        CommandReply::Ok(_) => Ok(()),
        CommandReply::Error(failure) => Err(failure.message),
    }
}

#[test]
fn a_group_that_does_not_fit_is_refused_by_the_command_and_at_start() {
    with_directory(|env, directory| async move {
        found(&env, address(), CLUSTER, ClusterKind::AllFlash).await.expect("an empty directory");
        drop(directory);
        make(&env, "a", 1).await;
        let node = start(&env, &config(1, &["a"], tight()), 4096 * MIB).await.expect("it fits");
        let report = status(&env, 1).await.memory.remove(0);
        assert_eq!(report.parts.iter().map(|part| part.budget_bytes).sum::<u64>(), 256 * MIB);
        assert_eq!((report.total_bytes, report.machine_bytes), (256 * MIB, 4096 * MIB));
        assert_eq!(part(&report, MemoryUse::ChecksumPages), (104 * MIB, Some(0)));
        assert_eq!(part(&report, MemoryUse::Traffic), (48 * MIB, Some(0)));
        let (budget, used) = part(&report, MemoryUse::WriteBuffers);
        assert!(used.is_some_and(|used| used > 0 && used <= budget), "{used:?} of {budget}");
        let (left, _) = part(&report, MemoryUse::Left);

        let refused = create(&env, 1, "b").await.expect_err("there is no room for a second one");
        let is_plain = refused.contains("of memory for its tables")
            && refused.contains("memory.total_bytes")
            && !refused.contains('\n');
        assert!(is_plain, "{refused}");
        let report = status(&env, 1).await;
        assert_eq!(report.groups.len(), 1);
        assert_eq!(part(&report.memory[0], MemoryUse::Left).0, left, "nothing was taken");
        node.stop().await;

        // The same at start: whoever changed the file hears of it at once.
        make(&env, "b", 2).await;
        let both = ["a", "b"];
        let refused = start(&env, &config(2, &both, tight()), 4096 * MIB).await.err();
        let refused = refused.expect("there is no room for two").to_string();
        assert!(refused.contains("memory.total_bytes in host.toml"), "{refused}");
        let more = MemoryConfig { total_bytes: Some(512 * MIB), ..tight() };
        let refused = start(&env, &config(2, &both, more.clone()), 256 * MIB).await.err();
        let refused = refused.expect("the machine has less").to_string();
        assert!(refused.contains("512MiB") && refused.contains("256MiB"), "{refused}");
        let node = start(&env, &config(2, &both, more), 4096 * MIB).await.expect("it fits");
        assert_eq!(status(&env, 2).await.groups.len(), 2);
        let shown = status(&env, 2).await.memory.remove(0);
        assert_eq!(shown.parts.iter().map(|part| part.budget_bytes).sum::<u64>(), 512 * MIB);
        create(&env, 2, "c").await.expect("there is room by now");
        node.stop().await;
    });
}
