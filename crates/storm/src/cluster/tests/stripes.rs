// SPDX-License-Identifier: Apache-2.0
//! Volumes that are striped over several objects.

use super::life::HEARD;
use super::*;
use operator::{ComplianceState, PolicyReport, PolicyRules};
use std::collections::BTreeMap;

/// Bytes of each stripe unit are its number, from 1 on.
fn fill_of(unit: u64) -> u8 {
    u8::try_from(unit + 1).expect("a small volume")
}

impl Cluster {
    pub(in crate::cluster) fn create_striped(&self, mib: u64, width: u8) -> VolumeReport {
        let create = Command::VolumeCreate(NewVolume {
            stripe_width: width,
            writers: Some(Writers::Any),
            ..NewVolume::new("db", mib * MIB, 1)
        });
        serde_json::from_value(self.ask(0, create).expect("there is room")).expect("a volume")
    }

    /// Fills these units.
    pub(in crate::cluster) fn put_units(&self, index: usize, units: std::ops::Range<u64>) {
        for unit in units {
            self.put(index, "db", (unit * MIB, 1 << 20), fill_of(unit));
        }
    }

    /// Whether each of these units is as it was filled.
    pub(in crate::cluster) fn has_units(&self, index: usize, units: std::ops::Range<u64>) -> bool {
        units
            .into_iter()
            .all(|unit| self.look(index, "db", (unit * MIB, MIB)) == Some(fill_of(unit)))
    }

    /// What is allocated from a place on, in one answer: bytes, and whether.
    fn extents(&self, index: usize, offset: u64, bytes: u64) -> Vec<(u64, bool)> {
        let node = self.node(index).expect("it runs");
        self.on(index, async move |_| {
            let device = node.exports().attach("db").expect("a volume");
            let extents = device.extents(offset, bytes).await.expect("it answers");
            extents.iter().map(|extent| (extent.bytes, extent.is_allocated)).collect()
        })
    }
}

#[test]
fn a_striped_volume_is_one_disk_whose_parts_take_turns() {
    let cluster = start(211);
    let made = cluster.create_striped(10, 3);
    assert_eq!((made.components.len(), made.stripe_width), (6, 3));
    cluster.put_units(0, 0..4);
    cluster.put_units(1, 8..9);
    assert!(cluster.has_units(2, 0..4) && cluster.has_units(0, 8..9));
    assert_eq!(cluster.look(1, "db", (4 * MIB, 4 * MIB)), Some(0));
    // One write over all parts, and its neighbours.
    cluster.put(2, "db", (4 * MIB + 4096, 3 << 20), 99);
    assert_eq!(cluster.look(0, "db", (4 * MIB + 4096, 3 * MIB)), Some(99));
    assert_eq!(cluster.look(1, "db", (4 * MIB, 4096)), Some(0));
    assert!(cluster.has_units(1, 0..4));
    // Each part has what is its own: four, three and three units.
    let records = cluster.records.volume("db").expect("its record");
    let sizes: Vec<u64> = records.layout().sizes().collect();
    assert_eq!(sizes, [4, 3, 3].map(|units| units * MIB / 512));
}

/// Clients that copy a volume ask for large ranges, and are answered by all parts at once.
#[test]
fn block_status_of_a_striped_volume_is_that_of_the_volume() {
    // Of what an owner has no copy itself, it says nothing but that it may hold data.
    let cluster = start_hosts(212, 2, 1);
    cluster.create_striped(10, 3);
    assert_eq!(cluster.extents(0, 0, 10 * MIB), [(10 * MIB, false)]);
    for unit in [0, 1, 3, 8] {
        cluster.put(0, "db", (unit * MIB, 1 << 20), 7);
    }
    let expected = [(2, true), (1, false), (1, true), (4, false), (1, true), (1, false)];
    let expected = expected.map(|(units, is_allocated)| (units * MIB, is_allocated));
    for index in 0..2 {
        assert_eq!(cluster.extents(index, 0, 10 * MIB), expected, "through host{}", index + 1);
    }
    let half = MIB / 2;
    assert_eq!(cluster.extents(1, 2 * MIB + half, MIB), [(half, false), (half, true)]);
}

#[test]
fn the_parts_of_a_striped_volume_share_the_disk_groups() {
    let cluster = start_hosts(213, 4, 1);
    let made = cluster.create_striped(16, 4);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    made.components.iter().for_each(|part| *counts.entry(&part.host).or_default() += 1);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2; 4], "{:?}", made.components);
    // One host is lost, and each part has another copy.
    cluster.put_units(0, 0..16);
    cluster.take_down(3, true);
    assert!(cluster.has_units(0, 0..16));
}

#[test]
fn a_striped_volume_grows_by_stripes_and_keeps_what_it_had() {
    let cluster = start(214);
    cluster.create_striped(5, 2);
    cluster.put_units(0, 0..5);
    let open = cluster.node(2).expect("it runs").exports().attach("db").expect("a volume");
    let grown = cluster.grow("db", 12 * MIB).expect("there is room");
    assert_eq!((grown.components.len(), grown.otherwise_striped_bytes), (8, 0));
    cluster.world.run_for(HEARD);
    assert_eq!(open.size(), 12 * MIB, "it was open");
    cluster.put_units(2, 5..12);
    assert!(cluster.has_units(1, 0..12));
    let layout = cluster.records.volume("db").expect("its record").layout();
    let sets: Vec<(u64, u8)> =
        layout.sets().map(|set| (set.range.bytes() / MIB, set.width)).collect();
    assert_eq!(sets, [(5, 2), (7, 2)]);
}

#[test]
fn another_width_counts_for_what_a_volume_gets_from_then_on() {
    let cluster = start(215);
    let rules = |width| PolicyRules { stripe_width: Some(width), ..PolicyRules::default() };
    let create = Command::PolicyCreate { name: "wide".to_owned(), rules: rules(3) };
    let policy: PolicyReport =
        serde_json::from_value(cluster.ask(0, create).expect("a policy")).expect("a policy");
    assert_eq!(policy.stripe_width, 3);
    let create = Command::PolicyCreate { name: "none".to_owned(), rules: rules(13) };
    let refused = cluster.ask(0, create).expect_err("12 is the most");
    assert!(refused.contains("--stripe-width 13") && refused.contains("to 12"), "{refused}");
    cluster.create_striped(4, 1);
    cluster.world.run_for(HEARD);
    let set = Command::VolumeSetPolicy { name: "db".to_owned(), policy: Some("wide".to_owned()) };
    cluster.ask(0, set).expect("it changes");
    let volume = |cluster: &Cluster| cluster.status(0).volumes.remove(0);
    let before = volume(&cluster);
    assert_eq!(before.otherwise_striped_bytes, 4 * MIB);
    assert_eq!(before.compliance.state, ComplianceState::NotCompliant);
    assert!(before.compliance.why.iter().any(|why| why.contains("copy it")), "{before:?}");
    let grown = cluster.grow("db", 10 * MIB).expect("there is room");
    assert_eq!((grown.components.len(), grown.otherwise_striped_bytes), (8, 4 * MIB));
    cluster.put_units(1, 0..10);
    assert!(cluster.has_units(0, 0..10));
}
