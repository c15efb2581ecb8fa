// SPDX-License-Identifier: Apache-2.0
//! Single stories.

use super::*;
use crate::CreateSizes;
use sim::DiskFault;

pub(super) const SIZES: CreateSizes = CreateSizes { cache: 2 << 20, capacity: 24 << 20 };
pub(super) const ONE: ComponentId = ComponentId(1);

pub(super) struct Host {
    pub(super) world: World,
    pub(super) key: HostKey,
}

impl Host {
    pub(super) fn new(seed: u64) -> Self {
        let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
        let key = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        Self { world, key }
    }

    /// Runs a story in a process of its own, to its end.
    pub(super) fn run<F: Future<Output = ()> + 'static>(
        &self,
        story: impl FnOnce(Env) -> F + 'static,
    ) {
        self.world.boot(self.key, |env| Box::pin(story(env)));
        assert!(self.world.run_until(HOUR, || self.world.is_finished(self.key)));
        self.world.kill(self.key);
    }
}

pub(super) async fn format(env: &Env, wipe: bool) -> Result<(), GroupError> {
    DiskGroup::format_with(env, &spec(1), Some(SIZES), wipe, GroupId(1), 64 << 10).await
}

pub(super) async fn open(env: &Env) -> Result<DiskGroup, GroupError> {
    DiskGroup::open(env, &spec(1), GroupOptions::default()).await
}

pub(super) async fn fresh(env: &Env) -> DiskGroup {
    fresh_with(env, GroupOptions::default()).await
}

pub(super) async fn fresh_with(env: &Env, options: GroupOptions) -> DiskGroup {
    format(env, false).await.expect("new files");
    let group = DiskGroup::open(env, &spec(1), options).await.expect("a new group");
    group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
    group.set_active(ONE, true);
    group
}

/// A group with a log of a few small segments, and components on it.
pub(super) async fn fresh_tiny(
    env: &Env,
    mutations: Mutations,
    components: &[ComponentId],
) -> DiskGroup {
    format(env, false).await.expect("new files");
    let options = GroupOptions { mutations, ..GroupOptions::default() };
    let group = DiskGroup::open(env, &spec(1), options).await.expect("a new group");
    for id in components {
        group.create_component(*id, ObjectId(9), SECTORS).await.expect("a component");
    }
    group
}

pub(super) async fn write(
    env: &Env,
    group: &DiskGroup,
    lsn: u64,
    start: u64,
    count: u64,
) -> Result<(), GroupError> {
    write_to(env, group, ONE, lsn, start, count).await
}

pub(super) async fn write_to(
    env: &Env,
    group: &DiskGroup,
    component: ComponentId,
    lsn: u64,
    start: u64,
    count: u64,
) -> Result<(), GroupError> {
    let range = SectorRange::new(start, count);
    let payload = payload(env, range, lsn as u32);
    let crcs = wire::crcs_of(range, &payload);
    let (kind, lsn) = (AppendKind::Data, Lsn::new(Term(1), lsn));
    let term = Term(1);
    group
        .append(Append { component, lsn, term, range, kind, crcs: &crcs, payload, marks: &[] })
        .await
}

pub(super) fn layout(world: &World, key: HostKey) -> format::CapacityLayout {
    let page = world.read_raw(key, "capacity0", 0, 4096);
    match format::Superblock::decode(&page).expect("a superblock").kind {
        format::DeviceKind::Capacity(layout) => layout,
        format::DeviceKind::Cache { .. } => panic!("not a capacity device"),
    }
}

pub(super) async fn value(group: &DiskGroup, sector: u64) -> Option<u32> {
    let read = group.read(ONE, SectorRange::new(sector, 1)).await.expect("a read");
    value_of(sector, &read.payload)
}

#[test]
fn a_device_with_content_is_refused_without_wipe() {
    let host = Host::new(1);
    host.run(|env| async move {
        let group = fresh(&env).await;
        write(&env, &group, 1, 0, 8).await.expect("a write");
        group.close().await;
        drop(group);
        let refused = format(&env, false).await;
        let Err(GroupError::ForeignData { what, .. }) = refused else {
            panic!("formatted over a group: {refused:?}")
        };
        assert_eq!(what, "a gabion device");
        let group = open(&env).await.expect("nothing was touched");
        assert_eq!(value(&group, 3).await, Some(1));
        group.close().await;
        drop(group);
        env.sleep(Duration::from_millis(10)).await; // until the devices are closed
        format(&env, true).await.expect("asked for");
        let group = open(&env).await.expect("a new group");
        assert!(group.components().is_empty(), "an old component in a new group");
    });
}

