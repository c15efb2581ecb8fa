// SPDX-License-Identifier: Apache-2.0
//! A component whose disk group is full (rules 2, 7).

use crate::cluster::{Cluster, OBJECT, record_on};
use crate::oracle::Oracle;
use base::{CHUNK_SECTORS, ComponentId, Lsn, ObjectId, SectorRange, ShardId, Term, WriterEpoch};
use directory::ObjectRecord;
use diskgroup::{Append, AppendKind, DiskGroup};
use env::{Env, Slice};
use object::{Mutations, ObjectError, Objects};
use std::time::Duration;
use wire::{Crcs, WriteKind};

const FILLER: ComponentId = ComponentId(9999);
/// A client that comes back this often for one write goes in circles.
const TRIES_MAX: usize = 8;

fn data(env: &Env, bytes: &[u8]) -> Slice {
    let mut buf = env.buf(bytes.len());
    buf.copy_from_slice(bytes);
    buf.freeze()
}

/// Promises all but so many chunks of the group to somebody else.
async fn fill(env: Env, group: DiskGroup, left: u64) {
    let chunks = group.free_chunks() - left;
    group.create_component(FILLER, ObjectId(9999), chunks * CHUNK_SECTORS).await.expect("made");
    for chunk in 0..chunks {
        let payload = data(&env, &[1; 4096]);
        let range = SectorRange::new(chunk * CHUNK_SECTORS, 8);
        let crcs = wire::crcs_of(range, &payload);
        let (lsn, kind) = (Lsn::new(Term(1), chunk + 1), AppendKind::Data);
        let append = Append {
            component: FILLER,
            lsn,
            term: Term(1),
            range,
            kind,
            crcs: &crcs,
            payload,
            marks: &[],
        };
        group.append(append).await.expect("there is room for it");
        group.advance_commit(FILLER, lsn);
    }
    assert_eq!(group.free_chunks(), left);
}

/// A write as a client does it: again, after an acquisition, where the object had moved.
async fn write(env: Env, objects: Objects, block: usize) -> Result<(), ObjectError> {
    let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
    for _ in 0..TRIES_MAX {
        let payload = data(&env, &Oracle::content(block, 1));
        let range = Oracle::range(block);
        let crcs = wire::crcs_of(range, &payload);
        match objects.write(OBJECT, &request, range, WriteKind::Data, crcs, payload).await {
            Err(ObjectError::NotOwner) => drop(objects.acquire(OBJECT).await),
            other => return other,
        }
    }
    panic!("the write goes in circles");
}

#[test]
fn a_full_replica_is_no_space_and_not_a_new_owner_for_ever() {
    let cluster = Cluster::new(3, Mutations::default());
    cluster.create_as(record_on(&[1, 2]));
    let through = |at: usize, block: usize| {
        let env = cluster.world.env(cluster.hosts[at].key).unwrap();
        let objects = cluster.objects(at).unwrap();
        cluster.on(at, Duration::from_secs(60), write(env, objects, block)).expect("in time")
    };
    assert_eq!(through(0, 0), Ok(()));
    assert_eq!(cluster.owner(), Some(0));

    let env = cluster.world.env(cluster.hosts[1].key).unwrap();
    let group = cluster.hosts[1].group.borrow().clone().unwrap();
    cluster.on(1, Duration::from_secs(60), fill(env, group, 0)).expect("in time");

    let far = 300; // in a chunk that nobody has yet
    assert_eq!(through(0, far), Err(ObjectError::Full));
    assert_eq!(through(0, far), Err(ObjectError::Full), "and again");
    assert_eq!(through(0, 0), Ok(()), "what is there can be written for ever");
}

/// Chunks of an object for which there is not enough room ...
const CHUNKS: u64 = 100;
/// ... and those that there are.
const ROOM: u64 = 60;
/// Until devices have destaged what they have to, and owners were told.
const SETTLE: f64 = 20.0;

fn large(hosts: &[u32]) -> ObjectRecord {
    ObjectRecord { sectors: CHUNKS * CHUNK_SECTORS, ..record_on(hosts) }
}

/// What a client does, as often as it takes.
async fn put(
    env: Env,
    objects: Objects,
    kind: WriteKind,
    range: SectorRange,
) -> Result<(), ObjectError> {
    let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
    for _ in 0..TRIES_MAX {
        let (crcs, payload) = match kind {
            WriteKind::Data => {
                let payload = data(&env, &vec![7; usize::try_from(range.bytes()).unwrap()]);
                (wire::crcs_of(range, &payload), payload)
            }
            _ => (Crcs::NONE, env.buf(0).freeze()),
        };
        match objects.write(OBJECT, &request, range, kind, crcs, payload).await {
            Err(ObjectError::NotOwner) => drop(objects.acquire(OBJECT).await),
            other => return other,
        }
    }
    panic!("the write goes in circles");
}

