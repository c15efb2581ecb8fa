// SPDX-License-Identifier: Apache-2.0
//! Scrub: everything on the capacity devices of a disk group is read now and then, and what is bad
//! is written again from another copy.
//!
//! One task per group. A pass goes over the devices one by one, component by component, in steps of
//! 128 KiB. What a step finds bad goes to the object's owner at once ([`Objects::repair`]); what
//! cannot be repaired is counted, logged, and found again by the next pass. How gently:
//!
//! - no more bytes per second than the rate, per group;
//! - a step lasts [`DEVICE_SHARE`] times as long as its device read took, so that scrub has a part
//!   of a device only: where clients keep a device busy reads take longer, and scrub slows down;
//! - while appends are held back because the write buffer is nearly full, nothing is read.
//!
//! Orders live in memory: after a start of the host scrub goes on at the rate of the configuration.
//! How far it is is kept in the directory, so that a pass goes on where it was: what is done twice
//! is at most what was done in [`SAVE_EVERY`]. Each host begins its passes at a random place of its
//! own, so that the copies of a block are not all looked at on the same day of a week.

mod books;
mod course;
mod mark;
#[cfg(test)]
mod tests;

use crate::cluster::view::View;
use base::{BLOCK_SECTORS, CHUNK_SECTORS, ComponentId, Instant, Map, ObjectId, SectorRange};
use books::{Books, blocks};
use course::{Course, ScrubLeg, ScrubPlace};
use diskgroup::{BadCause, BadRange, DiskGroup, GroupError, Verified};
use env::{Env, Notify, Task, select};
pub(crate) use mark::ScrubMarks;
use object::{ObjectError, Objects};
use operator::ScrubReport;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tracing::{error, info, warn};

/// A step lasts at least so many times as long as its device read.
const DEVICE_SHARE: u32 = 4;
/// A step lasts at least so long, so that components without data do not fill the host's thread.
const STEP_MIN: Duration = Duration::from_micros(100);
/// Between two looks at what holds the pass up.
const HOLD: Duration = Duration::from_secs(1);
/// How often a repair is asked for that is refused for a reason that may pass; the time between.
const ATTEMPTS_MAX: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);
/// Between two notes of how far a pass is: each costs the directory a durable write.
const SAVE_EVERY: Duration = Duration::from_secs(300);
/// Longest wait for what an earlier run noted; scrub begins anew then.
const LOAD_MAX: Duration = Duration::from_secs(60);
/// Between two attempts.
const LOAD_PAUSE: Duration = Duration::from_secs(1);
/// Ranges of a pass that are logged one by one: a device that loses all must not fill the log.
const LOGGED_MAX: u32 = 100;

/// When passes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    /// From the host's start to the first pass: a start has other things to do.
    pub first_after: Duration,
    /// From the beginning of a pass to that of the next, in the place of the configured one.
    pub period: Option<Duration>,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        Self { first_after: Duration::from_secs(600), period: None }
    }
}

/// The scrubber of one disk group. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scrubber(Rc<ScrubberInner>);

struct ScrubberInner {
    env: Env,
    group: DiskGroup,
    books: RefCell<Books>,
    /// An order came.
    changed: Notify,
    /// Ranges logged in this pass.
    logged: Cell<u32>,
}

/// What a repair needs of its surroundings.
#[derive(Clone)]
pub(crate) struct RepairHelpers {
    pub(crate) objects: Objects,
    pub(crate) view: View,
    pub(crate) marks: ScrubMarks,
}

/// The scrubbers of all groups that serve. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scrubbers(Rc<ScrubbersInner>);

struct ScrubbersInner {
    env: Env,
    helpers: RepairHelpers,
    /// Most bytes per second of each group.
    rate: u64,
    period: Duration,
    options: ScrubOptions,
    /// By cache device. Each lives in its task.
    all: RefCell<Map<String, Weak<ScrubberInner>>>,
}

impl Scrubbers {
    /// `rate` in bytes per second of each group.
    pub(crate) fn new(
        env: &Env,
        helpers: RepairHelpers,
        rate: u64,
        period: Duration,
        options: ScrubOptions,
    ) -> Self {
        let (env, all) = (env.clone(), RefCell::default());
        Self(Rc::new(ScrubbersInner { env, helpers, rate, period, options, all }))
    }

