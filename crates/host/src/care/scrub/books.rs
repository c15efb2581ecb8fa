// SPDX-License-Identifier: Apache-2.0
//! What a scrubber knows: its orders, how far its pass is, what it found. No clock, no I/O.

use super::course::Course;
use super::mark::ScrubMark;
use base::{CHUNK_SECTORS, Instant};
use diskgroup::{BadCause, Verified};
use operator::{BLOCKS_LOST, BLOCKS_MENDED, ScrubReport};
use std::time::Duration;

/// Blocks, of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScrubCounts {
    pub(crate) verified: u64,
    /// Found bad, for whatever reason.
    pub(crate) bad: u64,
    pub(crate) repaired: u64,
    pub(crate) unrepaired: u64,
    /// Those of the bad ones that the device did not give at all.
    pub(crate) read_errors: u64,
    /// Those of the unrepaired ones whose checksums the device did not give.
    pub(crate) without_checksums: u64,
}

impl ScrubCounts {
    fn add(&mut self, other: Self) {
        self.verified += other.verified;
        self.bad += other.bad;
        self.repaired += other.repaired;
        self.unrepaired += other.unrepaired;
        self.read_errors += other.read_errors;
        self.without_checksums += other.without_checksums;
    }
}

struct Device {
    path: String,
    /// Since the host's start.
    total: ScrubCounts,
    /// Of the pass under way.
    now: ScrubCounts,
    /// Of the last whole pass.
    last: ScrubCounts,
    chunks: u64,
    chunks_done: u64,
}

impl Device {
    /// Blocks that could not be repaired: in the last whole pass or in the one under way, whichever
    /// found more. So a whole pass that finds none sets this to zero.
    fn unrepaired(&self) -> u64 {
        self.last.unrepaired.max(self.now.unrepaired)
    }

    /// Those of them that no other copy has.
    fn lost(&self) -> u64 {
        let lost = |counts: ScrubCounts| counts.unrepaired.saturating_sub(counts.without_checksums);
        lost(self.last).max(lost(self.now))
    }

    /// Those of them whose checksums the device did not give.
    fn without_checksums(&self) -> u64 {
        self.last.without_checksums.max(self.now.without_checksums)
    }

    fn progress(&self) -> f64 {
        match self.chunks {
            0 => 1.0,
            chunks => (self.chunks_done as f64 / chunks as f64).min(1.0),
        }
    }
}

/// See the module.
pub(crate) struct Books {
    rate: u64,
    period: Duration,
    is_paused: bool,
    /// An operator wants a pass now.
    is_wanted: bool,
    /// When the pass under way began; later where it was taken up from an earlier run.
    began: Option<Instant>,
    /// When the pass under way began, seconds since 1970. A pass that was taken up from an earlier
    /// run keeps the time of the run that began it.
    began_wall: Option<u64>,
    /// Where the pass is, or where the next one begins.
    pub(super) course: Course,
    /// A pass of an earlier run is to go on.
    is_resumed: bool,
    /// When the next pass begins by itself.
    next_at: Instant,
    /// When the last whole pass began and ended, seconds since 1970.
    last: Option<(u64, u64)>,
    /// Why the pass under way does not go on.
    hold: Option<&'static str>,
    devices: Vec<Device>,
}

impl Books {
    /// `rate` in bytes per second; the first pass begins at `first_at`.
    pub(crate) fn new(paths: Vec<String>, rate: u64, period: Duration, first_at: Instant) -> Self {
        let device = |path| Device {
            path,
            total: ScrubCounts::default(),
            now: ScrubCounts::default(),
            last: ScrubCounts::default(),
            chunks: 0,
            chunks_done: 0,
        };
        Self {
            rate,
            period,
            is_paused: false,
            is_wanted: false,
            began: None,
            began_wall: None,
            course: Course::default(),
            is_resumed: false,
            next_at: first_at,
            last: None,
            hold: None,
            devices: paths.into_iter().map(device).collect(),
        }
    }

