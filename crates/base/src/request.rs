// SPDX-License-Identifier: Apache-2.0
//! The client table: which requests of which clients a component has the effect of (rule 46).
//!
//! A client is one run of a host's daemon. It keeps at most [`CLIENT_SLOTS`] requests to an object
//! under way. Each request holds a *slot*, and the requests of one slot are counted. The next
//! request of a slot begins only when the one before it was answered or given up. So one number per
//! slot is enough: a request with that count or a lower one has been carried out, or nobody wants
//! it any more. (NFSv4.1 sessions keep their replies in the same way, RFC 8881 section 2.10.6.
//! Viewstamped Replication calls this the client table.)

use crate::{Incarnation, ShardId};

/// Requests of one client to one object under way, at most.
pub const CLIENT_SLOTS: usize = 128;
/// Bytes of an encoded [`ClientTable`], at most: it shares one page with other things. Five clients
/// with all slots in use fit, or twenty with 32 slots each. Beyond that the client whose last write
/// is the oldest is forgotten.
pub const CLIENT_TABLE_MAX: usize = 3584;
/// Marks that one write carries, at most.
pub const MARKS_MAX: usize = 512;

const HEAD: usize = 14;
const EACH: usize = 5;
const HOST_BITS: u32 = 24;
const COUNT_BITS: u32 = 40;

/// One request of a client, the same in every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The client's host.
    pub client: ShardId,
    /// Its run.
    pub run: Incarnation,
    /// Below [`CLIENT_SLOTS`].
    pub slot: u8,
    /// 1 for the first request of the slot in this run.
    pub count: u64,
}

impl RequestId {
    /// A request id. `None` where a number exceeds its bits: hosts and runs have 24, counts 40.
    #[must_use]
    pub fn new(client: ShardId, run: Incarnation, slot: u8, count: u64) -> Option<Self> {
        let fits = client.0 != 0
            && client.0 < 1 << HOST_BITS
            && run.0 < 1 << (64 - COUNT_BITS)
            && usize::from(slot) < CLIENT_SLOTS
            && count != 0
            && count < 1 << COUNT_BITS;
        fits.then_some(Self { client, run, slot, count })
    }

    /// The id as 12 bytes: slot above client, run above count. The two numbers are never both zero.
    #[must_use]
    pub fn pack(self) -> (u32, u64) {
        (u32::from(self.slot) << HOST_BITS | self.client.0, self.run.0 << COUNT_BITS | self.count)
    }

    /// The reverse of [`RequestId::pack`]. `None` where the numbers are no request id.
    #[must_use]
    pub fn unpack(low: u32, high: u64) -> Option<Self> {
        let client = ShardId(low & ((1 << HOST_BITS) - 1));
        let (run, count) = (Incarnation(high >> COUNT_BITS), high & ((1 << COUNT_BITS) - 1));
        Self::new(client, run, (low >> HOST_BITS) as u8, count)
    }
}

/// What a write says about requests, beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The component has this request's effect from here on.
    Done(RequestId),
    /// The component does not have this effect any more: a take-over that made copies equal took it
    /// back.
    Undone(RequestId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    shard: ShardId,
    run: Incarnation,
    /// One per slot that was ever used.
    counts: Vec<u64>,
}

/// The last request of each slot of each client that a component has the effect of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTable {
    /// In the order of their last writes: the one that wrote last is at the end.
    clients: Vec<Client>,
    bytes: usize,
}

impl ClientTable {
    /// Whether the request has been carried out, or is wanted by nobody any more.
    #[must_use]
    pub fn has(&self, id: RequestId) -> bool {
        let Some(client) = self.clients.iter().find(|client| client.shard == id.client) else {
            return false;
        };
        let count = client.counts.get(usize::from(id.slot)).copied().unwrap_or(0);
        client.run > id.run || client.run == id.run && count >= id.count
    }

    /// Whether this request is the last one of its slot that was carried out.
    #[must_use]
    pub fn is_last(&self, id: RequestId) -> bool {
        let next = RequestId { count: id.count.saturating_add(1), ..id };
        self.has(id) && !self.has(next)
    }

