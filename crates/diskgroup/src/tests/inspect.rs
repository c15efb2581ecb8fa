// SPDX-License-Identifier: Apache-2.0
//! Looking at devices: what is whole, what is damaged, and that nothing that keeps a group from
//! opening stays unsaid.

use super::scenarios::{Host, ONE, fresh, open, write};
use super::*;
use crate::{Content, Inspection, Severity, Structure, inspect};

const DATA: usize = 40;

/// A group with data on capacity and in the log, closed.
fn filled(seed: u64) -> Host {
    let host = Host::new(seed);
    host.run(|env| async move {
        let group = fresh(&env).await;
        group.drain_buffer(true);
        for lsn in 1..=DATA as u64 {
            write(&env, &group, lsn, lsn * 8, 8).await.expect("a write");
        }
        group.advance_commit(ONE, Lsn::new(Term(1), DATA as u64 / 2));
        env.sleep(Duration::from_secs(10)).await;
        write(&env, &group, DATA as u64 + 1, 4096, 8).await.expect("a write");
        group.close().await;
    });
    host
}

fn look(host: &Host, device: &'static str) -> Inspection {
    let found = Rc::new(RefCell::new(None));
    let place = Rc::clone(&found);
    host.run(move |env| async move {
        *place.borrow_mut() = Some(inspect(&env, device, true).await.expect("a look"));
    });
    found.take().expect("it ended")
}

/// Why the group does not open.
fn refused(host: &Host) -> Option<String> {
    let refused = Rc::new(RefCell::new(None));
    let place = Rc::clone(&refused);
    host.run(move |env| async move {
        match open(&env).await {
            Ok(group) => group.close().await,
            Err(error) => *place.borrow_mut() = Some(error.to_string()),
        }
    });
    refused.take()
}

fn layout(host: &Host) -> format::CapacityLayout {
    match look(host, "capacity0").superblock.expect("a superblock").kind {
        format::DeviceKind::Capacity(layout) => layout,
        format::DeviceKind::Cache { .. } => panic!("not a capacity device"),
    }
}

fn flip(host: &Host, device: &str, offset: u64) {
    let byte = host.world.read_raw(host.key, device, offset, 1)[0];
    host.world.write_raw(host.key, device, offset, &[byte ^ 0x20]);
}

#[test]
fn what_is_whole_is_told_and_found_whole() {
    let host = filled(1);
    let cache = look(&host, "cache");
    assert!(cache.is_healthy(), "{:?}", cache.findings);
    let Content::Cache(log) = cache.content else { panic!("not a log") };
    let entries: u64 = log.segments.iter().map(|segment| segment.entries).sum();
    assert!(entries > DATA as u64 / 2, "what is above K is in the log: {log:?}");
    let capacity = look(&host, "capacity0");
    assert!(capacity.is_healthy(), "{:?}", capacity.findings);
    let Content::Capacity(content) = capacity.content else { panic!("no components") };
    assert_eq!((content.allocated, content.blocks), (1, content.blocks_checked));
    assert!(content.blocks + entries > DATA as u64, "every block is somewhere: {content:?}");
    let [component] = content.components.as_slice() else { panic!("{:?}", content.components) };
    assert_eq!((component.id, component.sectors, component.chunks), (ONE, SECTORS, 1));
}

#[test]
fn a_damaged_block_is_named() {
    let host = filled(2);
    let chunk = layout(&host).chunk_start;
    let first = (0..24).find(|chunk_number| {
        let raw = host.world.read_raw(host.key, "capacity0", chunk + (chunk_number << 20), 8192);
        raw.iter().any(|byte| *byte != 0)
    });
    let at = chunk + (first.expect("data") << 20) + 4096 + 7; // lsn 1 wrote sectors 8 to 15
    flip(&host, "capacity0", at);
    let found = look(&host, "capacity0");
    let [finding] = found.findings.as_slice() else { panic!("{:?}", found.findings) };
    assert_eq!((finding.severity, found.damages), (Severity::Damage, 1));
    assert!(matches!(finding.structure, Structure::Chunk(_)), "{finding:?}");
    assert!(finding.what.contains("sectors 8 to 15"), "{}", finding.what);
}

#[test]
fn one_copy_of_two_is_a_remark_and_both_are_damage() {
    let host = filled(3);
    let page = layout(&host).table_start;
    flip(&host, "capacity0", page + 100);
    let found = look(&host, "capacity0");
    assert!(found.is_healthy() && found.findings.len() == 1, "{:?}", found.findings);
    flip(&host, "capacity0", page + 4096 + 100);
    assert!(!look(&host, "capacity0").is_healthy());
    assert!(refused(&host).is_some());
}

#[test]
fn whatever_keeps_a_group_from_opening_is_found() {
    let mut kept_shut = 0;
    for seed in 0..120 {
        let host = filled(seed);
        let mut rng = Rng::new(seed);
        let (device, end) = match rng.below(2) {
            0 => ("cache", 2 << 20),
            _ => ("capacity0", layout(&host).chunk_start),
        };
        // The rest is zeros that nobody reads.
        let raw = host.world.read_raw(host.key, device, 0, end as usize);
        let used = raw.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|b| *b != 0));
        let used: Vec<u64> = used.map(|(page, _)| page as u64 * 4096).collect();
        for _ in 0..1 + rng.below(6) {
            let page = used[rng.below(used.len() as u64) as usize];
            flip(&host, device, page + rng.below(4096));
        }
        let found = look(&host, device);
        if let Some(why) = refused(&host) {
            kept_shut += 1;
            assert!(!found.is_healthy(), "seed {seed}: {device} is called whole, and {why}");
        }
    }
    assert!(kept_shut > 10, "the flips met nothing: {kept_shut}");
}
