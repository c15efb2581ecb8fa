// SPDX-License-Identifier: Apache-2.0

use super::*;
use base::CHUNK_SECTORS;

mod affinity;
mod cache;
mod formats;
mod levels;
mod volumes;
mod writers;

fn component(id: u64, state: ComponentState) -> ComponentRecord {
    ComponentRecord {
        id: ComponentId(id),
        shard: ShardId(2),
        group: GroupId(0xABCD),
        state,
        seat: Seat(3),
        left: Lsn::new(Term(5), 77),
        replaces: None,
    }
}

fn object() -> ObjectRecord {
    ObjectRecord {
        id: ObjectId(u64::MAX),
        volume: VolumeId(0x1F),
        sectors: OBJECT_SECTORS_MAX,
        version: Version(12),
        term: Term(6),
        owner: Some(OwnerRecord { shard: ShardId(1), incarnation: Incarnation(9) }),
        handover: None,
        components: vec![
            component(1, ComponentState::Active),
            component(2, ComponentState::Resyncing),
        ],
        removed: Vec::new(),
        claims: Vec::new(),
        is_doubted: false,
        writer_epoch: WriterEpoch::ANY,
    }
}

/// An object that was claimed twice, and is in doubt.
fn claimed() -> ObjectRecord {
    let claim = |term, version, host| Claim {
        term: Term(term),
        version: Version(version),
        owner: OwnerRecord { shard: ShardId(host), incarnation: Incarnation(0x1F) },
    };
    ObjectRecord { claims: vec![claim(4, 9, 2), claim(6, 11, 1)], is_doubted: true, ..object() }
}

/// An object of which a component is being replaced, after another one was.
fn replaced() -> ObjectRecord {
    let mut record = ObjectRecord { is_doubted: false, ..claimed() };
    record.components[1].replaces = Some(ComponentId(1));
    record.removed = vec![RemovedComponent { id: ComponentId(0xF), shard: ShardId(3) }];
    record
}

fn volume() -> VolumeRecord {
    VolumeRecord {
        id: VolumeId(0x1F),
        name: "db-1".to_owned(),
        size_bytes: OBJECT_SECTORS_MAX * SECTOR_SIZE + 512,
        ftt: 1,
        reserve_percent: 0,
        cache_percent: 0,
        stripe_width: 1,
        kept_on: None,
        connections: Connections::Shared,
        writing: Writing::default(),
        policy: None,
        labels: Labels::new(),
        trashed: None,
        runs: Vec::new(),
        objects: vec![ObjectId(1), ObjectId(2)],
    }
}

fn policy() -> PolicyRecord {
    PolicyRecord {
        name: "gold".to_owned(),
        version: 3,
        ftt: 2,
        reserve_percent: 100,
        cache_percent: 0,
        stripe_width: 1,
        affinity: Affinity::None,
        force: false,
        repair_delay: RepairDelay::Seconds(90),
        limits: IoLimits::default(),
    }
}

fn limited_policy() -> PolicyRecord {
    let limits = IoLimits { iops: Some(500), bytes_per_second: Some(10 << 20) };
    PolicyRecord { limits, ..policy() }
}

fn limited_volume() -> VolumeRecord {
    VolumeRecord { policy: Some(limited_policy().followed()), ..volume() }
}

/// As large as two objects of 255 GiB, and grown by two smaller ones.
fn grown_volume() -> VolumeRecord {
    let even = VolumeRecord { size_bytes: 2 * OBJECT_SECTORS_MAX * SECTOR_SIZE, ..volume() };
    let more = [(3, 4096), (4, 1001)];
    let more = more.map(|(id, sectors)| ObjectRecord { id: ObjectId(id), sectors, ..object() });
    grown(even, [4096, 1001].map(ObjectRun::of_object), &more)
}

fn grown<const N: usize>(
    volume: VolumeRecord,
    runs: [ObjectRun; N],
    more: &[ObjectRecord],
) -> VolumeRecord {
    volume.with_objects(&VolumeLayout::of_runs(runs), more)
}