    /// Scrubs a group that opened, until the task is dropped or the group is closed.
    pub(crate) fn attend(&self, group: &DiskGroup) -> Task {
        let ScrubbersInner { env, helpers, rate, period, options, all } = &*self.0;
        let scrubber = Scrubber::new(env, group, *rate, *period, *options);
        let mut all = all.borrow_mut();
        all.retain(|_, scrubber| scrubber.strong_count() > 0);
        all.insert(group.cache_path().to_owned(), Rc::downgrade(&scrubber.0));
        env.spawn("scrub", scrubber.run(helpers.clone()))
    }

    /// The scrubber of a group that serves. A caller must not keep it across a wait: it holds the
    /// group.
    pub(crate) fn of(&self, group: &DiskGroup) -> Option<Scrubber> {
        self.0.all.borrow().get(group.cache_path())?.upgrade().map(Scrubber)
    }
}

impl Scrubber {
    /// A scrubber that does nothing before [`Scrubber::run`]. `rate` in bytes per second.
    pub(crate) fn new(
        env: &Env,
        group: &DiskGroup,
        rate: u64,
        period: Duration,
        options: ScrubOptions,
    ) -> Self {
        let paths = group.capacity().into_iter().map(|device| device.path).collect();
        let period = options.period.unwrap_or(period);
        let books = Books::new(paths, rate, period, env.now() + options.first_after);
        Self(Rc::new(ScrubberInner {
            env: env.clone(),
            group: group.clone(),
            books: RefCell::new(books),
            changed: Notify::default(),
            logged: Cell::default(),
        }))
    }

    /// Begins a pass now, or goes on with the one that was paused; at `rate` from now on.
    pub(crate) fn start(&self, rate: Option<u64>) {
        self.0.books.borrow_mut().start(rate);
        self.0.changed.notify();
    }

    /// Nothing is read until the next order.
    pub(crate) fn pause(&self) {
        self.0.books.borrow_mut().pause();
        self.0.changed.notify();
    }

    /// What an operator sees, one per capacity device.
    pub(crate) fn report(&self, host: &str) -> Vec<ScrubReport> {
        self.0.books.borrow().report(host, self.0.env.now(), self.0.wall())
    }

    /// The part of the pass under way that is done, and within how many seconds everything was
    /// verified.
    pub(crate) fn progress(&self) -> (Option<f64>, Option<u64>) {
        let books = self.0.books.borrow();
        (books.progress(), books.oldest_unverified(self.0.wall()))
    }

    /// What an operator should look at.
    pub(crate) fn attention(&self) -> Vec<String> {
        self.0.books.borrow().attention()
    }

    /// Whether something is bad that could not be repaired.
    pub(crate) fn has_lost(&self) -> bool {
        self.0.books.borrow().unrepaired() > 0
    }

    /// Pass after pass, until dropped or the group is closed.
    pub(crate) async fn run(self, helpers: RepairHelpers) {
        self.0.load(&helpers.marks).await;
        loop {
            self.0.wait_until_due().await;
            if self.0.pass(&helpers).await.is_none() {
                return;
            }
        }
    }
}

impl ScrubberInner {
    /// Seconds since 1970.
    fn wall(&self) -> u64 {
        self.env.wall().0 / 1_000_000_000
    }

    /// Takes up what an earlier run noted, or chooses where passes begin from now on.
    async fn load(&self, marks: &ScrubMarks) {
        let until = self.env.now() + LOAD_MAX;
        let mark = loop {
            match marks.read(self.group.id()).await {
                Ok(mark) => break mark,
                Err(error) if self.env.now() >= until => {
                    warn!(group = %self.group.id(), %error, "scrub begins anew");
                    break None;
                }
                Err(_) => self.env.sleep(LOAD_PAUSE).await,
            }
        };
        let (now, wall) = (self.env.now(), self.wall());
        let mut books = self.books.borrow_mut();
        match mark {
            Some(mark) => books.resume(&mark, now, wall),
            None => books.course = Course::new(self.random_place()),
        }
    }

