// SPDX-License-Identifier: Apache-2.0
//! Receivers of notifications.

use super::row::{Metric, counter, gauge};

pub(super) const METRICS: &[Metric] = &[
    counter(
        "gabion_notifications_total",
        &["receiver", "result"],
        "Messages that the listener's host sent to a receiver of notifications since its start: \
         delivered, or failed, which is tried again",
        |it, out| {
            for (name, counts) in &it.receivers {
                out.put(&[name, "delivered"], Some(counts.delivered));
                out.put(&[name, "failed"], Some(counts.failed));
            }
        },
    ),
    gauge(
        "gabion_notifications_waiting",
        &["receiver"],
        "Checks of which the listener's host has to tell a receiver something that has not arrived",
        |it, out| {
            for (name, counts) in &it.receivers {
                out.put(&[name], Some(counts.waiting));
            }
        },
    ),
];
