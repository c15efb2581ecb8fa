// SPDX-License-Identifier: Apache-2.0
//! Volumes a page at a time, for what looks at all of them and must not hold up the shard.

use super::View;
use directory::VolumeRecord;
use std::ops::Bound;

impl View {
    /// So many volumes, by name, that come behind one of this name.
    pub fn volumes_behind(&self, name: &str, most: usize) -> Vec<VolumeRecord> {
        let volumes = self.0.volumes.0.borrow();
        let behind = (Bound::Excluded(name), Bound::Unbounded);
        let found = volumes.range::<str, _>(behind).take(most);
        found.map(|(_, (record, _))| record.clone()).collect()
    }
}
