// SPDX-License-Identifier: Apache-2.0
//! In steady state a write allocates nothing, neither at its owner nor at the other copy's host.
//!
//! **Counted** is each call of the allocator, growth of a vector included, within the turns of one
//! host: all code of the product that runs there, so also destage, which goes on beside the writes,
//! and leases, pings and the directory's client, which hardly show.
//!
//! **Not counted** is what the simulator allocates for its own events, when a driver is called or
//! between turns; what the clients allocate for the content that they write, and for their tasks;
//! and what lies above an object (`volume`, `nbd`), which does not run here.
//!
//! What is allocated for a batch is shared by the writes in it: for a commit of the log, for a
//! frame's buffer that is sent or received, for a segment that is destaged. That is bounded too.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "the tests of faults use the rest")]
#[path = "cluster/cluster.rs"]
mod cluster;
#[path = "cluster/group.rs"]
mod group;
#[allow(dead_code, reason = "the tests of faults use the rest")]
#[path = "cluster/oracle.rs"]
mod oracle;

use base::{Rng, WriterEpoch};
use cluster::{Cluster, OBJECT, record_on};
use directory::ObjectRecord;
use env::{Env, TaskSet};
use object::{Mutations, Objects};
use oracle::Oracle;
use sim::{Around, DiskModel, HostKey, Latency, World, WorldOptions};
use std::cell::{Cell, RefCell};
use std::ops::Sub;
use std::rc::Rc;
use std::time::Duration;

/// Blocks of the object: as many as the write buffer holds.
const BLOCKS: u64 = 1 << 16;
const OWNER: usize = 0;
const REPLICA: usize = 1;

/// Allocations for each commit, at most. There are 12 or 13 where it carries one write, with what
/// is sent, received and destaged meanwhile.
const COMMIT_MAX: f64 = 16.0;
/// Allocations for each write beyond that, at most: a long commit takes several receives, its lists
/// grow, and destage keeps books.
const WRITE_MAX: f64 = 0.35;
/// The same where destage waits for its pace, by a timer, again and again.
const PACED_WRITE_MAX: f64 = 0.75;

/// Allocations within the turns of each host.
#[derive(Default)]
struct Counts(RefCell<Vec<u64>>);

impl Around for Counts {
    fn turn(&self, host: HostKey, turn: &mut dyn FnMut()) {
        let counted = allocation_counter::measure(turn);
        let mut of_hosts = self.0.borrow_mut();
        let hosts = of_hosts.len().max(host.index() + 1);
        of_hosts.resize(hosts, 0);
        of_hosts[host.index()] += counted.count_total;
    }

    fn call(&self, call: &mut dyn FnMut()) {
        allocation_counter::opt_out(call);
    }
}

fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let mut result = None;
    allocation_counter::opt_out(|| result = Some(work()));
    result.unwrap()
}

/// What happened at a host so far.
#[derive(Clone, Copy, Debug)]
struct Tally {
    allocations: u64,
    commits: u64,
    destaged: u64,
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            allocations: self.allocations - before.allocations,
            commits: self.commits - before.commits,
            destaged: self.destaged - before.destaged,
        }
    }
}

/// Writes of 4 KiB.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// So many at a time.
    depth: u64,
    writes: u64,
    /// To random blocks below this one.
    blocks: u64,
}

/// After this the write buffer is full, and destage is at work.
const FILL: Load = Load { depth: 128, writes: BLOCKS * 5 / 4, blocks: BLOCKS };

/// What the clients of a load have left to do, and have done.
#[derive(Default)]
struct Progress {
    left: Cell<u64>,
    done: Cell<u64>,
}

/// Writes random blocks below `blocks`, one after the other.
async fn client(env: Env, objects: Objects, blocks: u64, progress: Rc<Progress>) {
    let mut rng = Rng::new(env.random());
    while progress.left.get() > 0 {
        progress.left.set(progress.left.get() - 1);
        let range = Oracle::range(usize::try_from(rng.below(blocks)).unwrap());
        let (crcs, payload) = uncounted(|| {
            let mut buf = env.buf(usize::try_from(range.bytes()).unwrap());
            buf.fill(rng.below(256) as u8);
            let payload = buf.freeze();
            (wire::crcs_of(range, &payload), payload)
        });
        let kind = wire::WriteKind::Data;
        let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
        objects.write(OBJECT, &request, range, kind, crcs, payload).await.unwrap();
        progress.done.set(progress.done.get() + 1);
    }
}

