// SPDX-License-Identifier: Apache-2.0
//! Single hosts of a running cluster on this machine: ended at once, started again.

use super::layout::Layout;
use super::supervisor::{Question, SupervisorAnswer};
use crate::Fail;
use crate::args::Cli;
use crate::client;
use crate::output::{self, say};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Longest wait for a host to end or to be started.
const HOST_MAX: Duration = Duration::from_secs(20);

/// `gabion host kill`.
pub fn kill(cli: &Cli, layout: &Layout, host: &str) -> Result<()> {
    supervise(layout, &Question::Kill(host.to_owned()))?;
    output::print(cli.output, &serde_json::json!({"name": host, "state": "down"}), |_| {
        say!("{host} was killed; start it again with 'gabion host start {host}'");
    })
}

/// `gabion host start`: returns when the host answers.
pub fn start(cli: &Cli, layout: &Layout, host: &str) -> Result<()> {
    supervise(layout, &Question::Start(host.to_owned()))?;
    let until = Instant::now() + HOST_MAX;
    let shards = layout.read()?.map(|cluster| cluster.shards_of(host)).unwrap_or_default();
    let is_up = |shard: &String| client::shard_status(&layout.control_socket(shard)).is_some();
    while !shards.iter().all(is_up) {
        if Instant::now() > until {
            let log = layout.log();
            return Err(Fail::failed(format!(
                "{host} does not get ready: see '{}'",
                log.display()
            ))
            .into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    output::print(cli.output, &serde_json::json!({"name": host, "state": "up"}), |_| {
        say!("{host} is up");
    })
}

fn supervise(layout: &Layout, question: &Question) -> Result<()> {
    let answer = api::exchange(&layout.supervisor_socket(), question, HOST_MAX);
    match answer {
        Ok(SupervisorAnswer::Failed(message)) => Err(Fail::failed(message).into()),
        Ok(_) => Ok(()),
        Err(_) => Err(Fail::failed("the cluster is not running: start it with 'gabion up'").into()),
    }
}
