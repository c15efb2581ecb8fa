// SPDX-License-Identifier: Apache-2.0
//! Capacity devices that leave their group and come back: what is on the others goes on, what was
//! not dropped is whole again, and what was says so.

use super::campaign::{Case, Signs};
use super::oracle::Oracle;
use super::scenarios::{Host, ONE};
use super::*;
use crate::{CreateSizes, DevicePlace, Reserve, Tolerance};
use base::Seat;
use env::IoError;
use sim::DiskFault;
use std::cell::Cell;

/// What became of each component of the random test while its device was out.
#[derive(Default)]
pub(super) struct Losses {
    /// Entries of it may have been dropped.
    begun: [Cell<bool>; COMPONENTS as usize],
    /// And whoever dropped them knows that the mark is durable.
    sure: [Cell<bool>; COMPONENTS as usize],
    /// Components that came back partial, and whole though their device had been out.
    pub(super) partial: Cell<u64>,
    pub(super) whole: Cell<u64>,
    was_out: [Cell<bool>; COMPONENTS as usize],
}

impl Losses {
    pub(super) fn is_sure(&self, component: usize) -> bool {
        if self.was_out[component].take() {
            self.whole.set(self.whole.get() + 1);
        }
        self.sure[component].get()
    }
}

fn unknown(group: &DiskGroup) -> Vec<usize> {
    let is_gone = |component: &usize| group.component(ComponentId(*component as u64 + 1)).is_none();
    (0..COMPONENTS as usize).filter(is_gone).collect()
}

/// Gives the devices that are out up when it is time.
pub(super) fn give_up_later(env: &Env, group: &DiskGroup, signs: &Rc<Signs>) -> env::TaskSet {
    let tasks = env::TaskSet::default();
    let gone = unknown(group);
    gone.iter().for_each(|component| signs.losses.was_out[*component].set(true));
    let Some(after) = signs.gives_up.get().filter(|_| group.is_any_out()) else { return tasks };
    let (inner, group, signs) = (env.clone(), group.clone(), Rc::clone(signs));
    tasks.spawn(env, "give up", async move {
        inner.sleep(after).await;
        gone.iter().for_each(|component| signs.losses.begun[*component].set(true));
        match group.give_up_out().await {
            Ok(()) => gone.iter().for_each(|component| signs.losses.sure[*component].set(true)),
            Err(error) => assert!(signs.may_fail.get(), "given up: {error}"),
        }
        assert!(!group.holds_for_out() || group.failure().is_some());
    });
    tasks
}

/// A component of a device that came back after it was given up: it has everything up to W. What
/// it lacks another copy would bring; here what is found counts from now on.
pub(super) async fn check_partial(
    group: &DiskGroup,
    oracle: &RefCell<Oracle>,
    signs: &Signs,
    component: usize,
) {
    let id = ComponentId(component as u64 + 1);
    let info = group.component(id).expect("it is here");
    let losses = &signs.losses;
    assert!(losses.begun[component].get(), "{component} lacks something that nobody gave up");
    losses.partial.set(losses.partial.get() + u64::from(losses.was_out[component].take()));
    let mut bad = Vec::new();
    for part in SectorRange::new(0, SECTORS).split_at_multiples(8) {
        let read = group.read(id, part).await;
        let mut oracle = oracle.borrow_mut();
        // It may be what it was long before the last acknowledged value.
        let sectors = &mut oracle.sectors[component][part.start as usize..part.end() as usize];
        sectors.iter_mut().for_each(|history| (history.acked, history.sure) = (0, 0));
        match read {
            Ok(read) => {
                for (at, bytes) in (part.start..).zip(read.payload.chunks(512)) {
                    let limits = (info.destaged, Lsn::MAX);
                    oracle.check_beyond(component, at, limits, bytes);
                }
                oracle.settle(component, part, &read.payload);
            }
            // A batch that was under way is torn: docs/store.md, (d).
            Err(GroupError::BadCrc { .. }) => {
                let is_beyond = oracle.is_beyond(component, part, info.destaged);
                assert!(is_beyond, "partial, {component} {part:?} is bad");
                bad.push(part);
            }
            Err(error) => panic!("partial: {error}"),
        }
    }
    {
        let mut oracle = oracle.borrow_mut();
        oracle.acked[component] = info.durable;
        oracle.marks[component].clear();
    }
    // Where another device holds the log, there may be no room: another life tries again.
    let making = make_whole(group, oracle, signs, (component, bad));
    let _ = group.shared().env.timeout(Duration::from_secs(1), making).await;
}

