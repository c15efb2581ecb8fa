// SPDX-License-Identifier: Apache-2.0
//! What the directory holds and how one speaks with it: records, keys, frames.

use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, SECTOR_SIZE, Seat, ShardId, Term, Version,
    VolumeId, WriterEpoch, crc32c_append,
};
use directory::protocol::{
    Answer, DirectoryRequest, FrameError, HEADER_BYTES, ServerHeader, encode_answer, encode_request,
};
use directory::*;
use fuzz::{Source, bounded};
use std::fmt::Debug;

fuzz::targets! {
    records: 60_000, golden(), records_of;
    keys: 60_000, vec![object_key(ObjectId(0xabc)).into_bytes(), volume_key("vm-1").into_bytes()],
        keys_of;
    directory_frame: 100_000, frames(), frame_of;
}

fn golden() -> Vec<Vec<u8>> {
    [
        include_bytes!("../../../directory/fixtures/alive-1.json").as_slice(),
        include_bytes!("../../../directory/fixtures/cluster-1.json"),
        include_bytes!("../../../directory/fixtures/host-1.json"),
        include_bytes!("../../../directory/fixtures/settings-2.json"),
        include_bytes!("../../../directory/fixtures/maintenance-1.json"),
        include_bytes!("../../../directory/fixtures/access-1.json"),
        include_bytes!("../../../directory/fixtures/receivers-1.json"),
        include_bytes!("../../../directory/fixtures/domains-1.json"),
        include_bytes!("../../../directory/fixtures/object-1.json"),
        include_bytes!("../../../directory/fixtures/policy-1.json"),
        include_bytes!("../../../directory/fixtures/policy-2.json"),
        include_bytes!("../../../directory/fixtures/settings-1.json"),
        include_bytes!("../../../directory/fixtures/volume-1.json"),
        include_bytes!("../../../directory/fixtures/volume-4.json"),
        include_bytes!("../../../directory/fixtures/volume-5.json"),
        include_bytes!("../../../directory/fixtures/volume-9.json"),
        include_bytes!("../../../directory/fixtures/volume-10.json"),
        include_bytes!("../../../directory/fixtures/volume-11.json"),
        include_bytes!("../../../directory/fixtures/policy-4.json"),
        include_bytes!("../../../directory/fixtures/volume-12.json"),
        include_bytes!("../../../directory/fixtures/policy-5.json"),
    ]
    .map(Vec::from)
    .into()
}

fn again<T: PartialEq + Debug>(
    input: &[u8],
    decode: fn(&[u8]) -> Result<T, RecordError>,
    encode: fn(&T) -> Vec<u8>,
) {
    if let Ok(value) = bounded(input.len(), || decode(input)) {
        let encoded = encode(&value);
        assert_eq!(decode(&encoded).as_ref().ok(), Some(&value), "another value after encoding");
    }
}

fn writing_of(from: &mut Source<'_>) -> Writing {
    let writers = [Writers::Any, Writers::One][from.index(2)];
    let (shard, incarnation) = (ShardId(from.u32()), Incarnation(from.edge()));
    let epoch = WriterEpoch(from.u32());
    let writer = from.flag().then_some(OwnerRecord { shard, incarnation });
    Writing { writers, epoch, writer }
}

/// What decodes is encoded as it was.
fn decoded(input: &[u8]) {
    again(input, ClusterRecord::decode, ClusterRecord::encode);
    again(input, ShardRecord::decode, ShardRecord::encode);
    again(input, AliveRecord::decode, AliveRecord::encode);
    again(input, VolumeRecord::decode, VolumeRecord::encode);
    again(input, DeletedRecord::decode, DeletedRecord::encode);
    again(input, ObjectRecord::decode, ObjectRecord::encode);
    again(input, SettingsRecord::decode, SettingsRecord::encode);
    again(input, PolicyRecord::decode, PolicyRecord::encode);
    again(input, DomainsRecord::decode, DomainsRecord::encode);
    again(input, MaintenanceRecord::decode, MaintenanceRecord::encode);
    again(input, AccessRecord::decode, AccessRecord::encode);
    again(input, UsersRecord::decode, UsersRecord::encode);
    again(input, ReceiversRecord::decode, ReceiversRecord::encode);
}

