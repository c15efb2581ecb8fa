// SPDX-License-Identifier: Apache-2.0
//! Clients: tasks on the cluster's hosts that write, read and discard at random.

use crate::cluster::VOLUME;
use crate::oracle::{Oracle, Wrong, ZERO, fill};
use base::{Rng, SECTOR_SIZE, SectorRange};
use env::Env;
use host::Node;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use volume::{Device, VolumeError};

/// Largest operation, sectors: a chunk and a bit, so that operations cross chunk boundaries.
const COUNT_MAX: u64 = 2200;

/// What the clients share with the campaign.
pub struct Shared {
    /// What may be read.
    pub oracle: RefCell<Oracle>,
    /// The first wrong sector that a client saw, and who saw it.
    pub wrong: RefCell<Option<(String, Wrong)>>,
    /// Whether clients begin new operations.
    pub is_open: Cell<bool>,
    /// Operations acknowledged.
    pub done: Cell<u64>,
    /// Operations that ended with an error.
    pub failed: Cell<u64>,
    /// Operations under way.
    pub running: Cell<u64>,
    /// Longest operation that was acknowledged.
    pub longest: Cell<Duration>,
}

impl Shared {
    /// For a volume of `sectors` sectors.
    #[must_use]
    pub fn new(sectors: u64) -> Self {
        Self {
            oracle: RefCell::new(Oracle::new(sectors)),
            wrong: RefCell::default(),
            is_open: Cell::new(true),
            done: Cell::default(),
            failed: Cell::default(),
            running: Cell::default(),
            longest: Cell::default(),
        }
    }
}

/// One operation under way; dropped by a crash, it leaves its write undecided.
struct Running<'a> {
    shared: &'a Shared,
    range: SectorRange,
    tag: Option<u64>,
    is_ended: bool,
}

impl Running<'_> {
    fn acknowledged(mut self) {
        self.is_ended = true;
        let mut oracle = self.shared.oracle.borrow_mut();
        match self.tag {
            Some(tag) => oracle.acknowledged(self.range, tag),
            None => oracle.release(self.range),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.running.set(self.shared.running.get() - 1);
        if self.is_ended {
            return;
        }
        let mut oracle = self.shared.oracle.borrow_mut();
        match self.tag {
            Some(tag) => oracle.undecided(self.range, tag),
            None => oracle.release(self.range),
        }
    }
}

/// Runs one client until its host ends.
pub async fn client(
    env: Env,
    node: Rc<Node>,
    shared: Rc<Shared>,
    pause_max: Duration,
    mut rng: Rng,
    name: String,
) {
    let mut device = None;
    loop {
        if !shared.is_open.get() || shared.wrong.borrow().is_some() {
            device = None;
            env.sleep(Duration::from_millis(100)).await;
            continue;
        }
        if rng.below(200) == 0 {
            device = None; // reconnect, so that ownership moves
        }
        let attached = match device.take() {
            Some(attached) => attached,
            None => match node.exports().attach(VOLUME) {
                Ok(attached) => attached,
                Err(_) => {
                    env.sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
        };
        operation(&env, &attached, &shared, &mut rng, &name).await;
        device = Some(attached);
        let pause = rng.below(1 + pause_max.as_micros() as u64);
        env.sleep(Duration::from_micros(pause)).await;
    }
}

fn choose(rng: &mut Rng, sectors: u64) -> SectorRange {
    let (unit, count) = match rng.below(10) {
        0..5 => (8, 8),
        5..7 => (1, 1 + rng.below(8)),
        7..9 => (8, 8 * (1 + rng.below(32))),
        _ => (1, 1 + rng.below(COUNT_MAX)),
    };
    let count = count.min(sectors);
    // Half of all operations meet in a small region, where they collide.
    let span = if rng.below(2) == 0 { sectors } else { sectors.min(256.max(count)) };
    let start = rng.below(span - count.min(span) + 1) / unit * unit;
    SectorRange::new(start, count)
}

async fn operation<D: Device>(env: &Env, device: &D, shared: &Shared, rng: &mut Rng, name: &str) {
    let range = choose(rng, shared.oracle.borrow().sectors());
    if !shared.oracle.borrow_mut().begin(range) {
        env.sleep(Duration::from_micros(200)).await;
        return;
    }
    shared.running.set(shared.running.get() + 1);
    let mut running = Running { shared, range, tag: None, is_ended: false };
    let started = env.now();
    let (offset, bytes) = (range.start * SECTOR_SIZE, range.bytes());
    let outcome = match rng.below(20) {
        0..9 => {
            let tag = shared.oracle.borrow_mut().tag();
            running.tag = Some(tag);
            let mut payload = env.buf(usize::try_from(bytes).unwrap_or(usize::MAX));
            fill(range, tag, &mut payload);
            device.write(offset, payload.freeze()).await
        }
        9 => {
            running.tag = Some(ZERO);
            device.discard(offset, bytes).await
        }
        10 => {
            running.tag = Some(ZERO);
            device.write_zeroes(offset, bytes).await
        }
        _ => read(device, range, shared, name).await,
    };
    match outcome {
        Ok(()) => {
            tracing::trace!(name, ?range, tag = ?running.tag, at = env.now().0, "acknowledged");
            running.acknowledged();
            shared.done.set(shared.done.get() + 1);
            shared.longest.set(shared.longest.get().max(env.now().since(started)));
        }
        Err(_) => shared.failed.set(shared.failed.get() + 1),
    }
}

/// Reads and checks; the first wrong sector ends the campaign.
pub async fn read<D: Device>(
    device: &D,
    range: SectorRange,
    shared: &Shared,
    name: &str,
) -> Result<(), VolumeError> {
    let pieces = device.read(range.start * SECTOR_SIZE, range.bytes()).await?;
    let mut content = Vec::new();
    for piece in pieces.iter() {
        content.extend_from_slice(piece);
    }
    let checked = shared.oracle.borrow_mut().read(range, &content);
    if let Err(wrong) = checked {
        shared.wrong.borrow_mut().get_or_insert((name.to_owned(), wrong));
    }
    Ok(())
}
