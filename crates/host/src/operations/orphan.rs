// SPDX-License-Identifier: Apache-2.0
//! What operators do with components that the directory does not account for: look, make their
//! volume again, give them up. What there is, every host tells the directory (`cleanup`).

mod rebuild;
mod revisions;

use super::{Operations, Outcome, failed, reply, usage};
use crate::care::tombstones::Tombstones;
use crate::cluster::guard::guard_key;
use base::{Map, ObjectId, Set, ShardId, VolumeId};
use directory::{
    About, DeletedRecord, DirectoryError, Expect, Missing, ORPHAN_PREFIX, ObjectRecord, ObjectRun,
    OrphanRecord, Transaction, VOLUME_PREFIX, VolumeLayout, VolumeRecord, Writing, is_name,
    object_key, volume_key,
};
use operator::{Command, CommandFailure, CommandReply, OrphanReport, VolumeReport};
use rebuild::{is_done, rebuild, without};
use revisions::{Revisions, holding};
use tracing::warn;

/// Objects in one transaction at most: etcd takes 128 operations.
const TRANSACTION_OBJECTS_MAX: usize = 96;
/// The same where each is compared with all of its components.
const ADOPTED_MAX: usize = 12;
const _: () = assert!(ADOPTED_MAX * (1 + directory::COMPONENTS_MAX) + 3 <= 128);

/// A volume of which there are components only.
struct Lost {
    /// As the component says that knows most.
    about: About,
    /// By index: the object, and what was found of it.
    objects: Map<u16, (ObjectId, Vec<OrphanRecord>)>,
    /// Of what was read, so that nothing of it is given up meanwhile.
    revisions: Revisions,
}

impl Lost {
    /// The volume's record, under a name of its own or that which it had, without its objects.
    /// Components say neither for what read cache is kept, where it is kept, who may use it, its
    /// policy, nor its labels.
    fn volume(&self, name: Option<&str>, stripe_width: u8, writing: Writing) -> VolumeRecord {
        let about = &self.about;
        VolumeRecord {
            id: about.volume,
            name: name.unwrap_or(&about.name).to_owned(),
            size_bytes: 0,
            ftt: about.ftt,
            reserve_percent: about.reserve_percent,
            cache_percent: 0,
            stripe_width,
            kept_on: None,
            connections: directory::Connections::Shared,
            writing,
            policy: None,
            labels: directory::Labels::new(),
            trashed: None,
            runs: Vec::new(),
            objects: Vec::new(),
        }
    }

    /// Whether something was found of each object from number `first` on.
    fn check_found(&self, first: u16) -> Outcome<()> {
        let about = &self.about;
        let mut all = first..about.objects;
        let Some(index) = all.find(|index| !self.objects.contains_key(index)) else {
            return Ok(());
        };
        Err(failed(format!(
            "part {} of {} of volume '{}' is not found: start the hosts and open the disk groups \
             that have it ('gabion status'), and try again in a minute",
            index + 1,
            about.objects,
            about.name
        )))
    }

    /// How these objects lie, the first of which has number `first`: as their components say.
    fn layout_of(&self, objects: &[ObjectRecord], first: u16) -> Outcome<VolumeLayout> {
        let mut said = self.objects.range(first..).map(|(_, (_, found))| {
            let said = found.iter().filter_map(|record| record.about.as_ref());
            said.map(|about| (about.column, about.width)).max()
        });
        let (mut runs, mut rest) = (Vec::new(), objects);
        while let Some(Some((_, width))) = said.next() {
            let columns = (1..width).map(|column| (column, width));
            let is_set = columns.map(Some).eq(said.by_ref().take(usize::from(width) - 1));
            let Some((set, behind)) = rest.split_at_checked(width.into()).filter(|_| is_set) else {
                break;
            };
            let sectors = set.iter().map(|object| object.sectors).sum();
            let run = ObjectRun { sets: 1, sectors, width };
            if !run.columns().eq(set.iter().map(|object| object.sectors)) {
                break;
            }
            runs.push(run);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(failed("its components disagree about how the volume is striped"));
        }
        Ok(VolumeLayout::of_runs(runs))
    }
}

