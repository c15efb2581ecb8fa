// SPDX-License-Identifier: Apache-2.0
//! Streams: reads that follow one another. A cache of what was read is of no use to such a reader.
//! Reading ahead of it is.
//!
//! The streams that read last are remembered. A stream that has read enough in a row brings no more
//! pieces into the cache; instead the chunk behind the one that it reads is read into memory. Both
//! tables are small. The stream that has been silent longest is forgotten first, and of the chunks
//! in memory the one whose reading began first.

use env::Slice;
use std::collections::VecDeque;

/// Streams that are followed.
const STREAMS_MAX: usize = 16;
/// Chunks in memory or on their way there: 8 MiB.
const AHEAD_MAX: usize = 8;
/// Of those on their way.
const LOADING_MAX: usize = 4;

#[derive(Clone, Copy)]
struct Stream {
    serial: u32,
    next: u64,
    sectors: u64,
}

/// What was read ahead of one chunk.
struct Ahead {
    key: u64,
    /// Distinguishes it from a later one of the same chunk.
    number: u64,
    /// First block, and the data; nothing while it is on its way.
    data: Option<(usize, Slice)>,
}

/// What is known of a chunk that may have been read ahead.
pub(crate) enum AheadState {
    /// Nothing.
    Nothing,
    /// It is on its way.
    Loading,
    /// These bytes, from that block on. Whoever uses them compares checksums.
    Data(usize, Slice),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Streams {
    /// The one used last is at the end.
    streams: VecDeque<Stream>,
    ahead: VecDeque<Ahead>,
    numbers: u64,
}

impl Streams {
    /// A read; whether it goes on with a stream, which has at least so many sectors.
    pub(crate) fn note(&mut self, serial: u32, start: u64, count: u64, least: u64) -> bool {
        let is_next = |stream: &Stream| stream.serial == serial && stream.next == start;
        let found = self.streams.iter().position(is_next);
        let mut stream = match found.and_then(|at| self.streams.remove(at)) {
            Some(stream) => stream,
            None => Stream { serial, next: start, sectors: 0 },
        };
        // What came before this read counts, so that one large request is no stream.
        let is_stream = stream.sectors >= least;
        stream.next += count;
        stream.sectors += count;
        if self.streams.len() >= STREAMS_MAX {
            self.streams.pop_front();
        }
        self.streams.push_back(stream);
        is_stream
    }

    /// Takes a place for a chunk that is to be read ahead; none where it is there already, or where
    /// all places are taken by what is on its way.
    pub(crate) fn begin(&mut self, key: u64) -> Option<u64> {
        let loading = self.ahead.iter().filter(|ahead| ahead.data.is_none()).count();
        if loading >= LOADING_MAX || self.ahead.iter().any(|ahead| ahead.key == key) {
            return None;
        }
        if self.ahead.len() >= AHEAD_MAX {
            let oldest = self.ahead.iter().position(|ahead| ahead.data.is_some())?;
            self.ahead.remove(oldest);
        }
        self.numbers += 1;
        self.ahead.push_back(Ahead { key, number: self.numbers, data: None });
        Some(self.numbers)
    }

    /// It was read, or could not be; a chunk that changed meanwhile is not wanted any more.
    pub(crate) fn end(&mut self, number: u64, data: Option<(usize, Slice)>) {
        let Some(at) = self.ahead.iter().position(|ahead| ahead.number == number) else { return };
        match data {
            Some(data) => self.ahead[at].data = Some(data),
            None => drop(self.ahead.remove(at)),
        }
    }

    pub(crate) fn get(&self, key: u64) -> AheadState {
        let found = self.ahead.iter().find(|ahead| ahead.key == key);
        match found.map(|ahead| &ahead.data) {
            None => AheadState::Nothing,
            Some(None) => AheadState::Loading,
            Some(Some((first, bytes))) => AheadState::Data(*first, bytes.clone()),
        }
    }

    /// The chunk changed, or what was read of it is of no use.
    pub(crate) fn forget(&mut self, key: u64) {
        self.ahead.retain(|ahead| ahead.key != key);
    }
}
