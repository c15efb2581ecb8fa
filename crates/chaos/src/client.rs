// SPDX-License-Identifier: Apache-2.0
//! Clients that verify: each has a connection to one volume through one host, with several
//! requests under way, and tells the volume's oracle what it asked and what it got.
//!
//! What the oracle is told must be true (`oracle::Oracle` says what it concludes):
//! - The *run* of an author counts the processes of its host. A connection belongs to a run that
//!   was current before the socket was opened and still was when the handshake had ended. The count
//!   rises only when the old process is dead, and the next process starts only after that.
//! - A write whose connection ended is *unanswered* only once a later handshake with that export of
//!   that host is done. Until then the host may still read the write from the old socket. After
//!   that the write is finished, or waits in the host's range lock before everything that comes
//!   later (rules 46, 47), or died with the process. So "a later operation of its host on the range
//!   was answered" holds across connections, because a host opens a volume once for all of them.
//! - A request is never given up while its connection lives.
//! - Terms are not known here. Every unanswered write may carry the highest term, and no host is
//!   said to serve. That leaves more values allowed than in simulation, never fewer.

use crate::command::ClientCommand;
use crate::record::{Ended, Record};
use base::{Map, Rng, SECTOR_SIZE, SectorRange};
use nbd::numbers::STATE_HOLE_ZERO;
use nbdclient::frames::NbdReply;
use nbdclient::socket::{self, Connection, ReplyForm};
use oracle::{Author, Oracle, ReadId, WriteId, fill};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Largest operation, sectors.
const COUNT_MAX: u64 = 2048;
/// A host that stands still does not answer a handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(3);
/// The pause before another attempt to connect, or another look whether to begin.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// One in so many operations is followed by the sudden end of the connection.
const BREAK_ONE_IN: u64 = 1500;
/// One in so many reads of a client with structured replies asks for block status instead.
const STATUS_ONE_IN: u64 = 4;
/// The longest pause between two operations, microseconds.
const PAUSE_US_MAX: u64 = 3000;
/// The longest wait for room before a client looks again whether it is to end.
const ROOM_LOOK: Duration = Duration::from_millis(50);

/// Locks `mutex`, even after another thread panicked: that ends the campaign elsewhere.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A volume and what it may hold.
#[derive(Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What may be read.
    pub oracle: Mutex<Oracle>,
}

/// What the clients share with the campaign.
#[derive(Debug, Default)]
pub struct LoadShared {
    /// Whether clients begin new operations.
    pub is_open: AtomicBool,
    /// Whether all clients must end, at once.
    pub is_over: AtomicBool,
    /// The current run of each host.
    pub runs: [AtomicU64; crate::fault::HOSTS],
    /// What happened.
    pub record: Mutex<Record>,
    /// Connections that serve clients of this campaign now.
    pub serving: AtomicU64,
    /// When the operations under way began, by client and request.
    under_way: Mutex<Map<(usize, u64), Instant>>,
}

impl LoadShared {
    /// When the oldest operation under way began.
    pub fn oldest(&self) -> Option<Instant> {
        lock(&self.under_way).values().min().copied()
    }

    /// Ends the campaign: something holds what it may not.
    fn is_wrong(&self, description: String) {
        lock(&self.record).is_wrong(description);
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn admits(&self) -> bool {
        self.is_open.load(Ordering::SeqCst) && !self.is_over.load(Ordering::SeqCst)
    }
}

/// One client.
pub struct LoadClient {
    /// A number of its own.
    pub number: usize,
    /// The host that it uses, from zero.
    pub host: usize,
    /// That host's socket.
    pub socket: PathBuf,
    /// The volume.
    pub subject: Arc<Subject>,
    /// What all share.
    pub shared: Arc<LoadShared>,
    /// Requests under way at most.
    pub depth: usize,
    /// Whether it only reads. Such a client goes on where writers wait.
    pub is_reader: bool,
    /// In which form it is answered.
    pub form: ReplyForm,
    /// Its draws.
    pub rng: Rng,
}

/// The error of a write that finds no space.
pub const ENOSPC: u32 = 28;
const BROKEN_OFF: &str = "broken off by the client";

/// A request under way, as the oracle knows it.
enum Known {
    Read(ReadId),
    Write(WriteId),
}

struct Flight {
    known: Known,
    command: ClientCommand,
    range: SectorRange,
    begun: Instant,
}

impl Flight {
    fn ends_now(&self, host: usize) -> Ended {
        let (command, begun) = (self.command, self.begun);
        Ended { host, command, begun, ended: Instant::now(), is_error: false }
    }
}

/// The requests of one connection.
#[derive(Default)]
struct Flights {
    map: Mutex<Map<u64, Flight>>,
    changed: Condvar,
    is_broken: AtomicBool,
}

impl LoadClient {
    /// Runs until the campaign is over.
    pub fn run(mut self) {
        let mut unsettled = Vec::new();
        while !self.shared.is_over.load(Ordering::SeqCst) {
            // A write whose outcome is unknown is settled even where no new operation may begin.
            if !self.shared.admits() && unsettled.is_empty() {
                thread::sleep(RETRY_PAUSE);
                continue;
            }
            let Some((connection, author)) = self.connect() else {
                thread::sleep(RETRY_PAUSE);
                continue;
            };
            self.settle(&mut unsettled);
            self.shared.serving.fetch_add(1, Ordering::SeqCst);
            self.serve(&connection, author, &mut unsettled);
            self.shared.serving.fetch_sub(1, Ordering::SeqCst);
        }
        self.settle(&mut unsettled);
    }

