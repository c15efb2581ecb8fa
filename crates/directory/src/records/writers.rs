// SPDX-License-Identifier: Apache-2.0
//! Which hosts may write to a volume (rules 54 to 57).

use super::error::{RecordError, ensure};
use super::owner::OwnerRecord;
use base::WriterEpoch;
use serde::{Deserialize, Serialize};

/// The format of the record of a volume that has an epoch of the writer, whatever else it has.
pub const FORMAT_WRITERS: u32 = 10;
/// Epochs that a backup's are counted on by: more than the writer of a volume changes between a
/// backup and the day on which it is put back.
const EPOCH_LEAP: u32 = 1 << 20;

/// Through how many hosts a volume is written at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// Through any number: for file systems that know of each other.
    #[default]
    Any,
    /// Through one: that of the client that writes.
    One,
}

impl Writers {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::One => "one",
        }
    }
}

/// Who may write to a volume from a change of the writer on.
///
/// An epoch has one writer at most, and nobody writes in one that has none. So what is given back
/// gets another epoch at once, and who comes next needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// Through how many hosts.
    pub writers: Writers,
    /// Rises with each change of who may write; 0 where there never was one.
    pub epoch: WriterEpoch,
    /// The run of a host that writes; nobody where nobody has written in this epoch, or where any
    /// host may.
    pub writer: Option<OwnerRecord>,
}

impl Writing {
    /// Of a new volume: nobody has written yet.
    #[must_use]
    pub fn of_new(writers: Writers) -> Self {
        match writers {
            Writers::Any => Self::default(),
            Writers::One => Self { writers, epoch: WriterEpoch(1), writer: None },
        }
    }

    /// Of a volume whose record is lost, and whose objects have no later epoch than this one.
    #[must_use]
    pub fn made_anew(latest: WriterEpoch) -> Option<Self> {
        match latest {
            WriterEpoch::ANY => Some(Self::default()),
            epoch => Self { writers: Writers::One, epoch, writer: None }.in_next(None),
        }
    }

    /// In which epoch this run of a host may write; `None`: not at all.
    #[must_use]
    pub fn epoch_of(&self, host: OwnerRecord) -> Option<WriterEpoch> {
        let may = match self.writers {
            Writers::Any => true,
            Writers::One => self.writer == Some(host),
        };
        may.then_some(self.epoch)
    }

    /// From the next epoch on this run of a host writes, or nobody for now. `None` where there is
    /// no further epoch.
    #[must_use]
    pub fn in_next(self, writer: Option<OwnerRecord>) -> Option<Self> {
        let epoch = WriterEpoch(self.epoch.0.checked_add(1)?);
        Some(Self { epoch, writer, ..self })
    }

    /// With this run of a host as the writer, in this epoch where nobody has written in it.
    #[must_use]
    pub fn with_writer(self, host: OwnerRecord) -> Option<Self> {
        match self.writer {
            None => Some(Self { writer: Some(host), ..self }),
            Some(_) => self.in_next(Some(host)),
        }
    }

    /// Written so from the next epoch on, by nobody yet. `None` where there is no further epoch.
    #[must_use]
    pub fn changed_to(self, writers: Writers) -> Option<Self> {
        Self { writers, ..self }.in_next(None)
    }

    /// As a backup's is put back, where the volume has the epoch `now`: whoever writes then is none
    /// of those that wrote since, and has none of their epochs.
    #[must_use]
    pub fn put_back(self, now: WriterEpoch) -> Self {
        match self.epoch.max(now) {
            WriterEpoch::ANY => self,
            WriterEpoch(latest) => {
                let epoch = WriterEpoch(latest.saturating_add(EPOCH_LEAP));
                Self { epoch, writer: None, ..self }
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), RecordError> {
        let has_epoch = self.writers == Writers::Any || self.epoch > WriterEpoch::ANY;
        ensure(has_epoch, "writer_epoch", "is zero although one host writes")?;
        let Some(writer) = self.writer else { return Ok(()) };
        ensure(self.writers == Writers::One, "writer", "is set although any host may write")?;
        ensure(writer.shard.0 != 0, "writer", "is on host zero")
    }
}
