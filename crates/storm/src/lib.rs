// SPDX-License-Identifier: Apache-2.0
//! Fault campaigns in simulation: a whole cluster of production code on modelled disks and links,
//! clients that write and read at random, faults at random moments, and checkers that know what may
//! be read. One seed decides everything; a failing seed is a complete bug report.
#![forbid(unsafe_code)]

mod backups;
mod campaign;
mod cluster;
mod damage;
mod fault;
mod inject;
mod log;
mod mirrors;
mod mutation;
mod plan;
mod records;
mod regressions;
mod rest;
mod rotten;
mod runner;
mod script;
mod shrink;
mod snapshot;
mod story;
mod workload;

pub use campaign::{Outcome, Violation, run};
pub use fault::{Counts, Fault};
pub use log::print_log;
pub use mutation::Mutation;
pub use plan::{Plan, Trim};
pub use regressions::{Regression, regressions};
pub use runner::{Done, Job, plan_of, run_caught};
pub use shrink::Case;
pub use story::Story;
