// SPDX-License-Identifier: Apache-2.0
//! Entering a cluster of several machines: a new cluster's record, a new host's number.

use base::ShardId;
use directory::{
    ClusterKind, ClusterRecord, Directory, DirectoryError, Expect, Level, SettingsRecord,
    ShardRecord, Transaction, settings_key,
};
use env::{Address, Env};
use thiserror::Error;

/// Attempts against others that join at the same moment.
const ATTEMPTS_MAX: u32 = 20;

/// Why a host cannot enter.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// the directory does not answer
    #[error("the directory cannot be reached ({0}): check its address, and that it runs there")]
    Directory(#[from] DirectoryError),
    /// create where there is one
    #[error("this etcd holds a cluster already: join it with 'gabion host join'")]
    ClusterExists,
    /// join where there is none
    #[error("this etcd holds no cluster: make one with 'gabion cluster create'")]
    NoCluster,
    /// a name twice
    #[error("the cluster has a host '{0}' already: choose another --name")]
    NameTaken(String),
    /// damaged record
    #[error("the directory's record at {0} cannot be read: it is damaged or of another version")]
    Malformed(String),
    /// lost every race
    #[error("other hosts are joining at the same time: try again")]
    Contended,
}

impl RegisterError {
    /// Whether the directory did not answer and nothing was changed.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Directory(DirectoryError::Unavailable))
    }
}

/// What the cluster of a directory is; `None` where there is no cluster yet.
///
/// # Errors
/// [`RegisterError::Directory`], [`RegisterError::Malformed`].
pub async fn cluster_kind(
    env: &Env,
    directory: Address,
) -> Result<Option<ClusterKind>, RegisterError> {
    let directory = Directory::connect(env, directory);
    let key = directory::cluster_key();
    let Some(entry) = directory.get(&key).await? else { return Ok(None) };
    let record = ClusterRecord::decode(&entry.value);
    Ok(Some(record.map_err(|_| RegisterError::Malformed(key))?.kind))
}

/// What enters a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// Its name; nobody else's in the cluster.
    pub name: String,
    /// The machine that it shares with others; see [`ShardRecord::machine`].
    pub machine: Option<String>,
    /// Where its peer port is.
    pub peer_address: String,
}

/// What a cluster that is made begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCluster {
    /// The kind of its disk groups.
    pub kind: ClusterKind,
    /// Whether links between its shards are encrypted from the start.
    pub encrypt_links: bool,
}

impl From<ClusterKind> for NewCluster {
    fn from(kind: ClusterKind) -> Self {
        Self { kind, encrypt_links: false }
    }
}

/// Makes the cluster `new`, or finds it, and takes the next host numbers for
/// `members`. Returns the cluster's id and the first number. Nothing changes when it fails.
///
/// # Errors
/// [`RegisterError`].
pub async fn register(
    env: &Env,
    directory: Address,
    members: &[NewMember],
    new: Option<NewCluster>,
) -> Result<(u64, u32), RegisterError> {
    let directory = Directory::connect(env, directory);
    let mut in_doubt = false;
    for _ in 0..ATTEMPTS_MAX {
        let done = match in_doubt {
            true => registered(&directory, members).await,
            false => Ok(None),
        };
        let done = match done {
            Ok(None) => attempt(env, &directory, members, new).await,
            done => done,
        };
        match done {
            Ok(Some(registered)) => return Ok(registered),
            Ok(None) => {}
            // An election, or a member that is gone: it may have been done. One that lands late
            // finds what the next attempt has written.
            Err(RegisterError::Directory(DirectoryError::Unknown)) => in_doubt = true,
            Err(error) if in_doubt && error.is_silence() => {}
            Err(error) => return Err(error),
        }
    }
    Err(if in_doubt { DirectoryError::Unknown.into() } else { RegisterError::Contended })
}

