// SPDX-License-Identifier: Apache-2.0
//! Moving the copies of a volume from one host to another, while it is in use (rules 38-40).
//!
//! The command has each object's owner add a component to the record; filling it, and taking the
//! old one out, is the owners' work from then on ([`object::Objects::replace`]). So nothing has to
//! be finished by this host, and the same command again begins what is missing.

use super::directory_away;
use crate::cluster::room::{NoPlace, Rooms};
use crate::operations::{Operations, Outcome, failed, no_such_volume, usage};
use base::{ObjectId, ShardId};
use directory::{ObjectRecord, VolumeRecord};
use object::MemberChange;
use operator::{MoveReport, MovedCopy};

/// Objects whose owners are asked at a time.
const OBJECTS_AT_ONCE: usize = 16;
/// Refusals that are spelled out.
const REFUSED_MAX: usize = 8;

/// One copy that is to move.
struct Moving {
    /// Which object of the volume.
    at: u64,
    object: ObjectId,
    change: MemberChange,
}

impl Operations {
    /// Moves what the host `from` has of a volume to the host `to`, or to the hosts with most room.
    pub(crate) async fn move_copies(
        &self,
        name: &str,
        from: &str,
        to: Option<&str>,
    ) -> Outcome<MoveReport> {
        placement::check_name(name).map_err(usage)?;
        let volume = self.view.volume(name).ok_or_else(|| no_such_volume(name))?;
        let sources: Vec<ShardId> = self.members(from)?.into_iter().map(|shard| shard.id).collect();
        let target = to.map(|to| self.target(to, &sources)).transpose()?;
        if let Some(host) = &volume.kept_on {
            return Err(failed(format!(
                "volume '{name}' is kept on {host}: 'gabion volume change {name} --on HOST' moves \
                 it, and '--anywhere' lets it go where there is room"
            )));
        }
        let mut rooms = Rooms::of(&self.view);
        let (mut moving, mut refused, mut under_way) = (Vec::new(), Vec::new(), 0);
        for (at, object) in self.objects_of(&volume).await? {
            let copies = object.components.iter().filter(|component| component.replaces.is_none());
            let Some(copy) = copies.clone().find(|copy| sources.contains(&copy.shard)) else {
                continue;
            };
            if object.components.iter().any(|component| component.replaces == Some(copy.id)) {
                under_way += 1;
                continue;
            }
            match rooms.take(&object, Some(copy.id), target.as_deref()) {
                Ok(to) => {
                    let members = object.members();
                    let change = MemberChange::Replace { old: copy.id, to, members };
                    moving.push(Moving { at, object: object.id, change });
                }
                Err(why) => refused.push(no_target(to, why)),
            }
        }
        if moving.is_empty() && refused.is_empty() && under_way == 0 {
            return Err(failed(format!(
                "volume '{name}' has no copy on {from}: see 'gabion volume show {name}'"
            )));
        }
        let report = self.replace_all(&volume, moving, refused, under_way).await;
        match report.refused.first() {
            Some(why) if report.begun.is_empty() && under_way == 0 => {
                Err(failed(format!("volume '{name}' was not moved: {why}")))
            }
            _ => Ok(report),
        }
    }

    /// What is meant by the host that copies are to move to: of its shards those that can take
    /// something. None of them is one that they move from.
    pub(super) fn target(&self, name: &str, sources: &[ShardId]) -> Outcome<Vec<ShardId>> {
        let mut able: Vec<ShardId> =
            self.members(name)?.into_iter().map(|shard| shard.id).collect();
        able.retain(|shard| !sources.contains(shard));
        if able.is_empty() {
            return Err(usage(format!("the copy is on {name} already: name another host")));
        }
        able.retain(|shard| self.view.alive(*shard).is_some());
        if able.is_empty() {
            return Err(failed(format!("{name} is down: start it, or name another host")));
        }
        let maintenance = self.view.maintenance();
        able.retain(|shard| maintenance.mode(*shard).is_none());
        if able.is_empty() {
            return Err(failed(format!(
                "{name} is in maintenance ('gabion host maintenance exit {name}'): end that, or \
                 name another host"
            )));
        }
        Ok(able)
    }

    /// Ends the moves of a volume that are not through: its copies stay where they are.
    pub(crate) async fn stop_moving(&self, name: &str) -> Outcome<MoveReport> {
        placement::check_name(name).map_err(usage)?;
        let volume = self.view.volume(name).ok_or_else(|| no_such_volume(name))?;
        let mut moving = Vec::new();
        for (at, object) in self.objects_of(&volume).await? {
            let replaced = object.components.iter().filter_map(|component| component.replaces);
            let keep = MemberChange::Keep;
            let one = |component| Moving { at, object: object.id, change: keep(component) };
            moving.extend(replaced.map(one));
        }
        if moving.is_empty() {
            return Err(failed(format!(
                "no copy of volume '{name}' is on its way to another host"
            )));
        }
        Ok(self.replace_all(&volume, moving, Vec::new(), 0).await)
    }

    async fn replace_all(
        &self,
        volume: &VolumeRecord,
        moving: Vec<Moving>,
        mut refused: Vec<String>,
        under_way: u64,
    ) -> MoveReport {
        let one = async |moving: Moving| {
            let Moving { at, object, change } = moving;
            let done = self.objects.change_members(object, change).await;
            Ok::<_, ()>((at, change, done))
        };
        let all = env::try_join_at_most(OBJECTS_AT_ONCE, moving.into_iter().map(one)).await;
        let mut begun = Vec::new();
        for (at, change, done) in all.unwrap_or_default() {
            let to = match change {
                MemberChange::Replace { to, .. } => Some(self.view.shard_name(to)),
                _ => None,
            };
            match done {
                Ok(()) => begun.push(MovedCopy { object: at, to }),
                Err(error) => refused.push(format!("{}: {error}", to.unwrap_or_default())),
            }
        }
        refused.sort_unstable();
        refused.dedup();
        refused.truncate(REFUSED_MAX);
        MoveReport { volume: volume.name.clone(), begun, under_way, refused }
    }

    /// The records of a volume's objects as the directory has them now, numbered.
    async fn objects_of(&self, volume: &VolumeRecord) -> Outcome<Vec<(u64, ObjectRecord)>> {
        let mut objects = Vec::new();
        for (at, id) in (0..).zip(&volume.objects) {
            let entry = self.directory.get(&directory::object_key(*id)).await;
            let entry = entry.map_err(directory_away)?;
            let object = entry.map(|entry| ObjectRecord::decode(&entry.value));
            let Some(Ok(object)) = object else { return Err(no_such_volume(&volume.name)) };
            objects.push((at, object));
        }
        Ok(objects)
    }
}

fn no_target(to: Option<&str>, why: NoPlace) -> String {
    match (to, why) {
        (Some(to), NoPlace::NoHost) => format!("{to} has a copy already"),
        (Some(to), NoPlace::DomainsTaken) => format!(
            "another copy is on {to}, or in the same fault domain ('gabion domain list'): name a \
             host elsewhere"
        ),
        (None, NoPlace::NoHost) => "every host that is up has a copy, or no room, or is in \
                                    maintenance: add a host ('gabion host join')"
            .to_owned(),
        (None, NoPlace::DomainsTaken) => "every host that could take it is in a fault domain with \
                                          another copy ('gabion domain list'): add a host elsewhere"
            .to_owned(),
    }
}
