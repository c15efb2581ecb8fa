// SPDX-License-Identifier: Apache-2.0
//! `GET /metrics`. A listener asks its own shards and nobody else, whoever asks how often.

use super::row::Scrape;
use super::text::{Form, print};
use crate::gather::{AnswerWait, ShardDoor, ask};
use crate::mailbox::exchange;
use crate::problem::Problem;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use history::HistoryCounts;
use notify::ReceiverCounts;
use operator::{CheckState, Command, MetricsReport};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Longest wait for a shard. Prometheus waits ten seconds for all, if it is not told otherwise.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const WAIT: AnswerWait = AnswerWait { first: ANSWER_MAX, all: ANSWER_MAX };
/// The same for a look at how everything is.
const LOOK: AnswerWait = AnswerWait { first: ANSWER_MAX, all: Duration::from_secs(1) };
/// Longest wait for those that came before: then there is nothing to wait for in time.
const TURN_MAX: Duration = Duration::from_secs(4);

/// Says what is shown of health checks: group, id, state.
pub(crate) type CheckStates =
    Arc<dyn Fn() -> Vec<(&'static str, &'static str, CheckState)> + Send + Sync>;

/// Says what became of messages to each receiver of notifications.
pub(crate) type CountsOfReceivers = Arc<dyn Fn() -> Vec<(String, ReceiverCounts)> + Send + Sync>;

/// Says what is counted of the history of performance.
pub(crate) type KeptCounts = Arc<dyn Fn() -> HistoryCounts + Send + Sync>;

/// What a shard says, read into its type at once.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum MetricsReply {
    Ok(Box<MetricsReport>),
    Error(IgnoredAny),
}

fn metrics_within(socket: &Path, patience: Duration) -> Option<MetricsReport> {
    match exchange(socket, &Command::Metrics, patience).ok()? {
        MetricsReply::Ok(report) => Some(*report),
        MetricsReply::Error(_) => None,
    }
}

/// What is told beside what shards say.
#[derive(Clone)]
pub(crate) struct Beside {
    pub(crate) checks: CheckStates,
    pub(crate) receivers: CountsOfReceivers,
    pub(crate) history: KeptCounts,
}

/// The endpoint for these shards. Scrapes take turns.
pub(crate) fn endpoint(shards: Vec<ShardDoor>, beside: Beside) -> MethodRouter {
    let (shards, turn) = (Arc::new(shards), Arc::new(Semaphore::new(1)));
    get(move |request: Request| {
        let (shards, turn) = (Arc::clone(&shards), Arc::clone(&turn));
        let beside = beside.clone();
        async move {
            let Ok(Ok(turn)) = tokio::time::timeout(TURN_MAX, turn.acquire_owned()).await else {
                return Problem::other_scrape().into_response();
            };
            let form = form(&request);
            let said = tokio::task::spawn_blocking(move || {
                // Until the shards have answered, also where whoever asked is gone by then.
                let _turn = turn;
                print(look(&shards, &beside), form)
            });
            match said.await {
                Ok(Ok(text)) => {
                    (StatusCode::OK, [(CONTENT_TYPE, form.content_type())], text).into_response()
                }
                Ok(Err(error)) => Problem::internal(error.to_string()).into_response(),
                Err(error) => Problem::internal(error.to_string()).into_response(),
            }
        }
    })
}

/// Who asks for the older format alone gets it.
fn form(request: &Request) -> Form {
    let accepted = request.headers().get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    match accepted.unwrap_or_default() {
        said if said.contains("application/openmetrics-text") => Form::OpenMetrics,
        said if said.contains("text/plain") => Form::Text,
        _ => Form::OpenMetrics,
    }
}

fn look(shards: &[ShardDoor], beside: &Beside) -> Scrape {
    let begun = Instant::now();
    let (answers, silent) = ask(shards, WAIT, metrics_within);
    let (checks, receivers) = ((beside.checks)(), (beside.receivers)());
    let (took, history) = (begun.elapsed(), (beside.history)());
    Scrape { answers, silent, took, checks, receivers, history }
}

/// What each shard that answers within a second counts and measures.
pub(crate) fn answers(shards: &[ShardDoor]) -> Vec<MetricsReport> {
    ask(shards, LOOK, metrics_within).0
}
