// SPDX-License-Identifier: Apache-2.0
//! Fault campaigns in simulation: a whole cluster of production code on modelled disks and links,
//! clients that write and read at random, faults at random moments, and checkers that know what may
//! be read. One seed decides everything; a failing seed is a complete bug report.
#![forbid(unsafe_code)]

mod campaign;
mod cluster;
mod mirrors;
mod mutation;
mod oracle;
mod plan;
mod records;
mod regressions;
mod runner;
mod script;
mod workload;

pub use campaign::{Outcome, Violation, run};
pub use mutation::Mutation;
pub use oracle::{Author, Oracle, ReadId, WriteId, Wrong, fill};
pub use plan::{Fault, Plan, Story};
pub use regressions::{Regression, regressions};
pub use runner::{Done, Job, plan_of, run_caught};
