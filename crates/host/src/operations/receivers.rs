// SPDX-License-Identifier: Apache-2.0
//! Who is told of what health checks find (docs/operations/notifications.md). The API tells them;
//! the directory keeps who they are and what they were told, so that whichever host tells goes on
//! where another one stopped.

use super::{Operations, Outcome, failed, missing, reply, usage};
use directory::{
    Expect, Level, NoticeLevel, NoticeReceiver, RECEIVERS_MAX, ReceiverTrouble, ReceiversRecord,
    TROUBLE_BYTES_MAX, ToldCheck, receivers_key,
};
use operator::{Command, CommandFailure, CommandReply, ReceiverReport, ReceiversReport};

/// How often a note is written again where somebody else changed the record in between: as many
/// hosts as may tell at once, about.
const ATTEMPTS_MAX: usize = 5;

impl Operations {
    /// Carries out what is asked about receivers.
    pub(super) async fn receiver_command(&self, command: Command) -> CommandReply {
        match command {
            Command::NotifyShow { name } => reply(self.receiver(&name)),
            Command::NotifyDelete { name } => reply(self.delete_receiver(&name).await),
            Command::NotifyAdd { name, way, from_state, groups, remind_seconds } => {
                let receiver = NoticeReceiver {
                    name,
                    created: self.seconds(),
                    way,
                    from_state: from_state.unwrap_or(NoticeLevel::Yellow),
                    groups,
                    remind_seconds,
                    told: Vec::new(),
                    trouble: None,
                };
                reply(self.add_receiver(receiver).await)
            }
            _ => reply(Ok(self.receivers())),
        }
    }

    fn receivers(&self) -> Vec<ReceiverReport> {
        let record = self.view.receivers();
        let mut reports: Vec<_> = record.receivers.iter().map(ReceiverReport::of).collect();
        reports.sort_by(|one, other| one.name.cmp(&other.name));
        reports
    }

    fn receiver(&self, name: &str) -> Outcome<ReceiverReport> {
        let record = self.view.receivers();
        record.receiver(name).map(ReceiverReport::of).ok_or_else(|| nobody(name))
    }

    async fn add_receiver(&self, receiver: NoticeReceiver) -> Outcome<ReceiverReport> {
        receiver.check().map_err(usage)?;
        self.need(Level::ACCESS, "receivers of notifications")?;
        let (mut record, expect) = self.receivers_now().await?;
        let name = receiver.name.clone();
        if record.receiver(&name).is_some() {
            return Err(failed(format!(
                "there is a receiver '{name}' already: choose another name, or delete it ('gabion \
                 notify delete {name}')"
            )));
        }
        if record.receivers.len() >= RECEIVERS_MAX {
            return Err(failed(format!(
                "there are {RECEIVERS_MAX} receivers, the most that there can be: delete one"
            )));
        }
        let report = ReceiverReport::of(&receiver);
        record.receivers.push(receiver);
        self.put_receivers(&record, expect, &format!("receiver '{name}' was made")).await?;
        Ok(report)
    }

    async fn delete_receiver(&self, name: &str) -> Outcome<ReceiverReport> {
        let (mut record, expect) = self.receivers_now().await?;
        let at = record.receivers.iter().position(|receiver| receiver.name == name);
        let gone = record.receivers.remove(at.ok_or_else(|| nobody(name))?);
        self.put_receivers(&record, expect, &format!("receiver '{name}' was deleted")).await?;
        Ok(ReceiverReport::of(&gone))
    }

    /// All receivers, as this host last heard of them: also while the directory is away.
    pub(super) fn receivers_with_secrets(&self) -> ReceiversReport {
        let cluster = format!("gabion-{:x}", self.cluster);
        ReceiversReport { cluster, receivers: self.view.receivers().receivers }
    }

    /// Notes what a receiver was told. Of one that is gone nothing is noted.
    pub(super) async fn note_receiver(
        &self,
        (name, created): (&str, u64),
        told: &[ToldCheck],
        trouble: Option<ReceiverTrouble>,
    ) -> Outcome<()> {
        let trouble =
            trouble.map(|trouble| ReceiverTrouble { why: one_line(&trouble.why), ..trouble });
        for _ in 0..ATTEMPTS_MAX {
            let (mut record, expect) = self.receivers_now().await?;
            let is_it = |one: &&mut NoticeReceiver| one.name == name && one.created == created;
            let Some(receiver) = record.receivers.iter_mut().find(is_it) else { return Ok(()) };
            let before = receiver.clone();
            told.iter().for_each(|told| receiver.take(told));
            receiver.trouble = match (&before.trouble, trouble.clone()) {
                // It began when it was first seen.
                (Some(known), Some(new)) => Some(ReceiverTrouble { since: known.since, ..new }),
                (_, new) => new,
            };
            if *receiver == before {
                return Ok(());
            }
            if record.check().is_err() {
                return Err(usage("that is nothing that a receiver was told"));
            }
            match self.put_at(receivers_key(), expect, record.encode()).await {
                Ok(()) => return Ok(()),
                Err(None) => {}
                Err(Some(undecided)) => return Err(undecided.told("what was told was noted")),
            }
        }
        Err(failed("others change the receivers all the time: it is noted with what is told next"))
    }

    async fn receivers_now(&self) -> Outcome<(ReceiversRecord, Expect)> {
        self.only_record(&receivers_key(), ReceiversRecord::decode).await
    }

    /// Writes the record, and waits a moment until this host has it.
    async fn put_receivers(
        &self,
        record: &ReceiversRecord,
        expect: Expect,
        what: &str,
    ) -> Outcome<()> {
        let put = self.put_at(receivers_key(), expect, record.encode()).await;
        put.map_err(|undecided| match undecided {
            None => failed("somebody else changed the receivers meanwhile: try again"),
            Some(undecided) => undecided.told(what),
        })?;
        self.until(|| self.view.receivers() == *record).await;
        Ok(())
    }
}

/// What fits into a record.
fn one_line(why: &str) -> String {
    let mut line: String = why.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    while line.len() > TROUBLE_BYTES_MAX {
        line.pop();
    }
    line
}

fn nobody(name: &str) -> CommandFailure {
    let name = name.escape_debug();
    missing(format!("there is no receiver '{name}': see 'gabion notify list'"))
}
