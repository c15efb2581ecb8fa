// SPDX-License-Identifier: Apache-2.0
//! What each sector may hold: a register per sector, with clients that die (promises 1 and 2;
//! docs/protocol.md#not-guaranteed).
//!
//! Every write carries a tag of its own, repeated in each of its sectors, so that a read tells
//! which write it saw. Writes of rivals may overlap; a campaign chooses whether it begins such
//! ones. Reads may overlap everything. Each event has a stamp; later events have higher stamps.
//!
//! A write takes effect once, at a moment in its *window*. The window begins with the call.
//! It ends
//! 1. with the answer, where there is one;
//! 2. for a write that ended without an answer or with an error, when no message of it that is
//!    still on its way can be applied any more. That is *known* when
//!    - somebody serves in a term above every term that its frames can carry: then all components
//!      are fenced and a forwarded request is refused (rules 8, 24, 43);
//!    - or a later run of its host had an operation answered: the owner drained what the earlier
//!      run had sent before it let the later one in (rule 45);
//!    - or its own host had an operation answered that began later and overlaps its range
//!      (rules 45, 46).
//!
//! Until its window ends, an unanswered write may land late, even after a newer write was
//! acknowledged. This is what a linearizable register allows a client that crashed, and no more.
//!
//! A read is right if its value was there at a moment between its begin and its end. The read also
//! tells something about other writes. Those that had surely taken effect before it began, or whose
//! window was over before, are overwritten and may not come back. It tells nothing of writes whose
//! windows were still open when it began. The state of a sector is therefore
//! - `now`: values known to have taken effect, of which one is the last (several only while
//!   concurrent operations leave their order open);
//! - `open`: writes never seen; each may have taken effect, or still do so within its window;
//! - `past`: values that were possible until a stamp, for reads that began before it.
#![forbid(unsafe_code)]

mod sectors;

use base::{Map, SECTOR_SIZE, SectorRange};
use sectors::Sectors;
use std::fmt;

/// The tag of zeros: never written, or discarded.
pub const ZERO: u64 = 0;

/// When something happened, in the order of the oracle's events.
type Stamp = u64;

/// One run of one host, in whose name an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// The host.
    pub host: u32,
    /// Later runs have higher numbers.
    pub run: u64,
}

/// A write under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(u64);

/// A read under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadId(u64);

#[derive(Clone, Debug)]
struct Write {
    author: Author,
    range: SectorRange,
    tag: u64,
    begun: Stamp,
    /// Set when it ended without an answer: when that was, and the highest term of its frames.
    ended: Option<(Stamp, u64)>,
    /// When its window was known to be over.
    closed: Option<Stamp>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    tag: u64,
    /// The write had taken effect by this stamp.
    since: Stamp,
}

#[derive(Clone, Debug, Default)]
struct Sector {
    now: Vec<Known>,
    open: Vec<WriteId>,
    past: Vec<(u64, Stamp)>,
    /// Writes under way that somebody waits for.
    writers: u32,
}

/// A sector that holds what it may not.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The sector.
    pub sector: u64,
    /// The tag that was read. `None` for what no write ever put there.
    pub found: Option<u64>,
    /// The values that are known to be there, the last one among them.
    pub current: Vec<u64>,
    /// Values of writes that may be there.
    pub undecided: Vec<u64>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {} holds ", self.sector)?;
        match self.found {
            Some(tag) => write!(f, "write {tag}")?,
            None => write!(f, "bytes that were never written there")?,
        }
        write!(f, "; it should hold write {:?}", self.current)?;
        if !self.undecided.is_empty() {
            write!(f, " or one of {:?}", self.undecided)?;
        }
        Ok(())
    }
}

/// What every sector of one volume may hold.
#[derive(Debug)]
pub struct Oracle {
    sectors: Sectors,
    writes: Map<u64, Write>,
    /// Writes that ended without an answer and whose windows are not known to be over.
    undecided: Vec<WriteId>,
    reads: Map<u64, (SectorRange, Stamp)>,
    clock: Stamp,
}

impl Oracle {
    /// A volume of `sectors` sectors, all zero.
    #[must_use]
    pub fn new(sectors: u64) -> Self {
        Self::of_part(SectorRange::new(0, sectors))
    }

    /// A part of a volume, all zero. Its sectors keep the numbers that they have in the volume, so
    /// that content which belongs into another part is noticed.
    #[must_use]
    pub fn of_part(part: SectorRange) -> Self {
        Self {
            sectors: Sectors::new(part),
            writes: Map::new(),
            undecided: Vec::new(),
            reads: Map::new(),
            clock: 0,
        }
    }

