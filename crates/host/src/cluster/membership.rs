// SPDX-License-Identifier: Apache-2.0
//! Being a member: the right cluster, a new incarnation at every start, the host's record.

use crate::config::HostConfig;
use crate::start_error::StartError;
use base::{Incarnation, Map, ShardId};
use directory::{
    ClusterRecord, Directory, DirectoryError, Entry, Expect, Level, SettingsRecord, ShardRecord,
    Transaction, settings_key,
};
use env::Env;
use std::time::Duration;
use tracing::warn;

/// Time between attempts while the directory is away.
const RETRY: Duration = Duration::from_millis(200);

/// Attempts against a host that takes a number at the same moment: it starts that often at most.
const RAISES_MAX: u32 = 20;
/// Numbers raised in one transaction: each also takes a comparison, and etcd takes 128.
const RUNS_MAX: usize = 96;

/// Keys of the last run's number of each host.
pub(crate) const INCARNATION_PREFIX: &str = "/gabion/incarnations/";

/// Where the number of a host's last run stands.
#[must_use]
pub fn incarnation_key(shard: ShardId) -> String {
    format!("{INCARNATION_PREFIX}{shard}")
}

/// The cluster that a host takes part in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnCluster {
    /// Its id.
    pub(crate) cluster: u64,
    /// Its level at most: what the host's release knows.
    pub(crate) level: Level,
}

impl OwnCluster {
    /// As the configuration has it, with what this release knows.
    pub(crate) fn of(config: &HostConfig, level: Level) -> Self {
        Self { cluster: config.cluster, level }
    }
}

/// Makes sure that the directory is this cluster's; waits for it as long as it takes. An empty one
/// was lost: nothing that it does not list may be taken for unused.
pub(crate) async fn check_cluster(
    env: &Env,
    directory: &Directory,
    wanted: OwnCluster,
) -> Result<(), StartError> {
    loop {
        match directory.get(&directory::cluster_key()).await {
            Ok(Some(entry)) => {
                let record = ClusterRecord::decode(&entry.value);
                let record = record.map_err(|_| StartError::ClusterRecord)?;
                let (found, ours) = (record.id, wanted.cluster);
                if found != ours {
                    return Err(StartError::OtherCluster { found, wanted: ours });
                }
                if record.level > wanted.level {
                    let (cluster, known) = (record.level, wanted.level);
                    return Err(StartError::OlderRelease { cluster, known });
                }
                return Ok(());
            }
            Ok(None) => return Err(StartError::DirectoryLost),
            Err(error) => {
                warn!(%error, "the directory does not answer; waiting for it");
                env.sleep(RETRY).await;
            }
        }
    }
}

/// What an operator set for the cluster; waits for the directory as long as it takes. A record that
/// cannot be read is as none, as it is for a host that runs.
pub(crate) async fn settings(env: &Env, directory: &Directory) -> SettingsRecord {
    loop {
        match directory.get(&settings_key()).await {
            Ok(entry) => {
                let record = entry.and_then(|entry| SettingsRecord::decode(&entry.value).ok());
                return record.unwrap_or_default();
            }
            Err(error) => {
                warn!(%error, "the directory does not answer; waiting for it");
                env.sleep(RETRY).await;
            }
        }
    }
}

/// Whether the directory is still this cluster's: asked before anything is deleted because the
/// directory does not list it. `None`: it does not answer, ask again.
pub(crate) async fn is_cluster(directory: &Directory, wanted: u64) -> Option<bool> {
    let entry = directory.get(&directory::cluster_key()).await.ok()?;
    let record = entry.map(|entry| ClusterRecord::decode(&entry.value));
    Some(record.is_some_and(|record| record.is_ok_and(|record| record.id == wanted)))
}

/// Takes the next incarnation of this host, durably; waits for the directory as long as it takes.
/// A transaction of unknown outcome costs a number, never a double use. It is above `seen`, which
/// this host's own disks know of: a directory that went back in time gives no number twice. One
/// that was lost since [`check_cluster`] gives none.
///
/// # Errors
/// As [`check_cluster`].
pub(crate) async fn next_incarnation(
    env: &Env,
    directory: &Directory,
    cluster: OwnCluster,
    me: ShardId,
    seen: Incarnation,
) -> Result<Incarnation, StartError> {
    let key = incarnation_key(me);
    loop {
        match try_next(directory, &key, seen).await {
            Ok(Some(incarnation)) => return Ok(incarnation),
            Ok(None) => check_cluster(env, directory, cluster).await?,
            Err(error) => {
                warn!(%error, "the directory does not answer; waiting for it");
                env.sleep(RETRY).await;
            }
        }
    }
}

