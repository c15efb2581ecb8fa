// SPDX-License-Identifier: Apache-2.0
//! What people write: configuration, addresses, commands, volumes.

use fuzz::{Source, bounded};
use host::{
    Affinity, HostConfig, Labels, MaintenanceMode, MemoryConfig, RepairDelay, Tuning,
    format_address, parse_address,
};
use operator::{Command, CommandReply, GroupConfig, NewVolume, PolicyRules, RateLimit};
use placement::{Candidate, HostDomains, VolumeSpec, check_name, place, place_set};

fuzz::targets! {
    config: 20_000, vec![toml::to_string(&sample()).expect("a valid configuration").into_bytes()],
        config_of;
    address: 200_000, ["unix:/run/a.sock", "tcp:10.0.0.1:7000", "tcp:[fe80::1%2]:80"]
        .map(Vec::from).into(), address_of;
    command: 60_000, commands(), command_of;
    volume_spec: 100_000, vec![b"vm-1.disk0".to_vec()], volume_spec_of;
}

fn sample() -> HostConfig {
    HostConfig {
        name: "host1".to_owned(),
        id: 1,
        machine: None,
        cluster: 1,
        peer: "tcp:10.0.0.1:7070".to_owned(),
        nbd: vec!["unix:/run/gabion/nbd.sock".to_owned()],
        nbd_socket: host::SocketConfig::default(),
        control: "unix:/run/gabion/control.sock".to_owned(),
        api: None,
        directory: "unix:/run/gabion/directory.sock".to_owned(),
        etcd: vec!["http://10.0.0.1:2379".to_owned()],
        kind: host::ClusterKind::AllFlash,
        groups: vec![GroupConfig {
            cache: "/dev/cache".to_owned(),
            capacity: vec!["/dev/capacity".to_owned()],
            kind: None,
        }],
        memory: MemoryConfig::default(),
        tuning: Tuning { io_timeout_seconds: 60, stall_ms: 2000, ..Tuning::default() },
    }
}

/// What is shown to an operator is one line, whatever was written.
pub(crate) fn one_line(error: &dyn std::error::Error) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains(char::is_control), "not one line: {text:?}");
}

fn config_of(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(config) = toml::from_str::<HostConfig>(&text) else { return };
    let written = toml::to_string(&config).expect("what was read can be written");
    assert_eq!(toml::from_str::<HostConfig>(&written).as_ref().ok(), Some(&config), "{written}");
    match config.check() {
        Err(error) => one_line(&error),
        Ok(()) => {
            assert!(directory::is_name(&config.name) && config.id > 0 && config.cluster > 0);
            for text in config.nbd.iter().chain([&config.peer, &config.control]) {
                assert!(parse_address(text).is_ok(), "{text}");
            }
        }
    }
}

fn address_of(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parsed = bounded(text.len(), || parse_address(&text));
    if let Err(error) = &parsed {
        one_line(error);
    }
    if let Ok(address) = parsed {
        let written = format_address(&address);
        assert_eq!(parse_address(&written), Ok(address), "{text} as {written}");
        // A socket's path goes to the system, which ends it at a zero.
        assert!(!written.contains('\0'), "{written:?}");
    }
}

