// SPDX-License-Identifier: Apache-2.0
//! Valid devices of small disk groups, each at another moment of a load, and what every sector of
//! them ever held.

use base::{
    BLOCK_SECTORS, ComponentId, GroupId, Incarnation, Lsn, Mark, ObjectId, RequestId, Rng,
    SectorRange, ShardId, Term,
};
use diskgroup::{
    Append, AppendKind, DiskGroup, GroupError, GroupKind, GroupLimits, GroupOptions, GroupShape,
    GroupSpec,
};
use env::{Env, Slice};
use sim::{HostKey, World, WorldOptions};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

/// Sectors of a component: one chunk and a part of a second that ends within a block.
pub(crate) const SECTORS: u64 = 2048 + 300;
pub(crate) const COMPONENTS: u64 = 3;
pub(crate) const PAGE: usize = 4096;
/// Paths and sizes of the two devices.
pub(crate) const DEVICES: [(&str, u64); 2] =
    [("cache", (1 << 20) + (6 << 16)), ("capacity", 12 << 20)];
/// The cache device of a hybrid group: as long a log, and two lines of read cache.
const HYBRID_CACHE: u64 = (1 << 20) + 10 * (6 << 16);
const SEGMENT: u64 = 64 << 10;
/// Virtual time that anything here may take.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The content of a device: its pages that are not zero.
pub(crate) type Pages = BTreeMap<u64, [u8; PAGE]>;

/// Two devices, and the values that each sector of each component had at some time.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) devices: [Pages; 2],
    pub(crate) values: Rc<BTreeSet<(u64, u64, u32)>>,
    pub(crate) kind: GroupKind,
    /// Blocks of the smallest direct write; none: there are no such writes.
    pub(crate) direct: Option<u64>,
}

pub(crate) fn spec() -> GroupSpec {
    GroupSpec { cache: DEVICES[0].0.to_owned(), capacity: vec![DEVICES[1].0.to_owned()] }
}

pub(crate) fn options(direct: Option<u64>) -> GroupOptions {
    // Two pages: what is read again comes from the device. A checkpoint with each record.
    let mut limits = GroupLimits { half_bytes: 1, ..GroupLimits::default() };
    if let Some(blocks) = direct {
        (limits.direct_blocks, limits.direct_spare) = (blocks, 1);
    }
    GroupOptions { crc_cache_bytes: 2 * PAGE, limits, ..GroupOptions::default() }
}

pub(crate) fn world(seed: u64, kind: GroupKind) -> (World, HostKey) {
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let host = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    for (path, size) in devices(kind) {
        world.add_disk(host, path, size);
    }
    (world, host)
}

