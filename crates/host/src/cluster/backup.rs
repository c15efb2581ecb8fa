// SPDX-License-Identifier: Apache-2.0
//! Backups of the directory: taken while the cluster runs, and put back.
//!
//! What is bound to runs of hosts is no part of a backup: lease keys, what hosts hold that no
//! record accounts for, creations under way. Putting one back is several transactions; whatever a
//! host sees in between, it deletes nothing for want of a record.

use crate::cluster::guard::GUARD_PREFIX;
use crate::cluster::membership::{INCARNATION_PREFIX, incarnation_key, raise_runs};
use base::{Map, ShardId, VolumeId, WriterEpoch};
use directory::{
    ALIVE_PREFIX, Backup, BackupError, ClusterKind, ClusterRecord, DELETED_PREFIX, Directory,
    DirectoryError, Entry, Expect, Level, OBJECT_PREFIX, ORPHAN_PREFIX, ObjectRecord, PREFIX,
    Transaction, VOLUME_PREFIX, VolumeRecord, cluster_key,
};
use env::{Address, Env};
use thiserror::Error;

/// Runs of hosts are counted on from so much above what a backup says: more than a host is started
/// between two backups. Two runs of one number would be taken for the same one (rule 46).
const INCARNATION_LEAP: u64 = 4096;
/// Hosts whose runs are counted on in a directory that is made again from nothing: all that a
/// cluster can have.
const HOSTS_MAX: u32 = 255;
/// Minutes before this are not counted: 2026 began then.
const EPOCH_MINUTES: u64 = 29_453_760;
/// Runs are below it: they share 64 bits with a count of requests.
const INCARNATION_END: u64 = 1 << 24;
/// Changes in one transaction at most: etcd takes 128.
const CHANGES_MAX: usize = 96;
/// Bytes of one transaction's values, roughly.
const BYTES_MAX: usize = 256 << 10;

/// Why a backup was not taken, or not put back.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// the directory does not answer
    #[error("the directory cannot be used ({0}): run the command again when it answers")]
    Directory(#[from] DirectoryError),
    /// not a backup
    #[error("the file cannot be restored: {0}")]
    Backup(#[from] BackupError),
    /// another cluster's
    #[error("it belongs to cluster {found:x}, this is {wanted:x}: nothing was changed")]
    Foreign {
        /// In the file or in the directory.
        found: u64,
        /// This one.
        wanted: u64,
    },
    /// nothing there
    #[error(
        "the directory is empty: restore a backup with 'gabion directory restore FILE', or make it \
         again from the disks with 'gabion cluster recover'"
    )]
    Empty,
    /// not empty
    #[error(
        "the directory holds {volumes} volume(s): what is younger than the backup would be in no \
         record; --replace does it all the same"
    )]
    NotEmpty {
        /// How many.
        volumes: usize,
    },
    /// damaged or newer
    #[error("the record at {0} cannot be read: it is damaged or of another version")]
    Malformed(String),
}

/// What was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// When the backup was taken, seconds of the wall clock.
    pub taken: u64,
    /// Records in it.
    pub records: usize,
    /// Volumes in it.
    pub volumes: usize,
}

/// All records of the cluster's directory, as a file.
///
/// # Errors
/// [`RestoreError`]; [`RestoreError::Foreign`] where the directory is another cluster's.
pub async fn backup(env: &Env, directory: Address, wanted: u64) -> Result<Vec<u8>, RestoreError> {
    let directory = Directory::connect(env, directory);
    Ok(take(env, &directory, wanted).await?.encode())
}

/// As [`backup`], of a directory that is reached already.
pub(crate) async fn take(
    env: &Env,
    directory: &Directory,
    wanted: u64,
) -> Result<Backup, RestoreError> {
    let entries = directory.list(PREFIX).await?.entries;
    if cluster_of(&entries)?.ok_or(RestoreError::Empty)? != wanted {
        let found = cluster_of(&entries)?.unwrap_or(0);
        return Err(RestoreError::Foreign { found, wanted });
    }
    let kept = entries.into_iter().filter(|(key, _)| is_kept(key));
    let mut entries: Vec<_> = kept.map(|(key, entry)| (key, entry.value)).collect();
    entries.sort();
    let taken = env.wall().0 / 1_000_000_000;
    Ok(Backup { cluster: wanted, taken, entries })
}

