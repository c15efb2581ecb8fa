// SPDX-License-Identifier: Apache-2.0
//! The journal's halves: records go to one while the pages are written that the other changed.

use super::pages::{BLOCKS, check_pages, write_blocks};
use super::scenarios::{Host, ONE};
use super::*;
use crate::CreateSizes;

/// Of the journal, while a checkpoint was under way.
#[derive(Clone, Copy, Default)]
struct Beside {
    /// The most records that were written during one.
    records: u64,
    /// Checkpoints that came to their end.
    checkpoints: u64,
}

impl Beside {
    /// Looks at the journal; `from` is the next record when a checkpoint was seen first.
    fn look(&mut self, group: &DiskGroup, from: &mut Option<u64>) {
        let journal = group.shared().state.borrow().store.capacity[0].journal;
        match (journal.has_closed, *from) {
            (true, None) => *from = Some(journal.sequence),
            (true, Some(first)) => self.records = self.records.max(journal.sequence - first),
            (false, Some(_)) => {
                self.checkpoints += 1;
                *from = None;
            }
            (false, None) => {}
        }
    }
}

/// Looks at a journal all the time, until the load is over.
async fn watch(env: Env, group: DiskGroup, found: Rc<RefCell<Beside>>) {
    let mut from = None;
    loop {
        found.borrow_mut().look(&group, &mut from);
        env.sleep(Duration::from_micros(20)).await;
    }
}

/// Nineteen bands of one page each, over halves of some thirty records.
#[test]
fn records_are_written_beside_a_checkpoint() {
    let host = Host::new(51);
    host.run(|env| async move {
        let sizes = CreateSizes { cache: 32 << 20, capacity: 64 << 20 };
        let made = DiskGroup::format(&env, &spec(1), Some(sizes), false, GroupId(1)).await;
        made.expect("new files");
        let limits = GroupLimits { band_pages: 1, half_bytes: 256 << 10, ..GroupLimits::default() };
        let options = GroupOptions { limits, ..GroupOptions::default() };
        let group = DiskGroup::open(&env, &spec(1), options).await.expect("a new group");
        group.create_component(ONE, ObjectId(9), BLOCKS * 16).await.expect("a component");
        group.set_active(ONE, true);
        group.drain_buffer(true);
        let found = Rc::new(RefCell::new(Beside::default()));
        let watching = env.spawn("watch", watch(env.clone(), group.clone(), Rc::clone(&found)));
        let (mut rng, mut lsn) = (Rng::stream(1, 1), 0);
        write_blocks(&env, &group, &mut rng, &mut lsn, 60_000).await;
        drop(watching);
        let beside = *found.borrow();
        assert!(
            beside.checkpoints > 2 && beside.records > 2,
            "{} records, {} checkpoints",
            beside.records,
            beside.checkpoints
        );
        check_pages(&env, &group).await;
        group.audit().expect("its books");
    });
}
