// SPDX-License-Identifier: Apache-2.0
//! The task that keeps the client's connection: dials, sends, receives, notices silence.

use super::ClientShared;
use crate::frames::{FrameReader, ReadError, join};
use base::Instant;
use env::{Env, Link, select};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The first wait before another attempt to connect; doubled with each failure.
const BACK_OFF_MIN: Duration = Duration::from_millis(10);
/// The longest wait before another attempt.
const BACK_OFF_MAX: Duration = Duration::from_millis(500);
/// An attempt to connect is given up after this time.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// After this silence a sign of life is asked for.
const PING_AFTER: Duration = Duration::from_secs(1);
/// After this silence the connection is given up.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// Bytes of frames in one send; one larger frame goes alone.
const SEND_BYTES_MAX: usize = 256 << 10;

/// Connects, and connects again whenever the link is lost, for ever.
pub async fn keep(shared: Rc<ClientShared>) {
    let env = shared.env.clone();
    let mut back_off = BACK_OFF_MIN;
    loop {
        let dialled = env.timeout(DIAL_TIMEOUT, env.dial(shared.address.clone())).await;
        if let Ok(Ok(link)) = dialled {
            let heard = use_link(&shared, &link).await;
            link.close();
            if heard {
                back_off = BACK_OFF_MIN;
            }
        }
        // Jitter: the shards of many hosts do not come back at the same instant.
        let jitter = Duration::from_micros(env.random() % 5_000);
        env.sleep(back_off + jitter).await;
        back_off = (back_off * 2).min(BACK_OFF_MAX);
    }
}

/// Uses a link until it fails or is silent for too long. True if anything was received on it.
async fn use_link(shared: &Rc<ClientShared>, link: &Link) -> bool {
    let heard_at = Cell::new(shared.env.now());
    let heard = Cell::new(false);
    let connection = Connected::new(shared);
    let receiver = async {
        let mut frames = FrameReader::new(&shared.env, link.clone());
        loop {
            match frames.next(|header, body| header.decode_answer(body)).await {
                Ok((number, answer)) => {
                    heard_at.set(shared.env.now());
                    heard.set(true);
                    if shared.state.borrow_mut().answered(number, answer).is_err() {
                        return count_malformed(shared);
                    }
                }
                Err(ReadError::Frame { .. }) => return count_malformed(shared),
                Err(ReadError::Link { .. } | ReadError::End) => return,
            }
        }
    };
    let sender = send(shared, link);
    let silence = silence(&shared.env, shared, &heard_at);
    // `select` prefers its first argument. That is harmless here: each of the three ends only when
    // the link is of no use any more.
    select(receiver, select(sender, silence)).await;
    drop(connection);
    heard.get()
}

fn count_malformed(shared: &ClientShared) {
    shared.malformed.set(shared.malformed.get() + 1);
}

async fn send(shared: &ClientShared, link: &Link) {
    loop {
        let changed = shared.outgoing.wait();
        let frames = shared.state.borrow_mut().take_outgoing(SEND_BYTES_MAX);
        if frames.is_empty() {
            changed.await;
        } else if link.send(join(&shared.env, &frames).freeze()).await.is_err() {
            return;
        }
    }
}

async fn silence(env: &Env, shared: &ClientShared, heard_at: &Cell<Instant>) {
    loop {
        let silent = env.now().since(heard_at.get());
        if silent >= DEAD_AFTER {
            return;
        }
        if silent >= PING_AFTER {
            shared.state.borrow_mut().ping();
            shared.outgoing.notify();
        }
        env.sleep(PING_AFTER).await;
    }
}

/// Tells the state that there is a connection. When dropped, it tells the state that there is none,
/// however the connection ended.
struct Connected<'a>(&'a ClientShared);

impl<'a> Connected<'a> {
    fn new(shared: &'a ClientShared) -> Self {
        shared.state.borrow_mut().connected();
        Self(shared)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().disconnected();
    }
}