    /// The newest run that is known of a client, with the highest count of any of its slots: 1
    /// where no request of that run is known to have been carried out. `None`: the client is not
    /// known.
    #[must_use]
    pub fn last_of(&self, client: ShardId) -> Option<RequestId> {
        let client = self.clients.iter().find(|known| known.shard == client)?;
        let count = client.counts.iter().copied().max().unwrap_or(0);
        RequestId::new(client.shard, client.run, 0, count.max(1))
    }

    /// Takes note of a mark.
    pub fn apply(&mut self, mark: Mark) {
        match mark {
            Mark::Done(id) => self.add(id),
            Mark::Undone(id) => self.remove(id),
        }
    }

    fn add(&mut self, id: RequestId) {
        let at = match self.clients.iter().rposition(|client| client.shard == id.client) {
            Some(at) => at,
            None => {
                self.clients.push(Client { shard: id.client, run: id.run, counts: Vec::new() });
                self.bytes += HEAD;
                self.clients.len() - 1
            }
        };
        if at + 1 != self.clients.len() {
            self.clients[at..].rotate_left(1);
        }
        let Some(client) = self.clients.last_mut() else { return };
        if client.run > id.run {
            return;
        }
        if client.run < id.run {
            self.bytes -= client.counts.len() * EACH;
            client.counts.clear();
            client.run = id.run;
        }
        let slot = usize::from(id.slot);
        if client.counts.len() <= slot {
            self.bytes += (slot + 1 - client.counts.len()) * EACH;
            client.counts.resize(slot + 1, 0);
        }
        client.counts[slot] = client.counts[slot].max(id.count);
        while self.bytes > CLIENT_TABLE_MAX {
            let forgotten = self.clients.remove(0);
            self.bytes -= HEAD + forgotten.counts.len() * EACH;
        }
    }

    /// Takes one request back. The requests of the slot before it were answered, so that nobody
    /// sends them again: the count may go down by one.
    fn remove(&mut self, id: RequestId) {
        let client = self.clients.iter_mut().find(|client| client.shard == id.client);
        let Some(client) = client.filter(|client| client.run == id.run) else { return };
        if let Some(count) = client.counts.get_mut(usize::from(id.slot))
            && *count == id.count
        {
            *count -= 1;
        }
    }

