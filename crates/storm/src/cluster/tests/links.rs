// SPDX-License-Identifier: Apache-2.0
//! Links that are encrypted while volumes are in use, and hosts that cannot prove who they are.

use super::*;
use crate::plan::LinkPlan;
use base::WallTime;
use operator::{ClusterReport, HostState};
use std::sync::Arc;
use tls::SimulatedAuthority;
use tls::SimulatedKeys;

const MINUTE: u64 = 60_000_000_000;
const NEVER: WallTime = WallTime(u64::MAX / 4);

/// Three hosts with certificates, of which nobody has begun.
fn with_keys(seed: u64, links: LinkPlan) -> Cluster {
    Cluster::new(&Plan { links, ..calm(seed, 3, 1, 0) }, None)
}

fn begin(cluster: &Cluster) {
    cluster.boot_directory();
    (0..cluster.machines.len()).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(cluster);
    cluster.world.run_for(Duration::from_secs(2));
}

fn encrypt(cluster: &Cluster, on: bool) -> Result<bool, String> {
    let report = cluster.ask(0, Command::EncryptLinks { on })?;
    Ok(serde_json::from_value::<ClusterReport>(report).expect("a report").encrypt_links)
}

fn up(cluster: &Cluster, index: usize) -> usize {
    let hosts = cluster.status(index).hosts;
    hosts.iter().filter(|host| host.state == HostState::Up).count()
}

#[test]
fn links_are_encrypted_in_use_once_every_host_has_proved_itself() {
    let mut cluster = with_keys(501, LinkPlan::Switched);
    let good = std::mem::take(&mut cluster.identities);
    cluster.identities = good.clone();
    cluster.identities.truncate(2);
    begin(&cluster);
    cluster.create("v", 16, 0).expect("there is room");
    let refused = encrypt(&cluster, true).expect_err("host3 would be cut off");
    assert!(refused.contains("host3 would be cut off") && refused.contains("ca-key.pem"));
    assert_eq!(up(&cluster, 0), 3, "nothing changed");

    cluster.world.kill(cluster.machines[2].key);
    let refused = encrypt(&cluster, true).expect_err("nobody knows what it would be started with");
    assert!(refused.contains("start it if it is down"), "{refused}");
    cluster.identities = good;
    cluster.boot(2, |_, _| async {});
    cluster.world.run_for(Duration::from_secs(10));

    assert_eq!(encrypt(&cluster, true), Ok(true));
    assert_eq!(cluster.fill("v", 0, 16), 16, "what goes on meanwhile does not fail");
    for on in [false, true] {
        cluster.world.run_for(Duration::from_secs(3));
        assert_eq!((0..3).map(|index| up(&cluster, index)).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(encrypt(&cluster, on), Ok(on));
        assert_eq!(cluster.fill("v", 0, 16), 16);
    }
}

#[test]
fn a_certificate_that_expires_costs_no_link_that_is_there_and_every_new_one() {
    let mut cluster = with_keys(502, LinkPlan::Encrypted);
    let authority = SimulatedAuthority::new();
    let now = Rc::new(Cell::new(0));
    let place = Rc::clone(&now);
    cluster.world.boot(cluster.machines[0].key, move |env| {
        place.set(env.wall().0);
        Box::pin(async {})
    });
    cluster.world.run_for(Duration::from_millis(1));
    cluster.world.kill(cluster.machines[0].key);
    let soon = WallTime(now.get() + 2 * MINUTE);
    assert!(now.get() > 0);
    let keys: Vec<_> = (1..=3)
        .map(|number| {
            let of = |until| authority.issue(&[ShardId(number)], (WallTime(0), until));
            let first = if number == 3 { soon } else { NEVER };
            Arc::new(SimulatedKeys::new([of(first), of(NEVER)]))
        })
        .collect();
    cluster.identities = keys.iter().map(|keys| authority.identity_by(keys)).collect();
    begin(&cluster);
    cluster.create("v", 16, 0).expect("there is room");
    cluster.world.run_for(Duration::from_secs(300));
    assert_eq!(up(&cluster, 0), 3, "links that are there live on");
    assert_eq!(cluster.fill("v", 0, 16), 16);

    for index in 0..2 {
        cluster.world.reset_links(cluster.machines[index].key, cluster.machines[2].key);
    }
    cluster.world.run_for(Duration::from_secs(10));
    assert_eq!((up(&cluster, 0), up(&cluster, 1), up(&cluster, 2)), (2, 2, 1));
    let status = cluster.status(0);
    let alarm = status.alarms.iter().find(|alarm| alarm.contains("no link to host3"));
    assert!(alarm.is_some_and(|alarm| alarm.contains("xpired")), "{:?}", status.alarms);
    assert_eq!(cluster.fill("v", 0, 16), 16, "the others go on");

    keys[2].renew();
    cluster.world.run_for(Duration::from_secs(10));
    assert_eq!((0..3).map(|index| up(&cluster, index)).collect::<Vec<_>>(), [3, 3, 3]);
    assert!(cluster.status(0).alarms.is_empty());
}