    /// Sectors of the volume, or of the part.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors.count()
    }

    /// Whether a write ended without an answer and may still land.
    #[must_use]
    pub fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    fn tick(&mut self) -> Stamp {
        self.clock += 1;
        self.clock
    }

    /// Whether a write that somebody waits for overlaps the range.
    #[must_use]
    pub fn is_written(&self, range: SectorRange) -> bool {
        let mut sectors = numbers(range).filter_map(|number| self.sectors.get(number));
        sectors.any(|sector| sector.writers > 0)
    }

    /// Begins a write of data, or of zeros, and returns its id and its tag. `None` where another
    /// write that somebody waits for overlaps the range.
    pub fn begin_write(
        &mut self,
        author: Author,
        range: SectorRange,
        is_zero: bool,
    ) -> Option<(WriteId, u64)> {
        if self.is_written(range) {
            return None;
        }
        Some(self.begin_rival(author, range, is_zero))
    }

    /// As [`Self::begin_write`], also where another write under way overlaps the range. Nobody
    /// knows their order until it was read.
    pub fn begin_rival(
        &mut self,
        author: Author,
        range: SectorRange,
        is_zero: bool,
    ) -> (WriteId, u64) {
        let begun = self.tick();
        // The stamp is a number that no other write has.
        let tag = if is_zero { ZERO } else { begun };
        let id = WriteId(begun);
        self.writes.insert(begun, Write { author, range, tag, begun, ended: None, closed: None });
        for number in numbers(range) {
            let sector = self.sectors.for_write(number);
            sector.writers += 1;
            sector.open.push(id);
        }
        (id, tag)
    }

    /// Whether a write of `host` and one of another host, both under way, overlap.
    #[must_use]
    pub fn has_rivals(&self, host: u32) -> bool {
        let waited_for = || self.writes.values().filter(|write| write.ended.is_none());
        waited_for().filter(|write| write.author.host == host).any(|write| {
            let is_rival = |other: &Write| other.author.host != host;
            waited_for().any(|other| is_rival(other) && other.range.overlaps(write.range))
        })
    }

    /// Begins a read.
    pub fn begin_read(&mut self, range: SectorRange) -> ReadId {
        let begun = self.tick();
        self.reads.insert(begun, (range, begun));
        ReadId(begun)
    }

    /// The write was acknowledged.
    pub fn acknowledged(&mut self, id: WriteId) {
        let now = self.tick();
        let Some(write) = self.writes.remove(&id.0) else { unreachable!("a write ends once") };
        self.answered(write.author, write.range, write.begun);
        let (writes, oldest) = (&self.writes, self.reads.keys().next().copied());
        for number in numbers(write.range) {
            let sector = self.sectors.for_write(number);
            sector.writers -= 1;
            let unseen = sector.open.iter().position(|other| *other == id);
            if let Some(at) = unseen {
                sector.open.remove(at);
            }
            // Values that had surely taken effect before this write began are overwritten. So are
            // writes whose windows were over before it began.
            let fresh = sector.now.iter().any(|known| known.since > write.begun);
            if unseen.is_some() || fresh {
                sector.forget_known(now, |known| known.since <= write.begun);
            }
            if unseen.is_some() {
                sector.now.push(Known { tag: write.tag, since: now });
            }
            sector.forget_open(now, writes, |other| is_over(other, write.begun));
            sector.trim(oldest);
        }
    }

    /// The write ended without an answer, or with an error. It may have taken effect, or may still
    /// do so. None of its frames carries a term above `term`.
    pub fn unanswered(&mut self, id: WriteId, term: u64) {
        let now = self.tick();
        let Some(write) = self.writes.get_mut(&id.0) else { unreachable!("a write ends once") };
        write.ended = Some((now, term));
        let range = write.range;
        if write.closed.is_none() {
            self.undecided.push(id);
        }
        for number in numbers(range) {
            self.sectors.for_write(number).writers -= 1;
        }
    }

    /// From now on `writer` alone writes to the volume: nothing that other hosts sent takes effect
    /// any more (rules 54 to 57).
    pub fn fenced(&mut self, writer: u32) {
        let now = self.tick();
        for write in self.writes.values_mut().filter(|write| write.author.host != writer) {
            write.closed.get_or_insert(now);
        }
        let writes = &self.writes;
        self.undecided.retain(|id| writes.get(&id.0).is_some_and(|write| write.closed.is_none()));
    }

    /// A host may write again, or any may (`None`). What it was asked for and has not answered may
    /// take effect from now on, for what was refused before it sends anew.
    pub fn admitted(&mut self, host: Option<u32>) {
        let is_of = |write: &Write| host.is_none_or(|host| write.author.host == host);
        let waited_for = |write: &Write| write.ended.is_none() && write.closed.is_some();
        let again = self.writes.iter_mut().filter(|(_, write)| is_of(write) && waited_for(write));
        for (id, write) in again {
            write.closed = None;
            for number in numbers(write.range) {
                let sector = self.sectors.for_write(number);
                if !sector.open.contains(&WriteId(*id)) {
                    sector.open.push(WriteId(*id));
                }
            }
        }
    }

    /// A host serves in `term`: all components that count are fenced in it.
    pub fn served(&mut self, term: u64) {
        self.close(|write| write.ended.is_some_and(|(_, bound)| bound < term));
    }

    /// An operation of `author` on `range` that began at `begun` was answered.
    fn answered(&mut self, author: Author, range: SectorRange, begun: Stamp) {
        self.close(|write| {
            let of_host = write.author.host == author.host;
            let of_earlier_run = write.author.run < author.run;
            let is_before = write.ended.is_some_and(|(at, _)| at < begun);
            of_host && (of_earlier_run || is_before && write.range.overlaps(range))
        });
    }

    fn close(&mut self, is_over: impl Fn(&Write) -> bool) {
        let (now, writes) = (self.clock, &mut self.writes);
        self.undecided.retain(|id| {
            let Some(write) = writes.get_mut(&id.0) else { return false };
            if is_over(write) {
                write.closed = Some(now);
            }
            write.closed.is_none()
        });
    }

    /// The read ended without data.
    pub fn read_failed(&mut self, id: ReadId) {
        self.reads.remove(&id.0);
    }

    /// The read returned `bytes`. It was done in the name of `author`.
    ///
    /// # Errors
    /// The first sector that holds what it may not.
    pub fn read(&mut self, id: ReadId, author: Author, bytes: &[u8]) -> Result<(), Wrong> {
        let Some((range, begun)) = self.reads.remove(&id.0) else { unreachable!("it ends once") };
        assert_eq!(bytes.len() as u64, range.bytes(), "a read returns what was asked for");
        let now = self.tick();
        for (number, content) in numbers(range).zip(bytes.chunks(SECTOR_SIZE as usize)) {
            self.look(number, tag_of(number, content), begun, now)?;
        }
        self.answered(author, range, begun);
        Ok(())
    }

    /// The read was one of block status: it returned no data, only parts of its range from the
    /// beginning on, each with whether it may hold data. What is called a hole reads as zeros, so
    /// this says as much of the holes as a read of zeros would. It says nothing of the other parts.
    ///
    /// # Errors
    /// The first sector that is called a hole and holds data.
    pub fn status(
        &mut self,
        id: ReadId,
        author: Author,
        parts: &[(SectorRange, bool)],
    ) -> Result<(), Wrong> {
        let Some((range, begun)) = self.reads.remove(&id.0) else { unreachable!("it ends once") };
        let now = self.tick();
        let mut end = range.start;
        for (part, is_data) in parts {
            assert!(part.start == end && range.contains(*part), "parts without gaps, within reach");
            end = part.end();
            if *is_data {
                continue;
            }
            for number in numbers(*part) {
                self.look(number, Some(ZERO), begun, now)?;
            }
        }
        self.answered(author, SectorRange::new(range.start, end - range.start), begun);
        Ok(())
    }

    /// A read between `begun` and `now` found this in a sector.
    fn look(
        &mut self,
        number: u64,
        found: Option<u64>,
        begun: Stamp,
        now: Stamp,
    ) -> Result<(), Wrong> {
        let Some(sector) = self.sectors.get_mut(number) else {
            // Nothing is learned from the zeros of a sector that nobody ever wrote.
            let mut zero = Sector::zero();
            return if found == Some(ZERO) {
                Ok(())
            } else {
                zero.look(number, found, begun, now, &self.writes)
            };
        };
        sector.look(number, found, begun, now, &self.writes)?;
        sector.trim(self.reads.keys().next().copied());
        Ok(())
    }
}

