// SPDX-License-Identifier: Apache-2.0
//! Rules of a cluster's care for its copies that campaigns break on purpose, to see that breaking
//! them is noticed.
//!
//! Builds for production contain none of this: see `base::mutations!`.

base::mutations! {
    /// Copies are placed and moved as if no fault domain had been made.
    ignore_domains: "domains",
    /// Copies are placed and moved as if each shard were a host of its own.
    ignore_machines: "machines",
    /// Volumes that are kept on one host move as any other.
    ignore_affinity: "affinity",
    /// A component without a record is deleted although no record says that its object was.
    delete_unnamed: "40",
    /// A host takes itself out of the record of what is deleted while it still has something.
    settle_early: "40",
}
