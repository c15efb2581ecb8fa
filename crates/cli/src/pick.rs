// SPDX-License-Identifier: Apache-2.0
//! Which volumes `gabion volume list` shows, and in which order; pure.

use crate::labels::{LabelColumn, LabelWanted, label_wanted};
use api::is_named;
use clap::{Args, ValueEnum};
use operator::{ComplianceState, Health, HostReport, VolumeReport, shards_of};
use std::cmp::Reverse;

/// What is asked for.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeChoice {
    /// Only those of this name: * is any text and ? one character; without them it is looked for
    /// anywhere in the name
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Only those with this label, whatever its value where none is said; as often as there are
    /// labels that they must have
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = label_wanted)]
    wanted: Vec<LabelWanted>,
    /// Only those of this health, or 'not-green'
    #[arg(long, value_enum, value_name = "HEALTH")]
    health: Option<Wanted>,
    /// Only those that follow this policy
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Only those with a copy on this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only those that are not as their rules ask for
    #[arg(long)]
    not_compliant: bool,
    /// Those that are deleted and can be brought back, instead of those that are there
    #[arg(long, conflicts_with_all = [
        "name", "wanted", "health", "policy", "host", "not_compliant", "reverse", "labels",
    ])]
    deleted: bool,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Name, value_name = "ORDER")]
    sort: Order,
    /// The other way round
    #[arg(long)]
    reverse: bool,
    /// Show their labels
    #[arg(long)]
    labels: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wanted {
    Green,
    Yellow,
    Red,
    NotGreen,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    /// By name
    #[default]
    Name,
    /// The largest first
    Size,
    /// The worst first
    Health,
    /// Those with most clients first
    Clients,
    /// Those with most to copy first
    Resync,
}

impl VolumeChoice {
    /// Whether deleted volumes are asked for.
    pub fn is_of_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether their labels are asked for.
    pub fn label_column(&self) -> LabelColumn {
        if self.labels { LabelColumn::Shown } else { LabelColumn::Hidden }
    }

    /// The volumes that are asked for. Among equals the order is that of the names.
    /// `hosts` are those of the cluster.
    pub fn of(&self, mut volumes: Vec<VolumeReport>, hosts: &[HostReport]) -> Vec<VolumeReport> {
        let shards = self.host.as_ref().map(|host| shards_of(hosts, host));
        volumes.retain(|volume| self.is_wanted(volume, shards.as_deref()));
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        let left = |volume: &VolumeReport| -> u64 {
            volume.components.iter().map(|copy| copy.resync_bytes_left).sum()
        };
        match self.sort {
            Order::Name => {}
            Order::Size => volumes.sort_by_key(|volume| Reverse(volume.size_bytes)),
            Order::Health => volumes.sort_by_key(|volume| Reverse(volume.health)),
            Order::Clients => volumes.sort_by_key(|volume| Reverse(volume.clients)),
            Order::Resync => volumes.sort_by_key(|volume| Reverse(left(volume))),
        }
        if self.reverse {
            volumes.reverse();
        }
        volumes
    }

    fn is_wanted(&self, volume: &VolumeReport, shards: Option<&[String]>) -> bool {
        let is_of_health = self.health.is_none_or(|wanted| match wanted {
            Wanted::Green => volume.health == Health::Green,
            Wanted::Yellow => volume.health == Health::Yellow,
            Wanted::Red => volume.health == Health::Red,
            Wanted::NotGreen => volume.health != Health::Green,
        });
        let has_copy =
            |shards: &[String]| volume.components.iter().any(|copy| shards.contains(&copy.host));
        let follows = |name: &String| volume.policy.as_ref().is_some_and(|one| one.name == *name);
        is_of_health
            && self.name.as_ref().is_none_or(|pattern| is_named(&volume.name, pattern))
            && self.wanted.iter().all(|label| label.is_in(&volume.labels))
            && self.policy.as_ref().is_none_or(follows)
            && shards.is_none_or(has_copy)
            && (!self.not_compliant || volume.compliance.state != ComplianceState::Compliant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, gib: u64, health: &str, host: &str) -> VolumeReport {
        serde_json::from_value(serde_json::json!({
            "name": name, "size_bytes": gib << 30, "ftt": 0, "health": health, "owner": null,
            "term": 1, "clients": 0, "nbd": [],
            "components": [{
                "id": "1", "host": host, "group": "1", "state": "active", "is_served": true,
                "resync_bytes_left": 0,
            }],
        }))
        .expect("a volume")
    }

    fn chosen(choice: &VolumeChoice) -> Vec<String> {
        let mut volumes = vec![
            volume("web2", 1, "green", "host2.1"),
            volume("db", 7, "yellow", "host1"),
            volume("web1", 7, "red", "host1"),
        ];
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        volumes[0].labels = [label("env", "prod"), label("tier", "web")].into();
        volumes[2].labels = [label("env", "test")].into();
        let host = |name: &str, of: Option<&str>| {
            let host = serde_json::json!({"name": name, "host": of, "state": "up", "peer": ""});
            serde_json::from_value(host).expect("a host")
        };
        let hosts = [host("host1", None), host("host2.1", Some("host2"))];
        choice.of(volumes, &hosts).into_iter().map(|volume| volume.name).collect()
    }

    #[test]
    fn volumes_are_chosen_by_all_that_is_said_and_sorted() {
        let all = VolumeChoice::default();
        assert_eq!(chosen(&all), ["db", "web1", "web2"]);
        let by = |sort| VolumeChoice { sort, ..all.clone() };
        assert_eq!(chosen(&by(Order::Size)), ["db", "web1", "web2"]);
        assert_eq!(chosen(&by(Order::Health)), ["web1", "db", "web2"]);
        let named = VolumeChoice { name: Some("web".to_owned()), ..all.clone() };
        assert_eq!(chosen(&named), ["web1", "web2"]);
        let host = Some("host1".to_owned());
        assert_eq!(chosen(&VolumeChoice { host, ..named.clone() }), ["web1"]);
        let host = Some("host2".to_owned());
        assert_eq!(chosen(&VolumeChoice { host, ..all.clone() }), ["web2"], "on a shard of it");
        let health = |health| VolumeChoice { health: Some(health), ..all.clone() };
        assert_eq!(chosen(&health(Wanted::NotGreen)), ["db", "web1"]);
        assert_eq!(chosen(&health(Wanted::Green)), ["web2"]);
        let labelled = |labels: &[&str]| {
            let wanted = labels.iter().map(|label| label_wanted(label).expect("a label"));
            VolumeChoice { wanted: wanted.collect(), ..all.clone() }
        };
        assert_eq!(chosen(&labelled(&["env"])), ["web1", "web2"]);
        assert_eq!(chosen(&labelled(&["env=prod"])), ["web2"]);
        assert_eq!(chosen(&labelled(&["env=prod", "tier"])), ["web2"]);
        assert!(chosen(&labelled(&["env=test", "tier"])).is_empty(), "all of them, or none");
        let pattern = |name: &str| VolumeChoice { name: Some(name.to_owned()), ..all.clone() };
        assert_eq!(chosen(&pattern("w*1")), ["web1"]);
        assert_eq!(chosen(&pattern("??")), ["db"]);
        let both = VolumeChoice { name: Some("*2".to_owned()), ..labelled(&["env=test"]) };
        assert!(chosen(&both).is_empty());
        let reverse = VolumeChoice { reverse: true, ..by(Order::Health) };
        assert_eq!(chosen(&reverse), ["web2", "db", "web1"]);
        let policy = VolumeChoice { policy: Some("gold".to_owned()), ..all };
        assert!(chosen(&policy).is_empty());
    }
}
