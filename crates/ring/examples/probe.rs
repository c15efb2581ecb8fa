// SPDX-License-Identifier: Apache-2.0
//! Measures durable 4 KiB writes at several depths: `probe FILE [SECONDS]`, the seconds for each
//! depth. If the file is missing, it is created with 256 MiB. It is filled first, so that the
//! writes that are measured only overwrite.

use env::{Durability, Env, Fifo, OpenDisk, join_all};
use ring::RingDriver;
use std::time::Duration;

const SIZE: u64 = 256 << 20;
const STEP: usize = 1 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: probe FILE [SECONDS]");
    let seconds = arguments.next().map_or(3, |text| text.parse().expect("seconds"));
    let driver = RingDriver::new().expect("io_uring");
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let inner = env.clone();
    env.run(async move { measure(inner, path, Duration::from_secs(seconds)).await });
    env.stop();
}

async fn measure(env: Env, path: String, time: Duration) {
    let disk = env.open_disk(OpenDisk { path, create: Some(SIZE) }).await.expect("a disk");
    let fill = env.pool().zeroed(STEP).freeze();
    for offset in (0..SIZE.min(disk.info().size)).step_by(STEP) {
        disk.write(offset, fill.clone(), Durability::Cached).await.expect("a write");
    }
    disk.flush().await.expect("a flush");
    let blocks = SIZE.min(disk.info().size) / 4096;
    for depth in [1_u64, 8, 32, 128] {
        let start = env.now();
        let writers = (0..depth).map(|_| {
            let (env, disk, from) = (env.clone(), disk.clone(), fill.slice(0..4096));
            async move {
                let mut times = Vec::new();
                while env.now().since(start) < time {
                    let (before, block) = (env.now(), env.random() % blocks);
                    let write = disk.write(block * 4096, from.clone(), Durability::Durable);
                    write.await.expect("a write");
                    times.push(env.now().since(before));
                }
                times
            }
        });
        let mut times = join_all(writers.collect()).await.concat();
        times.sort_unstable();
        let rate = times.len() as f64 / env.now().since(start).as_secs_f64();
        let at = |part: usize| times[(times.len() - 1) * part / 1000];
        println!(
            "depth {depth:3}: {rate:8.0} writes/s, p50 {:?}, p99 {:?}, p99.9 {:?}",
            at(500),
            at(990),
            at(999)
        );
    }
}
