// SPDX-License-Identifier: Apache-2.0
//! Where `notify` sees what is to be told: what this host's look at everything found, and what the
//! directory says of receivers.

use crate::gather::ShardDoor;
use crate::health::HealthWatch;
use crate::mailbox::exchange;
use crate::once::Outcome;
use crate::problem::Problem;
use notify::{ClusterName, Notifier, NotifySource, ReceiverCounts, Sight};
use operator::{
    AdmissionStep, Command, CommandReply, NotifyTestReport, ReceiverTrouble, ReceiversReport,
    ToldCheck,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a shard.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The same where the directory is written.
const NOTE_MAX: Duration = Duration::from_secs(10);

/// What a host sees.
pub struct HostSight {
    shards: Vec<ShardDoor>,
    health: Arc<HealthWatch>,
    /// Where the page is on the network.
    link: Option<String>,
}

impl HostSight {
    /// Of these shards; `address`: where the API is on the network.
    pub fn new(
        shards: Vec<ShardDoor>,
        health: Arc<HealthWatch>,
        address: Option<SocketAddr>,
    ) -> Self {
        // One that listens on all of its addresses does not say at which it is reached.
        let known = address.filter(|address| !address.ip().is_unspecified());
        let link = known.map(|address| format!("https://{address}/#/health"));
        Self { shards, health, link }
    }

    /// The answer of the first shard that has one.
    fn ask(&self, step: AdmissionStep, patience: Duration) -> Option<CommandReply> {
        let command = Command::Admission(step);
        self.shards.iter().find_map(|(_, socket)| exchange(socket, &command, patience).ok())
    }

    fn receivers(&self) -> Option<ReceiversReport> {
        match self.ask(AdmissionStep::ReceiversGet, ANSWER_MAX)? {
            CommandReply::Ok(value) => serde_json::from_value(value).ok(),
            CommandReply::Error(_) => None,
        }
    }

    fn cluster(&self, name: String, host: Option<String>) -> ClusterName {
        ClusterName { name, host: host.unwrap_or_default(), link: self.link.clone() }
    }
}

impl NotifySource for HostSight {
    fn see(&self) -> Sight {
        // Before somebody has looked there is nothing to tell, and no shard is asked.
        let Some((host, before)) = self.health.turn() else { return Sight::default() };
        let said = self.receivers().map(|said| (said.cluster, said.receivers));
        let (cluster, receivers) = said.unzip();
        let cluster = self.cluster(cluster.unwrap_or_default(), Some(host));
        Sight { cluster, checks: self.health.report().checks, receivers, before: Some(before) }
    }

    fn note(
        &self,
        (name, created): (&str, u64),
        told: &[ToldCheck],
        trouble: Option<ReceiverTrouble>,
    ) -> bool {
        let (name, told) = (name.to_owned(), told.to_vec());
        let step = AdmissionStep::ReceiverNote { name, created, told, trouble };
        matches!(self.ask(step, NOTE_MAX), Some(CommandReply::Ok(_)))
    }
}

/// Tells receivers, if anybody is told.
#[derive(Clone)]
pub struct Teller {
    sight: Arc<HostSight>,
    notifier: Option<Arc<Notifier>>,
}

impl Teller {
    /// Begins to tell, if `tells`. Where the system gives no thread, nobody is told, and the log
    /// says so.
    pub fn start(sight: HostSight, tells: bool) -> Self {
        let sight = Arc::new(sight);
        let begun = tells.then(|| Notifier::start(Arc::clone(&sight) as _));
        let notifier = begun.and_then(|begun| match begun {
            Ok(notifier) => Some(Arc::new(notifier)),
            Err(error) => {
                tracing::error!(%error, "nobody is told of what health checks find");
                None
            }
        });
        Self { sight, notifier }
    }

    /// What became of messages to each receiver.
    pub fn counts(&self) -> Vec<(String, ReceiverCounts)> {
        self.notifier.as_ref().map(|notifier| notifier.counts()).unwrap_or_default()
    }

    /// Answers a command about messages. May take half a minute.
    pub fn answer(&self, command: &Command) -> Outcome {
        let Command::NotifyTest { name } = command else {
            return Err(Problem::internal("this is no command about messages"));
        };
        let Some(notifier) = &self.notifier else {
            return Err(Problem::failed("this host tells nobody of what health checks find"));
        };
        let said = self.sight.receivers();
        let said = said.ok_or_else(|| Problem::no_host("no host answers: see 'gabion status'"))?;
        let receiver = said.receivers.into_iter().find(|receiver| receiver.name == *name);
        let receiver = receiver.ok_or_else(|| {
            let name = name.escape_debug();
            Problem::not_found(format!("there is no receiver '{name}': see 'gabion notify list'"))
        })?;
        let host = self.sight.health.turn().map(|(host, _)| host);
        let (cluster, created) = (self.sight.cluster(said.cluster, host), receiver.created);
        let (id, answer) = notifier
            .test(receiver, &cluster)
            .map_err(|error| Problem::failed(format!("receiver '{name}' was not told: {error}")))?;
        // What waits for it is told at the next look.
        self.sight.note((name, created), &[], None);
        let report = NotifyTestReport { name: name.clone(), answer, id };
        serde_json::to_value(report).map_err(|error| Problem::internal(error.to_string()))
    }
}
