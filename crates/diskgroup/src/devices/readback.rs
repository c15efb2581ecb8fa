// SPDX-License-Identifier: Apache-2.0
//! Structures are read back once they are flushed.
//!
//! A write that a device takes and does not do, or does elsewhere, leaves what was there before.
//! For data the checksum tells. A structure that is a whole earlier version of itself tells
//! nothing, and what is read by it is old: a block that was discarded has its data again. There is
//! one record per batch of destage and one set of pages per checkpoint, so looking costs little.
//! Neighbours are read in one request.

use crate::devices::runs::{READ_GAP, Run, runs};
use crate::state::GroupInner;
use crate::types::GroupError;
use crate::types::device_error;
use env::{Disk, Env, IoError, Slice, try_join_at_most};

/// Reads under way at a time.
const READS_IN_FLIGHT: usize = 16;

impl GroupInner {
    /// Looks whether a capacity device holds what was written to it and flushed; a device that does
    /// not is not to be trusted any more.
    pub(crate) async fn read_back(
        &self,
        device: usize,
        written: &[(u64, Slice)],
    ) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        self.read_back_of(&handle.path, handle.disk(), written).await
    }

    /// The same for any device of the group.
    pub(crate) async fn read_back_of(
        &self,
        path: &str,
        disk: &Disk,
        written: &[(u64, Slice)],
    ) -> Result<(), GroupError> {
        if self.options.mutations.skip_read_back() {
            return Ok(());
        }
        let places = written.iter().map(|(offset, bytes)| (*offset, bytes.len()));
        let runs = runs(places, READ_GAP);
        let looks = runs.iter().map(async |run: &Run| {
            self.count(|requests| requests.read_back += 1);
            let found = disk.read(run.bytes.start, self.env.buf(run.length())).await;
            for (offset, bytes) in &written[run.places.clone()] {
                let is_there = match &found {
                    Ok(found) => {
                        let at = usize::try_from(offset - run.bytes.start).unwrap_or(usize::MAX);
                        found[at..][..bytes.len()] == bytes[..]
                    }
                    // What cannot be read may be in between.
                    Err(_) => {
                        let alone = disk.read(*offset, self.env.buf(bytes.len())).await;
                        alone.map_err(|error| self.fence(path, &error))?[..] == bytes[..]
                    }
                };
                if !is_there {
                    return Err(self.fence(path, &not_kept(*offset, bytes)));
                }
            }
            Ok(())
        });
        try_join_at_most(READS_IN_FLIGHT, looks).await.map(drop)
    }
}

fn not_kept(offset: u64, bytes: &Slice) -> String {
    base::hit(base::Probe::WriteNotKept);
    format!(
        "what was written to bytes {offset} to {} is not there: the device acknowledges writes \
         that it does not do; replace it",
        offset + bytes.len() as u64
    )
}

/// As [`GroupInner::read_back`], for one page of a group that is not open.
pub(crate) async fn hold(
    env: &Env,
    path: &str,
    disk: &Disk,
    offset: u64,
    written: &Slice,
) -> Result<(), GroupError> {
    let found = disk.read(offset, env.buf(written.len())).await.map_err(device_error(path))?;
    if found[..] == written[..] {
        return Ok(());
    }
    Err(device_error(path)(IoError::Device { errno: 5 }))
}