impl Operations {
    /// Carries out what is asked about what the directory does not account for.
    pub(super) async fn orphan_command(&self, command: Command) -> CommandReply {
        match command {
            Command::OrphanAdopt { volume, name, force } => {
                reply(self.adopt(&volume, name.as_deref(), force).await)
            }
            Command::OrphanDelete { volume } => reply(self.give_up(&volume).await),
            _ => reply(self.orphans().await),
        }
    }

    /// Everything that the directory does not account for, on all hosts.
    pub(crate) async fn orphans(&self) -> Outcome<Vec<OrphanReport>> {
        let (records, _) = self.orphan_records().await?;
        Ok(records.iter().map(|record| self.orphan_report(record)).collect())
    }

    fn orphan_report(&self, record: &OrphanRecord) -> OrphanReport {
        let about = record.about.as_ref();
        OrphanReport {
            component: record.id.to_string(),
            object: record.object.to_string(),
            volume: about.map(|about| about.name.clone()),
            volume_id: about.map(|about| about.volume.to_string()),
            index: about.map(|about| u32::from(about.index) + 1),
            objects: about.map(|about| u32::from(about.objects)),
            volume_bytes: about.map(|about| about.size_bytes),
            ftt: about.map(|about| about.ftt),
            host: self.view.shard_name(record.shard),
            group: record.group.to_string(),
            why: why(record.missing).to_owned(),
            since: record.since,
            size_bytes: record.sectors * base::SECTOR_SIZE,
            used_bytes: record.used_bytes,
            term: record.term.0,
            durable: format!("{}.{}", record.durable.term().0, record.durable.counter()),
            is_damaged: record.is_damaged,
            is_empty: record.is_leftover(),
            given_up: record.given_up,
        }
    }

    async fn orphan_records(&self) -> Outcome<(Vec<OrphanRecord>, Revisions)> {
        let listing = self.directory.list(ORPHAN_PREFIX).await.map_err(away)?;
        let (mut records, mut revisions) = (Vec::new(), Revisions::new());
        for (_, entry) in listing.entries {
            let Ok(record) = OrphanRecord::decode(&entry.value) else { continue };
            revisions.insert(record.id, entry.revision);
            records.push(record);
        }
        Ok((records, revisions))
    }

    /// What is wrong with the directory, for `gabion status`.
    pub(crate) fn directory_alarms(&self) -> Vec<String> {
        if !self.view.is_complete() {
            return Vec::new();
        }
        match self.view.cluster() {
            Some(found) if found == self.cluster => self.orphan_alarms(),
            Some(found) => vec![format!(
                "the directory is that of cluster {found:x}, this host belongs to {:x}: check the \
                 directory's address in host.toml; nothing is deleted",
                self.cluster
            )],
            None => vec![
                "the directory is empty: restore a backup ('gabion directory restore FILE') or \
                 begin it anew and make the volumes again from the disks ('gabion cluster \
                 recover'); nothing is deleted"
                    .to_owned(),
            ],
        }
    }

    /// One line for each volume that is not what the directory says.
    fn orphan_alarms(&self) -> Vec<String> {
        let mut volumes: Map<(VolumeId, Missing), (String, u32, u32)> = Map::new();
        let mut nameless = 0;
        for record in self.view.orphans().iter().filter(|record| !record.is_leftover()) {
            let Some(about) = &record.about else {
                nameless += 1;
                continue;
            };
            let key = (about.volume, record.missing);
            let known = volumes.entry(key).or_insert_with(|| (about.name.clone(), 0, 0));
            match record.given_up {
                None => known.1 += 1,
                Some(_) => known.2 += 1,
            }
        }
        let mut alarms: Vec<String> = volumes
            .into_iter()
            .map(|((id, missing), (name, count, gone))| {
                let gone = match gone {
                    0 => String::new(),
                    gone => format!(", {gone} more gave up their space on full devices"),
                };
                if missing == Missing::Component {
                    return format!(
                        "volume '{name}' ({id}): {}, {count} component(s) are kept and not \
                         served{gone}; see 'gabion orphan list', and 'gabion orphan delete {id}' \
                         where nobody needs them",
                        why(missing)
                    );
                }
                format!(
                    "volume '{name}' ({id}): {}, {count} component(s) are kept and not \
                     served{gone}; restore a newer backup of the directory ('gabion directory \
                     restore FILE') or make it again: 'gabion orphan adopt {id}'",
                    why(missing)
                )
            })
            .collect();
        if nameless > 0 {
            alarms.push(format!(
                "{nameless} component(s) of volumes without a name are in no record of the \
                 directory and kept: see 'gabion orphan list'"
            ));
        }
        alarms
    }

