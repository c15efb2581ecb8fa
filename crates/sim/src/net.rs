// SPDX-License-Identifier: Apache-2.0
//! Stream links: two ends, a bounded number of bytes on the way, and faults. Order is kept.
//!
//! A segment that cannot arrive (cut path, dead machine) stays at the head of its wire until the
//! path heals or the machine is back. A reset that cannot arrive is lost. So half-open links exist.
//!
//! Simpler than the real world: each link has a bandwidth of its own, which it does not share with
//! other links of its host. Acknowledgements take no time.

use crate::core::{Core, EventKind};
use crate::ends::{EndRef, LinkEnd, LinkPair, Payload, Recv, Segment, Send};
use crate::host::Waiting;
use base::crc32c;
use env::{Buf, Completion, Done, IoError, LinkId, Slice, Token};

/// The most bytes of one segment.
const SEGMENT_MAX: usize = 64 << 10;

/// Whether these are records of TLS. Their bytes are by keys that are others each time, so they are
/// no part of the digest; how many there are is.
fn is_sealed(bytes: &[u8]) -> bool {
    matches!(bytes, [0x14..=0x17, 3, ..])
}

impl Core {
    /// A new link from the dialler (side 0) to the listener (side 1).
    pub(crate) fn new_link(&mut self, dialler: (u32, u32), listener: (u32, u32)) -> EndRef {
        self.stats.links += 1;
        let ends = [LinkEnd::new(dialler.0, dialler.1), LinkEnd::new(listener.0, listener.1)];
        let link = self.links_free.pop().unwrap_or(self.links.len() as u32);
        let generation = match self.links.get_mut(link as usize) {
            Some(pair) => {
                let generation = pair.generation + 1;
                *pair = LinkPair { generation, is_live: true, ends };
                generation
            }
            None => {
                self.links.push(LinkPair { generation: 0, is_live: true, ends });
                0
            }
        };
        EndRef { link, generation, side: 0 }
    }

    /// Names an end for its process.
    pub(crate) fn adopt(&mut self, process: u32, end: EndRef) -> LinkId {
        let links = &mut self.processes[process as usize].links;
        links.push(Some(end));
        LinkId(links.len() as u32 - 1)
    }

    fn find(&self, process: u32, id: LinkId) -> Option<EndRef> {
        self.processes[process as usize].links.get(id.0 as usize).copied().flatten()
    }

    pub(crate) fn end(&mut self, of: EndRef) -> Option<&mut LinkEnd> {
        let pair = &mut self.links[of.link as usize];
        (pair.is_live && pair.generation == of.generation).then(|| &mut pair.ends[of.side as usize])
    }

    /// The hosts from which and to which something for `to` travels.
    fn route(&self, to: EndRef) -> (u32, u32) {
        let ends = &self.links[to.link as usize].ends;
        (ends[1 - to.side as usize].host, ends[to.side as usize].host)
    }

    pub(crate) fn can_reach(&self, from: u32, to: u32) -> bool {
        !self.paths[from as usize][to as usize].is_cut && self.hosts[to as usize].is_powered
    }

    /// Draws how long a segment travels between two hosts, without the time for its bytes.
    /// Nanoseconds.
    pub(crate) fn travel(&mut self, from: u32, to: u32) -> u64 {
        let net = &self.options.net;
        let latency = if from == to { net.local } else { net.remote };
        latency.draw(0, &mut self.rng.net) + self.paths[from as usize][to as usize].clog
    }

    pub(crate) fn send(&mut self, process: u32, token: Token, id: LinkId, from: Slice) {
        let Some(mine) = self.find(process, id) else {
            return self.answer(process, token, Err(IoError::Closed));
        };
        self.stats.sends += 1;
        self.stats.bytes_sent += from.len() as u64;
        let content = if is_sealed(&from) { 0 } else { crc32c(&from) };
        self.mix(u64::from(content) << 32 | from.len() as u64);
        let Some(end) = self.end(mine) else { unreachable!("an open link has its end") };
        if end.is_reset {
            return self.answer(process, token, Err(IoError::Reset));
        }
        assert!(end.send.is_none(), "two sends at once on one link");
        end.send = Some(Send { token, from, at: 0 });
        self.pump(mine);
    }

    /// Puts as much of the send under way on the wire as has room there.
    fn pump(&mut self, mine: EndRef) {
        let window = self.options.net.window.max(1);
        let (side, other) = (mine.side as usize, 1 - mine.side as usize);
        loop {
            let ends = &mut self.links[mine.link as usize].ends;
            let room = window.saturating_sub(ends[other].unread);
            let Some(send) = &mut ends[side].send else { return };
            let rest = send.from.len() - send.at;
            if rest == 0 {
                let (token, process) = (send.token, ends[side].process);
                ends[side].send = None;
                return self.answer(process, token, Ok(Done::Unit));
            }
            let count = rest.min(room).min(SEGMENT_MAX);
            if count == 0 {
                return;
            }
            let data = send.from.slice(send.at..send.at + count);
            send.at += count;
            ends[other].unread += count;
            self.put_on_wire(mine.other(), Payload::Data(data));
        }
    }