fn commands() -> Vec<Vec<u8>> {
    let name = || "vm-1".to_owned();
    let rules = || PolicyRules {
        ftt: Some(2),
        reserve_percent: Some(7),
        cache_percent: Some(20),
        stripe_width: Some(2),
        affinity: Some(Affinity::None),
        force: Some(true),
        repair_delay: Some(RepairDelay::Seconds(90)),
        iops: Some(RateLimit::At(500)),
        bytes_per_second: Some(RateLimit::None),
    };
    let labels = || Labels::from([("env".to_owned(), "prod".to_owned())]);
    let commands = [
        Command::Status,
        Command::Metrics,
        Command::VolumeCreate(NewVolume {
            reserve_percent: 7,
            stripe_width: 2,
            policy: Some(name()),
            labels: labels(),
            on: Some("host-1".to_owned()),
            cache_percent: 20,
            ..NewVolume::new(name(), 1 << 30, 1)
        }),
        Command::VolumeSetPolicy { name: name(), policy: Some(name()) },
        Command::VolumeCache { name: name(), cache_percent: 20 },
        Command::VolumeKeep { name: name(), host: Some("host-1".to_owned()) },
        Command::VolumeLabel { name: name(), set: labels(), remove: vec!["tier".to_owned()] },
        Command::PolicyList,
        Command::PolicyCreate { name: name(), rules: rules() },
        Command::PolicyEdit { name: name(), rules: rules() },
        Command::PolicyCheck { name: name(), rules: PolicyRules::default() },
        Command::PolicyWhatIf { name: name(), volumes: vec![name()] },
        Command::PolicyDelete { name: name() },
        Command::MaintenanceEnter { host: name(), mode: MaintenanceMode::FullEvacuation },
        Command::MaintenanceCheck { host: name(), mode: None },
        Command::MaintenanceExit { host: name() },
        Command::ResyncLimit { bytes_per_second: Some(1 << 20) },
        Command::DomainList,
        Command::DomainCreate { name: name(), within: Some(name()) },
        Command::DomainAssign { hosts: vec![name(), name()], domain: Some(name()), check: true },
        Command::DomainAssign { hosts: vec![name()], domain: None, check: false },
        Command::DomainDelete { name: name() },
        Command::GroupShow { group: name() },
        Command::VolumeShow { name: name() },
        Command::VolumeExplain { name: name() },
        Command::VolumeChange { name: name(), reserve_percent: 7 },
        Command::VolumeGrow { name: name(), size_bytes: 2 << 30 },
        Command::Rebalance { on: false },
        Command::RebuildReserve { on: true },
        Command::EncryptLinks { on: true },
        Command::ClusterUpgrade { check: true },
        Command::VolumeRename { name: name(), new: "db".to_owned() },
        Command::VolumeDelete { name: name(), for_good: true },
        Command::VolumeUndelete { volume: name(), name: Some("db".to_owned()) },
        Command::VolumePurge { volume: name() },
        Command::Stop,
    ];
    commands.map(|command| serde_json::to_vec(&command).expect("a command")).into()
}

fn command_of(input: &[u8]) {
    if let Ok(command) = bounded(input.len(), || serde_json::from_slice::<Command>(input)) {
        let written = serde_json::to_vec(&command).expect("what was read can be written");
        assert!(!written.contains(&b'\n'), "a command is one line");
        let again = serde_json::from_slice::<Command>(&written);
        assert_eq!(again.ok(), Some(command));
    }
    if let Ok(reply) = serde_json::from_slice::<CommandReply>(input) {
        let written = serde_json::to_vec(&reply).expect("what was read can be written");
        assert_eq!(serde_json::from_slice::<CommandReply>(&written).ok(), Some(reply));
    }
}

fn volume_spec_of(input: &[u8]) {
    let mut from = Source::new(input);
    let (size, ftt) = (from.edge() / 512 * 512, from.u8() % 4);
    let candidates: Vec<Candidate> = (0..from.below(6))
        .map(|_| Candidate {
            shard: base::ShardId(from.u8().into()),
            group: base::GroupId(from.u64()),
            free_bytes: from.edge(),
            growth_bytes: from.edge(),
            columns: 0,
        })
        .collect();
    let domains = HostDomains::new(candidates.iter().map(|candidate| {
        let names = (0..from.below(3)).map(|_| (from.u8() % 4).to_string());
        (candidate.shard, names.collect())
    }));
    let text = String::from_utf8_lossy(from.rest());
    for name in [&*text, "vm"] {
        match VolumeSpec::new(name, size, ftt) {
            Ok(spec) => {
                assert!(check_name(name).is_ok() && spec.name() == name);
                // What may be asked for has a record.
                assert!(directory::is_name(name), "{name}");
                let count = directory::object_count(spec.size_bytes());
                assert!(count > 0 && count <= directory::OBJECTS_MAX as u64);
            }
            Err(error) => one_line(&error),
        }
    }
    for domains in [HostDomains::default(), domains] {
        if let Ok(chosen) = place(ftt, None, &candidates, &[], &domains) {
            assert_eq!(chosen.len(), usize::from(ftt) + 1);
            let mut candidates = candidates.clone();
            let wanted = (3, size);
            let set = place_set(ftt, None, &mut candidates, &[], &domains, wanted);
            assert_eq!(set.map(|set| set.len()).ok(), Some(3));
        }
    }
}
