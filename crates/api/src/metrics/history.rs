// SPDX-License-Identifier: Apache-2.0
//! The history of performance itself.

use super::row::{Metric, counter, gauge};

pub(super) const METRICS: &[Metric] = &[
    counter(
        "gabion_performance_looks_total",
        &[],
        "Looks at what the shards did, one in five seconds",
        |it, out| out.put(&[], it.history.looks),
    ),
    counter(
        "gabion_performance_lost_total",
        &[],
        "Looks whose figures could not be kept",
        |it, out| out.put(&[], it.history.lost),
    ),
    counter(
        "gabion_performance_damaged_total",
        &[],
        "Values of the file of performance that were not as they had been written",
        |it, out| out.put(&[], it.history.damaged),
    ),
    gauge(
        "gabion_performance_kept_bytes",
        &[],
        "Bytes of what is kept of performance over time",
        |it, out| out.put(&[], it.history.bytes),
    ),
    gauge(
        "gabion_performance_left_out",
        &[],
        "Volumes of the last look that nothing is kept of, for there are too many",
        |it, out| out.put(&[], it.history.left_out),
    ),
];
