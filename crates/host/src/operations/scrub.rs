// SPDX-License-Identifier: Apache-2.0
//! Orders for the scrub of this host, and what it found.

use super::{Operations, Outcome, usage};
use crate::care::scrub::Scrubber;
use crate::config::SCRUB_RATES;
use operator::{Command, ScrubReport};

impl Operations {
    /// Carries out what is asked about scrub.
    pub(super) fn scrub_command(&self, command: &Command) -> Outcome<Vec<ScrubReport>> {
        match command {
            Command::ScrubStart { bytes_per_second } => self.start_scrub(*bytes_per_second),
            Command::ScrubPause => Ok(self.pause_scrub()),
            _ => Ok(self.scrub()),
        }
    }

    /// Scrub of every capacity device of the host.
    pub(super) fn scrub(&self) -> Vec<ScrubReport> {
        let host = self.view.shard_name(self.me);
        self.scrubbers().flat_map(|scrubber| scrubber.report(&host)).collect()
    }

    /// Begins a pass now, or goes on with the one that was paused.
    fn start_scrub(&self, rate: Option<u64>) -> Outcome<Vec<ScrubReport>> {
        if rate.is_some_and(|rate| !SCRUB_RATES.contains(&rate)) {
            let (least, most) = (SCRUB_RATES.start(), SCRUB_RATES.end());
            return Err(usage(format!(
                "a scrub rate is {} to {} a second",
                base::format_size(*least),
                base::format_size(*most)
            )));
        }
        self.scrubbers().for_each(|scrubber| scrubber.start(rate));
        Ok(self.scrub())
    }

    /// Nothing is read until the next order.
    fn pause_scrub(&self) -> Vec<ScrubReport> {
        self.scrubbers().for_each(|scrubber| scrubber.pause());
        self.scrub()
    }

    fn scrubbers(&self) -> impl Iterator<Item = Scrubber> {
        self.storage.groups().into_iter().filter_map(|group| self.scrubbers.of(&group))
    }
}
