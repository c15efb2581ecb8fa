// SPDX-License-Identifier: Apache-2.0
//! Whether those who are to be told of all this can be told.

use super::check::{Fact, HealthCheck, time, yellow};
use super::facts::HealthFacts;

const TEST: &str = "gabion notify test RECEIVER";
const SHOW: &str = "gabion notify show RECEIVER";

pub(super) const CHECKS: &[HealthCheck] = &[HealthCheck {
    id: "notifications.delivery",
    title: "Notifications arrive",
    looks_at: "whether what was to be told to each receiver of notifications has arrived",
    limits: "yellow: one could not be told at the last attempt",
    means: "No data is concerned. Somebody who should hear of what is wrong does not; it is tried \
            again and told then.",
    well: "each receiver has what it was to be told",
    mend: &[TEST, SHOW],
    worse_after: 0,
    look: receivers,
}];

fn receivers(facts: &HealthFacts) -> Option<Vec<Fact>> {
    let receivers = facts.receivers.as_ref()?.iter();
    let wrong = receivers.filter_map(|receiver| {
        let since = time(facts.now.saturating_sub(receiver.trouble_since?));
        let why = receiver.trouble.as_deref().unwrap_or_default();
        let name = receiver.name.as_str();
        let fact = yellow(format!("receiver '{name}' has not been told for {since}: {why}"));
        let fact = fact.mended_by(TEST, &[("RECEIVER", name)]);
        Some(fact.mended_by(SHOW, &[("RECEIVER", name)]))
    });
    Some(wrong.collect())
}
