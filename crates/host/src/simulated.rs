// SPDX-License-Identifier: Apache-2.0
//! What the tests of this crate share: a directory in a simulated world, and records.

use base::{
    ComponentId, GroupId, Lsn, ObjectId, Seat, ShardId, Term, Version, VolumeId, WriterEpoch,
};
use directory::{
    ClusterKind, ClusterRecord, ComponentRecord, ComponentState, Connections, Directory, Labels,
    Level, MemoryBackend, ObjectRecord, ServerFaults, VolumeRecord, Writing, serve_with,
};
use env::{Address, Env};
use sim::{HostKey, World, WorldOptions};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// An all-flash cluster of this id.
pub(crate) fn cluster(id: u64) -> ClusterRecord {
    let (name, kind) = ("gabion".to_owned(), ClusterKind::AllFlash);
    ClusterRecord { id, name, kind, level: Level::NEWEST }
}

/// A component of an object, on a host.
pub(crate) fn component(id: u64, host: u32, state: ComponentState) -> ComponentRecord {
    ComponentRecord {
        id: ComponentId(id),
        shard: ShardId(host),
        group: GroupId(1),
        state,
        seat: Seat(1),
        left: Lsn::ZERO,
        replaces: None,
    }
}

/// An object of 4 KiB that nobody ever owned.
pub(crate) fn object(id: u64, volume: VolumeId, components: Vec<ComponentRecord>) -> ObjectRecord {
    ObjectRecord {
        id: ObjectId(id),
        volume,
        sectors: 8,
        version: Version(1),
        term: Term(0),
        owner: None,
        handover: None,
        components,
        removed: Vec::new(),
        claims: Vec::new(),
        is_doubted: false,
        writer_epoch: WriterEpoch::ANY,
    }
}

/// A volume of one copy, with rules of its own, that any host writes to.
pub(crate) fn volume(id: VolumeId, name: &str, objects: &[ObjectRecord]) -> VolumeRecord {
    VolumeRecord {
        id,
        name: name.to_owned(),
        size_bytes: objects.iter().map(|one| one.sectors * base::SECTOR_SIZE).sum(),
        ftt: 0,
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
        objects: objects.iter().map(|one| one.id).collect(),
    }
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// Where the directory listens.
pub(crate) fn address() -> Address {
    Address::Tcp(SocketAddr::from((SERVER, 2379)))
}

/// Runs `test` on a machine of its own beside a directory without faults.
pub(crate) fn with_directory<F>(test: impl FnOnce(Env, Directory) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    with_faults(1, ServerFaults::default(), test);
}

/// As [`with_directory`], with a directory that fails as `faults` say.
pub(crate) fn with_faults<F>(
    seed: u64,
    faults: ServerFaults,
    test: impl FnOnce(Env, Directory) -> F + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    boot_directory(&world, faults);
    let done = boot_client(&world, CLIENT, test).1;
    assert!(world.run_until(Duration::from_secs(900), || done.get()), "the test never ends");
}

/// Runs `far` on a machine from which each message to or from the directory takes `delay`, and
/// `near` on another one, until both end.
pub(crate) fn with_far_directory<F, N>(
    seed: u64,
    delay: Duration,
    far: impl FnOnce(Env, Directory) -> F + 'static,
    near: impl FnOnce(Env, Directory) -> N + 'static,
) where
    F: Future<Output = ()> + 'static,
    N: Future<Output = ()> + 'static,
{
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let server = boot_directory(&world, ServerFaults::default());
    let (key, far) = boot_client(&world, FAR, far);
    world.clog(server, key, delay);
    let near = boot_client(&world, CLIENT, near).1;
    let is_over = || far.get() && near.get();
    assert!(world.run_until(Duration::from_secs(900), is_over), "the test never ends");
}

fn boot_directory(world: &World, faults: ServerFaults) -> HostKey {
    let server = world.add_host("directory", IpAddr::V4(SERVER));
    world.boot(server, move |env: Env| {
        Box::pin(async move {
            let listener = env.listen(address()).await.expect("a listener");
            let end = serve_with(&env, listener, Rc::new(MemoryBackend::default()), faults).await;
            panic!("the server ended: {end:?}");
        })
    });
    server
}

/// A machine that runs `test`, and whether that is over.
fn boot_client<F>(
    world: &World,
    address_of: Ipv4Addr,
    test: impl FnOnce(Env, Directory) -> F + 'static,
) -> (HostKey, Rc<Cell<bool>>)
where
    F: Future<Output = ()> + 'static,
{
    let client = world.add_host(&format!("client at {address_of}"), IpAddr::V4(address_of));
    let done = Rc::new(Cell::new(false));
    let flag = Rc::clone(&done);
    world.boot(client, move |env: Env| {
        Box::pin(async move {
            test(env.clone(), Directory::connect(&env, address())).await;
            flag.set(true);
        })
    });
    (client, done)
}