#[test]
fn nothing_above_k_reaches_capacity_and_all_below_does() {
    let host = Host::new(2);
    host.run(|env| async move {
        let group = fresh(&env).await;
        for lsn in 1..=20 {
            write(&env, &group, lsn, lsn * 8, 8).await.expect("a write");
        }
        assert_eq!(group.tail(ONE).len(), 20);
        env.sleep(Duration::from_secs(10)).await;
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.status().destaged_blocks, 0, "destaged above K");
        group.advance_commit(ONE, Lsn::new(Term(1), 20));
        assert!(group.tail(ONE).is_empty());
        env.sleep(Duration::from_secs(10)).await;
        let info = group.component(ONE).expect("a component");
        assert_eq!((info.destaged, info.durable), (Lsn::new(Term(1), 20), Lsn::new(Term(1), 20)));
        assert_eq!(group.status().destaged_blocks, 20);
        assert_eq!(value(&group, 20 * 8 + 5).await, Some(20));
        assert_eq!(value(&group, 0).await, Some(0));
        let changed = group.changed_since(ONE, Lsn::ZERO, 0);
        assert_eq!((changed.held, changed.next), (vec![1], None));
        assert!(group.changed_since(ONE, info.durable, 0).ranges.is_empty());
    });
}

#[test]
fn an_idle_buffer_drains_and_a_failed_write_fences() {
    let host = Host::new(3);
    let world = host.world.clone();
    let key = host.key;
    host.run(move |env| async move {
        let group = fresh(&env).await;
        for lsn in 1..=100 {
            write(&env, &group, lsn, lsn % 50 * 8, 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
        }
        assert!(group.status().buffer_fill > 0.1);
        env.sleep(Duration::from_secs(10)).await;
        assert!(group.status().buffer_fill < 0.1, "{:?}", group.status());
        world.disk_error(key, "cache", DiskFault::FailWrites);
        let failed = write(&env, &group, 101, 0, 8).await;
        assert!(matches!(failed, Err(GroupError::Fenced)), "{failed:?}");
        world.disk_error(key, "cache", DiskFault::Clear);
        let failed = write(&env, &group, 102, 0, 8).await;
        assert!(matches!(failed, Err(GroupError::Fenced)), "nothing retries: {failed:?}");
        assert!(group.status().fenced.is_some());
        assert_eq!(value(&group, 49 * 8).await, Some(99), "reads go on");
    });
}

#[test]
fn rot_is_reported_and_repaired_by_a_write() {
    let host = Host::new(4);
    let world = host.world.clone();
    let key = host.key;
    host.run(move |env| async move {
        let group = fresh(&env).await;
        write(&env, &group, 1, 0, 64).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), 1));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.status().destaged_blocks, 8);
        // Half of what was written.
        world.flip_bits(key, "capacity0", layout(&world, key).chunk_start, 4 * 4096);
        let whole = SectorRange::new(0, 64);
        let mut bad = 0;
        for block in whole.split_at_multiples(8) {
            match group.read(ONE, block).await {
                Ok(read) => assert_eq!(value_of(block.start, &read.payload[..512]), Some(1)),
                Err(GroupError::BadCrc { range }) => {
                    assert_eq!(range, block);
                    bad += 1;
                    write(&env, &group, 2, block.start, 8).await.expect("a repair");
                    assert_eq!(value(&group, block.start).await, Some(2));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((group.status().bad_blocks, bad), (4, 4));
    });
}

#[test]
fn damage_in_the_middle_of_the_log_is_not_taken_for_its_end() {
    let (host, header) = (Host::new(5), (1 << 20) + 2 * 4096);
    host.run(|env| async move {
        let group = fresh(&env).await;
        for lsn in 1..=3 {
            write(&env, &group, lsn, lsn * 8, 8).await.expect("a write");
        }
    });
    // Of the second commit, behind one header and one block: nobody knows what it said.
    let flip = |at: u64| {
        let mut bytes = host.world.read_raw(host.key, "cache", at, 4096);
        bytes[100] ^= 1;
        host.world.write_raw(host.key, "cache", at, &bytes);
    };
    flip(header);
    host.run(|env| async move {
        let opened = open(&env).await.map(drop);
        assert!(matches!(opened, Err(GroupError::Corrupt { .. })), "{opened:?}");
    });
    flip(header);
    flip(header + 3 * 4096); // the payload of the last commit: torn, as far as anybody can tell
    host.run(|env| async move {
        let group = open(&env).await.expect("a torn end is dropped");
        assert!(group.recovery().dropped_torn);
        assert_eq!((value(&group, 16).await, value(&group, 24).await), (Some(2), Some(0)));
    });
}

