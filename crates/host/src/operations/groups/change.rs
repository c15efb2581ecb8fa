// SPDX-License-Identifier: Apache-2.0
//! Making, changing and giving up disk groups, as an operator asks.

use crate::config::{check_group, group_spec};
use crate::operations::{Operations, Outcome, failed, usage};
use crate::storage::devices::check_devices;
use crate::storage::hardware::NEED_MAX;
use crate::storage::{GroupSlot, SlotState};
use directory::{ClusterKind, ComponentState};
use diskgroup::{CreateSizes, GroupKind};
use operator::Command;
use operator::GroupConfig;

impl Operations {
    /// Carries out a command that changes a group: its devices then, as the configuration names
    /// them.
    pub(crate) async fn change_group(&self, command: Command) -> Outcome<GroupConfig> {
        let sizes = |bytes: u64| CreateSizes { cache: bytes, capacity: bytes };
        let spec = match command {
            Command::GroupCreate {
                cache,
                capacity,
                kind: wanted,
                create_bytes,
                wipe,
                ignore_device_kind,
            } => {
                let kind = wanted.unwrap_or_else(|| self.view.kind());
                let group = GroupConfig { cache, capacity, kind: Some(kind) };
                check_group(&group).map_err(usage)?;
                self.check_devices(kind, &group, ignore_device_kind).await?;
                let spec = group_spec(&group);
                let made = (&spec, self.tuning.group_kind(kind));
                let made = self.storage.create(made, create_bytes.map(sizes), wipe).await;
                made.map_err(failed)?;
                return Ok(group);
            }
            Command::GroupExtend {
                group: wanted,
                device,
                create_bytes,
                wipe,
                ignore_device_kind,
            } => {
                // Whoever holds on to the slot keeps its devices open.
                let (cache, kind) = {
                    let slot = self.storage.find(&wanted).map_err(failed)?;
                    (slot.spec.cache.clone(), self.kind_of(&slot))
                };
                let group = GroupConfig { cache, capacity: vec![device.clone()], kind: None };
                self.check_devices(kind, &group, ignore_device_kind).await?;
                let extended = self.storage.extend(&wanted, &device, create_bytes, wipe).await;
                extended.map_err(failed)?
            }
            Command::GroupClose { group, stop_volumes } => {
                let spec = {
                    let slot = self.storage.find(&group).map_err(failed)?;
                    if !stop_volumes {
                        self.check_other_copies(&slot)?;
                    }
                    slot.spec
                };
                self.storage.close(&spec.cache).await.map_err(failed)?;
                spec
            }
            Command::GroupOpen { group, devices } => {
                let spec = devices.as_ref().map(group_spec);
                self.storage.open(&group, spec).await.map_err(failed)?
            }
            Command::GroupRemove { group } => self.storage.remove(&group).await.map_err(failed)?,
            _ => return Err(failed("not a command about disk groups")),
        };
        Ok(GroupConfig { cache: spec.cache, capacity: spec.capacity, kind: None })
    }

    /// What an open group is; of one that is closed what new ones are.
    fn kind_of(&self, slot: &GroupSlot) -> ClusterKind {
        match &slot.state {
            SlotState::Open(serving) if serving.group.status().kind == GroupKind::AllFlash => {
                ClusterKind::AllFlash
            }
            SlotState::Open(_) => ClusterKind::Hybrid,
            SlotState::Closed(_) => self.view.kind(),
        }
    }

    async fn check_devices(
        &self,
        kind: ClusterKind,
        group: &GroupConfig,
        is_ignored: bool,
    ) -> Outcome<()> {
        if is_ignored {
            return Ok(());
        }
        self.hardware.wait_for(group.devices(), NEED_MAX).await;
        check_devices(kind, group, |path| self.hardware.of(path)).map_err(failed)
    }

    /// Refuses where a volume would stop with a group: the only copy of a part that is whole and
    /// can be reached is there.
    fn check_other_copies(&self, slot: &GroupSlot) -> Outcome<()> {
        let SlotState::Open(serving) = &slot.state else { return Ok(()) };
        let here = serving.group.components();
        let mut alone = Vec::new();
        for volume in self.view.volumes() {
            let objects = volume.objects.iter().filter_map(|id| self.view.object(*id));
            let is_alone = |object: &directory::ObjectRecord| {
                let is_here = object.components.iter().any(|c| here.contains(&c.id));
                let is_elsewhere = object.components.iter().any(|c| {
                    c.state == ComponentState::Active
                        && !here.contains(&c.id)
                        && self.view.alive(c.shard).is_some()
                });
                is_here && !is_elsewhere
            };
            if objects.into_iter().any(|object| is_alone(&object)) {
                alone.push(volume.title());
            }
        }
        if alone.is_empty() {
            return Ok(());
        }
        Err(failed(format!(
            "the only copy of {} that is whole and can be reached is on the disk group of {}: wait \
             for the others ('gabion volume list'), or say --stop-volumes",
            alone.join(", "),
            slot.spec.cache
        )))
    }
}