struct Counted {
    cluster: Cluster,
    counts: Rc<Counts>,
}

impl Counted {
    /// An object with two copies, and its owner beside one of them.
    fn new(disk: DiskModel) -> Self {
        let counts = Rc::new(Counts::default());
        let world = World::new(WorldOptions { seed: 1, disk, ..WorldOptions::default() });
        world.run_within(Rc::clone(&counts) as Rc<dyn Around>);
        let cluster = Cluster::in_world(world, Mutations::default());
        cluster.create_as(ObjectRecord { sectors: BLOCKS * 8, ..record_on(&[1, 2]) });
        let objects = cluster.objects(OWNER).unwrap();
        let acquired = cluster.on(OWNER, Duration::from_secs(20), async move {
            objects.set_attached(OBJECT, true);
            objects.acquire(OBJECT).await
        });
        assert!(acquired.is_some_and(|result| result.is_ok()), "it is served");
        Self { cluster, counts }
    }

    fn write(&self, Load { depth, writes, blocks }: Load) {
        let env = self.cluster.world.env(self.cluster.hosts[OWNER].key).unwrap();
        let objects = self.cluster.objects(OWNER).unwrap();
        let progress = Rc::new(Progress::default());
        progress.left.set(writes);
        let tasks = TaskSet::default();
        for _ in 0..depth {
            let client = client(env.clone(), objects.clone(), blocks, Rc::clone(&progress));
            tasks.spawn(&env, "client", client);
        }
        let is_done = || progress.done.get() == writes;
        assert!(self.cluster.world.run_until(Duration::from_secs(60), is_done), "written in time");
    }

    fn tally(&self, at: usize) -> Tally {
        let host = &self.cluster.hosts[at];
        let status = host.group.borrow().as_ref().unwrap().status();
        Tally {
            allocations: self.counts.0.borrow()[host.key.index()],
            commits: status.commits,
            destaged: status.destaged_blocks,
        }
    }

    /// Runs a third of the load, so that tables, pools and kept boxes are as large as it needs
    /// them; then all of it. What that took at owner and replica, within what is allowed.
    fn steady(&self, load: Load, write_max: f64) -> [Tally; 2] {
        self.write(Load { writes: load.writes / 3, ..load });
        let before = [OWNER, REPLICA].map(|at| self.tally(at));
        self.write(load);
        let took = [OWNER, REPLICA].map(|at| self.tally(at) - before[at]);
        for (name, took) in ["owner", "replica"].iter().zip(took) {
            println!("{load:?}, {name}: {took:?}");
            let (writes, commits) = (load.writes as f64, took.commits as f64);
            let allocations = took.allocations as f64;
            assert!(
                allocations <= COMMIT_MAX * commits + write_max * writes,
                "{name}, depth {}: {:.2} allocations per write, {:.1} per commit",
                load.depth,
                allocations / writes,
                allocations / commits,
            );
        }
        took
    }
}

#[test]
fn a_write_allocates_nothing_at_its_owner_or_at_its_replica() {
    let counted = Counted::new(DiskModel::default());
    counted.write(FILL);
    for (depth, least) in [(1, 1), (16, 6), (128, 50)] {
        let load = Load { depth, writes: 1000 + 64 * depth, blocks: BLOCKS };
        for took in counted.steady(load, WRITE_MAX) {
            assert!(took.commits * least <= load.writes, "commits carry many writes: {took:?}");
            assert!(took.destaged * 8 > load.writes, "destage goes on beside them: {took:?}");
        }
    }
}

#[test]
fn nor_does_one_that_waits_for_another() {
    let counted = Counted::new(DiskModel::default());
    counted.write(Load { depth: 128, writes: 2000, blocks: BLOCKS });
    counted.steady(Load { depth: 128, writes: 3000, blocks: 32 }, WRITE_MAX);
}

#[test]
fn nor_does_one_that_waits_for_room_in_the_write_buffer() {
    // Destage writes so, and the log does not: appends are faster by far until they are held back.
    let write_cached = Latency::micros(20_000, 0, 2_000_000_000);
    let counted = Counted::new(DiskModel { write_cached, ..DiskModel::default() });
    counted.write(FILL);
    let load = Load { depth: 128, writes: 3000, blocks: BLOCKS };
    for took in counted.steady(load, PACED_WRITE_MAX) {
        // The rest of what is under way waits for the next one.
        assert!(load.writes < took.commits * 64, "commits take less than half: {took:?}");
    }
}