fn request(count: u64) -> RequestId {
    RequestId::new(ShardId(3), Incarnation(1), 0, count).expect("small numbers")
}

#[test]
fn a_table_of_requests_replaces_what_the_log_says_and_later_ones_add_to_it() {
    let host = Host::new(9);
    let append = async |env: &Env, group: &DiskGroup, lsn, mark: Mark| {
        let range = SectorRange::new(lsn * 8, 8);
        let payload = payload(env, range, 1);
        let crcs = wire::crcs_of(range, &payload);
        let (component, term, kind) = (ONE, Term(1), AppendKind::Data);
        let (lsn, marks) = (Lsn::new(Term(1), lsn), [mark]);
        let append =
            Append { component, lsn, term, range, kind, crcs: &crcs, payload, marks: &marks };
        group.append(append).await.expect("an append");
    };
    host.run(move |env| async move {
        let group = fresh(&env).await;
        append(&env, &group, 1, Mark::Done(request(5))).await;
        append(&env, &group, 2, Mark::Done(request(6))).await;
        let open: Vec<_> = group.open_requests(ONE).into_iter().map(|(.., id)| id).collect();
        assert_eq!(open, [request(6)], "the last of its slot");
        group.advance_commit(ONE, Lsn::new(Term(1), 2));
        assert!(group.open_requests(ONE).is_empty(), "K covers it");
        // The component is made equal to another one, which has not seen request 6.
        let mut table = ClientTable::default();
        table.apply(Mark::Done(request(4)));
        group.set_clients(ONE, table).await.expect("a table");
    });
    host.run(move |env| async move {
        let group = open(&env).await.expect("it opens");
        assert!(group.clients(ONE).is_last(request(4)), "the log still says 6");
        append(&env, &group, 3, Mark::Done(request(7))).await;
        append(&env, &group, 4, Mark::Undone(request(7))).await;
        assert!(group.open_requests(ONE).is_empty(), "taken back");
        assert!(group.clients(ONE).is_last(request(6)), "one before it");
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("it opens");
        assert!(group.clients(ONE).is_last(request(6)));
    });
}

#[test]
fn a_full_device_refuses_and_deletion_gives_the_space_back() {
    let host = Host::new(6);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let big = ComponentId(2);
        group.create_component(big, ObjectId(3), 2048 * 100).await.expect("thin");
        let free = group.free_chunks();
        let mut refused = None;
        for chunk in 0..100_u64 {
            let range = SectorRange::new(chunk * 2048, 8);
            let payload = payload(&env, range, 1);
            let crcs = wire::crcs_of(range, &payload);
            let (kind, lsn, term) = (AppendKind::Data, Lsn(chunk + 1), Term(0));
            let append =
                Append { component: big, lsn, term, range, kind, crcs: &crcs, payload, marks: &[] };
            match group.append(append).await {
                Ok(()) => group.advance_commit(big, lsn),
                Err(error) => {
                    assert!(matches!(error, GroupError::Full { .. }), "{error}");
                    refused = Some(chunk);
                    break;
                }
            }
        }
        assert_eq!((refused, group.free_chunks()), (Some(free), 0));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.free_chunks(), 0, "what is promised is used");
        group.delete_component(big).await.expect("a deletion");
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.free_chunks(), free);
        write(&env, &group, 1, 0, 8).await.expect("room again");
    });
}

#[test]
fn a_fraction_of_a_last_block_that_is_not_whole_is_destaged() {
    let host = Host::new(8);
    host.run(|env| async move {
        let group = fresh(&env).await;
        write(&env, &group, 1, SECTORS - 6, 2).await.expect("a write");
        write(&env, &group, 2, SECTORS - 1, 1).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), 2));
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.status().destaged_blocks, 1);
        group.close().await;
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("after a restart");
        assert_eq!(value(&group, SECTORS - 6).await, Some(1));
        assert_eq!(value(&group, SECTORS - 3).await, Some(0));
        assert_eq!(value(&group, SECTORS - 1).await, Some(2));
        let beyond = group.read(ONE, SectorRange::new(SECTORS - 6, 8)).await.map(drop);
        assert!(matches!(beyond, Err(GroupError::Range { .. })), "{beyond:?}");
    });
}

