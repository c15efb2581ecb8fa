// SPDX-License-Identifier: Apache-2.0
//! Changing the labels of a volume: its record alone is concerned, and nobody who uses it.

use crate::operations::{Operations, Outcome, failed, usage};
use directory::{Labels, Level, VolumeRecord, check_label_key, check_labels};
use operator::VolumeReport;

impl Operations {
    /// Sets some labels of a volume and takes others away: all of it, or nothing.
    pub(crate) async fn change_labels(
        &self,
        name: &str,
        set: Labels,
        remove: &[String],
    ) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        if !set.is_empty() {
            self.need(Level::LABELS, "labels of volumes")?;
        }
        let (volume, revision) = self.volume_entry(name).await?;
        let labels = changed(&volume, set, remove)?;
        let record = VolumeRecord { labels, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        self.until_seen(&record, |now| now.labels == record.labels).await;
        let note = (record == volume).then_some("nothing was changed: it has these labels already");
        Ok(VolumeReport { note: note.map(str::to_owned), ..self.report(&record) })
    }
}

/// The labels that a volume has then.
fn changed(volume: &VolumeRecord, set: Labels, remove: &[String]) -> Outcome<Labels> {
    let (name, mut labels) = (&volume.name, volume.labels.clone());
    for key in remove {
        check_label_key(key).map_err(usage)?;
        if set.contains_key(key) {
            return Err(usage(format!("label '{key}' is both set and taken away")));
        }
        if labels.remove(key).is_none() {
            return Err(failed(format!(
                "volume '{name}' has no label '{key}': nothing was changed; see \
                 'gabion volume show {name}'"
            )));
        }
    }
    labels.extend(set);
    check_labels(&labels).map_err(usage)?;
    Ok(labels)
}
