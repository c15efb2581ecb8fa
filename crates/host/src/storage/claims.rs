// SPDX-License-Identifier: Apache-2.0
//! Claims: the devices, and the places for one more group, that changes under way are about to
//! take. A change claims them first, so that two changes at once never take the same.

use super::{Storage, StorageError};
use directory::GROUPS_MAX;
use diskgroup::GroupSpec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What is claimed now.
#[derive(Clone, Default)]
pub(crate) struct DeviceClaims(Rc<Claimed>);

#[derive(Default)]
struct Claimed {
    paths: RefCell<Vec<String>>,
    groups: Cell<usize>,
}

/// Devices, and a group's place, that nobody else takes until this is dropped.
pub(crate) struct DeviceClaim {
    all: DeviceClaims,
    paths: Vec<String>,
    groups: usize,
}

impl Drop for DeviceClaim {
    fn drop(&mut self) {
        let Claimed { paths, groups } = &*self.all.0;
        paths.borrow_mut().retain(|path| !self.paths.contains(path));
        groups.set(groups.get() - self.groups);
    }
}

impl Storage {
    /// Claims a device that no group of this host has.
    ///
    /// # Errors
    /// [`StorageError::Taken`].
    pub(crate) fn claim_device(&self, path: &str) -> Result<DeviceClaim, StorageError> {
        let mut claim = DeviceClaim { all: self.0.claims.clone(), paths: Vec::new(), groups: 0 };
        self.add_to(&mut claim, path)?;
        Ok(claim)
    }

    /// Claims a place for one more group, and its devices.
    ///
    /// # Errors
    /// [`StorageError::TooMany`], [`StorageError::Taken`].
    pub(crate) fn claim_group(&self, spec: &GroupSpec) -> Result<DeviceClaim, StorageError> {
        let all = self.0.claims.clone();
        if self.0.slots.borrow().len() + all.0.groups.get() >= GROUPS_MAX {
            let (what, things) = ("a host", "disk groups");
            return Err(StorageError::TooMany { what, most: GROUPS_MAX, things });
        }
        all.0.groups.set(all.0.groups.get() + 1);
        let mut claim = DeviceClaim { all, paths: Vec::new(), groups: 1 };
        for path in std::iter::once(&spec.cache).chain(&spec.capacity) {
            self.add_to(&mut claim, path)?;
        }
        Ok(claim)
    }

    fn add_to(&self, claim: &mut DeviceClaim, path: &str) -> Result<(), StorageError> {
        let slots = self.0.slots.borrow();
        let mut of_groups = slots
            .iter()
            .flat_map(|slot| std::iter::once(&slot.spec.cache).chain(&slot.spec.capacity));
        let mut claimed = claim.all.0.paths.borrow_mut();
        if of_groups.any(|taken| taken == path) || claimed.iter().any(|taken| taken == path) {
            return Err(StorageError::Taken(path.to_owned()));
        }
        claimed.push(path.to_owned());
        claim.paths.push(path.to_owned());
        Ok(())
    }
}
