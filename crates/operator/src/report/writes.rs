// SPDX-License-Identifier: Apache-2.0
//! Where the time of writes goes.

use env::WriteStage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the time of writes goes on one host, since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WritesReport {
    /// Name of its host.
    pub host: String,
    /// In the order of a write's way; each lies within the one that waits for it.
    pub stages: Vec<StageReport>,
}

/// One stage of a write's way. One pass in a hundred is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageReport {
    /// `request`, `turn`, `copy here`, `copy there`, `append` or `commit`.
    pub stage: String,
    /// How often it was gone through.
    pub passed: u64,
    /// How many of these were measured.
    pub measured: u64,
    /// Microseconds, of the measured ones.
    pub mean_us: f64,
    /// Half of them took at most so many microseconds, right to an eighth.
    pub median_us: f64,
    /// 99 of 100 took at most so many.
    pub p99_us: f64,
    /// The longest.
    pub longest_us: f64,
}

impl WritesReport {
    /// Of the host of this name, whose `env` it is.
    #[must_use]
    pub fn new(host: String, env: &env::Env) -> Self {
        let of = |stage| StageReport::new(stage, &env.stage_times(stage));
        Self { host, stages: env::WRITE_STAGES.map(of).into() }
    }
}

impl StageReport {
    fn new(stage: WriteStage, times: &env::StageTimes) -> Self {
        let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        Self {
            stage: name_of(stage).to_owned(),
            passed: times.passed,
            measured: times.latencies.count().into(),
            mean_us: micros(times.mean()),
            median_us: micros(times.latencies.median()),
            p99_us: micros(times.latencies.at_most(990)),
            longest_us: micros(times.latencies.max()),
        }
    }
}

pub(super) fn name_of(stage: WriteStage) -> &'static str {
    match stage {
        WriteStage::Request => "request",
        WriteStage::Turn => "turn",
        WriteStage::CopyHere => "copy here",
        WriteStage::CopyThere => "copy there",
        WriteStage::Append => "append",
        WriteStage::Commit => "commit",
    }
}