/// Writes one block of each chunk until there is no space; so many had some.
fn fill_object(cluster: &Cluster, at: usize, from: u64) -> u64 {
    for chunk in from..CHUNKS {
        let range = SectorRange::new(chunk * CHUNK_SECTORS + 8, 8);
        match through(cluster, at, WriteKind::Data, range) {
            Ok(()) => {}
            Err(ObjectError::Full) => return chunk - from,
            Err(error) => panic!("chunk {chunk}: {error}"),
        }
    }
    CHUNKS - from
}

fn through(
    cluster: &Cluster,
    at: usize,
    kind: WriteKind,
    range: SectorRange,
) -> Result<(), ObjectError> {
    let env = cluster.world.env(cluster.hosts[at].key).unwrap();
    let objects = cluster.objects(at).unwrap();
    cluster.on(at, Duration::from_secs(60), put(env, objects, kind, range)).expect("in time")
}

fn fill_host(cluster: &Cluster, at: usize, left: u64) {
    let env = cluster.world.env(cluster.hosts[at].key).unwrap();
    let group = cluster.hosts[at].group.borrow().clone().unwrap();
    cluster.on(at, Duration::from_secs(60), fill(env, group, left)).expect("in time");
}

/// The client is where a component is, or where none is.
#[test]
fn a_full_object_does_all_that_takes_no_space_and_takes_what_is_discarded() {
    for client in [0, 2] {
        let cluster = Cluster::new(20 + client as u64, Mutations::default());
        cluster.create_as(large(&[1, 2]));
        // One of the two is full before the other.
        fill_host(&cluster, 0, ROOM + 10);
        fill_host(&cluster, 1, ROOM);
        let filled = fill_object(&cluster, client, 0);
        assert!(filled > ROOM / 2 && filled < ROOM, "{filled} chunks");
        cluster.run(SETTLE);
        assert_eq!(fill_object(&cluster, client, filled), 0, "it stays full");

        let at = |chunk: u64| SectorRange::new(chunk * CHUNK_SECTORS + 16, 16);
        for kind in [WriteKind::Data, WriteKind::Zero, WriteKind::Data] {
            assert_eq!(through(&cluster, client, kind, at(3)), Ok(()), "{kind:?}");
        }
        let objects = cluster.objects(client).unwrap();
        let read = async move { objects.read(OBJECT, at(3)).await };
        let read = cluster.on(client, Duration::from_secs(60), read).expect("in time");
        assert!(read.expect("a read").payload.iter().all(|byte| *byte == 7));
        for chunk in 0..filled {
            let whole = SectorRange::new(chunk * CHUNK_SECTORS, CHUNK_SECTORS);
            assert_eq!(through(&cluster, client, WriteKind::Discard, whole), Ok(()));
        }
        // Nothing is written meanwhile that could tell the owner of the space.
        cluster.run(SETTLE);
        assert_eq!(fill_object(&cluster, client, CHUNKS - ROOM), filled, "usable again");
    }
}

#[test]
fn a_reserve_is_there_when_others_have_filled_the_devices() {
    let cluster = Cluster::new(30, Mutations::default());
    cluster.create_with(large(&[1, 2]), 10);
    for at in [0, 1] {
        fill_host(&cluster, at, 0);
    }
    assert_eq!(fill_object(&cluster, 0, 0), CHUNKS / 10);
    cluster.run(SETTLE);
    assert_eq!(fill_object(&cluster, 0, CHUNKS / 10), 0);
}

#[test]
fn a_reserve_that_is_not_there_is_refused_by_the_host_that_lacks_it() {
    let cluster = Cluster::new(31, Mutations::default());
    cluster.create_as(record_on(&[3]));
    fill_host(&cluster, 1, 0);
    let objects = cluster.objects(0).unwrap();
    let record = ObjectRecord { id: ObjectId(78), ..large(&[1, 2]) };
    let groups = [0, 1].map(|at| cluster.hosts[at].group.borrow().clone().unwrap());
    let free = groups[0].free_chunks();
    let made = async move {
        let made = objects.create(record.clone(), 10).await;
        objects.discard(&record).await;
        made
    };
    let made = cluster.on(0, Duration::from_secs(60), made).expect("in time");
    assert_eq!(made, Err(vec![(ShardId(2), ObjectError::Full)]));
    assert_eq!(groups[0].free_chunks(), free, "nothing is kept for what was not made");
}
