// SPDX-License-Identifier: Apache-2.0
//! All checks, group by group. Ids are promises to those who silence them or alert on them.

use super::check::HealthCheck;
use super::{cluster, devices, hosts, notifications, volumes};

/// All checks, in the order in which they are shown.
pub fn checks() -> impl Iterator<Item = &'static HealthCheck> {
    [hosts::CHECKS, devices::CHECKS, volumes::CHECKS, cluster::CHECKS, notifications::CHECKS]
        .into_iter()
        .flatten()
}

/// The check of this id.
#[must_use]
pub fn check_of(id: &str) -> Option<&'static HealthCheck> {
    checks().find(|check| check.id == id)
}
