// SPDX-License-Identifier: Apache-2.0
//! What a monitoring system is told: one table of metrics, each with what it is called, what it
//! says, and where it comes from. `docs/operations/metrics.md` and the endpoint are made from it.
//!
//! | module | what it is |
//! |---|---|
//! | `scrape` | `GET /metrics`: asks the shards, within bounds |
//! | `text` | what is answered |
//! | `table` | all rows |
//! | `checks`, `receivers`, `history`, `cluster` | the rows of what is told beside shards |
//! | `shard`, `traffic`, `group`, `device` | the rows of each shard |
//! | `row` | what a row is, and how it becomes series |

mod checks;
mod cluster;
mod device;
mod group;
mod history;
mod receivers;
mod row;
mod scrape;
mod shard;
mod table;
mod text;
mod traffic;

pub use row::{Metric, MetricKind};
pub(crate) use scrape::{Beside, answers, endpoint};
pub use table::metrics;
