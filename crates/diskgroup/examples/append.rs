// SPDX-License-Identifier: Apache-2.0
//! Measures durable 4 KiB appends: `append FOLDER [SECONDS]`. Creates a cache file of 1 GiB and a
//! capacity file of 4 GiB there, and deletes neither.

use base::{ComponentId, GroupId, Lsn, ObjectId, SectorRange, Term};
use diskgroup::{Append, AppendKind, CreateSizes, DiskGroup, GroupOptions, GroupSpec};
use env::{Env, Fifo, join_all};
use ring::RingDriver;
use std::cell::Cell;
use std::time::Duration;

const ID: ComponentId = ComponentId(1);
const SECTORS: u64 = 1 << 21; // 1 GiB

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("usage: append FOLDER [SECONDS]");
    let seconds = arguments.next().map_or(3, |text| text.parse().expect("seconds"));
    let driver = RingDriver::new().expect("io_uring");
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let inner = env.clone();
    env.run(async move { measure(inner, folder, Duration::from_secs(seconds)).await });
    env.stop();
}

async fn measure(env: Env, folder: String, time: Duration) {
    let spec = GroupSpec {
        cache: format!("{folder}/cache"),
        capacity: vec![format!("{folder}/capacity")],
    };
    let sizes = CreateSizes { cache: 1 << 30, capacity: 4 << 30 };
    DiskGroup::format(&env, &spec, Some(sizes), true, GroupId(1)).await.expect("a group");
    env.sleep(Duration::from_millis(50)).await; // until the devices are closed
    let group = DiskGroup::open(&env, &spec, GroupOptions::default()).await.expect("a group");
    group.create_component(ID, ObjectId(1), SECTORS).await.expect("a component");
    let counter = Cell::new(0);
    for depth in [1_u64, 8, 32, 128] {
        let start = env.now();
        let writers = (0..depth).map(|_| one_writer(&env, &group, &counter, time));
        let mut times = join_all(writers.collect()).await.concat();
        times.sort_unstable();
        let rate = times.len() as f64 / env.now().since(start).as_secs_f64();
        let at = |part: usize| times[(times.len() - 1) * part / 1000];
        let fill = group.status().buffer_fill;
        println!(
            "depth {depth:3}: {rate:8.0} appends/s, p50 {:?}, p99 {:?}, fill {fill:.2}",
            at(500),
            at(990)
        );
    }
    println!("{:?}", group.status());
    group.close().await;
}

async fn one_writer(
    env: &Env,
    group: &DiskGroup,
    counter: &Cell<u64>,
    time: Duration,
) -> Vec<Duration> {
    let payload = env.pool().zeroed(4096).freeze();
    let crc = [base::crc32c(&payload)];
    let (start, mut times) = (env.now(), Vec::new());
    while env.now().since(start) < time {
        counter.set(counter.get() + 1);
        let (before, lsn, term) = (env.now(), Lsn::new(Term(1), counter.get()), Term(1));
        let range = SectorRange::new(env.random() % (SECTORS / 8) * 8, 8);
        let (kind, payload) = (AppendKind::Data, payload.clone());
        let append =
            Append { component: ID, lsn, term, range, kind, crcs: &crc, payload, marks: &[] };
        group.append(append).await.expect("an append");
        group.advance_commit(ID, lsn);
        times.push(env.now().since(before));
    }
    times
}