    /// An operator's order: goes on with a pass that was paused, else begins one now.
    pub(crate) fn start(&mut self, rate: Option<u64>) {
        self.rate = rate.unwrap_or(self.rate);
        self.is_paused = false;
        self.is_wanted = self.began.is_none();
    }

    /// An operator's order.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
        self.is_wanted = false;
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// When the next pass begins: now at the earliest; `None`: not before an order.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        match (self.is_paused, self.is_wanted) {
            (true, _) => None,
            (false, true) => Some(now),
            (false, false) => Some(self.next_at.max(now)),
        }
    }

    /// Takes up what an earlier run noted. The clock on the wall only says when the next pass
    /// begins: not before that of a host without a note, not later than a period from now.
    pub(crate) fn resume(&mut self, mark: &ScrubMark, now: Instant, wall: u64) {
        self.last = mark.last;
        if mark.unrepaired > 0 {
            // What an operator is told comes from memory. So a whole new pass has to find the bad
            // blocks again.
            self.course = Course::new(mark.course.from);
            return;
        }
        self.course = mark.course;
        (self.began_wall, self.is_resumed) = (mark.began, mark.began.is_some());
        if self.is_resumed {
            for (device, done) in self.devices.iter_mut().zip(&mark.chunks_done) {
                device.chunks_done = *done;
            }
        } else if let Some((began, _)) = mark.last {
            let ago = Duration::from_secs(wall.saturating_sub(began));
            self.next_at = self.next_at.max(now + self.period.saturating_sub(ago));
        }
    }

    /// What a later run has to know.
    pub(crate) fn mark(&self) -> ScrubMark {
        ScrubMark {
            began: self.began_wall,
            last: self.last,
            chunks_done: self.devices.iter().map(|device| device.chunks_done).collect(),
            unrepaired: self.unrepaired(),
            ..ScrubMark::new(self.course)
        }
    }

    /// A pass begins, or one of an earlier run goes on, over so many chunks of each device.
    pub(crate) fn begin(&mut self, now: Instant, wall: u64, chunks: impl IntoIterator<Item = u64>) {
        self.is_wanted = false;
        self.began = Some(now);
        let is_resumed = std::mem::take(&mut self.is_resumed);
        if !is_resumed {
            self.began_wall = Some(wall);
            self.course = Course::new(self.course.from);
        }
        for (device, chunks) in self.devices.iter_mut().zip(chunks) {
            (device.now, device.chunks) = (ScrubCounts::default(), chunks);
            device.chunks_done = if is_resumed { device.chunks_done } else { 0 };
        }
    }

    /// The pass is over.
    pub(crate) fn end(&mut self, now: Instant, wall: u64) {
        let Some(began) = self.began.take() else { return };
        self.last = Some((self.began_wall.take().unwrap_or(wall), wall));
        self.next_at = (began + self.period).max(now);
        self.hold = None;
        for device in &mut self.devices {
            device.last = std::mem::take(&mut device.now);
        }
    }

    /// Why the pass does not go on now; `None`: it does.
    pub(crate) fn hold(&mut self, why: Option<&'static str>) {
        self.hold = why;
    }

    /// One step of the pass.
    pub(crate) fn looked_at(&mut self, device: usize, verified: &Verified) {
        let mut counts = ScrubCounts { verified: verified.blocks, ..ScrubCounts::default() };
        for bad in &verified.bad {
            let blocks = blocks(bad.range);
            counts.bad += blocks;
            if bad.cause != BadCause::Checksum {
                counts.read_errors += blocks;
            }
            if bad.cause == BadCause::Metadata {
                counts.unrepaired += blocks;
                counts.without_checksums += blocks;
            }
        }
        self.count(device, counts);
        let ends_chunk = verified.range.is_some_and(|range| {
            range.end().is_multiple_of(CHUNK_SECTORS) || verified.next.is_none()
        });
        if let Some(device) = self.devices.get_mut(device) {
            device.chunks_done += u64::from(ends_chunk);
        }
    }

    /// So many bad blocks were written again, or could not be. Blocks without checksums are not
    /// among them: nobody tries.
    pub(crate) fn dealt_with(&mut self, device: usize, repaired: u64, unrepaired: u64) {
        self.count(device, ScrubCounts { repaired, unrepaired, ..ScrubCounts::default() });
    }

    fn count(&mut self, device: usize, counts: ScrubCounts) {
        if let Some(device) = self.devices.get_mut(device) {
            device.total.add(counts);
            device.now.add(counts);
        }
    }

    /// How long a step that read `blocks` in `took` has to last: neither the rate nor the device's
    /// share for scrub may be exceeded.
    pub(crate) fn step_time(&self, blocks: u64, took: Duration) -> Duration {
        let nanos = u128::from(blocks * base::BLOCK_SIZE) * 1_000_000_000 / u128::from(self.rate);
        let by_rate = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        by_rate.max(took * super::DEVICE_SHARE).max(super::STEP_MIN)
    }

    /// Path of a device.
    pub(crate) fn path(&self, device: usize) -> String {
        self.devices.get(device).map(|device| device.path.clone()).unwrap_or_default()
    }

    /// Blocks that could not be repaired when they were last looked at.
    pub(crate) fn unrepaired(&self) -> u64 {
        self.devices.iter().map(Device::unrepaired).sum()
    }

    /// What an operator should look at: a device that lost data in this pass or the last.
    pub(crate) fn attention(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for device in &self.devices {
            let (path, lost) = (&device.path, device.lost());
            let without = device.without_checksums();
            let bad = device.last.bad + device.now.bad;
            if without > 0 {
                lines.push(format!(
                    "{BLOCKS_LOST} {without} block(s) of 4 KiB on {path}: the device does not give \
                     their checksums, so that nothing can be written there; reads go to other \
                     copies; next: 'gabion disk inspect', and replace the device if it stays so \
                     ('gabion disk replace')"
                ));
            }
            if lost > 0 {
                lines.push(format!(
                    "{BLOCKS_LOST} {lost} block(s) of 4 KiB on {path}: no other copy of \
                     them is good and can be reached; next: see which in this host's log, bring \
                     the other copies back or write the data again, then 'gabion scrub start'"
                ));
            } else if bad > 0 && without == 0 {
                lines.push(format!(
                    "{BLOCKS_MENDED} {bad} bad block(s) of 4 KiB on {path} and wrote them again \
                     from other copies; next: 'gabion scrub status', and replace the device if it \
                     gets more ('gabion disk replace')"
                ));
            }
        }
        lines
    }

    /// The part of the pass under way that is done, of all devices.
    pub(crate) fn progress(&self) -> Option<f64> {
        self.began?;
        let (chunks, done) = self.devices.iter().fold((0, 0), |(chunks, done), device| {
            (chunks + device.chunks, done + device.chunks_done.min(device.chunks))
        });
        Some(if chunks == 0 { 1.0 } else { done as f64 / chunks as f64 })
    }

    /// Everything was verified within so many seconds; `None`: not all was so far. What a pass
    /// under way has verified meanwhile does not make the rest younger.
    pub(crate) fn oldest_unverified(&self, wall: u64) -> Option<u64> {
        self.last.map(|(began, _)| wall.saturating_sub(began))
    }

    /// What an operator sees.
    pub(crate) fn report(&self, host: &str, now: Instant, wall: u64) -> Vec<ScrubReport> {
        let state = match (self.is_paused, self.began, self.hold) {
            (true, ..) => "paused",
            (false, None, _) if self.is_wanted => "starting",
            (false, None, _) => "idle",
            (false, Some(_), None) => "running",
            (false, Some(_), Some(why)) => why,
        };
        let seconds = |duration: Duration| duration.as_secs();
        let device = |device: &Device| ScrubReport {
            host: host.to_owned(),
            device: device.path.clone(),
            state: state.to_owned(),
            progress: self.began.map(|_| device.progress()),
            bytes_per_second: self.rate,
            verified_blocks: device.total.verified,
            bad_blocks: device.total.bad,
            repaired_blocks: device.total.repaired,
            unrepaired_blocks: device.unrepaired(),
            read_errors: device.total.read_errors,
            last_pass_seconds_ago: self.last.map(|(_, ended)| wall.saturating_sub(ended)),
            last_pass_seconds: self.last.map(|(began, ended)| ended.saturating_sub(began)),
            oldest_unverified_seconds: self.oldest_unverified(wall),
            next_pass_seconds: match self.began {
                Some(_) => None,
                None => self.due(now).map(|at| seconds(at.since(now))),
            },
        };
        self.devices.iter().map(device).collect()
    }
}

