// SPDX-License-Identifier: Apache-2.0
//! Health checks.

use super::row::{Metric, gauge};
use operator::CheckState;

pub(super) const METRICS: &[Metric] = &[gauge(
    "gabion_health_check",
    &["check", "group"],
    "A health check as the listener's host sees it: 0 green, 1 yellow, 2 red; none while it is \
     silenced or unknown",
    |it, out| {
        for (group, id, state) in &it.checks {
            let value: Option<u64> = match state {
                CheckState::Green => Some(0),
                CheckState::Yellow => Some(1),
                CheckState::Red => Some(2),
                CheckState::Silenced | CheckState::Unknown => None,
            };
            out.put(&[*id, *group], value);
        }
    },
)];