fn trashed_volume() -> VolumeRecord {
    let trashed = Some(Trashed { name: "db-1".to_owned(), since: 1_790_000_000 });
    VolumeRecord { name: trash_name(VolumeId(0x1F)), trashed, ..reserved_volume() }
}

fn following_volume() -> VolumeRecord {
    VolumeRecord { policy: Some(policy().followed()), ..volume() }
}

fn exclusive_volume() -> VolumeRecord {
    VolumeRecord { connections: Connections::Exclusive, ..reserved_volume() }
}

fn reserved_volume() -> VolumeRecord {
    VolumeRecord { reserve_percent: 30, ..volume() }
}

fn host() -> ShardRecord {
    ShardRecord {
        id: ShardId(31),
        name: "ah1".to_owned(),
        peer_address: "tcp:10.0.0.1:7000".to_owned(),
        nbd_uri: "nbd://10.0.0.1/".to_owned(),
        groups: vec![GroupRecord { id: GroupId(0xABCD), capacity_bytes: 1 << 40 }],
        machine: None,
    }
}

fn shard() -> ShardRecord {
    ShardRecord { name: "ah1.2".to_owned(), machine: Some("ah1".to_owned()), ..host() }
}

const OBJECT_JSON: &str = include_str!("../../fixtures/object-1.json");
const CLAIMED_JSON: &str = include_str!("../../fixtures/object-2.json");
const REPLACED_JSON: &str = include_str!("../../fixtures/object-3.json");
const VOLUME_JSON: &str = include_str!("../../fixtures/volume-1.json");
const RESERVED_JSON: &str = include_str!("../../fixtures/volume-2.json");
const EXCLUSIVE_JSON: &str = include_str!("../../fixtures/volume-3.json");
const FOLLOWING_JSON: &str = include_str!("../../fixtures/volume-4.json");
const LIMITED_JSON: &str = include_str!("../../fixtures/volume-5.json");
const GROWN_JSON: &str = include_str!("../../fixtures/volume-6.json");
const TRASHED_JSON: &str = include_str!("../../fixtures/volume-7.json");
const POLICY_JSON: &str = include_str!("../../fixtures/policy-1.json");
const LIMITED_POLICY_JSON: &str = include_str!("../../fixtures/policy-2.json");
const HOST_JSON: &str = include_str!("../../fixtures/host-1.json");
const SHARD_JSON: &str = include_str!("../../fixtures/host-2.json");
const ALIVE_JSON: &str = include_str!("../../fixtures/alive-1.json");
const CLUSTER_JSON: &str = include_str!("../../fixtures/cluster-1.json");
const DELETED_JSON: &str = include_str!("../../fixtures/deleted-1.json");
const REMOVED_JSON: &str = include_str!("../../fixtures/removed-1.json");
const DOMAINS_JSON: &str = include_str!("../../fixtures/domains-1.json");
const MAINTENANCE_JSON: &str = include_str!("../../fixtures/maintenance-1.json");
const HYBRID_JSON: &str = include_str!("../../fixtures/cluster-2.json");

