// SPDX-License-Identifier: Apache-2.0
//! Fault campaigns in simulation. A whole cluster of production code runs on modelled disks and
//! links. Clients write and read at random, and faults come at random moments. Checkers know what
//! each read may return. One seed decides everything, so a failing seed is a complete bug report.
#![forbid(unsafe_code)]

mod backups;
mod campaign;
mod cluster;
mod damage;
mod death;
mod domains;
mod fault;
mod grow;
mod inject;
mod large;
mod late;
mod life;
mod links;
mod liveness;
mod log;
mod long_death;
mod maintenance;
mod mirrors;
mod moves;
mod mutation;
mod operators;
mod oracles;
mod plan;
mod records;
mod regressions;
mod releases;
mod rest;
mod rivals;
mod rotten;
mod runner;
mod script;
mod shrink;
mod snapshot;
mod spare;
mod story;
mod takeover;
mod twins;
mod waits;
mod whole;
mod workload;
mod writers;

pub use campaign::{RunOutcome, Violation, run};
pub use fault::{Counts, Fault};
pub use large::{LargeLoad, LargeOptions, LargeStep, run_large};
pub use log::print_log;
pub use mutation::Mutation;
pub use plan::{Plan, Trim};
pub use regressions::{Regression, regressions};
pub use runner::{SeedDone, SeedJob, on_threads, plan_of, run_caught};
pub use shrink::Case;
pub use story::Story;
