// SPDX-License-Identifier: Apache-2.0
//! Random loads in small groups, with power loss at the moments that hurt.
//!
//! A case is a few lives of one group. Each life opens it, perhaps after openings that were cut
//! off, checks every sector and the group's own books, and loads it until a moment comes: a segment
//! was freed, a record or a page is on its way, a commit is being written, or just some time. A
//! little later the process is killed or the power fails. After a power failure the capacity
//! devices are also looked at alone, with an empty log, as if the cache device was lost.

use super::check::{check_all, check_capacity};
use super::load::{Load, load};
use super::oracle::Oracle;
use super::*;
use crate::StoreMemory;
use sim::DiskFreedom;
use std::cell::Cell;

/// What a seed decides about a group and its load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) devices: usize,
    pub(super) segments: u64,
    /// CRC pages in memory.
    pub(super) pages: usize,
    is_file: bool,
    is_hybrid: bool,
    /// Each component on a device of its own, as far as there are some.
    pub(super) is_spread: bool,
    /// One page of checksums for each device, and no byte more for tables than they need.
    is_short: bool,
    /// One life in so many ends with a close.
    closes: u64,
    load: Load,
}

impl Setup {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            devices: 1 + rng.below(2) as usize,
            segments: rng.between(6, 10),
            pages: [1, 2, 4, 64][rng.below(4) as usize],
            is_file: rng.below(2) == 0,
            is_hybrid: false,
            is_spread: false,
            is_short: false,
            closes: 4,
            load: Load::draw(rng),
        }
    }

    pub(super) fn cache_size(&self) -> u64 {
        // Nine tenths are read cache in a hybrid group: a few lines.
        let parts = if self.is_hybrid { 10 } else { 1 };
        (1 << 20) + self.segments * (64 << 10) * parts
    }

    /// Limits of the group. One that is short has small bands and halves of its journal, too.
    fn options(&self, mutations: Mutations) -> GroupOptions {
        let usual = direct_options(mutations, self.pages);
        if !self.is_short {
            return usual;
        }
        let small = options(mutations, self.pages).limits;
        let GroupLimits { band_pages, half_bytes, .. } = small;
        let limits = GroupLimits { band_pages, half_bytes, ..usual.limits };
        GroupOptions { limits, ..usual }
    }

    /// What the group may hold in memory.
    fn memory(&self, options: &GroupOptions) -> StoreMemory {
        let devices = self.devices as u64;
        if !self.is_short {
            return StoreMemory::new(options.crc_cache_bytes as u64 * devices, u64::MAX);
        }
        let sizes = crate::CreateSizes { cache: self.cache_size(), capacity: CAPACITY };
        let needed = DiskGroup::memory_of_new(sizes, self.devices, self.shape(), options);
        StoreMemory::new(4096 * devices, needed.expect("large enough").sum())
    }

    fn shape(&self) -> GroupShape {
        let kind = match self.is_hybrid {
            true => GroupKind::Hybrid { read_cache_percent: 90 },
            false => GroupKind::AllFlash,
        };
        GroupShape { kind, segment_size: 64 << 10 }
    }
}

fn world(seed: u64, rng: &mut Rng) -> World {
    let mut options = WorldOptions { seed, ..WorldOptions::default() };
    if rng.below(3) == 0 {
        // Some operations take so long that the ring goes round meanwhile.
        (options.disk.tail_ppm, options.disk.tail_factor) = (20_000, 60);
    }
    if rng.below(3) == 0 {
        (options.crash.lost_ppm, options.crash.uniform_ppm) = (700_000, 100_000);
    }
    options.disk.freedom = freedom(seed);
    World::new(options)
}

