// SPDX-License-Identifier: Apache-2.0
//! A header in the log's open segment rots while its host is down. Nothing else on the host tells
//! what the header said.

use super::*;
use format::Commit;

impl Cluster {
    /// The host goes down in the middle of its clients' writes, and a header that is not the newest
    /// rots. Returns where the segment begins, and its bytes then.
    fn rot_open_header(&self, index: usize, is_error: bool) -> (u64, Vec<u8>) {
        let group = self.node(index).expect("it runs").groups().remove(0);
        let segment = group.open_segment().expect("it is there");
        drop(group);
        self.take_down(index, true);
        let (world, key) = (&self.world, self.machines[index].key);
        let used = usize::try_from(segment.used).expect("a segment");
        let bytes = world.read_raw(key, "cache0", segment.start, used);
        let (mut headers, mut at) = (Vec::new(), 0);
        while let Some(Ok((commit, ..))) =
            bytes.get(at..).filter(|b| !b.is_empty()).map(|b| Commit::decode(segment.device, b))
        {
            headers.push(segment.start + at as u64);
            at += usize::try_from(commit.length).expect("a commit");
        }
        assert!(headers.len() > 2, "{} commits", headers.len());
        let offset = headers[headers.len() / 2];
        match is_error {
            true => {
                let bad = DiskFault::BadRange { offset, len: 4096 };
                self.fault(index, "cache0", bad);
            }
            false => world.flip_bits(key, "cache0", offset + 12, 1),
        }
        (segment.start, world.read_raw(key, "cache0", segment.start, used))
    }

    fn empty_buffers(&self) {
        self.settle_on_capacity();
        for node in (0..3).filter_map(|index| self.node(index)) {
            node.groups().iter().for_each(|group| group.drain_buffer(false));
        }
    }
}

#[test]
fn a_group_whose_log_rotted_opens_without_what_others_have() {
    for (seed, index, is_error) in [(31, 0, false), (32, 1, false), (33, 0, true), (34, 2, true)] {
        let cluster = start(seed);
        cluster.create("db", 64, 0).expect("there is room");
        assert_eq!(cluster.fill("db", 0, 40), 40);
        cluster.empty_buffers();
        assert_eq!(cluster.fill("db", 20, 40), 20);
        cluster.rot_open_header(index, is_error);
        cluster.boot(index, |_, _| async {});
        wait_for_hosts(&cluster);
        let mut seconds = 0;
        while !cluster.is_green() || !cluster.status(index).groups[0].is_open {
            seconds += 1;
            let groups = cluster.status(index).groups;
            assert!(seconds < 200, "seed {seed}: it does not come back: {groups:?}");
            cluster.world.run_for(Duration::from_secs(1));
        }
        let group = cluster.status(index).groups.remove(0);
        assert_eq!((group.state.as_str(), group.rotten_log_blocks), ("ok", 1));
        let [line] = group.attention.as_slice() else { panic!("{group:?}") };
        assert!(line.contains("1 block of the write buffer's log on cache0 was rotten"), "{line}");
        assert!(cluster.read_filled("db", 40) < 1000);
        // This host's copy is as good as any other: alone it serves everything.
        for other in (0..3).filter(|other| *other != index) {
            cluster.take_down(other, false);
        }
        cluster.world.run_for(Duration::from_secs(30));
        cluster.boot((index + 1) % 3, |_, _| async {});
        cluster.boot((index + 2) % 3, |_, _| async {});
        wait_for_hosts(&cluster);
        assert!(cluster.read_filled("db", 40) < 60_000);
    }
}

#[test]
fn a_group_whose_log_rotted_stays_as_it_is_where_it_has_the_only_copy() {
    let cluster = start(35);
    let hosts = cluster.create_on(1, "solo", 64, 0).expect("there is room");
    let index = (0..3).find(|index| hosts[0] == format!("host{}", index + 1)).expect("a host");
    cluster.create("db", 64, 0).expect("there is room");
    cluster.empty_buffers();
    assert_eq!(cluster.fill("db", 0, 20) + cluster.fill("solo", 0, 20), 40);
    let (start, before) = cluster.rot_open_header(index, false);
    cluster.boot(index, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.world.run_for(Duration::from_secs(300));
    let group = cluster.status(index).groups.remove(0);
    assert!(!group.is_open, "{group:?}");
    for part in ["log segment", "is damaged", "others are known to have", "disk replace cache0"] {
        assert!(group.state.contains(part), "{part}: {}", group.state);
    }
    let key = cluster.machines[index].key;
    let after = cluster.world.read_raw(key, "cache0", start, before.len());
    assert!(after == before, "what it has is left as it is");
}