fn is_kept(key: &str) -> bool {
    let volatile = [ALIVE_PREFIX, ORPHAN_PREFIX, GUARD_PREFIX];
    !volatile.iter().any(|prefix| key.starts_with(prefix))
}

fn cluster_of(entries: &[(String, Entry)]) -> Result<Option<u64>, RestoreError> {
    let entry = entries.iter().find(|(key, _)| *key == cluster_key());
    let Some((key, entry)) = entry else { return Ok(None) };
    let record = ClusterRecord::decode(&entry.value);
    Ok(Some(record.map_err(|_| RestoreError::Malformed(key.clone()))?.id))
}

/// Makes the directory hold what a backup of the cluster `wanted` holds. A directory with volumes
/// is refused unless `replaces`. May be repeated after an interruption.
///
/// # Errors
/// [`RestoreError`]; but for [`RestoreError::Directory`] nothing was changed.
pub async fn restore(
    env: &Env,
    directory: Address,
    wanted: u64,
    file: &[u8],
    replaces: bool,
) -> Result<Restored, RestoreError> {
    put_back(env, &Directory::connect(env, directory), wanted, file, replaces).await
}

/// As [`restore`], into a directory that is reached already.
pub(crate) async fn put_back(
    env: &Env,
    directory: &Directory,
    wanted: u64,
    file: &[u8],
    replaces: bool,
) -> Result<Restored, RestoreError> {
    let backup = Backup::decode(file)?;
    let now = directory.list(PREFIX).await?.entries;
    let found = cluster_of(&now)?;
    let mut ids = [Some(backup.cluster), found].into_iter().flatten();
    if let Some(found) = ids.find(|id| *id != wanted) {
        return Err(RestoreError::Foreign { found, wanted });
    }
    let is_volume = |key: &str| key.starts_with(VOLUME_PREFIX);
    let volumes = now.iter().filter(|(key, _)| is_volume(key)).count();
    let holds_any = now.iter().any(|(key, _)| is_volume(key) || key.starts_with(OBJECT_PREFIX));
    if holds_any && !replaces {
        return Err(RestoreError::NotEmpty { volumes });
    }
    let now: Map<String, Vec<u8>> = now.into_iter().map(|(key, e)| (key, e.value)).collect();
    let then: Map<String, Vec<u8>> = backup.entries.iter().cloned().collect();
    let epochs = writer_epochs(&now);
    let mut changes: Vec<(u8, String, Option<Vec<u8>>)> = Vec::new();
    for key in now.keys().filter(|key| is_kept(key) && !then.contains_key(*key)) {
        if !(is_host(key) || is_run(key)) {
            changes.push((order(key), key.clone(), None));
        }
    }
    for (key, value) in then.iter().filter(|(key, value)| now.get(*key) != Some(*value)) {
        let is_known_host = is_host(key) && now.contains_key(key);
        let removed = directory::parse_host_key(key).map(directory::removed_key);
        let is_removed = removed.is_some_and(|removed| now.contains_key(&removed));
        if !is_known_host && !is_removed && !is_run(key) {
            changes.push((order(key) + 10, key.clone(), Some(doubted(key, value, &epochs))));
        }
    }
    // First: who starts meanwhile gets a number above. A host that is younger than the backup is in
    // neither.
    if found.is_none() {
        count_runs_on(env, directory).await?;
    }
    let runs = now.keys().chain(then.keys()).filter(|key| is_run(key));
    let runs = runs.map(|key| {
        let values = [now.get(key), then.get(key)].into_iter().flatten();
        let last = values.filter_map(|value| number(value)).max().unwrap_or(0);
        (key.clone(), (last + INCARNATION_LEAP).min(INCARNATION_END / 2).max(last))
    });
    raise_runs(directory, &runs.collect()).await?;
    changes.sort();
    apply(directory, changes).await?;
    let volumes = backup.entries.iter().filter(|(key, _)| is_volume(key)).count();
    Ok(Restored { taken: backup.taken, records: backup.entries.len(), volumes })
}