    /// Makes a volume's records again of what its components say.
    pub(crate) async fn adopt(
        &self,
        wanted: &str,
        name: Option<&str>,
        is_forced: bool,
    ) -> Outcome<VolumeReport> {
        if name.is_some_and(|name| !is_name(name)) {
            return Err(usage("that is not a name for a volume"));
        }
        let tombstones = Tombstones::read(&self.directory).await.map_err(away)?;
        let (records, revisions) = self.orphan_records().await?;
        let lost = Lost { revisions, ..gather(records, wanted)? };
        let volume = lost.about.volume;
        if tombstones.names(volume) {
            return Err(failed(format!("volume {volume} was deleted by command")));
        }
        self.check_fresh(&lost.about.name, lost.objects.values().flat_map(|(_, found)| found))?;
        let known = self.volume_by_id(volume).await?;
        let volume = match known {
            Some(record) => self.adopt_into(record, &lost, is_forced).await?,
            None => self.adopt_whole(&lost, name, is_forced).await?,
        };
        self.until_seen(&volume, |_| true).await;
        Ok(self.report(&volume))
    }

    /// What a host said before it went down, or in an earlier run, may not be so any more.
    fn check_fresh<'a>(
        &self,
        name: &str,
        found: impl IntoIterator<Item = &'a OrphanRecord>,
    ) -> Outcome<()> {
        for record in found.into_iter().filter(|record| record.given_up.is_none()) {
            let alive = self.view.alive(record.shard).map(|alive| alive.incarnation);
            if alive != Some(record.incarnation) {
                return Err(failed(format!(
                    "{} has copies of '{name}' and is down or was just started: start it, and \
                     try again in a minute",
                    self.view.shard_name(record.shard)
                )));
            }
        }
        Ok(())
    }

    /// Which hosts run, as the directory has it.
    fn is_up(&self) -> impl Fn(ShardId) -> bool {
        move |shard| self.view.alive(shard).is_some()
    }

    async fn volume_by_id(&self, id: VolumeId) -> Outcome<Option<VolumeRecord>> {
        for (key, entry) in self.directory.list(VOLUME_PREFIX).await.map_err(away)?.entries {
            let record = VolumeRecord::decode(&entry.value);
            let record = record.map_err(|error| failed(format!("{key} is damaged: {error}")))?;
            if record.id == id {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The volume is in the directory: makes those of its objects anew whose records are older than
    /// what their components know, or are gone.
    async fn adopt_into(
        &self,
        volume: VolumeRecord,
        lost: &Lost,
        is_forced: bool,
    ) -> Outcome<VolumeRecord> {
        let mut left = 0;
        let known = volume.objects.len();
        let inside = lost.objects.iter().filter(|(index, _)| usize::from(**index) < known);
        for (object, found) in inside.map(|(_, one)| one) {
            if !volume.objects.contains(object) {
                return Err(failed(format!("volume '{}' has no object {object}", volume.name)));
            }
            let key = object_key(*object);
            let entry = self.directory.get(&key).await.map_err(away)?;
            let old = entry.as_ref().map(|entry| ObjectRecord::decode(&entry.value));
            let old = old.transpose().map_err(|error| failed(format!("{key}: {error}")))?;
            if old.as_ref().is_some_and(|old| is_done(found, old)) {
                continue;
            }
            if !is_forced && old.as_ref().is_some_and(|old| without(found, old).is_some()) {
                left += found.len();
                continue;
            }
            let record = rebuild(found, old.as_ref(), self.is_up(), is_forced).map_err(failed)?;
            let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
            let write = Transaction::new()
                .expect(volume_key(&volume.name), Expect::Present)
                .expect(directory::deleted_key(volume.id), Expect::Absent)
                .expect(&key, expect)
                .put(&key, record.encode());
            self.commit(holding(&lost.revisions, write, &record)).await?;
        }
        if left > 0 {
            return Err(failed(format!(
                "the record of volume '{}' went on without {left} component(s) that were found \
                 later: 'gabion orphan list' shows them, 'gabion orphan delete {}' deletes them, \
                 --force goes on from them and loses what was written since",
                volume.name, volume.id
            )));
        }
        self.adopt_grown(volume, lost, is_forced).await
    }

    /// The volume was larger than the directory says, which was set back to before it grew: makes
    /// it as large again as its components say.
    async fn adopt_grown(
        &self,
        volume: VolumeRecord,
        lost: &Lost,
        is_forced: bool,
    ) -> Outcome<VolumeRecord> {
        let known = u16::try_from(volume.objects.len()).unwrap_or(u16::MAX);
        if lost.objects.keys().all(|index| *index < known) {
            return Ok(volume);
        }
        lost.check_found(known)?;
        let behind = lost.objects.range(known..);
        let objects = behind.map(|(_, (_, found))| rebuild(found, None, self.is_up(), is_forced));
        let objects: Vec<_> = objects.collect::<Result<_, _>>().map_err(failed)?;
        let layout = lost.layout_of(&objects, known)?;
        check_whole(&volume.clone().with_objects(&layout, &objects), &lost.about)?;
        let (mut volume, mut rest) = (volume, objects.as_slice());
        for layout in layout.parts(ADOPTED_MAX) {
            let (part, behind) = rest.split_at(layout.sizes().count());
            rest = behind;
            let (now, revision) = self.volume_entry(&volume.name).await?;
            if now != volume {
                return Err(changed());
            }
            let key = volume_key(&volume.name);
            volume = volume.with_objects(&layout, part);
            let mut write = Transaction::new()
                .expect(&key, Expect::Revision(revision))
                .expect(directory::deleted_key(volume.id), Expect::Absent)
                .put(&key, volume.encode());
            for object in part {
                let key = object_key(object.id);
                write = write.expect(&key, Expect::Absent).put(&key, object.encode());
                write = holding(&lost.revisions, write, object);
            }
            self.commit(write).await?;
        }
        Ok(volume)
    }

    /// Deletes components that the records of their objects went on without: the records have them
    /// deleted from now on.
    async fn leave_out(
        &self,
        wanted: &str,
        records: Vec<OrphanRecord>,
        revisions: &Revisions,
    ) -> Outcome<()> {
        // Of some nobody knows which volume they are of.
        let mut objects: Map<ObjectId, Vec<OrphanRecord>> = Map::new();
        for record in records {
            objects.entry(record.object).or_default().push(record);
        }
        for (object, found) in &objects {
            let key = object_key(*object);
            let entry = self.directory.get(&key).await.map_err(away)?;
            let old = entry.as_ref().map(|entry| ObjectRecord::decode(&entry.value));
            let old = old.transpose().map_err(|error| failed(format!("{key}: {error}")))?;
            let (Some(entry), Some(old)) = (entry, old) else { return Err(is_there(wanted)) };
            if is_done(found, &old) {
                continue;
            }
            let record = without(found, &old).ok_or_else(|| is_there(wanted))?;
            let write = Transaction::new()
                .expect(&key, Expect::Revision(entry.revision))
                .put(&key, record.encode());
            self.commit(holding(revisions, write, &record)).await?;
        }
        Ok(())
    }

    /// The volume is not in the directory: all of its objects are made anew, the volume last.
    async fn adopt_whole(
        &self,
        lost: &Lost,
        name: Option<&str>,
        is_forced: bool,
    ) -> Outcome<VolumeRecord> {
        let about = &lost.about;
        lost.check_found(0)?;
        let rebuilt = lost.objects.values();
        let rebuilt = rebuilt.map(|(_, found)| rebuild(found, None, self.is_up(), is_forced));
        let objects = rebuilt.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let (layout, writing) = (lost.layout_of(&objects, 0)?, writing_of(&objects)?);
        let volume = lost.volume(name, layout.width(), writing);
        let volume = volume.with_objects(&layout, &objects);
        check_whole(&volume, about)?;
        let key = volume_key(&volume.name);
        if self.directory.get(&key).await.map_err(away)?.is_some() {
            return Err(failed(format!(
                "there is another volume '{}': choose a name with --name",
                volume.name
            )));
        }
        let guard = guard_key(volume.id);
        let parts: Vec<_> = objects.chunks(ADOPTED_MAX).collect();
        for (index, part) in parts.iter().enumerate() {
            let (is_first, is_last) = (index == 0, index + 1 == parts.len());
            let mut write = Transaction::new()
                .expect(&key, Expect::Absent)
                .expect(directory::deleted_key(volume.id), Expect::Absent);
            for object in *part {
                let key = object_key(object.id);
                write = write.expect(&key, Expect::Absent).put(&key, object.encode());
                write = holding(&lost.revisions, write, object);
            }
            write = match (is_first, is_last) {
                (true, true) => write,
                (true, false) => write.expect(&guard, Expect::Absent).put(&guard, ""),
                (false, false) => write.expect(&guard, Expect::Present),
                (false, true) => write.expect(&guard, Expect::Present).delete(&guard),
            };
            if is_last {
                write = write.put(&key, volume.encode());
            }
            let done = self.commit(write).await;
            if done.is_err() && !is_first {
                // What was written so far goes by itself (`orphans`); the components stay.
                let undo = Transaction::new().delete(&guard);
                if let Err(error) = self.directory.transact(undo).await {
                    warn!(%error, "objects of an adoption that failed stay for now");
                }
            }
            done?;
        }
        Ok(volume)
    }

    async fn commit(&self, write: Transaction) -> Outcome<()> {
        match self.directory.transact(write).await {
            Ok(done) if done.succeeded => Ok(()),
            Ok(_) => Err(changed()),
            Err(DirectoryError::Unknown) => Err(failed(
                "the directory did not answer: see 'gabion volume list' whether it was done",
            )),
            Err(error) => Err(away(error)),
        }
    }

    /// Gives up what is left of a volume, or of one object: its hosts delete it.
    pub(crate) async fn give_up(&self, wanted: &str) -> Outcome<()> {
        let (records, revisions) = self.orphan_records().await?;
        let is_object =
            |record: &OrphanRecord| record.about.is_none() && record.object.to_string() == wanted;
        let records: Vec<_> = match records.iter().any(is_object) {
            true => records.into_iter().filter(is_object).collect(),
            false => gather(records, wanted)?.objects.into_values().flat_map(|o| o.1).collect(),
        };
        if !records.is_empty() && records.iter().all(|r| r.missing == Missing::Component) {
            self.check_fresh(wanted, &records)?;
            return self.leave_out(wanted, records, &revisions).await;
        }
        let objects: Set<ObjectId> = records.iter().map(|record| record.object).collect();
        let shards: Set<ShardId> = records.iter().map(|record| record.shard).collect();
        let about = records.first().and_then(|record| record.about.as_ref());
        let Some(first) = objects.first() else { return Err(nothing(wanted)) };
        // Parts that a volume had before the directory was set back go, and the volume stays: they
        // are named under a number that nothing else has.
        let id = match about.map(|about| about.volume) {
            Some(volume) if self.volume_by_id(volume).await?.is_none() => volume,
            _ => VolumeId(first.0),
        };
        if records.iter().any(|record| record.missing != Missing::Object) {
            return Err(is_there(wanted));
        }
        let mut write = Transaction::new();
        for object in objects.iter().take(TRANSACTION_OBJECTS_MAX) {
            write = write.expect(object_key(*object), Expect::Absent);
        }
        let name = about.map_or_else(|| "orphan".to_owned(), |about| about.name.clone());
        let (shards, objects) = (shards.into_iter().collect(), objects.into_iter().collect());
        let record = DeletedRecord { id, name, shards, objects };
        let key = directory::deleted_key(id);
        self.commit(write.expect(&key, Expect::Absent).put(key, record.encode())).await
    }
}

/// Who writes to a volume that is made anew of these objects: nobody, in an epoch behind theirs.
fn writing_of(objects: &[ObjectRecord]) -> Outcome<directory::Writing> {
    let latest = objects.iter().map(|object| object.writer_epoch).max().unwrap_or_default();
    let anew = directory::Writing::made_anew(latest);
    anew.ok_or_else(|| failed("its writer changed as often as it can: it cannot be made anew"))
}

/// Whether a volume that was made of what its components say is the one that they are of.
fn check_whole(volume: &VolumeRecord, about: &About) -> Outcome<()> {
    let checked = volume.check().map_err(|error| error.to_string());
    let is_as_large = volume.size_bytes == about.size_bytes;
    let checked = checked.and(is_as_large.then_some(()).ok_or_else(|| {
        let (has, had) = (volume.size_bytes, about.size_bytes);
        format!("they have {has} bytes together, and the volume had {had}")
    }));
    checked.map_err(|why| failed(format!("its components disagree: {why}")))
}

fn changed() -> CommandFailure {
    failed("the directory changed meanwhile: nothing was done, try again")
}

fn is_there(wanted: &str) -> CommandFailure {
    failed(format!("'{wanted}' is in the directory: delete it with 'gabion volume delete'"))
}

fn why(missing: Missing) -> &'static str {
    match missing {
        Missing::Object => "it is in no record of the directory",
        Missing::Component => "its record in the directory does not list them",
        Missing::Version => "its record in the directory is older than its copies",
        Missing::History => "its record in the directory went on without these copies",
    }
}

fn away(error: DirectoryError) -> CommandFailure {
    failed(format!("the directory cannot be used ({error}): nothing was changed; try again"))
}

fn nothing(wanted: &str) -> CommandFailure {
    failed(format!("nothing of '{wanted}' is waiting: see 'gabion orphan list'"))
}

/// What there is of the volume with this name or id.
fn gather(records: Vec<OrphanRecord>, wanted: &str) -> Outcome<Lost> {
    let is_wanted = |record: &OrphanRecord| {
        let about = record.about.as_ref();
        about.is_some_and(|about| about.name == wanted || about.volume.to_string() == wanted)
    };
    let records: Vec<_> = records.into_iter().filter(is_wanted).collect();
    let ids: Set<VolumeId> =
        records.iter().filter_map(|r| Some(r.about.as_ref()?.volume)).collect();
    if ids.len() > 1 {
        let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
        return Err(failed(format!(
            "several volumes were '{wanted}': say one of {}",
            ids.join(", ")
        )));
    }
    let newest = records.iter().filter_map(|record| record.about.clone());
    // A volume grows, and never shrinks; versions of different objects do not compare.
    let Some(about) = newest.max_by_key(|about| (about.size_bytes, about.version)) else {
        return Err(nothing(wanted));
    };
    let mut objects: Map<u16, (ObjectId, Vec<OrphanRecord>)> = Map::new();
    for record in records {
        let Some(index) = record.about.as_ref().map(|about| about.index) else { continue };
        let object = record.object;
        let (known, found) = objects.entry(index).or_insert_with(|| (object, Vec::new()));
        if *known != object || index >= about.objects {
            return Err(failed("its components disagree about which part of it they are"));
        }
        found.push(record);
    }
    Ok(Lost { about, objects, revisions: Revisions::new() })
}
