// SPDX-License-Identifier: Apache-2.0
//! What a group counts of its work, since it was opened (docs/store.md).

use super::scenarios::{Host, fresh, open, write};
use super::*;

#[test]
fn appends_that_are_not_whole_aligned_blocks_are_counted_since_the_group_was_opened() {
    let host = Host::new(9);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let writes = [(0, 8, 0), (16, 24, 0), (1, 8, 1), (8, 9, 2), (24, 7, 3), (8, 16, 3)];
        for (lsn, (start, count, unaligned)) in (1..).zip(writes) {
            write(&env, &group, lsn, start, count).await.expect("a write");
            assert_eq!(group.status().unaligned_writes, unaligned, "{count} sectors at {start}");
        }
        let beyond = write(&env, &group, 9, SECTORS - 1, 2).await;
        assert!(matches!(beyond, Err(GroupError::Range { .. })), "{beyond:?}");
        assert_eq!(group.status().unaligned_writes, 3, "what was refused is not counted");
        group.close().await;
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("after a restart");
        assert_eq!(group.status().unaligned_writes, 0);
    });
}