/// What a resync does in the end: what was bad is written again, and the component has a new seat.
async fn make_whole(
    group: &DiskGroup,
    oracle: &RefCell<Oracle>,
    signs: &Signs,
    (component, bad): (usize, Vec<SectorRange>),
) {
    let (id, env) = (ComponentId(component as u64 + 1), group.shared().env.clone());
    for (other, id) in (0..).zip((1..=COMPONENTS).map(ComponentId)) {
        // The owner says so first of all: what is below K can make room.
        let mut oracle = oracle.borrow_mut();
        oracle.told[other] = oracle.told[other].max(oracle.acked[other]);
        group.advance_commit(id, oracle.told[other]);
    }
    for range in bad {
        let (value, lsn, term, at) = {
            let mut state = oracle.borrow_mut();
            let value = state.next_value;
            state.next_value += 1;
            state.issued[component] += 1;
            let (term, count) = (Term(state.term), state.issued[component]);
            let lsn = Lsn::new(term, count);
            (value, lsn, term, state.issue(component, range, value, lsn))
        };
        let (kind, marks) = (AppendKind::Data, [].as_slice());
        let payload = payload(&env, range, value);
        let crcs = &wire::crcs_of(range, &payload);
        let append = Append { component: id, lsn, term, range, kind, crcs, payload, marks };
        group.append(append).await.expect("nothing fails now");
        oracle.borrow_mut().ack(component, range, &at, lsn);
    }
    group.set_clients(id, ClientTable::default()).await.expect("a row");
    let info = group.component(id).expect("it is here");
    assert!(info.partial, "until it has a new seat");
    let seat = Seat(info.meta.seat.0 + 1);
    let meta = crate::ComponentMeta { seat, ..info.meta };
    group.set_meta(id, meta).await.expect("a row");
    // From here on a crash leaves either.
    signs.losses.sure[component].set(false);
    group.is_whole_at(id, seat).await.expect("a row");
    signs.losses.begun[component].set(false);
    assert!(!group.component(id).expect("it is here").partial);
}

impl Case {
    /// Which devices are out in the next life, how, and whether they are given up then.
    fn draw_outs(&mut self) {
        let devices = self.setup.devices;
        let paths: Vec<String> = (0..devices).map(|n| format!("capacity{n}")).collect();
        paths.iter().for_each(|path| self.world.disk_error(self.host, path, DiskFault::Clear));
        self.tolerance = Tolerance::whatever_opens();
        self.gives_up = None;
        let stays = self.rng.below(devices as u64) as usize;
        for (at, path) in paths.iter().enumerate().filter(|(at, _)| *at != stays) {
            match self.rng.below(6) {
                0 => self.world.disk_error(self.host, path, DiskFault::Unlink),
                1 => self.world.disk_error(self.host, path, DiskFault::FailReads),
                2 => {
                    let cause = IoError::Device { errno: 5 };
                    let error = GroupError::Device { device: path.clone(), source: cause };
                    self.tolerance.left_out.push((at, error));
                }
                _ => {}
            }
        }
        if self.rng.below(3) > 0 {
            let bits = self.rng.between(1, 18);
            self.gives_up = Some(Duration::from_micros(self.rng.below(1 << bits)));
        }
    }

    /// At the end of a life a capacity device fails, and the group says which.
    fn fail_a_device(&mut self) {
        let group = self.signs.group.borrow();
        let group = group.as_ref().expect("it is open");
        let outs: Vec<usize> = group.out_devices().iter().map(|out| out.at).collect();
        let at = self.rng.below(self.setup.devices as u64) as usize;
        if outs.contains(&at) || self.rng.below(3) > 0 {
            return;
        }
        self.signs.may_fail.set(true);
        let fault =
            if self.rng.below(2) == 0 { DiskFault::FailWrites } else { DiskFault::FailFlush };
        self.world.disk_error(self.host, &format!("capacity{at}"), fault);
        self.world.run_for(Duration::from_micros(self.rng.below(1 << 16)));
        if let Some(failure) = group.failure() {
            assert_eq!(failure.device, DevicePlace::Capacity(at), "{failure:?}");
            assert!(!failure.is_away);
        }
    }

