// SPDX-License-Identifier: Apache-2.0
//! Places many thin volumes in a large cluster, one after the other, and says how evenly: 64 hosts
//! of 5 shards in 8 racks, 12,800 volumes of 10 to 100 GiB with two copies each. How long it takes
//! the caller measures: `time cargo run --release -p placement --example plan`.

use base::{GroupId, Map, ShardId};
use placement::{Candidate, HostDomains, place};

const HOSTS: u32 = 64;
const SHARDS_EACH: u32 = 5;
const RACKS: u32 = 8;
const VOLUMES: u64 = 12_800;
const GIB: u64 = 1 << 30;
/// Of each shard.
const CAPACITY: u64 = 8 << 40;

fn main() {
    let shards = || (0..HOSTS * SHARDS_EACH).map(ShardId);
    let host = |shard: ShardId| shard.0 / SHARDS_EACH;
    let racks = shards().map(|shard| (shard, vec![format!("rack{}", host(shard) % RACKS)]));
    let machines = shards().map(|shard| (shard, format!("host{}", host(shard))));
    let domains = HostDomains::on_machines(racks, machines);
    let mut all: Vec<Candidate> = shards()
        .map(|shard| {
            let group = GroupId(u64::from(shard.0) + 1);
            Candidate { shard, group, free_bytes: CAPACITY, growth_bytes: 0, columns: 0 }
        })
        .collect();
    let mut on_hosts: Map<u32, u64> = Map::new();
    for volume in 0..VOLUMES {
        // Sizes without an order: 10 to 100 GiB.
        let size = (10 + volume * 7919 % 91) * GIB;
        let used_on = u32::try_from(volume % u64::from(HOSTS * SHARDS_EACH)).unwrap_or_default();
        let chosen = place(1, Some(ShardId(used_on)), &all, &[], &domains);
        let chosen = match chosen {
            Ok(chosen) => chosen,
            Err(error) => {
                println!("volume {volume}: {error}");
                return;
            }
        };
        assert!(!domains.is_shared(chosen[0].shard, chosen[1].shard), "two copies in one rack");
        for copy in chosen {
            let it = all.iter_mut().find(|it| it.shard == copy.shard);
            it.expect("one of them").growth_bytes += size;
            *on_hosts.entry(host(copy.shard)).or_default() += size;
        }
    }
    let (least, most) = (on_hosts.values().min(), on_hosts.values().max());
    let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
    println!("{VOLUMES} volumes on {HOSTS} hosts of {SHARDS_EACH} shards in {RACKS} racks");
    println!("promised on a host: {} to {} GiB", least / GIB, most / GIB);
}
