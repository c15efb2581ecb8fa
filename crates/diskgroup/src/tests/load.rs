// SPDX-License-Identifier: Apache-2.0
//! A random load, its end at rest, and what each operation may give.

use super::campaign::Signs;
use super::check::is_damage;
use super::oracle::Oracle;
use super::*;

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Operations under way.
    window: u64,
    /// Blocks that most writes go to; 0: everywhere.
    hot: u64,
    /// Many parts of blocks.
    is_small: bool,
    /// One in so many operations raises K.
    pub(super) commit: u64,
    /// Components come and go.
    has_churn: bool,
    /// Pauses up to 2^n microseconds.
    pause: u64,
    /// What is on capacity is verified all the time.
    pub(super) is_scrubbed: bool,
}

pub(super) async fn load(
    env: Env,
    group: DiskGroup,
    oracle: Rc<RefCell<Oracle>>,
    signs: Rc<Signs>,
    load: Load,
    mut rng: Rng,
) {
    let tasks = Rc::new(env::TaskSet::default());
    let room = env::Semaphore::new(load.window);
    if load.has_churn {
        tasks.spawn(&env, "churn", churn(env.clone(), group.clone(), Rc::clone(&signs), &mut rng));
    }
    if load.is_scrubbed {
        tasks.spawn(&env, "scrub", scrub(env.clone(), group.clone(), Rc::clone(&signs)));
    }
    tasks.spawn(
        &env,
        "commit",
        commit_at_rest(env.clone(), group.clone(), Rc::clone(&oracle), Rc::clone(&signs)),
    );
    while !signs.must_rest.get() {
        let permit = room.acquire(1).await;
        let component = rng.below(COMPONENTS) as usize;
        let id = ComponentId(component as u64 + 1);
        if group.component(id).is_none_or(|info| info.partial) {
            env.sleep(Duration::from_micros(20)).await; // its device is out, or was
            continue;
        }
        if signs.has_failed.get() {
            env.sleep(Duration::from_micros(200)).await;
        }
        if rng.below(load.commit) == 0 {
            let mut oracle = oracle.borrow_mut();
            oracle.told[component] = oracle.told[component].max(oracle.acked[component]);
            group.advance_commit(id, oracle.acked[component]);
        }
        match rng.below(16) {
            0..=3 => {
                let range = load.some_range(&mut rng, 2048);
                let reading = read(&group, &oracle, &signs, component, range);
                tasks.spawn(&env, "read", async move {
                    reading.await;
                    drop(permit);
                });
            }
            4 => {
                let bits = rng.between(1, load.pause);
                env.sleep(Duration::from_micros(rng.below(1 << bits))).await;
            }
            5 => drop(group.changed_since(id, Lsn::ZERO, 0)),
            kind => {
                let (kind, range) = load.some_append(&mut rng, kind);
                let appended =
                    append(&env, &group, &oracle, &signs, &mut rng, component, kind, range);
                tasks.spawn(&env, "append", async move {
                    appended.await;
                    drop(permit);
                });
            }
        }
    }
    let all = room.acquire(load.window).await;
    rest(&env, &group, &signs).await;
    drop(all);
    env.sleep(HOUR).await;
}

/// Before rest K follows what is acknowledged: appends may wait for that.
async fn commit_at_rest(env: Env, group: DiskGroup, oracle: Rc<RefCell<Oracle>>, signs: Rc<Signs>) {
    loop {
        env.sleep(Duration::from_millis(1)).await;
        if signs.must_rest.get() {
            let mut oracle = oracle.borrow_mut();
            for component in 0..COMPONENTS as usize {
                oracle.told[component] = oracle.told[component].max(oracle.acked[component]);
                let id = ComponentId(component as u64 + 1);
                group.advance_commit(id, oracle.acked[component]);
            }
        }
    }
}

