// SPDX-License-Identifier: Apache-2.0
//! One writing host at a time, for the volumes that ask for it (rules 54 to 57).
//!
//! A client's first write makes its host the writer, and the host gives that back when the last
//! client that wrote has left. Each change of the writer gives the volume another epoch. Owners
//! bring it into the records of their objects; where nobody owns an object, the writer's host does.
//! That host takes writes once all records have the epoch.

use crate::cluster::view::View;
use crate::exports::HostExports;
use base::{Instant, Map, ObjectId, Set, VolumeId, WriterEpoch};
use directory::{
    Directory, Expect, OwnerRecord, Transaction, VolumeRecord, Writers, Writing, volume_key,
};
use env::{Env, TaskSet, select, try_join_at_most};
use object::Objects;
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

/// Least time between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// The same while a client's write waits.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// Time until the next look where something is left to do and nothing changes.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long a host that an operator named waits for a client before it gives that back.
const CLIENT_WAIT: Duration = Duration::from_secs(60);
/// Volumes that something is done for at a time.
const VOLUMES_AT_ONCE: usize = 32;
/// Objects of one volume that get its epoch at a time.
const OBJECTS_AT_ONCE: usize = 16;
/// How long one object is waited for in one attempt.
const OBJECT_MAX: Duration = Duration::from_secs(10);

/// What the task works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WriterCare {
    pub(crate) env: Env,
    /// This run of this host.
    pub(crate) me: OwnerRecord,
    pub(crate) directory: Directory,
    pub(crate) objects: Objects,
    pub(crate) view: View,
    pub(crate) exports: HostExports,
}

/// What the looks so far have shown.
#[derive(Default)]
struct Known {
    /// Volumes of which all objects have this epoch.
    settled: Map<VolumeId, WriterEpoch>,
    /// Volumes of which this host is the writer.
    named: Map<VolumeId, Named>,
    /// The turn of the view at the last look, and how often the last client that wrote had left.
    turn: (u64, u64),
    /// Something is left to do.
    is_again: bool,
}

/// A volume of which this host is the writer.
#[derive(Clone, Copy)]
struct Named {
    epoch: WriterEpoch,
    since: Instant,
}

/// What is to be done for a volume.
enum Work {
    /// A client here wants to write: this host becomes the writer.
    Take,
    /// The last client here that wrote has left.
    GiveBack,
    /// Objects get the volume's epoch.
    BringIn(Vec<(ObjectId, Part)>),
}

/// How an object gets the epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// By this host: it owns it, or nobody does.
    Here,
    /// By its next owner, for that of now is gone.
    Orphaned,
}