/// Blocks that a range touches.
pub(crate) fn blocks(range: base::SectorRange) -> u64 {
    let blocks = range.blocks();
    blocks.end - blocks.start
}

#[cfg(test)]
mod tests {
    use super::super::course::ScrubPlace;
    use super::*;
    use base::SectorRange;
    use diskgroup::BadRange;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(seconds: u64) -> Instant {
        Instant::default() + Duration::from_secs(seconds)
    }

    fn books() -> Books {
        Books::new(vec!["a".to_owned(), "b".to_owned()], 1 << 20, 7 * DAY, at(600))
    }

    /// So many blocks, all of them bad.
    fn found(blocks: u64) -> Verified {
        let range = SectorRange::new(0, blocks * 8);
        let bad = vec![BadRange { range, cause: BadCause::Checksum }];
        Verified { range: Some(range), blocks, bad, next: None }
    }

    #[test]
    fn a_pass_comes_by_itself_by_order_and_never_while_paused() {
        let mut books = books();
        assert_eq!(books.due(at(0)), Some(at(600)));
        assert_eq!(books.due(at(700)), Some(at(700)), "it is late");
        books.start(None);
        assert_eq!(books.due(at(1)), Some(at(1)));
        books.pause();
        assert_eq!(books.due(at(1000)), None);
        books.start(Some(5));
        assert_eq!((books.due(at(2)), books.rate), (Some(at(2)), 5));
        books.begin(at(2), 2, [1, 1]);
        books.start(None);
        books.end(at(50), 50);
        assert_eq!(books.due(at(60)), Some(at(2) + 7 * DAY), "an order during a pass is that pass");
        books.begin(at(100), 100, [1, 1]);
        books.end(at(100) + 8 * DAY, 691_300);
        assert_eq!(books.due(at(100)), Some(at(100) + 8 * DAY), "it took longer than a period");
    }