#[test]
fn the_fixtures_of_format_1_stay_readable_and_are_what_is_written() {
    let (incarnation, level, kind) = (Incarnation(0x10), Level::FIRST, ClusterKind::AllFlash);
    let alive = AliveRecord { incarnation, free_bytes: 4096, level };
    let cluster = ClusterRecord { id: 0xC1, name: "lab".to_owned(), kind, level };
    let hybrid = ClusterRecord { kind: ClusterKind::Hybrid, ..cluster.clone() };
    let deleted = DeletedRecord {
        id: VolumeId(0x1F),
        name: "db-1".to_owned(),
        shards: vec![ShardId(1), ShardId(2)],
        objects: vec![ObjectId(1), ObjectId(2)],
    };
    let removed = RemovedShardRecord { id: ShardId(31), name: "ah1".to_owned() };
    let pairs = [
        (object().encode(), OBJECT_JSON),
        (claimed().encode(), CLAIMED_JSON),
        (replaced().encode(), REPLACED_JSON),
        (deleted.encode(), DELETED_JSON),
        (volume().encode(), VOLUME_JSON),
        (reserved_volume().encode(), RESERVED_JSON),
        (exclusive_volume().encode(), EXCLUSIVE_JSON),
        (following_volume().encode(), FOLLOWING_JSON),
        (limited_volume().encode(), LIMITED_JSON),
        (grown_volume().encode(), GROWN_JSON),
        (trashed_volume().encode(), TRASHED_JSON),
        (policy().encode(), POLICY_JSON),
        (limited_policy().encode(), LIMITED_POLICY_JSON),
        (host().encode(), HOST_JSON),
        (alive.encode(), ALIVE_JSON),
        (cluster.encode(), CLUSTER_JSON),
        (hybrid.encode(), HYBRID_JSON),
        (removed.encode(), REMOVED_JSON),
    ];
    for (written, fixture) in pairs {
        assert_eq!(String::from_utf8(written).unwrap(), fixture.trim_end());
    }
    assert_eq!(ObjectRecord::decode(OBJECT_JSON.as_bytes()).unwrap(), object());
    assert_eq!(ObjectRecord::decode(CLAIMED_JSON.as_bytes()).unwrap(), claimed());
    assert_eq!(ObjectRecord::decode(REPLACED_JSON.as_bytes()).unwrap(), replaced());
    assert_eq!(VolumeRecord::decode(VOLUME_JSON.as_bytes()).unwrap(), volume());
    assert_eq!(VolumeRecord::decode(RESERVED_JSON.as_bytes()).unwrap(), reserved_volume());
    assert_eq!(VolumeRecord::decode(EXCLUSIVE_JSON.as_bytes()).unwrap(), exclusive_volume());
    assert_eq!(ShardRecord::decode(HOST_JSON.as_bytes()).unwrap(), host());
    assert_eq!(DeletedRecord::decode(DELETED_JSON.as_bytes()).unwrap(), deleted);
    assert_eq!(AliveRecord::decode(ALIVE_JSON.as_bytes()).unwrap(), alive);
    assert_eq!(ClusterRecord::decode(CLUSTER_JSON.as_bytes()).unwrap(), cluster);
    assert_eq!(ClusterRecord::decode(HYBRID_JSON.as_bytes()).unwrap(), hybrid);
    assert_eq!(RemovedShardRecord::decode(REMOVED_JSON.as_bytes()).unwrap(), removed);
}

/// Each replacement of one text in a good record must be refused.
fn assert_refused<T>(
    good: &str,
    decode: impl Fn(&[u8]) -> Result<T, RecordError>,
    from: &str,
    to: &str,
) {
    assert!(good.contains(from), "the fixture has no {from}");
    let bad = good.replacen(from, to, 1);
    assert!(decode(bad.as_bytes()).is_err(), "{bad} was taken");
}

#[test]
fn what_is_not_exactly_a_deletion_is_refused() {
    let edits = [
        ("[1,2]", "[]"),
        ("[1,2]", "[0,2]"),
        ("[1,2]", "[2,2]"),
        ("\"1\",\"2\"", "\"1\",\"1\""),
        ("\"db-1\"", "\"\""),
    ];
    for (from, to) in edits {
        assert_refused(DELETED_JSON, DeletedRecord::decode, from, to);
    }
}

