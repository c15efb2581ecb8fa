// SPDX-License-Identifier: Apache-2.0
//! Reading a volume wholly through one host.

use crate::client::{LoadShared, Subject, connect, errno_name, lock};
use crate::command::ClientCommand;
use anyhow::{Context, Result, bail};
use base::{CHUNK_SECTORS, SECTOR_SIZE, SectorRange};
use nbdclient::socket::{ReplyForm, receive};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The result of reading a volume.
#[derive(Debug, Default)]
pub struct Reading {
    /// Requests of 1 MiB that ended with an error; the first one ends the reading.
    pub failed: u64,
    /// The error.
    pub how: String,
}

/// Reads `subject` through `host`; every sector is told to the oracle. What is wrong stands in the
/// record afterwards.
///
/// # Errors
/// The host cannot be reached, or an answer takes longer than `patience`.
pub fn read_whole(
    shared: &LoadShared,
    subject: &Subject,
    host: usize,
    socket: &Path,
    patience: Duration,
) -> Result<Reading> {
    let begun = Instant::now();
    let (connection, author) = loop {
        if let Some(connected) = connect(shared, host, socket, &subject.name, ReplyForm::Simple) {
            break connected;
        }
        if begun.elapsed() > patience {
            bail!("host{} takes no client of {} for {patience:?}", host + 1, subject.name);
        }
        thread::sleep(RETRY_PAUSE);
    };
    let mut stream = connection.stream()?;
    stream.set_read_timeout(Some(patience))?;
    let sectors = lock(&subject.oracle).sectors();
    assert_eq!(connection.size(), sectors * SECTOR_SIZE, "the export is the volume");
    let mut reading = Reading::default();
    for range in SectorRange::new(0, sectors).split_at_multiples(CHUNK_SECTORS) {
        let id = lock(&subject.oracle).begin_read(range);
        let length = u32::try_from(range.bytes())?;
        let request = ClientCommand::Read.request(range.start, range.start * SECTOR_SIZE, length);
        stream.write_all(&request)?;
        let reply = receive(&mut stream, |_| ClientCommand::Read.answer_bytes(range.bytes()))
            .context("no answer to a read of the check")?;
        if reply.errno != 0 {
            lock(&subject.oracle).read_failed(id);
            // An error comes only after a minute, so the first one ends the reading.
            reading.failed += 1;
            reading.how = errno_name(reply.errno);
            break;
        }
        if let Err(wrong) = lock(&subject.oracle).read(id, author, &reply.data) {
            let text = format!("volume {} through host{}: {wrong}", subject.name, host + 1);
            lock(&shared.record).is_wrong(format!("{text}; read at rest"));
            shared.is_over.store(true, Ordering::SeqCst);
            return Ok(reading);
        }
    }
    let _ = stream.write_all(&ClientCommand::Disconnect.request(0, 0, 0));
    Ok(reading)
}
