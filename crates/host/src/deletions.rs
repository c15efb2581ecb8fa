// SPDX-License-Identifier: Apache-2.0
//! Objects whose records vanished from the directory, until it is sure why.
//!
//! A directory that was lost and begun anew lists nothing; that deletes nothing. Whether it is
//! still this cluster's is asked until it answers: a notice that was dropped would leave the
//! object's components for the slow cleanup and its owner serving.

use crate::membership;
use crate::view::View;
use base::{ObjectId, Set};
use directory::Directory;
use env::{Env, Notify};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tracing::error;

/// Time between questions while the directory does not answer.
const RETRY: Duration = Duration::from_secs(1);

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

    /// Calls `deleted` for each object that is surely deleted. Runs for ever.
    pub(crate) async fn run(
        self,
        env: Env,
        directory: Directory,
        cluster: u64,
        view: View,
        deleted: impl Fn(ObjectId),
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
            for id in asked {
                self.waiting.borrow_mut().remove(&id);
                if view.object(id).is_some() {
                    continue; // it came back meanwhile, with a directory that was restored
                }
                if is_cluster {
                    deleted(id);
                } else {
                    error!(object = %id, "vanished with its cluster's record: data is kept");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{address, with_directory};
    use directory::{ClusterKind, ClusterRecord, Transaction, cluster_key};

    fn gather(
        env: &Env,
        directory: &Directory,
        deletions: &Deletions,
    ) -> (env::Task, Rc<RefCell<Vec<ObjectId>>>) {
        let seen: Rc<RefCell<Vec<ObjectId>>> = Rc::default();
        let place = Rc::clone(&seen);
        let deleted = move |id| place.borrow_mut().push(id);
        let (inner, directory) = (env.clone(), directory.clone());
        let run = deletions.clone().run(inner, directory, 7, View::default(), deleted);
        (env.spawn("deletions", run), seen)
    }

    async fn found(directory: &Directory) {
        let record =
            ClusterRecord { id: 7, name: "gabion".to_owned(), kind: ClusterKind::AllFlash };
        let put = Transaction::new().put(cluster_key(), record.encode());
        directory.transact(put).await.expect("it lands");
    }

    #[test]
    fn a_notice_waits_for_a_directory_that_does_not_answer() {
        with_directory(|env, directory| async move {
            found(&directory).await;
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
            assert_eq!(*seen.borrow(), [ObjectId(5)]);
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
            assert_eq!(*seen.borrow(), [ObjectId(6)]);
        });
    }
}