#[test]
fn claims_rise_and_belong_to_format_2() {
    let edits = [
        ("\"format\":2", "\"format\":1"),
        ("\"format\":2", "\"format\":3"),
        ("\"doubted\":true", "\"doubted\":false"),
        ("[4,9,2,", "[4,9,0,"),
        ("[4,9,2,", "[6,9,2,"),
        ("[4,9,2,", "[4,11,2,"),
        ("[6,11,1,", "[7,11,1,"), // above the record's term
        ("[6,11,1,", "[6,13,1,"), // and version
    ];
    for (from, to) in edits {
        assert_refused(CLAIMED_JSON, ObjectRecord::decode, from, to);
    }
    let only_claims = CLAIMED_JSON.replace(",\"doubted\":true", "");
    assert!(ObjectRecord::decode(only_claims.as_bytes()).is_ok_and(|r| !r.is_doubted));
    let many = (1..=CLAIMS_MAX as u64 + 1).map(|n| Claim {
        term: Term(n as u32),
        version: Version(n),
        owner: OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) },
    });
    let (version, term) = (Version(90), Term(90));
    let full = ObjectRecord { version, term, claims: many.collect(), ..object() };
    assert!(full.check().is_err(), "the list of claims is bounded");
}

#[test]
fn replacements_name_other_components_and_belong_to_format_3() {
    let edits = [
        ("\"format\":3", "\"format\":2"),
        ("\"format\":3", "\"format\":1"),
        ("\"replaces\":\"1\"", "\"replaces\":\"2\""),
        ("\"replaces\":\"1\"", "\"replaces\":\"3\""),
        ("\"resyncing\"", "\"active\""),
        ("[\"f\",3]", "[\"f\",0]"),
        ("[\"f\",3]", "[\"2\",3]"),
        ("[\"f\",3]", "[\"f\",3],[\"f\",4]"),
        ("\"format\":3", "\"format\":4"),
    ];
    for (from, to) in edits {
        assert_refused(REPLACED_JSON, ObjectRecord::decode, from, to);
    }
    let nothing =
        REPLACED_JSON.replace(",\"replaces\":\"1\"", "").replace("\"removed\":[[\"f\",3]],", "");
    assert!(ObjectRecord::decode(nothing.as_bytes()).is_err(), "format 2 would do");
    let mut twice = replaced();
    twice.components.push(ComponentRecord { id: ComponentId(3), ..twice.components[1] });
    assert!(twice.check().is_err(), "two take the place of one");
    let many = (0..=REMOVED_MAX as u64)
        .map(|n| RemovedComponent { id: ComponentId(20 + n), shard: ShardId(1) });
    let full = ObjectRecord { removed: many.collect(), ..object() };
    assert!(full.check().is_err(), "the list is bounded");
}

#[test]
fn a_policy_belongs_to_format_4_of_a_volume() {
    assert_eq!(VolumeRecord::decode(FOLLOWING_JSON.as_bytes()).unwrap(), following_volume());
    let all = VolumeRecord { policy: Some(policy().followed()), ..exclusive_volume() };
    assert_eq!(VolumeRecord::decode(&all.encode()).unwrap(), all);
    let edits = [
        ("\"format\":4", "\"format\":3"),
        ("\"format\":4", "\"format\":1"),
        ("\"format\":4", "\"format\":5"),
        ("\"version\":3", "\"version\":3,\"limits\":{}"),
        ("\"version\":3", "\"version\":3,\"limits\":{\"iops\":500}"),
        ("\"ftt\":1", "\"ftt\":1,\"reserve_percent\":0"),
        ("\"ftt\":1", "\"ftt\":1,\"connections\":\"shared\""),
        ("gold", "go/ld"),
        ("\"version\":3", "\"version\":0"),
        ("\"version\":3", "\"version\":3,\"more\":1"),
        ("90", "2592001"),
        ("seconds", "minutes"),
    ];
    for (from, to) in edits {
        assert_refused(FOLLOWING_JSON, VolumeRecord::decode, from, to);
    }
}