    fn put_on_wire(&mut self, to: EndRef, payload: Payload) {
        let (from_host, to_host) = self.route(to);
        let net = &self.options.net;
        let rate = if from_host == to_host { net.local.rate } else { net.remote.rate };
        let bytes = if let Payload::Data(data) = &payload { data.len() as u64 } else { 0 };
        let travel = self.travel(from_host, to_host);
        let now = self.now;
        let Some(end) = self.end(to) else { return };
        end.busy_until = end.busy_until.max(now) + bytes * 1_000_000_000 / rate.max(1);
        end.last_at = (end.busy_until + travel).max(end.last_at + 1);
        let at = end.last_at;
        end.wire.push_back(Segment { at, payload });
        if !end.is_scheduled {
            end.is_scheduled = true;
            self.push(at, EventKind::Deliver { to });
        }
    }

    /// The first segment on the wire towards `to` arrives.
    pub(crate) fn deliver(&mut self, to: EndRef) {
        let Some(end) = self.end(to) else { return };
        end.is_scheduled = false;
        let (from_host, to_host) = self.route(to);
        if !self.can_reach(from_host, to_host) {
            return; // held until the path heals or the host is back
        }
        let Some(end) = self.end(to) else { return };
        let Some(segment) = end.wire.pop_front() else { return };
        let next = end.wire.front().map(|segment| segment.at);
        if end.is_gone {
            let is_data = matches!(segment.payload, Payload::Data(_));
            end.wire.clear();
            if is_data {
                self.send_reset(to.other(), 0);
            }
            return;
        }
        if let Some(at) = next {
            end.is_scheduled = true;
            self.push(at, EventKind::Deliver { to });
        }
        let Some(end) = self.end(to) else { return };
        match segment.payload {
            Payload::Data(data) => {
                end.arrived_bytes += data.len();
                end.arrived.push_back(data);
            }
            Payload::Fin => end.is_ended = true,
        }
        if let Some(completion) = self.try_recv(to) {
            let process = self.links[to.link as usize].ends[to.side as usize].process;
            self.complete(process, completion);
        }
    }

    /// The completion of the receive that waits at this end, if there is something for it.
    fn try_recv(&mut self, mine: EndRef) -> Option<Completion> {
        let partial_ppm = self.options.net.partial_ppm;
        let end = &mut self.links[mine.link as usize].ends[mine.side as usize];
        let process = end.process;
        if end.arrived_bytes == 0 && !end.is_ended && !end.is_reset {
            return None;
        }
        let Recv { token, mut into, at } = end.recv.take()?;
        let room = end.arrived_bytes.min(into.len() - at);
        let result = if room > 0 {
            let rng = &mut self.rng.net;
            let count = match rng.chance_ppm(partial_ppm) {
                true if rng.below(2) == 0 => rng.between(1, room.min(64) as u64) as usize,
                true => rng.between(1, room as u64) as usize,
                false => room,
            };
            end.take(&mut into[at..at + count]);
            Ok(Done::Bytes(count))
        } else if end.is_reset {
            Err(IoError::Reset)
        } else {
            Ok(Done::Bytes(0))
        };
        self.processes[process as usize].waiting.remove(&token);
        self.pump(mine.other());
        Some(Completion { token, result, buf: Some(into) })
    }

    pub(crate) fn recv(&mut self, process: u32, token: Token, id: LinkId, into: Buf, at: usize) {
        assert!(at < into.len(), "no room to receive into");
        let Some(mine) = self.find(process, id) else {
            let completion = Completion { token, result: Err(IoError::Closed), buf: Some(into) };
            return self.soon(process, completion);
        };
        let end = &mut self.links[mine.link as usize].ends[mine.side as usize];
        assert!(end.recv.is_none(), "two receives at once on one link");
        end.recv = Some(Recv { token, into, at });
        match self.try_recv(mine) {
            Some(completion) => self.soon(process, completion),
            None => {
                let waiting = &mut self.processes[process as usize].waiting;
                waiting.insert(token, Waiting::Recv(mine));
            }
        }
    }

    pub(crate) fn cancel_recv(&mut self, process: u32, of: EndRef) {
        let Some(recv) = self.end(of).and_then(|end| end.recv.take()) else { return };
        let (token, buf) = (recv.token, Some(recv.into));
        self.soon(process, Completion { token, result: Err(IoError::Cancelled), buf });
    }

    /// Sends a reset towards `to`. It starts after `delay` nanoseconds.
    pub(crate) fn send_reset(&mut self, to: EndRef, delay: u64) {
        let (from_host, to_host) = self.route(to);
        let at = self.now + delay + self.travel(from_host, to_host);
        self.push(at, EventKind::Reset { to });
    }