fn records_of(input: &[u8]) {
    decoded(input);
    let mut from = Source::new(input);
    let object = object(&mut from);
    if object.check().is_ok() {
        assert_eq!(ObjectRecord::decode(&object.encode()).ok(), Some(object.clone()));
    }
    let size_bytes = (1 + from.below(1 << 38)) * SECTOR_SIZE;
    let count = object_count(size_bytes);
    let objects = (1..=(count + from.below(4)).min(2000)).map(ObjectId).collect();
    let (id, ftt) = (VolumeId(from.u64()), from.u8() % 5);
    let (name, reserve_percent) = ("vm".to_owned(), from.u8() % 102);
    let connections = [Connections::Shared, Connections::Exclusive][usize::from(from.u8() % 2)];
    let followed = |from: &mut Source<'_>| FollowedPolicy {
        name: "gold".to_owned(),
        version: from.below(3),
        repair_delay: match from.below(3) {
            0 => RepairDelay::Cluster,
            1 => RepairDelay::Never,
            _ => RepairDelay::Seconds(from.below(REPAIR_DELAY_MAX + 2)),
        },
        limits: IoLimits {
            iops: from.flag().then(|| from.edge()),
            bytes_per_second: from.flag().then(|| from.edge()),
        },
    };
    let policy = from.flag().then(|| followed(&mut from));
    let run = |from: &mut Source<'_>| ObjectRun {
        sets: from.u32() % 4,
        sectors: from.edge(),
        width: from.u8() % 14,
    };
    let runs = if from.flag() { vec![run(&mut from), run(&mut from)] } else { Vec::new() };
    let name_before = ["db", "Deleted_1", "/"][from.index(3)].to_owned();
    let trashed = from.flag().then(|| Trashed { name: name_before, since: from.edge() });
    let name = if from.flag() { trash_name(id) } else { name };
    let text = |from: &mut Source<'_>| ["env", "a/b-", "", " "][from.index(4)].to_owned();
    let labels = (0..from.below(3)).map(|_| (text(&mut from), text(&mut from))).collect();
    let volume = VolumeRecord {
        id,
        name,
        size_bytes,
        ftt,
        reserve_percent,
        cache_percent: [0, 0, from.u8() % 102][from.index(3)],
        stripe_width: from.u8() % 14,
        kept_on: from.flag().then(|| ["host1", "a/b", "", "h-2"][from.index(4)].to_owned()),
        connections,
        writing: writing_of(&mut from),
        policy,
        labels,
        trashed,
        runs,
        objects,
    };
    if volume.check().is_err() {
        return;
    }
    assert_eq!(VolumeRecord::decode(&volume.encode()).ok(), Some(volume.clone()));
    grown_of(&mut from, volume, &object);
}

/// What a volume becomes that grows is a record, if it may be.
fn grown_of(from: &mut Source<'_>, volume: VolumeRecord, object: &ObjectRecord) {
    let sectors = 1 + from.below(4 * OBJECT_SECTORS_MAX / 3);
    let more = VolumeLayout::striped(sectors, 1 + from.u8() % 12, OBJECT_SECTORS_MAX);
    let objects = (1..).zip(more.sizes()).map(|(id, sectors)| {
        let id = ObjectId(u64::MAX - id);
        ObjectRecord { id, sectors, ..object.clone() }
    });
    let grown = volume.with_objects(&more, &objects.collect::<Vec<_>>());
    if grown.check().is_ok() {
        assert_eq!(VolumeRecord::decode(&grown.encode()).ok(), Some(grown));
    }
}

fn object(from: &mut Source<'_>) -> ObjectRecord {
    use ComponentState::{Absent, Active, Degraded, Resyncing};
    let term = from.below(1 << 24);
    let lsn = |from: &mut Source<'_>| {
        Lsn::new(Term(from.below(term + 1) as u32), from.edge() % (1 << Lsn::COUNTER_BITS))
    };
    let component = |from: &mut Source<'_>| ComponentRecord {
        id: ComponentId(from.u64()),
        shard: ShardId(from.u32()),
        group: GroupId(from.u64()),
        state: [Active, Absent, Degraded, Resyncing][from.index(4)],
        seat: Seat(from.u32()),
        left: lsn(from),
        replaces: (from.below(4) == 0).then(|| ComponentId(from.u64())),
    };
    let removed = |from: &mut Source<'_>| RemovedComponent {
        id: ComponentId(from.u64()),
        shard: ShardId(from.u32()),
    };
    let owner = |from: &mut Source<'_>| OwnerRecord {
        shard: ShardId(from.u32()),
        incarnation: Incarnation(from.edge()),
    };
    let claim = |from: &mut Source<'_>| Claim {
        term: Term(from.below(term + 1) as u32),
        version: Version(from.edge()),
        owner: owner(from),
    };
    ObjectRecord {
        id: ObjectId(from.u64()),
        volume: VolumeId(from.u64()),
        sectors: 1 + from.below(OBJECT_SECTORS_MAX),
        version: Version(from.edge()),
        term: Term(term as u32),
        owner: from.flag().then(|| owner(from)),
        handover: from.flag().then(|| lsn(from)),
        components: (0..from.below(6)).map(|_| component(from)).collect(),
        removed: (0..from.below(3)).map(|_| removed(from)).collect(),
        claims: (0..from.below(3)).map(|_| claim(from)).collect(),
        is_doubted: from.flag(),
        writer_epoch: if from.flag() { WriterEpoch(from.u32()) } else { WriterEpoch::ANY },
    }
}

