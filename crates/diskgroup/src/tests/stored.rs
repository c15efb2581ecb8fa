// SPDX-License-Identifier: Apache-2.0
//! A whole group as this format's release wrote it, power lost in the middle: every later build
//! opens it and finds what was acknowledged, or its format has another number and refuses it.
//!
//! `DISKGROUP_STORE=FILE cargo test -p diskgroup stored` writes the group of the code as it is, and
//! `FILE-direct` with direct writes in its log.

use super::scenarios::{Host, ONE};
use super::*;
use crate::{CreateSizes, GroupLimits, Reserve};
use base::{Incarnation, Mark, RequestId, ShardId};
use std::cell::Cell;

const SIZES: CreateSizes = CreateSizes { cache: 2 << 20, capacity: 24 << 20 };
const DEVICES: [(&str, u64); 2] = [("cache", SIZES.cache), ("capacity0", SIZES.capacity)];
const TWO: ComponentId = ComponentId(2);
const GONE: ComponentId = ComponentId(3);
const PAGE: usize = 4096;
/// Of the build whose journals were one area, and of the first one with halves.
const LINEAR: &[u8] = include_bytes!("../../fixtures/group-3.bin");
const HALVED: &[u8] = include_bytes!("../../fixtures/group-3-halves.bin");
/// As the first, and with direct writes in its log.
const DIRECT: &[u8] = include_bytes!("../../fixtures/group-3-direct.bin");

/// With direct writes of two blocks and more, or with none.
fn limits(has_direct: bool) -> GroupLimits {
    let direct_blocks = if has_direct { 2 } else { u64::MAX };
    GroupLimits { direct_blocks, direct_spare: 1, ..GroupLimits::default() }
}

/// What is written to a component, in the order of its lsns, which are places in this list.
#[derive(Clone, Copy)]
struct Step(AppendKind, u64, u64);

const DATA: AppendKind = AppendKind::Data;
/// Up to here all is on capacity; up to [`COMMITTED`] at or below K; the rest is in the tail.
const DESTAGED: usize = 9;
const COMMITTED: usize = 13;
const STEPS: [Step; 16] = [
    Step(DATA, 0, 32),
    Step(DATA, 2048, 16),
    Step(DATA, 24, 8),
    Step(DATA, 4096, 16),
    // The last block of the component is half a block.
    Step(DATA, SECTORS - 4, 4),
    Step(DATA, 3, 2),
    Step(AppendKind::Zero, 40, 8),
    Step(AppendKind::Discard, 2048, 2048),
    Step(DATA, 2056, 16),
    Step(DATA, 8, 24),
    Step(DATA, 4100, 1),
    Step(AppendKind::Discard, 4104, 8),
    Step(AppendKind::Zero, 5, 9),
    Step(DATA, 0, 8),
    Step(DATA, 4800, 16),
    Step(DATA, 4804, 7),
];

fn lsn_of(place: usize) -> Lsn {
    Lsn::new(Term(2), place as u64 + 1)
}

fn request_of(place: usize) -> RequestId {
    let count = place as u64 + 1;
    RequestId { client: ShardId(4), run: Incarnation(2), slot: (place % 3) as u8, count }
}

async fn take(env: &Env, group: &DiskGroup, component: ComponentId, place: usize) {
    let Step(kind, start, count) = STEPS[place];
    let (range, lsn) = (SectorRange::new(start, count), lsn_of(place));
    let payload = match kind {
        DATA => payload(env, range, place as u32 + 1),
        _ => env.buf(0).freeze(),
    };
    let crcs = if kind == DATA { wire::crcs_of(range, &payload).to_vec() } else { Vec::new() };
    let marks = [Mark::Done(request_of(place))];
    let (crcs, marks, term) = (&crcs[..], &marks[..], Term(2));
    let append = Append { component, lsn, term, range, kind, crcs, payload, marks };
    let is_copy = place % 5 == 4;
    group.append_as(append, is_copy).await.expect("an append");
}

/// The group when its power fails.
async fn build(env: Env, limits: GroupLimits) {
    let spec = spec(1);
    let made = DiskGroup::format_with(&env, &spec, Some(SIZES), false, GroupId(3), 64 << 10);
    made.await.expect("new files");
    let options = GroupOptions { limits, ..GroupOptions::default() };
    let group = DiskGroup::open(&env, &spec, options).await.expect("opens");
    for id in [ONE, TWO, GONE] {
        group.create_component(id, ObjectId(id.0 + 8), SECTORS).await.expect("a component");
    }
    group.set_active(ONE, true);
    group.reserve_space(TWO, 3, Reserve::IfFree).await.expect("there is room");
    group.drain_buffer(true);
    for place in 0..DESTAGED {
        for id in [ONE, TWO, GONE] {
            take(&env, &group, id, place).await;
            group.advance_commit(id, lsn_of(place));
        }
    }
    env.sleep(Duration::from_secs(20)).await;
    assert!(group.status().destaged_blocks > 0 && group.status().buffer_fill < 0.1);
    group.delete_component(GONE).await.expect("it is gone");
    group.drain_buffer(false);
    for place in DESTAGED..STEPS.len() {
        take(&env, &group, ONE, place).await;
        group.advance_commit(ONE, lsn_of(place.min(COMMITTED) - 1));
    }
    env.sleep(HOUR).await;
    drop(group);
}

