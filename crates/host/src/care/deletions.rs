// SPDX-License-Identifier: Apache-2.0
//! Objects whose records vanished from the directory, until it is sure why.
//!
//! A directory that was lost and begun anew lists nothing, and one restored from a backup of before
//! does not list what is younger: neither deletes anything. What was deleted on purpose, a record
//! names (`tombstones`). The directory is asked until it answers: a notice that was dropped would
//! leave the object's components for the slow cleanup and its owner serving.

use crate::care::tombstones::Tombstones;
use crate::cluster::membership;
use crate::cluster::view::View;
use base::{ObjectId, Set, ShardId};
use directory::Directory;
use env::{Env, Notify};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tracing::{error, warn};

/// Time between questions while the directory does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A record says that it was deleted.
    Deleted,
    /// Its record is missing: it is not served, and kept.
    Missing,
}

/// The objects in question. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Deletions {
    waiting: Rc<RefCell<Set<ObjectId>>>,
    added: Notify,
}

impl Deletions {
    /// Takes note of an object whose record vanished.
    pub(crate) fn add(&self, id: ObjectId) {
        self.waiting.borrow_mut().insert(id);
        self.added.notify();
    }

    /// Calls `decided` for each object once it is known what became of it. Runs for ever.
    pub(crate) async fn run(
        self,
        env: Env,
        directory: Directory,
        (cluster, me): (u64, ShardId),
        view: View,
        decided: impl Fn(ObjectId, Fate),
    ) {
        loop {
            let added = self.added.wait();
            let asked: Vec<ObjectId> = self.waiting.borrow().iter().copied().collect();
            if asked.is_empty() {
                added.await;
                continue;
            }
            let Some(is_cluster) = membership::is_cluster(&directory, cluster).await else {
                env.sleep(RETRY).await;
                continue;
            };
            let Ok(tombstones) = Tombstones::read(&directory).await else {
                env.sleep(RETRY).await;
                continue;
            };
            let deleted = tombstones.objects_for(me);
            for id in asked {
                self.waiting.borrow_mut().remove(&id);
                if view.object(id).is_some() {
                    continue; // it came back meanwhile, with a directory that was restored
                }
                match (is_cluster, deleted.contains(&id)) {
                    (true, true) => decided(id, Fate::Deleted),
                    (true, false) => {
                        warn!(object = %id, "no record any more: kept, see 'gabion orphan list'");
                        decided(id, Fate::Missing);
                    }
                    (false, _) => {
                        error!(object = %id, "vanished with its cluster's record: data is kept");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{self, address, with_directory};
    use base::VolumeId;
    use directory::{DeletedRecord, Transaction, cluster_key, deleted_key};

    const ME: ShardId = ShardId(1);

    /// What was decided, in that order.
    type Decided = Rc<RefCell<Vec<(ObjectId, Fate)>>>;

    fn gather(env: &Env, directory: &Directory, deletions: &Deletions) -> (env::Task, Decided) {
        let seen = Decided::default();
        let place = Rc::clone(&seen);
        let decided = move |id, fate| place.borrow_mut().push((id, fate));
        let (inner, directory) = (env.clone(), directory.clone());
        let run = deletions.clone().run(inner, directory, (7, ME), View::default(), decided);
        (env.spawn("deletions", run), seen)
    }

    async fn found(directory: &Directory) {
        let record = simulated::cluster(7);
        let put = Transaction::new().put(cluster_key(), record.encode());
        directory.transact(put).await.expect("it lands");
    }

    async fn bury(directory: &Directory, objects: &[u64], shard: ShardId) {
        let id = VolumeId(objects[0]);
        let objects = objects.iter().copied().map(ObjectId).collect();
        let record = DeletedRecord { id, name: "web".to_owned(), shards: vec![shard], objects };
        let put = Transaction::new().put(deleted_key(id), record.encode());
        directory.transact(put).await.expect("it lands");
    }

    /// Rule 40.
    #[test]
    fn only_what_a_record_names_for_this_host_is_deleted() {
        with_directory(|env, directory| async move {
            found(&directory).await;
            bury(&directory, &[5, 6], ME).await;
            bury(&directory, &[7], ShardId(2)).await;
            let bad = Transaction::new().put(deleted_key(VolumeId(8)), "?");
            directory.transact(bad).await.expect("it lands");
            let deletions = Deletions::default();
            let (_task, seen) = gather(&env, &directory, &deletions);
            (5..9).for_each(|id| deletions.add(ObjectId(id)));
            env.sleep(Duration::from_secs(5)).await;
            let fates = [Fate::Deleted, Fate::Deleted, Fate::Missing, Fate::Missing];
            let all = (5..9).map(ObjectId).zip(fates);
            assert_eq!(*seen.borrow(), all.collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_notice_waits_for_a_directory_that_does_not_answer() {
        with_directory(|env, directory| async move {
            found(&directory).await;
            bury(&directory, &[5], ME).await;
            // Its calls fail until somebody listens there.
            let nowhere: env::Address = env::Address::Tcp(([10, 0, 0, 2], 9).into());
            let away = Directory::connect(&env, nowhere.clone());
            let deletions = Deletions::default();
            let (_task, seen) = gather(&env, &away, &deletions);
            deletions.add(ObjectId(5));
            env.sleep(Duration::from_secs(10)).await;
            assert!(seen.borrow().is_empty(), "nobody said that it is deleted");
            let listener = env.listen(nowhere).await.expect("a listener");
            let inner = env.clone();
            let _forward = env.spawn("forward", async move { forward(&inner, listener).await });
            env.sleep(Duration::from_secs(10)).await;
            assert_eq!(*seen.borrow(), [(ObjectId(5), Fate::Deleted)]);
        });
    }

    /// The way to the directory, open at last.
    async fn forward(env: &Env, listener: env::Listener) {
        let from = listener.accept().await.expect("a client");
        let to = env.dial(address()).await.expect("the directory");
        let one_way = |from: env::Link, to: env::Link| async move {
            while let Ok((buf, count)) = from.recv(env.buf(4096), 0).await {
                let mut out = env.buf(count);
                out.copy_from_slice(&buf[..count]);
                if count == 0 || to.send(out.freeze()).await.is_err() {
                    return;
                }
            }
        };
        env::select(one_way(from.clone(), to.clone()), one_way(to, from)).await;
    }

    #[test]
    fn a_directory_begun_anew_deletes_nothing() {
        with_directory(|env, directory| async move {
            let deletions = Deletions::default();
            let (_task, seen) = gather(&env, &directory, &deletions);
            deletions.add(ObjectId(5));
            env.sleep(Duration::from_secs(5)).await;
            found(&directory).await;
            env.sleep(Duration::from_secs(5)).await;
            assert!(seen.borrow().is_empty());
            deletions.add(ObjectId(6));
            env.sleep(Duration::from_secs(5)).await;
            assert_eq!(*seen.borrow(), [(ObjectId(6), Fate::Missing)]);
        });
    }
}