/// The numbers of the sectors of a range.
fn numbers(range: SectorRange) -> std::ops::Range<u64> {
    range.start..range.end()
}

/// Whether the window of a write was over when the event `at` came. A window may end between two
/// events; it then has the stamp of the earlier one, at which it was still open.
fn is_over(write: &Write, at: Stamp) -> bool {
    write.closed.is_some_and(|closed| closed < at)
}

impl Sector {
    /// One that was never written.
    fn zero() -> Self {
        Self { now: vec![Known { tag: ZERO, since: 0 }], ..Self::default() }
    }

    /// Notes that a read between `begun` and `now` found this.
    fn look(
        &mut self,
        number: u64,
        found: Option<u64>,
        begun: Stamp,
        now: Stamp,
        writes: &Map<u64, Write>,
    ) -> Result<(), Wrong> {
        if let ([only], true) = (&self.now[..], self.open.is_empty())
            && found == Some(only.tag)
        {
            return Ok(()); // as nearly all are: this tells nothing new
        }
        if found.is_some_and(|tag| self.saw(tag, begun, now, writes)) {
            return Ok(());
        }
        let current = self.now.iter().map(|known| known.tag).collect();
        let undecided = self.open.iter().map(|id| writes[&id.0].tag).collect();
        Err(Wrong { sector: number, found, current, undecided })
    }