    /// Little-endian: per client its host (4 bytes), run (8), number of slots (2), and per slot a
    /// count (5).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        for client in &self.clients {
            out.extend_from_slice(&client.shard.0.to_le_bytes());
            out.extend_from_slice(&client.run.0.to_le_bytes());
            out.extend_from_slice(&(client.counts.len() as u16).to_le_bytes());
            for count in &client.counts {
                out.extend_from_slice(&count.to_le_bytes()[..EACH]);
            }
        }
        out
    }

    /// Reads what [`ClientTable::encode`] made. `None` where the bytes are no client table.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > CLIENT_TABLE_MAX {
            return None;
        }
        let mut table = Self { clients: Vec::new(), bytes: bytes.len() };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (host, after) = rest.split_first_chunk::<4>()?;
            let (run, after) = after.split_first_chunk::<8>()?;
            let (slots, after) = after.split_first_chunk::<2>()?;
            let slots = usize::from(u16::from_le_bytes(*slots));
            let (counts, after) = after.split_at_checked(slots * EACH)?;
            let (shard, run) =
                (ShardId(u32::from_le_bytes(*host)), Incarnation(u64::from_le_bytes(*run)));
            let is_known = table.clients.iter().any(|client| client.shard == shard);
            if slots > CLIENT_SLOTS || is_known || RequestId::new(shard, run, 0, 1).is_none() {
                return None;
            }
            let (counts, _) = counts.as_chunks::<EACH>();
            let counts = counts.iter().map(|count| {
                count.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
            });
            table.clients.push(Client { shard, run, counts: counts.collect() });
            rest = after;
        }
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u32, run: u64, slot: u8, count: u64) -> RequestId {
        RequestId::new(ShardId(client), Incarnation(run), slot, count).expect("small numbers")
    }

    fn done(table: &mut ClientTable, id: RequestId) {
        table.apply(Mark::Done(id));
    }

    #[test]
    fn ids_survive_packing_and_nothing_else_is_one() {
        for id in [id(1, 0, 0, 1), id((1 << 24) - 1, (1 << 24) - 1, 127, (1 << 40) - 1)] {
            let (low, high) = id.pack();
            assert_eq!(RequestId::unpack(low, high), Some(id));
        }
        assert_eq!(RequestId::unpack(0, 0), None);
        assert_eq!(RequestId::unpack(128 << 24 | 1, 1), None, "a slot too high");
        assert_eq!(RequestId::unpack(1, 1 << 40), None, "a count of zero");
        assert!(RequestId::new(ShardId(1 << 24), Incarnation(1), 0, 1).is_none());
        assert!(RequestId::new(ShardId(1), Incarnation(1 << 24), 0, 1).is_none());
        assert!(RequestId::new(ShardId(1), Incarnation(1), 0, 1 << 40).is_none());
    }

    #[test]
    fn a_slot_knows_its_last_request_and_those_before_it() {
        let mut table = ClientTable::default();
        assert!(!table.has(id(1, 5, 3, 1)));
        done(&mut table, id(1, 5, 3, 7));
        assert!(table.has(id(1, 5, 3, 7)) && table.has(id(1, 5, 3, 6)));
        assert!(table.is_last(id(1, 5, 3, 7)) && !table.is_last(id(1, 5, 3, 6)));
        assert!(!table.is_last(id(1, 5, 3, 8)));
        assert!(!table.has(id(1, 5, 3, 8)));
        assert!(!table.has(id(1, 5, 2, 1)) && !table.has(id(2, 5, 3, 1)));
        table.apply(Mark::Undone(id(1, 5, 3, 7)));
        assert!(!table.has(id(1, 5, 3, 7)) && table.has(id(1, 5, 3, 6)));
        done(&mut table, id(1, 5, 3, 9));
        table.apply(Mark::Undone(id(1, 5, 3, 7)));
        assert!(table.has(id(1, 5, 3, 9)), "a later one stays");
    }

    #[test]
    fn a_new_run_begins_anew_and_ends_the_old_one() {
        let mut table = ClientTable::default();
        done(&mut table, id(1, 5, 3, 7));
        done(&mut table, id(1, 6, 0, 1));
        assert!(!table.has(id(1, 6, 3, 7)));
        assert!(table.has(id(1, 5, 100, 1)), "nobody waits for it");
        done(&mut table, id(1, 5, 3, 8));
        assert!(!table.has(id(1, 6, 3, 1)));
    }

    #[test]
    fn it_knows_the_newest_request_of_a_client() {
        let mut table = ClientTable::default();
        assert_eq!(table.last_of(ShardId(1)), None);
        done(&mut table, id(1, 5, 3, 7));
        done(&mut table, id(1, 5, 0, 4));
        done(&mut table, id(2, 9, 0, 70));
        assert_eq!(table.last_of(ShardId(1)), Some(id(1, 5, 0, 7)));
        done(&mut table, id(1, 6, 1, 1));
        table.apply(Mark::Undone(id(1, 6, 1, 1)));
        assert_eq!(
            table.last_of(ShardId(1)),
            Some(id(1, 6, 0, 1)),
            "the run is known all the same"
        );
    }

    #[test]
    fn it_survives_encoding_and_nonsense_is_refused() {
        let mut table = ClientTable::default();
        for client in 1..=3 {
            for slot in [0, 5, 127] {
                done(&mut table, id(client, 9, slot, 1 << 39 | u64::from(client)));
            }
        }
        let bytes = table.encode();
        assert_eq!(bytes.len(), table.bytes);
        assert_eq!(ClientTable::decode(&bytes).as_ref(), Some(&table));
        assert_eq!(ClientTable::decode(&bytes[..bytes.len() - 1]), None);
        let twice = [bytes.clone(), bytes.clone()].concat();
        assert_eq!(ClientTable::decode(&twice), None);
        let mut many = bytes.clone();
        many[12] = 129;
        assert_eq!(ClientTable::decode(&many), None);
        assert_eq!(ClientTable::decode(&[]), Some(ClientTable::default()));
    }

    #[test]
    fn it_has_a_bound_and_forgets_who_wrote_least_lately() {
        let mut table = ClientTable::default();
        for client in 1..=40 {
            done(&mut table, id(client, 1, 127, 1));
            done(&mut table, id(1, 1, 0, u64::from(client)));
            assert!(table.encode().len() <= CLIENT_TABLE_MAX);
        }
        assert!(table.has(id(1, 1, 0, 40)) && table.has(id(40, 1, 127, 1)));
        assert!(!table.has(id(2, 1, 127, 1)));
    }
}
