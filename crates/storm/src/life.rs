// SPDX-License-Identifier: Apache-2.0
//! The life of spare volumes beside those under test: an operator makes one, labels, renames and
//! grows it, deletes it, brings it back, and has it go for good, while hosts, links, devices and
//! the directory fail.
//!
//! A command may fail, or have no answer. What there may be then, [`history`] says; what there is,
//! the directory's records. A few blocks are written, and looked at when all is calm (`spare.rs`).

mod choice;
mod history;

use crate::cluster::{Asking, Cluster};
use crate::plan::growth::AFFINITY_FROM;
use crate::plan::{WRITERS_FROM, may_keep_cache};

use crate::releases;
use base::{Instant, Map, Rng};
pub(crate) use choice::SpareDeed;
use directory::{VOLUME_PREFIX, VolumeRecord};
use env::Task;
use history::VolumeState;
pub(crate) use history::{Ending, SpareHistory, SparePlace};
use host::Node;
use operator::{Command, CommandReply};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use volume::Device;

/// The random numbers of all of this.
const STREAM: u64 = 36;
/// How the name of each spare volume begins.
pub(crate) const PREFIX: &str = "spare";
/// How long somebody waits for an answer: as long as the command line.
const PATIENCE: Duration = Duration::from_secs(30);
/// After this time nothing is left of what had no answer, where nothing fails any more.
const CALM: Duration = Duration::from_secs(60);
/// Time between two deeds at most.
const PAUSE_MAX_MS: u64 = 1500;
/// Bytes of a block that is written.
pub(crate) const BLOCK: usize = 4096;
/// From one such block to the next, bytes.
pub(crate) const BLOCKS_APART: u64 = 512 << 10;

/// What is to be found in one block.
#[derive(Clone, Debug)]
pub(crate) struct BlockState {
    pub(crate) can: Vec<u8>,
    /// A write of it had no answer: it may land later, so the block is not written again.
    is_open: bool,
}

/// What was asked last.
pub(crate) struct Asked {
    deed: SpareDeed,
    answer: Answer,
    until: Instant,
}

enum Answer {
    Command(Asking),
    /// Of a write, once there is one.
    Write(Rc<RefCell<Option<Ending>>>, Task),
}

/// Spare volumes, one after the other.
pub(crate) struct Life {
    pub(crate) rng: Rng,
    /// Whether one host at a time may write to them.
    pub(crate) may_have_one: bool,
    /// Whether those of one copy may be kept on one host.
    pub(crate) may_be_kept: bool,
    /// Whether read cache may be kept for them.
    pub(crate) may_keep_cache: bool,
    /// Whether this round has any.
    pub(crate) is_on: bool,
    /// Whether there may be something of one.
    pub(crate) is_begun: bool,
    /// The number of the present one.
    number: u64,
    /// Names that were thought of.
    names: u64,
    pub(crate) history: SpareHistory,
    pub(crate) blocks: Map<u64, BlockState>,
    pub(crate) asked: Option<Asked>,
    next_at: Instant,
    /// When everything is surely over that had no answer.
    pub(crate) calm_at: Instant,
    pub(crate) wrong: Option<String>,
}

impl Life {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::stream(seed, STREAM),
            may_have_one: seed >= WRITERS_FROM && !releases::are_mixed(seed),
            may_be_kept: seed >= AFFINITY_FROM && !releases::are_mixed(seed),
            may_keep_cache: may_keep_cache(seed),
            is_on: false,
            is_begun: false,
            number: 1,
            names: 0,
            history: SpareHistory::new(),
            blocks: Map::new(),
            asked: None,
            next_at: Instant::default(),
            calm_at: Instant::default(),
            wrong: None,
        }
    }

    /// Notes the answer to what was asked last, if there is one, and asks for something else if it
    /// is time for that.
    pub(crate) fn go_on(&mut self, cluster: &Cluster, object_bytes: u64) {
        let now = cluster.world.now();
        if let Some(asked) = self.asked.take() {
            if !asked.is_over() && now < asked.until {
                self.asked = Some(asked);
                return;
            }
            let (deed, ending) = asked.ending();
            self.note(cluster, &deed, ending);
            self.next_at = now + Duration::from_millis(self.rng.below(PAUSE_MAX_MS));
        }
        if !self.is_on || now < self.next_at || self.wrong.is_some() {
            return;
        }
        self.look(cluster, None);
        let Some(deed) = self.choose(object_bytes, &cluster.host_names()) else { return };
        let up: Vec<usize> =
            (0..cluster.machines.len()).filter(|index| cluster.node(*index).is_some()).collect();
        let Some(host) = choice::any_of(&mut self.rng, &up).copied() else { return };
        self.is_begun = true;
        tracing::info!(host = host + 1, ?deed, "spare volume");
        let answer = match &deed {
            SpareDeed::Command(command) => {
                cluster.asked(host, command.clone()).map(Answer::Command)
            }
            SpareDeed::Write { name, block, byte } => write(cluster, host, name, *block, *byte),
        };
        self.asked = answer.map(|answer| Asked { deed, answer, until: now + PATIENCE });
    }

    /// Notes how a deed ended, and what there is now.
    pub(crate) fn note(&mut self, cluster: &Cluster, deed: &SpareDeed, ending: Ending) {
        tracing::info!(?deed, ?ending, "spare volume");
        if ending == Ending::Unknown {
            base::hit(base::Probe::SpareUnanswered);
            self.calm_at = cluster.world.now() + CALM;
        }
        match deed {
            SpareDeed::Command(command) => self.look(cluster, Some((command, ending))),
            SpareDeed::Write { block, byte, .. } => {
                let state = self.blocks.entry(*block).or_insert_with(BlockState::zero);
                match ending {
                    Ending::Done => state.can = vec![*byte],
                    Ending::Unknown => {
                        state.can.push(*byte);
                        state.is_open = true;
                    }
                    Ending::Refused => {}
                }
            }
        }
    }

    /// Compares what there is with what there may be.
    pub(crate) fn look(&mut self, cluster: &Cluster, command: Option<(&Command, Ending)>) {
        let mine = format!("{PREFIX}{}-", self.number);
        let mut found: Vec<VolumeRecord> = spare_volumes(cluster);
        found.retain(|record| called(record).starts_with(&mine));
        let looked = match &found[..] {
            [] => self.history.look(None, command),
            [record] => {
                let state = VolumeState::of_record(record);
                self.history.look(Some((record.id, state)), command)
            }
            _ => Err(format!("there are two of one volume: {found:?}")),
        };
        if let Err(what) = looked {
            self.wrong.get_or_insert(format!("spare volume: {what}"));
        }
        if let Some((command, Ending::Done)) = command {
            count(cluster, command, &found);
        }
    }
}