/// Everything is destaged; the books must be balanced.
async fn rest(env: &Env, group: &DiskGroup, signs: &Signs) {
    group.drain_buffer(true);
    while group.status().buffer_fill > 0.0 && group.status().fenced.is_none() {
        env.sleep(Duration::from_millis(20)).await;
    }
    env.sleep(Duration::from_millis(200)).await;
    let audit = || group.audit().unwrap_or_else(|error| panic!("at rest: {error}"));
    // A device that is slow may still discard what came back last: what is lost never comes back.
    for _ in 0..600 {
        if audit().in_transit == 0 {
            break;
        }
        env.sleep(Duration::from_millis(200)).await;
    }
    let audit = audit();
    if group.status().fenced.is_none() {
        let rest = (audit.in_transit, audit.reserved, audit.indexed, audit.pending, audit.pins);
        assert_eq!(rest, (0, 0, 0, 0, 0), "at rest: {audit:?}, {:?}", group.devices());
        for id in (1..=COMPONENTS).map(ComponentId) {
            let Some(info) = group.component(id) else { continue };
            // It rises when a segment is freed, up to K as it is then: it may stay behind.
            assert!(info.destaged <= info.durable, "W at rest: {info:?}");
        }
    }
    if group.status().fenced.is_none() && !signs.may_be_bad.get() {
        let lines = group.audit_lines().await;
        lines.unwrap_or_else(|error| panic!("lines at rest: {error}"));
        super::pages::check_pages(env, group).await;
        let inner = group.shared();
        let state = inner.state.borrow();
        let pins = state.read_cache.as_deref().map_or(0, |cache| cache.slots.pins());
        assert_eq!(pins, 0, "lines are held at rest");
    }
    signs.has_rested.set(true);
}

/// Pass after pass over everything; nothing is bad unless something was damaged.
async fn scrub(env: Env, group: DiskGroup, signs: Rc<Signs>) {
    loop {
        for id in group.components() {
            let mut from = Some(0);
            while let Some(at) = from {
                let verified = match group.verify(id, at).await {
                    Ok(verified) => verified,
                    Err(GroupError::UnknownComponent { .. }) => break,
                    Err(GroupError::Closed) if signs.is_closing.get() => return,
                    Err(error) => panic!("scrub of {id} at {at}: {error}"),
                };
                let is_good = verified.bad.is_empty() || signs.may_be_bad.get();
                assert!(is_good, "scrub of {id} calls good data bad: {verified:?}");
                signs.verified.set(signs.verified.get() + verified.blocks);
                from = verified.next;
            }
        }
        env.sleep(Duration::from_micros(20)).await;
    }
}

/// Components that come, are written to and go.
fn churn(
    env: Env,
    group: DiskGroup,
    signs: Rc<Signs>,
    rng: &mut Rng,
) -> impl Future<Output = ()> + use<> {
    let mut rng = Rng::new(rng.next_u64());
    async move {
        for id in group.components().into_iter().filter(|id| id.0 > COMPONENTS) {
            drop(group.delete_component(id).await);
        }
        for number in 1.. {
            let id = ComponentId(rng.next_u64() >> 8 | 1 << 40);
            if group.create_component(id, ObjectId(number), SECTORS).await.is_err() {
                env.sleep(Duration::from_millis(1)).await;
            }
            for lsn in 1..=rng.below(12) {
                let range = SectorRange::new(rng.below(SECTORS / 8) * 8, 8);
                let payload = payload(&env, range, 1);
                let crcs = wire::crcs_of(range, &payload);
                let (component, lsn, kind) = (id, Lsn(lsn), AppendKind::Data);
                let (term, marks) = (Term(0), [].as_slice());
                let append =
                    Append { component, lsn, term, range, kind, crcs: &crcs, payload, marks };
                drop(group.append(append).await);
                if rng.below(2) == 0 {
                    group.advance_commit(id, lsn);
                }
            }
            group.advance_commit(id, Lsn(100));
            env.sleep(Duration::from_micros(rng.below(20_000))).await;
            drop(group.delete_component(id).await);
            if signs.must_rest.get() {
                return;
            }
        }
    }
}