#[test]
fn a_policy_is_exactly_a_policy() {
    assert_eq!(PolicyRecord::decode(POLICY_JSON.as_bytes()).unwrap(), policy());
    for repair_delay in [RepairDelay::Cluster, RepairDelay::Never, RepairDelay::Seconds(0)] {
        let other = PolicyRecord { repair_delay, ..policy() };
        assert_eq!(PolicyRecord::decode(&other.encode()).unwrap(), other);
    }
    assert_eq!(PolicyRecord::built_in().check().ok(), Some(()));
    let edits = [
        ("\"format\":1", "\"format\":2"),
        ("gold", ""),
        ("\"version\":3", "\"version\":0"),
        ("\"ftt\":2", "\"ftt\":4"),
        ("\"reserve_percent\":100", "\"reserve_percent\":101"),
        ("{\"seconds\":90}", "null"),
        ("{\"seconds\":90}", "\"always\""),
        ("90", "2592001"),
    ];
    for (from, to) in edits {
        assert_refused(POLICY_JSON, PolicyRecord::decode, from, to);
    }
    assert_eq!(parse_policy_key(&policy_key("gold")), Some("gold"));
    assert_eq!(parse_policy_key("/gabion/policy/a/b"), None);
}

#[test]
fn limits_belong_to_format_5_of_a_volume_and_format_2_of_a_policy() {
    assert_eq!(VolumeRecord::decode(LIMITED_JSON.as_bytes()).unwrap(), limited_volume());
    assert_eq!(PolicyRecord::decode(LIMITED_POLICY_JSON.as_bytes()).unwrap(), limited_policy());
    let one = IoLimits { iops: None, ..limited_policy().limits };
    let one = PolicyRecord { limits: one, ..policy() };
    assert_eq!(PolicyRecord::decode(&one.encode()).unwrap(), one);
    let edits = [
        ("\"iops\":500", "\"iops\":31"),
        ("\"iops\":500", "\"iops\":100000001"),
        ("\"iops\":500", "\"iops\":null,\"weight\":1"),
        ("\"bytes_per_second\":10485760", "\"bytes_per_second\":1048575"),
        ("\"bytes_per_second\":10485760", "\"bytes_per_second\":1099511627777"),
        ("{\"iops\":500,\"bytes_per_second\":10485760}", "{}"),
    ];
    for (from, to) in edits {
        assert_refused(LIMITED_JSON, VolumeRecord::decode, from, to);
        assert_refused(LIMITED_POLICY_JSON, PolicyRecord::decode, from, to);
    }
    for format in ["\"format\":1", "\"format\":3", "\"format\":4"] {
        assert_refused(LIMITED_JSON, VolumeRecord::decode, "\"format\":5", format);
        assert_refused(LIMITED_POLICY_JSON, PolicyRecord::decode, "\"format\":2", format);
    }
}

#[test]
fn connections_belong_to_format_3() {
    let edits = [
        ("\"format\":3", "\"format\":2"),
        ("\"format\":3", "\"format\":4"),
        ("exclusive", "shared"),
        ("exclusive", "nobody"),
        ("\"connections\":\"exclusive\",", ""),
        ("\"reserve_percent\":30", "\"reserve_percent\":0"),
    ];
    for (from, to) in edits {
        assert_refused(EXCLUSIVE_JSON, VolumeRecord::decode, from, to);
    }
}