    /// Lives in which devices are out now and then.
    pub(super) fn with_outs(mut self) -> Self {
        for _ in 0..8 {
            self.draw_outs();
            self.signs.may_fail.set(false);
            self.begin();
            self.run_to_a_moment();
            self.fail_a_device();
            self.end();
        }
        self.draw_outs();
        (0..self.setup.devices).for_each(|n| {
            self.world.disk_error(self.host, &format!("capacity{n}"), DiskFault::Clear);
        });
        self.tolerance = Tolerance::default();
        self.signs.may_fail.set(false);
        self.begin();
        self.run_to_a_moment();
        self.rest();
        self.end();
        self
    }
}

#[test]
fn a_device_that_leaves_and_comes_back_costs_what_was_dropped_of_it() {
    let (mut whole, mut partial) = (0, 0);
    for seed in seeds() {
        let case = Case::spread(seed, Mutations::default()).with_outs();
        whole += case.losses.whole.get();
        partial += case.losses.partial.get();
    }
    let is_enough = whole > 20 && partial > 20;
    assert!(
        is_enough || asked("DISKGROUP_SEEDS").is_some(),
        "{whole} components came back whole, {partial} partial"
    );
}

const TWO: ComponentId = ComponentId(2);
const SIZES: CreateSizes = CreateSizes { cache: 2 << 20, capacity: CAPACITY };

/// A group of two capacity devices with a component on each.
async fn pair(env: &Env) -> DiskGroup {
    let devices = spec(2);
    let made = DiskGroup::format_with(env, &devices, Some(SIZES), false, GroupId(1), 64 << 10);
    made.await.expect("new files");
    let group = DiskGroup::open(env, &spec(2), GroupOptions::default()).await.expect("it opens");
    for id in [ONE, TWO] {
        group.create_component(id, ObjectId(id.0), SECTORS).await.expect("a component");
        group.reserve_space(id, 3, Reserve::IfFree).await.expect("room");
    }
    assert_eq!([ONE, TWO].map(|id| group.device_of(id)), [Some(0), Some(1)]);
    group
}

async fn put(env: &Env, group: &DiskGroup, component: ComponentId, value: u32) {
    let (range, lsn) = (SectorRange::new(0, 8), Lsn(u64::from(value)));
    let payload = payload(env, range, value);
    let crcs = &wire::crcs_of(range, &payload);
    let (term, kind, marks) = (Term(0), AppendKind::Data, [].as_slice());
    let append = Append { component, lsn, term, range, kind, crcs, payload, marks };
    group.append(append).await.expect("an append");
    group.advance_commit(component, lsn);
}

async fn get(group: &DiskGroup, component: ComponentId) -> Option<u32> {
    let read = group.read(component, SectorRange::new(0, 1)).await.expect("a read");
    value_of(0, &read.payload)
}

async fn whatever_opens(env: &Env) -> Result<DiskGroup, GroupError> {
    let tolerance = Tolerance::whatever_opens();
    DiskGroup::open_without(env, &spec(2), GroupOptions::default(), &tolerance).await
}

async fn given_up(env: &Env) -> Vec<u32> {
    match crate::inspect(env, "cache", false).await.expect("a look").content {
        crate::Content::Cache(content) => content.given_up,
        _ => panic!("not a cache device"),
    }
}

