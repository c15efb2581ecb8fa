// SPDX-License-Identifier: Apache-2.0
//! A device in memory, sparse by chunks of 1 MiB, and a set of exports of such devices.
#![allow(dead_code, reason = "every user takes another part")]

use base::{CHUNK_SIZE, Map};
use env::{Buf, Env, Slice};
use nbd::{Exports, OpenError, Sharing};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use volume::{Device, Extent, Pieces, VolumeError};

/// A disk in memory. With a delay, each request acts at one moment, after a random time.
#[derive(Clone)]
pub struct MemoryDevice(Rc<Memory>);

struct Memory {
    env: Env,
    size: u64,
    chunks: RefCell<Map<u64, Buf>>,
    delay_max: Cell<Duration>,
    under_way: Cell<usize>,
    reads: Cell<usize>,
}

impl MemoryDevice {
    pub fn new(env: &Env, size: u64) -> Self {
        assert!(size.is_multiple_of(512));
        Self(Rc::new(Memory {
            env: env.clone(),
            size,
            chunks: RefCell::default(),
            delay_max: Cell::new(Duration::ZERO),
            under_way: Cell::new(0),
            reads: Cell::new(0),
        }))
    }

    /// Delays each later read, write, zeroing and discard by a random time below `delay_max`.
    pub fn set_delay_max(&self, delay_max: Duration) {
        self.0.delay_max.set(delay_max);
    }

    /// Clones that are held, this one included.
    pub fn held(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// Requests that began and have not ended.
    pub fn under_way(&self) -> usize {
        self.0.under_way.get()
    }

    /// Reads that began.
    pub fn reads(&self) -> usize {
        self.0.reads.get()
    }

    async fn delay(&self) {
        let delay_max = u64::try_from(self.0.delay_max.get().as_nanos()).unwrap_or(0);
        if delay_max == 0 {
            return;
        }
        self.0.under_way.set(self.0.under_way.get() + 1);
        self.0.env.sleep(Duration::from_nanos(self.0.env.random() % delay_max)).await;
        self.0.under_way.set(self.0.under_way.get() - 1);
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let size = self.0.size;
        assert!(offset.is_multiple_of(512) && bytes.is_multiple_of(512), "the server checks");
        assert!(offset + bytes <= size, "the server checks");
        Ok(())
    }

    /// The bytes of a range, for oracles. Not delayed.
    pub fn peek(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let mut all = vec![0; bytes as usize];
        let mut at = 0;
        for (chunk, from, len) in spans(offset, bytes) {
            if let Some(memory) = self.0.chunks.borrow().get(&chunk) {
                all[at..at + len].copy_from_slice(&memory[from..from + len]);
            }
            at += len;
        }
        all
    }
}

/// The chunks of a range: number, start within it, length.
fn spans(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = offset;
    std::iter::from_fn(move || {
        let (chunk, within) = (at / CHUNK_SIZE, at % CHUNK_SIZE);
        let len = (CHUNK_SIZE - within).min(offset + bytes - at);
        at += len;
        (len > 0).then_some((chunk, within as usize, len as usize))
    })
}

impl Device for MemoryDevice {
    fn size(&self) -> u64 {
        self.0.size
    }

    async fn read(&self, offset: u64, bytes: u64) -> Result<Pieces, VolumeError> {
        self.check(offset, bytes)?;
        self.0.reads.set(self.0.reads.get() + 1);
        self.delay().await;
        let mut pieces = Pieces::default();
        for (chunk, from, len) in spans(offset, bytes) {
            let mut buf = self.0.env.buf(len);
            match self.0.chunks.borrow().get(&chunk) {
                Some(memory) => buf.copy_from_slice(&memory[from..from + len]),
                None => buf.fill(0),
            }
            pieces.push(buf.freeze());
        }
        Ok(pieces)
    }

    async fn write(&self, offset: u64, payload: Slice) -> Result<(), VolumeError> {
        self.check(offset, payload.len() as u64)?;
        self.delay().await;
        let mut at = 0;
        for (chunk, from, len) in spans(offset, payload.len() as u64) {
            let mut chunks = self.0.chunks.borrow_mut();
            let memory = chunks
                .entry(chunk)
                .or_insert_with(|| self.0.env.pool().zeroed(CHUNK_SIZE as usize));
            memory[from..from + len].copy_from_slice(&payload[at..at + len]);
            at += len;
        }
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        self.check(offset, bytes)?;
        self.delay().await;
        for (chunk, from, len) in spans(offset, bytes) {
            if let Some(memory) = self.0.chunks.borrow_mut().get_mut(&chunk) {
                memory[from..from + len].fill(0);
            }
        }
        Ok(())
    }

    async fn discard(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        self.write_zeroes(offset, bytes).await?;
        for (chunk, _, len) in spans(offset, bytes) {
            if len as u64 == CHUNK_SIZE {
                self.0.chunks.borrow_mut().remove(&chunk);
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn extents(&self, offset: u64, bytes: u64) -> Result<Vec<Extent>, VolumeError> {
        self.check(offset, bytes)?;
        let mut list = Vec::new();
        for (chunk, _, len) in spans(offset, bytes) {
            let is_allocated = self.0.chunks.borrow().contains_key(&chunk);
            Extent::append(&mut list, Extent { bytes: len as u64, is_allocated });
        }
        Ok(list)
    }
}

/// Exports by name; the one named "alone" is for one connection at a time.
pub struct MemoryExports(pub Vec<(String, MemoryDevice)>);

impl Exports for MemoryExports {
    type Device = MemoryDevice;

    fn list(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    fn sharing(&self, name: &str) -> Sharing {
        if name == "alone" { Sharing::Exclusive } else { Sharing::Shared }
    }

    async fn open(&self, name: &str) -> Result<MemoryDevice, OpenError> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, device)| device.clone()).ok_or(OpenError::NotFound)
    }
}