#[test]
fn what_is_not_exactly_a_record_is_refused() {
    let edits = [
        ("\"format\":1", "\"format\":2"),
        ("\"format\":1,", ""),
        ("\"format\":1", "\"format\":1,\"more\":1"),
        ("\"version\":12", "\"version\":0"),
        ("\"term\":6", "\"term\":16777216"),
        ("\"term\":6", "\"term\":0"),
        ("\"term\":6", "\"term\":4"), // below the term of `left`
        ("\"sectors\":534773760", "\"sectors\":534773761"),
        ("\"sectors\":534773760", "\"sectors\":0"),
        ("\"state\":\"active\"", "\"state\":\"absent\""), // nobody active
        ("\"state\":\"active\"", "\"state\":\"lost\""),
        ("\"id\":\"2\"", "\"id\":\"1\""), // twice
        ("\"left\":\"5.77\"", "\"left\":\"5.077\""),
        ("\"left\":\"5.77\"", "\"left\":\"5.1099511627776\""),
        ("\"id\":\"1\"", "\"id\":\"0x1\""),
        ("\"id\":\"1\"", "\"id\":\"+1\""),
        ("\"id\":\"1\"", "\"id\":1"),
        ("\"host\":2", "\"host\":0"),
    ];
    for (from, to) in edits {
        assert_refused(OBJECT_JSON, ObjectRecord::decode, from, to);
    }
    let edits = [
        ("\"ftt\":1", "\"ftt\":4"),
        ("db-1", "db/1"),
        ("db-1", ""),
        ("\"1\",\"2\"", "\"1\""),
        ("\"1\",\"2\"", "\"1\",\"1\""),
        ("273804165632", "273804165633"),
    ];
    for (from, to) in edits {
        assert_refused(VOLUME_JSON, VolumeRecord::decode, from, to);
    }
    let reserve = "\"reserve_percent\":30";
    let edits = [
        ("\"format\":2", "\"format\":1"),
        ("\"format\":2", "\"format\":3"),
        (reserve, "\"reserve_percent\":0"),
        (reserve, "\"reserve_percent\":101"),
        (reserve, "\"reserve_percent\":null"),
        ("\"reserve_percent\":30,", ""),
    ];
    for (from, to) in edits {
        assert_refused(RESERVED_JSON, VolumeRecord::decode, from, to);
    }
    assert_refused(
        VOLUME_JSON,
        VolumeRecord::decode,
        "\"ftt\":1",
        "\"ftt\":1,\"reserve_percent\":9",
    );
    assert_refused(REMOVED_JSON, RemovedShardRecord::decode, "\"id\":31", "\"id\":0");
    assert_refused(REMOVED_JSON, RemovedShardRecord::decode, "\"ah1\"", "\"\"");
    assert_refused(HOST_JSON, ShardRecord::decode, "tcp:", "udp:");
    assert_refused(HOST_JSON, ShardRecord::decode, "\"id\":31", "\"id\":0");
    assert_refused(CLUSTER_JSON, ClusterRecord::decode, "\"c1\"", "\"0\"");
    let edits = [("hybrid", "all-flash"), ("hybrid", "tape"), ("\"format\":2", "\"format\":1")];
    for (from, to) in edits {
        assert_refused(HYBRID_JSON, ClusterRecord::decode, from, to);
    }
    let (from, to) = ("\"lab\"", "\"lab\",\"kind\":\"hybrid\"");
    assert_refused(CLUSTER_JSON, ClusterRecord::decode, from, to);
    assert!(ObjectRecord::decode(VOLUME_JSON.as_bytes()).is_err(), "a record of another kind");
    assert!(ObjectRecord::decode(&[0xFF, 0]).is_err());
}

#[test]
fn keys_name_their_records_both_ways() {
    assert_eq!(parse_object_key(&object_key(ObjectId(u64::MAX))), Some(ObjectId(u64::MAX)));
    assert_eq!(parse_host_key(&host_key(ShardId(31))), Some(ShardId(31)));
    assert_eq!(parse_alive_key(&alive_key(ShardId(u32::MAX))), Some(ShardId(u32::MAX)));
    assert_eq!(parse_volume_key(&volume_key("db-1")), Some("db-1"));
    assert_eq!(parse_host_key("/gabion/host/01"), None);
    assert_eq!(parse_host_key("/gabion/host/100000000"), None);
    assert_eq!(parse_host_key(&alive_key(ShardId(1))), None);
    assert_eq!(parse_volume_key("/gabion/volume/a/b"), None);
}

mod access;
mod receivers;