/// The cluster's id and the first number of `members` where they are registered.
async fn registered(
    directory: &Directory,
    members: &[NewMember],
) -> Result<Option<(u64, u32)>, RegisterError> {
    let key = directory::cluster_key();
    let Some(entry) = directory.get(&key).await? else { return Ok(None) };
    let cluster = ClusterRecord::decode(&entry.value);
    let cluster = cluster.map_err(|_| RegisterError::Malformed(key))?.id;
    let entries = directory.list(directory::HOST_PREFIX).await?.entries;
    let shards = entries.iter().filter_map(|(_, entry)| ShardRecord::decode(&entry.value).ok());
    let is_member = |shard: &ShardRecord| {
        members
            .iter()
            .any(|new| (&new.name, &new.peer_address) == (&shard.name, &shard.peer_address))
    };
    let ids: Vec<u32> = shards.filter(is_member).map(|shard| shard.id.0).collect();
    let first = ids.iter().min().filter(|_| ids.len() == members.len());
    Ok(first.map(|first| (cluster, *first)))
}

/// Writes the record of a new cluster `id` into an empty directory, or finds it there. Hosts never
/// do that by themselves: a directory without the record was lost.
///
/// # Errors
/// [`RegisterError`]; [`RegisterError::ClusterExists`] where another cluster's record stands.
pub async fn found(
    env: &Env,
    directory: Address,
    id: u64,
    new: impl Into<NewCluster>,
) -> Result<(), RegisterError> {
    let new = new.into();
    let directory = Directory::connect(env, directory);
    let key = directory::cluster_key();
    for _ in 0..ATTEMPTS_MAX {
        if let Some(entry) = directory.get(&key).await? {
            let record = ClusterRecord::decode(&entry.value);
            let record = record.map_err(|_| RegisterError::Malformed(key.clone()))?;
            return if record.id == id { Ok(()) } else { Err(RegisterError::ClusterExists) };
        }
        let mut made = Transaction::new().expect(key.clone(), Expect::Absent);
        put_new(&mut made, id, new);
        // Won, lost or unknown: the next look tells.
        let _ = directory.transact(made).await;
    }
    Err(RegisterError::Contended)
}

async fn attempt(
    env: &Env,
    directory: &Directory,
    members: &[NewMember],
    new: Option<NewCluster>,
) -> Result<Option<(u64, u32)>, RegisterError> {
    let key = directory::cluster_key();
    let mut transaction = Transaction::default();
    let cluster = match (directory.get(&key).await?, new) {
        (Some(_), Some(_)) => return Err(RegisterError::ClusterExists),
        (None, None) => return Err(RegisterError::NoCluster),
        (Some(entry), None) => {
            ClusterRecord::decode(&entry.value).map_err(|_| RegisterError::Malformed(key))?
        }
        (None, Some(new)) => {
            let id = env.random();
            transaction.compare.push((key, Expect::Absent));
            put_new(&mut transaction, id, new)
        }
    };
    let mut last = 0;
    for (key, entry) in directory.list(directory::HOST_PREFIX).await?.entries {
        let Ok(shard) = ShardRecord::decode(&entry.value) else {
            return Err(RegisterError::Malformed(key));
        };
        if let Some(name) = members.iter().find_map(|member| name_taken(member, &shard)) {
            return Err(RegisterError::NameTaken(name.to_owned()));
        }
        last = last.max(shard.id.0);
    }
    for (key, _) in directory.list(directory::REMOVED_PREFIX).await?.entries {
        let Some(id) = directory::parse_removed_key(&key) else {
            return Err(RegisterError::Malformed(key));
        };
        last = last.max(id.0);
    }
    let first = last + 1;
    for (number, member) in (first..).zip(members) {
        let record = ShardRecord {
            id: ShardId(number),
            name: member.name.clone(),
            peer_address: member.peer_address.clone(),
            nbd_uri: String::new(),
            groups: Vec::new(),
            machine: member.machine.clone(),
        };
        let key = directory::host_key(record.id);
        transaction.compare.push((key.clone(), Expect::Absent));
        transaction.puts.push((key, record.encode(), None));
    }
    let won = directory.transact(transaction).await?.succeeded;
    Ok(won.then_some((cluster.id, first)))
}

/// Puts the records of a new cluster. All of its hosts know what this release does: none of a lower
/// level enters it.
fn put_new(transaction: &mut Transaction, id: u64, new: NewCluster) -> ClusterRecord {
    let level = Level::NEWEST;
    let record = ClusterRecord { id, name: "gabion".to_owned(), kind: new.kind, level };
    transaction.puts.push((directory::cluster_key(), record.encode(), None));
    if new.encrypt_links {
        let settings = SettingsRecord { encrypt_links: true, ..SettingsRecord::default() };
        transaction.puts.push((settings_key(), settings.encode(), None));
    }
    record
}

