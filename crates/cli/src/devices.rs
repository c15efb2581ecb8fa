// SPDX-License-Identifier: Apache-2.0
//! Devices of disk groups: whether they fit, formatting them, and why one cannot be used.

use crate::Fail;
use anyhow::Result;
use diskgroup::{CreateSizes, DiskGroup, GroupError, GroupKind};
use env::{Env, IoError};
use host::ClusterKind;
use operator::GroupConfig;
use std::path::Path;

/// Refuses devices whose kind does not fit, as far as the system knows it. Files in `magnetic`
/// count as magnetic disks.
pub fn check_devices(kind: ClusterKind, group: &GroupConfig, magnetic: &[String]) -> Result<()> {
    let hardware = |path: &str| {
        let by_tuning = host::hardware_by_tuning(path, magnetic);
        by_tuning.or_else(|| ring::block_device(Path::new(path))).unwrap_or_default()
    };
    let checked = host::check_devices(kind, group, hardware);
    Ok(checked.map_err(|refused| Fail::failed(refused.to_string()))?)
}

/// Formats disk groups; `sizes` creates device files that do not exist.
pub fn format_groups(
    env: &Env,
    groups: &[GroupConfig],
    kind: GroupKind,
    sizes: Option<CreateSizes>,
    wipe: bool,
) -> Result<()> {
    let formatting = groups.iter().map(|group| {
        let spec = host::group_spec(group);
        let (inner, id) = (env.clone(), base::GroupId(env.random()));
        async move { DiskGroup::format_with(&inner, &spec, sizes, wipe, id, kind).await }
    });
    let formatting = env::join_all(formatting.collect());
    for formatted in env.run(formatting) {
        formatted?;
    }
    Ok(())
}

/// The message about a device that cannot be used.
pub fn unusable(error: GroupError) -> Fail {
    match error {
        GroupError::Device { device, source: IoError::Busy } => Fail::failed(format!(
            "'{device}' is in use by a running host: take its disk group out of service first \
             ('gabion group close {device}'), or stop the host"
        )),
        other => Fail::failed(other.to_string()),
    }
}