/// The value as it is restored. What a backup says of an object's copies may not be so any more:
/// nobody claims it until it is made anew of what they say (rule 25). Nor is who writes to a volume
/// who did then: `epochs` are those of the writers of now, as after a backup that was put back in
/// part.
fn doubted(key: &str, value: &[u8], epochs: &Map<VolumeId, WriterEpoch>) -> Vec<u8> {
    if key.starts_with(OBJECT_PREFIX)
        && let Ok(record) = ObjectRecord::decode(value)
    {
        return ObjectRecord { is_doubted: true, ..record }.encode();
    }
    if key.starts_with(VOLUME_PREFIX)
        && let Ok(record) = VolumeRecord::decode(value)
    {
        let now = epochs.get(&record.id).copied().unwrap_or_default();
        return VolumeRecord { writing: record.writing.put_back(now), ..record }.encode();
    }
    value.to_vec()
}

/// The epochs of the writers of all volumes.
fn writer_epochs(now: &Map<String, Vec<u8>>) -> Map<VolumeId, WriterEpoch> {
    let volumes = now.iter().filter(|(key, _)| key.starts_with(VOLUME_PREFIX));
    let records = volumes.filter_map(|(_, value)| VolumeRecord::decode(value).ok());
    records.map(|record| (record.id, record.writing.epoch)).collect()
}

/// In which order keys change: what says that something is deleted goes first and comes last, and
/// a volume comes after its objects.
fn order(key: &str) -> u8 {
    match () {
        () if key.starts_with(DELETED_PREFIX) => 0,
        () if key.starts_with(VOLUME_PREFIX) => 3,
        () if key.starts_with(OBJECT_PREFIX) => 2,
        () => 1,
    }
}

/// Hosts that joined or were taken out since the backup stay as they are.
fn is_host(key: &str) -> bool {
    key.starts_with(directory::HOST_PREFIX) || key.starts_with(directory::REMOVED_PREFIX)
}

fn is_run(key: &str) -> bool {
    key.starts_with(INCARNATION_PREFIX)
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

async fn apply(
    directory: &Directory,
    changes: Vec<(u8, String, Option<Vec<u8>>)>,
) -> Result<(), RestoreError> {
    let mut changes = changes.into_iter().peekable();
    while changes.peek().is_some() {
        let (mut transaction, mut count, mut bytes) = (Transaction::new(), 0, 0);
        while count < CHANGES_MAX && bytes < BYTES_MAX {
            let Some((_, key, value)) = changes.next() else { break };
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            transaction = match value {
                Some(value) => transaction.put(key, value),
                None => transaction.delete(key),
            };
            count += 1;
        }
        directory.transact(transaction).await?;
    }
    Ok(())
}

/// In a directory that is made again from nothing: no run of any host gets the number of an earlier
/// one. Running hosts and those with components see to that themselves as well.
async fn count_runs_on(env: &Env, directory: &Directory) -> Result<(), RestoreError> {
    // Nobody knows how often hosts were started; not once a minute since 2026.
    let minutes = (env.wall().0 / 60_000_000_000).saturating_sub(EPOCH_MINUTES);
    let run = minutes.clamp(INCARNATION_LEAP, INCARNATION_END / 2);
    let runs = (1..=HOSTS_MAX).map(|host| (incarnation_key(ShardId(host)), run));
    Ok(raise_runs(directory, &runs.collect()).await?)
}

/// Makes an empty directory the cluster's again: its hosts start with it, and tell it what is on
/// their disks; volumes are made again by `gabion orphan adopt`. Nothing changes in a directory
/// that has the cluster's record.
///
/// # Errors
/// [`RestoreError::Foreign`]: another cluster's record stands there.
pub async fn recover(
    env: &Env,
    directory: Address,
    id: u64,
    kind: ClusterKind,
) -> Result<bool, RestoreError> {
    let directory = Directory::connect(env, directory);
    let entries = directory.list(PREFIX).await?.entries;
    match cluster_of(&entries)? {
        Some(found) if found == id => return Ok(false),
        Some(found) => return Err(RestoreError::Foreign { found, wanted: id }),
        None => {}
    }
    count_runs_on(env, &directory).await?;
    // Which releases its hosts have is not known: an operator raises the level again.
    let level = Level::FIRST;
    let record = ClusterRecord { id, name: "gabion".to_owned(), kind, level };
    let put = Transaction::new().expect(cluster_key(), Expect::Absent);
    Ok(directory.transact(put.put(cluster_key(), record.encode())).await?.succeeded)
}

#[cfg(test)]
mod tests;
