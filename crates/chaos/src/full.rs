// SPDX-License-Identifier: Apache-2.0
//! The phase in which space runs out: a volume is written until a write gets ENOSPC. Writes to
//! space that is there already must go on, and space that is given back must be usable again.

use crate::campaign::{Campaign, Waited};
use crate::client::ENOSPC;
use crate::cluster::host_name;
use crate::command::ClientCommand;
use crate::fault::{FaultKind, HOSTS, draw_index};
use crate::record::Occurrence;
use anyhow::{Context, Result, bail};
use base::Set;
use nbdclient::socket::{Connection, ReplyForm, receive};
use std::io::Write;
use std::time::{Duration, Instant};

/// More than all groups together hold.
const FILLER_BYTES: u64 = 8 << 30;
/// Bytes of one write.
const PIECE: u32 = 1 << 20;
/// Pieces that must fit again once the filler is deleted.
const PIECES_AFTER: u64 = 64;
/// Space that was given back must be usable within this time.
const FREE_WITHIN: Duration = Duration::from_secs(30);
/// How long the others' load goes on without space.
const UNDER_LOAD: Duration = Duration::from_secs(4);
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

impl Campaign {
    /// Fills the datastore under load, checks that what is promised for that case is kept, and
    /// gives the space back.
    ///
    /// # Errors
    /// A command failed, or a host cannot be reached.
    pub fn fill_up(&mut self) -> Result<()> {
        let (host, begun) = (draw_index(&mut self.rng, HOSTS), Instant::now());
        let at = self.begun.elapsed().as_secs_f64();
        self.say(&format!("{at:7.1} s  full: through {}", host_name(host)));
        // A host that was cut off a moment ago is still on its way back to the directory.
        self.create_within("filler", host)?;
        let mut filler = Filler::open(self, "filler", host)?;
        let written =
            filler.until_refused(FILLER_BYTES / u64::from(PIECE), || !self.may_go_on())?;
        self.rest(UNDER_LOAD);
        let last = written.saturating_sub(1);
        for piece in [0, last / 2, last] {
            let errno = filler.write(piece)?;
            if errno != 0 {
                self.troubles.push(format!("full: an overwrite got error {errno}"));
            }
        }
        drop(filler);
        self.cluster.ask(host, &["volume", "delete", "--now", "--yes", "filler"])?;
        let freed = Instant::now();
        // A device that is nearly full takes no new volume: its space has to be back first.
        self.create_within("after", host)?;
        let mut after = Filler::open(self, "after", host)?;
        let freed_in = self.wait(FREE_WITHIN, || {
            after.until_refused(PIECES_AFTER, || false).is_ok_and(|count| count == PIECES_AFTER)
        });
        if freed_in == Waited::Late {
            self.troubles.push(format!("full: no space {FREE_WITHIN:?} after it was given back"));
        }
        self.notes.push(format!(
            "full: ENOSPC after {written} MiB, overwrites went on; space of a deleted volume used \
             again after {:.1} s",
            freed.elapsed().as_secs_f64()
        ));
        drop(after);
        self.cluster.ask(host, &["volume", "delete", "--now", "--yes", "after"])?;
        self.conclude(Occurrence {
            label: FaultKind::Full.to_string(),
            begun,
            healed: Instant::now(),
            green_after: None,
            victims: Set::new(),
            stall_max: FaultKind::Full.device_limit(),
            is_beyond: false,
            is_cut_short: false,
        });
        Ok(())
    }

    /// Creates a volume. Tries again for [`FREE_WITHIN`], then fails with the error of one last
    /// try.
    fn create_within(&self, name: &str, host: usize) -> Result<()> {
        match self.wait(FREE_WITHIN, || self.create(name, host).is_ok()) {
            Waited::Met => Ok(()),
            Waited::Late => self.create(name, host),
            Waited::CutShort => bail!("the campaign was ended"),
        }
    }

    fn create(&self, name: &str, host: usize) -> Result<()> {
        let bytes = FILLER_BYTES.to_string();
        self.cluster.ask(host, &["volume", "create", name, "--size", &bytes]).map(drop)
    }
}

/// One client that writes, one request at a time.
struct Filler {
    stream: std::os::unix::net::UnixStream,
    payload: Vec<u8>,
    cookie: u64,
}

impl Filler {
    fn open(campaign: &Campaign, name: &str, host: usize) -> Result<Self> {
        let socket = campaign.cluster.socket(host);
        let connection = Connection::open(&socket, name, ReplyForm::Simple, HANDSHAKE_PATIENCE)
            .with_context(|| format!("{} does not export '{name}'", host_name(host)))?;
        let payload = vec![0xA5; usize::try_from(PIECE)?];
        Ok(Self { stream: connection.stream()?, payload, cookie: 0 })
    }

    /// Writes pieces one after the other. Returns how many were written before there was no space.
    fn until_refused(&mut self, most: u64, is_over: impl Fn() -> bool) -> Result<u64> {
        for piece in 0..most {
            match self.write(piece)? {
                0 if is_over() => return Ok(piece),
                0 => {}
                ENOSPC => return Ok(piece),
                errno => bail!("a write of new space got error {errno}"),
            }
        }
        Ok(most)
    }

    fn write(&mut self, piece: u64) -> Result<u32> {
        self.cookie += 1;
        let head = ClientCommand::Write.request(self.cookie, piece * u64::from(PIECE), PIECE);
        self.stream.write_all(&head)?;
        self.stream.write_all(&self.payload)?;
        let reply = receive(&mut self.stream, |_| 0)?;
        if reply.cookie != self.cookie {
            bail!("an answer to request {}, not {}", reply.cookie, self.cookie);
        }
        Ok(reply.errno)
    }
}
