// SPDX-License-Identifier: Apache-2.0
//! What volumes are called beside their names.

use super::life::HEARD;
use super::*;
use directory::{Connections, Labels};
use operator::PolicyRules;

/// Keys of labels and their values.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn labels(pairs: Pairs<'_>) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

impl Cluster {
    pub(in crate::cluster) fn label(
        &self,
        name: &str,
        set: Pairs<'_>,
        remove: &[&str],
    ) -> Result<VolumeReport, String> {
        let remove = remove.iter().map(|key| (*key).to_owned()).collect();
        let label = Command::VolumeLabel { name: name.to_owned(), set: labels(set), remove };
        self.ask(1, label).map(|volume| serde_json::from_value(volume).expect("a volume"))
    }

    /// Whether the only volume has these labels, on every host that has heard of a change.
    fn has_labels(&self, pairs: Pairs<'_>) -> bool {
        self.world.run_for(HEARD);
        let told = |host: usize| self.status(host).volumes.into_iter().map(|one| one.labels);
        (0..3).all(|host| told(host).eq([labels(pairs)]))
    }
}

fn create_labelled(cluster: &Cluster, pairs: Pairs<'_>) -> Result<(), String> {
    let new = NewVolume { labels: labels(pairs), ..NewVolume::new("db", 8 * MIB, 1) };
    cluster.ask(0, Command::VolumeCreate(new)).map(drop)
}

#[test]
fn labels_are_set_and_taken_away_as_a_whole_or_not_at_all() {
    let cluster = start(221);
    let refused = create_labelled(&cluster, &[("env-", "prod")]).expect_err("no key");
    assert!(refused.contains("'env-' is not the key of a label"), "{refused}");
    create_labelled(&cluster, &[("env", "prod"), ("tier", "db")]).expect("there is room");
    assert!(cluster.has_labels(&[("env", "prod"), ("tier", "db")]));
    // While a client uses it.
    let node = cluster.node(0).expect("it runs");
    let client = node.exports().attach("db").expect("a volume");
    let changed = cluster.label("db", &[("env", "test"), ("rack", "")], &["tier"]);
    let after: Pairs<'_> = &[("env", "test"), ("rack", "")];
    let changed = changed.expect("it has 'tier'");
    assert_eq!((changed.labels, changed.note), (labels(after), None));
    assert!(cluster.has_labels(after));
    drop(client);
    let same = cluster.label("db", &[("env", "test")], &[]).expect("it is so");
    assert!(same.note.is_some_and(|note| note.contains("nothing was changed")));
    let refused = |set, remove: &[&str]| cluster.label("db", set, remove).expect_err("it cannot");
    let why = refused(&[("env", "prod")], &["tier"]);
    assert!(why.contains("has no label 'tier': nothing was changed"), "{why}");
    assert!(refused(&[("env", "prod")], &["env"]).contains("both set and taken away"));
    assert!(refused(&[("env", "a b")], &["rack"]).contains("'a b' is not the value of a label"));
    let many: Vec<_> = (10..25).map(|n| format!("k{n}")).collect();
    let many: Vec<_> = many.iter().map(|key| (key.as_str(), "")).collect();
    assert!(refused(&many, &[]).contains("at most 16 labels, not 17"));
    assert!(cluster.label("web", after, &[]).expect_err("none").contains("no volume 'web'"));
    assert!(cluster.has_labels(after), "nothing of what was refused");
}

#[test]
fn a_volume_keeps_its_labels_through_all_that_becomes_of_it() {
    let cluster = start(222);
    let pairs: Pairs<'_> = &[("env", "prod"), ("example.org/tier", "db")];
    create_labelled(&cluster, pairs).expect("there is room");
    let name = || "db".to_owned();
    let ask = |command| cluster.ask(0, command).map(drop).expect("it can");
    let rules = PolicyRules { ftt: Some(2), ..PolicyRules::default() };
    ask(Command::PolicyCreate { name: "gold".to_owned(), rules });
    ask(Command::VolumeSetPolicy { name: name(), policy: Some("gold".to_owned()) });
    ask(Command::VolumeChange { name: name(), reserve_percent: 10 });
    ask(Command::VolumeConnections { name: name(), connections: Connections::Exclusive });
    cluster.grow("db", 11 * MIB).expect("there is room");
    assert!(cluster.has_labels(pairs));
    ask(Command::VolumeRename { name: name(), new: "old".to_owned() });
    assert!(cluster.has_labels(pairs));
    cluster.throw_away("old").expect("nobody uses it");
    cluster.world.run_for(HEARD);
    ask(Command::VolumeUndelete { volume: "old".to_owned(), name: None });
    assert!(cluster.has_labels(pairs));
}