impl BlockState {
    pub(crate) fn zero() -> Self {
        Self { can: vec![0], is_open: false }
    }
}

impl Asked {
    fn is_over(&self) -> bool {
        match &self.answer {
            Answer::Command(asking) => asking.is_over(),
            Answer::Write(ending, _) => ending.borrow().is_some(),
        }
    }

    /// How it ended; who asked waits no longer.
    fn ending(self) -> (SpareDeed, Ending) {
        let ending = match self.answer {
            Answer::Command(asking) => ending_of(&self.deed, asking.take()),
            Answer::Write(ending, _task) => ending.borrow().unwrap_or(Ending::Unknown),
        };
        (self.deed, ending)
    }
}

/// What an answer says.
pub(crate) fn ending_of(deed: &SpareDeed, answer: Option<CommandReply>) -> Ending {
    match answer {
        Some(CommandReply::Ok(_)) => Ending::Done,
        // Its first steps may have been done.
        Some(CommandReply::Error(_))
            if matches!(deed, SpareDeed::Command(Command::VolumeGrow { .. })) =>
        {
            Ending::Unknown
        }
        Some(CommandReply::Error(failure)) => {
            tracing::info!(message = failure.message, "refused");
            let is_unknown = failure.message.contains("it is unknown whether");
            if is_unknown { Ending::Unknown } else { Ending::Refused }
        }
        None => Ending::Unknown,
    }
}

/// The name that a volume has, or had before it was deleted.
pub(crate) fn called(record: &VolumeRecord) -> &str {
    record.trashed.as_ref().map_or(&record.name, |trashed| &trashed.name)
}

/// The records of all spare volumes.
pub(crate) fn spare_volumes(cluster: &Cluster) -> Vec<VolumeRecord> {
    let entries = cluster.records.snapshot().entries.into_iter();
    let volumes = entries.filter(|(key, ..)| key.starts_with(VOLUME_PREFIX));
    let decoded = volumes.filter_map(|(_, entry, _)| VolumeRecord::decode(&entry.value).ok());
    decoded.filter(|record| called(record).starts_with(PREFIX)).collect()
}

/// Counts what was done.
fn count(cluster: &Cluster, command: &Command, found: &[VolumeRecord]) {
    let probe = match command {
        Command::VolumeCreate(new) => {
            let ids = found.iter().flat_map(|record| &record.objects);
            let copies = ids.filter_map(|id| cluster.records.of_id(*id));
            let is_short = |copies: usize| copies < usize::from(new.ftt) + 1;
            let mut copies = copies.map(|object| object.components.len());
            base::hit_if(copies.any(is_short), base::Probe::SpareForced);
            base::Probe::SpareMade
        }
        Command::VolumeRename { .. } => base::Probe::SpareRenamed,
        Command::VolumeKeep { host: Some(_), .. } => base::Probe::SpareKept,
        Command::VolumeUndelete { .. } => base::Probe::SpareBroughtBack,
        _ => return,
    };
    base::hit(probe);
}

/// Has a host write one block. `None`: it is down.
fn write(cluster: &Cluster, host: usize, name: &str, block: u64, byte: u8) -> Option<Answer> {
    let (env, node) = (cluster.world.env(cluster.machines[host].key)?, cluster.node(host)?);
    let ending = Rc::new(RefCell::new(None));
    let (place, inner, name) = (Rc::clone(&ending), env.clone(), name.to_owned());
    let task = env.spawn("spare client", async move {
        let ended = write_block(&inner, &node, &name, (block, byte)).await;
        *place.borrow_mut() = Some(ended);
    });
    Some(Answer::Write(ending, task))
}

async fn write_block(env: &env::Env, node: &Node, name: &str, (block, byte): (u64, u8)) -> Ending {
    let Ok(device) = node.exports().attach(name) else { return Ending::Refused };
    let mut data = env.buf(BLOCK);
    data.fill(byte);
    let written = device.write(block * BLOCKS_APART, data.freeze()).await;
    if written.is_ok() { Ending::Done } else { Ending::Unknown }
}
