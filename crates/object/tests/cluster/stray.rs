// SPDX-License-Identifier: Apache-2.0
//! A Fence that was long on its way: it makes a component only for a record that the host knows and
//! that lists it (the storm campaign's seed 306033155).

use crate::cluster::{Cluster, OBJECT, record_on};
use base::{ComponentId, Incarnation, ObjectId, Seat, Session, ShardId, Term, Version};
use object::Mutations;
use std::time::Duration;
use wire::{OwnerId, Refusal, Request, Response, Target};

const WAIT: Duration = Duration::from_secs(10);
/// Of the third host, which has a disk group and no part in the object.
const STRAY: ComponentId = ComponentId(103);

/// What the third host says to a Fence of the first one that makes its component.
fn answer(cluster: &Cluster, object: ObjectId) -> Response {
    answer_to(cluster, object, (Session(1), Version(8)))
}

fn answer_to(
    cluster: &Cluster,
    object: ObjectId,
    (session, version): (Session, Version),
) -> Response {
    let peers = cluster.hosts[0].peers.borrow().clone().expect("it runs");
    let target = Target { object, component: STRAY, term: Term(4), seat: Seat(4), session };
    let owner = OwnerId { shard: ShardId(1), incarnation: Incarnation(1) };
    let claims = Default::default();
    let request = Request::Fence { target, version, owner, create: Some(8), claims };
    let call = async move { peers.call(ShardId(3), request).await };
    cluster.on(0, WAIT, call).expect("in time").expect("an answer")
}

fn is_made(cluster: &Cluster) -> bool {
    let group = cluster.hosts[2].group.borrow().clone().expect("it is open");
    group.component(STRAY).is_some()
}

#[test]
fn nothing_is_made_for_a_record_that_does_not_list_it() {
    let cluster = Cluster::new(61, Mutations::default());
    cluster.create_as(record_on(&[1, 2]));
    for object in [OBJECT, ObjectId(77)] {
        let answer = answer(&cluster, object);
        let is_refused = matches!(answer, Response::Refused { reason: Refusal::NotReady });
        assert!(is_refused, "{object}: {answer:?}");
    }
    assert!(!is_made(&cluster));
}

#[test]
fn what_the_record_lists_is_made() {
    let cluster = Cluster::new(62, Mutations::default());
    cluster.create_as(record_on(&[1, 2, 3]));
    let group = cluster.hosts[2].group.borrow().clone().expect("it is open");
    let gone = async move { group.delete_component(STRAY).await };
    cluster.on(2, WAIT, gone).expect("in time").expect("it is deleted");
    assert!(matches!(answer(&cluster, OBJECT), Response::Fenced(_)));
    assert!(is_made(&cluster));
}

/// The third host was started anew, so that it knows of no session (seed 380002969).
#[test]
fn a_late_one_of_the_owner_is_no_record_of_before() {
    let cluster = Cluster::new(63, Mutations::default());
    cluster.create_as(record_on(&[1, 2, 3]));
    let newest = answer_to(&cluster, OBJECT, (Session(2), Version(8)));
    assert!(matches!(newest, Response::Fenced(_)), "{newest:?}");
    cluster.kill(2);
    cluster.boot(2);
    cluster.run(10.0);
    let late = answer_to(&cluster, OBJECT, (Session(1), Version(7)));
    assert!(matches!(late, Response::Refused { reason: Refusal::Session }), "{late:?}");
    let next = answer_to(&cluster, OBJECT, (Session(3), Version(8)));
    assert!(matches!(next, Response::Fenced(_)), "{next:?}");
}
