// SPDX-License-Identifier: Apache-2.0
//! How a new volume is cut into objects, and how many of them are made at a time.

use base::{CHUNK_SECTORS, SECTOR_SIZE};
use directory::{OBJECT_SECTORS_MAX, VolumeLayout, object_sectors};

/// Objects in one transaction at most: etcd takes 128 operations.
pub const TRANSACTION_OBJECTS_MAX: usize = 96;

/// How volumes are created and deleted. `Default` is what production runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationOptions {
    /// Sectors of an object, whole chunks, [`OBJECT_SECTORS_MAX`] at most. They may become fewer,
    /// for all objects of a volume that is not striped are of equal size, but the last one.
    pub object_sectors: u64,
    /// Objects whose components are made side by side. Those do not know of each other when they
    /// choose among the groups of a host, so that not more may be on one group than would be fair.
    pub objects_at_once: usize,
    /// Objects whose records are written or deleted in one transaction, 1 to
    /// [`TRANSACTION_OBJECTS_MAX`].
    pub transaction_objects: usize,
}

impl Default for CreationOptions {
    fn default() -> Self {
        Self {
            object_sectors: OBJECT_SECTORS_MAX,
            objects_at_once: 4,
            transaction_objects: TRANSACTION_OBJECTS_MAX,
        }
    }
}

impl CreationOptions {
    /// Asserts that each limit is within its bounds: only tests change them.
    pub fn check(self) {
        let is_whole = self.object_sectors.is_multiple_of(CHUNK_SECTORS);
        let is_right = is_whole && (1..=OBJECT_SECTORS_MAX).contains(&self.object_sectors);
        assert!(is_right, "no object has {} sectors", self.object_sectors);
        let counts = 1..=TRANSACTION_OBJECTS_MAX;
        assert!(counts.contains(&self.transaction_objects), "objects of one transaction");
        assert!(self.objects_at_once > 0, "objects are made at least one by one");
    }

    /// How a new volume is laid out: `size_bytes`, whole sectors and not 0, over `width` objects at
    /// a time.
    #[must_use]
    pub fn layout_of(self, size_bytes: u64, width: u8) -> VolumeLayout {
        let sectors = size_bytes / SECTOR_SIZE;
        if width > 1 {
            return VolumeLayout::striped(sectors, width, self.object_sectors);
        }
        let count = sectors.div_ceil(self.object_sectors);
        let each = object_sectors(size_bytes, count);
        let each = each.unwrap_or_else(|| unreachable!("{count} objects cover {size_bytes} bytes"));
        VolumeLayout::striped(sectors, 1, each)
    }
}
