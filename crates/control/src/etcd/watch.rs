// SPDX-License-Identifier: Apache-2.0
//! One watch: a listing, then etcd's watch from the next revision on, for as long as that lasts.

use super::connection::{EtcdOutbox, Gone};
use super::requests::{RESPONSE_BYTES_MAX, entry_of, list, number};
use directory::WatchEvent;
use directory::protocol::{PART_BYTES_MAX, split_events, split_listing};
use etcd_client::{Client, Event, EventType, WatchOptions};
use std::time::Duration;

/// The wait before a watch begins again; doubled with each failure.
const BACK_OFF_MIN: Duration = Duration::from_millis(20);
/// The longest wait before it begins again.
const BACK_OFF_MAX: Duration = Duration::from_millis(500);
/// The listing and the begin of etcd's watch take no longer than this.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends all keys below `prefix` and their changes, under `number`, until the connection is gone.
pub async fn run(client: Client, outbox: EtcdOutbox, number: u64, prefix: String) {
    let mut back_off = BACK_OFF_MIN;
    loop {
        match once(&client, &outbox, number, &prefix).await {
            Err(Gone) => return,
            Ok(Ended::AfterReset) => back_off = BACK_OFF_MIN,
            Ok(Ended::BeforeReset) => back_off = (back_off * 2).min(BACK_OFF_MAX),
        }
        tokio::time::sleep(back_off).await;
    }
}

/// How far a watch had come when it ended. It begins again.
enum Ended {
    BeforeReset,
    AfterReset,
}

async fn once(
    client: &Client,
    outbox: &EtcdOutbox,
    number_of_watch: u64,
    prefix: &str,
) -> Result<Ended, Gone> {
    let begin = async {
        let listing = list(client, prefix).await.ok()?;
        let next = i64::try_from(listing.revision + 1).ok()?;
        let options = WatchOptions::new().with_prefix().with_start_revision(next);
        let mut watcher = client.watch_client().max_decoding_message_size(RESPONSE_BYTES_MAX);
        let stream = watcher.watch(prefix, Some(options)).await.ok()?;
        Some((listing, stream))
    };
    let Ok(Some((listing, mut stream))) = tokio::time::timeout(BEGIN_TIMEOUT, begin).await else {
        return Ok(Ended::BeforeReset);
    };
    for answer in split_listing(listing, PART_BYTES_MAX) {
        outbox.send(number_of_watch, &answer).await?;
    }
    // A member that died is noticed by the keep-alive of the connection. One without a leader says
    // so.
    while let Ok(Some(response)) = stream.message().await {
        let events = response.events().iter().filter_map(event_of).collect();
        for answer in split_events(events, PART_BYTES_MAX) {
            outbox.send(number_of_watch, &answer).await?;
        }
        if response.canceled() || response.compact_revision() != 0 {
            break;
        }
    }
    Ok(Ended::AfterReset)
}

fn event_of(event: &Event) -> Option<WatchEvent> {
    let pair = event.kv()?;
    match event.event_type() {
        EventType::Put => entry_of(pair).map(|(key, entry)| WatchEvent::Put(key, entry)),
        EventType::Delete => {
            let key = pair.key_str().ok()?.to_owned();
            Some(WatchEvent::Delete(key, number(pair.mod_revision())))
        }
    }
}