impl Load {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        Self {
            window: [4, 16, 24, 64][rng.below(4) as usize],
            hot: [0, 0, 8, 64][rng.below(4) as usize],
            is_small: rng.below(3) == 0,
            commit: [7, 7, 20, 100][rng.below(4) as usize],
            has_churn: rng.below(3) == 0,
            pause: [12, 16, 22][rng.below(3) as usize],
            is_scrubbed: false,
        }
    }

    fn some_range(&self, rng: &mut Rng, most: u64) -> SectorRange {
        let start = match self.hot {
            0 => rng.below(SECTORS),
            hot => rng.below(hot * 8),
        };
        let room = (base::CHUNK_SECTORS - start % base::CHUNK_SECTORS).min(SECTORS - start);
        SectorRange::new(start, rng.between(1, most.min(room)))
    }

    fn some_append(&self, rng: &mut Rng, kind: u64) -> (AppendKind, SectorRange) {
        let blocks = if self.hot > 0 && rng.below(8) > 0 { self.hot } else { SECTORS / 8 };
        match kind {
            6 if rng.below(2) == 0 => (AppendKind::Zero, self.some_range(rng, 64)),
            6 => (AppendKind::Discard, self.some_range(rng, 2048)),
            7 if rng.below(2) == 0 => {
                (AppendKind::Discard, SectorRange::new(rng.below(2) * 2048, 2048))
            }
            8 => (AppendKind::Data, self.some_range(rng, 80)),
            9..=11 if self.is_small => (AppendKind::Data, self.some_range(rng, 12)),
            _ => (AppendKind::Data, SectorRange::new(rng.below(blocks) * 8, 8)),
        }
    }
}

fn read(
    group: &DiskGroup,
    oracle: &Rc<RefCell<Oracle>>,
    signs: &Rc<Signs>,
    component: usize,
    range: SectorRange,
) -> impl Future<Output = ()> + use<> {
    let mut lows = oracle.borrow().lows(component, range);
    if signs.may_be_stale.get() {
        lows.fill(0);
    }
    let reading = group.read(ComponentId(component as u64 + 1), range);
    let (oracle, signs) = (Rc::clone(oracle), Rc::clone(signs));
    async move {
        match reading.await {
            Ok(read) => {
                assert!(wire::verify(range, &read.crcs, &read.payload));
                oracle.borrow().check(component, range, &lows, &read.payload);
                oracle.borrow_mut().reads += 1;
            }
            Err(GroupError::Closed) if signs.is_closing.get() => {}
            Err(error) => {
                assert!(signs.may_be_bad.get() && is_damage(&error), "read {range:?}: {error}");
            }
        }
    }
}

fn has_staged(group: &DiskGroup) -> bool {
    let state = group.shared().state.borrow();
    state.store.capacity.iter().any(|capacity| capacity.staged() > 0)
}

#[expect(clippy::too_many_arguments, reason = "all of it differs from call to call")]
fn append(
    env: &Env,
    group: &DiskGroup,
    oracle: &Rc<RefCell<Oracle>>,
    signs: &Rc<Signs>,
    rng: &mut Rng,
    component: usize,
    kind: AppendKind,
    range: SectorRange,
) -> impl Future<Output = ()> + use<> {
    let is_data = kind == AppendKind::Data;
    let mut state = oracle.borrow_mut();
    let value = if is_data { state.next_value } else { 0 };
    state.next_value += 1;
    state.issued[component] += 1;
    let lsn = Lsn::new(Term(state.term), state.issued[component]);
    let term = Term(state.term);
    let bytes = if is_data { payload(env, range, value) } else { env.buf(0).freeze() };
    let crcs = if is_data { wire::crcs_of(range, &bytes) } else { wire::Crcs::NONE };
    let id = ComponentId(component as u64 + 1);
    let at = state.issue(component, range, value, lsn);
    let marks = state.some_marks(rng);
    state.marks[component].push((lsn, marks.clone()));
    let append = Append {
        component: id,
        lsn,
        term,
        range,
        kind,
        crcs: &crcs,
        payload: bytes,
        marks: &marks,
    };
    let had_failed = signs.has_failed.get();
    // Direct writes leave others as little as one chunk of these small devices.
    let may_be_full = has_staged(group);
    let appended = group.append(append);
    let (oracle, signs) = (Rc::clone(oracle), Rc::clone(signs));
    drop(state);
    async move {
        match appended.await {
            Ok(()) => {
                assert!(!had_failed, "an append succeeds behind one that failed");
                oracle.borrow_mut().ack(component, range, &at, lsn);
            }
            Err(GroupError::Full { .. }) if may_be_full => {
                oracle.borrow_mut().marks[component].retain(|(of, _)| *of != lsn);
            }
            Err(GroupError::Fenced) if signs.may_fail.get() => signs.has_failed.set(true),
            Err(GroupError::Closed) if signs.is_closing.get() => signs.has_failed.set(true),
            Err(error) => panic!("append {range:?}: {error}"),
        }
    }
}