fn devices(kind: GroupKind) -> [(&'static str, u64); 2] {
    match kind {
        GroupKind::AllFlash => DEVICES,
        GroupKind::Hybrid { .. } => [(DEVICES[0].0, HYBRID_CACHE), DEVICES[1]],
    }
}

/// What a sector holds: its own address and a value, so that nothing can be taken for another.
pub(crate) fn fill(component: u64, sector: u64, value: u32, out: &mut [u8]) {
    let seed = (u64::from(value) << 32 | component << 28 | sector).wrapping_mul(0x9E37_79B9);
    for (at, word) in out.chunks_mut(8).enumerate() {
        word.copy_from_slice(&seed.wrapping_add(at as u64 * 0x1_0001).to_le_bytes());
    }
}

/// Whether a sector holds one of its own values; zeros are the first of each.
pub(crate) fn is_legal(image: &Image, component: u64, sector: u64, bytes: &[u8]) -> bool {
    if bytes.iter().all(|byte| *byte == 0) {
        return true;
    }
    let of = image.values.range((component, sector, 0)..=(component, sector, u32::MAX));
    of.into_iter().any(|(_, _, value)| {
        let mut expected = [0; 512];
        fill(component, sector, *value, &mut expected);
        expected == bytes
    })
}

fn payload(env: &Env, component: u64, range: SectorRange, value: u32) -> Slice {
    let mut buf = env.buf(range.bytes() as usize);
    for (at, sector) in buf.chunks_mut(512).enumerate() {
        fill(component, range.start + at as u64, value, sector);
    }
    buf.freeze()
}

/// Writes a range of a component; with a value that says so.
pub(crate) async fn write(
    env: &Env,
    group: &DiskGroup,
    (component, range, lsn): (u64, SectorRange, Lsn),
    value: u32,
    marks: &[Mark],
) -> Result<(), GroupError> {
    let payload = payload(env, component, range, value);
    let crcs = wire::crcs_of(range, &payload);
    let (id, kind, term) = (ComponentId(component), AppendKind::Data, lsn.term());
    let (crcs, marks) = (&crcs, marks);
    group.append(Append { component: id, lsn, term, range, kind, crcs, payload, marks }).await
}

async fn discard(env: &Env, group: &DiskGroup, component: u64, range: SectorRange, lsn: Lsn) {
    let append = Append {
        component: ComponentId(component),
        lsn,
        term: lsn.term(),
        range,
        kind: AppendKind::Discard,
        crcs: &wire::Crcs::NONE,
        payload: env.buf(0).freeze(),
        marks: &[],
    };
    group.append(append).await.expect("a discard");
}

type Values = Rc<RefCell<BTreeSet<(u64, u64, u32)>>>;

/// Formats a group and writes to it; `steps` decides how far the log and destage get.
async fn load(
    env: &Env,
    (seed, steps): (u64, u64),
    values: Values,
    (kind, direct): (GroupKind, Option<u64>),
) {
    let shape = GroupShape { kind, segment_size: SEGMENT };
    let formatted = DiskGroup::format_with(env, &spec(), None, true, GroupId(5), shape).await;
    formatted.expect("new devices");
    let group = DiskGroup::open(env, &spec(), options(direct)).await.expect("a new group");
    for n in 1..=COMPONENTS {
        let made = group.create_component(ComponentId(n), ObjectId(n), SECTORS).await;
        made.expect("a component");
    }
    let mut rng = Rng::new(seed);
    for step in 1..=steps {
        let component = 1 + rng.below(COMPONENTS);
        let lsn = Lsn::new(Term(1), step);
        let start = rng.below(SECTORS);
        let room = (2048 - start % 2048).min(SECTORS - start);
        let count = match rng.below(6) {
            0 => rng.between(1, room.min(64)),
            1 => 1,
            _ => BLOCK_SECTORS.min(room),
        };
        let mut range = SectorRange::new(start, count);
        if direct.is_some() && rng.below(3) == 0 {
            // Whole blocks, so that many of them are direct writes.
            let first = rng.below(SECTORS / BLOCK_SECTORS - 8) * BLOCK_SECTORS;
            let room = 2048 - first % 2048;
            range = SectorRange::new(first, (rng.between(1, 8) * BLOCK_SECTORS).min(room));
        }
        if rng.below(9) == 0 {
            discard(env, &group, component, range, lsn).await;
        } else {
            let value = step as u32;
            let sectors = range.start..range.end();
            values.borrow_mut().extend(sectors.map(|sector| (component, sector, value)));
            let id = RequestId::new(ShardId(1), Incarnation(1), rng.below(5) as u8, step);
            let marks = [Mark::Done(id.expect("small numbers"))];
            let written = write(env, &group, (component, range, lsn), value, &marks).await;
            written.expect("a write");
        }
        // What is not committed is not destaged, and a full log would wait for ever.
        if rng.below(4) == 0 || group.status().buffer_fill > 0.3 {
            (1..=COMPONENTS).for_each(|n| group.advance_commit(ComponentId(n), lsn));
        }
        if rng.below(200) == 0 {
            group.drain_buffer(true);
            env.sleep(Duration::from_secs(3)).await;
            group.drain_buffer(false);
        }
    }
    assert_eq!(group.status().direct_bytes > 0, direct.is_some());
    if kind != GroupKind::AllFlash {
        warm(env, &group).await;
    }
}

/// Reads until the lines hold something, and their headers say so.
async fn warm(env: &Env, group: &DiskGroup) {
    for component in (1..=COMPONENTS).map(ComponentId) {
        for range in SectorRange::new(0, SECTORS).split_at_multiples(64) {
            group.read(component, range).await.expect("a read");
            env.sleep(Duration::from_millis(30)).await;
        }
    }
    env.sleep(Duration::from_secs(3)).await;
    assert!(group.status().read_cache.slots_used > 0, "{:?}", group.status());
}

/// Small images: nothing destaged; some laps of the log; drained by idleness; many laps.
pub(crate) fn images() -> Vec<Image> {
    let kind = GroupKind::AllFlash;
    let all = [(1, 12, 0), (2, 150, 0), (3, 90, 5), (4, 700, 0), (5, 400, 5)];
    all.map(|moment| image(moment, kind, None)).into()
}

/// The same with direct writes: all in the log; some laps; drained; many laps.
pub(crate) fn direct_images() -> Vec<Image> {
    let all = [(11, 14, 0), (12, 150, 0), (13, 90, 5), (14, 600, 0)];
    all.map(|moment| image(moment, GroupKind::AllFlash, Some(2))).into()
}

/// The same of hybrid groups.
pub(crate) fn hybrid_images() -> Vec<Image> {
    let kind = GroupKind::Hybrid { read_cache_percent: 90 };
    [(6, 400, 0), (7, 700, 5)].map(|moment| image(moment, kind, None)).into()
}

fn image((seed, steps, idle): (u64, u64, u64), kind: GroupKind, direct: Option<u64>) -> Image {
    let (world, host) = world(seed, kind);
    let values = Values::default();
    let inner = Rc::clone(&values);
    world.boot(host, move |env| {
        Box::pin(async move {
            load(&env, (seed, steps), inner, (kind, direct)).await;
            env.sleep(Duration::from_secs(idle)).await;
        })
    });
    assert!(world.run_until(HOUR, || world.is_finished(host)), "the load ends");
    world.kill(host);
    let devices = devices(kind).map(|(path, size)| {
        let all = world.read_raw(host, path, 0, size as usize);
        let pages = all.chunks_exact(PAGE).enumerate().map(|(number, page)| {
            let mut copy = [0; PAGE];
            copy.copy_from_slice(page);
            ((number * PAGE) as u64, copy)
        });
        pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0)).collect()
    });
    let values = Rc::new(values.borrow().clone());
    Image { devices, values, kind, direct }
}
