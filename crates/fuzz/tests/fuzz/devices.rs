// SPDX-License-Identifier: Apache-2.0
//! A whole disk group on damaged devices.
//!
//! Promise: it opens or says by name what is wrong; nothing panics, hangs or takes much memory;
//! and where the damage is not made up to look like our own writing, each sector reads as a value
//! that it had at some time, or as an error. (Which of its values cannot be promised: the last
//! commit of the log, damaged, looks torn.)

use crate::damage::{Repair, damage};
use crate::image::{
    COMPONENTS, HOUR, Image, SECTORS, direct_images, hybrid_images, images, is_legal, options,
    spec, world, write,
};
use base::{CHUNK_SECTORS, ComponentId, Lsn, ObjectId, SectorRange};
use diskgroup::{DiskGroup, GroupError};
use env::{Durability, Env, OpenDisk};
use fuzz::{Source, within};
use std::cell::Cell;
use std::rc::Rc;
use std::thread::LocalKey;
use std::time::Duration;

/// Bytes of memory that a group of these devices and its world may take: the buffers kept for reuse
/// alone are 44 MiB.
const MEMORY_MAX: u64 = 256 << 20;
/// The value of what is written after opening.
const NEW: u32 = 0x7777_7777;

fuzz::targets! {
    devices_rot: 600, Vec::new(), |input| on_damaged(input, &[Repair::None], &IMAGES);
    devices_forged: 900, Vec::new(), |input| on_damaged(input, FORGED, &IMAGES);
    hybrid_rot: 300, Vec::new(), |input| on_damaged(input, &[Repair::None], &HYBRID_IMAGES);
    hybrid_forged: 500, Vec::new(), |input| on_damaged(input, FORGED, &HYBRID_IMAGES);
    direct_rot: 300, Vec::new(), |input| on_damaged(input, &[Repair::None], &DIRECT_IMAGES);
    direct_forged: 500, Vec::new(), |input| on_damaged(input, FORGED, &DIRECT_IMAGES);
}

const FORGED: &[Repair] = &[Repair::Seals, Repair::Chains];

thread_local! {
    static IMAGES: Vec<Image> = images();
    static HYBRID_IMAGES: Vec<Image> = hybrid_images();
    static DIRECT_IMAGES: Vec<Image> = direct_images();
}

#[test]
fn undamaged_devices_open_and_hold_everything() {
    for image in images().into_iter().chain(hybrid_images()).chain(direct_images()) {
        let opened = Rc::new(Cell::new(0));
        run(image, Repair::None, Rc::clone(&opened));
        assert_eq!(opened.get(), COMPONENTS);
    }
}

fn on_damaged(input: &[u8], repairs: &[Repair], images: &'static LocalKey<Vec<Image>>) {
    let mut from = Source::new(input);
    let mut image = images.with(|images| images[from.index(images.len())].clone());
    let repair = repairs[from.index(repairs.len())];
    damage(&mut image, &mut from, repair);
    run(image, repair, Rc::default());
}

/// Writes the image to devices and lives on them; counts components that are whole in `opened`.
fn run(image: Image, repair: Repair, opened: Rc<Cell<u64>>) {
    within(MEMORY_MAX, move || {
        let (world, host) = world(1, image.kind);
        world.boot(host, move |env| {
            Box::pin(async move {
                install(&env, &image).await;
                match DiskGroup::open(&env, &spec(), options(image.direct)).await {
                    Ok(group) => live(&env, &group, &image, repair, &opened).await,
                    Err(error) => named(&error),
                }
            })
        });
        assert!(world.run_until(HOUR, || world.is_finished(host)), "it hangs");
        world.kill(host);
    });
}

