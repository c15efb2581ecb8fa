// SPDX-License-Identifier: Apache-2.0
//! Records must say on which disk group each component is.

use super::*;

impl Cluster {
    /// The components that are not on the disk group that the directory's record names, and how
    /// many are.
    fn misplaced(&self) -> (Vec<String>, usize) {
        let (mut wrong, mut right) = (Vec::new(), 0);
        let records = self.node(0).expect("it runs").objects().records();
        let listed = records.iter().flat_map(|record| &record.components);
        for component in listed {
            let index = component.shard.0 as usize - 1;
            let groups = self.node(index).expect("it runs").groups();
            let mut holding = groups.iter().filter(|group| group.component(component.id).is_some());
            match holding.next().map(DiskGroup::id) {
                Some(id) if id == component.group => right += 1,
                found => wrong.push(format!("{component:?} is on {found:?}")),
            }
        }
        (wrong, right)
    }

    fn where_on(&self, index: usize, name: &str) -> String {
        let show = Command::VolumeShow { name: name.to_owned() };
        let report: VolumeReport =
            serde_json::from_value(self.ask(0, show).expect("it is there")).expect("a volume");
        let host = format!("host{}", index + 1);
        let component = report.components.into_iter().find(|c| c.host == host);
        component.expect("a copy is there").group
    }
}

#[test]
fn a_record_says_which_group_its_host_chose() {
    let cluster = start_with(61, 2);
    for name in ["a", "b", "c", "d"] {
        cluster.create(name, 8, 0).expect("there is room");
        assert_eq!(cluster.misplaced().0, Vec::<String>::new(), "before anybody owns it");
        cluster.fill(name, 0, 8);
    }
    assert_eq!(cluster.misplaced(), (Vec::new(), 12));
    let groups = ["a", "b", "c", "d"].map(|name| cluster.where_on(1, name));
    assert!(groups.iter().any(|group| *group != groups[0]), "both are used: {groups:?}");
}

#[test]
fn a_component_made_anew_on_another_group_has_its_record_corrected() {
    let cluster = start_with(62, 2);
    cluster.create("first", 8, 0).expect("there is room");
    cluster.fill("first", 0, 8);
    cluster.create("second", 8, 0).expect("there is room");
    cluster.fill("second", 0, 8);
    let (first, second) = (cluster.where_on(1, "first"), cluster.where_on(1, "second"));
    assert_ne!(first, second);
    cluster
        .ask(0, Command::VolumeDelete { name: "first".to_owned(), for_good: true })
        .expect("deleted");
    assert!(!cluster.world.run_until(SETTLE, || false));
    // The group with the remaining volume gets new devices. Placement would now choose the other
    // group of this host first.
    let groups = cluster.node(1).expect("it runs").groups();
    let at = groups.iter().position(|group| group.id().to_string() == second).expect("there");
    drop(groups);
    let cache = cluster.group(u32::try_from(at).expect("few")).cache;
    cluster.replace_devices(1, vec![cache], New::All);
    cluster.boot(1, |_, _| async {});
    wait_for_hosts(&cluster);
    let is_corrected = (0..60).any(|_| {
        assert!(!cluster.world.run_until(Duration::from_secs(1), || false));
        cluster.misplaced() == (Vec::new(), 3) && cluster.where_on(1, "second") == first
    });
    assert!(is_corrected, "{:?}", cluster.misplaced());
}