/// The name of a new member that means something else already.
fn name_taken<'a>(new: &'a NewMember, shard: &ShardRecord) -> Option<&'a str> {
    let is_taken = |name: &str| shard.name == name || shard.machine() == name;
    let machine = new.machine.as_deref();
    // Another shard of the same machine may come later.
    let machine = machine.filter(|machine| shard.machine.as_deref() != Some(machine));
    [Some(new.name.as_str()), machine].into_iter().flatten().find(|name| is_taken(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{address, with_directory, with_faults};
    use directory::{RemovedShardRecord, ServerFaults};

    const NEW: Option<NewCluster> =
        Some(NewCluster { kind: ClusterKind::AllFlash, encrypt_links: true });

    fn member(name: &str, machine: Option<&str>) -> NewMember {
        let peer_address = "tcp:10.0.0.1:7070".to_owned();
        NewMember { name: name.to_owned(), machine: machine.map(str::to_owned), peer_address }
    }

    #[test]
    fn the_shards_of_a_host_enter_together_and_a_name_means_one_thing() {
        with_directory(|env, directory| async move {
            let enter = async |names: &[(&str, Option<&str>)], new| {
                let members: Vec<_> = names.iter().map(|(name, m)| member(name, *m)).collect();
                let entered = register(&env, address(), &members, new).await;
                entered.map(|(_, number)| number).map_err(|error| error.to_string())
            };
            let two = [("a.1", Some("a")), ("a.2", Some("a"))];
            assert_eq!(enter(&two, NEW).await, Ok(1));
            let settings = directory.get(&settings_key()).await.expect("it answers");
            let settings = SettingsRecord::decode(&settings.expect("it is there").value);
            assert!(settings.expect("settings").encrypt_links);
            assert_eq!(enter(&[("b", None)], None).await, Ok(3));
            let wrong = [("a", None), ("a.1", None), ("a", Some("c")), ("b.1", Some("b"))];
            for wrong in wrong {
                let error = enter(&[("z", None), wrong], None).await.expect_err("it is taken");
                assert!(error.contains("already: choose another"), "{error}");
            }
            let key = directory::host_key(ShardId(4));
            assert_eq!(directory.get(&key).await.expect("it answers"), None, "all or none");
            assert_eq!(enter(&[("a.3", Some("a"))], None).await, Ok(4), "one more of a host");
        });
    }

    /// The answer to the transaction is lost as often as not.
    #[test]
    fn a_host_whose_answer_was_lost_enters_once() {
        let faults = ServerFaults { drop_after_ppm: 300_000, ..ServerFaults::default() };
        with_faults(3, faults, |env, directory| async move {
            let mut new = NEW;
            for number in 1..=20 {
                let members = [member(&format!("host{number}"), None)];
                let entered = loop {
                    match register(&env, address(), &members, new).await {
                        Err(error) if error.is_silence() => {}
                        done => break done.expect("it enters").1,
                    }
                };
                assert_eq!(entered, number);
                new = None;
            }
            let listed = loop {
                if let Ok(listed) = directory.list(directory::HOST_PREFIX).await {
                    break listed.entries.len();
                }
            };
            assert_eq!(listed, 20);
        });
    }

    #[test]
    fn the_number_of_a_host_that_was_taken_out_is_given_to_nobody() {
        with_directory(|env, directory| async move {
            let enter = async |name: &str, new| {
                let members = [member(name, None)];
                register(&env, address(), &members, new).await.expect("it enters").1
            };
            assert_eq!(enter("a", NEW).await, 1);
            assert_eq!(enter("b", None).await, 2);
            let id = ShardId(2);
            let record = RemovedShardRecord { id, name: "b".to_owned() };
            let gone = Transaction::new().put(directory::removed_key(id), record.encode());
            directory.transact(gone.delete(directory::host_key(id))).await.expect("it lands");
            assert_eq!(enter("b", None).await, 3, "the name may be used again");
        });
    }
}
