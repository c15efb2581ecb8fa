// SPDX-License-Identifier: Apache-2.0
//! Backups of the directory that a host takes by itself and keeps on its own disk groups.
//!
//! One every `tuning.directory_backup_hours`, and one soon after the volumes or the hosts of the
//! cluster changed; each disk group keeps the three newest that it got.
//!
//! A directory that forgot something must not push out what still knows it. So nothing is kept of
//! one that does not account for every component, here or elsewhere, or that was restored and has
//! records in doubt; nor of one without volumes. Hosts wait at their start, and after a change,
//! until the others had time to say what they hold.

use crate::cluster::backup::{self, RestoreError};
use crate::cluster::view::View;
use crate::config::HostConfig;
use crate::storage::Storage;
use base::{GroupId, Instant, Lsn, ObjectId, Set};
use directory::{
    Backup, DELETED_PREFIX, DeletedRecord, Directory, HOST_PREFIX, OBJECT_PREFIX, ObjectRecord,
    ShardRecord, VOLUME_PREFIX, VolumeRecord, host_key, volume_key,
};
use diskgroup::{DiskGroup, Kept, KeptError};
use env::Env;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;
use tracing::{info, warn};

/// Time between two looks.
const ROUND: Duration = Duration::from_secs(60);
/// From a change, and from the host's start, to the next backup: by then all hosts have told what
/// the directory does not account for, which takes them two minutes.
const SOON: Duration = Duration::from_secs(300);
/// Status warns where no backup is younger than so many intervals.
const LATE_TIMES: u64 = 3;

/// What makes a new backup worth its while: the volumes' records and the keys of hosts.
type Content = Vec<(String, Vec<u8>)>;