#[test]
fn a_burst_of_discarded_chunks_passes() {
    let host = Host::new(9);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let discards = (1..=200).map(|n| {
            let (kind, lsn, term) = (AppendKind::Discard, Lsn::new(Term(1), n), Term(1));
            let (range, payload) = (SectorRange::new(n % 2 * 2048, 2048), env.buf(0).freeze());
            let (component, crcs) = (ONE, &wire::Crcs::NONE);
            group.append(Append { component, lsn, term, range, kind, crcs, payload, marks: &[] })
        });
        let all = env::join_all(discards.collect());
        let env::Either::First(done) =
            env::select(Box::pin(all), env.sleep(Duration::from_secs(60))).await
        else {
            panic!("discards hang")
        };
        done.into_iter().for_each(|done| done.expect("a discard"));
    });
}

#[test]
fn a_row_whose_slots_are_both_damaged_is_not_taken_for_free() {
    let host = Host::new(10);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let meta = crate::ComponentMeta::default();
        group.set_meta(ONE, meta).await.expect("the second slot");
        group.close().await;
    });
    for slot in 0..2 {
        let at = (1 << 20) + slot * 4096;
        let mut bytes = host.world.read_raw(host.key, "capacity0", at, 4096);
        bytes[60] ^= 1;
        host.world.write_raw(host.key, "capacity0", at, &bytes);
    }
    host.run(|env| async move {
        let opened = open(&env).await.map(drop);
        let Err(GroupError::Corrupt { structure, .. }) = opened else { panic!("{opened:?}") };
        assert_eq!(structure, crate::Structure::Row(0));
    });
}

#[test]
fn a_summary_that_cannot_be_written_fences() {
    let host = Host::new(11);
    let world = host.world.clone();
    let key = host.key;
    host.run(move |env| async move {
        let group = fresh(&env).await;
        write(&env, &group, 1, 0, 8).await.expect("a write");
        world.disk_error(key, "cache", DiskFault::FailWrites);
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert!(group.status().fenced.is_some(), "no other write can have told");
    });
}