    /// Settles writes of older connections. By now each is finished, or died with its process.
    fn settle(&self, unsettled: &mut Vec<WriteId>) {
        let mut oracle = lock(&self.subject.oracle);
        for id in unsettled.drain(..) {
            oracle.unanswered(id, u64::MAX);
        }
    }

    fn connect(&self) -> Option<(Connection, Author)> {
        connect(&self.shared, self.host, &self.socket, &self.subject.name, self.form)
    }

    /// One connection, from its first request to its end.
    fn serve(&mut self, connection: &Connection, author: Author, unsettled: &mut Vec<WriteId>) {
        let (Ok(receiving), Ok(mut sending)) = (connection.stream(), connection.stream()) else {
            return;
        };
        let flights = Flights::default();
        let (subject, shared) = (Arc::clone(&self.subject), Arc::clone(&self.shared));
        let (number, host) = (self.number, self.host);
        let mut is_own_end = false;
        thread::scope(|scope| {
            let receiver = Receiver { subject, shared, flights: &flights, number, host, author };
            scope.spawn(move || receiver.run(receiving));
            is_own_end = self.send_all(&mut sending, &flights, author);
            // Ends the receiver, if it still waits.
            let _ = sending.shutdown(Shutdown::Both);
        });
        let left = std::mem::take(&mut *lock(&flights.map));
        let count = u64::try_from(left.len()).unwrap_or(u64::MAX);
        let how = if is_own_end { BROKEN_OFF } else { "connection lost" };
        lock(&self.shared.record).failed(how, count);
        for (cookie, flight) in left {
            if !is_own_end {
                let end = Ended { is_error: true, ..flight.ends_now(self.host) };
                lock(&self.shared.record).ended(end);
            }
            lock(&self.shared.under_way).remove(&(self.number, cookie));
            match flight.known {
                Known::Read(id) => lock(&self.subject.oracle).read_failed(id),
                Known::Write(id) => unsettled.push(id),
            }
        }
    }

    /// Sends until something ends that. True if the client itself broke the connection off.
    fn send_all(&mut self, stream: &mut UnixStream, flights: &Flights, author: Author) -> bool {
        let mut cookie = 0;
        while self.shared.admits() && !flights.is_broken.load(Ordering::SeqCst) {
            if !self.has_room(flights, self.depth) {
                continue;
            }
            cookie += 1;
            if self.send_one(stream, flights, author, cookie).is_err() {
                return false;
            }
            if self.rng.below(BREAK_ONE_IN) == 0 {
                return true; // a client that dies, with requests under way
            }
            thread::sleep(Duration::from_micros(self.rng.below(PAUSE_US_MAX)));
        }
        // Waits for the remaining answers, unless the campaign is over.
        let is_over = || self.shared.is_over.load(Ordering::SeqCst);
        while !flights.is_broken.load(Ordering::SeqCst) && !is_over() {
            if self.has_room(flights, 1) {
                break;
            }
        }
        if lock(&flights.map).is_empty() {
            let _ = stream.write_all(&ClientCommand::Disconnect.request(0, 0, 0));
        }
        false
    }

