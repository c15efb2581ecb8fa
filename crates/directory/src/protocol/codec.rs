// SPDX-License-Identifier: Apache-2.0
//! Messages as bytes: little-endian integers, lengths before texts and lists, one tag byte before
//! each choice.

use super::{Answer, DirectoryRequest};
use crate::types::{
    DirectoryError, Entry, Expect, LeaseId, Listing, Transacted, Transaction, WatchEvent,
};

/// Bytes that an entry takes beside its key and value, at most.
pub const ENTRY_OVERHEAD: usize = 24;

/// Reads all of `body`; nothing may be left.
pub fn read_all<'a, T>(
    body: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<T> {
    let mut reader = Reader(body);
    let value = read(&mut reader)?;
    reader.0.is_empty().then_some(value)
}

pub struct Writer(Vec<u8>);

impl Writer {
    pub fn after_header(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn count(&mut self, value: usize) {
        let Ok(value) = u32::try_from(value) else { unreachable!("a list beyond every limit") };
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    fn entry(&mut self, entry: &Entry) {
        self.u64(entry.revision);
        self.bytes(&entry.value);
    }

    pub fn request(&mut self, request: &DirectoryRequest) {
        match request {
            DirectoryRequest::Ping => self.u8(0),
            DirectoryRequest::Get { key } => {
                self.u8(1);
                self.text(key);
            }
            DirectoryRequest::List { prefix } => {
                self.u8(2);
                self.text(prefix);
            }
            DirectoryRequest::Transact(transaction) => {
                self.u8(3);
                self.transaction(transaction);
            }
            DirectoryRequest::LeaseGrant { ttl_ms } => {
                self.u8(4);
                self.u64(*ttl_ms);
            }
            DirectoryRequest::LeaseKeep { lease } => {
                self.u8(5);
                self.u64(lease.0);
            }
            DirectoryRequest::LeaseRevoke { lease } => {
                self.u8(6);
                self.u64(lease.0);
            }
            DirectoryRequest::Watch { prefix } => {
                self.u8(7);
                self.text(prefix);
            }
            DirectoryRequest::Unwatch { watch } => {
                self.u8(8);
                self.u64(*watch);
            }
        }
    }

    fn transaction(&mut self, transaction: &Transaction) {
        self.count(transaction.compare.len());
        for (key, expect) in &transaction.compare {
            self.text(key);
            match expect {
                Expect::Absent => self.u8(0),
                Expect::Present => self.u8(1),
                Expect::Revision(revision) => {
                    self.u8(2);
                    self.u64(*revision);
                }
            }
        }
        self.count(transaction.puts.len());
        for (key, value, lease) in &transaction.puts {
            self.text(key);
            self.bytes(value);
            self.u64(lease.map_or(0, |lease| lease.0));
        }
        self.count(transaction.deletes.len());
        for key in &transaction.deletes {
            self.text(key);
        }
    }

    pub fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Done => self.u8(0),
            Answer::Entry(None) => self.u8(1),
            Answer::Entry(Some(entry)) => {
                self.u8(2);
                self.entry(entry);
            }
            Answer::Part { listing, has_more } => {
                self.u8(if *has_more { 4 } else { 3 });
                self.u64(listing.revision);
                self.count(listing.entries.len());
                for (key, entry) in &listing.entries {
                    self.text(key);
                    self.entry(entry);
                }
            }
            Answer::Transacted(transacted) => {
                self.u8(if transacted.succeeded { 6 } else { 5 });
                self.u64(transacted.revision);
            }
            Answer::Lease(lease) => {
                self.u8(7);
                self.u64(lease.0);
            }
            Answer::Events(events) => {
                self.u8(8);
                self.count(events.len());
                for event in events {
                    self.event(event);
                }
            }
            Answer::Failed(error) => {
                self.u8(9);
                self.u8(match error {
                    DirectoryError::Unavailable => 0,
                    DirectoryError::Unknown => 1,
                    DirectoryError::LeaseGone => 2,
                    DirectoryError::Malformed => 3,
                    DirectoryError::TooLarge => 4,
                });
            }
        }
    }