fn keys_of(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for prefix in ["", HOST_PREFIX, ALIVE_PREFIX, VOLUME_PREFIX, OBJECT_PREFIX, POLICY_PREFIX] {
        let key = format!("{prefix}{text}");
        if let Some(shard) = parse_host_key(&key) {
            assert_eq!(host_key(shard), key);
        }
        if let Some(shard) = parse_alive_key(&key) {
            assert_eq!(alive_key(shard), key);
        }
        if let Some(name) = parse_volume_key(&key) {
            assert_eq!(volume_key(name), key);
        }
        if let Some(name) = parse_policy_key(&key) {
            assert_eq!(policy_key(name), key);
        }
        if let Some(object) = parse_object_key(&key) {
            assert_eq!(object_key(object), key);
        }
    }
    assert!(!is_name(&text) || text.len() <= NAME_BYTES_MAX && !text.contains('/'));
}

/// One frame of each kind.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let key = || "/gabion/volume/vm".to_owned();
    let prefix = || "/gabion/".to_owned();
    let entry = || Entry { value: vec![7; 40], revision: 9 };
    let lease = LeaseId(5);
    let transaction = Transaction::new()
        .expect(key(), Expect::Revision(9))
        .expect("/gabion/a", Expect::Absent)
        .put(key(), [1, 2, 3])
        .put_leased("/gabion/alive/1", [4], lease)
        .delete("/gabion/b");
    let listing = Listing { entries: vec![(key(), entry()), (prefix(), entry())], revision: 12 };
    let events = vec![WatchEvent::Put(key(), entry()), WatchEvent::Delete(key(), 8)];
    let requests = [
        DirectoryRequest::Ping,
        DirectoryRequest::Get { key: key() },
        DirectoryRequest::List { prefix: prefix() },
        DirectoryRequest::Transact(transaction),
        DirectoryRequest::LeaseGrant { ttl_ms: 5000 },
        DirectoryRequest::LeaseKeep { lease },
        DirectoryRequest::LeaseRevoke { lease },
        DirectoryRequest::Watch { prefix: prefix() },
        DirectoryRequest::Unwatch { watch: 3 },
    ];
    let answers = [
        Answer::Done,
        Answer::Entry(None),
        Answer::Entry(Some(entry())),
        Answer::Part { listing: listing.clone(), has_more: true },
        Answer::Part { listing, has_more: false },
        Answer::Transacted(Transacted { succeeded: true, revision: 4 }),
        Answer::Lease(lease),
        Answer::Events(events),
        Answer::Failed(DirectoryError::LeaseGone),
    ];
    let requests =
        requests.iter().zip(1..).map(|(request, number)| encode_request(number, request));
    requests.chain(answers.iter().zip(1..).map(|(a, number)| encode_answer(number, a))).collect()
}

/// The frame with the right magic, version, length and checksum.
pub(crate) fn resealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    bytes.resize(bytes.len().max(HEADER_BYTES), 0);
    let length = ((bytes.len() - HEADER_BYTES) as u32).to_le_bytes();
    bytes[..8].copy_from_slice(b"GDIR\x01\0\0\0");
    bytes[8..12].copy_from_slice(&length);
    let crc = crc32c_append(&[&length, &bytes[HEADER_BYTES..]]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn body(bytes: &[u8]) -> Result<(ServerHeader, &[u8]), FrameError> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Magic)?;
    Ok((ServerHeader::decode(header)?, body))
}

fn frame_of(input: &[u8]) {
    for bytes in [input.to_vec(), resealed(input)] {
        let Ok((header, body)) = body(&bytes) else { continue };
        if let Ok((number, request)) = bounded(body.len(), || header.decode_request(body)) {
            assert_eq!(encode_request(number, &request), bytes, "{request:?}");
            if let DirectoryRequest::Transact(transaction) = request {
                let _ = transaction.check();
            }
        }
        if let Ok((number, answer)) = bounded(body.len(), || header.decode_answer(body)) {
            assert_eq!(encode_answer(number, &answer), bytes, "{answer:?}");
        }
    }
}
