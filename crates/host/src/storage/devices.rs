// SPDX-License-Identifier: Apache-2.0
//! Which devices fit a disk group, by what the operating system says of them.

use directory::ClusterKind;
use env::Hardware;
use operator::GroupConfig;
use thiserror::Error;

/// A device that does not fit where it is put.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeviceRefused {
    /// a slow cache
    #[error(
        "'{0}' has platters: a cache device has none; if that is not true (virtual disks lie), say \
         --ignore-device-kind"
    )]
    Cache(String),
    /// slow capacity behind a cache that does not hold what is read
    #[error(
        "'{0}' has platters, and this disk group is all-flash: make a hybrid one ('--kind \
         hybrid'); if that is not true (virtual disks lie), say --ignore-device-kind"
    )]
    Capacity(String),
}

/// Whether these devices may make a group. What nobody knows anything of fits.
///
/// # Errors
/// [`DeviceRefused`] names the first one that does not.
pub fn check_devices(
    kind: ClusterKind,
    group: &GroupConfig,
    of: impl Fn(&str) -> Hardware,
) -> Result<(), DeviceRefused> {
    let has_platters = |path: &String| of(path).is_rotational == Some(true);
    if has_platters(&group.cache) {
        return Err(DeviceRefused::Cache(group.cache.clone()));
    }
    match group.capacity.iter().find(|path| has_platters(path)) {
        Some(path) if kind == ClusterKind::AllFlash => Err(DeviceRefused::Capacity(path.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platters_are_capacity_of_hybrid_groups_and_nothing_else() {
        let of = |path: &str| Hardware {
            is_rotational: path.chars().next().map(|first| first == 'h').filter(|_| path != "?"),
            model: None,
        };
        let check = |kind, cache: &str, capacity: &str| {
            let capacity = capacity.split(' ').map(str::to_owned).collect();
            let cache = cache.to_owned();
            check_devices(kind, &GroupConfig { cache, capacity, kind: None }, of)
        };
        let (flash, hybrid) = (ClusterKind::AllFlash, ClusterKind::Hybrid);
        assert_eq!(check(flash, "ssd1", "ssd2 ssd3"), Ok(()));
        assert_eq!(check(hybrid, "ssd1", "hdd1 hdd2"), Ok(()));
        assert_eq!(check(hybrid, "ssd1", "hdd1 ssd2"), Ok(()));
        assert_eq!(check(flash, "?", "? ?"), Ok(()), "files, and what says nothing of itself");
        let refused = DeviceRefused::Capacity("hdd1".to_owned());
        assert_eq!(check(flash, "ssd1", "ssd2 hdd1"), Err(refused));
        for kind in [flash, hybrid] {
            let refused = DeviceRefused::Cache("hdd9".to_owned());
            assert_eq!(check(kind, "hdd9", "ssd1"), Err(refused));
        }
    }
}