    fn event(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Put(key, entry) => {
                self.u8(0);
                self.text(key);
                self.entry(entry);
            }
            WatchEvent::Delete(key, revision) => {
                self.u8(1);
                self.text(key);
                self.u64(*revision);
            }
            WatchEvent::Reset(_) => unreachable!("a reset travels as parts of a listing"),
        }
    }
}

/// What is left of a body. Every method returns `None` where the bytes are not what it reads.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn count(&mut self) -> Option<usize> {
        let bytes: [u8; 4] = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let count = self.count()?;
        Some(self.take(count)?.to_vec())
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    /// Items until `count` of them or the first that is none. No room is reserved ahead: the count
    /// comes from outside, each item costs bytes.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    fn entry(&mut self) -> Option<Entry> {
        Some(Entry { revision: self.u64()?, value: self.bytes()? })
    }

    fn lease(&mut self) -> Option<LeaseId> {
        self.u64().filter(|lease| *lease != 0).map(LeaseId)
    }

    pub fn request(&mut self) -> Option<DirectoryRequest> {
        Some(match self.u8()? {
            0 => DirectoryRequest::Ping,
            1 => DirectoryRequest::Get { key: self.text()? },
            2 => DirectoryRequest::List { prefix: self.text()? },
            3 => DirectoryRequest::Transact(self.transaction()?),
            4 => DirectoryRequest::LeaseGrant { ttl_ms: self.u64()? },
            5 => DirectoryRequest::LeaseKeep { lease: self.lease()? },
            6 => DirectoryRequest::LeaseRevoke { lease: self.lease()? },
            7 => DirectoryRequest::Watch { prefix: self.text()? },
            8 => DirectoryRequest::Unwatch { watch: self.u64()? },
            _ => return None,
        })
    }

    fn transaction(&mut self) -> Option<Transaction> {
        let compare = self.list(|from| {
            let key = from.text()?;
            let expect = match from.u8()? {
                0 => Expect::Absent,
                1 => Expect::Present,
                2 => Expect::Revision(from.u64()?),
                _ => return None,
            };
            Some((key, expect))
        })?;
        let puts = self.list(|from| {
            let (key, value, lease) = (from.text()?, from.bytes()?, from.u64()?);
            Some((key, value, (lease != 0).then_some(LeaseId(lease))))
        })?;
        let deletes = self.list(Self::text)?;
        Some(Transaction { compare, puts, deletes })
    }

    pub fn answer(&mut self) -> Option<Answer> {
        Some(match self.u8()? {
            0 => Answer::Done,
            1 => Answer::Entry(None),
            2 => Answer::Entry(Some(self.entry()?)),
            tag @ (3 | 4) => {
                let revision = self.u64()?;
                let entries = self.list(|from| Some((from.text()?, from.entry()?)))?;
                Answer::Part { listing: Listing { entries, revision }, has_more: tag == 4 }
            }
            tag @ (5 | 6) => {
                Answer::Transacted(Transacted { succeeded: tag == 6, revision: self.u64()? })
            }
            7 => Answer::Lease(self.lease()?),
            8 => Answer::Events(self.list(Self::event)?),
            9 => Answer::Failed(match self.u8()? {
                0 => DirectoryError::Unavailable,
                1 => DirectoryError::Unknown,
                2 => DirectoryError::LeaseGone,
                3 => DirectoryError::Malformed,
                4 => DirectoryError::TooLarge,
                _ => return None,
            }),
            _ => return None,
        })
    }

    fn event(&mut self) -> Option<WatchEvent> {
        Some(match self.u8()? {
            0 => WatchEvent::Put(self.text()?, self.entry()?),
            1 => WatchEvent::Delete(self.text()?, self.u64()?),
            _ => return None,
        })
    }
}
