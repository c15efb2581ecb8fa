// SPDX-License-Identifier: Apache-2.0
//! A journal whose end was lost is not taken for one that ends there.

use super::scenarios::{Host, ONE, fresh, open, write};
use super::*;

/// A group whose power failed, and whose only journal record rotted then.
fn with_a_rotten_record() -> Host {
    let host = Host::new(21);
    host.world.boot(host.key, |env| {
        Box::pin(async move {
            let group = fresh(&env).await;
            group.drain_buffer(true);
            write(&env, &group, 1, 0, 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), 1));
            env.sleep(Duration::from_secs(20)).await;
            group.drain_buffer(false);
            // The log forgets what came before with its next commit.
            write(&env, &group, 2, 4096, 8).await.expect("a write that stays in the log");
            env.sleep(HOUR).await;
            drop(group);
        })
    });
    host.world.run_for(Duration::from_secs(60));
    host.world.crash(host.key);
    let size = host.world.disk_size(host.key, "capacity0");
    let layout = format::CapacityLayout::plan(size).expect("a capacity device");
    host.world.flip_bits(host.key, "capacity0", layout.journal_start + 100, 3);
    host
}

#[test]
fn a_journal_whose_only_record_rotted_does_not_count_as_empty() {
    with_a_rotten_record().run(|env| async move {
        let opened = open(&env).await.map(drop);
        let Err(GroupError::Corrupt { structure, .. }) = opened else { panic!("{opened:?}") };
        assert_eq!(structure, crate::Structure::Journal(1));
    });
    with_a_rotten_record().run(|env| async move {
        let mutations = Mutations { ignore_head: true, ..Mutations::default() };
        let opened = DiskGroup::open(&env, &spec(1), options(mutations, 1)).await;
        let group = opened.expect("opens");
        let read = group.read(ONE, SectorRange::new(0, 8)).await.expect("a read");
        assert!(read.payload.iter().all(|byte| *byte == 0), "a write is gone without a word");
    });
}