/// The devices, page by page: number of the device, of the page, bytes without the zeros at the
/// end and their count.
fn store(has_direct: bool) -> Vec<u8> {
    let host = Host::new(77);
    host.world.boot(host.key, move |env| Box::pin(build(env, limits(has_direct))));
    host.world.run_for(Duration::from_secs(60));
    host.world.crash(host.key);
    let mut out = Vec::new();
    for (number, (name, _)) in (0_u8..).zip(DEVICES) {
        for page in host.world.written(host.key, name) {
            let bytes = host.world.read_raw(host.key, name, page * PAGE as u64, PAGE);
            let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if length > 0 {
                out.push(number);
                out.extend((page as u32).to_le_bytes());
                out.extend((length as u16).to_le_bytes());
                out.extend(&bytes[..length]);
            }
        }
    }
    out
}

/// A host with the devices that were stored.
fn restore(stored: &[u8]) -> Host {
    let host = Host::new(78);
    for (name, size) in DEVICES {
        host.world.add_disk(host.key, name, size);
    }
    let mut rest = stored;
    while let Some((head, after)) = rest.split_at_checked(7) {
        let page = u32::from_le_bytes(head[1..5].try_into().expect("four bytes"));
        let length = usize::from(u16::from_le_bytes(head[5..].try_into().expect("two bytes")));
        let (name, _) = DEVICES[usize::from(head[0])];
        host.world.write_raw(host.key, name, u64::from(page) * PAGE as u64, &after[..length]);
        rest = &after[length..];
    }
    host
}

/// The value of each sector after the first steps; nothing where it reads as zeros.
fn expected(steps: usize) -> Vec<u32> {
    let mut sectors = vec![0; SECTORS as usize];
    for (place, Step(kind, start, count)) in STEPS[..steps].iter().enumerate() {
        let value = if *kind == DATA { place as u32 + 1 } else { 0 };
        sectors[*start as usize..(start + count) as usize].fill(value);
    }
    sectors
}

async fn check(group: &DiskGroup, component: ComponentId, steps: usize) {
    for (sector, wanted) in (0..).zip(expected(steps)) {
        let read = group.read(component, SectorRange::new(sector, 1)).await.expect("a read");
        let found = value_of(sector, &read.payload);
        assert_eq!(found, Some(wanted), "{component} sector {sector}");
    }
    let clients = group.clients(component);
    assert!((0..steps).all(|place| clients.has(request_of(place))), "whose effect it has");
    assert!(!clients.has(request_of(steps + 2)));
}

fn opens_whole(host: &Host, staged: u64) {
    let is_checked = Rc::new(Cell::new(false));
    let checked = Rc::clone(&is_checked);
    host.run(move |env| async move {
        let group = DiskGroup::open(&env, &spec(1), GroupOptions::default()).await.expect("opens");
        let mut components = group.components();
        components.sort_unstable();
        assert_eq!(components, [ONE, TWO]);
        check(&group, ONE, STEPS.len()).await;
        check(&group, TWO, DESTAGED).await;
        let info = group.component(ONE).expect("it is there");
        assert_eq!((info.object, info.sectors), (ObjectId(9), SECTORS));
        assert_eq!(info.durable, lsn_of(STEPS.len() - 1));
        assert!(info.commit < lsn_of(COMMITTED) && info.destaged <= info.commit);
        assert_eq!(group.component(TWO).expect("it is there").reserve, 3);
        assert_eq!(group.audit().expect("its books").staged, staged);
        // It goes on from there, and what it writes is found again.
        group.advance_commit(ONE, lsn_of(STEPS.len() - 1));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(20)).await;
        check(&group, ONE, STEPS.len()).await;
        group.audit().expect("its books at rest");
        group.close().await;
        checked.set(true);
    });
    assert!(is_checked.get());
}

#[test]
fn the_stored_group_of_this_format_opens_whole() {
    let number = format::FORMAT_VERSION;
    assert_eq!(number, 3, "another format: store its group, and say here what becomes of the old");
    if let Some(path) = asked("DISKGROUP_STORE") {
        #[expect(clippy::disallowed_methods, reason = "a person asked for the file")]
        for (name, has_direct) in [(path.clone(), false), (path + "-direct", true)] {
            std::fs::write(name, store(has_direct)).expect("the file");
        }
    }
    let new = [store(false), store(true)];
    for (stored, staged) in
        [(LINEAR, 0), (HALVED, 0), (DIRECT, 2), (&new[0][..], 0), (&new[1][..], 2)]
    {
        opens_whole(&restore(stored), staged);
    }
}

/// How many superblocks of the capacity device say that its journal is in halves.
fn halved_superblocks(host: &Host) -> usize {
    let slots = format::SUPERBLOCK_SLOTS.map(|at| {
        let page = host.world.read_raw(host.key, "capacity0", at, PAGE);
        format::Superblock::decode(&page).expect("a superblock").kind
    });
    let is_halved = |kind: &format::DeviceKind| match kind {
        format::DeviceKind::Capacity(layout) => layout.halves_from > 0,
        format::DeviceKind::Cache { .. } => panic!("not a capacity device"),
    };
    slots.iter().filter(|kind| is_halved(kind)).count()
}

#[test]
fn power_may_fail_while_the_journal_gets_its_halves() {
    let mut met = [0; 3];
    for step in 0..150 {
        let host = restore(LINEAR);
        host.world.boot(host.key, |env| {
            Box::pin(async move {
                let opened = DiskGroup::open(&env, &spec(1), GroupOptions::default()).await;
                let group = opened.expect("it opens");
                group.drain_buffer(true);
                env.sleep(HOUR).await;
                drop(group);
            })
        });
        host.world.run_for(Duration::from_micros(step * 100));
        host.world.crash(host.key);
        met[halved_superblocks(&host)] += 1;
        opens_whole(&host, 0);
        assert_eq!(halved_superblocks(&host), 2, "an old build would open it after {step}");
    }
    assert!(met.iter().all(|times| *times > 0), "{met:?}");
}