/// In half of the cases devices use the freedom that their contract leaves them. Drawn apart, so
/// that a seed is otherwise the same. The longest flush ends just before its device would be stuck.
fn freedom(seed: u64) -> DiskFreedom {
    let mut rng = Rng::stream(seed, 19);
    if rng.below(2) == 0 {
        return DiskFreedom::default();
    }
    let (long_ppm, long_max) = match rng.below(4) {
        0 => (0, Duration::ZERO),
        1 => (300_000, Duration::from_millis(1 << rng.below(6))),
        2 => (50_000, Duration::from_millis(300)),
        _ => (20_000, GroupOptions::default().stuck_after * 9 / 10),
    };
    DiskFreedom { is_loose: true, long_ppm, long_max }
}

/// When a life ends.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Time,
    Freed,
    Record,
    Pages,
    Turned,
    Commit,
}

/// What tells that a moment has come: it only rises.
fn count(group: &DiskGroup, moment: Moment) -> u64 {
    let state = group.shared().state.borrow();
    match moment {
        Moment::Time => 0,
        Moment::Freed => state.log.tail,
        Moment::Record => state.counters.requests.records,
        Moment::Pages => {
            let metas = state.store.capacity.iter().flat_map(|capacity| &capacity.map_meta);
            let pages = state.store.capacity.iter().flat_map(|capacity| &capacity.pages);
            metas.map(|m| m.sequence).chain(pages.map(|p| p.page.sequence)).sum()
        }
        Moment::Turned => state.log.head,
        Moment::Commit => state.log.sequence,
    }
}

/// What the world and the life in it tell one another.
#[derive(Default)]
pub(super) struct Signs {
    pub(super) group: RefCell<Option<DiskGroup>>,
    pub(super) is_ready: Cell<bool>,
    /// The load is to end and everything is to be destaged.
    pub(super) must_rest: Cell<bool>,
    pub(super) has_rested: Cell<bool>,
    /// Appends may fail, and have failed.
    pub(super) may_fail: Cell<bool>,
    pub(super) has_failed: Cell<bool>,
    /// Reads may find damage.
    pub(super) may_be_bad: Cell<bool>,
    /// What is read may be older than it should be.
    pub(super) may_be_stale: Cell<bool>,
    /// The group is closed, or about to be.
    pub(super) is_closing: Cell<bool>,
    /// Appends can only fail from now on.
    pub(super) is_fenced: Cell<bool>,
    /// Why it did not open, where that may be.
    pub(super) refused: RefCell<Option<GroupError>>,
    pub(super) bad: RefCell<Vec<(usize, SectorRange)>>,
    /// What opening does about capacity devices that do not open.
    pub(super) tolerance: RefCell<crate::Tolerance>,
    /// What was dropped while devices were out.
    pub(super) losses: Rc<super::out::Losses>,
    /// When the devices that are out are given up.
    pub(super) gives_up: Cell<Option<Duration>>,
    /// What the group may hold.
    memory: RefCell<Option<StoreMemory>>,
    /// Reads that the read cache served, of what outlived a restart.
    pub(super) warm_hits: Cell<u64>,
    /// Segments that were destaged together with others.
    pub(super) gathered: Cell<u64>,
    /// Blocks that a scrub beside the load compared.
    pub(super) verified: Cell<u64>,
}

pub(super) struct Case {
    pub(super) world: World,
    pub(super) host: HostKey,
    /// Where copies of the capacity devices are looked at.
    twin: HostKey,
    copies: u64,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    pub(super) rng: Rng,
    /// Which lives end with a close: drawn apart.
    closings: Rng,
    pub(super) setup: Setup,
    mutations: Mutations,
    pub(super) signs: Rc<Signs>,
    /// Of the next life.
    pub(super) tolerance: crate::Tolerance,
    pub(super) gives_up: Option<Duration>,
    pub(super) losses: Rc<super::out::Losses>,
}

impl Case {
    pub(super) fn new(seed: u64, mutations: Mutations) -> Self {
        let (rng, setup) = Self::drawn(seed);
        Self::of(seed, mutations, rng, setup)
    }