#[test]
fn a_device_that_failed_is_given_up_replaced_and_forgotten() {
    let host = Host::new(51);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = pair(&env).await;
        put(&env, &group, ONE, 1).await;
        put(&env, &group, TWO, 2).await;
        world.disk_error(key, "capacity1", DiskFault::FailWrites);
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(9)).await;
        let failure = group.failure().expect("it could not be destaged");
        assert_eq!((failure.device, failure.is_away), (DevicePlace::Capacity(1), false));
        group.close().await;
        drop(group);
        let group = {
            let error =
                GroupError::Failed { device: "capacity1".to_owned(), text: failure.text.clone() };
            let tolerance = Tolerance { left_out: vec![(1, error)], ..Tolerance::whatever_opens() };
            let options = GroupOptions::default();
            DiskGroup::open_without(&env, &spec(2), options, &tolerance).await.expect("one opens")
        };
        let outs = group.out_devices();
        assert_eq!(outs.len(), 1);
        assert_eq!((outs[0].at, outs[0].is_given_up), (1, false));
        assert_eq!(outs[0].cause.to_string(), failure.text);
        assert_eq!(group.devices()[2].out.as_ref(), Some(&failure.text));
        assert_eq!((get(&group, ONE).await, group.component(TWO)), (Some(1), None));
        let made = group.create_component(ComponentId(3), ObjectId(3), SECTORS).await;
        assert!(matches!(made, Err(GroupError::DeviceOut)), "{made:?}");
        put(&env, &group, ONE, 3).await;
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(9)).await;
        assert!(group.is_held() && group.status().buffer_fill > 0.0, "nothing is dropped");
        group.audit().expect("its books");
        group.give_up_out().await.expect("it is written");
        group.give_up_out().await.expect("once more is nothing");
        env.sleep(Duration::from_secs(9)).await;
        assert!(!group.is_held() && group.status().buffer_fill == 0.0);
        group.close().await;
        drop(group);
        assert_eq!(given_up(&env).await, [1]);
        world.disk_error(key, "capacity1", DiskFault::Clear);
        let replaced = DiskGroup::replace_capacity(&env, &spec(2), 1, None, true).await;
        replaced.expect("a new device, with the other one as it is");
        assert_eq!(given_up(&env).await, []);
        let group = DiskGroup::open(&env, &spec(2), GroupOptions::default()).await.expect("both");
        assert_eq!((get(&group, ONE).await, group.component(TWO)), (Some(3), None));
        group.create_component(TWO, ObjectId(2), SECTORS).await.expect("it is made anew");
        assert_eq!(get(&group, TWO).await, Some(0));
        group.close().await;
    });
}

#[test]
fn a_device_that_is_back_before_it_is_given_up_lacks_nothing() {
    let host = Host::new(52);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = pair(&env).await;
        put(&env, &group, TWO, 2).await;
        world.disk_error(key, "capacity1", DiskFault::Unlink);
        env.sleep(Duration::from_secs(8)).await;
        let failure = group.failure().expect("it is not there");
        assert_eq!((failure.device, failure.is_away), (DevicePlace::Capacity(1), true));
        group.close().await;
        drop(group);
        let group = whatever_opens(&env).await.expect("one is there");
        assert!(!group.is_back(1).await && group.holds_for_out());
        for value in 3..2000 {
            put(&env, &group, ONE, value).await;
            if group.status().is_pressed {
                break; // the log holds what it holds, and takes no more
            }
        }
        world.disk_error(key, "capacity1", DiskFault::Clear);
        assert!(group.is_back(1).await);
        group.close().await;
        drop(group);
        let group = DiskGroup::open(&env, &spec(2), GroupOptions::default()).await.expect("both");
        let info = group.component(TWO).expect("it is back");
        assert!(!info.partial && info.durable == Lsn(2), "{info:?}");
        assert_eq!(get(&group, TWO).await, Some(2));
        for id in [ONE, TWO] {
            group.advance_commit(id, group.component(id).expect("it is here").durable);
        }
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(20)).await;
        assert!(group.status().buffer_fill == 0.0, "nothing is held any more");
        group.close().await;
    });
}

#[test]
fn what_does_not_open_is_left_out_and_not_all_of_it() {
    let host = Host::new(53);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = pair(&env).await;
        put(&env, &group, ONE, 1).await;
        group.close().await;
        drop(group);
        for device in ["capacity0", "capacity1"] {
            world.disk_error(key, device, DiskFault::FailReads);
            let strict = DiskGroup::open(&env, &spec(2), GroupOptions::default()).await;
            assert!(matches!(strict.err(), Some(GroupError::Device { .. })));
            match whatever_opens(&env).await {
                Ok(group) => assert_eq!((device, group.out_devices().len()), ("capacity0", 1)),
                Err(error) => assert_eq!(device, "capacity1", "{error}"),
            }
        }
        world.disk_error(key, "capacity0", DiskFault::Clear);
        world.disk_error(key, "capacity1", DiskFault::Clear);
        // Another device where it stood: it is none of this group.
        let other = GroupSpec { cache: "other".to_owned(), capacity: vec!["capacity1".to_owned()] };
        let made = DiskGroup::format_with(&env, &other, Some(SIZES), true, GroupId(1), 64 << 10);
        made.await.expect("a device of another group");
        let group = whatever_opens(&env).await.expect("with the first");
        let outs = group.out_devices();
        assert!(matches!(outs[0].cause, GroupError::WrongGroup { .. }), "{outs:?}");
        assert_eq!(get(&group, ONE).await, Some(1));
        group.close().await;
    });
}