    fn random_place(&self) -> ScrubPlace {
        let components = self.components();
        if components.is_empty() {
            return ScrubPlace::default();
        }
        let below = |count: usize| (self.env.random() % count as u64) as usize;
        let (device, id) = components[below(components.len())];
        let sectors = self.group.component(id).map_or(0, |info| info.sectors);
        let chunks = sectors.div_ceil(CHUNK_SECTORS).max(1);
        let sector = self.env.random() % chunks * CHUNK_SECTORS;
        ScrubPlace { device, component: id.0, sector }
    }

    /// By device and id.
    fn components(&self) -> Vec<(usize, ComponentId)> {
        let ids = self.group.components().into_iter();
        let mut all: Vec<_> = ids.filter_map(|id| Some((self.group.device_of(id)?, id))).collect();
        all.sort_unstable();
        all
    }

    async fn save(&self, marks: &ScrubMarks) {
        let mark = self.books.borrow().mark();
        marks.write(self.group.id(), &mark).await;
    }

    async fn wait_until_due(&self) {
        loop {
            let changed = self.changed.wait();
            let now = self.env.now();
            let due = self.books.borrow().due(now);
            match due {
                Some(at) if at <= now => return,
                Some(at) => {
                    let _ = select(changed, self.env.sleep_until(at)).await;
                }
                None => changed.await,
            }
        }
    }

    /// `None`: the group is closed.
    async fn pass(&self, helpers: &RepairHelpers) -> Option<()> {
        let chunks = self.group.capacity().into_iter().map(|device| device.used_chunks);
        self.books.borrow_mut().begin(self.env.now(), self.wall(), chunks);
        self.logged.set(0);
        info!(group = %self.group.id(), "a scrub pass begins, or goes on");
        self.save(&helpers.marks).await;
        let mut saved = self.env.now();
        loop {
            let components = self.components();
            let leg = self.books.borrow_mut().course.next(&components);
            let Some(leg) = leg else { break };
            self.leg(helpers, leg, &mut saved).await?;
        }
        let unrepaired = {
            let mut books = self.books.borrow_mut();
            books.end(self.env.now(), self.wall());
            books.unrepaired()
        };
        self.save(&helpers.marks).await;
        info!(group = %self.group.id(), unrepaired, "a scrub pass is over");
        Some(())
    }

    /// A component from where the pass is to its end. `None`: the group is closed.
    async fn leg(&self, helpers: &RepairHelpers, leg: ScrubLeg, saved: &mut Instant) -> Option<()> {
        let (device, id) = (leg.device, leg.component);
        let passed = |next| self.books.borrow_mut().course.passed(&leg, next);
        let mut from = Some(leg.sector);
        let mut free_at = self.env.now();
        while let Some(at) = from {
            if self.env.now().since(*saved) >= SAVE_EVERY {
                self.save(&helpers.marks).await;
                *saved = self.env.now();
            }
            self.wait_for_turn(free_at, &helpers.marks).await;
            let begun = self.env.now();
            let verified: Verified = match self.group.verify(id, at).await {
                Ok(verified) => verified,
                Err(GroupError::UnknownComponent { .. }) => {
                    passed(None); // deleted meanwhile
                    return Some(());
                }
                Err(GroupError::Closed) => return None,
                Err(error) => {
                    warn!(component = %id, %error, "scrub leaves the rest of a component out");
                    passed(None);
                    return Some(());
                }
            };
            let took = self.env.now().since(begun);
            let step = {
                let mut books = self.books.borrow_mut();
                books.looked_at(device, &verified);
                books.step_time(verified.blocks, took)
            };
            free_at = begun + step;
            for bad in &verified.bad {
                self.repair(helpers, device, id, *bad).await;
            }
            from = leg.next(verified.next);
            passed(from);
        }
        Some(())
    }

    /// Waits until `free_at`, and for as long as something holds the pass up.
    async fn wait_for_turn(&self, free_at: Instant, marks: &ScrubMarks) {
        loop {
            let changed = self.changed.wait();
            let status = self.group.status();
            let is_paused = self.books.borrow().is_paused();
            let hold = match (status.fenced, status.is_pressed) {
                (Some(_), _) => Some("stopped: the group takes no writes"),
                (None, true) => Some("waiting: the write buffer is full"),
                (None, false) => None,
            };
            self.books.borrow_mut().hold(hold);
            let now = self.env.now();
            if is_paused {
                self.save(marks).await;
                changed.await;
            } else if hold.is_some() {
                let _ = select(changed, self.env.sleep(HOLD)).await;
            } else if free_at > now {
                let _ = select(changed, self.env.sleep_until(free_at)).await;
            } else {
                return;
            }
        }
    }

