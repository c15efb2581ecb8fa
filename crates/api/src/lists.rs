// SPDX-License-Identifier: Apache-2.0
//! Lists: parts of what all shards together say of the cluster, chosen by filters, page by page.

use crate::pattern::is_named;
use crate::problem::Problem;
use crate::routes::{Shape, shape};
use operator::{
    GroupReport, HostReport, ResyncReport, StatusReport, TrashedReport, VolumeReport, shards_of,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most items of a page, and how many it has where nothing is said.
pub const LIMIT_MAX: usize = 1000;
const LIMIT_DEFAULT: usize = 100;
/// Parameters that every list has, and what they are.
pub const PAGING: [(&str, &str); 2] = [
    ("limit", "Most items of the page, 1 to 1000; 100 where nothing is said"),
    ("after", "The 'next' of the page before"),
];

/// A list of the API.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Where, behind [`crate::PREFIX`].
    pub path: &'static str,
    /// What it is called in the description of the API.
    pub id: &'static str,
    /// What is in it.
    pub summary: &'static str,
    /// The type of its items.
    pub item: Shape,
    /// Its filters, and what they choose. An item is in the list if all that are given choose it.
    pub filters: &'static [(&'static str, &'static str)],
    items: for<'a> fn(&'a StatusReport, &Filters) -> Vec<Keyed<'a>>,
}

/// An item, and what it is found by again. Only those of a page become JSON.
type Keyed<'a> = (String, &'a dyn Item);

trait Item {
    fn json(&self) -> Value;
}

impl<T: Serialize> Item for T {
    fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

const NAME: (&str, &str) =
    ("name", "Of this name: * is any text and ? one character; without them, anywhere in it");
const HOST: (&str, &str) = ("host", "On this host, or on this shard");

/// All lists.
pub const LISTS: &[List] = &[
    List {
        path: "/volumes",
        id: "volume_list",
        summary: "The volumes, by name",
        item: shape::<VolumeReport>(),
        filters: &[
            NAME,
            ("health", "Of this health: green, yellow or red"),
            ("policy", "That follow this policy"),
            ("host", "With a copy on this host, or on this shard"),
            ("label", "With this label: KEY, or KEY=VALUE"),
            ("compliance", "In this state: compliant, or another of compliance.state"),
        ],
        items: volumes,
    },
    List {
        path: "/deleted-volumes",
        id: "deleted_volume_list",
        summary: "Deleted volumes that can be brought back, by id",
        item: shape::<TrashedReport>(),
        filters: &[NAME],
        items: |report, filters| {
            let known = report.trash.iter().filter(|volume| filters.names(&volume.name));
            known.map(|volume| keyed(volume.id.clone(), volume)).collect()
        },
    },
    List {
        path: "/shards",
        id: "shard_list",
        summary: "The shards of all hosts, by name",
        item: shape::<HostReport>(),
        filters: &[HOST, ("state", "In this state: up, or another of state")],
        items: |report, filters| {
            let known = report.hosts.iter().filter(|shard| {
                filters.hosts(&shard.name) && filters.chooses("state", &shard.state)
            });
            known.map(|shard| keyed(shard.name.clone(), shard)).collect()
        },
    },
    List {
        path: "/groups",
        id: "group_list",
        summary: "The disk groups of all hosts",
        item: shape::<GroupReport>(),
        filters: &[HOST, ("health", "Of this health: green, yellow or red")],
        items: |report, filters| {
            let known = report.groups.iter().filter(|group| {
                filters.hosts(&group.host) && filters.chooses("health", &group.health)
            });
            // One that did not open has no id: its place among those of its shard is as good.
            let key =
                |(at, group): (usize, &GroupReport)| format!("{}/{}/{at:04}", group.host, group.id);
            known.enumerate().map(|(at, group)| keyed(key((at, group)), group)).collect()
        },
    },
    List {
        path: "/resyncs",
        id: "resync_list",
        summary: "What is being copied, or waits for it",
        item: shape::<ResyncReport>(),
        filters: &[HOST, ("volume", "Of this volume")],
        items: |report, filters| {
            let known = report.resyncs.iter().filter(|resync| {
                filters.hosts(&resync.host) && filters.says("volume", Some(&resync.volume))
            });
            let key = |it: &ResyncReport| format!("{}/{:08}/{}", it.volume, it.object, it.host);
            known.map(|resync| keyed(key(resync), resync)).collect()
        },
    },
];

fn keyed<T: Serialize>(key: String, item: &T) -> Keyed<'_> {
    (key, item)
}