    /// Notes that a read between `begun` and `now` saw `tag`. Returns whether it may.
    fn saw(&mut self, tag: u64, begun: Stamp, now: Stamp, writes: &Map<u64, Write>) -> bool {
        let known = self.now.iter().any(|known| known.tag == tag);
        // Several unseen writes may have this value. Takes the one whose window ends first, because
        // the others then allow more.
        let window = |id: &WriteId| writes[&id.0].closed.unwrap_or(Stamp::MAX);
        let of_tag = || self.open.iter().filter(|id| writes[&id.0].tag == tag);
        let unseen = of_tag().min_by_key(|id| window(id)).copied();
        // Of several whose windows may all go on, nobody knows which ends first.
        let is_anyones = of_tag().filter(|id| window(id) == Stamp::MAX).count() > 1
            && unseen.is_some_and(|id| window(&id) == Stamp::MAX);
        let past = self.past.iter().any(|(value, until)| *value == tag && *until > begun);
        match (known, unseen) {
            (false, None) if !past => return false,
            (false, Some(_)) if is_anyones => return true,
            (false, Some(id)) if !past => {
                self.open.retain(|other| *other != id);
                self.forget_known(now, |known| known.since <= begun);
                self.now.push(Known { tag, since: now });
            }
            // The answer fits an older value as well, so nothing is concluded from it.
            (false, _) => return true,
            (true, _) => self.forget_known(now, |other| other.since <= begun && other.tag != tag),
        }
        self.forget_open(now, writes, |other| is_over(other, begun) && other.tag != tag);
        true
    }

    fn forget_known(&mut self, now: Stamp, is_gone: impl Fn(&Known) -> bool) {
        let past = &mut self.past;
        self.now.retain(|known| {
            if is_gone(known) {
                past.push((known.tag, now));
            }
            !is_gone(known)
        });
    }

    fn forget_open(
        &mut self,
        now: Stamp,
        writes: &Map<u64, Write>,
        is_gone: impl Fn(&Write) -> bool,
    ) {
        let past = &mut self.past;
        self.open.retain(|id| {
            let write = &writes[&id.0];
            if is_gone(write) {
                past.push((write.tag, now));
            }
            !is_gone(write)
        });
    }

    /// Forgets values that no read under way can have seen. The oldest such read began at `oldest`.
    fn trim(&mut self, oldest: Option<Stamp>) {
        match oldest {
            Some(oldest) => self.past.retain(|(_, until)| *until > oldest),
            None => self.past.clear(),
        }
    }
}

/// Fills `bytes` with what a write of `range` with this tag holds. Not for [`ZERO`]: a write of
/// zeros holds zeros.
pub fn fill(range: SectorRange, tag: u64, bytes: &mut [u8]) {
    for (index, sector) in bytes.chunks_mut(SECTOR_SIZE as usize).enumerate() {
        let number = range.start + index as u64;
        for (word, place) in sector.chunks_mut(8).enumerate() {
            place.copy_from_slice(&word_of(number, tag, word).to_le_bytes());
        }
    }
}

/// Word number `word` of a sector. Every other word is the tag. The others tell sector and place,
/// so that a torn or misplaced sector is noticed.
fn word_of(number: u64, tag: u64, word: usize) -> u64 {
    if word.is_multiple_of(2) { tag } else { number ^ (word as u64) << 48 }
}

/// The tag of a sector's content. `None` where the content is not one whole sector of one write.
fn tag_of(number: u64, content: &[u8]) -> Option<u64> {
    let (words, _) = content.as_chunks::<8>();
    let tag = u64::from_le_bytes(*words.first()?);
    // Compares all words, even when the first ones differ: so the compiler can compare many at
    // once. This is most of a campaign's own computing time.
    let differs = |(at, word): (usize, &[u8; 8])| {
        let wanted = if tag == ZERO { ZERO } else { word_of(number, tag, at) };
        u64::from_le_bytes(*word) ^ wanted
    };
    let difference = words.iter().enumerate().map(differs).fold(0, |sum, word| sum | word);
    (difference == 0).then_some(tag)
}

#[cfg(test)]
mod tests;
