// SPDX-License-Identifier: Apache-2.0
//! The level of the cluster: what its hosts may use because the release of each of them knows it.
//!
//! Hosts are started with a new release one after the other, and each of them can go back until the
//! level is raised. A host that misses the raise because it was just started with an older release
//! ends by itself (`node/follow`), and does not start again (`membership`).

use super::volumes::directory_away;
use super::{Operations, Outcome, failed};
use base::{Map, ShardId};
use directory::{
    ALIVE_PREFIX, AliveRecord, ClusterRecord, Expect, HOST_PREFIX, Level, ShardRecord, Transaction,
    cluster_key,
};
use operator::{HostLevel, UpgradeReport};

impl Operations {
    /// Raises the level of the cluster to what all of its hosts know; with `check` it only tells.
    pub(super) async fn upgrade(&self, check: bool) -> Outcome<UpgradeReport> {
        let (record, revision) = self.cluster_record().await?;
        let hosts = self.levels().await?;
        let to = reachable(record.level, &hosts)?;
        let report = UpgradeReport {
            from: record.level.number(),
            to: to.number(),
            hosts: hosts
                .into_iter()
                .map(|(host, level)| HostLevel { host, level: level.map(Level::number) })
                .collect(),
        };
        if check || to == record.level {
            return Ok(report);
        }
        self.put_cluster(ClusterRecord { level: to, ..record }, revision).await?;
        Ok(report)
    }

    /// Changes the record of the cluster, and returns it.
    pub(super) async fn change_cluster(
        &self,
        change: impl FnOnce(ClusterRecord) -> ClusterRecord,
    ) -> Outcome<ClusterRecord> {
        let (record, revision) = self.cluster_record().await?;
        let changed = change(record);
        self.put_cluster(changed.clone(), revision).await?;
        Ok(changed)
    }

    async fn cluster_record(&self) -> Outcome<(ClusterRecord, u64)> {
        let entry = self.directory.get(&cluster_key()).await.map_err(directory_away)?;
        let entry = entry.ok_or_else(|| failed("the directory holds no cluster"))?;
        Ok((ClusterRecord::decode(&entry.value).map_err(failed)?, entry.revision))
    }

    async fn put_cluster(&self, record: ClusterRecord, before: u64) -> Outcome<()> {
        let put = Transaction::new().expect(cluster_key(), Expect::Revision(before));
        let sent = self.directory.transact(put.put(cluster_key(), record.encode())).await;
        match sent.map_err(directory_away)?.succeeded {
            true => Ok(()),
            false => Err(failed("somebody else changed the cluster meanwhile: try again")),
        }
    }

    /// What the release of each host knows; `None`: it is down. Read from the directory itself: a
    /// view may not know yet of a host that has just come.
    async fn levels(&self) -> Outcome<Vec<(String, Option<Level>)>> {
        let alive = self.directory.list(ALIVE_PREFIX).await.map_err(directory_away)?.entries;
        let alive = alive.into_iter().filter_map(|(key, entry)| {
            let level = AliveRecord::decode(&entry.value).ok().map(|alive| alive.level);
            Some((directory::parse_alive_key(&key)?, level))
        });
        let alive: Map<ShardId, Option<Level>> = alive.collect();
        let hosts = self.directory.list(HOST_PREFIX).await.map_err(directory_away)?.entries;
        let levels = hosts.into_iter().map(|(_, entry)| {
            let shard = ShardRecord::decode(&entry.value).map_err(failed)?;
            Ok((shard.name, alive.get(&shard.id).copied().flatten()))
        });
        levels.collect()
    }

    /// One line for each host whose release is too far from this one's.
    pub(super) fn release_alarms(&self) -> Vec<String> {
        let me = self.view.shard_name(self.me);
        let apart = self.seen.incompatible().into_iter();
        let told = apart.map(|(shard, theirs)| {
            let host = self.view.shard_name(shard);
            format!(
                "{host} speaks {theirs} of the frames between hosts, and {me} none of these: \
                 upgrade one release at a time, without leaving one out"
            )
        });
        told.collect()
    }

    /// Refuses what came with a level that the cluster does not have.
    pub(super) fn need(&self, level: Level, what: &str) -> Outcome<()> {
        let now = self.view.level();
        if now >= level {
            return Ok(());
        }
        Err(failed(format!(
            "{what} came with level {level}, and the cluster is at level {now}, so that its hosts \
             could still go back to an older release: see 'gabion cluster upgrade'"
        )))
    }
}

/// The level that a cluster at `now` can have with hosts that know so much.
fn reachable(now: Level, hosts: &[(String, Option<Level>)]) -> Outcome<Level> {
    let named = |wanted: &dyn Fn(Option<Level>) -> bool| {
        let all = hosts.iter().filter(|(_, level)| wanted(*level));
        all.map(|(host, _)| host.as_str()).collect::<Vec<_>>().join(", ")
    };
    if hosts.iter().any(|(_, level)| level.is_none()) {
        return Err(failed(format!(
            "{} does not run, so that nobody knows which release it has: start it, or take it out \
             of the cluster with 'gabion host remove' if it does not come back",
            named(&|level| level.is_none())
        )));
    }
    let known = || hosts.iter().filter_map(|(_, level)| *level);
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return Ok(now) };
    if least <= now && most > now {
        return Err(failed(format!(
            "{} has an older release, which knows what there is up to level {least}: start it with \
             the one that the others have first (level {most})",
            named(&|level| level == Some(least))
        )));
    }
    Ok(least.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(number: u32) -> Level {
        Level::new(number).expect("not zero")
    }

    /// Hosts a, b, c ... of these levels; 0: it is down.
    fn hosts(levels: &[u32]) -> Vec<(String, Option<Level>)> {
        let names = ('a'..).map(String::from);
        names.zip(levels.iter().map(|number| Level::new(*number))).collect()
    }

    #[test]
    fn a_cluster_reaches_what_all_hosts_know() {
        for (now, all, to) in [(1, &[2, 2, 2], 2), (1, &[3, 2, 3], 2), (2, &[2, 2, 2], 2)] {
            assert_eq!(reachable(level(now), &hosts(all)), Ok(level(to)), "{now} {all:?}");
        }
    }

    #[test]
    fn who_holds_it_up_is_named() {
        let older = reachable(level(1), &hosts(&[2, 1, 3])).expect_err("b is older").message;
        assert!(older.starts_with("b has an older release, which knows"), "{older}");
        assert!(older.contains("level 1") && older.contains("level 3"), "{older}");
        let down = reachable(level(1), &hosts(&[2, 0, 2, 0])).expect_err("two are down").message;
        assert!(down.starts_with("b, d does not run"), "{down}");
    }
}