fn volumes<'a>(report: &'a StatusReport, filters: &Filters) -> Vec<Keyed<'a>> {
    let is_wanted = |volume: &&VolumeReport| {
        let policy = volume.policy.as_ref().map(|policy| policy.name.as_str());
        let mut copies = volume.components.iter();
        filters.names(&volume.name)
            && filters.says("policy", policy)
            && filters.labels(volume)
            && filters.chooses("health", &volume.health)
            && filters.chooses("compliance", &volume.compliance.state)
            && (!filters.has("host") || copies.any(|copy| filters.hosts(&copy.host)))
    };
    let wanted = report.volumes.iter().filter(is_wanted);
    wanted.map(|volume| keyed(volume.name.clone(), volume)).collect()
}

/// The filters of a request: name and value.
#[derive(Clone, Debug, Default)]
struct Filters {
    said: BTreeMap<String, String>,
    /// The shards that the filter `host` is of, if it is given.
    shards: Option<Vec<String>>,
}

impl Filters {
    fn has(&self, filter: &str) -> bool {
        self.said.contains_key(filter)
    }

    /// Whether a filter chooses what has this value; one that is not given chooses all.
    fn says(&self, filter: &str, value: Option<&str>) -> bool {
        self.said.get(filter).is_none_or(|wanted| value == Some(wanted))
    }

    /// The same of a word that a type stands for.
    fn chooses(&self, filter: &str, word: &impl Serialize) -> bool {
        !self.has(filter) || self.says(filter, word.json().as_str())
    }

    fn names(&self, name: &str) -> bool {
        self.said.get("name").is_none_or(|pattern| is_named(name, pattern))
    }

    fn hosts(&self, shard: &str) -> bool {
        self.shards.as_ref().is_none_or(|shards| shards.iter().any(|name| name == shard))
    }

    fn labels(&self, volume: &VolumeReport) -> bool {
        let Some(wanted) = self.said.get("label") else { return true };
        match wanted.split_once('=') {
            Some((key, value)) => volume.labels.get(key).is_some_and(|found| found == value),
            None => volume.labels.contains_key(wanted),
        }
    }
}

impl List {
    /// All of its items, each with its key.
    pub(crate) fn all(&self, report: &StatusReport) -> Vec<(String, Value)> {
        let items = (self.items)(report, &Filters::default());
        items.into_iter().map(|(key, item)| (key, item.json())).collect()
    }

    /// The page that a query asks for: `items`, how many there are on all pages together in
    /// `total`, and in `next` where the next page begins, or null behind the last.
    ///
    /// # Errors
    /// What is wrong with the query.
    pub fn page(
        &self,
        report: &StatusReport,
        query: &[(String, String)],
    ) -> Result<Value, Problem> {
        let mut filters = Filters::default();
        let (mut limit, mut after) = (LIMIT_DEFAULT, None);
        for (name, value) in query {
            match name.as_str() {
                "limit" => {
                    let read = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    let wrong = || Problem::usage("'limit' is a number from 1 to 1000");
                    limit = read.ok_or_else(wrong)?;
                }
                "after" => after = Some(value.as_str()),
                filter if self.filters.iter().any(|(known, _)| *known == filter) => {
                    if filters.said.insert(filter.to_owned(), value.clone()).is_some() {
                        return Err(Problem::usage(format!("'{filter}' is there twice")));
                    }
                }
                other => return Err(self.no_filter(other)),
            }
        }
        filters.shards = filters.said.get("host").map(|host| shards_of(&report.hosts, host));
        let mut items = (self.items)(report, &filters);
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
        let total = items.len();
        items.retain(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        let is_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| is_more).map(|(key, _)| key.clone());
        let items: Vec<Value> = items.into_iter().map(|(_, item)| item.json()).collect();
        Ok(json!({ "items": items, "total": total, "next": next }))
    }

