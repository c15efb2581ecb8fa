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
//! | `page` | the page: files that browsers load, without a token |
//! | `problem` | why a request was not carried out |
//! | `mailbox` | the way to a shard |
//! | `metrics` | what a monitoring system is told |
//! | `gather` | one picture of the answers of all shards |
//! | `health` | how everything is: looks, and keeps what changed |
//! | `history` | performance over time: looks, and keeps what was done |
//! | `machine` | what no shard says |
//! | `notifications` | who is told of it |
//! | `configs` | what is written on the machine beside a command |
//! | `access` | who asks, and what they may do |
//! | `secrets` | tokens, codes and passwords |
//! | `joining` | how a machine becomes a host |
//! | `sign_in` | commands that bring or make one |
//! | `audit` | who changed what, from where, and what came of it |
//! | `durable` | files that are whole, whenever the power goes |
//! | `lines` | a file of entries that does not grow for ever |
//! | `certificates` | the cluster's CA, and what listeners prove themselves with |
//! | `server` | the listeners |
//! | `service` | what is done with a request |
//! | `network` | the one on the network: TLS, and a token for everything |
//! | `client` | asks the listener |
//! | `pinned` | the way to a host whose CA is known by its digest alone |
//! | `openapi` | the description of the API |
//!
//! Nothing here is on the data path: a shard is asked through its control socket, and answers when
//! it has time.
#![forbid(unsafe_code)]

mod access;
mod audit;
mod client;
mod configs;
mod events;
mod feed;
mod fields;
mod gather;
mod health;
mod history;
mod joining;
mod lines;
mod lists;
mod machine;
mod mailbox;
mod metrics;
mod network;
mod notifications;
mod once;
mod openapi;
mod page;
mod pattern;
mod pinned;
mod problem;
mod request;
mod routes;
mod secrets;
mod server;
mod service;
mod sign_in;

pub use audit::{AuditEntry, ENTRIES_MAX};
pub use client::{ApiClient, CallError};
pub use configs::{NoConfigs, ShardConfigs};
pub use events::{LAST_EVENT, LISTENERS_MAX};
pub use gather::{ShardDoor, gather};
pub use joining::{Invitation, JoinDoor, JoinError, NoInvitation};
pub use lists::{LISTS, List};
pub use machine::{MachineLook, NoLook};
pub use mailbox::{MailboxError, exchange, status_within};
pub use metrics::{Metric, MetricKind, metrics};
pub use network::NetworkDoor;
pub use once::{KEY_HEADER, KEY_MAX};
pub use openapi::document;
pub use pattern::is_named;
pub use problem::{PROBLEM_JSON, Problem};
pub use request::{ApiRequest, RequestParts};
pub use routes::{
    AskedShards, Method, PREFIX, ROUTES, Route, RouteAnswer, SHARD, Shape, WITHOUT_ROUTE,
};
pub use server::{ApiError, ApiOptions, ApiServer, start};
pub use service::{BODY_MAX, REQUESTS_MAX};
