// SPDX-License-Identifier: Apache-2.0
//! The replication protocol as a model: small clusters, all of whose states are looked at.
//!
//! It has hosts that crash, a directory whose CASes land late, frames that are delayed, reordered
//! and lost, leases that end, an owner that runs on, take-over, absence and return. The storm runs
//! the code against random faults; this runs the rules against every order of a few.
//!
//! Guarantees: within the bounds of a setup a search that ends as *complete* has met every state.
//! Each rule in `mirror::MUTATIONS` is noticed when broken: in a setup whose search ends as
//! complete with the rules as written, the search then finds a counterexample. Non-guarantees:
//! nothing is said of larger clusters, and nothing of the code; what the model leaves out is listed
//! in `docs/campaign.md`.
#![forbid(unsafe_code)]

mod fingerprint;
pub mod histories;
pub mod mirror;
pub mod search;
pub mod writers;