    fn no_filter(&self, name: &str) -> Problem {
        let known: Vec<&str> = self.filters.iter().chain(&PAGING).map(|(name, _)| *name).collect();
        let name = name.escape_debug();
        Problem::usage(format!("there is no filter '{name}' here; there are: {}", known.join(", ")))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn status() -> StatusReport {
        let volume = |name: &str, health: &str, host: &str| {
            json!({
                "name": name, "size_bytes": 1, "ftt": 0, "health": health, "owner": null,
                "term": 1, "clients": 0, "nbd": [], "labels": { "env": name },
                "components": [{
                    "id": "1", "host": host, "group": "1", "state": "active", "is_served": true,
                    "resync_bytes_left": 0,
                }],
            })
        };
        let shard = |name: &str, host: Value| {
            json!({
                "name": name, "host": host, "state": "up", "peer": "",
            })
        };
        serde_json::from_value(json!({
            "host": "host1", "health": "green", "directory": true, "alarms": [],
            "hosts": [shard("host1", Value::Null), shard("host2.1", json!("host2"))],
            "volumes": [
                volume("web2", "green", "host2.1"),
                volume("db", "yellow", "host1"),
                volume("web1", "red", "host1"),
            ],
            "groups": [],
        }))
        .expect("a status")
    }

    fn ask(path: &str, query: &[(&str, &str)]) -> Result<Value, Problem> {
        let list = LISTS.iter().find(|list| list.path == path).expect("a list");
        let owned = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        list.page(&status(), &owned.collect::<Vec<_>>())
    }

    fn names(query: &[(&str, &str)]) -> Vec<String> {
        let page = ask("/volumes", query).expect("a page");
        let items = page["items"].as_array().expect("items");
        items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    }

    #[test]
    fn all_filters_that_are_given_choose() {
        assert_eq!(names(&[]), ["db", "web1", "web2"]);
        assert_eq!(names(&[("name", "web")]), ["web1", "web2"]);
        assert_eq!(names(&[("name", "w*2")]), ["web2"]);
        assert_eq!(names(&[("health", "red")]), ["web1"]);
        assert_eq!(names(&[("host", "host2")]), ["web2"], "on a shard of it");
        assert_eq!(names(&[("host", "host1"), ("name", "web")]), ["web1"]);
        assert_eq!(names(&[("label", "env=db")]), ["db"]);
        assert_eq!(names(&[("label", "env")]).len(), 3);
        assert!(names(&[("policy", "gold")]).is_empty());
        assert_eq!(names(&[("compliance", "compliant")]).len(), 3);
        assert_eq!(ask("/shards", &[("host", "host2")]).expect("a page")["total"], 1);
        assert_eq!(ask("/shards", &[("state", "down")]).expect("a page")["total"], 0);
    }

    /// Also where what a page ended with is gone when the next one is asked for.
    #[test]
    fn pages_follow_each_other_to_the_end() {
        let first = ask("/volumes", &[("limit", "2")]).expect("a page");
        assert_eq!((&first["total"], &first["next"]), (&json!(3), &json!("web1")));
        assert_eq!(names(&[("limit", "2"), ("after", "web1")]), ["web2"]);
        assert_eq!(names(&[("after", "web0")]), ["web1", "web2"]);
        let last = ask("/volumes", &[("limit", "3")]).expect("a page");
        assert_eq!(last["next"], Value::Null, "there is nothing behind it");
        assert!(names(&[("after", "zzz")]).is_empty());
    }

    #[test]
    fn what_a_list_does_not_know_is_refused() {
        for (query, said) in [
            (&[("limit", "0")][..], "1 to 1000"),
            (&[("limit", "1001")], "1 to 1000"),
            (&[("color", "red")], "there are: name, health"),
            (&[("health", "red"), ("health", "green")], "twice"),
        ] {
            let problem = ask("/volumes", query).expect_err("refused");
            assert!(problem.status == 400 && problem.detail.contains(said), "{problem:?}");
        }
        assert!(ask("/resyncs", &[]).is_ok() && ask("/groups", &[("host", "x")]).is_ok());
    }
}
