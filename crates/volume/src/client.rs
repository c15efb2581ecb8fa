// SPDX-License-Identifier: Apache-2.0
//! A volume as one client uses it.

use crate::gate::Joined;
use crate::{Device, Extent, Pieces, Volume, VolumeError};
use env::Slice;
use wire::WriteKind;

/// A volume as one client uses it. Cheap to clone: clones are the same client.
///
/// Guarantee: a client that was here when another host took the volume over writes no more, also
/// when its host becomes the writer again. It may read.
#[derive(Clone)]
pub struct VolumeClient {
    volume: Volume,
    joined: Joined,
}

impl VolumeClient {
    /// One that comes now.
    #[must_use]
    pub fn new(volume: &Volume) -> Self {
        Self { volume: volume.clone(), joined: volume.join() }
    }

    /// Whether another host took the volume over while it was here.
    #[must_use]
    pub fn is_shut_out(&self) -> bool {
        self.joined < self.volume.join()
    }
}

impl Device for VolumeClient {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    async fn read(&self, offset: u64, bytes: u64) -> Result<Pieces, VolumeError> {
        self.volume.read(offset, bytes).await
    }

    async fn write(&self, offset: u64, payload: Slice) -> Result<(), VolumeError> {
        self.volume.write(self.joined, offset, payload).await
    }

    async fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        self.volume.clear(self.joined, (offset, bytes), WriteKind::Zero).await
    }

    async fn discard(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        self.volume.clear(self.joined, (offset, bytes), WriteKind::Discard).await
    }

    /// At once: every completed write is durable already.
    async fn flush(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn extents(&self, offset: u64, bytes: u64) -> Result<Vec<Extent>, VolumeError> {
        self.volume.extents(offset, bytes).await
    }
}