#[test]
fn damage_in_the_middle_of_the_journal_is_not_taken_for_its_end() {
    let host = Host::new(12);
    host.run(|env| async move {
        let group = fresh(&env).await;
        for lsn in 1..=3 {
            write(&env, &group, lsn, lsn * 8, 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
            group.drain_buffer(true);
            env.sleep(Duration::from_secs(10)).await;
        }
        group.close().await;
    });
    // The head tells as well how far the journal had come: here it is lost, too.
    for slot in format::JOURNAL_HEAD_SLOTS {
        host.world.write_raw(host.key, "capacity0", slot, &[0; 4096]);
    }
    // The second record: behind the table of 128 rows and a record of one page.
    let at = (1 << 20) + 128 * 2 * 4096 + 4096;
    let mut bytes = host.world.read_raw(host.key, "capacity0", at, 4096);
    bytes[50] ^= 1;
    host.world.write_raw(host.key, "capacity0", at, &bytes);
    host.run(|env| async move {
        let opened = open(&env).await.map(drop);
        let Err(GroupError::Corrupt { structure, .. }) = opened else { panic!("{opened:?}") };
        assert!(matches!(structure, crate::Structure::Journal(_)), "{structure}");
        let found = crate::inspect(&env, "capacity0", true).await.expect("a look");
        assert!(!found.is_healthy(), "called whole");
    });
}

#[test]
fn a_stale_summary_is_not_believed() {
    let host = Host::new(13);
    host.run(|env| async move {
        let group = fresh(&env).await;
        for lsn in 1..=10 {
            write(&env, &group, lsn, lsn * 8, 8).await.expect("a write");
        }
        group.close().await;
    });
    // As it would be if the segment had been closed before its last commit, and opened again.
    let page = host.world.read_raw(host.key, "cache", 0, 4096);
    let device = format::Superblock::decode(&page).expect("a superblock").device;
    let at = (1 << 20) + (60 << 10);
    let bytes = host.world.read_raw(host.key, "cache", at, 4096);
    let mut summary = format::Summary::decode(device, &bytes).expect("segment 0 is closed");
    assert_eq!((summary.segment, summary.entries.len()), (0, 7));
    let header = host.world.read_raw(host.key, "cache", (1 << 20) + 6 * 8192, 4096);
    let (last, _, _) = format::Commit::decode(device, &header).expect("the last commit");
    (summary.last, summary.used) = (last.previous, last.position);
    summary.last_sequence -= 1;
    summary.commits -= 1;
    summary.entries.pop();
    summary.crcs.pop();
    let mut bytes = vec![0; 4096];
    summary.encode(device, &mut bytes);
    host.world.write_raw(host.key, "cache", at, &bytes);
    host.run(|env| async move {
        let group = open(&env).await.expect("the segment is scanned");
        assert_eq!(group.recovery().scanned, 1);
        for lsn in 1..=10 {
            assert_eq!(value(&group, lsn * 8).await, Some(lsn as u32));
        }
    });
}

/// The newer slot of the map rots. What the third batch allocated stands nowhere else: its half of
/// the journal is written again, and the checkpoint of the other has not written a page yet.
fn with_a_rotten_map(seed: u64) -> Host {
    let host = Host::new(seed);
    host.run(|env| async move {
        format(&env, false).await.expect("new files");
        let options = options(Mutations::default(), 1);
        let group = DiskGroup::open(&env, &spec(1), options).await.expect("a new group");
        group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
        group.drain_buffer(true);
        let journal = || group.shared().state.borrow().store.capacity[0].journal;
        for (lsn, sector) in [(1, 0), (2, 8), (3, 2048), (4, 16), (5, 24)] {
            if [2, 4, 5].contains(&lsn) {
                group.shared().turn(0).await.expect("the other half");
            }
            write(&env, &group, lsn, sector, 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
            match lsn {
                5 => {
                    while journal().position == 0 {
                        env.sleep(Duration::from_micros(5)).await;
                    }
                }
                _ => env.sleep(Duration::from_secs(10)).await,
            }
        }
        assert!(journal().has_closed, "too late: {:?}", journal());
        group.close().await;
    });
    let page = host.world.read_raw(host.key, "capacity0", 0, 4096);
    let device = format::Superblock::decode(&page).expect("a superblock").device;
    let layout = layout(&host.world, host.key);
    let slots = [0, 1].map(|slot| {
        let at = layout.map_start + slot * 4096;
        let page = host.world.read_raw(host.key, "capacity0", at, 4096);
        (format::MapPage::decode(device, 0, &page).expect("both are written").sequence, at)
    });
    let (_, newest) = slots.into_iter().max().expect("two slots");
    host.world.flip_bits(host.key, "capacity0", newest + 100, 1);
    host
}

#[test]
fn a_map_page_whose_newer_slot_rotted_is_not_taken_for_torn() {
    with_a_rotten_map(14).run(|env| async move {
        let opened = open(&env).await.map(drop);
        let Err(GroupError::Corrupt { structure, .. }) = opened else { panic!("{opened:?}") };
        assert_eq!(structure, crate::Structure::MapPage(0));
        let found = crate::inspect(&env, "capacity0", true).await.expect("a look");
        assert!(!found.is_healthy(), "called whole");
    });
    with_a_rotten_map(14).run(|env| async move {
        let mutations = Mutations { trust_older_map: true, ..Mutations::default() };
        let group = DiskGroup::open(&env, &spec(1), options(mutations, 1)).await.expect("opens");
        assert_eq!(value(&group, 2048).await, Some(0), "a write is gone without a word");
    });
}

/// What a part of a block gives that was written over a block which had rotted on capacity.
fn part_over_rot(mutations: Mutations) -> Option<Option<u32>> {
    let host = Host::new(15);
    let (world, key) = (host.world.clone(), host.key);
    let found = Rc::new(RefCell::new(None));
    let out = Rc::clone(&found);
    host.run(move |env| async move {
        format(&env, false).await.expect("new files");
        let group = DiskGroup::open(&env, &spec(1), options(mutations, 4)).await.expect("opens");
        group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
        group.drain_buffer(true);
        write(&env, &group, 1, 0, 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), 1));
        env.sleep(Duration::from_secs(10)).await;
        world.flip_bits(key, "capacity0", layout(&world, key).chunk_start, 1 << 20);
        write(&env, &group, 2, 3, 1).await.expect("a part");
        group.advance_commit(ONE, Lsn::new(Term(1), 2));
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(value(&group, 3).await, Some(2), "the part itself");
        let read = group.read(ONE, SectorRange::new(4, 1)).await;
        *out.borrow_mut() = read.ok().map(|read| value_of(4, &read.payload));
    });
    found.take()
}

#[test]
fn nothing_is_merged_into_bad_data() {
    assert_eq!(part_over_rot(Mutations::default()), None, "bad stays bad");
    let mutations = Mutations { merge_unverified: true, ..Mutations::default() };
    assert_eq!(part_over_rot(mutations), Some(Some(0)), "wrong bytes with a right checksum");
}

#[test]
fn destage_that_does_not_ask_for_k_is_seen() {
    Host::new(2).run(|env| async move {
        drop(fresh(&env).await);
        env.sleep(Duration::from_millis(10)).await;
        let mutations = Mutations { destage_uncommitted: true, ..Mutations::default() };
        let group = DiskGroup::open(&env, &spec(1), options(mutations, 4)).await.expect("opens");
        write(&env, &group, 1, 0, 8).await.expect("a write");
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(group.status().destaged_blocks, 1, "above K");
    });
}