    /// Waits a moment until fewer than `depth` requests are under way.
    fn has_room(&self, flights: &Flights, depth: usize) -> bool {
        let map = lock(&flights.map);
        let full = |map: &mut Map<u64, Flight>| map.len() >= depth;
        let waited = flights.changed.wait_timeout_while(map, ROOM_LOOK, full);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn send_one(
        &mut self,
        stream: &mut UnixStream,
        flights: &Flights,
        author: Author,
        cookie: u64,
    ) -> std::io::Result<()> {
        let range = self.choose();
        let command = self.command();
        let (known, tag) = {
            let mut oracle = lock(&self.subject.oracle);
            if matches!(command, ClientCommand::Read | ClientCommand::Status) {
                (Known::Read(oracle.begin_read(range)), 0)
            } else {
                let is_zero = command != ClientCommand::Write;
                match oracle.begin_write(author, range, is_zero) {
                    Some((id, tag)) => (Known::Write(id), tag),
                    None => return Ok(()), // somebody else writes there
                }
            }
        };
        let begun = Instant::now();
        lock(&self.shared.under_way).insert((self.number, cookie), begun);
        lock(&flights.map).insert(cookie, Flight { known, command, range, begun });
        let length = u32::try_from(range.bytes()).unwrap_or(u32::MAX);
        let mut bytes = command.request(cookie, range.start * SECTOR_SIZE, length).to_vec();
        if command == ClientCommand::Write {
            let head = bytes.len();
            bytes.resize(head + usize::try_from(range.bytes()).unwrap_or(usize::MAX), 0);
            fill(range, tag, &mut bytes[head..]);
        }
        stream.write_all(&bytes)
    }

    fn command(&mut self) -> ClientCommand {
        let draw = if self.is_reader { u64::MAX } else { self.rng.below(20) };
        let may_ask = self.form == ReplyForm::Structured;
        match draw {
            0..9 => ClientCommand::Write,
            9 => ClientCommand::Trim,
            10 => ClientCommand::Zeroes,
            _ if may_ask && self.rng.below(STATUS_ONE_IN) == 0 => ClientCommand::Status,
            _ => ClientCommand::Read,
        }
    }

    /// Half of all operations meet in a small region, which moves.
    fn choose(&mut self) -> SectorRange {
        let sectors = lock(&self.subject.oracle).sectors();
        let (unit, count) = match self.rng.below(20) {
            0..10 => (8, 8),
            10..15 => (1, 1 + self.rng.below(8)),
            15..19 => (8, 8 * (1 + self.rng.below(32))),
            _ => (1, 1 + self.rng.below(COUNT_MAX)),
        };
        let count = count.min(sectors);
        let is_hot = self.rng.below(2) == 0;
        let span = if is_hot { sectors.min(1024.max(count)) } else { sectors };
        let start = self.rng.below(span - count + 1) / unit * unit;
        SectorRange::new(start, count)
    }
}

/// A connection to the export of a host and the run that serves it, or nothing.
pub fn connect(
    shared: &LoadShared,
    host: usize,
    socket: &std::path::Path,
    export: &str,
    form: ReplyForm,
) -> Option<(Connection, Author)> {
    let run = shared.runs[host].load(Ordering::SeqCst);
    let connection = Connection::open(socket, export, form, HANDSHAKE_PATIENCE).ok()?;
    let is_of_run = shared.runs[host].load(Ordering::SeqCst) == run;
    let author = Author { host: u32::try_from(host).unwrap_or(u32::MAX), run };
    is_of_run.then_some((connection, author))
}

/// The half of a client that waits for answers.
struct Receiver<'a> {
    subject: Arc<Subject>,
    shared: Arc<LoadShared>,
    flights: &'a Flights,
    number: usize,
    host: usize,
    author: Author,
}

impl Receiver<'_> {
    fn run(self, mut stream: UnixStream) {
        while self.receive(&mut stream).is_ok() {}
        self.flights.is_broken.store(true, Ordering::SeqCst);
        self.flights.changed.notify_all();
    }

