// SPDX-License-Identifier: Apache-2.0
//! The directory's content as the campaign sees it: from behind, at once and without asking.

use base::ObjectId;
use directory::store::{Batch, Change, Snapshot};
use directory::{Backend, BackendError, MemoryBackend, OBJECT_PREFIX, ObjectRecord};
use std::cell::RefCell;

/// A backend in memory that knows the newest record of the one object under test.
#[derive(Default)]
pub struct Records {
    inner: MemoryBackend,
    object: RefCell<Option<ObjectRecord>>,
}

impl Records {
    /// The record as it stands.
    #[must_use]
    pub fn object(&self) -> Option<ObjectRecord> {
        self.object.borrow().clone()
    }

    /// The object, once it was created.
    #[must_use]
    pub fn id(&self) -> Option<ObjectId> {
        self.object.borrow().as_ref().map(|record| record.id)
    }

    /// The term of the record: no frame that was sent so far carries a higher one.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.object.borrow().as_ref().map_or(0, |record| record.term.0.into())
    }

    /// The version of the record, zero before there is one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.object.borrow().as_ref().map_or(0, |record| record.version.0)
    }
}

impl Backend for Records {
    fn load(&self) -> Result<Snapshot, BackendError> {
        self.inner.load()
    }

    fn persist(&self, batch: &Batch) -> Result<(), BackendError> {
        self.inner.persist(batch)?;
        for change in &batch.changes {
            if let Change::Put { key, value, .. } = change
                && key.starts_with(OBJECT_PREFIX)
            {
                *self.object.borrow_mut() = ObjectRecord::decode(value).ok();
            }
        }
        Ok(())
    }
}
