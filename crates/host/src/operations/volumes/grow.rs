// SPDX-License-Identifier: Apache-2.0
//! Making a volume larger while it is in use: it gets objects behind those that it has. No data
//! moves, and no owner is asked.
//!
//! As with a new volume the components are made first, and the records come last. One transaction
//! writes the new objects and the volume's record with its new size, so that a volume never has a
//! part of an object. Very large steps take several such transactions, each of which leaves a whole
//! volume; the same command again goes on.

use super::create::ROOM_RACES_MAX;
use super::make::{NewObjects, Witness};
use super::{DECIDE_MAX, Undecided, decide, directory_away, unknown};
use crate::operations::{Operations, Outcome, failed, usage};
use base::{BLOCK_SIZE, SECTOR_SIZE, format_size};
use directory::{
    Entry, Expect, OBJECTS_MAX, ObjectRecord, Transaction, VolumeLayout, VolumeRecord,
};
use operator::VolumeReport;
use placement::VolumeSpec;

impl Operations {
    /// Gives a volume `size_bytes` bytes; one that has them already stays as it is.
    pub(crate) async fn grow(&self, name: &str, size_bytes: u64) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        let (mut volume, mut revision) = self.volume_entry(name).await?;
        VolumeSpec::new(name, size_bytes, volume.ftt).map_err(usage)?;
        if size_bytes < volume.size_bytes {
            let has = format_size(volume.size_bytes);
            return Err(usage(format!(
                "volume '{name}' has {has}: it can be made larger, not smaller"
            )));
        }
        let mut note = None;
        while volume.size_bytes < size_bytes {
            check_can_grow(&volume)?;
            let new = self.next_objects(&volume, size_bytes)?;
            let (objects, witnesses) = self.make_components(&new, false).await?;
            let next = volume.with_objects(&new.layout, &objects);
            self.put_grown((&next, revision), &objects, (&new, witnesses)).await?;
            note = self.overcommitment(&next, &objects);
            (volume, revision) = self.volume_entry(name).await?;
        }
        self.until_seen(&volume, |now| now.size_bytes >= size_bytes).await;
        Ok(VolumeReport { note, ..self.report(&volume) })
    }

    /// What the volume gets next: as many stripe sets as one transaction can write.
    fn next_objects(&self, volume: &VolumeRecord, size_bytes: u64) -> Outcome<NewObjects> {
        let sectors = (size_bytes - volume.size_bytes) / SECTOR_SIZE;
        let each = self.creation.object_sectors;
        let more = VolumeLayout::striped(sectors, volume.stripe_width, each);
        let (name, has) = (&volume.name, volume.objects.len());
        if has + more.sizes().count() > OBJECTS_MAX {
            return Err(failed(format!(
                "volume '{name}' cannot grow by so much: it has {has} parts and can have \
                 {OBJECTS_MAX}; copy it into a new, larger volume"
            )));
        }
        let last = volume.objects.last().and_then(|id| self.view.object(*id));
        let beside = last.map(|last| last.components.iter().map(|c| c.shard).collect());
        let first = more.parts(self.creation.transaction_objects).into_iter().next();
        Ok(NewObjects {
            volume: volume.id,
            name: name.clone(),
            layout: first.unwrap_or_default(),
            ftt: volume.ftt,
            epoch: volume.writing.epoch,
            reserve_percent: volume.reserve_percent,
            kept_on: volume.kept_on.clone(),
            beside: beside.unwrap_or_default(),
            deed: "made larger",
        })
    }

    /// Writes the new objects and the volume that has them.
    async fn put_grown(
        &self,
        (volume, revision): (&VolumeRecord, u64),
        objects: &[ObjectRecord],
        (new, mut witnesses): (&NewObjects, Vec<Witness>),
    ) -> Outcome<()> {
        let until = self.env.now() + DECIDE_MAX;
        for _ in 0..=ROOM_RACES_MAX {
            let (grown, probe) = growth(volume, revision, objects, &witnesses);
            let landed = |entry: Option<&Entry>| entry.is_some();
            match decide(&self.env, &self.directory, &grown, &probe, landed, until).await {
                Ok(true) => return Ok(()),
                Ok(false) if self.is_only_room(&mut witnesses).await => {}
                Ok(false) => break,
                Err(Undecided::Away(error)) => {
                    self.discard(new, objects).await;
                    return Err(directory_away(error));
                }
                Err(Undecided::Unknown) => {
                    return Err(unknown(&format!("volume '{}' was made larger", volume.name)));
                }
            }
        }
        self.discard(new, objects).await;
        Err(failed(format!(
            "volume '{}' was not made larger: it or the cluster changed meanwhile; try again",
            volume.name
        )))
    }
}

/// Whether new objects can begin where the volume ends.
fn check_can_grow(volume: &VolumeRecord) -> Outcome<()> {
    if volume.size_bytes.is_multiple_of(BLOCK_SIZE) {
        return Ok(());
    }
    Err(failed(format!(
        "volume '{}' cannot grow: its {} bytes are not a multiple of 4 KiB, so that blocks of a \
         file system would lie across two of ours; copy it into a new, larger volume",
        volume.name, volume.size_bytes
    )))
}

/// The transaction that makes a volume larger, and a key that exists when it was applied.
pub(super) fn growth(
    volume: &VolumeRecord,
    revision: u64,
    objects: &[ObjectRecord],
    witnesses: &[Witness],
) -> (Transaction, String) {
    let key = directory::volume_key(&volume.name);
    let mut transaction = Transaction::new()
        .expect(key.clone(), Expect::Revision(revision))
        .put(key, volume.encode());
    for witness in witnesses {
        let alive = directory::alive_key(witness.shard);
        transaction = transaction.expect(alive, Expect::Revision(witness.revision));
    }
    for object in objects {
        transaction = transaction.put(directory::object_key(object.id), object.encode());
    }
    let probe = directory::object_key(objects[0].id);
    (transaction, probe)
}
