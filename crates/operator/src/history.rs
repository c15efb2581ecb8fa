// SPDX-License-Identifier: Apache-2.0
//! Performance over time: what shards counted between two looks, for each volume, shard, disk group
//! and device, and how that is added up over time and over hosts.
//!
//! All of it is sums. What was counted adds up, histograms add up class by class, and what is a
//! state (the fill of a buffer, writes that wait) is kept as its value times how long it was so. So
//! no order of adding gives another result, and percentiles and means are taken at the very end.
//!
//! | module | what it is |
//! |---|---|
//! | `report` | what is answered |
//! | `point` | records as rates, means and percentiles |
//! | `series` | points over a time, of one object |
//! | `look` | two looks at a shard become records |
//! | `codec` | bytes of a file; `docs/formats/performance-history.md` |
//! | `bucket` | the records of all objects in one span of time |
//! | `resolution` | how fine is kept for how long |
//! | `record`, `measure` | what was counted of one object, and what can be |

mod bucket;
mod codec;
mod look;
mod measure;
mod point;
mod record;
mod report;
mod resolution;
mod series;
#[cfg(test)]
mod tests;

pub use bucket::{DEVICES_MAX, GROUPS_MAX, HistoryBucket, SHARDS_MAX, VOLUMES_MAX};
pub use codec::{
    HistoryFormatError, decode_block, decode_bucket, decode_bucket_of, encode_block, encode_bucket,
};
pub use look::{HistoryLooks, LOOK_MS_MAX};
pub use measure::{HistoryKind, HistoryMeasure, HistoryOperation};
pub use point::percentile;
pub use record::HistoryRecord;
pub use report::{
    OperationPoint, PerformanceKind, PerformancePoint, PerformanceReport, PerformanceRow,
    PerformanceTop,
};
pub use resolution::{HistoryResolution, RESOLUTIONS};
pub use series::{HistorySpan, POINTS_DEFAULT, POINTS_MAX, points, wanted};
