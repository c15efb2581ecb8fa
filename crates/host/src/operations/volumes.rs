// SPDX-License-Identifier: Apache-2.0
//! Creating, changing, renaming and deleting volumes through the directory.
//!
//! A transaction of unknown outcome may be applied at any later time (trap 7): one look that does
//! not find it proves nothing. It is therefore repeated until it is decided. What it expects (no
//! such volume, or the volume's revision) holds at most once, so that repeating it does nothing
//! twice.

mod cache;
mod change;
mod create;
mod delete;
mod explain;
mod grow;
mod home;
mod label;
mod life;
mod make;
mod moves;
mod recover;
mod writers;

pub(super) use home::is_at;

use super::{Operations, Outcome, failed, reply};
use base::Instant;
use directory::{Directory, DirectoryError, Entry, Expect, RecordError, Transaction, VolumeRecord};
use env::Env;
use operator::{Command, CommandFailure, CommandReply};
use std::time::Duration;

/// Longest time until a command's transactions are decided; the command line waits for 30 s.
pub(super) const DECIDE_MAX: Duration = Duration::from_secs(15);
/// Longest time until a changed record is decided: the command line waits for 30 s in all.
const CHANGE_MAX: Duration = Duration::from_secs(10);
/// Longest wait until this host's view has what was recorded.
const SEEN_MAX: Duration = Duration::from_secs(2);
/// Time between attempts.
const RETRY: Duration = Duration::from_millis(300);

/// Why a transaction has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undecided {
    /// Surely not applied.
    Away(DirectoryError),
    /// May have been applied, or may still be.
    Unknown,
}

impl Undecided {
    /// What an operator is told; `what` may have been done.
    pub(super) fn told(self, what: &str) -> CommandFailure {
        match self {
            Self::Away(error) => directory_away(error),
            Self::Unknown => unknown(what),
        }
    }
}

impl Operations {
    /// Carries out what is asked about volumes.
    pub(super) async fn volume_command(&self, command: Command) -> CommandReply {
        match command {
            Command::VolumeCreate(new) => reply(self.create(new).await),
            Command::VolumeShow { name } => reply(self.show(&name)),
            Command::VolumeChange { name, reserve_percent } => {
                reply(self.change(&name, reserve_percent).await)
            }
            Command::VolumeGrow { name, size_bytes } => reply(self.grow(&name, size_bytes).await),
            Command::VolumeRedundancy { name, ftt, force } => {
                reply(self.change_redundancy(&name, ftt, force).await)
            }
            Command::VolumeMove { name, from, to } => {
                reply(self.move_copies(&name, &from, to.as_deref()).await)
            }
            Command::VolumeExplain { name } => reply(self.explain(&name)),
            Command::VolumeRecover { name, check } => reply(self.recover(&name, check).await),
            Command::VolumeStay { name } => reply(self.stop_moving(&name).await),
            Command::VolumeConnections { name, connections } => {
                reply(self.change_connections(&name, connections).await)
            }
            Command::VolumeWriters { name, writers } => {
                reply(self.change_writers(&name, writers).await)
            }
            Command::VolumeTakeOver { name, host } => reply(self.take_over(&name, &host).await),
            Command::VolumeCache { name, cache_percent } => {
                reply(self.keep_cache(&name, cache_percent).await)
            }
            Command::VolumeKeep { name, host } => reply(self.keep_on(&name, host.as_deref()).await),
            Command::VolumeLabel { name, set, remove } => {
                reply(self.change_labels(&name, set, &remove).await)
            }
            Command::VolumeSetPolicy { name, policy } => {
                reply(self.set_policy(&name, policy.as_deref()).await)
            }
            Command::VolumeRename { name, new } => reply(self.rename(&name, &new).await),
            Command::VolumeDelete { name, for_good } => reply(self.delete(&name, for_good).await),
            Command::VolumeUndelete { volume, name } => {
                reply(self.undelete(&volume, name.as_deref()).await)
            }
            Command::VolumePurge { volume } => reply(self.purge(&volume).await),
            _ => reply(Ok(self.trash())),
        }
    }