    /// Has the owner write a range again; as a whole, or block by block where not every block has a
    /// good copy on the same host.
    async fn repair(&self, helpers: &RepairHelpers, device: usize, id: ComponentId, bad: BadRange) {
        let Some(object) = self.group.component(id).map(|info| info.object) else { return };
        // What is written there would be destaged with checksums that cannot be read.
        if bad.cause == BadCause::Metadata {
            return self.tell_without_checksums(helpers, device, (object, id), bad.range);
        }
        let whole = self.ask(helpers, object, id, bad.range).await;
        let mut parts = vec![(bad.range, whole)];
        if whole == Err(ObjectError::Io) && blocks(bad.range) > 1 {
            parts.clear();
            for block in bad.range.split_at_multiples(BLOCK_SECTORS) {
                parts.push((block, self.ask(helpers, object, id, block).await));
            }
        }
        if self.group.component(id).is_none() {
            return; // deleted meanwhile
        }
        for (range, outcome) in parts {
            let count = blocks(range);
            let (repaired, unrepaired) = if outcome.is_ok() { (count, 0) } else { (0, count) };
            if outcome.is_ok() {
                base::hit(base::Probe::ScrubRepaired);
            }
            self.books.borrow_mut().dealt_with(device, repaired, unrepaired);
            self.tell(helpers, device, (object, id), BadRange { range, ..bad }, outcome);
        }
    }

    async fn ask(
        &self,
        helpers: &RepairHelpers,
        object: ObjectId,
        id: ComponentId,
        range: SectorRange,
    ) -> Result<(), ObjectError> {
        let mut attempt = 1;
        loop {
            match helpers.objects.repair(object, id, range).await {
                Err(error) if error != ObjectError::Io && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    self.env.sleep(ATTEMPT_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether one more range is logged in this pass; says so where it is one too many.
    fn is_logged(&self, device: &str) -> bool {
        self.logged.set(self.logged.get().saturating_add(1));
        if self.logged.get() == LOGGED_MAX + 1 {
            warn!(device, "scrub finds more; not logged one by one in this pass");
        }
        self.logged.get() <= LOGGED_MAX
    }

    /// A device that fails to read may be well again after its host's next start.
    fn tell_without_checksums(
        &self,
        helpers: &RepairHelpers,
        device: usize,
        (object, component): (ObjectId, ComponentId),
        range: SectorRange,
    ) {
        let device = self.books.borrow().path(device);
        if self.is_logged(&device) {
            let volume = volume_of(&helpers.view, object);
            warn!(
                device, volume, %object, %component, ?range,
                "scrub cannot read the checksums of data, and does not write it again there; the \
                 next pass tries again"
            );
        }
    }

    fn tell(
        &self,
        helpers: &RepairHelpers,
        device: usize,
        (object, component): (ObjectId, ComponentId),
        BadRange { range, cause }: BadRange,
        outcome: Result<(), ObjectError>,
    ) {
        let device = self.books.borrow().path(device);
        if !self.is_logged(&device) {
            return;
        }
        let volume = volume_of(&helpers.view, object);
        match outcome {
            Ok(()) => warn!(
                device, volume, %object, %component, ?range, ?cause,
                "scrub found bad data; it is written again from another copy"
            ),
            // A device that fails to read may be well again after its host's next start.
            Err(ObjectError::Io) if cause == BadCause::Unreadable => warn!(
                device, volume, %object, %component, ?range,
                "scrub cannot read data and has no other copy of it now; the next pass tries again"
            ),
            Err(ObjectError::Io) => error!(
                device, volume, %object, %component, ?range, ?cause,
                "scrub found bad data and no good copy of it"
            ),
            Err(error) => warn!(
                device, volume, %object, %component, ?range, ?cause, %error,
                "scrub found bad data that cannot be repaired now; the next pass tries again"
            ),
        }
    }
}

/// The name of the volume that an object is a part of.
fn volume_of(view: &View, object: ObjectId) -> String {
    let volume = view.object(object).and_then(|object| view.volume_of_id(object.volume));
    volume.map_or_else(|| "unknown".to_owned(), |volume| volume.title())
}