    #[test]
    fn attention_stays_for_one_more_pass_and_names_the_device() {
        let mut books = books();
        books.begin(at(0), 0, [1, 1]);
        books.looked_at(1, &found(3));
        books.dealt_with(1, 1, 2);
        assert_eq!(books.unrepaired(), 2);
        assert!(matches!(books.attention().as_slice(), [line] if line.contains("2 block(s)")));
        assert!(books.attention()[0].contains(" on b:"));
        books.end(at(1), 1);
        books.begin(at(2), 2, [1, 1]);
        assert_eq!(books.unrepaired(), 2, "not looked at again yet");
        books.looked_at(1, &found(2));
        books.dealt_with(1, 2, 0);
        books.end(at(3), 3);
        assert_eq!(books.unrepaired(), 0);
        let [line] = &books.attention()[..] else { panic!("{:?}", books.attention()) };
        assert!(line.contains("found 2 bad block(s) of 4 KiB on b "), "{line}");
        books.begin(at(4), 4, [1, 1]);
        books.end(at(5), 5);
        assert_eq!(books.attention(), Vec::<String>::new());
        let report = books.report("host1", at(65), 65);
        assert_eq!((report[1].bad_blocks, report[1].repaired_blocks), (5, 3), "totals stay");
        assert_eq!(report[1].last_pass_seconds_ago, Some(60));
    }