    fn drawn(seed: u64) -> (Rng, Setup) {
        let mut rng = Rng::stream(seed, 7);
        let mut setup = Setup::draw(&mut rng);
        // Drawn apart, so that a seed is otherwise the same with and without.
        setup.is_hybrid = Rng::stream(seed, 8).below(2) == 0;
        (rng, setup)
    }

    /// A hybrid group, whatever the seed says.
    pub(super) fn hybrid(seed: u64, mutations: Mutations) -> Self {
        let mut rng = Rng::stream(seed, 7);
        let setup = Setup { is_hybrid: true, ..Setup::draw(&mut rng) };
        Self::of(seed, mutations, rng, setup)
    }

    /// A group as of `new` or of `spread` that has as little memory as there may be.
    pub(super) fn short(seed: u64) -> Self {
        let (rng, drawn) = match seed % 4 {
            0 | 1 => Self::drawn(seed),
            _ => Self::drawn_spread(seed),
        };
        Self::of(seed, Mutations::default(), rng, Setup { is_short: true, ..drawn })
    }

    /// A group of two or three devices with components on each.
    pub(super) fn spread(seed: u64, mutations: Mutations) -> Self {
        let (rng, setup) = Self::drawn_spread(seed);
        Self::of(seed, mutations, rng, setup)
    }

    /// As `spread`, a hybrid group whatever the seed says, and closed at the end of each life.
    pub(super) fn hybrid_spread(seed: u64, mutations: Mutations) -> Self {
        let (rng, setup) = Self::drawn_spread(seed);
        Self::of(seed, mutations, rng, Setup { is_hybrid: true, closes: 1, ..setup })
    }

    fn drawn_spread(seed: u64) -> (Rng, Setup) {
        let mut rng = Rng::stream(seed, 7);
        let drawn = Setup::draw(&mut rng);
        let mut more = Rng::stream(seed, 9);
        let (devices, is_hybrid) = (2 + more.below(2) as usize, more.below(2) == 0);
        (rng, Setup { devices, is_hybrid, is_spread: true, ..drawn })
    }