/// Why a backup is not kept.
#[derive(Debug, Error)]
enum NotKept {
    /// what it would not bring back
    #[error(
        "the directory does not account for all that is on the disks: see 'gabion orphan list'"
    )]
    Forgetful,
    /// restored
    #[error("records of the directory come from a backup and were not adopted yet")]
    Doubted,
    /// not read
    #[error(transparent)]
    Directory(#[from] RestoreError),
    /// too large
    #[error("{0}: take backups with 'gabion directory backup FILE'")]
    TooLarge(KeptError),
    /// nowhere
    #[error("no disk group took it: {0}")]
    NoPlace(KeptError),
    /// nowhere at all
    #[error("no disk group is open")]
    NoGroup,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Backups(Rc<BackupsInner>);

struct BackupsInner {
    env: Env,
    directory: Directory,
    storage: Storage,
    view: View,
    cluster: u64,
    /// Zero: none are taken.
    interval: Duration,
    state: RefCell<BackupsState>,
}

#[derive(Default)]
struct BackupsState {
    /// What the newest one has of [`Content`], once that is known.
    content: Option<Content>,
    /// Since when the directory has another.
    changed: Option<Instant>,
    /// When the newest one was taken, if there is one; unknown before the first look.
    newest: Option<Option<u64>>,
    tried: Option<Instant>,
    failure: Option<NotKept>,
}

impl Backups {
    pub(crate) fn new(
        env: &Env,
        directory: &Directory,
        storage: &Storage,
        view: &View,
        config: &HostConfig,
    ) -> Self {
        Self(Rc::new(BackupsInner {
            env: env.clone(),
            directory: directory.clone(),
            storage: storage.clone(),
            view: view.clone(),
            cluster: config.cluster,
            interval: Duration::from_secs(config.tuning.directory_backup_hours * 3600),
            state: RefCell::default(),
        }))
    }

    /// Runs for ever.
    pub(crate) async fn run(self) {
        if self.0.interval.is_zero() {
            return;
        }
        let begun = self.0.env.now();
        loop {
            self.0.env.sleep(ROUND).await;
            self.0.round(begun).await;
        }
    }

    /// What is wrong with them, for `gabion status`; one host's word.
    pub(crate) fn alarm(&self) -> Option<String> {
        let inner = &self.0;
        if inner.interval.is_zero() || inner.view.volumes().is_empty() {
            return None;
        }
        let state = inner.state.borrow();
        let why = state.failure.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let most = inner.interval.as_secs() * LATE_TIMES;
        let age = state.newest?.map(|taken| inner.wall().saturating_sub(taken));
        match (age, &state.failure) {
            (_, Some(NotKept::TooLarge(_))) | (None, Some(_)) => {
                Some(format!("no backup of the directory is kept on the disk groups{why}"))
            }
            (Some(age), _) if age > most => Some(format!(
                "the newest backup of the directory on the disk groups is {} hours old{why}",
                age / 3600
            )),
            _ => None,
        }
    }
}

impl BackupsInner {
    fn wall(&self) -> u64 {
        self.env.wall().0 / 1_000_000_000
    }

    async fn round(&self, begun: Instant) {
        let now = self.env.now();
        let newest = newest_first(&self.storage).await.into_iter().next();
        self.state.borrow_mut().newest = Some(newest.as_ref().map(|(_, kept)| kept.taken));
        let is_known = self.view.is_complete() && self.directory.is_connected();
        let content = content_of_view(&self.view);
        let has_volumes = content.iter().any(|(key, _)| key.starts_with(VOLUME_PREFIX));
        if !is_known || !has_volumes || self.storage.slots().is_empty() {
            return;
        }
        self.learn(newest.as_ref()).await;
        if self.is_due(begun, now, newest.as_ref(), &content) {
            self.attempt(newest).await;
        }
    }

    /// After a start: what the newest one has, so that none is taken for nothing.
    async fn learn(&self, newest: Option<&(GroupId, Kept)>) {
        let is_known = self.state.borrow().content.is_some();
        let Some((group, kept)) = newest.filter(|_| !is_known) else { return };
        let Ok(bytes) = read(&self.storage, *group, kept.generation).await else { return };
        let Ok(backup) = Backup::decode(&bytes) else { return };
        self.state.borrow_mut().content = Some(content_of(&backup));
    }

    fn is_due(
        &self,
        begun: Instant,
        now: Instant,
        newest: Option<&(GroupId, Kept)>,
        content: &Content,
    ) -> bool {
        let mut state = self.state.borrow_mut();
        let is_same = newest.is_some() && state.content.as_ref() == Some(content);
        state.changed = if is_same { None } else { Some(state.changed.unwrap_or(now)) };
        let since = |at: Instant| now.since(at);
        let has_waited = state.changed.is_some_and(|at| since(at) >= SOON);
        // A clock that was set back far makes one more, not none for years.
        let wall = self.wall();
        let interval = self.interval.as_secs();
        let is_old = newest.is_some_and(|(_, kept)| wall.abs_diff(kept.taken) >= interval);
        let may_try = state.tried.is_none_or(|at| since(at) >= SOON);
        since(begun) >= SOON && may_try && (has_waited || is_old)
    }

    async fn attempt(&self, newest: Option<(GroupId, Kept)>) {
        let tried = Some(self.env.now());
        self.state.borrow_mut().tried = tried;
        match self.make(newest).await {
            Ok((kept, content)) => {
                info!(number = kept.generation, bytes = kept.length, "a backup of the directory");
                let (content, newest) = (Some(content), Some(Some(kept.taken)));
                let state = BackupsState { content, newest, tried, ..BackupsState::default() };
                self.state.replace(state);
            }
            Err(why) => {
                warn!(%why, "no backup of the directory is kept");
                self.state.borrow_mut().failure = Some(why);
            }
        }
    }

    /// Takes one and keeps it, where the newest one is if that group takes it.
    async fn make(&self, newest: Option<(GroupId, Kept)>) -> Result<(Kept, Content), NotKept> {
        if self.view.orphans().iter().any(|orphan| !orphan.is_empty()) {
            return Err(NotKept::Forgetful);
        }
        // What is here now has a record by the time of the listing, or is being made or deleted:
        // then the next attempt is well.
        let here = self.storage.components();
        let here = here.values().filter(|info| info.durable > Lsn::ZERO || info.meta.term.0 > 0);
        let here: Set<ObjectId> = here.map(|info| info.object).collect();
        let backup = backup::take(&self.env, &self.directory, self.cluster).await?;
        check(&backup, &here)?;
        let (bytes, content) = (backup.encode(), content_of(&backup));
        let above = newest.as_ref().map_or(0, |(_, kept)| kept.generation);
        let mut groups: Vec<_> = self.storage.groups().iter().map(DiskGroup::id).collect();
        if let Some((first, _)) = newest {
            groups.sort_by_key(|group| *group != first);
        }
        let mut why = NotKept::NoGroup;
        for id in groups {
            let Some(group) = open_group(&self.storage, id) else { continue };
            match group.keep(&bytes, backup.taken, above).await {
                Ok(kept) => return Ok((kept, content)),
                Err(error @ KeptError::TooLarge { .. }) => return Err(NotKept::TooLarge(error)),
                Err(error) => why = NotKept::NoPlace(error),
            }
        }
        Err(why)
    }
}

/// Refuses one that would not bring back everything.
fn check(backup: &Backup, here: &Set<ObjectId>) -> Result<(), NotKept> {
    let mut known: Set<ObjectId> = Set::new();
    for (key, value) in &backup.entries {
        if key.starts_with(OBJECT_PREFIX) {
            let Ok(record) = ObjectRecord::decode(value) else { continue };
            if record.is_doubted {
                return Err(NotKept::Doubted);
            }
            known.insert(record.id);
        } else if key.starts_with(DELETED_PREFIX) {
            known.extend(DeletedRecord::decode(value).ok().into_iter().flat_map(|d| d.objects));
        }
    }
    match here.is_subset(&known) {
        true => Ok(()),
        false => Err(NotKept::Forgetful),
    }
}

fn content_of_view(view: &View) -> Content {
    let volumes = view.volumes().into_iter().map(|v| (volume_key(&v.name), v.encode()));
    let hosts = view.shards().into_iter().map(|shard| (host_key(shard.id), Vec::new()));
    let mut content: Content = volumes.chain(hosts).collect();
    content.sort();
    content
}

/// The same of a backup, whichever release wrote its records.
fn content_of(backup: &Backup) -> Content {
    let of = |(key, value): &(String, Vec<u8>)| match () {
        () if key.starts_with(VOLUME_PREFIX) => {
            VolumeRecord::decode(value).ok().map(|v| (volume_key(&v.name), v.encode()))
        }
        () if key.starts_with(HOST_PREFIX) => {
            ShardRecord::decode(value).ok().map(|shard| (host_key(shard.id), Vec::new()))
        }
        () => None,
    };
    let mut content: Content = backup.entries.iter().filter_map(of).collect();
    content.sort();
    content
}

/// A group that is open now. Nobody is to keep it across a wait for something else: its devices are
/// free only once nobody has it.
fn open_group(storage: &Storage, id: GroupId) -> Option<DiskGroup> {
    storage.groups().into_iter().find(|group| group.id() == id)
}

/// All backups on the open groups of this host, the newest first.
pub(crate) async fn newest_first(storage: &Storage) -> Vec<(GroupId, Kept)> {
    let mut all = Vec::new();
    let ids: Vec<_> = storage.groups().iter().map(DiskGroup::id).collect();
    for id in ids {
        let Some(group) = open_group(storage, id) else { continue };
        match group.kept().await {
            Ok(kept) => all.extend(kept.into_iter().map(|kept| (id, kept))),
            Err(error) => warn!(group = %id, %error, "its backups are not read"),
        }
    }
    all.sort_by_key(|(_, kept)| std::cmp::Reverse((kept.generation, kept.taken)));
    all
}

/// One of them.
pub(crate) async fn read(
    storage: &Storage,
    id: GroupId,
    generation: u64,
) -> Result<Vec<u8>, KeptError> {
    match open_group(storage, id) {
        Some(group) => group.read_kept(generation).await,
        None => Err(KeptError::Gone { generation }),
    }
}
