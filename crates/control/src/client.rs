// SPDX-License-Identifier: Apache-2.0
//! Clients of etcd.

use crate::error::ControlError;
use etcd_client::{Client, ConnectOptions};
use std::collections::BTreeSet;
use std::time::Duration;

/// A member of etcd that accepts no connection within this time is not used until it does.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection to etcd is tested, also an idle one: a watch must notice a dead member.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A test not answered in this time ends the connection.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client of etcd. `needs_leader`: it leaves a member that knows no leader.
pub async fn connect(endpoints: &[String], needs_leader: bool) -> Result<Client, ControlError> {
    let options = ConnectOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_keep_alive(KEEP_ALIVE_EVERY, KEEP_ALIVE_TIMEOUT)
        .with_keep_alive_while_idle(true)
        .with_require_leader(needs_leader);
    let client = Client::connect(endpoints, Some(options)).await;
    client.map_err(|source| ControlError::Endpoints { source })
}

/// Lets `client`, which uses the endpoints `used`, use `wanted`.
pub async fn follow_to(client: &Client, used: &mut BTreeSet<String>, wanted: &BTreeSet<String>) {
    let (new, old): (Vec<_>, Vec<_>) =
        (wanted.difference(used).cloned().collect(), used.difference(wanted).cloned().collect());
    for url in new {
        if client.add_endpoint(&url).await.is_ok() {
            used.insert(url);
        }
    }
    for url in old {
        if client.remove_endpoint(&url).await.is_ok() {
            used.remove(&url);
        }
    }
}
