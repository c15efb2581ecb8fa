// SPDX-License-Identifier: Apache-2.0
//! All metrics. Names, labels and units are promises to those who made alerts and dashboards of
//! them: a row may be added, and none changes its meaning.

use super::row::Metric;
use super::{checks, cluster, device, group, history, receivers, shard, traffic};

/// All metrics.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    [
        checks::METRICS,
        receivers::METRICS,
        history::METRICS,
        cluster::METRICS,
        shard::METRICS,
        traffic::METRICS,
        group::METRICS,
        device::METRICS,
    ]
    .into_iter()
    .flatten()
}