    fn of(seed: u64, mutations: Mutations, mut rng: Rng, setup: Setup) -> Self {
        let world = world(seed, &mut rng);
        let host = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        let twin = world.add_host("twin", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        let (cache, devices) = (setup.cache_size(), setup.devices);
        if !setup.is_file {
            world.add_disk(host, "cache", cache);
            (0..devices).for_each(|n| world.add_disk(host, &format!("capacity{n}"), CAPACITY));
        }
        let sizes = setup.is_file.then_some(crate::CreateSizes { cache, capacity: CAPACITY });
        world.boot(host, move |env| {
            Box::pin(async move {
                let id = GroupId(5);
                let spec = spec(devices);
                let done = DiskGroup::format_with(&env, &spec, sizes, false, id, setup.shape());
                done.await.expect("a new group");
                let group = DiskGroup::open(&env, &spec, setup.options(mutations)).await;
                let group = group.expect("an empty group opens");
                for n in 0..COMPONENTS {
                    let (id, object) = (ComponentId(n + 1), ObjectId(n));
                    group.create_component(id, object, SECTORS).await.expect("a component");
                    // So that the next one is made on another device.
                    let kept = if setup.is_spread { 3 } else { 0 };
                    group.reserve_space(id, kept, crate::Reserve::IfFree).await.expect("room");
                }
                group.close().await;
            })
        });
        assert!(world.run_until(HOUR, || world.is_finished(host)), "formatting ends");
        world.kill(host);
        let oracle = Rc::new(RefCell::new(Oracle::new()));
        let (signs, tolerance, gives_up, losses) = Default::default();
        Self {
            world,
            host,
            twin,
            copies: 0,
            oracle,
            rng,
            closings: Rng::stream(seed, 10),
            setup,
            mutations,
            signs,
            tolerance,
            gives_up,
            losses,
        }
    }

    /// The same with a scrub beside the load.
    pub(super) fn scrubbed(mut self) -> Self {
        self.setup.load.is_scrubbed = true;
        self
    }

    /// One life begins: open, check everything, then load.
    pub(super) fn begin(&mut self) {
        self.cut_off_openings();
        self.begin_now();
    }

    /// The same without openings that are cut off.
    pub(super) fn begin_now(&mut self) {
        let old = std::mem::take(&mut self.signs);
        self.signs.may_fail.set(old.may_fail.get());
        self.signs.may_be_bad.set(old.may_be_bad.get());
        self.signs.may_be_stale.set(old.may_be_stale.get());
        self.signs.verified.set(old.verified.get());
        self.signs.warm_hits.set(old.warm_hits.get());
        self.signs.gathered.set(old.gathered.get());
        *self.signs.tolerance.borrow_mut() = self.tolerance.clone();
        self.signs.gives_up.set(self.gives_up);
        if let Some(signs) = Rc::get_mut(&mut self.signs) {
            signs.losses = Rc::clone(&self.losses);
        }
        if old.may_be_stale.get() {
            self.oracle.borrow_mut().forget_order();
        }
        let (oracle, signs) = (Rc::clone(&self.oracle), Rc::clone(&self.signs));
        let (setup, mutations) = (self.setup, self.mutations);
        let rng = Rng::new(self.rng.next_u64());
        self.world.boot(self.host, move |env| {
            Box::pin(async move {
                let options = setup.options(mutations);
                let spec = spec(setup.devices);
                let tolerance = signs.tolerance.borrow().clone();
                let memory = setup.memory(&options);
                *signs.memory.borrow_mut() = Some(memory.clone());
                let opened =
                    DiskGroup::open_within(&env, &spec, options, &tolerance, &memory).await;
                let group = match opened {
                    Ok(group) => group,
                    Err(error) if signs.may_be_bad.get() => {
                        *signs.refused.borrow_mut() = Some(error);
                        signs.is_ready.set(true);
                        return;
                    }
                    Err(error) => panic!("after a crash: {error}"),
                };
                let audit = group.audit().unwrap_or_else(|error| panic!("recovered: {error}"));
                assert_eq!(audit.in_transit, 0, "chunks with no place after recovery");
                group.components().into_iter().for_each(|id| group.set_active(id, true));
                super::cache_kept::keep_half(&group);
                *signs.group.borrow_mut() = Some(group.clone());
                check_all(&group, &oracle, &signs).await;
                if setup.is_hybrid {
                    super::readcache::check_warm(&env, &group, &oracle, &signs).await;
                }
                signs.is_ready.set(true);
                let _giving = super::out::give_up_later(&env, &group, &signs);
                load(env, group, oracle, signs, setup.load, rng).await;
            })
        });
        let signs = Rc::clone(&self.signs);
        assert!(self.world.run_until(HOUR, || signs.is_ready.get()), "opening ends");
    }

    /// None or a few.
    pub(super) fn cut_off_openings(&mut self) {
        while self.rng.below(4) == 0 {
            self.cut_off_opening();
        }
    }

    /// An opening that power loss or a signal cuts off.
    fn cut_off_opening(&mut self) {
        let (setup, mutations) = (self.setup, self.mutations);
        let is_done = Rc::new(Cell::new(false));
        let done = Rc::clone(&is_done);
        self.world.boot(self.host, move |env| {
            Box::pin(async move {
                let options = setup.options(mutations);
                let group = DiskGroup::open(&env, &spec(setup.devices), options).await;
                done.set(true);
                env.sleep(HOUR).await;
                drop(group);
            })
        });
        let most = Duration::from_micros(self.rng.below(4000));
        self.world.run_until(most, || is_done.get());
        match self.rng.below(3) {
            0 => self.world.kill(self.host),
            _ => self.world.crash(self.host),
        }
    }

    /// Lets the load run until a moment comes.
    pub(super) fn run_to_a_moment(&mut self) {
        let rng = &mut self.rng;
        let moments = [
            Moment::Time,
            Moment::Freed,
            Moment::Record,
            Moment::Pages,
            Moment::Turned,
            Moment::Commit,
        ];
        let moment = moments[rng.below(6) as usize];
        let bits = rng.between(10, 19);
        let most = match moment {
            Moment::Time => Duration::from_micros(rng.below(1 << bits)),
            _ => Duration::from_millis(500),
        };
        let (steps, bits) = (rng.between(1, 8), rng.between(1, 10));
        let later = Duration::from_micros(rng.below(1 << bits));
        {
            let group = self.signs.group.borrow();
            let group = group.as_ref().expect("it is open");
            let until = count(group, moment) + steps;
            self.world.run_until(most, || count(group, moment) >= until);
        }
        self.world.run_for(later);
        if !self.signs.may_be_stale.get() {
            self.check_changes();
        }
    }

    /// What is told to a component that was away since some lsn up to K (rule 30): a sector that
    /// was written by a later one is in it, or in a chunk that holds nothing.
    fn check_changes(&mut self) {
        let group = self.signs.group.borrow();
        let group = group.as_ref().expect("it is open");
        let oracle = self.oracle.borrow();
        for component in 0..COMPONENTS as usize {
            let (id, told) = (ComponentId(component as u64 + 1), oracle.told[component]);
            if group.component(id).is_none_or(|info| info.partial) {
                continue; // its device is out, or was
            }
            let since = match self.rng.below(3) {
                0 => told,
                _ => {
                    let sector = self.rng.below(SECTORS) as usize;
                    let values = &oracle.sectors[component][sector].values;
                    let lsn = values[self.rng.below(values.len() as u64) as usize].1;
                    Lsn(lsn).min(told)
                }
            };
            let told_of = changes(group, id, since);
            for (sector, history) in (0..).zip(&oracle.sectors[component]) {
                let (value, lsn) = history.values[history.sure];
                let is_known =
                    told_of.iter().any(|range| (range.start..range.end()).contains(&sector));
                assert!(
                    lsn <= since.0 || is_known,
                    "{component} sector {sector}: {value} of {lsn:#x} is not told, {since:?}"
                );
            }
        }
    }

    /// Before some lives end the group is closed in order, in the middle of its load.
    fn close_sometimes(&mut self) {
        if self.closings.below(self.setup.closes) > 0 {
            return;
        }
        let group = self.signs.group.borrow().clone().expect("it is open");
        let env = self.world.env(self.host).expect("it runs");
        self.signs.is_closing.set(true);
        let is_closed = Rc::new(Cell::new(false));
        let closed = Rc::clone(&is_closed);
        let _task = env.spawn("close", async move {
            group.close().await;
            closed.set(true);
        });
        assert!(self.world.run_until(HOUR, || is_closed.get()), "closing ends");
    }

    /// The life ends. After a power loss capacity is sometimes looked at alone.
    pub(super) fn end(&mut self) {
        self.check_memory();
        let group = self.signs.group.borrow_mut().take();
        let gathered = group.map_or(0, |group| group.shared().state.borrow().counters.gathered);
        self.signs.gathered.set(self.signs.gathered.get() + gathered);
        if self.rng.below(3) == 0 {
            return self.world.kill(self.host);
        }
        self.world.crash(self.host);
        // Where K lags there is most to be found that should not be there.
        let chance = if self.setup.load.commit > 10 { 4 } else { 2 };
        if self.rng.below(chance) < chance - 1 && !self.signs.may_be_bad.get() {
            self.look_at_capacity_alone();
        }
    }

    /// Pages in memory were never more than there may be, but for those of a checkpoint's band.
    fn check_memory(&self) {
        if let Some(memory) = &*self.signs.memory.borrow() {
            let (budget, held, most) = memory.checksums();
            assert!(held <= budget && most <= budget, "{held}, at most {most}, of {budget} bytes");
        }
        let Some(group) = &*self.signs.group.borrow() else { return };
        let inner = group.shared();
        let state = inner.state.borrow();
        let pinned = state.store.capacity.iter().map(|capacity| capacity.pages_held().1);
        assert!(pinned.max() <= Some(inner.options.limits.band_pages), "more than a band");
    }

    /// Destages everything; then every chunk and entry must be accounted for.
    pub(super) fn rest(&mut self) {
        self.signs.must_rest.set(true);
        let signs = Rc::clone(&self.signs);
        let has_rested = self.world.run_until(HOUR, || signs.has_rested.get());
        let group = self.signs.group.borrow();
        let status = group.as_ref().map(|group| (group.status(), group.audit()));
        assert!(has_rested, "at rest nothing is destaged: {:?} {status:?}", self.setup);
    }

    pub(super) fn run(mut self) -> Self {
        for _ in 0..5 {
            self.begin();
            self.run_to_a_moment();
            self.close_sometimes();
            self.end();
        }
        self.begin();
        self.run_to_a_moment();
        self.rest();
        self.end();
        self
    }

    /// The cache device was lost and a new one takes its place, at times not at the first attempt.
    fn look_at_capacity_alone(&mut self) {
        self.copies += 1;
        let copy = self.copies;
        let cache = format!("cache-{copy}");
        self.world.add_disk(self.twin, &cache, self.setup.cache_size());
        let mut spec = GroupSpec { cache, capacity: Vec::new() };
        for n in 0..self.setup.devices {
            let path = format!("capacity{n}-{copy}");
            self.world.copy_disk(self.host, &format!("capacity{n}"), self.twin, &path);
            spec.capacity.push(path);
        }
        if self.rng.below(3) == 0 {
            let (spec, shape) = (spec.clone(), self.setup.shape());
            self.world.boot(self.twin, move |env| {
                Box::pin(async move { drop(new_cache(&env, &spec, shape).await) })
            });
            self.world.run_for(Duration::from_micros(self.rng.between(1, 20_000)));
            self.world.crash(self.twin);
        }
        let (oracle, mutations) = (Rc::clone(&self.oracle), self.mutations);
        let shape = self.setup.shape();
        self.world.boot(self.twin, move |env| {
            Box::pin(async move {
                let replaced = new_cache(&env, &spec, shape).await.expect("a new cache device");
                assert!(replaced.kept >= COMPONENTS, "components are on capacity");
                let opened = DiskGroup::open(&env, &spec, options(mutations, 4)).await;
                let group = opened.unwrap_or_else(|error| panic!("capacity alone: {error}"));
                let audit = group.audit().unwrap_or_else(|error| panic!("alone: {error}"));
                assert_eq!(audit.in_transit, 0, "chunks with no place");
                check_capacity(&group, &oracle).await;
            })
        });
        let world = &self.world;
        assert!(world.run_until(HOUR, || world.is_finished(self.twin)), "a look at capacity ends");
        world.kill(self.twin);
        self.oracle.borrow_mut().looks += 1;
    }
}

/// The ranges that changed since an lsn, and the chunks that hold nothing.
fn changes(group: &DiskGroup, id: ComponentId, since: Lsn) -> Vec<SectorRange> {
    let (mut ranges, mut cursor) = (Vec::new(), 0);
    loop {
        let changed = group.changed_since(id, since, cursor);
        ranges.extend(changed.ranges);
        let end = changed.next.unwrap_or(SECTORS.div_ceil(base::CHUNK_SECTORS));
        for chunk in cursor..end {
            let at = (chunk - cursor) as usize;
            if changed.held[at / 64] >> (at % 64) & 1 == 0 {
                ranges.push(SectorRange::new(chunk * base::CHUNK_SECTORS, base::CHUNK_SECTORS));
            }
        }
        match changed.next {
            Some(next) => cursor = next,
            None => return ranges,
        }
    }
}

async fn new_cache(
    env: &Env,
    spec: &GroupSpec,
    shape: GroupShape,
) -> Result<crate::Replaced, GroupError> {
    DiskGroup::replace_cache_with(env, spec, None, true, shape).await
}