async fn try_next(
    directory: &Directory,
    key: &str,
    seen: Incarnation,
) -> Result<Option<Incarnation>, DirectoryError> {
    let entry = directory.get(key).await?;
    let text = entry.as_ref().map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
    let last: u64 = match &text {
        None => 0,
        Some(text) => text.parse().map_err(|_| DirectoryError::Malformed)?,
    };
    let next = last.max(seen.0).checked_add(1).ok_or(DirectoryError::Malformed)?;
    let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
    let transaction = Transaction {
        compare: vec![(key.to_owned(), expect), (directory::cluster_key(), Expect::Present)],
        puts: vec![(key.to_owned(), next.to_string().into_bytes(), None)],
        deletes: Vec::new(),
    };
    let won = directory.transact(transaction).await?.succeeded;
    Ok(won.then_some(Incarnation(next)))
}

/// Makes sure that no later run of a host with one of these keys gets a number up to the one that
/// stands there, whatever the directory forgot.
pub(crate) async fn raise_runs(
    directory: &Directory,
    least: &Map<String, u64>,
) -> Result<(), DirectoryError> {
    for _ in 0..RAISES_MAX {
        let there = directory.list(INCARNATION_PREFIX).await?.entries;
        let there: Map<String, Entry> = there.into_iter().collect();
        let last = |key: &String| {
            there.get(key).and_then(|e| std::str::from_utf8(&e.value).ok()?.parse::<u64>().ok())
        };
        let is_low = |(key, least): &(&String, &u64)| last(key).is_none_or(|last| last < **least);
        let low: Vec<_> = least.iter().filter(is_low).collect();
        if low.is_empty() {
            return Ok(());
        }
        for part in low.chunks(RUNS_MAX) {
            let mut raise = Transaction::new();
            for (key, least) in part {
                // Never over a number that the host has just taken.
                let revision = there.get(*key).map(|entry| Expect::Revision(entry.revision));
                raise = raise.expect(*key, revision.unwrap_or(Expect::Absent));
                raise = raise.put(*key, least.to_string());
            }
            directory.transact(raise).await?;
        }
    }
    Err(DirectoryError::Unknown)
}

/// Has the directory's record of the host say what `record` does; waits for the directory as long
/// as it takes. A put whose answer was lost may land late: it finds another revision then, so it
/// never takes the place of what was written after it.
///
/// # Errors
/// [`StartError::Removed`]: the host is no member any more, and nothing was written.
pub(crate) async fn publish(
    env: &Env,
    directory: &Directory,
    record: &ShardRecord,
) -> Result<(), StartError> {
    loop {
        match publish_once(directory, record).await {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let removed = directory.get(&directory::removed_key(record.id)).await;
                if matches!(removed, Ok(Some(_))) {
                    return Err(StartError::Removed);
                }
            }
            Err(error) => warn!(%error, "the host record is not written yet"),
        }
        env.sleep(RETRY).await;
    }
}

