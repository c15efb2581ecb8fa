// SPDX-License-Identifier: Apache-2.0
//! A device whose path leads nowhere is noticed while it still takes everything.

use super::scenarios::{Host, fresh, write};
use super::*;
use sim::DiskFault;

#[test]
fn a_device_that_was_deleted_stops_the_group_by_name() {
    for device in ["cache", "capacity0"] {
        let host = Host::new(41);
        let (world, key) = (host.world.clone(), host.key);
        host.run(move |env| async move {
            let group = fresh(&env).await;
            write(&env, &group, 1, 0, 8).await.expect("a write");
            env.sleep(Duration::from_secs(60)).await;
            assert_eq!(group.status().fenced, None, "all are where they were");
            world.disk_error(key, device, DiskFault::Unlink);
            write(&env, &group, 2, 0, 8).await.expect("it is taken as before");
            env.sleep(Duration::from_secs(7)).await;
            let why = group.status().fenced.expect("it was noticed");
            assert_eq!(why, format!("{device}: not what stands at this path any more"));
            let refused = write(&env, &group, 3, 0, 8).await;
            assert!(matches!(refused, Err(GroupError::Fenced)), "{refused:?}");
            let read = group.read(super::scenarios::ONE, SectorRange::new(0, 1)).await;
            assert_eq!(value_of(0, &read.expect("reads go on").payload), Some(2));
        });
    }
}