    /// The record at a key of which there is one in a cluster, as the directory has it now, and
    /// what is expected of the key where it is still that.
    pub(super) async fn only_record<R: Default>(
        &self,
        key: &str,
        decode: impl FnOnce(&[u8]) -> Result<R, RecordError>,
    ) -> Outcome<(R, Expect)> {
        let Some(entry) = self.directory.get(key).await.map_err(directory_away)? else {
            return Ok((R::default(), Expect::Absent));
        };
        let record = decode(&entry.value).map_err(|error| {
            failed(format!("the record at {key} cannot be read ({error}): nothing was changed"))
        })?;
        Ok((record, Expect::Revision(entry.revision)))
    }

    /// Writes a value where what is expected of its key holds. Without a reason for the failure it
    /// did not: somebody else was there before.
    pub(super) async fn put_at(
        &self,
        key: String,
        expect: Expect,
        value: Vec<u8>,
    ) -> Result<(), Option<Undecided>> {
        let put = Transaction::new().expect(key.clone(), expect).put(key.clone(), value.clone());
        let landed = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.value == value);
        let until = self.env.now() + CHANGE_MAX;
        match decide(&self.env, &self.directory, &put, &key, landed, until).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(undecided) => Err(Some(undecided)),
        }
    }

    /// Waits a moment until this host's view of a volume is what was recorded.
    pub(super) async fn until_seen(
        &self,
        volume: &VolumeRecord,
        is_it: impl Fn(&VolumeRecord) -> bool,
    ) {
        let is_seen = || {
            let now = self.view.volume(&volume.name);
            now.is_some_and(|now| now.id == volume.id && is_it(&now))
        };
        self.until(is_seen).await;
    }

    /// Waits a moment until this host's view has nothing of that name that is this volume.
    pub(super) async fn until_gone(&self, volume: &VolumeRecord) {
        let is_gone = || self.view.volume(&volume.name).is_none_or(|now| now.id != volume.id);
        self.until(is_gone).await;
    }

    /// Waits a moment until something is so in this host's view.
    pub(super) async fn until(&self, is_so: impl Fn() -> bool) {
        self.until_within(SEEN_MAX, is_so).await;
    }

    /// Waits until something is so in this host's view, but not for longer than `most`. Returns
    /// whether it is.
    pub(super) async fn until_within(&self, most: Duration, is_so: impl Fn() -> bool) -> bool {
        let until = self.env.now() + most;
        while !is_so() {
            if self.env.now() >= until {
                return false;
            }
            let changed = self.view.changed().wait();
            env::select(changed, self.env.sleep(Duration::from_millis(20))).await;
        }
        true
    }
}

/// Transacts until it is decided: true where it was applied, now or by an attempt before.
pub(super) async fn decide(
    env: &Env,
    directory: &Directory,
    transaction: &Transaction,
    probe: &str,
    landed: impl Fn(Option<&Entry>) -> bool,
    until: Instant,
) -> Result<bool, Undecided> {
    let mut is_unknown = false;
    loop {
        match directory.transact(transaction.clone()).await {
            Ok(transacted) if transacted.succeeded => return Ok(true),
            Ok(_) if !is_unknown => return Ok(false),
            // What it expects does not hold any more, so that it cannot land from here on.
            Ok(_) => {
                if let Ok(entry) = directory.get(probe).await {
                    return Ok(landed(entry.as_ref()));
                }
            }
            Err(DirectoryError::Unknown) => is_unknown = true,
            Err(error) if !is_unknown => return Err(Undecided::Away(error)),
            Err(_) => {}
        }
        if env.now() >= until {
            return Err(Undecided::Unknown);
        }
        env.sleep(RETRY).await;
    }
}

pub(super) fn unknown(what: &str) -> CommandFailure {
    failed(format!(
        "the directory does not answer: it is unknown whether {what}, and it may still happen; \
         see 'gabion volume list' when 'gabion status' shows the directory as reachable"
    ))
}

pub(super) fn directory_away(error: DirectoryError) -> CommandFailure {
    let why = match error {
        DirectoryError::Unavailable => "it does not answer".to_owned(),
        error => error.to_string(),
    };
    failed(format!("the directory cannot be used ({why}): nothing was changed; try again"))
}

#[cfg(test)]
mod tests;
