// SPDX-License-Identifier: Apache-2.0
//! A component whose disk group is full (rules 2, 7).

use crate::cluster::{Cluster, OBJECT, record_on};
use crate::oracle::Oracle;
use base::{CHUNK_SECTORS, ComponentId, Lsn, ObjectId, SectorRange, Term};
use diskgroup::{Append, AppendKind, DiskGroup};
use env::{Env, Slice};
use object::{Mutations, ObjectError, Objects};
use std::time::Duration;
use wire::WriteKind;

const FILLER: ComponentId = ComponentId(9999);
/// A client that comes back this often for one write goes in circles.
const TRIES_MAX: usize = 8;

fn data(env: &Env, bytes: &[u8]) -> Slice {
    let mut buf = env.buf(bytes.len());
    buf.copy_from_slice(bytes);
    buf.freeze()
}

/// Promises every chunk of the group to somebody else.
async fn fill(env: Env, group: DiskGroup) {
    let chunks = group.free_chunks();
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
    }
    assert_eq!(group.free_chunks(), 0);
}

/// A write as a client does it: again, after an acquisition, where the object had moved.
async fn write(env: Env, objects: Objects, block: usize) -> Result<(), ObjectError> {
    let request = objects.begin_write(OBJECT).await;
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
    cluster.on(1, Duration::from_secs(60), fill(env, group)).expect("in time");

    let far = 300; // in a chunk that nobody has yet
    assert_eq!(through(0, far), Err(ObjectError::Full));
    assert_eq!(through(0, far), Err(ObjectError::Full), "and again");
    assert_eq!(through(0, 0), Ok(()), "what is there can be written for ever");
}