#[test]
fn hosts_in_maintenance_are_named_once_each() {
    use MaintenanceMode::{EnsureAccessibility, FullEvacuation, None as Stay};
    let record = MaintenanceRecord::default().with(ShardId(31), Some(Stay));
    let record = record.with(ShardId(2), Some(EnsureAccessibility));
    let record = record.with(ShardId(2), Some(FullEvacuation));
    assert_eq!(String::from_utf8(record.encode()).unwrap(), MAINTENANCE_JSON.trim_end());
    assert_eq!(MaintenanceRecord::decode(MAINTENANCE_JSON.as_bytes()).unwrap(), record);
    assert_eq!((record.mode(ShardId(2)), record.mode(ShardId(3))), (Some(FullEvacuation), None));
    assert_eq!(record.with(ShardId(2), None).with(ShardId(31), None), MaintenanceRecord::default());
    let refuse = |from, to| assert_refused(MAINTENANCE_JSON, MaintenanceRecord::decode, from, to);
    refuse("[31", "[2");
    refuse("[31", "[0");
    refuse("\"none\"", "\"some\"");
    refuse("\"format\":1", "\"format\":2");
    refuse("}", ",\"more\":1}");
    let full = (1..).take(MAINTENANCE_MAX + 1).map(|host| (host, Some(Stay)));
    let full = full.fold(record, |all, (host, mode)| all.with(ShardId(host), mode));
    assert!(full.check().is_err());
}

#[test]
fn fault_domains_lie_within_each_other_and_hosts_in_the_innermost() {
    let domain = |name: &str, within: Option<&str>| FaultDomain {
        name: name.to_owned(),
        within: within.map(str::to_owned),
    };
    let room = Some("room-1");
    let domains = vec![
        domain("room-1", None),
        domain("rack-1", room),
        domain("rack-2", room),
        domain("lab", None),
    ];
    let record = DomainsRecord { domains, members: Vec::new() };
    let record =
        record.with_member(ShardId(31), Some("rack-1")).with_member(ShardId(31), Some("lab"));
    let record =
        record.with_member(ShardId(2), Some("rack-1")).with_member(ShardId(1), Some("rack-1"));
    let record = record.with_member(ShardId(9), Some("lab")).with_member(ShardId(9), None);
    let record = record.with_member(ShardId(3), Some("rack-2"));
    assert_eq!(String::from_utf8(record.encode()).unwrap(), DOMAINS_JSON.trim_end());
    assert_eq!(DomainsRecord::decode(DOMAINS_JSON.as_bytes()).unwrap(), record);
    assert_eq!(record.path(ShardId(2)), ["room-1", "rack-1"]);
    assert_eq!(record.path(ShardId(31)), ["lab"]);
    assert_eq!(record.path(ShardId(9)), [""; 0]);
    let refuse = |from, to| assert_refused(DOMAINS_JSON, DomainsRecord::decode, from, to);
    refuse("[31", "[3");
    refuse("[31", "[0");
    refuse("[31,\"lab\"]", "[31,\"room-1\"]");
    refuse("[31,\"lab\"]", "[31,\"elsewhere\"]");
    refuse("[\"lab\",null]", "[\"rack-1\",null]");
    refuse("[\"lab\",null]", "[\"lab\",\"elsewhere\"]");
    refuse("[\"lab\",null]", "[\"a b\",null]");
    refuse("[\"room-1\",null]", "[\"room-1\",\"rack-1\"]");
    refuse("\"format\":1", "\"format\":2");
    refuse("]]}", "]],\"more\":1}");
    let mut deep = record.clone();
    deep.members.clear();
    deep.domains.push(domain("shelf", Some("rack-1")));
    assert!(deep.check().is_ok());
    deep.domains.push(domain("slot", Some("shelf")));
    assert!(deep.check().is_err(), "four levels");
    let many = (0..=DOMAINS_MAX).map(|at| domain(&format!("d{at}"), None)).collect();
    assert!(DomainsRecord { domains: many, members: Vec::new() }.check().is_err());
}

#[test]
fn a_shard_of_a_machine_says_which() {
    assert_eq!(String::from_utf8(shard().encode()).unwrap(), SHARD_JSON.trim_end());
    assert_eq!(ShardRecord::decode(SHARD_JSON.as_bytes()).unwrap(), shard());
    assert_eq!((shard().machine(), host().machine()), ("ah1", "ah1"));
    let edits = [("\"ah1\"", "\"\""), ("\"ah1\"", "\"ah1.2\""), ("format\":2", "format\":1")];
    for (from, to) in edits {
        assert_refused(SHARD_JSON, ShardRecord::decode, from, to);
    }
}
