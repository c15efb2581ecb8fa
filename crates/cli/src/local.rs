// SPDX-License-Identifier: Apache-2.0
//! A cluster on this machine, for trying Gabion and for tests: its folder, its devices, and the
//! process that keeps its hosts and its directory running until `gabion down`.
//!
//! Nothing here knows the operator's commands. They see only what is named below: where the hosts
//! of the cluster can be asked. `gabion up`, `down`, `host kill` and `host start` are carried out
//! here.

mod create;
mod directory_home;
mod first_user;
mod layout;
mod lock;
mod one_host;
mod supervisor;
mod up;

pub use layout::{ClusterFile, DATA_DEFAULT, Layout};
pub use one_host::{kill, start};
pub use up::{down, up};
