// SPDX-License-Identifier: Apache-2.0
//! What the links count.

use std::cell::Cell;

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }
}

/// A number that rises and falls, and how high it ever was.
#[derive(Default)]
pub(crate) struct Gauge {
    now: Cell<u64>,
    peak: Cell<u64>,
}

impl Gauge {
    pub(crate) fn rise(&self, by: u64) {
        self.now.set(self.now.get() + by);
        self.peak.set(self.peak.get().max(self.now.get()));
    }

    pub(crate) fn fall(&self, by: u64) {
        self.now.set(self.now.get() - by);
    }
}

/// What [`PeerStats`] reports.
#[derive(Default)]
pub(crate) struct PeerCounters {
    pub(crate) links: Counter,
    pub(crate) encrypted: Counter,
    pub(crate) unproven: Counter,
    pub(crate) malformed: Counter,
    pub(crate) strangers: Counter,
    pub(crate) incompatible: Counter,
    pub(crate) silent: Counter,
    pub(crate) sends: Counter,
    pub(crate) frames_sent: Counter,
    pub(crate) frames_received: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) unanswered: Counter,
    pub(crate) overrun: Counter,
    pub(crate) withdrawn: Counter,
    pub(crate) waiting: Gauge,
}

/// What happened on the links of one shard since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// Links that were introduced, dialled or accepted. Two per other host are normal, one of each
    /// kind; each further one is a reconnect.
    pub links: u64,
    /// Links whose ends have proved who they are, and that nobody else reads, dialled or accepted.
    pub encrypted: u64,
    /// Links refused because one end did not prove itself as the other one demands.
    pub unproven: u64,
    /// Links dropped for bytes that are no frame, or for frames out of place.
    pub malformed: u64,
    /// Links dropped because the other end is of another cluster, another host than was dialled,
    /// or an earlier run of its host.
    pub strangers: u64,
    /// Links refused because the other end speaks no version which this one speaks. Each attempt
    /// counts: two a second and host.
    pub incompatible: u64,
    /// Links dropped because nothing was heard any more.
    pub silent: u64,
    /// Batches sent. `frames_sent / sends` is how many frames a batch has on average.
    pub sends: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Requests whose [`crate::Reply`] was dropped without an answer: an error of ours.
    pub unanswered: u64,
    /// Links dropped because the other end asked for more than its shares, or took no answers.
    pub overrun: u64,
    /// Requests taken back before they were sent: their session was over.
    pub withdrawn: u64,
    /// Bytes of requests that wait for room on their links, now.
    pub waiting_bytes: u64,
    /// The highest value that `waiting_bytes` ever had.
    pub waiting_bytes_peak: u64,
}

impl PeerCounters {
    pub(crate) fn read(&self) -> PeerStats {
        PeerStats {
            links: self.links.0.get(),
            encrypted: self.encrypted.0.get(),
            unproven: self.unproven.0.get(),
            malformed: self.malformed.0.get(),
            strangers: self.strangers.0.get(),
            incompatible: self.incompatible.0.get(),
            silent: self.silent.0.get(),
            sends: self.sends.0.get(),
            frames_sent: self.frames_sent.0.get(),
            frames_received: self.frames_received.0.get(),
            bytes_received: self.bytes_received.0.get(),
            unanswered: self.unanswered.0.get(),
            overrun: self.overrun.0.get(),
            withdrawn: self.withdrawn.0.get(),
            waiting_bytes: self.waiting.now.get(),
            waiting_bytes_peak: self.waiting.peak.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_remembers_how_high_it_was() {
        let gauge = Gauge::default();
        for (rise, fall, peak) in [(5, 4, 5), (3, 4, 5), (7, 0, 7)] {
            gauge.rise(rise);
            gauge.fall(fall);
            assert_eq!(gauge.peak.get(), peak);
        }
        assert_eq!(gauge.now.get(), 7);
    }
}