    fn receive(&self, stream: &mut UnixStream) -> std::io::Result<()> {
        // If the connection ends within the data, the request stays one without an answer.
        let reply = socket::receive(stream, |cookie| {
            let map = lock(&self.flights.map);
            map.get(&cookie).map_or(0, |f| f.command.answer_bytes(f.range.bytes()))
        })?;
        let Some(flight) = lock(&self.flights.map).remove(&reply.cookie) else {
            self.shared.is_wrong(format!("an answer to no request: {reply:?}"));
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        let end = flight.ends_now(self.host);
        self.flights.changed.notify_all();
        lock(&self.shared.under_way).remove(&(self.number, reply.cookie));
        self.conclude(&flight, &reply, end);
        Ok(())
    }

    fn conclude(&self, flight: &Flight, reply: &NbdReply, end: Ended) {
        let mut oracle = lock(&self.subject.oracle);
        let checked = match (&flight.known, reply.errno) {
            (Known::Read(id), 0) if flight.command == ClientCommand::Status => {
                match parts(flight.range, &reply.extents) {
                    Some(parts) => {
                        let has_hole = parts.iter().any(|(_, is_data)| !is_data);
                        lock(&self.shared.record).holes += u64::from(has_hole);
                        oracle.status(*id, self.author, &parts)
                    }
                    None => {
                        oracle.read_failed(*id);
                        drop(oracle);
                        return self.shared.is_wrong(format!("no block status: {reply:?}"));
                    }
                }
            }
            (Known::Read(id), 0) => oracle.read(*id, self.author, &reply.data),
            (Known::Read(id), _) => {
                oracle.read_failed(*id);
                Ok(())
            }
            (Known::Write(id), 0) => {
                oracle.acknowledged(*id);
                Ok(())
            }
            (Known::Write(id), _) => {
                oracle.unanswered(*id, u64::MAX);
                Ok(())
            }
        };
        drop(oracle);
        if let Err(wrong) = checked {
            self.shared.is_wrong(self.describe(flight, &wrong));
        }
        let mut record = lock(&self.shared.record);
        match reply.errno {
            0 => record.answered(end),
            errno => {
                record.failed(&format!("{} of a {}", errno_name(errno), flight.command), 1);
                // A device without space is no failure of a host.
                record.ended(Ended { is_error: errno != ENOSPC, ..end });
            }
        }
    }

    fn describe(&self, flight: &Flight, wrong: &oracle::Wrong) -> String {
        let (name, host, run) = (&self.subject.name, self.host + 1, self.author.run);
        let mut text = format!("volume {name} through host{host} (run {run}): {wrong}");
        let (command, range) = (flight.command, flight.range);
        let _ = write!(text, "; a {command} of {} sectors at {}", range.count, range.start);
        text
    }
}

/// The parts of `range` that an answer tells of, each with whether it may hold data. Nothing where
/// the answer tells of no whole sectors, or of more than was asked for.
fn parts(range: SectorRange, extents: &[(u32, u32)]) -> Option<Vec<(SectorRange, bool)>> {
    let mut at = range.start;
    let mut parts = Vec::with_capacity(extents.len());
    for (bytes, state) in extents {
        let bytes = u64::from(*bytes);
        let part = SectorRange::new(at, bytes / SECTOR_SIZE);
        let is_known = *state == 0 || *state == STATE_HOLE_ZERO;
        if bytes == 0 || bytes % SECTOR_SIZE != 0 || part.end() > range.end() || !is_known {
            return None;
        }
        parts.push((part, *state == 0));
        at = part.end();
    }
    (!parts.is_empty()).then_some(parts)
}

/// The name of an error that NBD knows.
pub fn errno_name(errno: u32) -> String {
    match errno {
        5 => "EIO".to_owned(),
        22 => "EINVAL".to_owned(),
        ENOSPC => "ENOSPC".to_owned(),
        108 => "ESHUTDOWN".to_owned(),
        other => format!("error {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stay_within_the_volume_and_have_every_size() {
        let oracle = Mutex::new(Oracle::new(4096));
        let subject = Arc::new(Subject { name: "v".to_owned(), oracle });
        let mut client = LoadClient {
            number: 0,
            host: 0,
            socket: PathBuf::new(),
            subject,
            shared: Arc::default(),
            depth: 1,
            is_reader: false,
            form: ReplyForm::Simple,
            rng: Rng::new(1),
        };
        let ranges: Vec<_> = (0..4000).map(|_| client.choose()).collect();
        assert!(ranges.iter().all(|range| range.end() <= 4096 && range.count > 0));
        assert!(ranges.iter().any(|range| range.count == 1));
        assert!(ranges.iter().any(|range| range.count > 1800));
        let commands: base::Set<_> = (0..400).map(|_| client.command()).collect();
        assert_eq!(commands.len(), 4, "{commands:?}");
        client.is_reader = true;
        assert!((0..400).all(|_| client.command() == ClientCommand::Read));
        client.form = ReplyForm::Structured;
        let commands: base::Set<_> = (0..400).map(|_| client.command()).collect();
        assert_eq!(commands, base::Set::from_iter([ClientCommand::Read, ClientCommand::Status]));
    }

    #[test]
    fn block_status_tells_of_whole_sectors_within_what_was_asked_for() {
        let range = SectorRange::new(8, 4);
        let told = |extents: &[(u32, u32)]| parts(range, extents);
        let hole = (SectorRange::new(8, 1), false);
        assert_eq!(told(&[(512, 3)]), Some(vec![hole]), "it may end early");
        let data = (SectorRange::new(9, 3), true);
        assert_eq!(told(&[(512, 3), (1536, 0)]), Some(vec![hole, data]));
        let wrong: [&[(u32, u32)]; 5] =
            [&[], &[(512, 3), (2048, 0)], &[(100, 0)], &[(0, 0)], &[(512, 2)]];
        assert!(wrong.iter().all(|extents| told(extents).is_none()));
    }

    #[test]
    fn the_oldest_operation_is_known() {
        let shared = LoadShared::default();
        assert_eq!(shared.oldest(), None);
        let now = Instant::now();
        lock(&shared.under_way).insert((1, 1), now);
        lock(&shared.under_way).insert((0, 9), now - Duration::from_secs(1));
        assert_eq!(shared.oldest(), Some(now - Duration::from_secs(1)));
    }
}