    #[test]
    fn blocks_without_checksums_are_not_called_lost() {
        let mut books = books();
        books.begin(at(0), 0, [1, 1]);
        let range = SectorRange::new(0, 32);
        let bad = vec![BadRange { range, cause: BadCause::Metadata }];
        let verified = Verified { range: Some(range), blocks: 0, bad, next: None };
        books.looked_at(0, &verified);
        assert_eq!(books.unrepaired(), 4);
        let [line] = &books.attention()[..] else { panic!("{:?}", books.attention()) };
        assert!(line.contains(" 4 block(s) of 4 KiB on a: the device does not give"), "{line}");
        books.looked_at(0, &found(3));
        books.dealt_with(0, 2, 1);
        let [line, lost] = &books.attention()[..] else { panic!("{:?}", books.attention()) };
        assert!(line.contains(" 4 block(s) ") && lost.contains(" 1 block(s) "), "{line} {lost}");
    }

    #[test]
    fn a_step_takes_its_time_by_rate_and_by_the_devices_share() {
        let books = books();
        let second = Duration::from_secs(1);
        assert_eq!(books.step_time(256, Duration::ZERO), second);
        assert_eq!(books.step_time(256, second), second * super::super::DEVICE_SHARE);
        assert_eq!(books.step_time(0, Duration::ZERO), super::super::STEP_MIN);
    }

    #[test]
    fn progress_is_by_chunks_and_ends_at_one() {
        let mut books = books();
        books.begin(at(0), 0, [4, 0]);
        let chunk = |last: bool| Verified {
            range: Some(SectorRange::new(CHUNK_SECTORS - 256, 256)),
            blocks: 32,
            bad: Vec::new(),
            next: (!last).then_some(CHUNK_SECTORS),
        };
        let half = Verified { range: Some(SectorRange::new(0, 256)), ..chunk(false) };
        for step in [half, chunk(false), chunk(false)] {
            books.looked_at(0, &step);
        }
        let progress = |books: &Books| books.report("h", at(1), 1)[0].progress;
        assert_eq!(progress(&books), Some(0.5));
        (0..9).for_each(|_| books.looked_at(0, &chunk(true)));
        assert_eq!(progress(&books), Some(1.0), "more chunks than at the beginning");
        books.end(at(2), 2);
        assert_eq!(progress(&books), None);
    }

    #[test]
    fn a_later_run_goes_on_where_an_earlier_one_was() {
        let mut first = books();
        first.course = Course::new(ScrubPlace { device: 1, component: 7, sector: 2048 });
        first.begin(at(0), 1000, [4, 4]);
        first.looked_at(1, &found(3));
        first.dealt_with(1, 3, 0);
        let mut second = books();
        second.resume(&first.mark(), at(0), 5000);
        assert_eq!(second.due(at(0)), Some(at(600)), "as soon as a first pass");
        second.begin(at(600), 5600, [4, 4]);
        assert_eq!((second.course, second.progress()), (first.course, Some(0.125)));
        assert_eq!(second.oldest_unverified(5600), None);
        second.end(at(700), 5700);
        assert_eq!(
            second.oldest_unverified(6000),
            Some(5000),
            "from the beginning in the first run"
        );

        let mut third = books();
        third.resume(&second.mark(), at(0), 1000 + 86_400);
        assert_eq!(third.due(at(0)), Some(at(6 * 86_400)), "a period after the last one began");
        third.resume(&second.mark(), at(0), 0);
        assert_eq!(third.due(at(0)), Some(at(0) + 7 * DAY), "a clock that went back");
    }

    #[test]
    fn what_was_lost_is_looked_for_again_after_a_restart() {
        let mut first = books();
        first.course = Course::new(ScrubPlace { device: 1, component: 7, sector: 0 });
        first.begin(at(0), 1000, [4, 4]);
        first.looked_at(1, &found(3));
        first.dealt_with(1, 2, 1);
        first.end(at(1), 1001);
        let mut second = books();
        second.resume(&first.mark(), at(0), 1002);
        assert_eq!(second.due(at(0)), Some(at(600)));
        assert_eq!(second.oldest_unverified(1002), Some(2));
    }
}
