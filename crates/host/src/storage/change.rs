// SPDX-License-Identifier: Apache-2.0
//! Changes that an operator asks for: groups closed, opened, made, extended and given up. Each
//! waits for its turn ([`Storage::turn`]).

use super::{Closed, SlotState, Storage, StorageError};
use crate::config::CAPACITY_DEVICES_MAX;
use base::GroupId;
use diskgroup::{CreateSizes, DiskGroup, GroupKind, GroupSpec};
use tracing::info;

impl Storage {
    /// Takes a group out of service. Its devices are free when this returns, but for one that does
    /// not answer.
    ///
    /// # Errors
    /// As [`Storage::find`]. A group that is out of service already is no error.
    pub(crate) async fn close(&self, wanted: &str) -> Result<(), StorageError> {
        let (_turn, slot) = self.turn(wanted).await?;
        let SlotState::Open(_) = slot.state else {
            self.0.set(&slot.spec, &slot.spec, SlotState::closed(Closed::Asked));
            return Ok(());
        };
        drop(self.stop(&slot, Closed::Asked).await);
        let spec = self.0.let_go(slot).await;
        info!(cache = spec.cache, "a disk group was closed");
        self.0.changed.notify();
        Ok(())
    }

    /// Opens a group that is out of service. One that takes no writes or lacks a device is closed
    /// and opened again. All of its devices are tried; where `spec` is given, those of `spec`.
    ///
    /// # Errors
    /// [`StorageError::IsOpen`]: it serves with all of its devices, and goes on. As
    /// [`Storage::find`]. Others: it is out of service.
    pub(crate) async fn open(
        &self,
        wanted: &str,
        spec: Option<GroupSpec>,
    ) -> Result<GroupSpec, StorageError> {
        let (_turn, slot) = self.turn(wanted).await?;
        if let SlotState::Open(serving) = &slot.state {
            if serving.group.failure().is_none() && !serving.group.is_any_out() {
                return Err(StorageError::IsOpen { cache: slot.spec.cache });
            }
            self.stop(&slot, Closed::Changing).await;
        }
        let spec = spec.unwrap_or_else(|| slot.spec.clone());
        drop(slot.state);
        self.0.forget_past(&slot.spec);
        self.start(&slot.spec, &spec).await?;
        Ok(spec)
    }

    /// Makes a group of empty devices and opens it.
    ///
    /// # Errors
    /// [`StorageError`]: there is no such group then.
    pub(crate) async fn create(
        &self,
        (spec, kind): (&GroupSpec, GroupKind),
        sizes: Option<CreateSizes>,
        wipe: bool,
    ) -> Result<(), StorageError> {
        let _claim = self.claim_group(spec)?;
        let env = &self.0.env;
        let id = (GroupId(env.random()), kind.into());
        DiskGroup::format_within(env, spec, sizes, wipe, id, &self.0.options.memory).await?;
        let turn = self.0.add_slot(spec, None, SlotState::closed(Closed::Changing));
        let _turn = turn.try_acquire(1);
        self.0.objects.expect_group();
        if let Err(error) = self.start(spec, spec).await {
            self.0.slots.borrow_mut().retain(|slot| slot.spec.cache != spec.cache);
            self.0.objects.forget_group();
            return Err(error);
        }
        Ok(())
    }

    /// Gives up a group that holds nothing.
    ///
    /// # Errors
    /// [`StorageError::NotEmpty`], [`StorageError::DeviceOut`], [`StorageError::IsClosed`]: the
    /// group stays as it is. If a copy was made on it at the last moment it is opened again; where
    /// that fails it is out of service, and the error says why.
    pub(crate) async fn remove(&self, wanted: &str) -> Result<GroupSpec, StorageError> {
        let (_turn, slot) = self.turn(wanted).await?;
        let cache = slot.spec.cache.clone();
        let SlotState::Open(serving) = &slot.state else {
            return Err(StorageError::IsClosed { cache });
        };
        let held = |group: &DiskGroup| match group.components().len() {
            0 => Ok(()),
            components => Err(StorageError::NotEmpty { cache: cache.clone(), components }),
        };
        if serving.group.is_any_out() {
            return Err(StorageError::DeviceOut { cache });
        }
        held(&serving.group)?;
        // What was being made there when it was asked for is made by now, or never will be.
        let group = self.stop(&slot, Closed::Changing).await;
        let empty = group.as_ref().map_or(Ok(()), held);
        drop((group, slot.state));
        if let Err(error) = empty {
            self.start(&slot.spec, &slot.spec).await?;
            return Err(error);
        }
        let spec = self.0.wait_until_free(slot.spec).await;
        self.0.slots.borrow_mut().retain(|other| other.spec.cache != spec.cache);
        self.0.objects.forget_group();
        self.0.changed.notify();
        info!(cache = spec.cache, "a disk group was removed");
        Ok(spec)
    }

    /// Adds an empty capacity device to a group. The group is out of service for a moment.
    ///
    /// # Errors
    /// [`StorageError`]: the group stays as it is. If it does not open again it is out of service,
    /// with the new device where that was added.
    pub(crate) async fn extend(
        &self,
        wanted: &str,
        path: &str,
        size: Option<u64>,
        wipe: bool,
    ) -> Result<GroupSpec, StorageError> {
        let (_turn, slot) = self.turn(wanted).await?;
        let _claim = self.claim_device(path)?;
        if slot.spec.capacity.len() >= CAPACITY_DEVICES_MAX {
            let (what, most) = ("a disk group", CAPACITY_DEVICES_MAX);
            return Err(StorageError::TooMany { what, most, things: "capacity devices" });
        }
        let SlotState::Open(serving) = &slot.state else {
            return Err(StorageError::IsClosed { cache: slot.spec.cache });
        };
        let memory = (&self.0.options.memory, serving.group.memory_needed());
        drop(self.stop(&slot, Closed::Changing).await);
        let old = self.0.let_go(slot).await;
        let mut spec = old.clone();
        spec.capacity.push(path.to_owned());
        if let Err(error) = DiskGroup::add_capacity(&self.0.env, &spec, size, wipe, memory).await {
            self.start(&old, &old).await?;
            return Err(error.into());
        }
        self.start(&old, &spec).await?;
        Ok(spec)
    }
}