/// Whether the record says so now; an earlier put of it may have come between, or a removal.
async fn publish_once(directory: &Directory, record: &ShardRecord) -> Result<bool, DirectoryError> {
    let (key, value) = (directory::host_key(record.id), record.encode());
    let entry = directory.get(&key).await?;
    if entry.as_ref().is_some_and(|entry| entry.value == value) {
        return Ok(true);
    }
    let put = Transaction::new()
        .expect(directory::removed_key(record.id), Expect::Absent)
        .expect(key.clone(), entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision)))
        .put(key, value);
    Ok(directory.transact(put).await?.succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{with_directory, with_far_directory};
    use base::GroupId;
    use directory::GroupRecord;
    use std::cell::RefCell;
    use std::rc::Rc;

    const CLUSTER: OwnCluster = OwnCluster { cluster: 7, level: Level::NEWEST };
    const ME: ShardId = ShardId(5);

    fn found(level: Level) -> ClusterRecord {
        ClusterRecord {
            id: 7,
            name: "storm".to_owned(),
            kind: directory::ClusterKind::AllFlash,
            level,
        }
    }

    #[test]
    fn a_host_whose_release_knows_less_than_the_cluster_uses_does_not_start() {
        with_directory(|env, directory| async move {
            let next = Level::new(Level::NEWEST.number() + 1).expect("a level");
            let looks = [
                (Level::FIRST, Level::FIRST, true),
                (Level::FIRST, Level::NEWEST, true),
                (Level::NEWEST, Level::FIRST, false),
                (next, Level::NEWEST, false),
            ];
            for (level, known, may_start) in looks {
                let put = Transaction::new().put(directory::cluster_key(), found(level).encode());
                directory.transact(put).await.expect("it is there");
                let wanted = OwnCluster { level: known, ..CLUSTER };
                let checked = check_cluster(&env, &directory, wanted).await;
                assert_eq!(checked.is_ok(), may_start, "{level} and {known}: {checked:?}");
                let is_named = matches!(checked, Err(StartError::OlderRelease { .. }));
                assert_eq!(is_named, !may_start);
            }
        });
    }

    /// Two processes of one host start again and again, while what hosts and restores know of
    /// earlier runs raises the number. Shows the compare of a start; that of a raise it does not
    /// need in this world.
    #[test]
    fn no_two_runs_get_one_number_whoever_raises_it_meanwhile() {
        with_directory(|env, directory| async move {
            let record = found(Level::NEWEST);
            let put = Transaction::new().put(directory::cluster_key(), record.encode());
            directory.transact(put).await.expect("it is there");
            let given = Rc::new(RefCell::new(Vec::new()));
            let starts = (0..2).map(|_| {
                let (env, directory, given) = (env.clone(), directory.clone(), Rc::clone(&given));
                async move {
                    for _ in 0..200 {
                        let none = Incarnation(0);
                        let next = next_incarnation(&env, &directory, CLUSTER, ME, none).await;
                        given.borrow_mut().push(next.expect("a number").0);
                        env.sleep(Duration::from_micros(env.random() % 3000)).await;
                    }
                }
            });
            let starts = starts.map(|start| env.spawn("start", start));
            // One knows of a run more than the directory said a moment ago, one of many more.
            let raises = [1, 40].map(|more| {
                let (env, directory, given) = (env.clone(), directory.clone(), Rc::clone(&given));
                env.clone().spawn("raise", async move {
                    loop {
                        let last = given.borrow().iter().copied().max().unwrap_or(0);
                        let least = [(incarnation_key(ME), last + more)].into_iter().collect();
                        let raised = raise_runs(&directory, &least).await;
                        tracing::trace!(?raised, "raised, or overtaken too often");
                        env.sleep(Duration::from_micros(env.random() % 3000)).await;
                    }
                })
            });
            let tasks: Vec<_> = starts.chain(raises).collect();
            while given.borrow().len() < 400 {
                env.sleep(Duration::from_millis(10)).await;
            }
            drop(tasks);
            let mut numbers = given.borrow().clone();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), given.borrow().len(), "a number was given twice");
        });
    }

    /// The put of an earlier run is under way while the next run writes its own.
    #[test]
    fn a_record_that_lands_late_does_not_take_the_place_of_a_newer_one() {
        let record = |group| ShardRecord {
            id: ME,
            name: "a".to_owned(),
            peer_address: "tcp:10.0.0.1:7070".to_owned(),
            nbd_uri: String::new(),
            groups: vec![GroupRecord { id: GroupId(group), capacity_bytes: 1 }],
            machine: None,
        };
        for seed in 0..30 {
            let (first, old, new) = (record(1), record(2), record(3));
            let before = async move |env: Env, directory: Directory| {
                publish(&env, &directory, &first).await.expect("it is a member");
                // It looks, puts, and is killed before it knows whether that landed.
                let landed = publish_once(&directory, &old).await.expect("an answer");
                tracing::trace!(landed);
            };
            let now = async move |env: Env, directory: Directory| {
                let there = async || {
                    let there = directory.get(&directory::host_key(ME)).await.expect("an answer");
                    there.map(|there| ShardRecord::decode(&there.value).expect("a record"))
                };
                while there().await.is_none() {
                    env.sleep(Duration::from_millis(1)).await;
                }
                // The other one knows after 200 ms. Its look comes 200 ms later, its put another
                // 400.
                env.sleep(Duration::from_millis(410 + env.random() % 380)).await;
                publish(&env, &directory, &new).await.expect("it is a member");
                env.sleep(Duration::from_secs(10)).await;
                assert_eq!(there().await, Some(new), "seed {seed}");
            };
            with_far_directory(seed, Duration::from_millis(200), before, now);
        }
    }
}
