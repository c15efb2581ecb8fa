// SPDX-License-Identifier: Apache-2.0
//! The API of a cluster: HTTP in front of the operator's commands. Any host answers for all shards
//! that it can ask.
//!
//! | module | what it is |
//! |---|---|
//! | `routes` | the one table of what the API can do |
//! | `events` | those who listen |
//! | `feed` | what changes, for those who listen |
//! | `fields` | the fields of the commands, by the description of their type |
//! | `lists` | lists: filters and pages |
//! | `pattern` | names that are chosen by a pattern |
//! | `request` | from a request to a command, and back |
//! | `once` | requests with a key are carried out once |
//! | `problem` | why a request was not carried out |
//! | `mailbox` | the way to a shard |
//! | `metrics` | what a monitoring system is told |
//! | `gather` | one picture of the answers of all shards |
//! | `server` | the listener |
//! | `openapi` | the description of the API |
//!
//! Nothing here is on the data path: a shard is asked through its control socket, and answers when
//! it has time.
#![forbid(unsafe_code)]

mod events;
mod feed;
mod fields;
mod gather;
mod lists;
mod mailbox;
mod metrics;
mod once;
mod openapi;
mod pattern;
mod problem;
mod request;
mod routes;
mod server;

pub use events::{LAST_EVENT, LISTENERS_MAX};
pub use gather::{ShardDoor, gather};
pub use lists::{LISTS, List};
pub use mailbox::{MailboxError, exchange, status_within};
pub use metrics::{Metric, MetricKind, metrics};
pub use once::{KEY_HEADER, KEY_MAX};
pub use openapi::document;
pub use pattern::is_named;
pub use problem::{PROBLEM_JSON, Problem};
pub use request::{ApiRequest, RequestParts};
pub use routes::{
    AskedShards, Method, PREFIX, ROUTES, Right, Route, RouteAnswer, SHARD, Shape, WITHOUT_ROUTE,
};
pub use server::{ApiError, ApiServer, BODY_MAX, REQUESTS_MAX, start};