    pub(crate) fn reset_arrives(&mut self, to: EndRef) {
        if self.end(to).is_none() {
            return;
        }
        let (from_host, to_host) = self.route(to);
        if self.can_reach(from_host, to_host) {
            self.reset_end(to);
        }
    }

    /// Tells an end that its link is broken. By chance it may still read what has arrived.
    pub(crate) fn reset_end(&mut self, to: EndRef) {
        let drop_arrived = self.rng.net.below(2) == 0;
        let Some(end) = self.end(to) else { return };
        if end.is_gone || end.is_reset {
            return;
        }
        end.is_reset = true;
        end.wire.clear();
        if drop_arrived {
            end.forget_arrived();
        }
        let (process, send) = (end.process, end.send.take());
        self.stats.resets += 1;
        if let Some(send) = send {
            let result = Err(IoError::Reset);
            self.complete(process, Completion { token: send.token, result, buf: None });
        }
        if let Some(completion) = self.try_recv(to) {
            self.complete(process, completion);
        }
    }

    /// A process closes its end of a link.
    pub(crate) fn close(&mut self, process: u32, token: Token, id: LinkId) {
        let slot = self.processes[process as usize].links.get_mut(id.0 as usize);
        if let Some(mine) = slot.and_then(Option::take) {
            self.close_end(mine);
        }
        self.answer(process, token, Ok(Done::Unit));
    }

    pub(crate) fn close_end(&mut self, mine: EndRef) {
        let Some(end) = self.end(mine) else { return };
        if end.is_gone {
            return;
        }
        end.is_gone = true;
        let (process, recv, send) = (end.process, end.recv.take(), end.send.take());
        let (has_unread, was_reset) = (end.arrived_bytes > 0, end.is_reset);
        end.forget();
        if let Some(Recv { token, into, .. }) = recv {
            self.processes[process as usize].waiting.remove(&token);
            let result = Err(IoError::Closed);
            self.soon(process, Completion { token, result, buf: Some(into) });
        }
        if let Some(Send { token, .. }) = send {
            self.answer(process, token, Err(IoError::Closed));
        }
        match (was_reset, has_unread) {
            (true, _) => {}
            // As in TCP, a close while bytes are unread resets the link.
            (false, true) => self.send_reset(mine.other(), 0),
            (false, false) => self.put_on_wire(mine.other(), Payload::Fin),
        }
        self.free_if_gone(mine.link);
    }

    /// The owner of an end is dead, so nothing completes here any more. The caller decides what the
    /// peer sees.
    pub(crate) fn kill_end(&mut self, mine: EndRef) {
        let Some(end) = self.end(mine) else { return };
        end.is_gone = true;
        end.forget();
        self.free_if_gone(mine.link);
    }

    /// Drops the last part of what is on the way to `to`, as a dying machine does. Chance decides
    /// how much.
    pub(crate) fn lose_tail(&mut self, to: EndRef) {
        let Some(end) = self.end(to) else { return };
        let keep = end.wire.len();
        let keep = self.rng.net.below(keep as u64 + 1) as usize;
        if let Some(end) = self.end(to) {
            end.wire.truncate(keep);
        }
    }

    fn free_if_gone(&mut self, link: u32) {
        let pair = &mut self.links[link as usize];
        if pair.is_live && pair.ends.iter().all(|end| end.is_gone) {
            pair.is_live = false;
            self.links_free.push(link);
        }
    }

    /// If the end `to` is gone and its peer waits for room to send, the peer gets a reset. In TCP
    /// the peer learns this by window probes.
    pub(crate) fn probe(&mut self, to: EndRef) {
        let is_gone = self.end(to).is_some_and(|end| end.is_gone && end.wire.is_empty());
        if is_gone && self.end(to.other()).is_some_and(|end| end.send.is_some()) {
            self.send_reset(to.other(), 0);
        }
    }

    /// The way to `to` is free again. What was held there arrives after a while, or the link is
    /// reset.
    pub(crate) fn resume(&mut self, to: EndRef) {
        let (ppm, delay) = (self.options.net.heal_reset_ppm, self.options.net.heal_delay);
        let Some(end) = self.end(to) else { return };
        if end.is_scheduled || end.wire.is_empty() {
            return;
        }
        if self.rng.net.chance_ppm(ppm) {
            self.send_reset(to, 0);
            self.send_reset(to.other(), 0);
            return;
        }
        let at = self.now + 1 + self.rng.net.below(crate::options::nanos(delay) + 1);
        let Some(end) = self.end(to) else { return };
        for (step, segment) in (0..).zip(&mut end.wire) {
            segment.at = segment.at.max(at + step);
            end.last_at = end.last_at.max(segment.at);
        }
        end.is_scheduled = true;
        self.push(at, EventKind::Deliver { to });
    }
}