impl WriterCare {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        let busy: Rc<RefCell<Set<VolumeId>>> = Rc::default();
        let (mut known, tasks) = (Known::default(), TaskSet::default());
        loop {
            let (changed, moved) = (self.view.changed().wait(), self.exports.moved().wait());
            for (volume, work) in self.look(&mut known) {
                if busy.borrow().len() >= VOLUMES_AT_ONCE || !busy.borrow_mut().insert(volume.id) {
                    known.is_again = true;
                    continue;
                }
                let (this, busy) = (self.clone(), Rc::clone(&busy));
                tasks.spawn(&self.env, "writer of a volume", async move {
                    this.work(&volume, work).await;
                    busy.borrow_mut().remove(&volume.id);
                });
            }
            let again = self.env.sleep(LOOK_AGAIN);
            select(select(changed, moved), again).await;
            let is_soon = self.exports.is_write_waiting();
            self.env.sleep(if is_soon { LOOK_SOON } else { LOOK_PAUSE }).await;
        }
    }

    /// What is to be done now, where anything may have changed. Volumes that never had a writer are
    /// left alone.
    fn look(&self, known: &mut Known) -> Vec<(VolumeRecord, Work)> {
        let turn = (self.view.turn(), self.exports.left());
        if known.turn == turn && !known.is_again && !self.exports.is_write_waiting() {
            return Vec::new();
        }
        (known.turn, known.is_again) = (turn, false);
        self.exports.let_write(self.me);
        let settled = std::mem::take(&mut known.settled);
        let named = std::mem::take(&mut known.named);
        let does_rest = self.view.first_alive() == Some(self.me.shard);
        let mut all = Vec::new();
        self.view.for_each_volume(|volume| {
            let epoch = volume.writing.epoch;
            if epoch == WriterEpoch::ANY {
                return;
            }
            if volume.writing.writer == Some(self.me) {
                let before = named.get(&volume.id).copied();
                known.named.insert(volume.id, self.named(volume, before));
            }
            if let Some(work) = self.own_work(volume, known) {
                all.push((volume.clone(), work));
                return;
            }
            let is_settled = settled.get(&volume.id) == Some(&epoch);
            if is_settled || self.view.is_written_in(volume, epoch) {
                known.settled.insert(volume.id, epoch);
                return;
            }
            known.is_again = true;
            let parts = self.parts(volume, does_rest);
            if !parts.is_empty() {
                all.push((volume.clone(), Work::BringIn(parts)));
            }
        });
        all
    }

    fn named(&self, volume: &VolumeRecord, before: Option<Named>) -> Named {
        let (epoch, now) = (volume.writing.epoch, self.env.now());
        let before = before.filter(|named| named.epoch == epoch);
        before.unwrap_or(Named { epoch, since: now })
    }

    /// What the clients of this host ask for.
    fn own_work(&self, volume: &VolumeRecord, known: &mut Known) -> Option<Work> {
        let Writing { writers, writer, .. } = volume.writing;
        if writers == Writers::Any || volume.trashed.is_some() {
            return None;
        }
        if let Some(named) = known.named.get(&volume.id) {
            let is_written = self.exports.written_in(volume.id) == Some(named.epoch);
            let clients = match is_written {
                true => self.exports.writers(volume.id),
                false => self.exports.clients(volume.id),
            };
            if clients > 0 {
                return None;
            }
            let waited = self.env.now().since(named.since);
            let is_over = is_written || waited >= CLIENT_WAIT;
            known.is_again |= !is_over;
            return is_over.then_some(Work::GiveBack);
        }
        let is_free = writer.is_none_or(|writer| !self.runs(writer));
        let is_wanted = self.exports.writes_wait(volume.id) > 0;
        (is_free && is_wanted).then_some(Work::Take)
    }

    /// Whether this run of a host goes on, as far as is known here. It may be wrong either way: who
    /// may write is decided by epochs.
    fn runs(&self, run: OwnerRecord) -> bool {
        self.view.alive(run.shard).is_some_and(|alive| alive.incarnation == run.incarnation)
    }

    /// The objects that this host sees to. One host does that for those that nobody owns: the
    /// writer's, else the first one that lives.
    fn parts(&self, volume: &VolumeRecord, does_rest: bool) -> Vec<(ObjectId, Part)> {
        let Writing { epoch, writer, .. } = volume.writing;
        let does_rest = match writer.filter(|writer| self.runs(*writer)) {
            Some(writer) => writer == self.me,
            None => does_rest,
        };
        let part = |id: &ObjectId| {
            let (has, owner) = self.view.writer_epoch(*id)?;
            let part = match owner {
                _ if has >= epoch => None,
                Some(owner) if owner == self.me => Some(Part::Here),
                Some(owner) if self.runs(owner) => None,
                Some(_) => does_rest.then_some(Part::Orphaned),
                None => does_rest.then_some(Part::Here),
            };
            part.map(|part| (*id, part))
        };
        volume.objects.iter().filter_map(part).collect()
    }

    async fn work(&self, volume: &VolumeRecord, work: Work) {
        match work {
            Work::Take => drop(self.change(volume, |writing| self.taken(writing)).await),
            Work::GiveBack => self.give_back(volume).await,
            Work::BringIn(parts) => {
                let epoch = volume.writing.epoch;
                let each = parts.into_iter().map(|(id, part)| self.bring_in(id, part, epoch));
                let _: Result<Vec<()>, Infallible> = try_join_at_most(OBJECTS_AT_ONCE, each).await;
            }
        }
    }

    /// Goes on until it is known what became of it: whoever comes meanwhile waits.
    async fn give_back(&self, volume: &VolumeRecord) {
        self.exports.gives_back(volume.id, volume.writing.epoch);
        while self.change(volume, |writing| self.given_back(writing)).await.is_none() {
            self.env.sleep(LOOK_AGAIN).await;
        }
        // This host's view has to know it first, or it would take the epoch of before for its own.
        let is_seen = || {
            let now = self.view.volume_of_id(volume.id);
            now.is_none_or(|now| now.writing != volume.writing)
        };
        while !is_seen() {
            let changed = self.view.changed().wait();
            select(changed, self.env.sleep(LOOK_AGAIN)).await;
        }
        self.exports.gave_back(volume.id);
    }

    /// What is not done is seen at the next look.
    async fn bring_in(
        &self,
        id: ObjectId,
        part: Part,
        epoch: WriterEpoch,
    ) -> Result<(), Infallible> {
        let done = async {
            match part {
                Part::Here => {
                    if let Err(error) = self.objects.bring_in(id, epoch).await {
                        tracing::debug!(object = %id, %epoch, %error, "no new epoch yet");
                    }
                }
                Part::Orphaned => self.objects.take_over(id).await,
            }
        };
        let _ = self.env.timeout(OBJECT_MAX, done).await;
        Ok(())
    }

    fn taken(&self, now: Writing) -> Option<Writing> {
        let is_free = now.writer.is_none_or(|writer| !self.runs(writer));
        let is_due = now.writers == Writers::One && now.writer != Some(self.me) && is_free;
        is_due.then(|| now.with_writer(self.me)).flatten()
    }

    fn given_back(&self, now: Writing) -> Option<Writing> {
        (now.writer == Some(self.me)).then(|| now.in_next(None)).flatten()
    }

    /// Changes who writes to a volume, where that is still called for. `None`: it is not known
    /// whether that was done.
    async fn change(
        &self,
        volume: &VolumeRecord,
        next: impl Fn(Writing) -> Option<Writing>,
    ) -> Option<()> {
        let name = self.view.volume_of_id(volume.id).map(|now| now.name); // it may be renamed
        let key = volume_key(name.as_ref().unwrap_or(&volume.name));
        let Some(entry) = self.directory.get(&key).await.ok()? else { return Some(()) };
        let Ok(now) = VolumeRecord::decode(&entry.value) else { return Some(()) };
        let next = Some(now.writing).filter(|_| now.id == volume.id).and_then(next);
        let Some(writing) = next else { return Some(()) };
        let record = VolumeRecord { writing, ..now };
        let put = Transaction::new().expect(key.clone(), Expect::Revision(entry.revision));
        match self.directory.transact(put.put(key, record.encode())).await {
            Ok(done) if done.succeeded => {
                let (volume, epoch) = (&record.name, writing.epoch);
                match writing.writer {
                    Some(_) => info!(volume, %epoch, "this host writes to it"),
                    None => info!(volume, %epoch, "nobody writes to it: the last client left"),
                }
                Some(())
            }
            // Somebody else was faster: that is looked at anew.
            Ok(_) => None,
            Err(error) => {
                warn!(volume = record.name, %error, "its writer is not changed yet");
                None
            }
        }
    }
}