async fn install(env: &Env, image: &Image) {
    for (pages, path) in image.devices.iter().zip(["cache", "capacity"]) {
        let open = OpenDisk { path: path.to_owned(), create: None };
        let disk = env.open_disk(open).await.expect("a device");
        for (at, page) in pages {
            let mut buf = env.buf(page.len());
            buf.copy_from_slice(page);
            disk.write(*at, buf.freeze(), Durability::Durable).await.expect("a write");
        }
    }
    env.sleep(Duration::from_millis(10)).await; // until the devices are closed
}

/// An error that an operator can do something with.
fn named(error: &GroupError) {
    assert!(error.to_string().len() > 10, "{error:?}");
    let is_of_devices = !matches!(error, GroupError::Closed | GroupError::UnknownComponent { .. });
    assert!(is_of_devices, "{error:?}");
}

async fn live(env: &Env, group: &DiskGroup, image: &Image, repair: Repair, opened: &Cell<u64>) {
    let is_rot = repair == Repair::None;
    let status = group.status();
    assert!(status.used_bytes <= status.capacity_bytes, "{status:?}");
    for id in group.components() {
        let whole = look(group, image, id, is_rot).await;
        opened.set(opened.get() + u64::from(whole));
    }
    let mut written = Vec::new();
    for id in group.components() {
        let Some(info) = group.component(id) else { continue };
        let Some(lsn) = info.durable.0.checked_add(1).map(Lsn) else { continue };
        let range = SectorRange::new(8, 13.min(info.sectors.saturating_sub(8)));
        if range.is_empty() {
            continue;
        }
        match write(env, group, (id.0, range, lsn), NEW, &[]).await {
            Ok(()) => written.push((id, range)),
            Err(error) => named(&error),
        }
        group.advance_commit(id, lsn);
    }
    check_written(group, &written, is_rot).await;
    group.drain_buffer(true);
    env.sleep(Duration::from_secs(5)).await;
    check_written(group, &written, is_rot).await;
    let _ = group.create_component(ComponentId(99), ObjectId(99), SECTORS).await;
    if let Some(id) = group.components().first() {
        let _ = group.delete_component(*id).await;
    }
    env.sleep(Duration::from_secs(1)).await;
    group.close().await;
}

/// Reads the whole of a component, or its ends where it says that it is long; whether all of it
/// could be read.
async fn look(group: &DiskGroup, image: &Image, id: ComponentId, is_rot: bool) -> bool {
    let Some(info) = group.component(id) else { return false };
    let _ = (group.clients(id), group.open_requests(id), group.tail(id));
    let changed = group.changed_since(id, Lsn::ZERO, 0);
    assert!(changed.ranges.iter().all(|range| range.end() <= info.sectors), "beyond the end");
    let all = SectorRange::new(0, info.sectors);
    let mut parts: Vec<_> = all.split_at_multiples(CHUNK_SECTORS).take(3).collect();
    parts.push(SectorRange::new(info.sectors - 1, 1));
    let mut is_whole = true;
    for part in parts {
        match group.read(id, part).await {
            Ok(read) => {
                assert!(wire::verify(part, &read.crcs, &read.payload), "checksums of a read");
                for (at, sector) in read.payload.chunks(512).enumerate() {
                    let number = part.start + at as u64;
                    let legal = !is_rot || is_legal(image, id.0, number, sector);
                    assert!(legal, "component {id} sector {number}: never written so");
                }
            }
            Err(error) => {
                named(&error);
                is_whole = false;
            }
        }
    }
    is_whole
}

/// What was acknowledged in this life reads as it was written, or as an error.
async fn check_written(group: &DiskGroup, written: &[(ComponentId, SectorRange)], is_rot: bool) {
    for (id, range) in written {
        let Ok(read) = group.read(*id, *range).await else { continue };
        for (at, sector) in read.payload.chunks(512).enumerate() {
            let mut expected = [0; 512];
            crate::image::fill(id.0, range.start + at as u64, NEW, &mut expected);
            assert!(!is_rot || sector == expected, "component {id}: an acknowledged write is gone");
        }
    }
}
